"""A catalog that cannot be synced after a save: the rows are stored, and the save says it."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyspark.errors import PySparkException

import pyhudi
import pyhudi.spark as hudi

ROOT = Path(__file__).parents[2]
KEYS = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
SYNC = "hoodie.datasource.hive_sync."
UNREACHABLE = {SYNC + "enable": "true", SYNC + "metastore.uris": "thrift://127.0.0.1:1"}


@pytest.fixture(params=["source", "enabled"])
def session(spark: Any, request: pytest.FixtureRequest) -> Iterator[Any]:
    if request.param == "enabled":
        hudi.enable(spark)
    yield spark
    hudi.disable(spark)


def save(spark: Any, path: Path, **options: str) -> None:
    frame = spark.createDataFrame([("a", 1)], "id string, n long")
    frame.write.format("pyhudi").options(**KEYS, **options).mode("append").save(str(path))


@pytest.mark.pyspark("4.0")
def test_a_save_raises_the_failure_and_keeps_the_rows(session: Any, tmp_path: Path) -> None:
    with pytest.raises((pyhudi.CatalogError, PySparkException)) as raised:
        save(session, tmp_path / "t", **UNREACHABLE)
    text = str(raised.value)
    assert "the rows are committed, but a catalog was not synced" in text
    assert "thrift://127.0.0.1:1" in text and SYNC + "ignore_exceptions=true" in text
    assert pyhudi.open_table(tmp_path / "t").count() == 1


def test_ignore_exceptions_only_logs_the_failure(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    hudi.enable(spark)
    try:
        save(spark, tmp_path / "t", **UNREACHABLE, **{SYNC + "ignore_exceptions": "true"})
    finally:
        hudi.disable(spark)
    assert pyhudi.open_table(tmp_path / "t").count() == 1
    found = [
        r for r in caplog.records if r.getMessage().startswith("catalog sync with hive failed")
    ]
    assert [record.levelno for record in found] == [logging.WARNING]


@pytest.mark.slow
@pytest.mark.pyspark("4.0")
def test_the_data_source_prints_its_warnings_on_the_driver(tmp_path: Path) -> None:
    options = {**KEYS, **UNREACHABLE, SYNC + "ignore_exceptions": "true"}
    program = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        ".getOrCreate()\n"
        f"writer = spark.range(1).write.format('pyhudi').options(**{options!r})\n"
        f"writer.mode('append').save({str(tmp_path / 't')!r})\n"
    )
    environment = {**os.environ, "PYSPARK_PYTHON": sys.executable, "PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr[-3000:]
    assert "WARNING pyhudi: catalog sync with hive failed" in done.stderr


def test_a_write_of_the_python_api_says_it_in_its_report_and_log(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = pa.table({"id": ["a"], "n": [1]})
    pyhudi.create_table(tmp_path / "t", rows, record_key="id")
    report = pyhudi.open_table(tmp_path / "t", options=UNREACHABLE).upsert(rows)
    assert any("catalog sync with hive failed" in note for note in report.notes)
    (line,) = [r for r in caplog.records if r.getMessage().startswith("catalog sync with hive")]
    assert line.levelno == logging.WARNING and report.instant in line.getMessage()


def test_a_server_of_lineage_never_fails_a_save(session: Any, tmp_path: Path) -> None:
    save(session, tmp_path / "t", **{"pyhudi.openlineage.url": "http://127.0.0.1:1"})
    assert pyhudi.open_table(tmp_path / "t").count() == 1

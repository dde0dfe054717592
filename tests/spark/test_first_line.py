"""What Spark shows of an error begins with the line of the pyhudi error, not with a traceback."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyspark
import pytest
from pyspark.errors import PySparkException

import pyhudi
import pyhudi.spark as hudi

ROOT = Path(__file__).parents[2]
ROWS = pa.table({"id": ["a", "b"], "ts": [1, 2]})
KEYS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    made = pyhudi.create_table(
        tmp_path / "t", ROWS.schema, record_key="id", ordering="ts", table_type="mor"
    )
    made.bulk_insert(ROWS)
    made.upsert(ROWS)
    return tmp_path / "t"


def released() -> tuple[int, ...]:
    return tuple(int(part) for part in pyspark.__version__.split(".")[:2])


def beginning(error: PySparkException) -> str:
    """Everything before the first traceback."""
    return str(error).partition("Traceback")[0]


def test_opening_what_is_no_table(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(PySparkException) as raised:
        spark.read.format("pyhudi").load(str(tmp_path / "nothing"))
    assert "TableNotFoundError: no Hudi table at this path" in beginning(raised.value)
    assert "pyhudi.create_table" in beginning(raised.value).splitlines()[0]


def test_an_unknown_option_name(spark: Any, path: Path) -> None:
    with pytest.raises(PySparkException) as raised:
        spark.read.format("pyhudi").option("hoodie.nope", "1").load(str(path))
    assert "OptionError: unknown option; option=hoodie.nope" in beginning(raised.value)


def damage(path: Path) -> None:
    log = next(path.rglob(".*.log.*"))
    log.write_bytes(b"#NOLOG" + log.read_bytes()[6:])


@pytest.mark.parametrize("through", ["source", "verb"])
def test_a_damaged_file_met_by_a_task(spark: Any, path: Path, through: str) -> None:
    if through == "source":
        frame = spark.read.format("pyhudi").load(str(path))
    else:
        frame = hudi.open_table(spark, path).scan()
    damage(path)
    with pytest.raises(PySparkException) as raised:
        frame.collect()
    assert "CorruptFileError: a log file must begin with #HUDI#" in beginning(raised.value)


def test_rows_that_a_write_refuses(spark: Any, path: Path) -> None:
    frame = spark.createDataFrame([(None, 3)], "id string, ts bigint")
    with pytest.raises(PySparkException) as raised:
        frame.write.format("pyhudi").options(**KEYS).mode("append").save(str(path))
    assert "UserError: a record key is null or empty" in beginning(raised.value)


@pytest.mark.skipif(released() < (4, 3), reason="older releases always send the traceback")
@pytest.mark.parametrize("step", ["plan", "task", "commit"])
def test_no_traceback_of_python_surrounds_it(spark: Any, path: Path, step: str) -> None:
    reader = spark.read.format("pyhudi")
    rows = spark.createDataFrame([(None, 3)], "id string, ts long")
    frame = reader.load(str(path))
    with pytest.raises(PySparkException) as raised:
        if step == "plan":
            reader.option("hoodie.nope", "1").load(str(path))
        elif step == "task":
            damage(path)
            frame.collect()
        else:
            rows.write.format("pyhudi").options(**KEYS).mode("append").save(str(path))
    assert "Traceback" not in str(raised.value)
    assert str(raised.value).count("pyhudi.errors.") == 1


@pytest.mark.slow
@pytest.mark.pyspark("4.0")
def test_a_python_without_the_libraries_is_named_with_the_variable_to_set(tmp_path: Path) -> None:
    bare = tmp_path / "python3"
    hidden = tmp_path / "hidden"
    (hidden / "pyarrow").mkdir(parents=True)
    (hidden / "pyarrow" / "__init__.py").write_text(
        "raise ModuleNotFoundError('no pyarrow', name='pyarrow')"
    )
    bare.write_text(f'#!/bin/sh\nPYTHONPATH={hidden}:$PYTHONPATH exec {sys.executable} "$@"\n')
    bare.chmod(0o755)
    program = (
        "from pyspark.sql import SparkSession\n"
        "spark = SparkSession.builder.master('local[1]').config('spark.ui.enabled', 'false')"
        ".getOrCreate()\n"
        "spark.read.format('pyhudi').load('nowhere')\n"
    )
    environment = {**os.environ, "PYSPARK_PYTHON": str(bare), "PYTHONPATH": str(ROOT)}  # fmt: skip
    done = subprocess.run(
        [sys.executable, "-c", program], env=environment, cwd=tmp_path, capture_output=True,
        text=True, timeout=300,
    )  # fmt: skip
    assert "the Python that Spark started lacks a library; library=pyarrow" in done.stderr
    assert "set PYSPARK_PYTHON to the Python of your program" in done.stderr

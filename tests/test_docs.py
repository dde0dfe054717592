"""Every Python block of the README and of the pages below docs/ runs.

A block may use the names that `names` gives: a merge-on-read table of two commits in `table`, and
what the text around the block states.  Pages of OWN_TESTS have other tests, and pages in folders
of docs/ are in tests/test_walkthroughs.py.
"""

from __future__ import annotations

import os
import re
import zlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from tests.support.foreign import foreign_table
from tests.support.object_stores import shared_s3
from tests.support.spark_views import drop_views

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
OWN_TESTS = ("integrations.md", "ingest.md", "catalogs.md")
"""Pages whose blocks run in tests of their areas."""
COMPILED_ONLY = ("hdfs://", "Action.X", "import daft")
"""Blocks that name servers or libraries which are not here, or that are a sketch."""
SCHEMA = pa.schema(
    [
        ("id", pa.string()), ("city", pa.string()), ("fare", pa.float64()), ("ts", pa.int64()),
        ("x", pa.float64()), ("y", pa.float64()), ("name", pa.string()), ("count", pa.int64()),
        ("at", pa.int64()), ("host", pa.string()), ("day", pa.string()),
    ]
)  # fmt: skip


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text("utf-8"), re.DOTALL)


def rows(ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [
            {"id": f"k{n}", "city": "sf", "fare": 1.0 * n, "ts": ts, "x": 1.0 * n, "y": 2.0,
             "name": "ada", "count": n, "at": 0, "host": "h", "day": "2026-11-22"}
            for n in range(4)
        ],
        SCHEMA,
    )  # fmt: skip


def names(folder: Path, block: str) -> dict[str, Any]:
    """What a block may use; where it creates its own table, `path` is free."""
    found: dict[str, Any] = {
        "pa": pa, "pc": pc, "pyhudi": pyhudi, "numpy": numpy, "zlib": zlib, "schema": SCHEMA,
        "rows": rows(3), "keys": ["k1", "nobody"], "column": pa.array(["k1"]), "since": "000",
        "path": str(folder / "new"), "stream_into": lambda table: table.upsert(rows(4)),
    }  # fmt: skip
    if "create_table(" in block and "create_table" not in block.replace("create_table(", ""):
        return found
    path = folder / "data" / "trips"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="city", ordering="ts", table_type="mor",
        version=6 if "upgrade(" in block else None,
    )  # fmt: skip
    first = table.insert(rows(1)).instant
    newest = table.upsert(rows(2)).instant
    found |= {"path": str(path), "table": table, "instant": newest}
    if "# to version 6" in block:
        found["table"] = pyhudi.open_table(foreign_table("mor_v3", folder))
    if "table.restore(" in block:
        found["instant"] = first
    return found


def runs_here(block: str) -> bool:
    return not any(word in block for word in COMPILED_ONLY)


def needs_spark(block: str) -> bool:
    return any(word in block for word in ("hudi.spark", "spark.", "df."))


def cases(*, spark: bool) -> list[Any]:
    return [
        pytest.param(block, id=f"{page.name}-{number}")
        for page in PAGES
        if page.name not in OWN_TESTS
        for number, block in enumerate(blocks(page), 1)
        if needs_spark(block) is spark
    ]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path) -> Iterator[Path]:
    before = Path.cwd()
    os.chdir(tmp_path)
    yield tmp_path
    os.chdir(before)


@pytest.mark.parametrize("block", cases(spark=False))
def test_a_block_of_the_documentation_runs(
    block: str, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    code = compile(block, "<documentation>", "exec")
    if "s3://" in block:
        run_on_s3(block, monkeypatch)
    elif "/data/old_table" in block:
        path = foreign_table("bootstrapped_v8", folder)
        exec(
            block.replace("/data/old_table", str(path.parent / "source")),
            {"pyhudi": pyhudi, "path": path},
        )
    elif runs_here(block):
        exec(code, names(folder, block))


def run_on_s3(block: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With the server of this machine, in the environment and in the options."""
    options = shared_s3().options
    for name, value in {**options, "allow_http": "true"}.items():
        monkeypatch.setenv(f"AWS_{name.upper()}", value)
    pyhudi.create_table("s3://bucket/trips", SCHEMA, record_key="id", storage_options=options)
    exec(block.replace("http://127.0.0.1:9000", options["endpoint"]), {"pyhudi": pyhudi})


@pytest.mark.spark
@pytest.mark.parametrize("block", cases(spark=True))
def test_a_block_of_the_documentation_runs_on_spark(spark: Any, block: str, folder: Path) -> None:
    import pyhudi.spark as hudi

    trips = pa.Table.from_pylist(
        [{"id": "a", "uuid": "a", "city": "sf", "fare": 12.0, "ts": 1}],
    )
    frame = spark.createDataFrame(trips.to_pylist())
    found = {
        "spark": spark, "hudi": hudi, "pa": pa, "pc": pc, "df": frame, "path": str(folder / "t"),
        "c": str(folder / "checkpoint"),
    }  # fmt: skip
    if "writeStream" in block:
        hudi.upsert(frame, folder / "t", record_key="id", partition_by=["city"], ordering="ts")
        frame.write.parquet(str(folder / "source"))
        found["df"] = spark.readStream.schema(frame.schema).parquet(str(folder / "source"))
        found["options"] = {"hoodie.datasource.write.recordkey.field": "id"}
    later = block.replace("2026-11-21", "2999-12-31")  # the table of the test is new
    exec(compile(later, "<documentation>", "exec"), found)
    for query in spark.streams.active:
        query.processAllAvailable()
        query.stop()
    drop_views(spark)

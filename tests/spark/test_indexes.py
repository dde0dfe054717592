"""Every index on Spark: the same rows as on one machine, and tasks that pickle."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
import pyhudi.spark as hudi
from pyhudi.options import IndexKind

SCHEMA = "id string, ts long, part string"
KINDS = [kind.value for kind in IndexKind if kind not in (IndexKind.RECORD, IndexKind.HBASE)]
Rows = list[tuple[str, int, str]]


def turns() -> list[Rows]:
    """Rows of three batches; some keys come with another partition than before."""
    return [
        [(f"k{n:03d}", turn, f"p{(n + (turn if n % 4 == 0 else 0)) % 3}") for n in numbers]
        for turn, numbers in enumerate((range(60), range(30, 90), range(0, 120, 3)))
    ]


def stored(table: Any) -> Rows:
    found = table.to_arrow() if isinstance(table, pyhudi.Scan) else table.toArrow()
    return sorted((r["id"], r["ts"], r["part"]) for r in found.to_pylist())


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("index", KINDS)
def test_spark_finds_what_one_machine_finds(
    index: str, kind: str, spark: Any, tmp_path: Path
) -> None:
    options = {"hoodie.bucket.index.num.buckets": 3}
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
    facts: dict[str, Any] = {
        "record_key": "id", "partition_by": "part", "ordering": "ts", "index": index,
        "table_type": kind, "options": options,
    }  # fmt: skip
    here = pyhudi.create_table(tmp_path / "here", schema, **facts)
    there = hudi.create_table(spark, tmp_path / "there", schema, **facts)
    for rows in turns():
        frame = spark.createDataFrame(rows, SCHEMA)
        local = here.upsert(pa.table(dict(zip(schema.names, zip(*rows, strict=True), strict=True))))
        report = there.upsert(frame)
        assert (report.inserted, report.updated) == (local.inserted, local.updated)
        assert index.replace("_", " ") in report.index
    gone = [row for row in stored(here.scan(["id", "ts", "part"])) if row[1] == 1][::2]
    here.delete(pa.table(dict(zip(schema.names, zip(*gone, strict=True), strict=True))))
    there.delete(spark.createDataFrame(gone, SCHEMA))
    for table in (here, there):
        table.delete(where=(pc.field("ts") == 2) & (pc.field("part") == "p1"))
        table.delete(keys=["k000", "k030"])
    want = stored(here.scan(["id", "ts", "part"]))
    assert len(want) > 30
    assert stored(there.scan(["id", "ts", "part"])) == want

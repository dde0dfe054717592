"""Every index on Spark: the same rows as on one machine, and tasks that pickle."""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
import pyhudi.spark as hudi
from pyhudi.metadata.record_index import hash_functions
from pyhudi.options import IndexKind
from pyhudi.spark.frames import collected

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
    found = table.to_arrow() if isinstance(table, pyhudi.Scan) else collected(table)
    return sorted((r["id"], r["ts"], r["part"]) for r in found.to_pylist())


@pytest.mark.covering(1, most=4)
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


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_every_copy_of_a_doubled_key_is_deleted_on_spark(
    kind: str, spark: Any, tmp_path: Path
) -> None:
    table = hudi.create_table(
        spark, tmp_path / "t",
        pa.schema({"id": pa.string(), "ts": pa.int64(), "part": pa.string()}),
        record_key="id", partition_by="part", table_type=kind,
        options={"hoodie.metadata.record.index.min.filegroup.count": 2},
    )  # fmt: skip
    table.bulk_insert(spark.createDataFrame([("a", 1, "x"), ("b", 1, "x"), ("c", 1, "y")], SCHEMA))
    table.bulk_insert(spark.createDataFrame([("a", 2, "x"), ("b", 2, "y"), ("c", 2, "y")], SCHEMA))
    table.delete(where=(pc.field("id") == "a") & (pc.field("ts") == 1))
    table.delete(spark.createDataFrame([("b", "x")], "id string, part string"))
    assert stored(table.scan(["id", "ts", "part"])) == [("a", 2, "x"), ("c", 1, "y"), ("c", 2, "y")]
    table.delete(keys=["c"])
    table.delete(where=pc.field("id") == "a")
    assert stored(table.scan(["id", "ts", "part"])) == []


def test_a_hash_of_ones_own_travels_to_the_tasks_of_an_elastic_index(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Registered in this process only; the index has grown into a second group by then."""
    monkeypatch.setattr(hash_functions, "_REGISTERED", {})
    pyhudi.register_hash(
        "crc",
        lambda keys: np.array([zlib.crc32(k.encode()) for k in keys.to_pylist()], np.uint32),
    )
    schema = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
    options = {
        "pyhudi.index.elastic.growth": "GROUPS",
        "pyhudi.index.elastic.hash": "crc",
        "pyhudi.index.elastic.bucket.entries": 10,
        "hoodie.metadata.record.index.min.filegroup.count": 2,
    }
    there = hudi.create_table(
        spark, tmp_path / "t", schema, record_key="id", partition_by="part", index="elastic",
        options=options,
    )  # fmt: skip
    first, second, third = (spark.createDataFrame(rows, SCHEMA) for rows in turns())
    assert there.upsert(first).inserted == 60
    report = there.upsert(second)
    assert (report.inserted, report.updated) == (30, 30)
    assert report.lookup["files"] >= 2 and report.lookup["seconds"] > 0
    assert there.upsert(third).inserted == 10
    here = pyhudi.open_table(tmp_path / "t")
    assert here.index.verify().is_exact and here.scan().count() == 100
    assert len(here.index.stats().groups) > 1

"""Tables of versions 8 and 9 on the engine of Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.spark import SparkEngine

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])


def rows(ids: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{i}", "ts": ts, "part": f"p{i % 2}"} for i in ids], SCHEMA
    )


@pytest.mark.parametrize(("version", "kind"), [(9, "cow"), (9, "mor"), (8, "mor")])
def test_writes_and_services_on_spark_leave_the_rows_of_a_dict(
    spark: Any, tmp_path: Path, version: int, kind: str
) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="part", ordering="ts",
        table_type=kind, version=version, engine=SparkEngine(spark),
    )  # fmt: skip
    table.bulk_insert(rows(range(40), 1))
    table.upsert(rows(range(20, 60), 2))
    table.delete(keys=["k3", "k33"])
    expected = {f"k{i}": 1 if i < 20 else 2 for i in range(60) if i not in (3, 33)}
    for service in (table.compact, table.cluster) if kind == "mor" else (table.cluster,):
        service()
        found = table.scan(["id", "ts"]).to_arrow().to_pylist()
        assert {row["id"]: row["ts"] for row in found} == expected and len(found) == len(expected)
        table.upsert(rows(range(2), 3))
        expected |= {"k0": 3, "k1": 3}
    assert table.scan().count() == len(expected)
    assert table.lookup(["k0", "k3"])["found"].to_pylist() == [True, False]
    assert table.doctor().is_healthy

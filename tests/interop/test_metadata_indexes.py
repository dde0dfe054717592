"""Indexes created on request are used and maintained by Apache Hudi."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop

SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("a", pa.int64()), ("b", pa.int64())]
)
ENABLED = {
    "hoodie.metadata.enable": "true",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.column.stats.column.list": "id,part,a",
    "hoodie.metadata.index.partition.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
}
FILTERS = {
    "a = 105": pc.field("a") == 105, "a > 380": pc.field("a") > 380, "b = -7": pc.field("b") == -7,
    "id = 'k011'": pc.field("id") == "k011",
    "part = 'p1' and a < 20": (pc.field("part") == "p1") & (pc.field("a") < 20),
}  # fmt: skip


def rows(numbers: range, version: int) -> pa.Table:
    return pa.table(
        {
            "id": [f"k{n:03}" for n in numbers],
            "part": [f"p{n // 20}" for n in numbers],
            "a": [n * 10 + version for n in numbers],
            "b": [-n for n in numbers],
        },
        SCHEMA,
    )


def check(table: pyhudi.Table, hudi: ApacheHudi, path: Path) -> None:
    """Both find the rows that a scan of every file finds, Apache Hudi in fewer files."""
    assert not table.metadata.verify().findings
    hudi.call("validate", path=str(path))
    conf = {**ENABLED, "hoodie.enable.data.skipping": "false"}
    plain = hudi.call("counted", path=str(path), wheres=list(FILTERS), conf=conf)
    conf["hoodie.enable.data.skipping"] = "true"
    fewer = set()
    for (text, where), count in zip(FILTERS.items(), plain["rows"], strict=True):
        skipping = hudi.call("scanned", path=str(path), where=text, conf=conf)
        mine = table.scan(["id"], where).to_arrow().num_rows
        assert mine == count == skipping["rows"], text
        if skipping["files"] < plain["files"]:
            fewer.add(text)
    assert fewer >= {"a = 105", "a > 380"}


@pytest.mark.slow
@pytest.mark.parametrize("version", [9])
def test_apache_hudi_uses_and_continues_indexes_created_on_request(
    version: int, tmp_path: Path, apache_hudi: Callable[[str], ApacheHudi]
) -> None:
    hudi, path = apache_hudi("1.2.0"), tmp_path / "t"
    pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="a", table_type="mor",
        version=version,
    ).bulk_insert(rows(range(60), 1))  # fmt: skip
    table = pyhudi.open_table(path)
    table.index.drop("record")
    for kind in ("column_stats", "partition_stats", "bloom_filters", "record"):
        table.index.create(kind, ["id", "part", "a"] if kind == "column_stats" else None)
    check(table, hudi, path)
    table.upsert(rows(range(10, 14), 5))
    table.index.drop("bloom_filters")
    table.index.create("bloom_filters")
    check(table, hudi, path)
    more = tmp_path / "more.parquet"
    pq.write_table(rows(range(50, 70), 7), more)
    hudi.call("write", path=str(path), rows=str(more), operation="upsert", conf=ENABLED)
    listed = table.index.list().column("name").to_pylist()
    assert listed == ["bloom_filters", "column_stats", "partition_stats", "record_index"]
    check(table, hudi, path)
    table.upsert(rows(range(65, 80), 8))
    table.delete(keys=["k003"])
    check(table, hudi, path)

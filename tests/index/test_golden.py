"""Every index on tables that Apache Hudi wrote with it: a copy is written to and read back."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.memory import MemoryFileSystem
from tests.support.golden import golden_table

TABLES = [
    ("cow_bloom", IndexKind.BLOOM),
    ("cow_bloom", IndexKind.SIMPLE),
    ("cow_global_bloom", IndexKind.GLOBAL_BLOOM),
    ("cow_global_bloom", IndexKind.GLOBAL_SIMPLE),
    ("cow_simple", IndexKind.SIMPLE),
    ("cow_simple", IndexKind.BLOOM),
    ("cow_rli_h120", IndexKind.GLOBAL_BLOOM),
    ("mor_bloom", IndexKind.BLOOM),
    ("mor_bucket", IndexKind.BUCKET),
    ("mor_global_simple", IndexKind.GLOBAL_SIMPLE),
    ("mor_global_simple", IndexKind.GLOBAL_BLOOM),
    ("mor_rli_parquet", IndexKind.GLOBAL_SIMPLE),
    ("kg_nonpart_mor", IndexKind.SIMPLE),
    ("kg_complex", IndexKind.BLOOM),
]


def opened(fs: MemoryFileSystem, kind: IndexKind) -> Table:
    options = {"hoodie.index.type": kind.option, "hoodie.record.index.update.partition.path": True}
    if kind is IndexKind.BUCKET:
        options["hoodie.bucket.index.num.buckets"] = 4
    return Table(fs, options=parse_options(options), engine=LocalEngine(2))


def by_key(table: pa.Table) -> dict[tuple[str, str], dict[str, Any]]:
    rows = {(r["_hoodie_partition_path"], r["_hoodie_record_key"]): r for r in table.to_pylist()}
    assert len(rows) == table.num_rows, "a key is there twice"
    return rows


def plain(row: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in row.items() if not name.startswith("_hoodie")}


@pytest.mark.parametrize(("name", "kind"), TABLES, ids=lambda v: getattr(v, "value", v))
def test_updates_inserts_and_deletes_find_their_records(name: str, kind: IndexKind) -> None:
    fs = golden_table(name)
    table = opened(fs, kind)
    before = table.scan().to_arrow()
    rows = by_key(before)
    names = [n for n in before.schema.names if not n.startswith("_hoodie")]
    keys = table.config.record_key_fields
    ordering = table.config.ordering_fields
    data = before.select(names).to_pylist()
    changed = [{**row, ordering[0]: row[ordering[0]] + 10**6} for row in data[::3]]
    fresh = [{**row, keys[0]: row[keys[0]] + "-new"} for row in data[::7]]
    batch = pa.Table.from_pylist(changed + fresh, before.select(names).schema)
    report = table.upsert(batch)
    assert kind.value.replace("_", " ") in report.index
    if kind is not IndexKind.BUCKET:
        assert (report.updated, report.inserted) == (len(changed), len(fresh))
    after = by_key(table.scan().to_arrow())
    assert len(after) == len(rows) + len(fresh)
    expected = {str(row[keys[0]]): row for row in data} | {
        str(row[keys[0]]): row for row in changed
    }
    if len(keys) == 1:
        for row in after.values():
            if not str(row[keys[0]]).endswith("-new"):
                assert plain(row) == expected[str(row[keys[0]])]
    gone = [key for _, key in list(after)[::4]]
    deleted = table.delete(keys=gone)
    assert {key for _, key in by_key(table.scan().to_arrow())} == {key for _, key in after} - set(
        gone
    )
    if kind is not IndexKind.BUCKET:
        assert deleted.deleted == sum(key in gone for _, key in after)
    if "record_index" in table.config.metadata_partitions:
        left = by_key(table.scan().to_arrow())
        found = table.lookup([key for _, key in left])
        assert found["found"].to_pylist() == [True] * len(left)
        assert found["partition_path"].to_pylist() == [path for path, _ in left]
        assert not any(table.lookup(gone)["found"].to_pylist())

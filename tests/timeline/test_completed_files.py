"""Completed instants of versions 8 and 9, as bytes and as names."""

from __future__ import annotations

import io

import fastavro
import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
COMMITS = ("commit", "deltacommit", "replacecommit")
FOLDERS = (".hoodie/timeline", ".hoodie/metadata/.hoodie/timeline")


def rows(ids: range, ts: int) -> pa.Table:
    made = [{"id": f"k{i}", "ts": ts, "part": f"p{i % 2}"} for i in ids]
    return pa.Table.from_pylist(made, SCHEMA)


def table_of_every_action(version: int, kind: TableType) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    options = parse_options({"hoodie.write.table.version": str(version)})
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options))
    table = Table(fs, options=parse_options({}), engine=LocalEngine(1))
    table.bulk_insert(rows(range(20), 1))
    table.upsert(rows(range(10, 30), 2))
    table.savepoint("test")
    table.delete(keys=["k1", "k2"])
    table.compact() if kind is TableType.MERGE_ON_READ else None
    table.rollback(str(table.upsert(rows(range(5), 3)).instant))
    table.cluster(sort_by="ts")
    table.insert_overwrite(rows(range(40, 42), 4))
    table.delete_partitions(["p1"])
    table.clean()
    table.upsert(rows(range(44, 46), 5))
    return fs


@pytest.mark.conformance(34, 35)
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("version", [8, 9])
def test_completed_instants_have_what_apache_hudi_requires(version: int, kind: TableType) -> None:
    """Avro without a codec, metadata with the schema, and no null where it expects a map."""
    fs = table_of_every_action(version, kind)
    for folder in FOLDERS:
        names = [name for name in fs.names(folder) if "_" in name.partition(".")[0]]
        actions = {name.partition(".")[2] for name in names}
        assert len(names) > 5 and actions & set(COMMITS)
        requested = {name.partition(".")[0] for name in fs.names(folder)} - set(names)
        times = [name.partition(".")[0].split("_") for name in names]
        ends = [done for _, done in times]
        assert all(begun < done for begun, done in times if not begun.startswith("0000"))
        assert len(set(ends)) == len(ends) and not set(ends) & {*requested, *(t for t, _ in times)}
        for name in names:
            if name.endswith(COMMITS):
                check_commit(fs.read(f"{folder}/{name}"), has_schema=folder == FOLDERS[0])


def check_commit(data: bytes, *, has_schema: bool) -> None:
    reader = fastavro.reader(io.BytesIO(data))
    assert reader.metadata.get("avro.codec", "null") == "null"
    (record,) = list(reader)
    assert record["extraMetadata"] is not None and record["operationType"]
    if has_schema:
        assert record["extraMetadata"]["schema"]
    assert record["partitionToWriteStats"] is not None
    for stats in record["partitionToWriteStats"].values():
        assert stats is not None and all(stat and stat["path"] for stat in stats)
        assert all(stat["partitionPath"] is not None for stat in stats)
    for ids in (record.get("partitionToReplaceFileIds") or {}).values():
        assert ids is not None

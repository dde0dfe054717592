"""The elastic index under a stop at any file-system call: of writes, of growing, of its compaction
and rollback.  Whatever stands, it says where the keys are that the table shows, and no others."""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.metadata.elastic.store import ROOT, state_names
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, Options, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.support.filesystems import clone, every_stop

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])


def options(growth: str) -> Options:
    return parse_options(
        {
            "hoodie.metadata.record.index.min.filegroup.count": "2",
            "hoodie.metadata.compact.max.delta.commits": "2",
            "pyhudi.index.elastic.growth": growth,
            "pyhudi.index.elastic.bucket.entries": "4",
        }
    )


def rows(ids: range, ts: int, shift: int = 0) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{i}", "ts": ts, "part": f"p{(i + shift) % 2}"} for i in ids], SCHEMA
    )


def open_(fs: FileSystem, growth: str) -> Table:
    return Table(fs, options=options(growth), engine=LocalEngine(1))


def before(growth: str, kind: TableType) -> MemoryFileSystem:
    """A table whose index has grown, has logs, and a tombstone over an older file group."""
    fs = MemoryFileSystem()
    made = NewTable(
        SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options(growth), IndexKind.ELASTIC
    )
    create(fs, made)
    table = open_(fs, growth)
    table.bulk_insert(rows(range(10), 1))
    table.upsert(rows(range(8, 14), 2))
    table.delete(keys=["k7"])
    return fs


def snapshot(fs: FileSystem, growth: str) -> dict[str, int]:
    found = open_(fs, growth).scan(["id", "ts"]).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["ts"] for row in found}


def check_index(fs: FileSystem, growth: str) -> None:
    table = open_(fs, growth)
    names = table.scan(["_hoodie_record_key", "_hoodie_file_name"]).to_arrow().to_pylist()
    files = {row["_hoodie_record_key"]: row["_hoodie_file_name"] for row in names}
    for row in table.lookup([f"k{i}" for i in range(40)]).to_pylist():
        assert row["found"] == (row["record_key"] in files), row
        assert not row["found"] or files[row["record_key"]].startswith(row["file_id"])


OPERATIONS: dict[str, Callable[[Table], object]] = {
    "insert": lambda table: table.insert(rows(range(20, 24), 3)),
    "upsert": lambda table: table.upsert(rows(range(6, 17), 3, 1)),
    "delete": lambda table: table.delete(keys=["k1", "k2", "k9", "nobody"]),
}


@pytest.mark.parametrize(("operation", "growth"), [("upsert", "SEAL"), ("delete", "GROUPS")])
def test_a_stop_anywhere_leaves_index_and_rows_in_step(operation: str, growth: str) -> None:
    """Some stops; all of them below."""
    sweep(operation, growth, TableType.COPY_ON_WRITE, one_in=11)


@pytest.mark.slow
@pytest.mark.parametrize("growth", ["SEAL", "GROUPS"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_so_at_every_stop(operation: str, growth: str) -> None:
    sweep(operation, growth, TableType.COPY_ON_WRITE)


@pytest.mark.slow
@pytest.mark.parametrize("after", [False, True])
@pytest.mark.parametrize("growth", ["SEAL", "GROUPS"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_so_in_merge_on_read_tables(operation: str, growth: str, after: bool) -> None:
    sweep(operation, growth, TableType.MERGE_ON_READ, after=after)


def sweep(
    operation: str, growth: str, kind: TableType, *, after: bool = False, one_in: int = 1
) -> None:
    """Die at each step of a write, the index growing and compacted on its way; then write again,
    which rolls back."""
    start = before(growth, kind)
    done = clone(start)
    OPERATIONS[operation](open_(done, growth))
    grown = len(state_names(done.sub(ROOT))) - len(state_names(start.sub(ROOT)))
    assert grown == 2  # of a compaction, or a new file group; and of the write
    old, new = snapshot(start, growth), snapshot(done, growth)
    stops = 0
    act = OPERATIONS[operation]
    for stop in every_stop(start, lambda fs: act(open_(fs, growth)), after=after, one_in=one_in):
        stops += 1
        found = snapshot(stop.fs, growth)
        assert found in (old, new), str(stop)
        check_index(stop.fs, growth)
        open_(stop.fs, growth).upsert(rows(range(30, 32), 9))
        assert snapshot(stop.fs, growth) == found | {"k30": 9, "k31": 9}, str(stop)
        check_index(stop.fs, growth)
        assert not open_(stop.fs, growth).timeline.pending, str(stop)
    assert open_(stop.fs, growth).index.verify().is_exact
    assert stops > 5


def test_a_rebuild_that_stops_somewhere_leaves_an_index_that_is_right() -> None:
    """At some stops; at all of them below."""
    sweep_rebuild("GROUPS", one_in=11)


@pytest.mark.slow
@pytest.mark.parametrize("growth", ["SEAL", "GROUPS"])
def test_so_does_one_that_stops_anywhere(growth: str) -> None:
    sweep_rebuild(growth)


def sweep_rebuild(growth: str, *, one_in: int = 1) -> None:
    start = before(growth, TableType.COPY_ON_WRITE)
    want = snapshot(start, growth)
    for stop in every_stop(start, lambda fs: open_(fs, growth).index.rebuild(3), one_in=one_in):
        check_index(stop.fs, growth)
        open_(stop.fs, growth).index.rebuild(3)
        assert open_(stop.fs, growth).index.stats().bucket_count == 3
        assert open_(stop.fs, growth).index.verify().is_exact
        assert snapshot(stop.fs, growth) == want

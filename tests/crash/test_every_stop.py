"""A write that stops at any of its file-system calls leaves the old rows or the new ones.

Each operation is run once for every change it makes to the store, in the data table and the
metadata table alike, dying there.  A new process then reads, writes again, and reads.
"""

from __future__ import annotations

from collections.abc import Callable

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import IndexNotReadyError
from pyhudi.operations.create import create
from pyhudi.options import Options, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.support.examples import stops
from tests.support.filesystems import clone, every_stop

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.bloom.num_entries": "50",
    "hoodie.table.services.enabled": "false",  # the tests call the verbs
}


def rows(ids: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{i}", "ts": ts, "part": f"p{i % 2}"} for i in ids], SCHEMA
    )


def open_(fs: FileSystem) -> Table:
    return Table(fs, options=options(), engine=LocalEngine(1))


def options() -> Options:
    return parse_options(OPTIONS)


def before(kind: TableType, version: int | None = None) -> MemoryFileSystem:
    """A table with a few commits: rows, updates, a delete."""
    fs = MemoryFileSystem()
    defined = options()
    if version is not None:
        defined = parse_options({**OPTIONS, "hoodie.write.table.version": str(version)})
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), defined))
    open_(fs).bulk_insert(rows(range(8), 1))
    open_(fs).upsert(rows(range(4), 2))
    open_(fs).delete(keys=["k7"])
    return fs


def snapshot(fs: FileSystem) -> dict[str, int]:
    found = open_(fs).scan(["id", "ts"]).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["ts"] for row in found}


def check_index(fs: FileSystem, want: dict[str, int]) -> None:
    keys = [f"k{i}" for i in range(40)]
    try:
        found = open_(fs).lookup(keys)["found"].to_pylist()
    except IndexNotReadyError as error:
        raise AssertionError(f"the record index cannot be asked: {error}") from error
    assert found == [key in want for key in keys]


OPERATIONS: dict[str, Callable[[Table], object]] = {
    "insert": lambda table: table.insert(rows(range(20, 24), 3)),
    "bulk_insert": lambda table: table.bulk_insert(rows(range(20, 24), 3)),
    "upsert": lambda table: table.upsert(rows(range(2, 12), 3)),
    "delete": lambda table: table.delete(keys=["k1", "k2", "nobody"]),
    "insert_overwrite": lambda table: table.insert_overwrite(rows(range(0, 8, 4), 3)),
    "insert_overwrite_table": lambda table: table.insert_overwrite_table(rows(range(6, 12), 3)),
    "delete_partitions": lambda table: table.delete_partitions("p0"),
}


@stops(6)
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_stop_anywhere_leaves_the_old_rows_or_the_new(
    operation: str, kind: TableType, one_in: int
) -> None:
    sweep(operation, kind, after=False, one_in=one_in)


@stops(6)
@pytest.mark.parametrize(
    ("operation", "kind"),
    [
        ("upsert", TableType.MERGE_ON_READ),
        ("delete", TableType.MERGE_ON_READ),
        ("insert_overwrite", TableType.COPY_ON_WRITE),
    ],
)
def test_a_stop_anywhere_leaves_the_old_rows_or_the_new_in_version_9(
    operation: str, kind: TableType, one_in: int
) -> None:
    sweep(operation, kind, 9, after=False, one_in=one_in)


@pytest.mark.slow
@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("operation", OPERATIONS)
def test_a_step_done_but_never_heard_of_changes_nothing(
    operation: str, kind: TableType, version: int
) -> None:
    sweep(operation, kind, version, after=True)


@stops(8)
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("version", [6, 9])
def test_a_stop_anywhere_leaves_the_old_rows_or_the_new_with_markers_in_one_file(
    monkeypatch: pytest.MonkeyPatch, kind: TableType, version: int, one_in: int
) -> None:
    monkeypatch.setitem(OPTIONS, "hoodie.write.markers.type", "TIMELINE_SERVER_BASED")
    sweep("upsert", kind, version, after=False, one_in=one_in)


def sweep(
    operation: str, kind: TableType, version: int | None = None, *, after: bool, one_in: int = 1
) -> None:
    """Die at each step of an operation, and look at what is left."""
    start = before(kind, version)
    done = clone(start)
    OPERATIONS[operation](open_(done))
    old, new = snapshot(start), snapshot(done)
    assert old != new
    tried = 0
    for stop in every_stop(
        start, lambda fs: OPERATIONS[operation](open_(fs)), after=after, one_in=one_in
    ):
        tried += 1
        found = snapshot(stop.fs)
        assert found in (old, new), str(stop)
        check_index(stop.fs, found)
        open_(stop.fs).upsert(rows(range(30, 32), 9))
        want = found | {"k30": 9, "k31": 9}
        assert snapshot(stop.fs) == want, str(stop)
        check_index(stop.fs, want)
        assert not open_(stop.fs).timeline.pending, str(stop)
    assert tried > 10 // one_in

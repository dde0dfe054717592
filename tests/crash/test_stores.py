"""A write that dies at any step leaves its index outside the table with the old entries or the
new: the next writer finds every key where it is."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from copy import deepcopy

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableType
from tests.support.filesystems import clone, every_stop
from tests.support.index_kinds import SMALL, Indexed, batch, indexed, stand_in
from tests.support.inside import fs_of

OPERATIONS: dict[str, Callable[[Table], object]] = {
    "upsert": lambda table: table.upsert(batch([2, 3, 4, 8, 9, 10], 3, "p1")),  # some move to p1
    "delete": lambda table: table.delete(keys=["k001", "k002", "nobody"]),
    "overwrite": lambda table: table.insert_overwrite(batch([0, 30], 3, "p0")),
}
MOVING = {
    "hoodie.hbase.index.update.partition.path": "true",
    "pyhudi.index.rocksdb.update.partition.path": "true",
}


@pytest.mark.parametrize("kind", [IndexKind.ROCKSDB, IndexKind.HBASE], ids=lambda k: k.value)
def test_a_stop_here_and_there_leaves_the_old_entries_or_the_new(kind: IndexKind) -> None:
    sweep("upsert", kind, TableType.COPY_ON_WRITE, one_in=11)


@pytest.mark.slow
@pytest.mark.parametrize("table_type", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("kind", [IndexKind.ROCKSDB, IndexKind.HBASE], ids=lambda k: k.value)
def test_a_stop_anywhere_leaves_the_old_entries_or_the_new(
    kind: IndexKind, operation: str, table_type: TableType
) -> None:
    sweep(operation, kind, table_type, one_in=1)


def rows(fs: FileSystem) -> dict[str, tuple[int, str]]:
    table = Table(fs, options=parse_options({}), engine=LocalEngine(1))
    found = table.scan(["id", "ts", "part"]).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: (row["ts"], row["part"]) for row in found}


def sweep(operation: str, kind: IndexKind, table_type: TableType, *, one_in: int) -> None:
    """Die at each step, and look at what some of them leave."""
    with ExitStack() as opened:
        made = opened.enter_context(indexed(kind))
        made = Indexed(kind, {**made.options, **MOVING})
        start = made.table(table_type)
        start.upsert(batch(range(8), 1))
        start.delete(keys=["k007"])
        entries = stand_in(made)
        stored = deepcopy(entries)

        def open_(fs: FileSystem) -> Table:
            options = parse_options({**SMALL, **made.options})
            return Table(fs, options=options, engine=LocalEngine(1))

        def act(fs: FileSystem) -> None:
            entries.clear()
            entries.update(deepcopy(stored))
            OPERATIONS[operation](open_(fs))

        done = clone(fs_of(start))  # type: ignore[arg-type]
        act(done)
        old, new = rows(fs_of(start)), rows(done)
        assert old != new
        stops = 0
        for stop in every_stop(fs_of(start), act, one_in=one_in):  # type: ignore[arg-type]
            stops += 1
            if stop.died_at is None and entries:  # they are of the run before, not of this one
                continue
            found = rows(stop.fs)
            assert found in (old, new), str(stop)
            report = open_(stop.fs).upsert(batch(range(12), 9, "p1"))
            assert report.updated + report.inserted == 12, str(stop)
            fresh = sum(f"k{i:03d}" not in found for i in range(12))
            assert report.inserted - report.deleted == fresh, str(stop)  # some move
            want = found | {f"k{i:03d}": (9, "p1") for i in range(12)}
            assert rows(stop.fs) == want, str(stop)
        assert stops > 3

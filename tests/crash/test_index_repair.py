"""A repair or rebuild of the record index that stops anywhere changes no row, and the next repair
or write completes it."""

from __future__ import annotations

import pytest

from pyhudi.operations.create import NewTable, create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from tests.crash.test_every_stop import OPTIONS, SCHEMA, before, open_, rows, snapshot
from tests.support.examples import stops
from tests.support.filesystems import clone, every_stop
from tests.support.planted import plant

FAULTS = {"missing": 2, "orphaned": 1}


@pytest.mark.slow
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_a_stop_anywhere_leaves_the_old_index_or_the_repaired_one(kind: TableType) -> None:
    start = before(kind)
    plant(start, {"nobody": ("p0", "nowhere-0")}, ["k1", "k2"])
    want = snapshot(start)
    assert open_(clone(start)).index.repair().check.faults == FAULTS
    tried = 0
    for stop in every_stop(start, lambda fs: open_(fs).index.repair()):
        tried += 1
        assert snapshot(stop.fs) == want, str(stop)
        assert open_(stop.fs).index.verify().faults in (FAULTS, {}), str(stop)
        open_(stop.fs).index.repair()
        assert open_(stop.fs).index.verify().is_exact, str(stop)
        open_(stop.fs).upsert(rows(range(30, 32), 9))
        assert snapshot(stop.fs) == want | {"k30": 9, "k31": 9}, str(stop)
        assert open_(stop.fs).index.verify().is_exact, str(stop)
    assert tried > 10


@stops(9, 3)
@pytest.mark.parametrize(
    ("version", "index"),
    [(6, IndexKind.RECORD), (9, IndexKind.RECORD), (9, IndexKind.PARTITIONED_RECORD)],
)
def test_a_write_completes_a_rebuild_that_stopped(
    version: int, index: IndexKind, one_in: int
) -> None:
    start, kind = MemoryFileSystem(), TableType.COPY_ON_WRITE
    defined = parse_options({**OPTIONS, "hoodie.write.table.version": str(version)})
    create(start, NewTable(SCHEMA, "t", kind, ("id",), ("part",), (), defined, index))
    open_(start).bulk_insert(rows(range(8), 1))
    want = snapshot(start)
    tried = 0
    for stop in every_stop(start, lambda fs: open_(fs).index.rebuild(), one_in=one_in, varies=True):
        tried += 1
        assert snapshot(stop.fs) == want, str(stop)
        open_(stop.fs).upsert(rows(range(7, 9), 9))
        assert snapshot(stop.fs) == want | {"k7": 9, "k8": 9}, str(stop)
        assert open_(stop.fs).index.verify().is_exact, str(stop)
    assert tried > 21 // one_in

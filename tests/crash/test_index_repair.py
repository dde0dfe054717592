"""A repair or rebuild of the record index that stops anywhere changes no row, and the next repair
or write completes it."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi.api.table import Table
from pyhudi.errors import IndexNotReadyError
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
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


@stops(18, 3)
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


def indexed(version: int) -> tuple[MemoryFileSystem, frozenset[str]]:
    """A table with all kinds of metadata partitions, and their names."""
    fs = before(TableType.COPY_ON_WRITE, version)
    open_(fs).index.create("column_stats")
    if version > 6:
        open_(fs).index.create("secondary", name="by_ts", column="ts")
    return fs, open_(fs).config.metadata_partitions


def rebuild(fs: FileSystem) -> object:
    return open_(fs).metadata.rebuild()


@stops(194, 5)
@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("next_act", ["rebuild", "repair", "clean", "version"])
def test_a_rebuild_of_the_metadata_table_that_stopped_keeps_its_partitions(
    version: int, next_act: str, one_in: int
) -> None:
    """Whatever comes first afterwards, even another rebuild that stops; if the first write is
    refused, then because of the rebuild, and a rebuild helps."""
    start, listed = indexed(version)
    want = snapshot(start)
    acts = {
        "repair": lambda fs: open_(fs).repair(),
        "clean": lambda fs: open_(fs).clean(),
        "version": lambda fs: open_(fs).upgrade(9) if version == 6 else open_(fs).downgrade(8),
    }
    tried = 0
    reported: set[str] = set()
    for first in every_stop(start, rebuild, one_in=one_in, varies=True):
        if next_act == "rebuild":
            again = every_stop(first.fs, rebuild, one_in=3 * one_in, varies=True)
            left = [stop.fs for stop in again]
        else:
            try:
                done = acts[next_act](first.fs)
                reported = set(done.dropped) if next_act == "version" else set()
            except IndexNotReadyError as error:
                assert "run table.metadata.rebuild()" in str(error), str(first)
            left = [first.fs]
        for fs in left:
            tried += 1
            assert snapshot(fs) == want, str(first)
            try:
                open_(fs).upsert(rows(range(3, 4), 9))
            except IndexNotReadyError as error:
                assert "run table.metadata.rebuild()" in str(error), str(first)
                rebuild(fs)
                open_(fs).upsert(rows(range(3, 4), 9))
            assert snapshot(fs) == want | {"k3": 9}, str(first)
            open_(fs).metadata.rebuild()
            lost = listed - open_(fs).config.metadata_partitions
            assert lost == reported, str(first)
            assert open_(fs).metadata.verify().is_healthy, str(first)
            assert open_(fs).index.verify().is_exact, str(first)
    assert tried > 1


SERVICES: dict[str, Callable[[Table], object]] = {
    "compact": lambda table: table.compact(),
    "cluster": lambda table: table.cluster("ts"),
}


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("service", SERVICES)
def test_a_metadata_table_rebuilt_after_a_service_stopped_lists_no_file_of_it(
    service: str, version: int
) -> None:
    """The rollback of the service deletes its files, and removes none from the metadata table."""
    start, run = table_with_changes(version), SERVICES[service]
    want, tried = snapshot(start), 0
    for stop in every_stop(start, lambda fs: run(open_(fs)), one_in=5, varies=True):
        open_(stop.fs).metadata.rebuild()
        tried += open_(stop.fs).timeline.pending.times != frozenset()
        run(open_(stop.fs))
        wrong = [each for each in open_(stop.fs).doctor().findings if each.code == "metadata-files"]
        assert not wrong, str(stop)
        assert snapshot(stop.fs) == want, str(stop)
    assert tried


def table_with_changes(version: int) -> MemoryFileSystem:
    """A merge-on-read table with logs, whose services write change data."""
    fs = MemoryFileSystem()
    given = {"hoodie.write.table.version": str(version), "hoodie.table.cdc.enabled": "true"}
    defined = parse_options({**OPTIONS, **given})
    create(fs, NewTable(SCHEMA, "t", TableType.MERGE_ON_READ, ("id",), ("part",), ("ts",), defined))
    open_(fs).bulk_insert(rows(range(8), 1))
    for ts in (2, 3):
        open_(fs).upsert(rows(range(6), ts))
    return fs

"""A rollback, savepoint, restore or archival that stops anywhere is finished by the next process.

Rows are those before or those after, never between; the record index is exact; the next write
leaves nothing pending, and a second recovery changes nothing.
"""

from __future__ import annotations

from collections.abc import Callable

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.options import WriteOptions, parse_options
from pyhudi.recovery.crashed_writers import roll_back_crashed
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType, load_config
from pyhudi.timeline.archive import archived_times
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.instant import Action, State
from pyhudi.timeline.instant_files import TimelineLog
from tests.crash.test_every_stop import OPTIONS, before, check_index, open_, rows, snapshot
from tests.support.examples import stops
from tests.support.filesystems import TracingFileSystem, clone, every_stop
from tests.support.inside import fs_of


def newest(table: Table) -> str:
    last = table.timeline.commits.last
    assert last is not None
    return last.time


def oldest(table: Table) -> str:
    first = table.timeline.commits.first
    assert first is not None
    return first.time


def few(fs: FileSystem) -> Table:
    """A table that keeps ten commits on its timeline."""
    retained = {"hoodie.keep.min.commits": "11", "hoodie.keep.max.commits": "12"}
    return Table(fs, options=parse_options({**OPTIONS, **retained}), engine=LocalEngine(1))


ACTS: dict[str, Callable[[Table], object]] = {
    "rollback": lambda table: table.rollback(newest(table)),
    "savepoint": lambda table: table.savepoint("here", oldest(table)),
    "restore": lambda table: table.restore(oldest(table)),
    "restore_far": lambda table: table.restore(oldest(table)),
    "archive": lambda table: few(fs_of(table)).archive(),
    "delete_savepoint": lambda table: table.delete_savepoint(oldest(table)),
}


LONG = {"restore_far": TableType, "archive": [TableType.MERGE_ON_READ]}
SHORT = [a for a in ACTS if a not in LONG]


def prepared(act: str, kind: TableType) -> MemoryFileSystem:
    fs = before(kind)
    table = open_(fs)
    if act == "restore_far":  # past a compaction and a clean of the metadata table
        for ts in range(3, 16):
            table.upsert(rows(range(2), ts))
            if kind is TableType.MERGE_ON_READ and ts % 4 == 0:
                table.compact()
    if act == "archive":
        for ts in range(3, 14):
            table.upsert(rows(range(2), ts))
    if act in ("rollback", "restore") and kind is TableType.MERGE_ON_READ:
        table.compact()
        table.upsert(rows(range(2, 6), 3))
        table.upsert(rows(range(10, 14), 3))
    if act == "delete_savepoint":
        table.savepoint("kept", oldest(table))
    return fs


def changes_of_a_recovery(fs: FileSystem) -> list[str]:
    watched = TracingFileSystem(fs)
    config = load_config(watched)
    log = TimelineLog(watched, layout=config.layout, zone=zone_of(config.timezone))
    roll_back_crashed(watched, config, log, log.load(), WriteOptions(), LocalEngine(1))
    return watched.trace


@stops(8)
@pytest.mark.parametrize(
    "kind",
    [
        pytest.param(TableType.COPY_ON_WRITE, marks=pytest.mark.slow, id="cow"),
        pytest.param(TableType.MERGE_ON_READ, id="mor"),
    ],
)
@pytest.mark.parametrize("act", SHORT)
def test_a_stop_anywhere_is_finished_by_the_next_process(
    act: str, kind: TableType, one_in: int
) -> None:
    sweep(act, kind, after=False, one_in=one_in)


@stops(8)
def test_a_stop_of_an_archival_anywhere_is_finished_by_the_next_process(one_in: int) -> None:
    sweep("archive", TableType.COPY_ON_WRITE, after=False, one_in=one_in)


@pytest.mark.slow
@pytest.mark.parametrize("act", LONG)
def test_a_stop_of_long_acts_anywhere_is_finished_by_the_next_process(act: str) -> None:
    for kind in LONG[act]:
        sweep(act, kind, after=False)


@pytest.mark.slow
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("act", ACTS)
def test_a_step_done_but_never_heard_of_changes_nothing(act: str, kind: TableType) -> None:
    sweep(act, kind, after=True)


def sweep(act: str, kind: TableType, *, after: bool, one_in: int = 1) -> None:
    start = prepared(act, kind)
    done = clone(start)
    ACTS[act](open_(done))
    allowed = [snapshot(start), snapshot(done)]
    tried = 0
    for stop in every_stop(start, lambda fs: ACTS[act](open_(fs)), after=after, one_in=one_in):
        tried += 1
        found = snapshot(stop.fs)
        assert found in allowed, str(stop)
        if not open_(stop.fs).timeline.where({Action.RESTORE}, State.INFLIGHT):
            check_index(stop.fs, found)
        changes_of_a_recovery(stop.fs)
        found = snapshot(stop.fs)
        assert found in allowed, str(stop)
        assert changes_of_a_recovery(stop.fs) == [], str(stop)
        open_(stop.fs).upsert(rows(range(30, 32), 9))
        want = found | {"k30": 9, "k31": 9}
        assert snapshot(stop.fs) == want, str(stop)
        check_index(stop.fs, want)
        assert not open_(stop.fs).timeline.pending, str(stop)
        if act == "archive":
            check_archive(stop.fs, before_it=start)
    assert tried > 1


def check_archive(fs: FileSystem, *, before_it: FileSystem) -> None:
    """Run again to its end, each instant is on the timeline or in the archive, and there once."""
    few(fs).archive()
    table = few(fs)
    archived = table.archived_timeline.times
    assert archived and archived.isdisjoint(table.timeline.times)
    assert open_(before_it).timeline.times <= archived | table.timeline.times
    listed = [i.name for i in fs.children(".hoodie/archived")]
    times = [time for name in listed for time, _ in archived_times(fs, f".hoodie/archived/{name}")]
    assert len(times) == len(set(times))

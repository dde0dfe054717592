"""Archival of layout 2: which instants leave the timelines of a table and its metadata table."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import FileMissingError, SnapshotExpiredError
from pyhudi.filenames import METADATA_TABLE
from pyhudi.options import Options, parse_options
from pyhudi.planning.archival import Bounds, archivable, needed_to_trigger
from pyhudi.read.table_snapshot import load_state
from pyhudi.records import InstantTime
from pyhudi.services.archival import (
    ArchiveReport,
    execute_archival,
    is_archival_due,
    plan_archival,
)
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableConfig, load_config, store_config
from pyhudi.timeline.archive import HISTORY
from pyhudi.timeline.commit_avro import to_avro
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.history.reader import TimelineHistory
from pyhudi.timeline.history.writer import HistoryFiles
from pyhudi.timeline.instant import Action, Instant, State, file_name, parse_instant_name
from pyhudi.timeline.timeline import Timeline
from tests.support.filesystems import every_stop
from tests.support.golden import unzipped

GOLDEN = Path(__file__).parents[1] / "golden"
FEW = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
}
SET = {
    "hoodie.table.name": "t", "hoodie.table.type": "COPY_ON_WRITE", "hoodie.table.version": "8",
    "hoodie.timeline.layout.version": "2", "hoodie.table.recordkey.fields": "id",
    "hoodie.table.timeline.timezone": "UTC",
}  # fmt: skip
COMMIT, DELTA, CLEAN = Action.COMMIT, Action.DELTA_COMMIT, Action.CLEAN


def settings(**more: str) -> Options:
    return parse_options({**FEW, "hoodie.metadata.enable": "false", **more})


def archive(fs: FileSystem, **more: str) -> ArchiveReport:
    options = settings(**more)
    return execute_archival(load_state(fs, options.read), options)


def opened(fs: FileSystem) -> Table:
    return Table(fs, options=settings(), engine=LocalEngine(1))


def rows(table: Table, as_of: str | None = None) -> Any:
    found = table.scan(as_of=as_of).to_arrow().to_pylist()
    return sorted(found, key=lambda row: str(row["_hoodie_record_key"]))


def time_of(number: int) -> InstantTime:
    return InstantTime(f"{20260101000000000 + number:017d}")


def done(number: int, action: Action = COMMIT, *, end: int | None = None) -> Instant:
    ended = time_of(number + 1 if end is None else end)
    return Instant(time_of(number), action, State.COMPLETED, ended)


def pending(number: int, action: Action = COMMIT) -> Instant:
    return Instant(time_of(number), action, State.REQUESTED)


def store(fs: FileSystem, instants: list[Instant]) -> None:
    for instant in instants:
        fs.create(f".hoodie/timeline/{instant}", to_avro(CommitMetadata()))
        if instant.is_completed:
            name = file_name(Instant(instant.time, instant.action, State.REQUESTED))
            fs.create(f".hoodie/timeline/{name}", b"")


def table_with(
    instants: list[Instant], own: list[Instant] | None = None, **more: str
) -> MemoryFileSystem:
    """A table with these instants; own: those of its metadata table, if it has one."""
    fs = MemoryFileSystem()
    listed = {} if own is None else {"hoodie.table.metadata.partitions": "files"}
    store_config(fs, TableConfig({**SET, **listed, **more}))
    store(fs, instants)
    if own is not None:
        metadata = fs.sub(METADATA_TABLE)
        store_config(metadata, TableConfig({**SET, "hoodie.table.type": "MERGE_ON_READ"}))
        store(metadata, own)
    return fs


def left(fs: FileSystem) -> set[str]:
    names = fs.names(".hoodie/timeline")
    found = (parse_instant_name(name) for name in names)
    return {i.time for i in found if i is not None and i.is_completed}


def archived(fs: FileSystem) -> list[Instant]:
    return TimelineHistory(fs, HISTORY).instants()


def times(*numbers: int) -> set[str]:
    return {time_of(number) for number in numbers}


@pytest.mark.parametrize("name", ["queries/arch_mor_v9", "foreign/archived_cow_v8"])
def test_reads_of_a_real_table_do_not_change(name: str) -> None:
    fs = unzipped(GOLDEN / f"{name}.zip")
    listed = {**load_config(fs).properties, "hoodie.table.metadata.partitions": ""}
    store_config(fs, TableConfig(listed))  # the archives lack the metadata tables
    before = opened(fs)
    instants = [i for i in before.timeline if i.is_completed]
    known = list(before.archived_timeline)
    want, at = rows(before), {}
    for commit in before.timeline.commits:
        try:
            at[commit.completed_at] = rows(before, str(commit.completed_at))
        except SnapshotExpiredError:
            continue
    report = archive(fs)
    assert report.instants and report.files == 1
    again = opened(fs)
    assert list(again.archived_timeline) == [
        *known,
        *(i for i in instants if i.time in report.instants),
    ]
    assert [i for i in again.timeline if i.is_completed] == [
        i for i in instants if i.time not in report.instants
    ]
    assert rows(again) == want and len(at) > 2
    for moment, found in at.items():
        assert rows(again, str(moment)) == found
    assert archive(fs).instants == ()


def test_a_dry_run_reports_what_a_run_archives() -> None:
    fs = table_with([done(2 * n) for n in range(9)])
    options = settings()
    dry = plan_archival(load_state(fs, options.read), options)
    report = archive(fs)
    assert (dry.instants, dry.files) == (report.instants, report.files) and report.instants
    assert set(report.instants) == times(0, 2, 4, 6, 8, 10)
    assert [i.time for i in archived(fs)] == list(report.instants)


def test_cleans_and_rollbacks_go_with_the_commits_after_them() -> None:
    kinds = {1: CLEAN, 4: Action.ROLLBACK, 7: CLEAN, 8: CLEAN, 9: CLEAN, 10: CLEAN, 11: CLEAN}
    instants = [done(2 * n, kinds.get(n, COMMIT)) for n in range(14)]
    timeline = Timeline.of(instants)
    plan = archivable(timeline, Bounds(), commits_min=3, commits_max=4, services_follow=True)
    last = plan.instants[-1]
    assert last.time == time_of(10)  # 0 4 6 10 | 12 24 26 are commits
    assert {i.time for i in plan.instants} == times(0, 2, 4, 6, 8, 10)
    alone = Timeline.of(i for i in instants if i.action is not COMMIT)
    assert not archivable(
        alone, Bounds(), commits_min=1, commits_max=2, services_follow=True
    ).instants


def test_the_commits_that_completed_last_stay_however_early_they_began() -> None:
    timeline = Timeline.of([done(0), done(2, end=20), done(4), done(6)])
    plan = archivable(timeline, Bounds(), commits_min=2, commits_max=3, services_follow=True)
    assert {i.time for i in plan.instants} == times(0)
    assert plan.held_by == "a late completion"


def test_only_commits_make_archival_due() -> None:
    options = settings()
    few = [done(0), *(done(2 * n, Action.ROLLBACK) for n in range(1, 9))]
    log = load_state(table_with(few), options.read).log
    assert not is_archival_due(log, Timeline.of(few), options.services)
    assert is_archival_due(log, Timeline.of([done(2 * n) for n in range(5)]), options.services)


def test_savepoints_and_restores_stay() -> None:
    instants = [done(2 * n) for n in range(9)]
    saved = Instant(time_of(2), Action.SAVEPOINT, State.COMPLETED, time_of(40))
    restore = done(5, Action.RESTORE)
    fs = table_with([*instants, restore])
    store(fs, [saved])
    report = archive(fs)
    assert report.instants == (time_of(0),) and report.held_by == "a savepoint"
    assert left(fs) == {i.time for i in [*instants[1:], restore]}


@pytest.mark.parametrize("compaction", [None, 9])
def test_only_what_the_metadata_table_has_compacted_is_archived(compaction: int | None) -> None:
    """Compared with completion times: a commit that completed after the compaction began stays,
    and all later ones."""
    instants = [done(0), done(2), done(4, end=10), *(done(2 * n) for n in range(3, 10))]
    own = [done(i, DELTA) for i in (0, 2, 4, 6, 8)]
    own += [] if compaction is None else [done(compaction, COMMIT, end=11)]
    fs = table_with(instants, own)
    report = archive(fs)
    assert set(report.instants) == (set() if compaction is None else times(0, 2))
    assert report.held_by == "the metadata table's compaction"


def test_commits_that_completed_while_a_write_was_pending_stay() -> None:
    instants = [done(0), done(2, end=9), done(4), *(done(2 * n) for n in range(3, 10))]
    fs = table_with([*instants, pending(7)])
    report = archive(fs)
    assert set(report.instants) == times(0) and report.held_by == "a concurrent write"


def test_delta_commits_count_for_the_next_compaction_by_completion() -> None:
    timeline = Timeline.of([done(0, DELTA), done(2, DELTA, end=7), done(4), done(8, DELTA)])
    assert needed_to_trigger(timeline, 2) == time_of(2)
    assert needed_to_trigger(timeline, 3) == time_of(2)  # completed after the compaction began
    timeline = Timeline.of([done(0, DELTA), done(4), done(8, DELTA)])
    assert needed_to_trigger(timeline, 3) == time_of(4)


def test_the_timeline_of_the_metadata_table_is_archived_behind_the_tables() -> None:
    instants = [done(2 * n) for n in range(12)]
    created = Instant(InstantTime("0" * 17), DELTA, State.COMPLETED, time_of(0))
    own = [created, *(done(2 * n, DELTA) for n in range(12)), done(23, COMMIT, end=24)]
    fs = table_with(instants, own)
    report = archive(fs)
    assert set(report.instants) == times(*range(0, 18, 2))
    metadata = fs.sub(METADATA_TABLE)
    assert {i.time for i in archived(metadata)} == {created.time, *times(*range(0, 18, 2))}
    assert report.metadata_instants == 10 and report.files == 2
    assert left(metadata) == times(18, 20, 22, 23)
    assert archived(metadata)[0].completed_at == time_of(0)


def test_archival_that_stops_anywhere_is_completed_by_the_next() -> None:
    instants = [done(2 * n, CLEAN if n % 5 == 3 else COMMIT) for n in range(12)]
    own = [*(done(2 * n, DELTA) for n in range(12)), done(23, COMMIT, end=24)]
    fs = table_with(instants, own)
    for number, stop in enumerate(every_stop(fs, archive)):
        pairs = ((stop.fs, instants), (stop.fs.sub(METADATA_TABLE), own))
        for each, known in pairs:
            assert left(each) | {i.time for i in archived(each)} == {i.time for i in known}
        if number % 2:  # commits may follow before the next run
            for each, known in pairs:
                later = [done(2 * n, known[0].action) for n in range(13, 16)]
                store(each, later)
        archive(stop.fs)
        for each, _ in pairs:
            found = [i.time for i in archived(each)]
            assert len(found) == len(set(found)) and not left(each) & set(found), str(stop)
            names = each.names(".hoodie/timeline")
            assert not [name for name in names if name.partition(".")[0] in found], str(stop)


def test_an_instant_that_another_process_has_archived_is_a_missing_file() -> None:
    """Where the lock was lost meanwhile, that becomes an error of the lock."""
    fs = table_with([done(1), done(3), done(5)])
    files = HistoryFiles(timeline_log(fs, load_config(fs)), HISTORY)
    files.remove([done(1)])
    with pytest.raises(FileMissingError, match="no longer on the timeline"):
        files.append([done(1), done(3)], batch=10)
    assert left(fs) == times(3, 5) and not archived(fs)

"""Compaction: the same rows in base files, whatever happened before, meanwhile or half-way."""

from __future__ import annotations

from datetime import UTC, date, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.errors import UserError, WriteConflictError
from pyhudi.filenames import BaseFileName, LogFileName
from pyhudi.formats.log_block import delete_block
from pyhudi.options import CompactionOptions, Options, parse_options
from pyhudi.planning.compaction import compactable, compaction_plan
from pyhudi.read.table_snapshot import load_state
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.services import compaction as service
from pyhudi.storage.local import LocalFileSystem
from pyhudi.table.file_group_view import DataFile, FileGroup, FileSlice, TableView, Visibility
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.transaction.begin import claimed
from tests.crash.test_every_stop import SCHEMA, check_index, open_, rows, snapshot
from tests.support.engines import Pausing
from tests.support.examples import stops
from tests.support.filesystems import clone, every_stop
from tests.support.inside import fs_of, state_of

OPTIONS = {"hoodie.metadata.record.index.min.filegroup.count": "2"}


def table_with_logs(path: Path, **options: str) -> pyhudi.Table:
    """Two partitions: rows, updates in logs, a delete in a log."""
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type="mor",
        options={**OPTIONS, **options},
    )  # fmt: skip
    table.bulk_insert(rows(range(20), 1))
    table.upsert(rows(range(6), 2))
    table.delete(keys=["k3", "k19"])
    return table


def everything(table: pyhudi.Table, mode: str = "snapshot") -> list[dict[str, object]]:
    """All rows, meta columns too but for the file's name."""
    found = table.scan(mode=mode).to_arrow().drop_columns(["_hoodie_file_name"])
    return sorted(found.to_pylist(), key=lambda row: str(row["id"]))


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
def test_rows_keep_their_values_and_commit_times(tmp_path: Path, log_format: str) -> None:
    table = table_with_logs(tmp_path / "t", **{"hoodie.logfile.data.block.format": log_format})
    before = everything(table)
    report = table.compact()
    assert (report.file_groups, report.log_files) == (2, 3)
    assert everything(table) == before == everything(table, "read_optimized")
    assert not any(s.logs for s in table.file_slices())
    unlisted = pyhudi.open_table(tmp_path / "t", options={"hoodie.metadata.enable": "false"})
    assert everything(unlisted) == before
    found = table.lookup(["k0", "k3", "k19"])["found"].to_pylist()
    assert found == [True, False, False]


def test_a_table_without_logs_is_left_alone(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    table.compact()
    newest = table.timeline.last
    report = table.compact()
    assert report.instants == () and report.notes == ("no file group has logs",)
    assert table.timeline.last == newest


def test_a_deferred_write_is_neither_lost_nor_passed_over(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    deferred = table.upsert(rows(range(3), 7), publish=False)
    for run in (table.compact, table.clean, table.schedule_compaction):
        with pytest.raises(WriteConflictError, match=str(deferred.instant)):
            run()
    assert deferred.instant is not None
    table.publish(deferred.instant)
    before = everything(table)
    table.compact()
    assert everything(table) == before


def test_a_dry_run_reports_and_changes_nothing(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    before = table.timeline
    report = table.compact(dry_run=True)
    assert (report.file_groups, report.log_files, report.dry_run) == (2, 3, True)
    assert table.timeline == before


def test_copy_on_write_tables_are_refused(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")
    with pytest.raises(UserError, match="no logs"):
        table.compact()


def test_logs_written_during_a_planned_compaction_lie_on_top_of_it(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    planned = table.schedule_compaction()
    table.upsert(rows(range(4, 8), 3))
    table.delete(keys=["k10"])
    before = everything(table)
    names = {str(log.name) for s in table.file_slices() for log in s.logs}
    by_slice = table.config.layout.logs_name_slices
    assert (sum(planned in name for name in names) >= 2) is by_slice, names
    report = table.compact()
    assert report.instants == (planned,)
    assert everything(table) == before
    assert all(s.logs for s in table.file_slices()), "the later logs are still to be merged"
    table.compact()
    assert everything(table) == before == everything(table, "read_optimized")


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_plan_that_lacks_a_committed_log_merges_it_too(tmp_path: Path, version: str) -> None:
    """A process that stood still until its lock was lost wrote the plan of an earlier state."""
    table = table_with_logs(tmp_path / "t", **{"hoodie.write.table.version": version})
    state = state_of(table)
    chosen = service.propose_compaction(state, Options())
    table.upsert(rows(range(4, 8), 3))
    before = everything(table)
    state.log.request(Action.COMPACTION, compaction_plan(chosen).to_avro())
    table.compact()
    assert everything(table) == before


def test_compactions_follow_the_delta_commits_on_request(tmp_path: Path) -> None:
    table = table_with_logs(
        tmp_path / "t",
        **{"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"},
    )
    report = table.upsert(rows(range(2), 4))
    assert any("compaction" in note for note in report.notes) or not any(
        s.logs for s in table.file_slices()
    )


def test_a_slice_whose_rows_are_all_deleted_becomes_an_empty_file(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    table.delete(keys=[f"k{i}" for i in range(20)])
    table.compact()
    assert everything(table) == []
    table.upsert(rows(range(3), 9))
    assert len(everything(table)) == 3


def compaction(**options: str) -> CompactionOptions:
    names = {f"hoodie.{name.replace('__', '.')}": text for name, text in options.items()}
    return parse_options(names).services.compaction


def slices_of(sizes: dict[str, tuple[int, ...]]) -> TableView:
    """A view with one slice a partition, of a base file of 1 MiB and logs of these MiB."""
    groups = {}
    for partition, logs in sizes.items():
        id = FileGroupId(partition, "f-0")
        base = DataFile(BaseFileName("f-0", "1-0-1", InstantTime("1")), partition, 1 << 20)
        files = tuple(
            DataFile(LogFileName("f-0", InstantTime("1"), n + 1, "1-0-1"), partition, mib << 20)
            for n, mib in enumerate(logs)
        )
        groups[id] = FileGroup(id, (FileSlice(id, InstantTime("1"), base, files),))
    return TableView(groups, Visibility(frozenset(), None))


DAYS = {"2026/11/18": (1, 1, 1), "2026/11/19": (9,), "2026/11/20": (2, 2), "day=2026/11/21": (4,)}


@pytest.mark.parametrize(
    ("strategy", "more", "taken"),
    [
        ("LogFileSizeBased", {}, [19, 20, 21, 18]),
        ("LogFileSizeBased", {"compaction__target__io": "17"}, [19, 20]),
        ("LogFileSizeBased", {"compaction__logfile__size__threshold": "4mb"}, [19, 20, 21]),
        ("LogFileNumBased", {}, [18, 20, 19, 21]),
        ("LogFileNumBased", {"compaction__logfile__num__threshold": "2"}, [18, 20]),
        ("BoundedIO", {"compaction__target__io": "6"}, [18, 19]),
        ("UnBounded", {"compaction__target__io": "1"}, [18, 19, 20, 21]),
        ("DayBased", {"compaction__daybased__target__partitions": "2"}, [21, 20]),
        ("BoundedPartitionAware", {"compaction__daybased__target__partitions": "2"}, [19, 20, 21]),
        ("UnBoundedPartitionAware", {"compaction__daybased__target__partitions": "2"}, [18]),
        ("PartitionRegexBased", {"compaction__partition__path__regex": ".*/(18|20)"}, [18, 20]),
    ],
)
def test_strategies_take_what_their_names_say(
    strategy: str, more: dict[str, str], taken: list[int]
) -> None:
    options = compaction(compaction__strategy=f"{strategy}CompactionStrategy", **more)
    chosen = compactable(slices_of(DAYS), options, today=date(2026, 11, 21))
    assert [int(file_slice.partition[-2:]) for file_slice in chosen] == taken


@pytest.mark.parametrize(
    "trigger",
    [
        "NUM_COMMITS",
        "TIME_ELAPSED",
        "NUM_AND_TIME",
        "NUM_OR_TIME",
        "NUM_COMMITS_AFTER_LAST_REQUEST",
    ],
)
def test_triggers_count_commits_and_seconds(
    tmp_path: Path, trigger: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = table_with_logs(tmp_path / "t")
    state = load_state(LocalFileSystem(tmp_path / "t"), parse_options({}).read)
    counts = {False: "9", True: "3"}
    seconds = {False: "3600", True: "1"}
    moment = datetime.now(UTC) + timedelta(seconds=60)
    monkeypatch.setattr(service, "system_clock", lambda: moment)
    for by_count in (False, True):
        for by_time in (False, True):
            options = compaction(
                compact__inline__trigger__strategy=trigger,
                compact__inline__max__delta__commits=counts[by_count],
                compact__inline__max__delta__seconds=seconds[by_time],
            )
            expected = {
                "NUM_COMMITS": by_count,
                "NUM_COMMITS_AFTER_LAST_REQUEST": by_count,
                "TIME_ELAPSED": by_time,
                "NUM_AND_TIME": by_count and by_time,
                "NUM_OR_TIME": by_count or by_time,
            }[trigger]
            assert service.compaction_is_due(state.timeline, state.zone, options) is expected, (
                by_count,
                by_time,
            )
    if trigger == "NUM_COMMITS_AFTER_LAST_REQUEST":
        table.schedule_compaction()
        state = load_state(LocalFileSystem(tmp_path / "t"), parse_options({}).read)
        options = compaction(
            compact__inline__trigger__strategy=trigger, compact__inline__max__delta__commits="1"
        )
        assert not service.compaction_is_due(state.timeline, state.zone, options), (
            "the request is what counts"
        )


def test_a_write_may_only_plan_the_compaction_that_is_due(tmp_path: Path) -> None:
    table_with_logs(tmp_path / "t")
    options = OPTIONS | {"hoodie.compact.schedule.inline": "true"}
    table = pyhudi.open_table(tmp_path / "t", options=options)
    reports = [table.upsert(rows(range(3), 5 + number)) for number in range(2)]
    assert any("is planned" in note for note in reports[-1].notes), reports
    assert table.timeline.where({Action.COMPACTION}, State.REQUESTED)


def test_a_plan_that_nothing_stands_on_is_taken_back(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t")
    before = everything(table)
    planned = table.schedule_compaction()
    assert planned is not None
    preview = table.unschedule_compaction(planned, dry_run=True)
    assert (preview.file_groups, preview.dry_run) == (2, True)
    assert table.timeline.where({Action.COMPACTION})
    assert table.unschedule_compaction(planned).file_groups == 2
    assert not table.timeline.pending
    table.upsert(rows(range(2), 4))
    assert table.compact().log_files > 2
    assert len(everything(table)) == len(before)


def test_a_plan_is_cancelled_although_logs_follow_it_if_they_do_not_name_it(
    tmp_path: Path,
) -> None:
    table = table_with_logs(tmp_path / "t", **{"hoodie.write.table.version": "9"})
    planned = table.schedule_compaction()
    assert planned is not None
    table.upsert(rows(range(2), 4))
    before = everything(table)
    table.unschedule_compaction(planned)
    assert everything(table) == before
    assert not table.timeline.pending and table.compact().instants != (planned,)
    assert everything(table) == before == everything(table, "read_optimized")


def test_a_plan_that_logs_lie_on_stays(tmp_path: Path) -> None:
    table = table_with_logs(tmp_path / "t", **{"hoodie.write.table.version": "6"})
    planned = table.schedule_compaction()
    assert planned is not None
    table.upsert(rows(range(2), 4))
    with pytest.raises(UserError, match="depend on this compaction"):
        table.unschedule_compaction(planned)
    with pytest.raises(UserError, match="no such plan"):
        table.unschedule_clustering(planned)
    before = everything(table)
    assert table.compact().instants == (planned,)
    assert everything(table) == before


@stops(6)
@pytest.mark.parametrize("version", [6, 9])
def test_a_stop_anywhere_loses_nothing_and_the_next_run_ends_it(version: int, one_in: int) -> None:
    from pyhudi.table.properties import TableType
    from tests.crash.test_every_stop import before

    start = before(TableType.MERGE_ON_READ, version)
    rows_then = snapshot(start)
    done = clone(start)
    open_(done).compact()
    tried = 0
    for stop in every_stop(start, lambda fs: open_(fs).compact(), one_in=one_in):
        tried += 1
        assert snapshot(stop.fs) == rows_then, str(stop)
        open_(stop.fs).upsert(rows(range(30, 32), 9))
        want = rows_then | {"k30": 9, "k31": 9}
        assert snapshot(stop.fs) == want, str(stop)
        open_(stop.fs).compact()
        assert snapshot(stop.fs) == want, str(stop)
        check_index(stop.fs, want)
        assert not open_(stop.fs).timeline.pending, str(stop)
    assert tried > 10 // one_in


def test_every_merge_order_survives(tmp_path: Path) -> None:
    """An older row that comes late does not win in a base file either."""
    table = table_with_logs(tmp_path / "t")
    late = pa.Table.from_pylist([{"id": "k0", "ts": 0, "part": "p0"}], SCHEMA)
    table.upsert(late)
    before = everything(table)
    table.compact()
    assert everything(table) == before


@pytest.mark.parametrize("whole", [False, True])
def test_file_groups_that_were_overwritten_since_are_passed_over(
    tmp_path: Path, whole: bool
) -> None:
    table = table_with_logs(tmp_path / "t")
    instant = table.schedule_compaction()
    verb = table.insert_overwrite_table if whole else table.insert_overwrite
    verb(rows(range(0, 6, 2), 9))
    before = everything(table)
    report = table.compact()
    assert report.instants == (instant,)
    assert report.file_groups == (0 if whole else 1)
    assert everything(table) == before
    table.upsert(rows(range(20), 10))
    assert len(everything(table)) == 20


@pytest.mark.parametrize("version", [6, 8, 9])
def test_rows_written_after_a_plan_stay_in_their_logs(tmp_path: Path, version: int) -> None:
    table = table_with_logs(tmp_path / "t", **{"hoodie.write.table.version": str(version)})
    planned = table.schedule_compaction()
    logs = sum(len(each.logs) for each in table.file_slices())
    table.upsert(rows(range(6), 9))
    before = everything(table)
    report = table.compact()
    assert (report.instants, report.log_files) == ((planned,), logs)
    assert everything(table) == before != everything(table, "read_optimized")
    assert sum(len(each.logs) for each in table.file_slices()) == 2


@pytest.mark.parametrize("version", [8, 9])
def test_a_write_that_began_before_the_first_of_a_plan_and_ended_after_it_hides_nothing(
    tmp_path: Path, version: int
) -> None:
    """The file group has no base file: its slice is named after the first log that is there."""
    options = {
        **OPTIONS,
        "hoodie.index.type": "BUCKET",
        "hoodie.bucket.index.num.buckets": "1",
        "hoodie.write.concurrency.mode": "NON_BLOCKING_CONCURRENCY_CONTROL",
        "hoodie.write.table.version": str(version),
    }
    pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="part", ordering="ts",
        table_type="mor", options=options,
    )  # fmt: skip

    def opened(engine: LocalEngine | None = None) -> pyhudi.Table:
        fs = LocalFileSystem(tmp_path / "t")
        return pyhudi.Table(fs, options=parse_options(options), engine=engine or LocalEngine(1))

    def meanwhile() -> None:
        opened().upsert(rows(range(4), 2))
        opened().schedule_compaction()

    opened(Pausing("write", meanwhile, after=True)).upsert(rows(range(2, 8), 1))
    expected = {f"k{i}": 2 if i < 4 else 1 for i in range(8)}
    for _ in range(2):
        assert {row["id"]: row["ts"] for row in everything(opened())} == expected
        opened().compact()
    assert {row["id"]: row["ts"] for row in everything(opened(), "read_optimized")} == expected


def test_a_plan_names_no_log_of_a_write_that_is_under_way(tmp_path: Path) -> None:
    """An attempt's log that loses is deleted before the commit, and the plan stays possible."""
    unlisted = {"hoodie.metadata.enable": "false"}
    table_with_logs(tmp_path / "t")
    table = pyhudi.open_table(tmp_path / "t", options={**OPTIONS, **unlisted})
    before = everything(table)
    fs, log = fs_of(table), state_of(table).log
    mine = log.start(log.request(Action.DELTA_COMMIT))
    with claimed(fs, mine, parse_options({}).write):
        file_slice = next(s for s in state_of(table).view().latest_slices() if s.logs)
        name = LogFileName(file_slice.file_id, file_slice.instant, 9, "9-9-9")
        lost = delete_block(pa.array(["k0"]), file_slice.partition, None, instant=mine.time)
        fs.create(f"{file_slice.partition}/{name}", lost)
        torn = LogFileName(file_slice.file_id, file_slice.instant, 10, "9-9-9")
        fs.create(f"{file_slice.partition}/{torn}", lost[:-9])
        planned = table.schedule_compaction()
        assert planned is not None
        operations = log.requested(
            Instant(InstantTime(planned), Action.COMPACTION, State.REQUESTED)
        )["operations"]
        assert operations
        named = {path for o in operations for path in o["deltaFilePaths"]}
        assert named.isdisjoint({str(name), str(torn)})
        fs.delete([f"{file_slice.partition}/{name}", f"{file_slice.partition}/{torn}"])
    log.forget(mine)
    assert table.compact().instants == (planned,)
    assert everything(table) == before == everything(table, "read_optimized")


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_plan_that_waits_for_another_sees_what_changed_meanwhile(
    tmp_path: Path, version: int
) -> None:
    """Of two plans the second begins when its file group is replaced and old files are cleaned."""
    few = {"hoodie.clean.commits.retained": "1", "hoodie.write.table.version": str(version)}
    table = table_with_logs(tmp_path / "t", **few)
    table.compact()
    table.upsert(rows(range(0, 6, 2), 3))
    first = table.schedule_compaction()
    table.upsert(rows(range(1, 6, 2), 4))
    second = table.schedule_compaction()

    def replace_the_second() -> None:
        table.insert_overwrite(rows(range(21, 22), 5))  # all of p1
        for ts in range(6, 34):  # more commits than the metadata table retains for its readers
            table.upsert(rows(range(0, 2, 2), ts))
        table.clean()

    busy = pyhudi.open_table(
        tmp_path / "t", options=few, engine=Pausing("compact", replace_the_second, after=True)
    )
    report = busy.compact()
    assert report.instants == (first, second)
    assert report.file_groups == 1
    want = {f"k{i}": 1 for i in range(6, 20, 2)} | {"k0": 33, "k2": 3, "k4": 3, "k21": 5}
    assert snapshot(fs_of(table)) == want
    check_index(fs_of(table), want)

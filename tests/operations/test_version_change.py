"""Upgrade and downgrade between versions 6, 8 and 9: the rows stay; all are written."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from zipfile import ZipFile

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import (
    IndexNotReadyError,
    UnsupportedTableError,
    UserError,
    WriteConflictError,
)
from pyhudi.health.findings import Severity
from pyhudi.metadata.definitions import read_definitions
from pyhudi.options import parse_options
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import MergeMode, TableType, load_config
from pyhudi.table.version_record import RECORD
from pyhudi.timeline.instant import Action, Instant, State
from tests.cli.test_commands import answer, run
from tests.concurrency.test_conflicts import new_table, open_, snapshot
from tests.concurrency.test_conflicts import rows as some_rows
from tests.support.engines import Pausing
from tests.support.filesystems import clone, every_stop, tree
from tests.support.fixtures import fixtures
from tests.support.foreign import foreign_table, row_counts
from tests.support.golden import SMALL, golden_names, golden_table, unzipped
from tests.support.inside import fs_of
from tests.support.versions import new_table as new_version_table

OPTIONS = {"hoodie.index.type": "SIMPLE"}


def opened(fs: FileSystem, **more: str) -> Table:
    return Table(fs, options=parse_options({**OPTIONS, **more}), engine=LocalEngine(1))


def rows(table: Table) -> Counter[str]:
    return counted(table.scan().to_arrow())


def counted(found: pa.Table) -> Counter[str]:
    return row_counts(found, [n for n in found.column_names if n != "_hoodie_file_name"])


WRITABLE = [name for name in golden_names() if name != "mor_utc_virtualkeys"]
"""That table has no meta columns."""


@pytest.mark.covering(1, most=5)
@pytest.mark.conformance(26)
@pytest.mark.parametrize("name", WRITABLE)
def test_a_golden_table_keeps_its_rows_up_and_down(name: str) -> None:
    fs = golden_table(name)
    before, listed = rows(opened(fs)), opened(fs).config.metadata_partitions
    for to in (8, 9):
        report = opened(fs).upgrade(to)
        table = opened(fs)
        assert table.config.version == to == report.to_version
        assert rows(table) == before, to
        assert table.config.metadata_partitions == listed
        assert not table.metadata.verify().findings
        assert not [each for each in table.doctor().findings if each.severity is Severity.ERROR]
    for to in (8, 6):
        opened(fs).downgrade(to)
        table = opened(fs)
        assert table.config.version == to
        assert rows(table) == before, to
        assert table.config.metadata_partitions == listed
        assert not (table.doctor() if to == 6 else table.metadata.verify()).findings


def at_points(table: Table, points: Sequence[str]) -> list[Counter[str]]:
    return [counted(table.scan(as_of=point).to_arrow()) for point in points]


@pytest.mark.parametrize(
    "name", ["cow_cleaned", "mor_manylogs", "mor_rolled_back", "mor_logcompact"]
)
def test_older_snapshots_and_changes_are_read_after_an_upgrade(name: str) -> None:
    fs = golden_table(name)
    table = opened(fs)
    readable = [i.time for i in table.timeline.commits][-3:]
    before = at_points(table, readable)
    changed = counted(table.changes(readable[0], readable[-1]).to_arrow())
    opened(fs).upgrade(9)
    table = opened(fs)
    assert at_points(table, readable) == before
    ends = {i.time: i.completed_at or "" for i in table.timeline.commits}
    assert all(ends.values()) and sorted(ends.values()) == [ends[time] for time in sorted(ends)]
    assert counted(table.changes(ends[readable[0]], ends[readable[-1]]).to_arrow()) == changed


def test_the_archive_is_converted_in_both_directions() -> None:
    fs = golden_table("cow_cleaned")
    archived = [(i.time, i.action) for i in opened(fs).archived_timeline]
    assert archived
    opened(fs).upgrade(9)
    there = opened(fs).archived_timeline
    assert [(i.time, i.action) for i in there] == archived
    assert all(i.completed_at and i.completed_at > i.time for i in there)
    fs.delete_folder(".hoodie/archived")
    opened(fs).downgrade(6)
    assert [(i.time, i.action) for i in opened(fs).archived_timeline] == archived


@pytest.mark.parametrize("to", [8, 9])
def test_a_table_without_commits_has_a_timeline_folder_afterwards(to: int, tmp_path: Path) -> None:
    """Without it Apache Hudi cannot open the table."""
    schema = pa.schema([("id", pa.string())])
    pyhudi.create_table(tmp_path, schema, record_key="id", version=6).upgrade(to)
    assert (tmp_path / ".hoodie" / "timeline").is_dir()


def test_a_table_without_meta_columns_is_refused_and_unchanged() -> None:
    fs = golden_table("mor_utc_virtualkeys")
    before = tree(fs)
    with pytest.raises(UnsupportedTableError, match="meta columns"):
        opened(fs).upgrade(9)
    assert tree(fs) == before


def test_partial_updates_by_a_payload_class_stay_so_up_and_down() -> None:
    schema = pa.schema({"id": pa.string(), "ts": pa.int64(), "a": pa.string(), "b": pa.string()})
    fs = fs_of(new_version_table(
        "memory://partialup", 6, schema, kind="mor", ordering=("ts",),
        options={"hoodie.datasource.write.payload.class": "PartialUpdateAvroPayload"},
    ))  # fmt: skip
    opened(fs).upsert(pa.table([["k"], [1], ["a"], ["b"]], schema=schema))
    for ts, to in ((2, 9), (3, 6)):
        table = opened(fs)
        (table.upgrade if to == 9 else table.downgrade)(to)
        opened(fs).upsert(pa.table([["k"], [ts], [None], [str(to)]], schema=schema))
        found = opened(fs).scan(with_meta=False).to_arrow().to_pylist()
        assert found == [{"id": "k", "ts": ts, "a": "a", "b": str(to)}]


def test_the_rows_and_the_merge_rule_of_an_overwriting_table_stay() -> None:
    """Apache Hudi 1.2.0 orders the records of this table by event time after its own upgrade."""
    fs = golden_table("mor_overwrite_latest")
    before = rows(opened(fs))
    opened(fs).upgrade(9)
    table = opened(fs)
    assert rows(table) == before
    assert table.config.merge_mode is MergeMode.COMMIT_TIME
    older = table.scan(with_meta=False).to_arrow().slice(0, 1)
    older = older.set_column(older.column_names.index("ts"), "ts", pa.array([0], older["ts"].type))
    assert table.upsert(older).matched == 1
    assert table.scan(with_meta=False).to_arrow()["ts"].to_pylist().count(0) == 1


@pytest.mark.parametrize(
    ("name", "since", "to", "one_in"),
    [
        ("mor_bloom", 6, 9, 9), ("mor_bloom", 9, 6, 9), ("mor_bloom", 9, 8, 9),
        ("cow_rli", 6, 9, 79), ("cow_rli", 9, 6, 79),
        *(pytest.param("mor_bloom", *way, 1, marks=pytest.mark.slow)
          for way in ((6, 9), (9, 6), (9, 8))),
        pytest.param("cow_rli", 6, 9, 1, marks=pytest.mark.slow),
        pytest.param("cow_rli", 9, 6, 1, marks=pytest.mark.slow),
        pytest.param("mor_rli_avro", 6, 9, 1, marks=pytest.mark.slow),
        pytest.param("mor_rli_avro", 9, 6, 1, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_a_change_that_stops_anywhere_leaves_a_table_that_is_read_and_finished(
    name: str, since: int, to: int, one_in: int
) -> None:
    fs = golden_table(name)
    if since > 6:
        opened(fs).upgrade(since)
    before, listed = rows(opened(fs)), opened(fs).config.metadata_partitions

    def change(store: FileSystem) -> None:
        table = opened(store)
        table.upgrade(to) if to > since else table.downgrade(to)

    # a bloom filter's entry goes to the file group of its file's name
    for stop in every_stop(fs, change, one_in=one_in, varies=name == "mor_rli_avro"):
        table = opened(stop.fs)
        assert table.config.version in (since, to)
        assert rows(table) == before, stop
        if table.config.version == since or stop.fs.exists(RECORD):
            change(stop.fs)
        table = opened(stop.fs)
        assert table.config.version == to, stop
        assert rows(table) == before, stop
        assert table.config.metadata_partitions == listed, stop
        assert not table.metadata.verify().findings, stop


def works(act: Callable[[], object], verb: str) -> bool:
    """Or it is refused with the call that finishes the change."""
    try:
        act()
    except IndexNotReadyError as refused:
        assert "unfinished" in refused.facts and verb in str(refused), refused
        return False
    return True


@pytest.mark.parametrize(
    ("name", "since", "to", "one_in"),
    [
        ("cow_rli", 6, 9, 127), ("cow_rli", 9, 6, 127), ("mor_bloom", 9, 6, 29),
        pytest.param("cow_rli", 6, 9, 1, marks=pytest.mark.slow),
        pytest.param("cow_rli", 9, 6, 1, marks=pytest.mark.slow),
        pytest.param("mor_bloom", 6, 9, 1, marks=pytest.mark.slow),
        pytest.param("mor_bloom", 9, 6, 1, marks=pytest.mark.slow),
        pytest.param("mor_rli_avro", 9, 6, 3, marks=pytest.mark.slow),
    ],
)  # fmt: skip
def test_verbs_work_or_name_the_change_that_stopped_anywhere(
    name: str, since: int, to: int, one_in: int
) -> None:
    fs = golden_table(name)
    if since > 6:
        opened(fs).upgrade(since)
    before, some = rows(opened(fs)), opened(fs).scan(with_meta=False).to_arrow().slice(0, 2)
    keys = opened(fs).scan().to_arrow()["_hoodie_record_key"].to_pylist()[:2]
    word = "upgrade" if to > since else "downgrade"
    verb, has_index = f"table.{word}({to})", "record_index" in opened(fs).config.metadata_partitions

    def change(store: FileSystem) -> None:
        getattr(opened(store), word)(to)

    refused = 0
    for stop in every_stop(fs, change, one_in=one_in, varies=True):
        found = {each.code: each for each in opened(stop.fs).doctor(quick=True).findings}
        unfinished = stop.fs.exists(RECORD)
        assert ("unfinished-version-change" in found) == unfinished, stop
        if unfinished:
            assert verb in found["unfinished-version-change"].advice
        assert rows(opened(stop.fs)) == before, stop
        if has_index:
            table = opened(stop.fs)
            refused += not works(partial(table.lookup, keys), verb)
            refused += not works(table.index.verify, verb)
            refused += not works(table.index.stats, verb)
            plain = Table(clone(stop.fs), options=parse_options({}), engine=LocalEngine(1))
            refused += not works(partial(plain.upsert, some), verb)
        for index in ("SIMPLE", "RECORD_INDEX") if has_index else ("SIMPLE",):
            disk = clone(stop.fs)
            table = opened(disk, **{"hoodie.index.type": index})
            refused += not works(partial(table.upsert, some), verb)
            if table.config.is_merge_on_read:
                works(opened(disk).compact, verb)
            assert opened(disk).scan().to_arrow().num_rows == before.total(), stop
            if unfinished:
                change(disk)
                assert opened(disk).config.version == to and not disk.exists(RECORD), stop
                assert opened(disk).scan().to_arrow().num_rows == before.total(), stop
                assert not opened(disk).metadata.verify().findings, stop
    assert bool(refused) == has_index


@pytest.mark.parametrize(
    ("folder", "name", "dropped"),
    [
        ("foreign", "archived_cow_v8", {"partition_stats"}),
        ("foreign", "variant_mor_v9", set()),
        ("foreign", "timestamp_partition_v8", {"partition_stats"}),
        ("queries", "arch_mor_v9", set()),
        ("queries", "mor_partial_v9", set()),
        ("queries", "cdc_mor_v9_both", set()),
    ],
)
def test_tables_of_apache_hudi_keep_their_rows_down_and_up(
    folder: str, name: str, dropped: set[str]
) -> None:
    fs = unzipped(SMALL.parent / folder / f"{name}.zip")
    before = rows(opened(fs))
    report = opened(fs).downgrade(6)
    assert dropped <= set(report.dropped)
    assert opened(fs).config.version == 6
    assert rows(opened(fs)) == before
    assert not opened(fs).metadata.verify().findings
    opened(fs).upgrade(9)
    assert rows(opened(fs)) == before
    assert not opened(fs).metadata.verify().findings


def test_a_write_upgrades_a_table_only_if_both_options_request_it() -> None:
    fs = golden_table("cow_bloom")
    before = rows(opened(fs))
    batch = opened(fs).scan(with_meta=False).to_arrow().slice(0, 2)
    permitted = {"hoodie.write.auto.upgrade": "true"}
    opened(fs, **permitted).upsert(batch)
    assert opened(fs).config.version == 6
    report = opened(fs, **permitted, **{"hoodie.write.table.version": "9"}).upsert(batch)
    assert report.notes[0] == "upgraded the table from version 6 to 9"
    assert opened(fs).config.version == 9
    assert opened(fs).scan().to_arrow().num_rows == sum(before.values())


def test_targets_that_cannot_be_reached_are_refused() -> None:
    fs = golden_table("cow_bloom")
    before = tree(fs)
    refused: list[tuple[Callable[[], object], str]] = [
        (lambda: opened(fs).upgrade(7), "unsupported target version of an upgrade"),
        (lambda: opened(fs).downgrade(9), "unsupported target version of a downgrade"),
        (lambda: opened(fs).downgrade(6), "needs no downgrade"),
        (lambda: opened(fs).upgrade(6), "needs no upgrade"),
        (lambda: opened(fs).downgrade(8), "needs no downgrade"),
    ]
    for change, match in refused:
        with pytest.raises(UserError, match=match):
            change()
    assert tree(fs) == before
    assert opened(fs).upgrade(9, dry_run=True).to_version == 9
    assert tree(fs) == before


def table_with_logs() -> FileSystem:
    """A merge-on-read table of version 9 whose newest slices have logs."""
    fs = new_table(TableType.MERGE_ON_READ, **{"hoodie.write.table.version": "9"})
    open_(fs).upsert(some_rows(range(4), 2))
    return fs


def test_a_table_with_savepoints_on_logs_is_not_downgraded_to_version_6() -> None:
    fs = table_with_logs()
    saved = open_(fs).savepoint("kept").instant
    before = tree(fs)
    for dry_run in (True, False):
        with pytest.raises(UserError, match="a savepoint protects logs") as refused:
            open_(fs).downgrade(6, dry_run=dry_run)
        assert refused.value.facts["savepoint"] == saved
    assert tree(fs) == before
    open_(fs).delete_savepoint(saved)
    open_(fs).downgrade(6)
    assert snapshot(fs) == {f"k{i}": 2 if i < 4 else 1 for i in range(8)}


def test_an_upgrade_from_version_6_deletes_logs_of_writes_that_were_rolled_back() -> None:
    """Such as one that a task wrote after the rollback.  Its name has the instant of its slice,
    which version 8 takes for the instant of a commit."""
    fs = new_table(TableType.MERGE_ON_READ, **{"hoodie.write.table.version": "6"})
    elsewhere = clone(fs)
    late = InstantTime(str(open_(elsewhere).upsert(some_rows(range(4), 2)).instant))
    log = timeline_log(fs, load_config(fs))
    failed = Instant(late, Action.DELTA_COMMIT, State.REQUESTED)
    fs.create(log.path(failed), b"")
    log.start(failed, b"{}")
    open_(fs).insert(some_rows(range(20, 21), 1, "p2"))
    assert open_(fs).timeline.where({Action.ROLLBACK}).instants
    for path in logs_of(elsewhere):
        fs.create(path, elsewhere.read(path))
    open_(fs).upgrade(9)
    assert not logs_of(fs)
    assert snapshot(fs) == {f"k{i}": 1 for i in [*range(8), 20]}


@pytest.mark.parametrize(("version", "to"), [(6, 9), (8, 6), (9, 6)])
def test_a_planned_compaction_of_overwritten_file_groups_does_not_prevent_a_change(
    version: int, to: int
) -> None:
    fs = new_table(TableType.MERGE_ON_READ, **{"hoodie.write.table.version": str(version)})
    table = open_(fs)
    table.upsert(some_rows(range(4), 2))
    assert table.schedule_compaction()
    table.insert_overwrite_table(some_rows(range(3), 3))
    (table.upgrade if to > version else table.downgrade)(to)
    assert snapshot(fs) == {f"k{i}": 3 for i in range(3)}
    assert not open_(fs).timeline.pending and open_(fs).doctor().is_healthy


def test_logs_that_a_rollback_left_at_version_6_are_no_finding_after_an_upgrade() -> None:
    fs = new_table(TableType.MERGE_ON_READ, **{"hoodie.write.table.version": "6"})
    table = open_(fs)
    table.rollback(str(table.upsert(some_rows(range(4), 2)).instant))
    table.upsert(some_rows(range(2), 3))
    table.upgrade(9)
    assert len(logs_of(fs)) > 2 and table.doctor().is_healthy, table.doctor()
    assert snapshot(fs) == {f"k{i}": 3 if i < 2 else 1 for i in range(8)}


@pytest.mark.parametrize("instant", ["29990101000000000", "20200101000000000"])
@pytest.mark.parametrize("compacted", [False, True])
def test_a_downgrade_names_a_log_of_no_commit_and_its_cure(compacted: bool, instant: str) -> None:
    fs = table_with_logs()
    first = logs_of(fs)[0]
    stray = re.sub(r"_\d{17}\.log\.\d+", f"_{instant}.log.7", first)
    fs.create(stray, fs.read(first))
    if compacted:
        open_(fs).compact()
    before = tree(fs)
    with pytest.raises(UserError, match="a log file belongs to no commit") as refused:
        open_(fs).downgrade(6)
    assert refused.value.facts["file"] == stray
    if "table.repair()" in str(refused.value):
        assert tree(fs) == before
        with pytest.raises(UserError, match="belongs to no commit"):
            open_(fs).downgrade(6, dry_run=True)
        open_(fs).repair()
    else:
        assert instant.startswith("2020") and "move it out" in str(refused.value)
        fs.delete([stray])
    open_(fs).downgrade(6)
    assert snapshot(fs) == {f"k{i}": 2 if i < 4 else 1 for i in range(8)}


def logs_of(fs: FileSystem) -> list[str]:
    return [info.path for p in ("p0", "p1") for info in fs.children(p) if ".log." in info.name]


def indexed_table() -> MemoryFileSystem:
    """A table of Apache Hudi at version 9 with statistics, a record and a secondary index."""
    fs = MemoryFileSystem()
    with ZipFile(fixtures() / "tables" / "mor_avro_v9_txns_simple_meta.zip") as archive:
        for entry in archive.namelist():
            if not entry.endswith("/"):
                fs.create(entry.partition("/")[2], archive.read(entry))
    return fs


@pytest.mark.slow
@pytest.mark.parametrize(("began", "to"), [(6, 8), (8, 6)])
@pytest.mark.parametrize(
    "one_in", [pytest.param(53, id=""), pytest.param(5, id="long", marks=pytest.mark.slow)]
)
def test_a_change_to_another_version_than_the_one_that_stopped_loses_no_index(
    began: int, to: int, one_in: int
) -> None:
    fs = indexed_table()
    before, expected = rows(opened(fs)), clone(fs)
    opened(expected).downgrade(to)
    listed = opened(expected).config.metadata_partitions
    resumed = 0
    for stop in every_stop(fs, lambda fs: opened(fs).downgrade(began), one_in=one_in, varies=True):
        if opened(stop.fs).config.version != 9:
            continue
        resumed += (
            opened(stop.fs).config.metadata_partitions != opened(fs).config.metadata_partitions
        )
        opened(stop.fs).downgrade(to)
        assert opened(stop.fs).config.metadata_partitions == listed, stop
        assert rows(opened(stop.fs)) == before, stop
    assert resumed


def test_statistics_and_secondary_indexes_are_rebuilt_in_the_other_version() -> None:
    fs = indexed_table()
    before, listed = rows(opened(fs)), opened(fs).config.metadata_partitions
    assert {"partition_stats", "secondary_index_merchant_idx"} <= listed
    report = opened(fs).downgrade(8)
    assert not report.dropped
    for to in (8, 9):
        if to > 8:
            opened(fs).upgrade(to)
        table = opened(fs)
        assert table.config.metadata_partitions == listed
        definitions = read_definitions(fs, table.config)
        versions = {name: each["version"] for name, each in definitions.items()}
        assert versions["secondary_index_merchant_idx"] == f"V{to - 7}"
        assert versions["column_stats"] == f"V{to - 7}"
        assert rows(table) == before
        found = table.metadata.verify().findings
        assert {each.severity for each in found} <= {Severity.INFO}  # dates of version V1


def test_the_commands_report_confirm_and_change_the_version(tmp_path: Path) -> None:
    root = foreign_table("archived_cow_v8", tmp_path)
    preview = answer("table", "downgrade", root, "--to", 6, "--dry-run")
    assert isinstance(preview, dict) and (preview["from_version"], preview["dry_run"]) == (8, True)
    assert "partition_stats" in preview["dropped"]
    unanswered = run("table", "downgrade", root, "--to", 6)
    assert unanswered.returncode == 2 and "drops partition_stats" in unanswered.stderr
    done = answer("table", "downgrade", root, "--to", 6, "--yes")
    assert isinstance(done, dict) and done["to_version"] == 6
    done = answer("table", "upgrade", root, "--to", 9, "--yes")
    assert isinstance(done, dict) and (done["from_version"], done["to_version"]) == (6, 9)


@pytest.mark.parametrize(("name", "word"), [("cow_bloom", "commit"), ("mor_bloom", "deltacommit")])
def test_a_failed_write_is_rolled_back_before_the_version_changes(name: str, word: str) -> None:
    fs = golden_table(name)
    newest = max(file for file in fs.names(".hoodie") if file.endswith(f".{word}"))
    fs.delete([f".hoodie/{newest}"])
    before, failed = rows(opened(fs)), (newest.partition(".")[0],)
    assert opened(fs).upgrade(9, dry_run=True).rolled_back == failed
    assert opened(fs).upgrade(9).rolled_back == failed
    assert rows(opened(fs)) == before
    assert not opened(fs).timeline.pending.instants


@pytest.mark.parametrize(("version", "to"), [(6, 9), (9, 8), (9, 6)])
def test_the_version_stays_while_another_process_compacts(version: int, to: int) -> None:
    """That compaction reads logs which the change would delete."""
    fs = new_table(TableType.MERGE_ON_READ, **{"hoodie.write.table.version": str(version)})
    open_(fs).upsert(some_rows(range(4), 2))
    want = snapshot(fs)

    def change() -> None:
        table = open_(fs)
        with pytest.raises(WriteConflictError, match="another process compacts the table"):
            (table.upgrade if to > version else table.downgrade)(to)

    open_(fs, engine=Pausing("compact", change)).compact()
    assert snapshot(fs) == want
    (open_(fs).upgrade if to > version else open_(fs).downgrade)(to)
    assert snapshot(fs) == want and not open_(fs).timeline.pending

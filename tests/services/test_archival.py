"""Archival: what leaves the timeline still counts, and reads over it are what they were."""

from __future__ import annotations

import gc
import json
import os
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError, UserError
from pyhudi.filenames import METADATA_TABLE
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.records import InstantTime
from pyhudi.services.archival import propose_archival
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Action
from pyhudi.write.input.stream_idempotency import CHECKPOINT
from pyhudi.write.table_creation import NewTable
from tests.crash.test_every_stop import SCHEMA, rows
from tests.recovery.test_restore import check_whole
from tests.recovery.test_undo import newest, table_of, values
from tests.support.filesystems import OpenCountingFileSystem, every_stop
from tests.support.inside import state_of

FEW = {
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.table.services.enabled": "false",  # the tests call the verbs
}


def long_table(path: Path, kind: str, count: int = 14, **more: str) -> pyhudi.Table:
    """A table with more commits than a timeline keeps; the first keys are written once."""
    table = table_of(path, kind, **{**FEW, **more})
    for ts in range(2, 2 + count):
        table.upsert(rows(range(ts % 3 + 2, 8), ts))
        if kind == "mor" and ts % 4 == 0:
            table.compact()
    return table


def archive_files(path: Path) -> list[str]:
    """Names of archive files, of layout 1 or 2."""
    folder = path / ".hoodie"
    found = [*(folder / "archived").glob(".commits*"), *folder.glob("timeline/history/*.parquet")]
    return sorted(p.name for p in found)


def of_version(number: str) -> dict[str, str]:
    return {"hoodie.write.table.version": number}


@pytest.mark.parametrize("version", ["6", "9"])
@pytest.mark.parametrize("kind", [pytest.param("cow", marks=pytest.mark.slow), "mor"])
def test_reads_over_archived_instants_are_what_they_were(
    tmp_path: Path, kind: str, version: str
) -> None:
    table = long_table(tmp_path / "t", kind, **of_version(version))
    commits = [i.time for i in table.timeline.commits]
    at = {time: values(table, as_of=time) for time in commits[::3]}
    since = {
        time: table.changes(since=time, columns=["id", "ts"]).to_arrow().num_rows
        for time in ["000", *commits[::3]]
    }
    want = values(table)
    preview = table.archive(dry_run=True)
    done = table.archive()
    assert done.instants and (done.instants, done.metadata_instants, done.files) == (
        preview.instants, preview.metadata_instants, preview.files,
    )  # fmt: skip
    left = [i.time for i in table.timeline.commits]
    assert left == commits[len(commits) - len(left) :]
    assert set(done.instants) == set(commits) - set(left)
    assert [i.time for i in table.archived_timeline.commits] == list(done.instants)
    again = pyhudi.open_table(tmp_path / "t", options={**FEW})
    check_whole(again, want)
    for time, found in at.items():
        assert values(again, as_of=time) == found
    for time, count in since.items():
        assert again.changes(since=time, columns=["id", "ts"]).to_arrow().num_rows == count
    again.upsert(rows(range(30, 34), 99))
    again.delete(keys=["k7"])
    check_whole(again, {**{k: v for k, v in want.items() if k != "k7"},
                        **{f"k{i}": 99 for i in range(30, 34)}})  # fmt: skip
    assert again.archive().files <= 2


@pytest.mark.parametrize("version", ["6", "9"])
def test_the_metadata_tables_own_timeline_is_archived_too(tmp_path: Path, version: str) -> None:
    table = long_table(tmp_path / "t", "cow", 18, **of_version(version))
    own = tmp_path / "t" / METADATA_TABLE
    before = len(list((own / ".hoodie").rglob("2*.deltacommit")))
    done = table.archive()
    after = len(list((own / ".hoodie").rglob("2*.deltacommit")))
    assert done.metadata_instants and after < before and archive_files(own)
    check_whole(table, values(table))


def test_what_is_still_requested_stays(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", **FEW)
    table.upsert(rows(range(8), 2))
    retained = values(table)
    saved = table.savepoint("kept").instant
    for ts in range(3, 15):
        table.upsert(rows(range(8), ts))
    done = table.archive()
    assert done.held_by == "a savepoint" and len(done.instants) == 1
    table.clean()
    assert values(table, as_of=saved) == retained
    table.restore(saved)
    check_whole(table, retained)


def test_replaced_groups_stay_known_until_they_are_cleaned(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", **FEW)
    table.delete_partitions("p0")
    for ts in range(3, 16):
        table.upsert(rows(range(1, 8, 2), ts))
    want = values(table)
    assert table.archive().held_by == "replaced files not cleaned"
    check_whole(table, want)
    table.clean()
    assert len(table.archive().instants) > 1
    check_whole(table, want)


RETAIN_TWO = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.archive.beyond.savepoint": "true",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.parquet.small.file.limit": "0",
}


@pytest.mark.parametrize(("kind", "version"), [("cow", "6"), ("mor", "6"), ("mor", "9")])
@pytest.mark.parametrize("how", ["overwrite", "cluster", "delete_partitions"])
@pytest.mark.parametrize("keeper", ["hold", "savepoint"])
def test_a_replacement_is_archived_after_the_last_file_it_replaced(
    tmp_path: Path, kind: str, version: str, how: str, keeper: str
) -> None:
    table = table_of(tmp_path / "t", kind, **RETAIN_TWO, **of_version(version))
    table.upsert(rows(range(8, 10), 1))  # a second file group in each partition
    snapshot = newest(table)
    before = values(table)
    pinned = table.pin_snapshot() if keeper == "hold" else None
    if pinned is None:
        table.savepoint("keep")
    match how:
        case "overwrite":
            table.insert_overwrite(rows(range(0, 2, 2), 2))  # of p0 alone
        case "cluster":
            table.cluster(partitions=["p0"])
        case _:
            table.delete_partitions("p0")
    replacement = newest(table)
    assert table.timeline.commits.instants[-1].action is Action.REPLACE_COMMIT
    want = values(table)
    for ts in range(3, 13):
        table.upsert(rows(range(1, 4, 2), ts))  # of p1 alone
        want |= {"k1": ts, "k3": ts}
        table.clean()
        archived = table.archive()
    assert archived.held_by == "replaced files not cleaned"
    assert replacement in {i.time for i in table.timeline}
    for enabled in ("true", "false"):
        again = pyhudi.open_table(tmp_path / "t", options={"hoodie.metadata.enable": enabled})
        assert values(again) == want
        assert values(again, as_of=snapshot) == before
    assert table.doctor().is_healthy, str(table.doctor())
    if pinned is not None:
        pinned.release()
    else:
        table.delete_savepoint(snapshot)
    table.upsert(rows(range(1, 4, 2), 20))
    table.clean()
    assert replacement in table.archive().instants
    want |= {"k1": 20, "k3": 20}
    for enabled in ("true", "false"):
        again = pyhudi.open_table(tmp_path / "t", options={"hoodie.metadata.enable": enabled})
        assert values(again) == want


def test_a_clean_under_a_hold_does_not_retain_past_a_replacement(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", **RETAIN_TWO)
    with table.pin_snapshot():
        table.insert_overwrite(rows(range(0, 2, 2), 2))
        replacement = newest(table)
        for ts in range(3, 9):
            table.upsert(rows(range(1, 4, 2), ts))
            cleaned = table.clean()
        # Apache Hudi archives replacements before this instant, and knows of no holds
        assert cleaned.kept_from in (None, replacement)
    table.upsert(rows(range(1, 4, 2), 9))
    assert (table.clean().kept_from or "") > replacement


@pytest.mark.parametrize("version", ["6", "9"])
def test_writes_archive_behind_them_on_request(tmp_path: Path, version: str) -> None:
    inline = {"hoodie.table.services.enabled": "true", "hoodie.clean.automatic": "false"}
    table = table_of(tmp_path / "t", **{**FEW, **inline, **of_version(version)})
    for ts in range(2, 25):
        table.upsert(rows(range(8), ts))
    # the index compacts every ten commits, and what it has not compacted stays
    assert len(table.timeline.commits) <= 6 + 11
    assert len(archive_files(tmp_path / "t")) >= 1
    check_whole(table, {f"k{i}": 24 for i in range(8)})


def test_small_files_of_the_archive_are_made_into_one(tmp_path: Path) -> None:
    more = {"hoodie.archive.merge.enable": "true", "hoodie.archive.merge.files.batch.size": "2"}
    table = long_table(tmp_path / "t", "cow", 14, **of_version("6"))
    gone = list(table.archive().instants)
    for ts in range(30, 41):
        table.upsert(rows(range(2), ts))
    table = pyhudi.open_table(tmp_path / "t", options={**FEW, **more})
    done = table.archive()
    gone += done.instants
    assert done.merged >= 2 and len(archive_files(tmp_path / "t")) == 1
    assert not (tmp_path / "t" / ".hoodie" / "archived" / "mergeArchivePlan").exists()
    assert [i.time for i in table.archived_timeline] == gone


def test_what_completed_during_a_write_stays_for_it_to_be_found(tmp_path: Path) -> None:
    table = long_table(tmp_path / "t", "cow", 14, **of_version("6"))
    commits = [i.time for i in table.timeline.commits]
    folder = tmp_path / "t" / ".hoodie"
    late = folder / f"{commits[1]}.commit"  # older than most, but it ended last
    begun = InstantTime(str(int(commits[-1]) + 1))
    state = state_of(table)
    state.log.request_at(begun, Action.COMMIT)
    os.utime(folder / f"{begun}.commit.requested", (late.stat().st_mtime + 600,) * 2)
    assert len(propose_archival(state_of(table), table._options).instants) > 1
    os.utime(late, (late.stat().st_mtime + 700,) * 2)
    plan = propose_archival(state_of(table), table._options)
    assert [i.time for i in plan.instants] == commits[:1]
    assert plan.held_by == "a concurrent write"


def test_contradictory_archive_options_are_refused_by_the_api() -> None:
    with pytest.raises(OptionError, match="archival must retain fewer"):
        parse_options({"hoodie.keep.min.commits": "30"})


@pytest.mark.parametrize("version", ["6", "9"])
def test_no_write_reads_the_archive_or_all_of_the_timeline(tmp_path: Path, version: str) -> None:
    def commits_read() -> set[str]:
        fs = OpenCountingFileSystem(LocalFileSystem(tmp_path / "t"))
        Table(fs, options=parse_options(FEW), engine=LocalEngine(1)).upsert(rows(range(3), 70))
        assert not [path for path in fs.opened if "archive" in path or "/history/" in path]
        return {path for path in fs.opened if path.endswith(".commit")}

    table = long_table(tmp_path / "t", "cow", **of_version(version))
    assert len(table.timeline.commits) == 15
    assert len(commits_read()) <= 8
    table.archive()
    assert len(commits_read()) <= 8


def test_commits_that_are_archived_do_not_stay_in_memory(tmp_path: Path) -> None:
    """A table that is kept open holds what its timeline holds, however long its history is."""

    def pinned() -> int:
        gc.collect()
        return sum(isinstance(each, CommitMetadata) for each in gc.get_objects())

    table = table_of(
        tmp_path / "t",
        **{**RETAIN_TWO, "hoodie.table.services.enabled": "true"},
    )
    before = pinned()
    most = 0
    for ts in range(2, 42):
        table.upsert(rows(range(2), ts))
        assert len(values(table)) == 8
        if ts % 20 == 1:
            most = max(most, pinned() - before)
    archived = len(table.archived_timeline.commits)
    assert most < archived > 30


@pytest.mark.parametrize("version", ["6", "8", "9"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("oldest_first", [True, False])
def test_commits_archived_beyond_a_savepoint_stay_visible_without_it(
    tmp_path: Path, kind: str, version: str, oldest_first: bool
) -> None:
    table = table_of(tmp_path / "t", kind, **RETAIN_TWO, **of_version(version))
    saved, want = [], values(table)
    for ts in range(2, 16):
        table.upsert(rows(range(100 + ts, 101 + ts), ts))
        want[f"k{100 + ts}"] = ts
        if ts in (2, 5):
            saved.append(newest(table))
            table.savepoint("keep")
    table.archive()
    assert [i.time for i in table.timeline.commits][:2] == saved
    for instant in saved if oldest_first else reversed(saved):
        assert table.delete_savepoint(instant).instant == instant
        check_whole(table, want)
        unlisted = pyhudi.open_table(
            tmp_path / "t", options={**RETAIN_TWO, "hoodie.metadata.enable": "false"}
        )
        assert values(unlisted) == want
    assert not set(saved) & table.timeline.times
    assert set(saved) <= table.archived_timeline.times


@pytest.mark.parametrize("version", ["6", "8", "9"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_what_commits_record_is_that_of_the_newest_also_archived_beyond_a_savepoint(
    tmp_path: Path, kind: str, version: str
) -> None:
    """The savepoint's commit is active, and older than archived ones: it has the first checkpoint,
    stream batch and schema."""
    table = table_of(tmp_path / "t", kind, **RETAIN_TWO, **of_version(version))

    def streamed(number: int) -> None:
        batch = table.with_options({CHECKPOINT: json.dumps({"s": str(number)})})
        assert batch.upsert(rows(range(number, number + 1), number + 2)).instant is not None

    for number in range(3):
        streamed(number)
        table.reset_checkpoint(f"at {number}")
        if number == 0:
            table.savepoint("keep")
            [saved] = table.savepoints()
    wider = rows(range(90, 91), 9).append_column("more", pa.array([7]))
    wider = wider.set_column(wider.schema.names.index("part"), "part", pa.array(["later"]))
    table.upsert(wider, schema_mode="widen")
    widened = newest(table)
    if kind == "mor":
        table.compact()
    for _ in range(7):
        table.cluster(["id"], partitions=["later"])
        table.clean()
        table.archive()
    active = [i.time for i in table.timeline.commits]
    assert active[0] == saved.instant and widened not in active
    table = pyhudi.open_table(tmp_path / "t", options=RETAIN_TWO)
    assert table.checkpoint() == "at 2"
    assert "more" in table.schema.names
    stored = {row["id"]: row["more"] for row in table.to_arrow().to_pylist()}
    assert stored["k90"] == 7 and stored["k1"] is None
    replayed = table.with_options({CHECKPOINT: json.dumps({"s": "2"})})
    assert replayed.upsert(rows(range(2, 3), 50)).instant is None
    table.delete_savepoint(saved.instant)
    assert table.checkpoint() == "at 2" and "more" in table.schema.names


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_deletion_of_a_savepoint_that_stops_anywhere_leaves_every_row(version: str) -> None:
    fs = MemoryFileSystem()
    options = parse_options({**RETAIN_TWO, **of_version(version)})
    create(fs, NewTable(SCHEMA, "t", TableType.MERGE_ON_READ, ("id",), ("part",), (), options))

    def opened(fs: FileSystem) -> Table:
        return Table(fs, options=options, engine=LocalEngine(1))

    table, want = opened(fs), {}
    for ts in range(12):
        table.upsert(rows(range(ts, ts + 1), ts))
        want[f"k{ts}"] = ts
        if ts == 1:
            saved = newest(table)
            table.savepoint("keep")
    table.archive()
    tried = 0
    for stop in every_stop(fs, lambda fs: opened(fs).delete_savepoint(saved)):
        tried += 1
        assert values(opened(stop.fs)) == want, str(stop)
        if opened(stop.fs).savepoints():
            opened(stop.fs).delete_savepoint(saved)
            assert values(opened(stop.fs)) == want, str(stop)
        opened(stop.fs).upsert(rows(range(50, 51), 50))
        assert values(opened(stop.fs)) == want | {"k50": 50}, str(stop)
    assert tried > 5


def test_a_savepoint_of_a_replacement_stays_while_replaced_files_exist(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", **RETAIN_TWO, **{"hoodie.clean.automatic": "false"})
    table.insert_overwrite(rows(range(0, 2, 2), 2))
    saved = newest(table)
    table.savepoint("keep")
    for ts in range(3, 13):
        table.upsert(rows(range(1, 4, 2), ts))
    assert table.archive().instants
    want = values(table)
    with pytest.raises(UserError, match="groups that this commit replaced still exist"):
        table.delete_savepoint(saved)
    assert values(table) == want and len(table.savepoints()) == 1
    table.clean()
    table.delete_savepoint(saved)
    check_whole(table, want)

"""Rollback of the newest commit and savepoints, through the table's own verbs."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi
from pyhudi.errors import SnapshotExpiredError, UnsupportedTableError, UserError
from pyhudi.timeline.instant import Action, Instant, State, file_name
from pyhudi.timeline.service_payloads import read_avro
from tests.crash.test_every_stop import SCHEMA, rows
from tests.support.golden import golden_table

OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.clean.commits.retained": "2",
    "hoodie.table.services.enabled": "false",  # the tests call the verbs
}


def table_of(path: Path, kind: str = "cow", **more: str) -> pyhudi.Table:
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        options={**OPTIONS, **more},
    )  # fmt: skip
    table.bulk_insert(rows(range(8), 1))
    return table


def values(table: pyhudi.Table, **how: str) -> dict[str, int]:
    found = table.scan(["id", "ts"], **how).to_arrow().to_pylist()
    return {row["id"]: row["ts"] for row in found}


def newest(table: pyhudi.Table) -> str:
    last = table.timeline.commits.last
    assert last is not None
    return last.time


def files(path: Path) -> set[str]:
    return {str(p.relative_to(path)) for p in path.glob("p*/*") if not p.name.endswith("metadata")}


INDEXES = {
    "record": {"hoodie.metadata.record.index.enable": "true"},
    "simple": {"hoodie.index.type": "SIMPLE"},
    "bucket": {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"},
}


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("index", INDEXES)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_rollbacks_in_a_row_leave_every_file_listed_and_no_other(
    tmp_path: Path, kind: str, index: str, version: int
) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", partition_by="part", ordering="ts",
        table_type=kind, version=version, options={**OPTIONS, **INDEXES[index]},
    )  # fmt: skip
    table.upsert(rows(range(2), 1))
    expected = []
    for ts in range(2, 6):  # new keys create file groups, on which the next commits build
        expected.append(values(table))
        table.upsert(rows(range(3 * ts), ts))
    while expected:
        table.rollback(newest(table))
        assert values(table) == expected.pop()
        assert table.metadata.verify().is_healthy, table.metadata.verify()
    table.upsert(rows(range(9), 7))
    assert set(values(table).values()) == {7} and table.metadata.verify().is_healthy


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_rollback_takes_the_newest_commit_back_with_its_index(tmp_path: Path, kind: str) -> None:
    table = table_of(tmp_path / "t", kind)
    table.upsert(rows(range(2), 2))
    before, there = values(table), files(tmp_path / "t")
    table.upsert(rows(range(4, 12), 3))
    preview = table.rollback(newest(table), dry_run=True)
    assert preview.deleted and preview.instant is None and len(values(table)) == 12
    done = table.rollback(newest(table))
    assert (done.undone, done.deleted, done.command_blocks) == (
        preview.undone, preview.deleted, preview.command_blocks,
    )  # fmt: skip
    assert values(table) == before
    left = files(tmp_path / "t") - there
    assert len(left) == 2 * done.command_blocks  # logs that are answered, and what answers them
    assert table.lookup([f"k{i}" for i in range(12)])["found"].to_pylist() == [
        i < 8 for i in range(12)
    ]
    unlisted = pyhudi.open_table(tmp_path / "t", options={"hoodie.metadata.enable": "false"})
    assert values(unlisted) == before
    table.upsert(rows(range(10), 4))
    assert set(values(table).values()) == {4}


def test_a_compaction_is_taken_back_with_its_plan(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t", "mor")
    table.upsert(rows(range(4), 2))
    before = values(table)
    table.compact()
    table.upsert(rows(range(4), 3))  # logs on top of the new base files
    table.rollback(newest(table))
    table.rollback(newest(table))
    assert values(table) == before and not table.timeline.pending
    assert len(table.timeline.commits) == 2
    compacted = {f.instant for f in table.file_slices()}
    assert len(compacted) == 1  # no slice of the compaction is left, not even of logs alone
    unlisted = pyhudi.open_table(tmp_path / "t", options={"hoodie.metadata.enable": "false"})
    assert {f.instant for f in unlisted.file_slices()} == compacted
    table.compact()
    assert values(table, mode="read_optimized") == before


def test_what_a_commit_carries_is_named_where_it_cannot_be_taken_back(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    first = newest(table)
    table.upsert(rows(range(2), 2))
    for dry_run in (True, False):
        with pytest.raises(UserError, match="only the newest"):
            table.rollback(first, dry_run=dry_run)
    table.savepoint("keep")
    with pytest.raises(UserError, match="savepointed"):
        table.rollback(newest(table))
    table.delete_savepoint(newest(table))
    table.rollback(newest(table))
    assert newest(table) == first


def test_a_planned_clean_does_not_take_what_a_rollback_brings_back(tmp_path: Path) -> None:
    from pyhudi.options import parse_options
    from pyhudi.services.cleaning import write_clean_plan

    table = table_of(tmp_path / "t")
    for ts in range(2, 6):
        table.upsert(rows(range(8), ts))
    options = parse_options({**OPTIONS, "hoodie.clean.commits.retained": "1"})
    assert write_clean_plan(table._state(), options) is not None
    table.rollback(newest(table))
    assert not table.timeline.pending
    table.clean()
    assert set(values(table).values()) == {4}


@pytest.mark.parametrize("policy", ["KEEP_LATEST_COMMITS", "KEEP_LATEST_FILE_VERSIONS"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_savepoint_keeps_its_snapshot_from_cleaning(
    tmp_path: Path, kind: str, policy: str
) -> None:
    table = table_of(
        tmp_path / "t", kind,
        **{"hoodie.clean.policy": policy, "hoodie.clean.fileversions.retained": "1"},
    )  # fmt: skip
    table.upsert(rows(range(8), 2))
    saved = table.savepoint("before the migration")
    assert (saved.instant, saved.partitions, saved.comment) == (
        newest(table), 2, "before the migration",
    )  # fmt: skip
    retained = values(table)
    for ts in range(3, 8):
        table.upsert(rows(range(8), ts))
        if kind == "mor":
            table.compact()
    assert table.clean().files
    assert values(table, as_of=saved.instant) == retained
    assert [each.instant for each in table.savepoints()] == [saved.instant]
    table.delete_savepoint(saved.instant)
    assert table.savepoints() == []
    table.clean()
    with pytest.raises(SnapshotExpiredError):
        values(table, as_of=saved.instant)


def test_a_savepoint_needs_a_commit_whose_files_are_there(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    first = newest(table)
    for ts in range(2, 7):
        table.upsert(rows(range(8), ts))
    with pytest.raises(UserError, match="not a completed commit"):
        table.savepoint("", "20200101000000000")
    table.clean()
    with pytest.raises(SnapshotExpiredError):
        table.savepoint("", first)
    table.savepoint("one")
    with pytest.raises(UserError, match="already has a savepoint"):
        table.savepoint("two")
    with pytest.raises(UserError, match="no savepoint of this instant"):
        table.delete_savepoint(first)


def test_a_savepoint_is_written_as_apache_hudi_writes_it(tmp_path: Path) -> None:
    golden = golden_table("cow_cleaned_versions")
    theirs = next(
        read_avro(golden.read(i.path), path=i.path)
        for i in golden.children(".hoodie")
        if i.name.endswith(".savepoint")
    )
    table = table_of(tmp_path / "t")
    saved = table.savepoint("kept")
    (path,) = (tmp_path / "t" / ".hoodie").rglob(f"{saved.instant}*.savepoint")
    ours = read_avro(path.read_bytes(), path=str(path))
    assert ours.keys() == theirs.keys()
    for part in (*ours["partitionMetadata"].values(), *theirs["partitionMetadata"].values()):
        assert part.keys() == {"partitionPath", "savepointDataFile"}
    begun = Instant(table.timeline.commits.instants[0].time, Action.SAVEPOINT, State.INFLIGHT)
    assert (path.parent / file_name(begun)).read_bytes() == b""


@pytest.mark.parametrize(("kind", "version"), [("cow", "6"), ("mor", "9")])
def test_a_lost_commit_that_the_metadata_table_has_compacted_is_undone_by_a_repair(
    tmp_path: Path, kind: str, version: str
) -> None:
    own = {"hoodie.write.table.version": version, "hoodie.metadata.compact.max.delta.commits": "2"}
    table = table_of(tmp_path / "t", kind, **own)
    table.upsert(rows(range(100, 104, 2), 2))  # new file groups, which no later commit builds on
    lost = next(i for i in table.timeline if i.time == newest(table))
    for ts in range(3, 6):
        table.upsert(rows(range(1, 8, 2), ts))
    want = {key: ts for key, ts in values(table).items() if ts != 2}
    table._fs.delete([table._state().log.path(lost)])
    for _ in range(2):
        with pytest.raises(UnsupportedTableError, match="metadata table has compacted"):
            pyhudi.open_table(tmp_path / "t").upsert(rows(range(1, 2), 9))
    again = pyhudi.open_table(tmp_path / "t")
    again.repair()
    assert values(again) == want and again.doctor().is_healthy
    again.upsert(rows(range(1, 2), 9))
    assert values(again) == {**want, "k1": 9}

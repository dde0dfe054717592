"""Restore: rows, file listing and record index are those of the instant restored to."""

from __future__ import annotations

from pathlib import Path

import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.errors import SnapshotExpiredError, UserError
from pyhudi.index.maintenance.rebuild import build_now, silent
from pyhudi.metadata.bootstrap import create_metadata, drop_metadata
from pyhudi.table.listing import StoreListing
from tests.crash.test_every_stop import rows
from tests.recovery.test_undo import files, newest, table_of, values


def check_whole(table: pyhudi.Table, want: dict[str, int]) -> None:
    """Rows with and without the metadata table, its listing against the store, the index."""
    assert values(table) == want
    path = Path(table._fs.url.removeprefix("file://"))
    unlisted = pyhudi.open_table(path, options={"hoodie.metadata.enable": "false"})
    assert values(unlisted) == want
    metadata = table._state().metadata
    assert metadata is not None
    listed, store = metadata.listing(), StoreListing(table._fs)
    assert listed.partitions() == store.partitions()
    for partition, infos in store.files(store.partitions()).items():
        names = {i.name for i in infos if not i.name.startswith((".hoodie", "..hoodie"))}
        assert {i.name for i in listed.files([partition])[partition]} == names
    keys = [f"k{i}" for i in range(60)]
    assert table.lookup(keys)["found"].to_pylist() == [key in want for key in keys]
    assert table.index.verify().is_exact


@pytest.mark.parametrize("count", [2, 11], ids=["near", "past a compaction of the index"])
@pytest.mark.parametrize("kind", [pytest.param("cow", marks=pytest.mark.slow), "mor"])
def test_a_restore_brings_a_savepoint_back(tmp_path: Path, kind: str, count: int) -> None:
    table = table_of(tmp_path / "t", kind)
    table.upsert(rows(range(4), 2))
    want, there = values(table), files(tmp_path / "t")
    saved = table.savepoint("before").instant
    for ts in range(3, 3 + count):
        table.upsert(rows(range(2, 6 + ts), ts))
        if kind == "mor" and ts % 5 == 0:
            table.compact()
    table.delete(keys=["k1", "k3"])
    later = [i.time for i in reversed(table.timeline.commits.instants) if i.time > saved]
    preview = table.restore(saved, dry_run=True)
    assert preview.instant is None and preview.undone == tuple(later) and preview.deleted
    assert values(table) != want
    done = table.restore(saved)
    assert (done.undone, sorted(done.deleted)) == (preview.undone, sorted(preview.deleted))
    check_whole(table, want)
    logs = [f for f in files(tmp_path / "t") - there if "/." not in f]
    assert logs == []  # base files of what was undone are gone
    table.upsert(rows(range(3, 12), 50))
    check_whole(table, want | {f"k{i}": 50 for i in range(3, 12)})
    assert not table.timeline.pending


def test_what_was_replaced_and_new_partitions_come_back_and_go(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    want, at = values(table), newest(table)
    table.delete_partitions("p0")
    table.insert_overwrite(rows(range(1, 9, 4), 5))
    fresh = rows(range(40, 44), 6).to_pylist()
    table.insert(pyhudi_rows([{**row, "part": "new"} for row in fresh]))
    assert table.partitions() == ["new", "p1"]
    table.restore(at)
    assert table.partitions() == ["p0", "p1"]
    check_whole(table, want)


def pyhudi_rows(rows_: list[dict[str, object]]) -> object:
    import pyarrow as pa

    from tests.crash.test_every_stop import SCHEMA

    return pa.Table.from_pylist(rows_, SCHEMA)


@pytest.mark.parametrize("version", ["6", "9"])
def test_planned_compactions_and_cleans_after_it_end(tmp_path: Path, version: str) -> None:
    table = table_of(tmp_path / "t", "mor", **{"hoodie.write.table.version": version})
    table.upsert(rows(range(4), 2))
    want, at = values(table), newest(table)
    table.savepoint("kept")
    planned = table.schedule_compaction()
    table.upsert(rows(range(6), 3))  # logs on top of the planned slices
    done = table.restore(at)
    assert planned in done.undone and not table.timeline.pending
    check_whole(table, want)
    for ts in range(4, 9):
        table.upsert(rows(range(8), ts))
        table.compact()
    table.clean()
    table.restore(at)  # a savepoint outlives cleaning
    check_whole(table, want)


def test_a_metadata_table_younger_than_the_instant_is_rebuilt(tmp_path: Path) -> None:
    table = table_of(
        tmp_path / "t",
        **{"hoodie.metadata.index.column.stats.enable": "true"},
    )
    want, at = values(table), newest(table)
    table.upsert(rows(range(6), 2))
    state = table._state()
    config = drop_metadata(state.fs, state.config)
    create_metadata(state.fs, config, state.log, records=None)
    build_now(table._state(), 3, LocalEngine(1), silent)
    table.upsert(rows(range(2, 20), 3))
    before = table.config.metadata_partitions
    assert "column_stats" in before
    table.restore(at)
    assert table.config.metadata_partitions == before
    assert len(table._state().record_index.buckets) == 3
    check_whole(table, want)
    table.upsert(rows(range(20), 99))
    check_whole(table, {f"k{i}": 99 for i in range(20)})


def test_what_cannot_be_restored_is_named(tmp_path: Path) -> None:
    table = table_of(tmp_path / "t")
    first = newest(table)
    for ts in range(2, 7):
        table.upsert(rows(range(8), ts))
    with pytest.raises(UserError, match="only be restored to a completed commit"):
        table.restore("20200101000000000")
    table.savepoint("on the way")
    with pytest.raises(UserError, match="a later commit is savepointed"):
        table.restore(first)
    assert table.restore(newest(table)).notes == ("nothing was written after it",)
    table.delete_savepoint(newest(table))
    table.clean()
    with pytest.raises(SnapshotExpiredError):
        table.restore(first, dry_run=True)


@pytest.mark.parametrize("version", ["6", "9"])
def test_a_savepoint_is_not_restored_once_later_commits_are_archived(
    tmp_path: Path, version: str
) -> None:
    table = table_of(
        tmp_path / "t",
        **{"hoodie.write.table.version": version, "hoodie.archive.beyond.savepoint": "true",
           "hoodie.keep.min.commits": "3", "hoodie.keep.max.commits": "4"},
    )  # fmt: skip
    saved = table.savepoint("kept").instant
    for ts in range(2, 14):
        table.upsert(rows(range(8), ts))
    table.clean()
    archived = set(table.archive().instants)
    later = {i.time for i in table.archived_timeline.commits if i.time > saved}
    assert later & archived
    want = values(table)
    with pytest.raises(UserError, match="have been archived"):
        table.restore(saved, dry_run=True)
    with pytest.raises(UserError, match="have been archived"):
        table.restore(saved)
    assert values(table) == want


def metadata_instants(path: Path) -> dict[str, set[str]]:
    """Completed instants of the metadata table, by action."""
    found: dict[str, set[str]] = {}
    for file in (path / ".hoodie/metadata/.hoodie/timeline").iterdir():
        times, _, action = file.name.partition(".")
        if "_" in times:
            found.setdefault(action, set()).add(times)
    return found


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_the_metadata_table_is_restored_in_place(tmp_path: Path, kind: str, version: int) -> None:
    """As Apache Hudi 1.2.0 does; so older commits can be rolled back afterwards."""
    path = tmp_path / "t"
    table = table_of(path, kind, **{"hoodie.write.table.version": str(version)})
    before = values(table)
    saved = str(table.upsert(rows(range(4), 2)).instant)
    want, there = values(table), metadata_instants(path)
    table.upsert(rows(range(2, 20), 3))
    table.compact() if kind == "mor" else table.cluster()
    table.delete(keys=["k1", "k19"])
    table.insert_overwrite(rows(range(40, 42), 4))
    table.restore(saved)
    check_whole(table, want)
    now = metadata_instants(path)
    assert there["deltacommit"] <= now["deltacommit"] and len(now.pop("restore")) == 1
    assert not table.metadata.verify().findings
    table.rollback(saved)
    check_whole(table, before)
    table.upsert(rows(range(3, 12), 50))
    check_whole(table, before | {f"k{i}": 50 for i in range(3, 12)})


@pytest.mark.parametrize("count", [1, 12], ids=["an index", "a compaction"])
def test_a_metadata_table_with_later_files_is_rebuilt(tmp_path: Path, count: int) -> None:
    path = tmp_path / "t"
    table = table_of(path, "mor", **{"hoodie.write.table.version": "9"})
    table.index.create("secondary", "part") if count == 1 else None
    want, saved = values(table), newest(table)
    for ts in range(2, 2 + count):
        table.upsert(rows(range(2, 6 + ts), ts))
    if count == 1:
        table.index.create("secondary", "ts")
    listed, there = table.config.metadata_partitions, metadata_instants(path)
    table.restore(saved)
    assert table.config.metadata_partitions == listed
    assert not there["deltacommit"] & metadata_instants(path)["deltacommit"]
    check_whole(table, want)
    assert not table.metadata.verify().findings

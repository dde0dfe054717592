"""The RocksDB index: checkpoints on the table's storage, stores on this machine, other writers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

from pyhudi.engine import LocalEngine
from pyhudi.errors import CorruptFileError, IndexNotReadyError
from pyhudi.index.external_index import Changes
from pyhudi.options import IndexKind, RocksRules
from pyhudi.records import InstantTime
from pyhudi.services.indexing.rocksdb import StoreOpening, open_rocks
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.local import scratch_disk
from pyhudi.storage.spill import FileStaging
from tests.support.filesystems import tree
from tests.support.index_kinds import Indexed, batch
from tests.support.inside import fs_of, state_of

FOLDER = ".hoodie/.pyhudi_rocksdb"
ROCKS = Indexed(IndexKind.ROCKSDB)
OTHER = Indexed(IndexKind.GLOBAL_SIMPLE)


def checkpoints(fs: FileSystem) -> list[str]:
    return [f.name for f in fs.children(FOLDER) if f.name.endswith(".checkpoint")]


def tables(fs: FileSystem) -> set[str]:
    folders = [f.path for f in fs.children(FOLDER) if f.is_folder]
    return {f.path for path in folders for f in fs.children(path) if f.name.endswith(".sst")}


def on(folder: Path) -> Indexed:
    """A machine whose stores are in that folder."""
    return Indexed(IndexKind.ROCKSDB, {"pyhudi.index.rocksdb.folder": str(folder)})


def test_another_machine_restores_what_this_one_wrote(tmp_path: Path) -> None:
    table = on(tmp_path / "one").table()
    table.upsert(batch(range(20), 1))
    there = on(tmp_path / "two").table(fs=fs_of(table))
    report = there.upsert(batch(range(10, 30), 2))
    assert (report.inserted, report.updated, report.notes) == (10, 10, ())
    shutil.rmtree(tmp_path)
    back = on(tmp_path / "one").table(fs=fs_of(table)).upsert(batch(range(40), 3))
    assert (back.inserted, back.updated, back.notes) == (10, 30, ())


def test_a_commit_copies_only_tables_that_are_new() -> None:
    table = ROCKS.table()
    table.upsert(batch(range(20), 1))
    before = tables(fs_of(table))
    table.upsert(batch(range(19, 22), 2))
    assert before < tables(fs_of(table))
    table.upsert(batch(range(22), 3))  # changes no place
    assert len(checkpoints(fs_of(table))) == 3


def test_old_checkpoints_and_what_they_alone_need_are_removed() -> None:
    table = ROCKS.table()
    for turn in range(12):
        table.upsert(batch([turn, turn + 100], turn))
    assert len(checkpoints(fs_of(table))) == 3
    named = set[str]()
    for name in checkpoints(fs_of(table)):
        for bucket in json.loads(fs_of(table).read(f"{FOLDER}/{name}"))["buckets"]:
            folder = f"{FOLDER}/{bucket['number']:05d}"
            named |= {f"{folder}/{file['stored']}" for file in bucket["tables"]}
            assert len(bucket["tables"]) <= 8
    assert tables(fs_of(table)) == named
    assert table.upsert(batch([*range(12), *range(100, 112)], 20)).inserted == 0


def test_a_table_of_another_index_is_read_once() -> None:
    other = OTHER.table()
    other.upsert(batch(range(20), 1))
    mine = ROCKS.table(fs=fs_of(other), index__type="ROCKSDB")
    before = tree(fs_of(other))
    assert mine.upsert(batch(range(10, 30), 2), dry_run=True).new == 10
    assert tree(fs_of(other)) == before
    report = mine.upsert(batch(range(10, 30), 2))
    assert (report.inserted, report.updated) == (10, 10)
    assert "built from the keys of 3 file groups" in report.notes[0]
    assert mine.upsert(batch(range(30), 3)).notes == ()


def test_commits_that_it_has_not_seen_are_caught_up_with() -> None:
    table = ROCKS.table()
    table.upsert(batch(range(20), 1))
    other = OTHER.table(fs=fs_of(table), index__type="GLOBAL_SIMPLE")
    other.upsert(batch(range(18, 24), 2))
    other.delete(keys=["k003", "k020"])
    with pytest.raises(IndexNotReadyError, match="write with the RocksDB index to update it"):
        table.lookup(["k001"])
    before = tree(fs_of(table))
    planned = table.upsert(batch([3, 20, 21, 50], 3), dry_run=True)
    assert (planned.new, planned.matched) == (3, 1)
    assert tree(fs_of(table)) == before
    report = table.upsert(batch([3, 20, 21, 50], 3))
    assert (report.inserted, report.updated) == (3, 1)
    assert "2 commits of writers that do not update it" in report.notes[0]
    assert table.lookup(["k003", "k023", None, "k0"])["found"].to_pylist() == [
        True, True, False, False,
    ]  # fmt: skip


def test_a_restore_takes_the_index_back() -> None:
    table = ROCKS.table()
    first = table.upsert(batch(range(9), 1))
    table.upsert(batch(range(20), 2))
    table.delete(keys=["k001"])
    table.restore(first.instant)
    report = table.upsert(batch(range(12), 3))
    assert (report.inserted, report.updated, report.notes) == (3, 9, ())


def test_look_ups_and_rows_by_key() -> None:
    table = ROCKS.table()
    written = table.upsert(batch(range(6), 1))
    found = table.lookup(["k004", "nobody", "k000"]).to_pylist()
    assert [row["partition_path"] for row in found] == ["p1", None, "p0"]
    assert [row["instant_time"] for row in found] == [written.instant, None, written.instant]
    assert sorted(table.fetch(["k004", "nobody"])["id"].to_pylist()) == ["k004"]


def test_a_damaged_checkpoint_is_named_and_can_be_rebuilt() -> None:
    table = ROCKS.table()
    table.upsert(batch(range(20), 1))
    for name in checkpoints(fs_of(table)):
        fs_of(table).replace(f"{FOLDER}/{name}", b"{")
    with pytest.raises(CorruptFileError, match="rebuild"):
        table.upsert(batch(range(5), 2))
    built = table.index.rebuild()
    assert built.buckets == 2
    assert table.upsert(batch(range(22), 2)).inserted == 2


def test_concurrent_writers_know_each_other(tmp_path: Path) -> None:
    optimistic = {"write__concurrency__mode": "optimistic_concurrency_control"}
    one = on(tmp_path / "one").table(**optimistic)
    two = on(tmp_path / "two").table(fs=fs_of(one), **optimistic)
    one.upsert(batch(range(6), 1))
    for turn in range(2, 5):
        one.upsert(batch(range(turn * 3), turn))
        report = two.upsert(batch(range(turn * 3 + 2), turn + 10))
        assert not [note for note in report.notes if "RocksDB" in note]
    assert one.upsert(batch(range(14), 20)).inserted == 0


def test_writers_at_one_time_lose_no_key(tmp_path: Path) -> None:
    optimistic = {
        "write__concurrency__mode": "optimistic_concurrency_control",
        "write__num__retries__on__conflict__failures": 50,
    }
    table = on(tmp_path / "all").table(**optimistic)
    table.upsert(batch(range(4), 1))

    def work(number: int) -> None:
        mine = on(tmp_path / str(number % 2)).table(fs=fs_of(table), **optimistic)
        for turn in range(3):
            first = 10 * number + 3 * turn
            mine.upsert(batch(range(first, first + 4), turn + 1))

    with ThreadPoolExecutor(3) as pool:
        list(pool.map(work, range(3)))
    keys = {f"k{10 * n + 3 * t + i:03d}" for n in range(3) for t in range(3) for i in range(4)}
    found = table.scan(["id"]).to_arrow()["id"].to_pylist()
    assert sorted(found) == sorted(keys | {f"k{i:03d}" for i in range(4)})
    numbers = sorted(int(key[1:]) for key in found)
    assert table.upsert(batch(numbers, 9)).inserted == 0


def test_a_write_whose_checkpoint_was_cleaned_is_planned_again() -> None:
    table = ROCKS.table()
    table.upsert(batch(range(20), 1))
    state = state_of(table)
    with scratch_disk() as disk:
        opening = StoreOpening(RocksRules(), FileStaging(disk, "staged"), 2, publishes=True)
        store = open_rocks(state, LocalEngine(1), opening)
    written = store.write(Changes((), ()), InstantTime("20991231235959999"), LocalEngine(1))
    for turn in range(9):
        table.upsert(batch([50 + turn, 80 + turn], turn))
    lost = store.publish(written)
    assert lost is not None and "based on was removed" in str(lost.error)


@pytest.mark.parametrize(
    "change",
    [
        lambda body: body["buckets"][0].update(id="../../../away"),
        lambda body: body["buckets"][0].update(number=-1),
        lambda body: body["buckets"][0]["tables"][0].update(name="../../away.sst"),
        lambda body: body["buckets"][0]["tables"][0].update(stored="/etc/passwd"),
    ],
    ids=["id", "number", "name", "stored"],
)
def test_a_checkpoint_cannot_name_files_outside_the_index(
    tmp_path: Path, change: Callable[[Any], None]
) -> None:
    table = on(tmp_path / "one").table()
    table.upsert(batch(range(20), 1))
    path = f"{FOLDER}/{checkpoints(fs_of(table))[-1]}"
    body = json.loads(fs_of(table).read(path))
    body["buckets"].sort(key=lambda bucket: not bucket["tables"])
    change(body)
    fs_of(table).replace(path, json.dumps(body).encode())
    with pytest.raises(CorruptFileError, match=r"table\.index\.rebuild"):
        on(tmp_path / "two").table(fs=fs_of(table)).upsert(batch(range(20), 2))
    assert not list(tmp_path.glob("**/away*"))


def test_the_small_files_of_a_store_have_the_names_that_they_have(tmp_path: Path) -> None:
    table = on(tmp_path / "one").table()
    table.upsert(batch(range(20), 1))
    fs = fs_of(table)
    folder = next(f.path for f in fs.children(FOLDER) if f.is_folder)
    state = next(f.path for f in fs.children(folder) if f.name.endswith(".state"))
    body = json.loads(fs.read(state))
    fs.replace(state, json.dumps({**body, "../../away": body["CURRENT"]}).encode())
    with pytest.raises(CorruptFileError, match="small files"):
        on(tmp_path / "two").table(fs=fs).upsert(batch(range(20), 2))
    assert not list(tmp_path.glob("**/away*"))


def test_a_rebuild_keeps_the_number_of_buckets_or_changes_it() -> None:
    table = ROCKS.table()
    table.upsert(batch(range(20), 1))
    plain = Indexed(IndexKind.ROCKSDB, {"pyhudi.index.rocksdb.buckets": 7}).table(fs=fs_of(table))
    assert plain.index.rebuild(dry_run=True).buckets == plain.index.rebuild().buckets == 2
    assert plain.index.rebuild(3).buckets == 3
    report = table.upsert(batch(range(22), 2))
    assert report.index.startswith("rocksdb index, 3 parts")
    assert (report.inserted, report.notes) == (2, ())

"""What every index kind does alike: the life of keys, seen through a table that goes by it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

import pyarrow.compute as pc
import pytest

from pyhudi.api.table import Table
from pyhudi.options import IndexKind
from pyhudi.storage.local import LocalFileSystem
from pyhudi.table.properties import TableType
from tests.support.engines import FarEngine
from tests.support.filesystems import Crash, CrashingFileSystem
from tests.support.index_kinds import Indexed, batch, indexed
from tests.support.inside import fs_of

TYPES = list(TableType)
MOVING = {
    IndexKind.RECORD: "record__index",
    IndexKind.ELASTIC: "record__index",
    IndexKind.GLOBAL_BLOOM: "bloom__index",
    IndexKind.GLOBAL_SIMPLE: "simple__index",
    IndexKind.HBASE: "hbase__index",
}


@pytest.fixture(params=list(IndexKind), ids=lambda kind: kind.value)
def index(request: pytest.FixtureRequest) -> Iterator[Indexed]:
    with indexed(request.param) as found:
        yield found


def but(*kinds: IndexKind) -> pytest.MarkDecorator:
    """Every kind of index but these."""
    others = [kind for kind in IndexKind if kind not in kinds]
    return pytest.mark.parametrize("index", others, indirect=True, ids=lambda kind: kind.value)


def rows_of(table: Table) -> dict[str, tuple[int, str]]:
    """ts and partition of every key; the table must not have one twice."""
    rows = table.scan(["id", "ts", "part"]).to_arrow().to_pylist()
    found = {r["id"]: (r["ts"], r["part"]) for r in rows}
    assert len(found) == len(rows)
    return found


def keys(*numbers: int) -> list[str]:
    return [f"k{number:03d}" for number in numbers]


@pytest.mark.parametrize("kind", TYPES)
def test_the_life_of_keys(index: Indexed, kind: TableType) -> None:
    looks_up = index.kind is not IndexKind.BUCKET  # which cannot tell a new key from an old one
    table = index.table(kind)
    first = table.upsert(batch(range(12), 1))
    assert (first.inserted, first.updated) == (12, 0)
    second = table.upsert(batch(range(6, 18), 2))
    assert not looks_up or (second.inserted, second.updated) == (6, 6)
    again = table.upsert(batch(range(6, 18), 2))
    assert not looks_up or again.inserted == 0
    gone = table.delete(keys=keys(0, 7, 99))
    assert (gone.deleted, gone.missing_keys) == (2, 1)
    assert table.delete(keys=keys(0, 7)).missing_keys == 2
    back = table.upsert(batch([7, 20], 3))
    assert not index.kind.stores_entries or back.inserted == 2
    table.upsert(batch([7], 4))
    expected = {f"k{i:03d}": 1 if i < 6 else 2 for i in range(1, 18)}
    expected |= {"k007": 4, "k020": 3}
    assert {key: ts for key, (ts, _) in rows_of(table).items()} == expected


@pytest.mark.parametrize("kind", TYPES)
def test_a_key_that_comes_with_another_partition(index: Indexed, kind: TableType) -> None:
    """Global: it stays, or moves as asked, and is one record; else it is another record."""
    moves = index.kind.is_global and index.kind is not IndexKind.RECORD
    given = {f"{MOVING[index.kind]}__update__partition__path": True} if index.kind in MOVING else {}
    if index.kind is IndexKind.ROCKSDB:
        index.options["pyhudi.index.rocksdb.update.partition.path"] = True
    table = index.table(kind, **given)
    table.upsert(batch(range(6), 1, "p0"))
    table.upsert(batch([1, 2], 2, "p1"))
    found = sorted((r["id"], r["ts"], r["part"]) for r in table.scan().to_arrow().to_pylist())
    if index.kind.is_global:
        assert moves or index.kind is IndexKind.RECORD
        assert [row for row in found if row[0] in keys(1, 2)] == [
            ("k001", 2, "p1"),
            ("k002", 2, "p1"),
        ]
        table.upsert(batch([1], 3, "p1"))
        assert rows_of(table)["k001"] == (3, "p1")
    else:
        assert len(found) == 8


@pytest.mark.parametrize("kind", TYPES)
def test_what_is_replaced_is_not_found(index: Indexed, kind: TableType) -> None:
    table = index.table(kind)
    table.upsert(batch(range(9), 1))
    table.insert_overwrite(batch([0, 30], 2, "p0"))
    table.upsert(batch([0, 3], 3, "p0"))
    table.delete_partitions(["p1"])
    assert table.upsert(batch([1], 4)).inserted == 1
    assert set(rows_of(table)) == {*keys(0, 30, 3, 1, 2, 5, 8)}


def test_a_failed_commit_leaves_no_trace(index: Indexed) -> None:
    table = index.table()
    fs = fs_of(table)
    table.upsert(batch(range(6), 1))
    before = rows_of(table)
    for stop in (20, 30, 40):
        crashing = CrashingFileSystem(fs, stop=stop)
        with suppress(Crash):
            index.table(fs=crashing).upsert(batch(range(3, 12), 2))
        assert crashing.steps.crashed
        assert rows_of(index.table(fs=fs)) == before
    report = index.table(fs=fs).upsert(batch(range(4, 12), 3))
    assert (report.inserted, report.updated) == (6, 2)


@but(IndexKind.BUCKET)  # whose groups are not clustered
def test_clustered_records_are_found(index: Indexed) -> None:
    table = index.table(parquet__small__file__limit=0)
    for turn in range(3):
        table.upsert(batch(range(turn * 6, turn * 6 + 6), 1))
    assert table.cluster().file_groups
    report = table.upsert(batch(range(20), 2))
    assert (report.inserted, report.updated) == (2, 18)
    assert len(rows_of(table)) == 20


@but(IndexKind.BUCKET, IndexKind.HBASE)  # which every writer has to use
def test_records_of_other_writers_are_found(index: Indexed) -> None:
    table = index.table()
    table.upsert(batch(range(12), 1))
    kind = IndexKind.SIMPLE if index.kind.traits.by_partition else IndexKind.GLOBAL_SIMPLE
    other = Indexed(kind).table(fs=fs_of(table), index__type=kind.option)
    other.upsert(batch(range(6, 20), 2))
    other.delete(keys=keys(1, 19))
    table.upsert(batch([0, 1, 19, 25], 3))
    table.delete(keys=keys(18))
    assert pc.sum(table.scan(["ts"]).to_arrow()["ts"]).as_py() == 4 * 3 + 4 * 1 + 12 * 2
    assert set(rows_of(table)) == {f"k{i:03d}" for i in [*range(18), 19, 25]}


@pytest.mark.parametrize("kind", TYPES)
def test_what_was_taken_back_is_where_it_was(index: Indexed, kind: TableType) -> None:
    """A rollback of a completed commit, and a restore."""
    table = index.table(kind, hbase__index__update__partition__path=True)
    first = table.upsert(batch(range(9), 1))
    for ts, undo in ((3, "rollback"), (6, "restore")):
        table.delete(keys=keys(1, 2))
        if undo == "restore":
            table.upsert(batch([0, 2, 20], ts - 1))
            table.restore(str(first.instant))
        else:
            table.rollback(str(table.timeline.commits.last.time))
        table.upsert(batch(range(9), ts))
        assert rows_of(table) == {f"k{i:03d}": (ts, f"p{i % 3}") for i in range(9)}
        first = table.upsert(batch(range(9), ts + 1))


def test_tasks_travel_and_run_twice(index: Indexed, tmp_path: Path) -> None:
    """As on a cluster, where a task's first result may be lost."""
    table = index.table(fs=LocalFileSystem(tmp_path), engine=FarEngine())
    table.upsert(batch(range(12), 1))
    table.upsert(batch(range(6, 18), 2))
    table.delete(keys=keys(1, 99))
    table.upsert(batch(range(20), 3))
    assert {key: ts for key, (ts, _) in rows_of(table).items()} == {
        f"k{i:03d}": 3 for i in range(20)
    }

"""The record index is built from the table, beside the one there is, and goes on after a stop."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import IndexNotReadyError, UserError
from pyhudi.index.maintenance.rebuild import Progress
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.support.engines import FarEngine
from tests.support.filesystems import every_stop
from tests.support.planted import plant

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
OPTIONS = {"hoodie.metadata.record.index.min.filegroup.count": "2"}


def rows(ids: range, ts: int = 1) -> pa.Table:
    made = [{"id": f"k{i:04d}", "ts": ts, "part": f"p{i % 3}"} for i in ids]
    return pa.Table.from_pylist(made, SCHEMA)


def open_(fs: FileSystem) -> Table:
    return Table(fs, options=parse_options(OPTIONS), engine=LocalEngine(1))


def made(kind: TableType, index: IndexKind = IndexKind.RECORD) -> tuple[MemoryFileSystem, Table]:
    fs = MemoryFileSystem()
    options = parse_options(OPTIONS)
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options, index))
    table = open_(fs)
    table.bulk_insert(rows(range(60)))
    table.upsert(rows(range(40, 80), 2))
    table.delete(keys=[f"k{i:04d}" for i in range(0, 80, 9)])
    return fs, table


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_another_number_of_buckets_is_built_separately_and_swapped(kind: TableType) -> None:
    fs, table = made(kind)
    before = table.scan().to_arrow()
    progress: list[Progress] = []
    planned = table.index.rebuild(5, dry_run=True)
    assert (planned.buckets, planned.buckets_before, planned.entries) == (5, 2, 0)
    done = table.index.rebuild(5, progress=progress.append)
    assert (done.buckets, done.entries) == (5, len(before))
    assert list(dict.fromkeys(p.phase for p in progress)) == ["keys", "buckets", "check", "swap"]
    assert table.index.verify().is_exact and table.index.verify().buckets == 5
    assert table.scan().to_arrow() == before
    table.upsert(rows(range(30, 99), 5))
    table.delete(keys=["k0031", "k0090"])
    assert table.index.verify().is_exact
    assert not [e for e in fs.children(".hoodie/.temp") if e.name.startswith("index-build")]


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_a_table_of_another_index_gets_a_first_one(kind: TableType) -> None:
    _, table = made(kind, IndexKind.SIMPLE)
    with pytest.raises(IndexNotReadyError):
        table.index.verify()
    assert table.index.rebuild().buckets_before == 0
    assert table.index.verify().is_exact
    table.upsert(rows(range(70, 120), 4))  # written by its own index, which keeps this one in step
    assert table.index.verify().is_exact


def test_a_damaged_index_is_rebuilt() -> None:
    fs, table = made(TableType.MERGE_ON_READ)
    plant(fs, {"x": ("p0", "nobody-0")}, ["k0001", "k0002"])
    table.index.rebuild()
    assert table.index.verify().is_exact


def test_keys_that_are_there_twice_get_one_entry() -> None:
    _, table = made(TableType.COPY_ON_WRITE)
    table.insert(rows(range(10, 20), 3))
    built = table.index.rebuild(3)
    check = table.index.verify()
    assert check.is_exact and check.entries == built.entries == check.keys - check.copies


@pytest.mark.parametrize(
    ("buckets", "what"),
    [(-1, "positive integer"), (0, "positive integer"), (10_001, "out of range")],
)
def test_a_number_of_buckets_that_cannot_be_is_refused(buckets: int, what: str) -> None:
    _, table = made(TableType.COPY_ON_WRITE)
    with pytest.raises(UserError, match=what):
        table.index.rebuild(buckets)


@pytest.mark.slow
def test_a_stop_anywhere_leaves_the_rows_and_building_again_ends_it() -> None:
    start, table = made(TableType.MERGE_ON_READ)
    before = table.scan().to_arrow()
    stops = 0
    for stop in every_stop(start, lambda fs: open_(fs).index.rebuild(3)):
        stops += 1
        found = open_(stop.fs)
        assert found.scan().to_arrow() == before, str(stop)
        try:
            assert found.index.verify().is_exact, str(stop)
        except IndexNotReadyError:
            assert stops > 10  # in the swap
        found.index.rebuild(3)
        assert open_(stop.fs).index.verify().is_exact, str(stop)
        open_(stop.fs).upsert(rows(range(75, 85), 9))
        assert open_(stop.fs).index.verify().is_exact, str(stop)
    assert stops > 20


def test_tasks_elsewhere_build_the_same(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", partition_by="part")
    table.bulk_insert(rows(range(50)))
    pyhudi.open_table(tmp_path / "t", engine=FarEngine()).index.rebuild(3)
    check = table.index.verify()
    assert check.is_exact and (check.entries, check.buckets) == (50, 3)


def test_what_changed_since_a_stop_is_read_again_and_nothing_else(tmp_path: Path) -> None:
    path = tmp_path / "t"
    table = pyhudi.create_table(path, SCHEMA, record_key="id", partition_by="part", index="bloom")
    table.bulk_insert(rows(range(300)))
    kill = (
        "import os, sys, pyhudi\n"
        "def die(progress):\n"
        "    if progress.phase == sys.argv[2]: os.kill(os.getpid(), 9)\n"
        "pyhudi.open_table(sys.argv[1]).index.rebuild(4, progress=die)\n"
    )
    for phase in ("keys", "check"):
        gone = subprocess.run([sys.executable, "-c", kill, str(path), phase], check=False)
        assert gone.returncode == -9
        assert table.index.rebuild(4, dry_run=True).reused == 3
    time.sleep(0.01)
    table.upsert(rows(range(0, 300, 3), 2))  # one partition's
    assert table.index.rebuild(4, dry_run=True).reused == 2
    assert table.index.rebuild(4).reused == 2
    assert table.index.verify().is_exact


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_a_commit_in_a_built_index_is_not_rolled_back_past_it(kind: TableType) -> None:
    _, table = made(kind)
    table.upsert(rows(range(90, 99), 3))
    last = table.timeline.commits.last
    assert last is not None
    table.index.rebuild(3)
    with pytest.raises(UserError, match="an index was built that includes this commit"):
        table.rollback(last.time)
    assert table.index.verify().is_exact
    table.upsert(rows(range(100, 105), 4))
    newest = table.timeline.commits.last
    assert newest is not None
    table.rollback(newest.time)
    assert table.index.verify().is_exact

"""Archival of the instants that created partitions of a metadata table, which undo needs."""

from __future__ import annotations

import itertools

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import UserError
from pyhudi.metadata.partition_creation import archived_creations
from pyhudi.metadata.reader import own_log
from pyhudi.metadata.visible_instants import is_creation
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType, load_config
from pyhudi.timeline.archive import HISTORY
from pyhudi.timeline.history.writer import HistoryFiles
from pyhudi.write.table_creation import NewTable
from tests.support.filesystems import every_stop
from tests.support.inside import fs_of

SCHEMA = pa.schema([("id", pa.string()), ("v", pa.int64())])
SMALL = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.metadata.compact.max.delta.commits": "3",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
}
names = itertools.count()


def row(number: int) -> pa.Table:
    return pa.table([[f"k{number}"], [number]], schema=SCHEMA)


def made(version: int, kind: str, **more: str) -> Table:
    return pyhudi.create_table(
        f"memory://creations{next(names)}", SCHEMA, record_key="id", table_type=kind,
        version=version, options={**SMALL, **more},
    )  # fmt: skip


def check(table: Table, count: int) -> None:
    again = pyhudi.open_table(table.path)
    keys = [f"k{n}" for n in range(count)]
    assert sorted(again.scan(["id"]).to_arrow()["id"].to_pylist()) == sorted(keys)
    assert all(again.lookup(keys)["found"].to_pylist())
    assert again.index.verify().is_exact
    assert not again.metadata.verify().findings


@pytest.mark.parametrize(
    ("version", "kind", "rebuilds"),
    [(9, "cow", {7}), (9, "mor", {6, 7, 8}), (8, "cow", {3, 7, 11})],
)
def test_a_rebuilt_index_stays_readable_through_archival(
    version: int, kind: str, rebuilds: set[int]
) -> None:
    table = made(version, kind)
    for n in range(14):
        table.upsert(row(n))
        if n in rebuilds:
            table.index.rebuild()
            table.archive()
        if n in rebuilds or n in (9, 13):
            check(table, n + 1)


@pytest.mark.parametrize("version", [8, 9])
def test_a_commit_in_a_built_index_cannot_be_rolled_back_after_archival(version: int) -> None:
    table = made(version, "cow", **{"hoodie.archive.automatic": "false"})
    for n in range(14):
        table.upsert(row(n))
    newest = table.delete(keys=["k0"])
    table.index.rebuild()
    assert table.archive().instants
    with pytest.raises(UserError, match="an index was built"):
        table.rollback(str(newest.instant))
    table.upsert(row(0))
    check(table, 14)


@pytest.mark.parametrize("version", [8, 9])
def test_a_creation_that_another_program_archived_is_found_in_the_archive(version: int) -> None:
    """Apache Hudi archives by instant, and so the creation before the commits that it follows."""
    table = made(version, "cow", **{"hoodie.archive.automatic": "false"})
    for n in range(8):
        table.upsert(row(n))
    newest = table.delete(keys=["k0"])
    table.index.rebuild()
    log = own_log(fs_of(table), load_config(fs_of(table)))
    created = [i for i in log.load().commits if is_creation(i.time)]
    files = HistoryFiles(log, HISTORY)
    files.append(created, batch=10)
    files.remove(created)
    assert archived_creations(log) == created
    with pytest.raises(UserError, match="an index was built"):
        table.rollback(str(newest.instant))
    table.upsert(row(0))
    check(table, 8)
    table.index.rebuild()  # its instant is none of the archived ones
    again = [i.time for i in log.load().commits if is_creation(i.time)]
    assert again and not {i.time for i in created} & {*again}
    table.archive()
    table.upsert(row(8))
    check(table, 9)


def test_creations_leave_the_timeline_once_all_commits_before_them_have() -> None:
    table = made(9, "cow")
    for n in range(4):
        table.upsert(row(n))
    table.index.rebuild()
    log = own_log(fs_of(table), load_config(fs_of(table)))
    for n in range(4, 24):
        table.upsert(row(n))
        if not any(is_creation(i.time) for i in log.load().commits):
            break
    assert n < 23
    check(table, n + 1)


@pytest.mark.slow
def test_a_stop_during_archival_leaves_a_readable_index() -> None:
    options = parse_options(
        {**SMALL, "hoodie.archive.automatic": "false", "hoodie.write.table.version": "9"}
    )

    def opened(fs: FileSystem) -> Table:
        return Table(fs, options=options, engine=LocalEngine(1))

    start = MemoryFileSystem()
    table = NewTable(SCHEMA, "t", TableType.COPY_ON_WRITE, ("id",), (), ("v",), options)
    create(start, table)
    for n in range(16):
        opened(start).upsert(row(n))
        if n == 4:
            opened(start).index.rebuild()
    keys = [f"k{n}" for n in range(17)]
    stops = 0
    for stop in every_stop(start, lambda fs: opened(fs).archive()):
        stops += 1
        assert all(opened(stop.fs).lookup(keys[:16])["found"].to_pylist()), str(stop)
        if stops % 9 == 0:
            opened(stop.fs).upsert(row(16))
            assert all(opened(stop.fs).lookup(keys)["found"].to_pylist()), str(stop)
    assert stops > 30

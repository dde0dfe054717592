"""Readers of instants that leave the timeline after it was listed."""

from __future__ import annotations

import pickle
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import FileMissingError
from pyhudi.ingest.source import SourceLimits
from pyhudi.ingest.table_source import TableSource
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem, MemoryStore
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableType, load_config
from pyhudi.timeline.instant import Action, State
from pyhudi.write.table_creation import NewTable

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
    "hoodie.metadata.compact.max.delta.commits": "1",
}
VERSIONS = pytest.mark.parametrize("version", [6, 8, 9])


class WatchedFileSystem(MemoryFileSystem):
    """Acts once, before the first read of a completed replace commit, or at each if `again`."""

    def __init__(
        self, store: MemoryStore, act: Callable[[], object], root: str = "t", *, again: bool = False
    ) -> None:
        super().__init__(store, root)
        self.act: Callable[[], object] | None = act
        self.again = again
        self.acted = 0

    def read(self, path: str) -> bytes:
        act = self.act
        if path.endswith(".replacecommit") and act is not None:
            if not self.again:
                self.act = None
            self.acted += 1
            act()
        return super().read(path)


def rows(value: int, *ids: str) -> pa.Table:
    return pa.table([list(ids), ["p"] * len(ids), [value] * len(ids)], schema=SCHEMA)


def opened(fs: MemoryFileSystem) -> Table:
    return Table(fs, options=parse_options(OPTIONS), engine=LocalEngine(1))


def new_store(version: int) -> MemoryStore:
    """A table whose replace commit can be archived: its file groups are cleaned."""
    store = MemoryStore()
    fs = MemoryFileSystem(store, "t")
    options = parse_options({**OPTIONS, "hoodie.write.table.version": str(version)})
    create(fs, NewTable(SCHEMA, "t", TableType.COPY_ON_WRITE, ("id",), ("part",), (), options))
    opened(fs).insert(rows(1, "a", "b"))
    opened(fs).insert_overwrite(rows(2, "a", "c"))
    for value in range(3, 8):
        opened(fs).upsert(rows(value, "a"))
    opened(fs).clean()
    return store


def archive(store: MemoryStore) -> None:
    table = opened(MemoryFileSystem(store, "t"))
    assert table.archive().instants
    assert not table.timeline.where({Action.REPLACE_COMMIT}, State.COMPLETED)


READS: dict[str, Callable[[Table], Any]] = {
    "scan": lambda table: table.scan(["id", "v"]).to_arrow().sort_by("id").to_pylist(),
    "a filtered scan": lambda table: table.scan(["id"], pc.field("v") == 7).to_arrow().to_pylist(),
    "count": lambda table: table.scan().count(),
    "changes": lambda table: (
        table.changes("000", columns=["id", "v"]).to_arrow().sort_by("id").to_pylist()
    ),
    "fetch": lambda table: table.fetch(["a"], ["id", "v"]).to_pylist(),
    "slices": lambda table: [str(each.group) for each in table.file_slices()],
    "partitions": lambda table: table.partitions(),
    "dataset": lambda table: table.to_pyarrow_dataset().to_table().num_rows,
    "history": lambda table: table.history("a").select(["row"]).to_pylist()[-1],
    "table source": lambda table: source_rows(table),
}


def source_rows(table: Table) -> list[dict[str, Any]]:
    """What an ingest from the table reads first."""
    source = TableSource(table, columns=["id", "v"])
    batch = source.read(None, SourceLimits(None, None), SCHEMA)
    assert batch is not None
    return batch.rows.read_all().sort_by("id").to_pylist()


@VERSIONS
@pytest.mark.parametrize("read", READS)
def test_a_replace_commit_archived_after_the_listing_does_not_fail_a_read(
    read: str, version: int
) -> None:
    store = new_store(version)
    expected = READS[read](opened(MemoryFileSystem(store.copy(), "t")))
    fs = WatchedFileSystem(store, lambda: archive(store))
    assert READS[read](opened(fs)) == expected
    assert fs.acted == 1


@VERSIONS
def test_a_replace_commit_rolled_back_after_the_listing_is_not_read(version: int) -> None:
    store = new_store(version)
    opened(MemoryFileSystem(store, "t")).archive()
    writer = opened(MemoryFileSystem(store, "t"))
    before = READS["scan"](writer)
    instant = writer.insert_overwrite(rows(9, "x")).instant
    fs = WatchedFileSystem(store, lambda: writer.rollback(instant))
    assert READS["scan"](opened(fs)) == before
    assert fs.acted == 1


@VERSIONS
def test_a_replace_commit_that_is_listed_and_missing_is_an_error(version: int) -> None:
    """A file that the store still lists is reported, and not read for ever."""
    store = new_store(version)

    def lost() -> None:
        raise FileMissingError("no such file", path="x")

    fs = WatchedFileSystem(store, lost, again=True)
    with pytest.raises(FileMissingError):
        READS["scan"](opened(fs))
    assert fs.acted == 1


class FirstReadFileSystem(WatchedFileSystem):
    """Acts once, before the first read of any completed commit."""

    def read(self, path: str) -> bytes:
        act, is_commit = self.act, path.endswith((".commit", ".deltacommit"))
        if is_commit and act is not None and "/metadata/" not in path:
            self.act = None
            act()
        return MemoryFileSystem.read(self, path)


def archive_all(store: MemoryStore) -> None:
    """Archive every commit that was on the timeline."""
    table = opened(MemoryFileSystem(store, "t"))
    listed = table.timeline.commits.times
    for value in range(20, 26):
        table.upsert(rows(value, "b"))
    table.clean()
    table.archive()
    assert listed.isdisjoint(table.timeline.commits.times)


CALLS: dict[str, Callable[[Table], Any]] = {
    "update": lambda table: table.update({"v": "9"}, where="id = 'a'", dry_run=True).matched,
    "delete": lambda table: table.delete(where="id = 'a'", dry_run=True).matched,
    "merge": lambda table: (
        table.merge(rows(9, "a")).when_matched_update().execute(dry_run=True).matched
    ),
    "row test": lambda table: table.row_test()(rows(1, "a")) or 1,
    "index verification": lambda table: 1 - table.index.verify().fault_count,
    "index statistics": lambda table: int(table.index.stats().entries > 0),
    "savepoints": lambda table: 1 - len(table.savepoints()),
}


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("call", CALLS)
def test_commits_archived_after_the_listing_fail_no_call(call: str, version: int) -> None:
    """Also calls that look at the table before they take its lock."""
    fs = FirstReadFileSystem(new_store(version), lambda: archive_all(fs.store))
    assert CALLS[call](opened(fs)) == 1


@VERSIONS
def test_commits_of_an_older_listing_are_read_from_the_archive(version: int) -> None:
    """A snapshot that is read for long, such as that of a dataset, needs them."""
    fs = MemoryFileSystem(new_store(version), "t")
    log = timeline_log(fs, load_config(fs))
    listed = log.load().commits.instants
    expected = [log.commit(instant) for instant in listed]
    archive_all(fs.store)
    later = timeline_log(fs, load_config(fs))
    assert [later.commit(instant) for instant in listed] == expected


def test_the_log_of_a_table_can_be_pickled(tmp_path: Path) -> None:
    pyhudi.create_table(tmp_path, SCHEMA, record_key="id").upsert(rows(1, "a"))
    fs = LocalFileSystem(tmp_path)
    log = timeline_log(fs, load_config(fs))
    copy = pickle.loads(pickle.dumps(log))
    assert copy.load().commits.instants == log.load().commits.instants

"""Readers that stop between two requests, while others write, undo, clean and archive."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import SnapshotExpiredError
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileInfo, FileSystem, RandomAccess
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.timeline.instant import Action
from pyhudi.write.table_creation import NewTable
from tests.support.examples import stops
from tests.support.filesystems import (
    Crash,
    CrashingFileSystem,
    TracingFileSystem,
    clone,
    every_stop,
)
from tests.support.inside import state_of

SCHEMA: Final = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
PARTS: Final = 3
KEYS: Final = 6
OPTIONS: Final = {
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.clean.automatic": "false",
    "hoodie.archive.automatic": "false",
    "hoodie.clean.commits.retained": "1",
    "hoodie.keep.min.commits": "2",
    "hoodie.keep.max.commits": "3",
}
AT_ONCE: Final = {"hoodie.metadata.compact.max.delta.commits": "1"}
"""The metadata table is compacted after each commit; archival waits for it."""

NEVER: Final = -1

Rows = dict[str, int]


@dataclass
class Interruption:
    """Runs `act` before request number `at` of a reader; `requests`: those made so far."""

    at: int
    act: Callable[[], object]
    requests: int = field(default=0)

    def count(self) -> None:
        now, self.requests = self.requests, self.requests + 1
        if now == self.at:
            self.act()


class InterruptedFileSystem(MemoryFileSystem):
    """A store whose reader is interrupted before one of its requests."""

    def __init__(self, inner: MemoryFileSystem, interruption: Interruption) -> None:
        super().__init__(inner.store, inner.root)
        self._interruption = interruption

    def sub(self, folder: str) -> InterruptedFileSystem:
        deeper = super().sub(folder)
        return InterruptedFileSystem(deeper, self._interruption)

    def read(self, path: str) -> bytes:
        self._interruption.count()
        return super().read(path)

    def open(self, path: str) -> RandomAccess:
        self._interruption.count()
        return super().open(path)

    def arrow_file(self, path: str) -> Any:
        self._interruption.count()
        return super().arrow_file(path)

    def exists(self, path: str) -> bool:
        self._interruption.count()
        return super().exists(path)

    def children(self, folder: str = "") -> list[FileInfo]:
        self._interruption.count()
        return super().children(folder)

    def names(self, folder: str = "") -> list[str]:
        self._interruption.count()
        return super().names(folder)


def rows(value: int, keys: range) -> pa.Table:
    ids = [f"k{key}" for key in keys]
    parts = [f"p{key % PARTS}" for key in keys]
    return pa.table([ids, parts, [value] * len(ids)], schema=SCHEMA)


def opened(fs: FileSystem, **more: str) -> Table:
    options = parse_options({**OPTIONS, **more})
    return Table(fs, options=options, engine=LocalEngine(1))


def snapshot(table: Table) -> Rows:
    found = table.scan(["id", "v"]).to_arrow()
    stored = dict(zip(found["id"].to_pylist(), found["v"].to_pylist(), strict=True))
    assert len(stored) == len(found)
    return stored


def new_table(kind: TableType, version: int, **more: str) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    options = parse_options({**OPTIONS, "hoodie.write.table.version": str(version)})
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), (), options))
    opened(fs, **more).insert(rows(1, range(KEYS)))
    opened(fs, **more).upsert(rows(2, range(KEYS + 2)))
    return fs


Act = Callable[[Table], object]


def many_writes_and_a_clean(table: Table) -> Iterator[Act]:
    for value in range(3, 7):
        yield lambda table, value=value: table.upsert(rows(value, range(KEYS)))  # type: ignore[misc]
    yield lambda table: table.clean()


def a_rollback(table: Table) -> Iterator[Act]:
    newest = table.timeline.commits.last
    assert newest is not None
    yield lambda table: table.rollback(newest.time)
    yield lambda table: table.upsert(rows(9, range(1)))


def a_restore(table: Table) -> Iterator[Act]:
    first = table.timeline.commits.first
    assert first is not None
    yield lambda table: table.savepoint(instant=first.time)
    yield lambda table: table.restore(first.time)


def an_overwrite_and_a_clean(table: Table) -> Iterator[Act]:
    yield lambda table: table.insert_overwrite(rows(3, range(KEYS)))
    for value in range(4, 7):
        yield lambda table, value=value: table.upsert(rows(value, range(2)))  # type: ignore[misc]
    yield lambda table: table.clean()
    yield lambda table: table.archive()


def services(table: Table) -> Iterator[Act]:
    yield lambda table: table.upsert(rows(3, range(KEYS)))
    if table.config.is_merge_on_read:
        yield lambda table: table.compact()
    yield lambda table: table.cluster("id")
    for value in range(4, 7):
        yield lambda table, value=value: table.upsert(rows(value, range(2)))  # type: ignore[misc]
    yield lambda table: table.clean()
    yield lambda table: table.archive()


COW: Final = TableType.COPY_ON_WRITE
MOR: Final = TableType.MERGE_ON_READ
CASES: Final = [
    (9, "metadata", COW, many_writes_and_a_clean),
    (9, "metadata", MOR, a_rollback),
    (9, "metadata", COW, a_restore),
    (9, "metadata", COW, an_overwrite_and_a_clean),
    (9, "metadata", MOR, services),
    (9, "store", COW, many_writes_and_a_clean),
    (9, "store", COW, a_rollback),
    (9, "store", COW, services),
    (6, "metadata", COW, many_writes_and_a_clean),
    (6, "store", MOR, a_restore),
]


@stops(8)
@pytest.mark.parametrize(("version", "listed_by", "kind", "events"), CASES)
def test_a_reader_that_stops_at_any_request_sees_a_whole_snapshot(
    version: int,
    listed_by: str,
    kind: TableType,
    events: Callable[[Table], Iterator[Act]],
    one_in: int,
) -> None:
    before = new_table(kind, version)
    metadata = {"hoodie.metadata.enable": str(listed_by == "metadata").lower()}
    dry = clone(before)
    opened(dry).upsert(rows(2, range(1)))
    states = [snapshot(opened(dry))]
    for act in events(opened(dry)):
        act(opened(dry))
        states.append(snapshot(opened(dry)))
    at = 0
    while True:
        fs = clone(before)

        def happen(fs: MemoryFileSystem = fs) -> None:
            for act in events(opened(fs)):
                act(opened(fs))

        interruption = Interruption(NEVER, happen)
        table = opened(InterruptedFileSystem(fs, interruption), **metadata)
        opened(fs).upsert(rows(2, range(1)))  # so that the reader loads the table again
        interruption.at = interruption.requests + at
        try:
            found = snapshot(table)
            assert found in states, f"interrupted before request {at}"
        except SnapshotExpiredError:
            assert interruption.requests > interruption.at
        if interruption.requests <= interruption.at:
            break
        at += one_in
    assert at > 3


def with_a_clustering_that_ran_again(version: int) -> MemoryFileSystem:
    """A table whose next archival removes a commit and, after it, a clustering that was rolled
    back and has run again since; that rollback stays on the timeline."""
    fs = new_table(COW, version, **AT_ONCE)
    assert opened(fs, **AT_ONCE).schedule_clustering("id") is not None
    watched = TracingFileSystem(clone(fs))
    opened(watched, **AT_ONCE).cluster()
    data = [n for n, step in enumerate(watched.trace) if step.endswith(".parquet")]
    with suppress(Crash):
        opened(CrashingFileSystem(fs, stop=data[-1], when="after"), **AT_ONCE).cluster()
    opened(fs, **AT_ONCE).cluster()
    for value in range(3, 5):
        opened(fs, **AT_ONCE).upsert(rows(value, range(2)))
    opened(fs, **AT_ONCE).clean()
    return fs


@pytest.mark.parametrize("version", [6, 9])
def test_an_archival_that_stops_hides_no_plan_that_ran_again(version: int) -> None:
    before = with_a_clustering_that_ran_again(version)
    expected = snapshot(opened(before))
    state = state_of(opened(before))
    (rollback,) = state.timeline.where({Action.ROLLBACK})
    (again,) = state.log.taken_back(rollback)
    assert again in state.timeline.commits.times
    count = 0
    for stop in every_stop(before, lambda fs: opened(fs, **AT_ONCE).archive()):
        assert snapshot(opened(stop.fs)) == expected, str(stop)
        count += 1
    left = opened(stop.fs).timeline
    assert rollback in left.instants and again not in left.times
    assert count > 5


@pytest.mark.parametrize("version", [6, 9])
def test_a_savepoint_that_stops_hides_no_rows(version: int) -> None:
    """Its instant has the time of the commit that it protects."""
    start = new_table(COW, version)
    saved = clone(start)
    newest = opened(saved).savepoint().instant
    acts: list[tuple[MemoryFileSystem, Act]] = [
        (start, lambda table: table.savepoint()),
        (saved, lambda table: table.delete_savepoint(newest)),
    ]
    for before, act in acts:
        expected = snapshot(opened(before))
        for stop in every_stop(before, lambda fs, act=act: act(opened(fs))):  # type: ignore[misc]
            assert snapshot(opened(stop.fs)) == expected, str(stop)

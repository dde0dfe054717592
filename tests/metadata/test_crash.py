"""Every stop of a commit, of its rollback and of creation leaves a table that goes on rightly."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from copy import deepcopy
from dataclasses import replace

import pytest

from pyhudi.engine import LocalEngine
from pyhudi.filenames import METADATA_TABLE
from pyhudi.metadata import cleaning
from pyhudi.metadata.bootstrap import create_metadata
from pyhudi.recovery.rollback import roll_back_failed
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import load_config
from pyhudi.timeline.instant import Action, State
from tests.metadata.small import SmallTable
from tests.support.filesystems import every_stop


def table_with_history() -> SmallTable:
    table = SmallTable(MemoryFileSystem()).create(bucket_count=2)
    table.commit({"a": "p0", "b": "p1", "c": "p2"})
    table.commit({"d": "p0"}, deletes=["b"])
    return table


def on(table: SmallTable, fs: FileSystem) -> SmallTable:
    """The same table as another process finds it."""
    return replace(deepcopy(replace(table, fs=None)), fs=fs)  # type: ignore[arg-type]


def recover(table: SmallTable) -> None:
    """What the next write does first."""
    table.config = load_config(table.fs)
    roll_back_failed(table.fs, table.config, table.log, engine=LocalEngine(1))


def published(table: SmallTable, count: int) -> bool:
    return len(table.log.load().where({Action.COMMIT}, State.COMPLETED)) > count


@pytest.mark.parametrize("compact_after", [2, 10])
def test_commit_stops_anywhere(compact_after: int) -> None:
    before = table_with_history()

    def act(fs: FileSystem) -> None:
        on(before, fs).commit({"a": "p1", "e": "p2"}, ["c"], compact_after=compact_after)

    expected = on(before, clone_of(before))
    expected.commit({"a": "p1", "e": "p2"}, ["c"], compact_after=compact_after)
    for stop in every_stop(before.fs, act):  # type: ignore[arg-type]
        found = on(before, stop.fs)
        done = published(found, 2)
        if done:  # file names are the attempt's own: only the keys are compared
            assert found.metadata().record_index().lookup(["c"])["found"].to_pylist() == [False]
            continue
        found.check(absent=["e"])
        recover(found)
        found.check(absent=["e"])
        found.ticks.now = expected.ticks.now
        found.commit({"x": "p0", "a": "p2"}, ["d"], compact_after=compact_after)
        found.check(absent=["d", "e"])


def clone_of(table: SmallTable) -> MemoryFileSystem:
    from tests.support.filesystems import clone

    assert isinstance(table.fs, MemoryFileSystem)
    return clone(table.fs)


def stored(table: SmallTable) -> Mapping[str, bytes]:
    assert isinstance(table.fs, MemoryFileSystem)
    return table.fs.store.files


def pending_there(table: SmallTable) -> None:
    table.begin({"a": "p1", "e": "p2"}, ["c"])


def complete_there(table: SmallTable) -> None:
    begun = table.begin({"a": "p1", "e": "p2"}, ["c"])
    begun.metadata.finish(begun.stats, begun.index)


@pytest.mark.parametrize("fail", [pending_there, complete_there])
def test_rollback_stops_anywhere(fail: Callable[[SmallTable], None]) -> None:
    before = table_with_history()
    fail(before)

    def act(fs: FileSystem) -> None:
        recover(on(before, fs))

    for stop in every_stop(before.fs, act):  # type: ignore[arg-type]
        found = on(before, stop.fs)
        found.ticks.now = found.ticks.now.replace(hour=12)
        found.check(absent=["e"])
        recover(found)
        found.check(absent=["e"])
        own = found.metadata().timeline
        assert not own.pending.instants
        found.commit({"x": "p0", "a": "p2"}, ["d"], compact_after=1)
        found.check(absent=["d", "e"])
        found.commit({"y": "p0"}, compact_after=1)
        found.check(absent=["d", "e"])


@pytest.mark.parametrize("before_rollback", ["nothing", "its begin"])
def test_what_arrives_of_a_write_after_its_rollback_is_not_visible(before_rollback: str) -> None:
    """The writer stood still, and its requests were on their way for longer than its lease."""
    table = table_with_history()
    others = on(table, clone_of(table))
    begun = table.begin({"a": "p1", "e": "p2"}, ["c"])
    known = {p for p in stored(table) if before_rollback != "nothing" or METADATA_TABLE not in p}
    begun.metadata.finish(begun.stats, begun.index)
    late = {path: data for path, data in stored(table).items() if path not in stored(others)}
    for path in sorted(late.keys() & known):
        assert others.fs.create(path, late[path])
    recover(others)
    for path in sorted(late.keys() - known):
        assert others.fs.create(path, late[path])
    others.check(absent=["e"])


def test_creation_stops_anywhere() -> None:
    before = SmallTable(MemoryFileSystem()).create(with_metadata=False)

    def act(fs: FileSystem) -> None:
        create_metadata(fs, before.config, before.log.__class__(fs), bucket_count=2)

    for stop in every_stop(before.fs, act):  # type: ignore[arg-type]
        found = on(before, stop.fs)
        found.config = load_config(found.fs)
        found.config = create_metadata(found.fs, found.config, found.log, bucket_count=2)
        found.check(absent=["a"])
        found.commit({"a": "p0"})
        found.check()


def test_cleaning_stops_anywhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cleaning, "COMMITS_RETAINED", 3)
    before = SmallTable(MemoryFileSystem()).create(bucket_count=1)
    for step in range(5):
        before.commit({f"k{step}": "p0"}, compact_after=2)

    def act(fs: FileSystem) -> None:
        on(before, fs).begin({"e": "p2"}, ["k1"], compact_after=1)

    for stop in every_stop(before.fs, act):  # type: ignore[arg-type]
        found = on(before, stop.fs)
        found.ticks.now = found.ticks.now.replace(hour=12)
        found.check(absent=["e"])
        recover(found)
        found.commit({"x": "p0"}, compact_after=1)
        found.check(absent=["e"])
        assert not found.metadata().timeline.pending.instants

"""Layout 2: times follow completion times, and commits are Avro."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from pyhudi.errors import StorageError
from pyhudi.layouts.v6 import V6
from pyhudi.layouts.v8 import V8
from pyhudi.layouts.v9 import V9
from pyhudi.records import InstantTime
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.clock import format_instant
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Action
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.service_payloads import is_avro

NOW = datetime(2025, 1, 1, tzinfo=UTC)
AHEAD = InstantTime("20990101000000000")  # a writer's clock was wrong


def log_with_a_late_end(fs: MemoryFileSystem) -> TimelineLog:
    fs.create(f"{V9.timeline_folder}/20240101000000000_{AHEAD}.commit", b"x")
    return TimelineLog(fs, layout=V9, zone=UTC, clock=lambda: NOW)


def test_a_new_instant_follows_every_completion_time() -> None:
    log = log_with_a_late_end(MemoryFileSystem())
    assert log.new_time() > AHEAD
    assert log.request(Action.COMMIT).time > AHEAD


def test_a_completion_time_follows_every_other() -> None:
    fs = MemoryFileSystem()
    log = TimelineLog(fs, layout=V9, zone=UTC, clock=lambda: NOW)
    begun = log.start(log.request(Action.COMMIT))
    log_with_a_late_end(fs)
    done = log.complete(begun, b"x")
    assert done.completed_at is not None and done.completed_at > AHEAD


@pytest.mark.parametrize("layout", [V8, V9], ids=str)
def test_commits_are_written_as_avro(layout: object) -> None:
    assert isinstance(layout, type(V8))
    content = TimelineLog(MemoryFileSystem(), layout=layout).encode(CommitMetadata())
    assert is_avro(content)
    assert not is_avro(TimelineLog(MemoryFileSystem(), layout=V6).encode(CommitMetadata()))


class _Refusing(MemoryFileSystem):
    """Refuses the first completed file."""

    def create(self, path: str, data: bytes, *, durable: bool = True) -> bool:
        if "_" in path.rpartition("/")[2] and not getattr(self, "refused", False):
            self.refused = True
            raise StorageError("no answer", retryable=True)
        return super().create(path, data, durable=durable)


def test_a_repeated_completion_is_after_what_has_completed_meanwhile() -> None:
    """A reader that has seen the other commit goes on after it."""
    fs = _Refusing()
    mine = TimelineLog(fs, layout=V9, zone=UTC, clock=lambda: NOW)
    begun = mine.start(mine.request(Action.COMMIT))
    with pytest.raises(StorageError):
        mine.complete(begun, b"x")
    other = TimelineLog(fs, layout=V9, zone=UTC, clock=lambda: NOW)
    first = other.complete(other.start(other.request(Action.COMMIT)), b"x")
    again = mine.complete(begun, b"x")
    assert again.position > first.position


def test_a_writer_that_only_reads_the_clock_is_later_than_a_completed_commit() -> None:
    """A completion time ahead of the clock is waited for."""
    fs = MemoryFileSystem()
    log = TimelineLog(fs, layout=V9, zone=UTC)
    soon = format_instant(datetime.now(UTC) + timedelta(seconds=0.4), UTC)
    begun = log.start(log.request_at(soon, Action.COMMIT))
    done = log.complete(begun, b"x")
    assert format_instant(datetime.now(UTC), UTC) > done.position > soon

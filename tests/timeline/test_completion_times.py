"""Layout 2: times follow completion times, and commits are Avro."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from pyhudi.layouts.v6 import V6
from pyhudi.layouts.v8 import V8
from pyhudi.layouts.v9 import V9
from pyhudi.records import InstantTime
from pyhudi.storage.memory import MemoryFileSystem
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

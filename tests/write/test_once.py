"""Batches of streams are found by the commits that wrote them, archived ones too."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import UserError
from pyhudi.records import InstantTime
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.archive import ArchivedCommit
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Action
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.write.input.stream_idempotency import CHECKPOINT, StreamBatch, written_before
from tests.support.inside import state_of


@dataclass
class Archived:
    """An archive of commits given."""

    commits: tuple[ArchivedCommit, ...] = ()


def marked(identifier: str, number: int) -> CommitMetadata:
    return CommitMetadata(extra=StreamBatch(identifier, number).metadata)


def log_of(*commits: CommitMetadata) -> TimelineLog:
    fs = MemoryFileSystem()
    for number, commit in enumerate(commits):
        fs.create(f".hoodie/2026112109300000{number}.commit", commit.to_json())
    return TimelineLog(fs)


def test_a_batch_was_written_if_its_stream_got_so_far() -> None:
    log = log_of(marked("a", 3), marked("b", 9), CommitMetadata())
    for number, found in ((2, True), (3, True), (4, False)):
        assert (written_before(StreamBatch("a", number), log, Archived()) is not None) == found
    assert written_before(StreamBatch("b", 9), log, Archived()) == ("20261121093000001", 9)
    assert written_before(StreamBatch("c", 0), log, Archived()) is None


def test_the_newest_commit_of_a_stream_counts() -> None:
    log = log_of(marked("a", 3), marked("a", 4))
    assert written_before(StreamBatch("a", 4), log, Archived()) == ("20261121093000001", 4)


def test_archived_commits_are_read_last() -> None:
    old = ArchivedCommit(InstantTime("20200101000000000"), Action.COMMIT, marked("a", 7))
    assert written_before(StreamBatch("a", 7), log_of(CommitMetadata()), Archived((old,)))
    assert not written_before(StreamBatch("a", 7), log_of(marked("a", 6)), Archived((old,)))


def test_what_others_write_under_the_key_is_passed_over() -> None:
    for text in ("7", "[]", "{", '{"a": "x"}'):
        log = log_of(CommitMetadata(extra={CHECKPOINT: text}))
        assert written_before(StreamBatch("a", 0), log, Archived()) is None
        with pytest.raises(UserError, match="invalid stream batch"):
            StreamBatch.of({CHECKPOINT: text})
    assert StreamBatch.of({}) is None
    assert StreamBatch.of(StreamBatch("a", 5).metadata) == StreamBatch("a", 5)


def test_a_replay_is_reported_and_writes_nothing() -> None:
    batch = StreamBatch("q", 0).metadata
    rows = pa.table({"id": ["a"]})
    table = pyhudi.create_table(
        "memory://once", rows.schema, record_key="id", name="t", options=batch
    )
    assert table.bulk_insert(rows).inserted == 1
    again = table.bulk_insert(rows)
    assert again.instant is None and "batch 0 of stream q was already written" in again.notes[0]
    assert table.scan().count() == 1
    [commit] = table.timeline.commits
    assert state_of(table).log.commit(commit).extra[CHECKPOINT]

"""The commit point: creation of one file, and verification that it exists permanently.

The store may answer the request late, wrongly or not at all, and the table's lock may be lost
while it runs.  The request therefore ends, with all its retries, before the lock's lease; and
whatever the answer, the instant is complete if the holder of the lock finds it completed on the
timeline.  A process that has lost the lock acquires it again before it checks, because another
holder may be rolling the instant back.
"""

from __future__ import annotations

import time
from contextlib import suppress
from typing import Final

from pyhudi.errors import CorruptFileError, LockError, PyhudiError, StorageError, WriteConflictError
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.monotonic_clock import ending_within, steady_seconds
from pyhudi.storage.locks.table_lock import (
    check_lock,
    lock_seconds_left,
    lock_wait_seconds,
    retake_lock,
    was_held_throughout,
)
from pyhudi.timeline.instant import COMPLETES_AS, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.late_commits import UNDO_ACTIONS
from pyhudi.timeline.timeline import Timeline

_ROUNDS: Final = 3
_PAUSE_SECONDS: Final = 0.5


def publish_instant(
    fs: FileSystem, log: TimelineLog, mine: Instant, content: bytes, *, known: Timeline
) -> Instant:
    """Complete an inflight instant under the table's lock, which has just been confirmed.

    known: the timeline that the instant was planned on.  Returns only if the instant is complete
    permanently.  Raises the store's error if it is not; LockError if another process took the lock
    and rolled it back; StorageError, with the instant, if the outcome is unknown.
    """
    for round_ in range(_ROUNDS):
        if round_:
            time.sleep(_PAUSE_SECONDS * round_)
            check_lock(fs)
        failed: Exception
        try:
            with ending_within(lock_seconds_left(fs)):
                completed = log.complete(mine, content)
            if was_held_throughout(fs):
                return completed
            failed = _rolled_back(mine)
        except (PyhudiError, OSError) as error:
            failed = error
        found = _outcome(fs, log, mine, content, known, failed)
        if found is not None:
            return found
        now = log.load()
        if all(i.time != mine.time for i in now.pending) or is_rolled_back(log, mine, known, now):
            raise _rolled_back(mine) from failed
        if earlier := [instant for instant in log.late if instant.time == mine.time]:
            check_lock(fs)
            log.unpublish(earlier[0])  # created in the meantime by an earlier request
        elif not getattr(failed, "retryable", False):
            raise failed
        if round_ == _ROUNDS - 1:
            raise failed
    raise AssertionError("the last round returns or raises")


def _rolled_back(mine: Instant) -> LockError:
    return LockError(
        "the table's lock was lost while publishing the commit",
        instant=mine.time,
        hint="another writer rolled it back; write again",
    )


def _outcome(
    fs: FileSystem,
    log: TimelineLog,
    mine: Instant,
    content: bytes,
    known: Timeline,
    failed: Exception,
) -> Instant | None:
    """The completed instant if it exists, else None; retried until the store answers, for as long
    as a writer waits for the lock."""
    end = steady_seconds() + lock_wait_seconds(fs)
    while True:
        try:
            if not was_held_throughout(fs):
                retake_lock(fs, max(end - steady_seconds(), 0))
            return _completed(log, mine, content, known)
        except (StorageError, LockError, OSError) as unknown:
            if steady_seconds() >= end:
                raise StorageError(
                    "the outcome of the commit is unknown",
                    instant=mine.time,
                    path=log.path(mine),
                    reason=str(unknown),
                    hint="check table.timeline for the instant before writing again",
                ) from failed
        time.sleep(_PAUSE_SECONDS)


def _completed(log: TimelineLog, mine: Instant, content: bytes, known: Timeline) -> Instant | None:
    """The completed instant if the timeline has it, with this content, not rolled back since.

    Raises WriteConflictError if it was completed with other content.  The caller holds the lock.
    """
    now = log.load()
    if is_rolled_back(log, mine, known, now):
        return None
    ends = COMPLETES_AS[mine.action]
    for instant in now.where({ends}, State.COMPLETED):
        if instant.time == mine.time:
            if log.read(instant) != content:
                raise WriteConflictError(
                    "another writer has completed this instant", instant=instant
                )
            return instant
    return None


def is_rolled_back(log: TimelineLog, mine: Instant, known: Timeline, now: Timeline) -> bool:
    """Whether a rollback that is not in `known` undoes the instant, an archived one included.

    The permanent list names rollbacks too, once they were examined."""
    if mine.action not in UNDO_ACTIONS and mine.time in now.rolled_back - known.rolled_back:
        return True
    for instant in now.where(UNDO_ACTIONS):
        with suppress(CorruptFileError):  # an incomplete plan of a rollback that never began
            if instant.time not in known.times and mine.time in log.taken_back(instant):
                return True
    return False

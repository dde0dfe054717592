"""Transactions: what a write or a service does under the table's lock, and what beside others.

```
opened      lock -> remains of the dead gone -> the table as it is now          (plan, draw T)
claimed     T's heartbeat begins, still under the lock
            no lock: the work; others begin, commit and run services meanwhile
finishing   lock -> nobody came between -> delta commit T of the metadata table  (complete T)
```

How a service uses it: docs/transactions.md.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import OvertakenError, PyhudiError
from pyhudi.metadata.writer import MetadataCommit, begin_metadata
from pyhudi.options import Options, WriteOptions
from pyhudi.read.state import TableState, load_state
from pyhudi.services.publication import publish_instant
from pyhudi.services.recovery import Recovered, recover
from pyhudi.services.rollback import is_clustering, without_lock
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.lock import TableLock, check_lease, check_lock, lock_seconds_left
from pyhudi.table.config import TableConfig, load_config
from pyhudi.timeline.instant import WRITES, Action, Instant, State
from pyhudi.timeline.log import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.write.commit import Conflict, Touched, find_conflict
from pyhudi.write.heartbeat import Heartbeat, living
from pyhudi.write.kept import check_none_kept, is_kept


def table_lock(fs: FileSystem, options: WriteOptions, purpose: str) -> TableLock:
    """The table's lock as the options ask to wait for it."""
    waits = 1 + options.lock_retries
    seconds = options.lock_seconds * waits + options.lock_retry_seconds * options.lock_retries
    return TableLock(fs, purpose=purpose, wait_seconds=seconds, rules=options.lock)


@contextmanager
def opened(fs: FileSystem, options: Options, purpose: str) -> Iterator[TableState]:
    """The table under its lock, without remains of dead writers.

    Raises LockError, WriteConflictError while a write waits to be published.
    """
    with table_lock(fs, options.write, purpose):
        state = load_state(fs, options.read)
        check_none_kept(fs, state.timeline)
        is_whole = not state.timeline.where({Action.RESTORE}, State.INFLIGHT)
        now = state.timeline if is_whole else state.log.load()
        recovered = roll_back_dead(fs, state.config, state.log, now, options.write)
        if recovered.timeline is None or recovered.config != state.config:
            state = load_state(fs, options.read, previous=state)
        yield state


def roll_back_dead(
    fs: FileSystem, config: TableConfig, log: TimelineLog, now: Timeline, options: WriteOptions
) -> Recovered:
    """Finish or roll back what dead writers left; the live are left alone.

    now: the timeline, listed under the table's lock.
    """
    rules = options.concurrency.heartbeats
    return recover(fs, config, log, now, rules, by_markers=options.rollback_by_markers)


def claimed(fs: FileSystem, instant: Instant, options: WriteOptions) -> Heartbeat:
    """The running heartbeat of an instant that is worked on outside the lock: use it in `with`,
    or stop it.  To be called under the lock under which the instant was drawn or found free."""
    interval = options.concurrency.heartbeats.interval_seconds
    return Heartbeat(fs, instant.time, interval_seconds=interval).start()


def is_claimed(fs: FileSystem, instant: Instant, options: WriteOptions) -> bool:
    """Whether somebody works on a pending instant right now.  To be called under the lock."""
    return instant.time in living(fs, options.concurrency.heartbeats)


@dataclass(frozen=True, slots=True)
class Ending:
    """A transaction about to end: the table's lock is held, nobody came between.

    now: the timeline.  cleaned: whether files have been cleaned since the begin.
    """

    state: TableState
    mine: Instant
    now: Timeline
    cleaned: bool
    compact_after: int  # delta commits of the metadata table

    def begin_metadata(self, engine: Engine | None = None) -> MetadataCommit:
        """Begin the delta commit of the metadata table: finish it, then `complete` the instant."""
        state = self.state
        return begin_metadata(
            state.fs, state.config, state.log, self.now, self.mine, engine=engine,
            compact_after=self.compact_after,
        )  # fmt: skip


@contextmanager
def finishing(
    state: TableState, mine: Instant, options: WriteOptions, *, touched: Touched
) -> Iterator[Ending]:
    """The end of a transaction, under the table's lock.

    state: as `opened` gave it, before any work.  mine: inflight.  Raises OvertakenError naming
    the instant that came between, before anything is changed; LockError.
    """
    with table_lock(state.fs, options, f"finish {mine.action.value} {mine.time}"):
        now = check_nothing_between(state, mine, touched)
        cleans = {Action.CLEAN}
        known = state.timeline.where(cleans, State.COMPLETED).times
        cleaned = bool(now.where(cleans, State.COMPLETED).times - known)
        yield Ending(state, mine, now, cleaned, options.metadata_compact_after)


def check_nothing_between(state: TableState, mine: Instant, touched: Touched) -> Timeline:
    """The timeline now, under the table's lock.  Raises OvertakenError if the table has changed
    under a transaction."""
    config = load_config(state.fs)
    known = (state.config.version, state.config.metadata_partitions)
    if (config.version, config.metadata_partitions) != known:
        raise OvertakenError("the table's properties changed during the write", path=state.fs.url)
    now = state.log.load()
    other = find_conflict(state.log, before=state.timeline, now=now, mine=mine, touched=touched)
    if other is not None:
        raise overtaken_by(other)
    if not any(i.time == mine.time for i in now):
        raise OvertakenError("another process rolled this instant back", instant=mine.time)
    _check_all_hold_locks(state, now, mine)
    check_lease(state.fs)
    return now


def _check_all_hold_locks(state: TableState, now: Timeline, mine: Instant) -> None:
    """Raise OvertakenError if another writer lost the lock at its commit point, or if a rollback
    was cut short, perhaps of such a writer.

    Its commit may still appear, unseen by this one's search for conflicts.  The retry of this
    write begins with the rollback of that one.
    """
    if math.isinf(lock_seconds_left(state.fs)):  # nobody can have lost it and live on
        return
    actions = WRITES - {Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING}
    others = now.where(actions, State.REQUESTED, State.INFLIGHT)
    others = Timeline(tuple(i for i in others if i.time != mine.time))
    cut_short = now.where({Action.ROLLBACK}, State.REQUESTED, State.INFLIGHT).first
    if cut_short is not None:
        raise OvertakenError("a rollback was cut short", instant=cut_short.time)
    for time in sorted(without_lock(state.log, others)):
        instant = next(i for i in others if i.time == time)
        if not is_clustering(state.log, instant) and not is_kept(state.fs, instant):
            raise OvertakenError(
                "another writer lost the table's lock at its commit point", instant=time
            )


def overtaken_by(other: Conflict) -> OvertakenError:
    groups = ", ".join(f"{g.partition}/{g.file_id}" for g in other.groups)
    return OvertakenError(
        other.what,
        instant=other.instant.time,
        action=other.instant.action.value,
        file_groups=groups or None,
    )


@contextmanager
def undoing(failed: BaseException) -> Iterator[None]:
    """Around the rollback of a write or service that failed.

    Where the rollback fails too, because the lock was lost or the store is away, `failed` stays
    the error that is raised, with a note; the next holder of the lock rolls back.
    """
    try:
        yield
    except (PyhudiError, OSError, pa.ArrowException) as error:
        failed.add_note(f"not rolled back yet, the next writer does it: {error}")


def complete(state: TableState, mine: Instant, content: bytes) -> Instant:
    """The commit point: returns only if the instant is complete for good, and raises only if it is
    not, or if the store does not tell.  Raises LockError if the lock was lost while it was held."""
    check_lock(state.fs)
    return publish_instant(state.fs, state.log, mine, content, known=state.timeline)


__all__ = [
    "Ending",
    "Heartbeat",
    "OvertakenError",
    "Touched",
    "check_nothing_between",
    "claimed",
    "complete",
    "finishing",
    "is_claimed",
    "opened",
    "overtaken_by",
    "roll_back_dead",
    "table_lock",
    "undoing",
]

"""End of a transaction: conflict detection and the commit point, under the table's lock.

```
ending      lock -> no conflicts -> delta commit T of the metadata table  (complete T)
finishing   `ending` of a service, which is not planned again after a conflict
```
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from pyhudi.engine import Engine
from pyhudi.errors import Overtaken, OvertakenError
from pyhudi.filenames import METADATA_TABLE
from pyhudi.metadata.delta_commit import MetadataCommit
from pyhudi.metadata.writer import begin_metadata
from pyhudi.options import WriteOptions
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import InstantTime
from pyhudi.storage.locks.table_lock import check_lease, check_lock, lock_seconds_left
from pyhudi.table.properties import load_config
from pyhudi.timeline.instant import WRITES, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import table_lock
from pyhudi.transaction.conflicts import WriteSet, find_conflict, overtaken_by
from pyhudi.transaction.deferred_publish import is_deferred
from pyhudi.transaction.publication import is_rolled_back, publish_instant


@dataclass(frozen=True, slots=True)
class Ending:
    """A transaction about to end: the table's lock is held, there are no conflicts.

    now: the timeline.  cleaned: whether files have been cleaned since the begin.
    """

    state: TableState
    mine: Instant
    now: Timeline
    cleaned: bool
    compact_after: int  # delta commits of the metadata table

    def begin_metadata(self, engine: Engine) -> MetadataCommit:
        """Begin the delta commit of the metadata table: finish it, then `complete` the instant."""
        state = self.state
        return begin_metadata(
            state.fs,
            state.config,
            state.log,
            self.now,
            self.mine,
            engine=engine,
            compact_after=self.compact_after,
        )


@contextmanager
def finishing(
    state: TableState, mine: Instant, options: WriteOptions, *, touched: WriteSet
) -> Iterator[Ending]:
    """The end of a service, like `ending`.  Raises OvertakenError with the conflicting instant,
    before any change; LockError."""
    with ending(state, mine, options, touched=touched) as ended:
        if isinstance(ended, Overtaken):
            raise ended.error
        yield ended


@contextmanager
def ending(
    state: TableState, mine: Instant, options: WriteOptions, *, touched: WriteSet
) -> Iterator[Ending | Overtaken]:
    """The end of a transaction, under the table's lock; or the change that conflicts with it.

    state: as read under the lock at the begin.  mine: inflight.  Raises LockError.
    """
    with table_lock(state.fs, options, f"finish {mine.action.value} {mine.time}"):
        now = _unless_overtaken(state, mine, touched)
        if isinstance(now, Overtaken):
            yield now
            return
        cleans = {Action.CLEAN}
        known = state.timeline.where(cleans, State.COMPLETED).times
        cleaned = bool(now.where(cleans, State.COMPLETED).times - known)
        yield Ending(state, mine, now, cleaned, options.metadata_compact_after)


def _unless_overtaken(state: TableState, mine: Instant, touched: WriteSet) -> Timeline | Overtaken:
    """The current timeline, under the table's lock, or the change that conflicts with the
    transaction."""
    config = load_config(state.fs)
    known = (state.config.version, state.config.metadata_partitions)
    if (config.version, config.metadata_partitions) != known:
        return Overtaken(
            OvertakenError("the table's properties changed during the write", path=state.fs.url)
        )
    now = state.log.load()
    other = find_conflict(state.log, before=state.timeline, now=now, mine=mine, touched=touched)
    if other is not None:
        return overtaken_by(other)
    undone = is_rolled_back(state.log, mine, state.timeline, now)  # perhaps before it was inflight
    if undone or not any(i.time == mine.time for i in now):
        return Overtaken(
            OvertakenError("another process rolled this instant back", instant=mine.time)
        )
    lost = _find_lost_lock(state, now, mine)
    if lost is not None:
        return lost
    check_lease(state.fs)
    return now


def _find_lost_lock(state: TableState, now: Timeline, mine: Instant) -> Overtaken | None:
    """Another writer that lost the lock at its commit point, or a rollback, possibly of such a
    writer, that was interrupted; None if none.

    The other commit may still appear and was not part of this write's conflict detection.  The
    retry of this write begins with its rollback.
    """
    if math.isinf(lock_seconds_left(state.fs)):  # a process cannot lose it and continue
        return None
    actions = WRITES - {Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING}
    others = now.where(actions, State.REQUESTED, State.INFLIGHT)
    others = Timeline(tuple(i for i in others if i.time != mine.time))
    cut_short = now.where({Action.ROLLBACK}, State.REQUESTED, State.INFLIGHT).first
    if cut_short is not None:
        return Overtaken(OvertakenError("a rollback was interrupted", instant=cut_short.time))
    for time in sorted(without_lock(state.log, others)):
        instant = next(i for i in others if i.time == time)
        if not state.log.is_clustering(instant) and not is_deferred(state.fs, instant):
            error = OvertakenError(
                "another writer lost the table's lock at its commit point", instant=time
            )
            return Overtaken(error)
    return None


def without_lock(log: TimelineLog, pending: Timeline) -> frozenset[InstantTime]:
    """Pending instants whose writers lost the table's lock at their commit point.

    Their delta commit of the metadata table is complete; it is written under the lock, right before
    the data commit.  If another holder of the lock finds one, its writer has lost the lock: the
    writer may be alive, but its commit was not checked against the commits of others.
    Cost: one listing if anything is pending.
    """
    if not pending.instants:
        return frozenset()
    metadata_log = TimelineLog(log.fs.sub(METADATA_TABLE), layout=log.layout)
    done = metadata_log.load().where({Action.DELTA_COMMIT}, State.COMPLETED)
    return done.times & pending.times


def complete(state: TableState, mine: Instant, content: bytes) -> Instant:
    """The commit point: returns only if the instant is complete permanently; raises only if it is
    not, or if the store does not answer.  Raises LockError if the lock was lost in between."""
    check_lock(state.fs)
    return publish_instant(state.fs, state.log, mine, content, known=state.timeline)

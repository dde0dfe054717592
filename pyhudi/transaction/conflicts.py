"""Conflict detection between a write or service and concurrent changes of the table.

A transaction is planned on the table state at its begin, and ends under the table's lock.
The timeline shows what happened in between:

```
a commit completed since       it wrote one of our file groups, or into a partition we replace,
                               or replaced a partition we wrote to
a service planned since        a compaction or clustering of one of our file groups: it would lose
                               our concurrent writes
a rollback, a restore since    of commits we were planned on
a plan removed since           a compaction that our logs are named after was unscheduled
```

A compaction planned before our begin is no conflict: our logs are on top of its files.  In a
layout with completion times no compaction conflicts with logs: it plans those that completed
before it.  Under non-blocking concurrency control, neither do writes to the same file groups: the
merge rules decide between the rows.
Source: table_format 6.4, which has the first two cases.

`find_early` stops a write that would fail at its end before it writes files: it adds the file
groups for which older running writes have created markers.  Of two conflicting writes the older
one continues, so one of them always does.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import Overtaken, OvertakenError
from pyhudi.options import Heartbeats
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.table.timeline_facts import pending_plans
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import WRITES, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.heartbeat import living
from pyhudi.transaction.markers import list_markers

COMPACT: Final = "COMPACT"
REWRITES: Final = frozenset({COMPACT, "CLUSTER", "LOG_COMPACT"})
"""Operations that do not change the rows of a partition."""


@dataclass(frozen=True, slots=True)
class WriteSet:
    """The set of changes of a transaction.

    groups: file groups written or replaced.  written: partitions that receive rows.  replaced:
    partitions replaced completely, including rows that others add in the meantime; whole_table:
    all partitions are.  alike: maps groups to values; groups with equal values conflict, as two
    writers that create a bucket of a bucket index use two names for it.  on_top_of: pending
    compactions that its logs are named after.  logged: groups that only get logs, in a layout in
    which a compaction plans the logs completed before it, so that it cannot conflict with them.
    shared: those of them that others may write to meanwhile (non-blocking concurrency control);
    another file group of the same bucket still conflicts.
    """

    groups: frozenset[FileGroupId]
    written: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()
    whole_table: bool = False
    alike: Callable[[FileGroupId], Hashable] | None = None
    on_top_of: frozenset[InstantTime] = frozenset()
    logged: frozenset[FileGroupId] = frozenset()
    shared: frozenset[FileGroupId] = frozenset()

    def likeness(self, group: FileGroupId) -> Hashable:
        return group if self.alike is None else self.alike(group)


@dataclass(frozen=True, slots=True)
class Conflict:
    """A conflicting instant, the reason, and the file groups that both changed."""

    instant: Instant
    what: str
    groups: tuple[FileGroupId, ...] = ()


def completed_since(before: Timeline, now: Timeline) -> list[Instant]:
    """Commits completed since `before`, except compactions that were planned by then."""
    known, planned = set(before.commits), before.where({Action.COMPACTION}).times
    return [i for i in now.commits if i not in known and i.time not in planned]


def find_conflict(
    log: TimelineLog, *, before: Timeline, now: Timeline, mine: Instant, touched: WriteSet
) -> Conflict | None:
    """The first instant since `before` that conflicts with this transaction."""
    ours = {touched.likeness(group) for group in touched.groups}

    def shared(groups: Iterable[FileGroupId]) -> tuple[FileGroupId, ...]:
        return tuple(sorted(g for g in groups if touched.likeness(g) in ours))

    for gone in sorted(touched.on_top_of - now.times):
        plan = Instant(gone, Action.COMPACTION, State.REQUESTED)
        return Conflict(plan, "a compaction that logs were written on top of was unscheduled")
    for lost in _archived(before, now):
        return Conflict(lost, "a write that was pending has been archived, with unknown outcome")
    for undone in _undone(log, before, now):
        return Conflict(undone, "commits that this operation was planned on were rolled back")
    for other in completed_since(before, now):
        if other.time == mine.time:
            continue
        written = log.commit(other)
        compacts = written.operation == COMPACT
        free = touched.logged if compacts else touched.shared - written.replaced_groups
        if both := shared(written.groups - free):
            return Conflict(other, "another writer changed the same file groups", both)
        if _meets(written, touched):
            return Conflict(other, "another writer changed the same partitions")
    for planned, groups in _planned(log, before, now):
        compacts = planned.action is Action.COMPACTION
        if both := shared(groups - touched.logged if compacts else groups):
            return Conflict(planned, "a service was planned for the same file groups", both)
    return None


def _meets(other: CommitMetadata, touched: WriteSet) -> bool:
    """Whether one replaces a partition that the other writes to."""
    if other.operation in REWRITES:
        return False
    if touched.whole_table:
        return True
    theirs = {stat.partition for stat in other.stats} | set(other.replaced or ())
    return bool(theirs & touched.replaced or set(other.replaced or ()) & touched.written)


def _archived(before: Timeline, now: Timeline) -> list[Instant]:
    """Writes pending in `before` that are now older than the whole active timeline: the archive is
    not searched for their outcome."""
    first = now.first
    pending = before.where(WRITES, State.REQUESTED, State.INFLIGHT)
    return [i for i in pending if first is not None and i.time < first.time]


def _undone(log: TimelineLog, before: Timeline, now: Timeline) -> Iterator[Instant]:
    """Rollbacks of commits completed in `before`, and restores, finished since."""
    known = before.times
    for instant in now.where({Action.ROLLBACK, Action.RESTORE}, State.COMPLETED):
        if instant.time in known and any(i == instant for i in before):
            continue
        if instant.action is Action.RESTORE or before.commits.times & set(log.taken_back(instant)):
            yield instant


def _planned(
    log: TimelineLog, before: Timeline, now: Timeline
) -> Iterator[tuple[Instant, set[FileGroupId]]]:
    """Compactions and clusterings pending now that did not exist in `before`."""
    actions = {Action.COMPACTION, Action.CLUSTERING, Action.REPLACE_COMMIT}
    for instant in now.where(actions, State.REQUESTED, State.INFLIGHT):
        if instant.time in before.times:
            continue
        plans = pending_plans(log, Timeline((instant,)))
        if groups := plans.compacting.keys() | plans.clustering.keys():
            yield instant, groups


def overtaken_by(other: Conflict) -> Overtaken:
    groups = ", ".join(f"{g.partition}/{g.file_id}" for g in other.groups)
    error = OvertakenError(
        other.what,
        instant=other.instant.time,
        action=other.instant.action.value,
        file_groups=groups or None,
    )
    return Overtaken(error)


def find_early(
    state: TableState, mine: Instant, touched: WriteSet, heartbeats: Heartbeats
) -> Overtaken | None:
    """The conflict that a write of this instant currently has; None if none.

    state: the state the write was planned on.  Cost: one listing of the timeline, and the markers
    of each older running write.
    """
    fs, log, now = state.fs, state.log, state.log.load()
    found = find_conflict(log, before=state.timeline, now=now, mine=mine, touched=touched)
    if found is not None:
        return overtaken_by(found)
    likenesses = {touched.likeness(group) for group in touched.groups}
    alive = living(fs, heartbeats)
    for other in now.where(WRITES, State.INFLIGHT):
        if other.time >= mine.time or other.time not in alive:
            continue
        groups = {marker.group for marker in list_markers(fs, other.time)} - touched.shared
        if shared := tuple(sorted(g for g in groups if touched.likeness(g) in likenesses)):
            return overtaken_by(Conflict(other, "an older write works on the same groups", shared))
    return None

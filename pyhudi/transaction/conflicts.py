"""Conflict check: did somebody else change what this write or service builds on.

A transaction is planned on the table as it was at its begin, and ends under the table's lock.
What has happened between is read off the timeline:

```
a commit completed since       it wrote a file group of ours; or into a partition we take out;
                               or took out a partition we wrote to
a service planned since        a compaction or clustering of a file group of ours: what we wrote
                               beside its plan would be lost to it
a rollback, a restore since    of what we were planned on
a plan gone since              a compaction that our logs are named after was unscheduled
```

A compaction that was planned before our begin is none: our logs lie on top of its files.
Source: table_format 6.4, which knows the first two.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator
from dataclasses import dataclass
from typing import Final

from pyhudi.metadata.visible_instants import rolled_back
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.table.timeline_facts import pending_plans
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import WRITES, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_REWRITES: Final = frozenset({"COMPACT", "CLUSTER", "LOG_COMPACT"})
"""Operations that leave the rows of a partition as they are."""


@dataclass(frozen=True, slots=True)
class WriteSet:
    """What a transaction changes.

    groups: file groups written or replaced.  written: partitions that rows go to.  replaced:
    partitions taken out as they are now, rows that others bring meanwhile too; whole_table: all
    of them.  alike: groups of one likeness are one; a bucket index has two names for a bucket
    that two writers begin.  on_top_of: pending compactions that its logs are named after.
    """

    groups: frozenset[FileGroupId]
    written: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()
    whole_table: bool = False
    alike: Callable[[FileGroupId], Hashable] | None = None
    on_top_of: frozenset[InstantTime] = frozenset()

    def likeness(self, group: FileGroupId) -> Hashable:
        return group if self.alike is None else self.alike(group)


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another instant, what is wrong with it, and the file groups both changed."""

    instant: Instant
    what: str
    groups: tuple[FileGroupId, ...] = ()


def completed_since(before: Timeline, now: Timeline) -> list[Instant]:
    """Commits that are complete now and were not then, but for compactions planned by then."""
    known, planned = set(before.commits), before.where({Action.COMPACTION}).times
    return [i for i in now.commits if i not in known and i.time not in planned]


def find_conflict(
    log: TimelineLog, *, before: Timeline, now: Timeline, mine: Instant, touched: WriteSet
) -> Conflict | None:
    """The first instant since `before` that does not go with this transaction."""
    ours = {touched.likeness(group) for group in touched.groups}

    def shared(groups: Iterable[FileGroupId]) -> tuple[FileGroupId, ...]:
        return tuple(sorted(g for g in groups if touched.likeness(g) in ours))

    for gone in sorted(touched.on_top_of - now.times):
        plan = Instant(gone, Action.COMPACTION, State.REQUESTED)
        return Conflict(plan, "a compaction that logs were written on top of is planned no more")
    for lost in _archived(before, now):
        return Conflict(lost, "what came of a write that was pending is archived by now")
    for undone in _undone(log, before, now):
        return Conflict(undone, "commits that this one was planned on have been taken back")
    for other in completed_since(before, now):
        if other.time == mine.time:
            continue
        written = log.commit(other)
        if both := shared(written.groups):
            return Conflict(other, "another writer changed the same file groups", both)
        if _meets(written, touched):
            return Conflict(other, "another writer changed the same partitions")
    for planned, groups in _planned(log, before, now):
        if both := shared(groups):
            return Conflict(planned, "a service was planned for the same file groups", both)
    return None


def _meets(other: CommitMetadata, touched: WriteSet) -> bool:
    """Whether one takes out a partition that the other writes to."""
    if other.operation in _REWRITES:
        return False
    if touched.whole_table:
        return True
    theirs = {stat.partition for stat in other.stats} | set(other.replaced or ())
    return bool(theirs & touched.replaced or set(other.replaced or ()) & touched.written)


def _archived(before: Timeline, now: Timeline) -> list[Instant]:
    """Writes pending then, and older now than all of the timeline: whether and what they have
    committed is not asked there."""
    first = now.first
    pending = before.where(WRITES, State.REQUESTED, State.INFLIGHT)
    return [i for i in pending if first is not None and i.time < first.time]


def _undone(log: TimelineLog, before: Timeline, now: Timeline) -> Iterator[Instant]:
    """Rollbacks of commits we know as completed, and restores, finished since."""
    known = before.times
    for instant in now.where({Action.ROLLBACK, Action.RESTORE}, State.COMPLETED):
        if instant.time in known and any(i == instant for i in before):
            continue
        if instant.action is Action.RESTORE or before.commits.times & set(
            rolled_back(log, instant)
        ):
            yield instant


def _planned(
    log: TimelineLog, before: Timeline, now: Timeline
) -> Iterator[tuple[Instant, set[FileGroupId]]]:
    """Compactions and clusterings that are pending now and were not there then."""
    actions = {Action.COMPACTION, Action.CLUSTERING, Action.REPLACE_COMMIT}
    for instant in now.where(actions, State.REQUESTED, State.INFLIGHT):
        if instant.time in before.times:
            continue
        plans = pending_plans(log, Timeline((instant,)))
        if groups := plans.compacting.keys() | plans.clustering.keys():
            yield instant, groups

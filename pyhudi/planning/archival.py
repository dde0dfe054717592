"""Selection of the completed instants that move from the active timeline to the archive.  Pure.

```
commits   [C1 C2 C3 | C4 ... C30]    more than `commits_max`: the oldest are archived
                    bounds           until `commits_min` remain, but only those before every bound
cleans, rollbacks                    each kind likewise; only the bound `compacted` applies
                                     (layout 2: those before the newest archived commit)
```

Commits are archived by the times when they began.  In layout 2 the `commits_min` that completed
last stay as well, however early they began: readers of changes go on from completion times.

Readers treat an archived instant, and every instant before the first active one, as completed.
Two kinds of instants are therefore bounds: those that no reader may treat as completed (a pending
write), and those that are still needed (a savepoint, a replacement of file groups that still have
a file, log blocks that the metadata table has not compacted).
Source: table_format 5.3, 7.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

from pyhudi.records import InstantTime
from pyhudi.timeline.instant import COMMITS, WRITES, Action, Instant, State
from pyhudi.timeline.timeline import Timeline

SERVICES_ARCHIVED: Final = (Action.CLEAN, Action.ROLLBACK)

NO_INSTANT: InstantTime = InstantTime("")
"""A bound before every instant."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Limits of archival.  commits: reason -> the oldest commit that stays; all later ones stay.

    compacted: cleans and rollbacks from this instant on stay (None: no such limit).  retained:
    commits that stay even if later ones are archived.
    """

    commits: Mapping[str, InstantTime] = field(default_factory=dict)
    compacted: InstantTime | None = None
    retained: frozenset[InstantTime] = frozenset()


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """Instants to archive: cleans and rollbacks first, each kind oldest first.

    held_by: the bound that retains more commits than requested; None if there is none.
    """

    instants: tuple[Instant, ...] = ()
    held_by: str | None = None


def archivable(
    timeline: Timeline,
    bounds: Bounds,
    *,
    commits_min: int,
    commits_max: int,
    services_follow: bool = False,
) -> ArchivePlan:
    """Choose the instants to archive.

    commits_min, commits_max: apply to commits, cleans and rollbacks separately.
    services_follow: cleans and rollbacks are not counted; those before the newest archived commit
    are archived with it (layout 2).
    """
    chosen: list[Instant] = []
    for action in () if services_follow else SERVICES_ARCHIVED:
        done = timeline.where({action}, State.COMPLETED).instants
        if len(done) > commits_max:
            limit = bounds.compacted
            oldest = done[: len(done) - commits_min]
            chosen += [i for i in oldest if limit is None or i.time < limit]
    commits = [i for i in timeline.where(COMMITS, State.COMPLETED) if i.time not in bounds.retained]
    if len(commits) <= commits_max:
        return ArchivePlan(tuple(chosen))
    requested = commits[: len(commits) - commits_min]
    limits = dict(bounds.commits)
    if services_follow and commits_min:
        last = sorted(commits, key=lambda i: i.position)[-commits_min:]
        first = min(i.time for i in last)
        if first <= requested[-1].time:
            limits["a late completion"] = first
    free = [i for i in requested if all(i.time < bound for bound in limits.values())]
    held_by = None
    if len(free) < len(requested):
        held_by = min(limits, key=lambda why: limits[why])
    if services_follow and free:
        done = timeline.where(SERVICES_ARCHIVED, State.COMPLETED).instants
        chosen = [i for i in done if i.time < free[-1].time]
    return ArchivePlan((*chosen, *free), held_by)


def before_pending(timeline: Timeline) -> InstantTime | None:
    """The newest completed commit before the oldest pending write or plan.

    The pending instant itself if no commit precedes it; None if nothing is pending.
    """
    first = timeline.where(WRITES, State.REQUESTED, State.INFLIGHT).first
    if first is None:
        return None
    before = [i.time for i in timeline.commits if i.time < first.time]
    return before[-1] if before else first.time


def completed_while_pending(timeline: Timeline) -> InstantTime | None:
    """The oldest commit that completed after a pending write began; None if there is none.

    That write has to find it when it checks for conflicts.  For timelines that record completion
    times.
    """
    first = timeline.where(WRITES, State.REQUESTED, State.INFLIGHT).first
    return None if first is None else completed_after(timeline.commits, first.time)


def completed_after(timeline: Timeline, moment: InstantTime) -> InstantTime | None:
    """The first instant that completed after a moment; None if all completed before."""
    done = timeline.where(None, State.COMPLETED)
    return next((i.time for i in done if i.completion > moment), None)


def needed_to_trigger(timeline: Timeline, compact_after: int) -> InstantTime | None:
    """The oldest instant that is needed to decide whether a compaction is due."""
    deltas = timeline.where({Action.DELTA_COMMIT}, State.COMPLETED)
    last = timeline.where({Action.COMMIT}, State.COMPLETED).last
    since = [i for i in deltas if last is None or i.completion > last.time]
    if len(since) >= compact_after:
        return since[-compact_after].time
    if last is not None:
        return min([last.time, *(i.time for i in since)])
    return deltas.first.time if deltas.first else None


def replacements(plan: ArchivePlan) -> tuple[Instant, ...]:
    """Instants of a plan that may have replaced file groups of the table, oldest first."""
    actions = (Action.REPLACE_COMMIT, Action.CLUSTERING)
    return tuple(instant for instant in plan.instants if instant.action in actions)

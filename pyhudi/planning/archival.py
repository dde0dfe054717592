"""Which completed instants leave the active timeline for the archive.  Pure.

```
commits   [C1 C2 C3 | C4 ... C30]    more than `commits_max`: the oldest go until `commits_min`
                    bounds           are left, but only those before every bound
cleans, rollbacks                    each kind likewise; they have the bound `compacted` only
```

An instant that has left counts as completed, as do all before the first one that is left.  So
what nobody may take for completed (a pending write) and what is still asked for (a savepoint,
replaced groups of which a file is left, blocks the metadata table has not compacted) is a bound.
Source: table_format 5.3, 7.6.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from pyhudi.records import InstantTime
from pyhudi.timeline.instant import COMMITS, WRITES, Action, Instant, State
from pyhudi.timeline.timeline import Timeline

NO_INSTANT: InstantTime = InstantTime("")
"""A bound before every instant."""


@dataclass(frozen=True, slots=True)
class Bounds:
    """Instants that stay, and all after them.  commits: why -> the oldest commit that stays.

    compacted: cleans and rollbacks from here on stay (None: none for this reason).  kept: commits
    that stay though later ones go.
    """

    commits: Mapping[str, InstantTime] = field(default_factory=dict)
    compacted: InstantTime | None = None
    kept: frozenset[InstantTime] = frozenset()


@dataclass(frozen=True, slots=True)
class ArchivePlan:
    """What goes, cleans and rollbacks first, each kind oldest first.  held_by: the bound that
    keeps more commits than asked for."""

    instants: tuple[Instant, ...] = ()
    held_by: str | None = None


def archivable(
    timeline: Timeline, bounds: Bounds, *, commits_min: int, commits_max: int
) -> ArchivePlan:
    """Choose what goes.  commits_min, commits_max: of commits, of cleans, of rollbacks each."""
    going: list[Instant] = []
    for action in (Action.CLEAN, Action.ROLLBACK):
        done = timeline.where({action}, State.COMPLETED).instants
        if len(done) > commits_max:
            limit = bounds.compacted
            oldest = done[: len(done) - commits_min]
            going += [i for i in oldest if limit is None or i.time < limit]
    commits = [i for i in timeline.where(COMMITS, State.COMPLETED) if i.time not in bounds.kept]
    if len(commits) <= commits_max:
        return ArchivePlan(tuple(going))
    wanted = commits[: len(commits) - commits_min]
    free = [i for i in wanted if all(i.time < bound for bound in bounds.commits.values())]
    held_by = None
    if len(free) < len(wanted):
        held_by = min(bounds.commits, key=lambda why: bounds.commits[why])
    return ArchivePlan((*going, *free), held_by)


def before_pending(timeline: Timeline) -> InstantTime | None:
    """The newest completed commit before the oldest pending write or plan, or that one itself."""
    first = timeline.where(WRITES, State.REQUESTED, State.INFLIGHT).first
    if first is None:
        return None
    before = [i.time for i in timeline.commits if i.time < first.time]
    return before[-1] if before else first.time


def needed_to_trigger(timeline: Timeline, compact_after: int) -> InstantTime | None:
    """The oldest instant that is looked at to tell whether a compaction is due."""
    deltas = timeline.where({Action.DELTA_COMMIT}, State.COMPLETED)
    last = timeline.where({Action.COMMIT}, State.COMPLETED).last
    since = deltas if last is None else deltas.after(last.time)
    if len(since) >= compact_after:
        return since.instants[-compact_after].time
    if last is not None:
        return last.time
    return deltas.first.time if deltas.first else None


def replacements(plan: ArchivePlan) -> tuple[Instant, ...]:
    """Instants of a plan that may have taken file groups out of the table, oldest first."""
    actions = (Action.REPLACE_COMMIT, Action.CLUSTERING)
    return tuple(instant for instant in plan.instants if instant.action in actions)

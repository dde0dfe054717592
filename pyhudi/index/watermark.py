"""Watermark of an external index: which commits it includes, and which it has missed.

An external index writes its state before the commit it belongs to; the state is valid only if that
commit is completed.  Writers that do not know the index commit without updating it; the state lists
what it has seen, so their commits are detected.

    seen      commits up to the state's own, except those pending when it was planned
    missed    completed commits that it has not seen: the file groups they touched are read again
    unknown   a seen commit was rolled back, or a missed one is archived: everything is read again
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyhudi.records import FileGroupId, InstantTime
from pyhudi.timeline.instant import WRITES, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_KEEPS_PLACES: Final = frozenset({"COMPACT", "LOG_COMPACT"})
"""Operations that do not move keys between file groups."""


@dataclass(frozen=True, slots=True)
class Covered:
    """The commits that a state has seen.  newest: its own; pending: older ones not seen."""

    newest: InstantTime
    pending: frozenset[InstantTime] = frozenset()

    @classmethod
    def of(cls, timeline: Timeline, *, mine: InstantTime) -> Covered:
        """The commits seen by a state made from `timeline` and the commit `mine`."""
        pending = timeline.where(WRITES, State.REQUESTED, State.INFLIGHT).times
        return cls(mine, pending - timeline.commits.times - {mine})

    def has_seen(self, time: InstantTime) -> bool:
        return time <= self.newest and time not in self.pending

    def is_visible(self, log: TimelineLog, timeline: Timeline) -> bool:
        """Whether its commit is completed and on the active timeline, and no commit it has seen
        was rolled back since.  Cost: a read of each younger rollback."""
        if self.newest not in timeline.commits.times:
            return False
        undoing = timeline.where({Action.ROLLBACK, Action.RESTORE}, State.COMPLETED)
        return not any(
            self.has_seen(InstantTime(time))
            for instant in undoing.after(self.newest)
            for time in log.taken_back(instant)
        )

    def missed(self, timeline: Timeline) -> list[Instant] | None:
        """Completed commits it has not seen; None where some of them may be archived."""
        first = timeline.commits.first
        if first is None or any(time < first.time for time in self.pending - timeline.times):
            return None
        return [i for i in timeline.commits if not self.has_seen(i.time)]


def touched_groups(log: TimelineLog, commits: Iterable[Instant]) -> frozenset[FileGroupId]:
    """File groups to which commits have added keys, or from which they have removed keys."""
    read = (log.commit(instant) for instant in commits)
    groups = (commit.groups for commit in read if commit.operation not in _KEEPS_PLACES)
    return frozenset[FileGroupId]().union(*groups)

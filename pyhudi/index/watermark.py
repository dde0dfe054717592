"""Which commits an index that is kept beside the table reflects, and what it has missed.

Such an index writes its state before the commit it belongs to; the state counts only if that
commit is completed.  Writers that do not know the index commit without it: their commits are told
apart by what the state says it has seen.

    seen      commits up to the state's own, but for those that were pending when it was planned
    missed    completed commits that it has not seen: the file groups they touched are read again
    unknown   what it has seen was taken back, or what it has missed is archived: read everything
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from pyhudi.metadata.visible_instants import rolled_back
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.timeline.instant import WRITES, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_KEEPS_PLACES: Final = frozenset({"COMPACT", "LOG_COMPACT"})
"""Operations after which every key is in the file group where it was."""


@dataclass(frozen=True, slots=True)
class Covered:
    """The commits that a state has seen.  newest: its own; pending: older ones it has not."""

    newest: InstantTime
    pending: frozenset[InstantTime] = frozenset()

    @classmethod
    def of(cls, timeline: Timeline, *, mine: InstantTime) -> Covered:
        """By a state that is made of what `timeline` says, and of the commit `mine`."""
        pending = timeline.where(WRITES, State.REQUESTED, State.INFLIGHT).times
        return cls(mine, pending - timeline.commits.times - {mine})

    def has_seen(self, time: InstantTime) -> bool:
        return time <= self.newest and time not in self.pending

    def is_believed(self, log: TimelineLog, timeline: Timeline) -> bool:
        """Whether its commit is completed, on the active timeline, and nothing it has seen was
        taken back since.  Cost: a read of each younger rollback."""
        if self.newest not in timeline.commits.times:
            return False
        undoing = timeline.where({Action.ROLLBACK, Action.RESTORE}, State.COMPLETED)
        return not any(
            self.has_seen(InstantTime(time))
            for instant in undoing.after(self.newest)
            for time in rolled_back(log, instant)
        )

    def missed(self, timeline: Timeline) -> list[Instant] | None:
        """Completed commits it has not seen; None where some of them may be archived."""
        first = timeline.commits.first
        if first is None or any(time < first.time for time in self.pending - timeline.times):
            return None
        return [i for i in timeline.commits if not self.has_seen(i.time)]


def touched_groups(log: TimelineLog, commits: Iterable[Instant]) -> frozenset[FileGroupId]:
    """File groups that commits have put keys into, or taken keys from."""
    read = (log.commit(instant) for instant in commits)
    groups = (commit.groups for commit in read if commit.operation not in _KEEPS_PLACES)
    return frozenset[FileGroupId]().union(*groups)

"""Early conflict detection: who would lose at the end anyway does not write its files first.

Looked at once, when a write is planned, without the lock: commits and plans since its begin, and
what older writes that are still alive have announced by their markers.  Of two that meet the older
one goes on, so one of them always does.
"""

from __future__ import annotations

from pyhudi.services.commit import touched
from pyhudi.services.transaction import OvertakenError, overtaken_by
from pyhudi.timeline.instant import WRITES, Instant, State
from pyhudi.write.commit import Conflict, find_conflict
from pyhudi.write.heartbeat import living
from pyhudi.write.markers import list_markers
from pyhudi.write.operations import PlannedWrite, Setting


def check_early(setting: Setting, planned: PlannedWrite, mine: Instant) -> None:
    """Raise OvertakenError if this write would be overtaken as things stand.

    Cost: one listing of the timeline, and the markers of each older write that is alive.
    """
    state = setting.state
    fs, log, now = state.fs, state.log, state.log.load()
    ours = touched(setting, planned)
    found = find_conflict(log, before=state.timeline, now=now, mine=mine, touched=ours)
    if found is not None:
        raise overtaken_by(found)
    likenesses = {ours.likeness(group) for group in ours.groups}
    alive = living(fs, setting.options.concurrency.heartbeats)
    for other in now.where(WRITES, State.INFLIGHT):
        if other.time >= mine.time or other.time not in alive:
            continue
        groups = {marker.group for marker in list_markers(fs, other.time)}
        if shared := tuple(sorted(g for g in groups if ours.likeness(g) in likenesses)):
            raise overtaken_by(Conflict(other, "an older write works on the same groups", shared))


__all__ = ["OvertakenError", "check_early"]

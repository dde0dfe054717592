"""Early conflict detection: a write that would lose at its end stops before it writes files.

Checked once, when a write has been planned, without the lock: commits and plans since its begin,
and the file groups that older running writes have announced by their markers.  Of two writes that
meet, the older one goes on, so one of them always does.
"""

from __future__ import annotations

from pyhudi.options import Heartbeats
from pyhudi.read.table_snapshot import TableState
from pyhudi.timeline.instant import WRITES, Instant, State
from pyhudi.transaction.conflicts import Conflict, WriteSet, find_conflict
from pyhudi.transaction.finish import overtaken_by
from pyhudi.transaction.heartbeat import living
from pyhudi.transaction.markers import list_markers


def check_early(
    state: TableState, mine: Instant, touched: WriteSet, heartbeats: Heartbeats
) -> None:
    """Raise OvertakenError if a write of this instant would be overtaken as things stand.

    state: what the write was planned on.  Cost: one listing of the timeline, and the markers of
    each older write that is running.
    """
    fs, log, now = state.fs, state.log, state.log.load()
    found = find_conflict(log, before=state.timeline, now=now, mine=mine, touched=touched)
    if found is not None:
        raise overtaken_by(found)
    likenesses = {touched.likeness(group) for group in touched.groups}
    alive = living(fs, heartbeats)
    for other in now.where(WRITES, State.INFLIGHT):
        if other.time >= mine.time or other.time not in alive:
            continue
        groups = {marker.group for marker in list_markers(fs, other.time)}
        if shared := tuple(sorted(g for g in groups if touched.likeness(g) in likenesses)):
            raise overtaken_by(Conflict(other, "an older write works on the same groups", shared))

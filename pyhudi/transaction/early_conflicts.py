"""Early conflict detection: stops a write that would fail at its end before it writes files.

Checked once, after planning, without the lock: commits and plans since the begin of the write, and
the file groups for which older running writes have created markers.  Of two conflicting writes the
older one continues, so one of them always does.
"""

from __future__ import annotations

from pyhudi.errors import Overtaken
from pyhudi.options import Heartbeats
from pyhudi.read.table_snapshot import TableState
from pyhudi.timeline.instant import WRITES, Instant, State
from pyhudi.transaction.conflicts import Conflict, WriteSet, find_conflict
from pyhudi.transaction.finish import overtaken_by
from pyhudi.transaction.heartbeat import living
from pyhudi.transaction.markers import list_markers


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

"""Which pending instants have a running process, as seen by one that does not hold the lock.

A writer that works outside the table's lock has a heartbeat; one that works under it has none, and
is the lock's holder.  A process that waits, or is stopped, holds its lock and has its heartbeat.
Writers themselves judge under the lock (`rollback.failed_writes`), where no other holder exists.

Heartbeats are listed after the lock was found free, and the timeline after them: a writer that
ends meanwhile has completed its instant first.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyhudi.options import Heartbeats
from pyhudi.records import InstantTime
from pyhudi.recovery.rollback import failed_writes
from pyhudi.storage.locks.table_lock import is_locked_by_another
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.heartbeat import living

UNDER_LOCK: Final = frozenset({Action.ROLLBACK, Action.CLEAN, Action.RESTORE})
"""Services that the holder of the lock runs, or one with a heartbeat."""


def crashed_writes(
    log: TimelineLog, timeline: Timeline, heartbeats: Heartbeats | None = None
) -> list[Instant]:
    """The failed writes of a timeline that no writer works on and none rolls back now.

    Cost beyond `failed_writes`: nothing if none failed, else a request for the lock and two
    listings.  Raises CorruptFileError for a torn plan.
    """
    if not failed_writes(log, timeline, heartbeats) or is_locked_by_another(log.fs):
        return []
    failed = failed_writes(log, timeline, heartbeats)
    still = log.load().pending.times
    return [instant for instant in failed if instant.time in still]


def without_process(
    log: TimelineLog, pending: Iterable[Instant], heartbeats: Heartbeats | None = None
) -> frozenset[InstantTime]:
    """Those of the pending services that run under the lock or with a heartbeat, and do neither."""
    times = frozenset(instant.time for instant in pending)
    if not times or is_locked_by_another(log.fs):
        return frozenset()
    idle = times - living(log.fs, heartbeats)
    return idle & log.load().pending.times


def running_instants(
    log: TimelineLog, timeline: Timeline, heartbeats: Heartbeats | None = None
) -> frozenset[InstantTime]:
    """Instants that a process works on: with a heartbeat, or a write or service under the lock.

    Heartbeats of instants that are not in the timeline yet are included.
    """
    alive = living(log.fs, heartbeats)
    failed = failed_writes(log, timeline, heartbeats)
    under_lock = {i.time for i in failed} - {
        i.time for i in crashed_writes(log, timeline, heartbeats)
    }
    services = timeline.where(UNDER_LOCK, State.REQUESTED, State.INFLIGHT)
    busy = services.times - without_process(log, services, heartbeats)
    return alive | under_lock | busy

"""Which log blocks of the metadata table count: those whose commit the data table knows of.

The metadata table commits before the data table does.  So a delta commit there proves nothing;
its blocks count once the data table's instant of the same time has completed.
Source: table_format 9.8 (suffixes), 9.9 (reader rule).
"""

from __future__ import annotations

from typing import Final

from pyhudi.records import BEFORE_ALL_INSTANTS, InstantTime
from pyhudi.table.file_group_view import Visibility
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

COMPACTION_SUFFIX: Final = "001"
CLEAN_SUFFIX: Final = "002"
RESTORE: Final = "003"
INDEXER: Final = "004"
LOG_COMPACTION_SUFFIX: Final = "005"
ROLLBACK: Final = "006"
FIRST_INIT: Final = 10
"""Metadata partitions are created at `<last data instant>010`, `011`, ..."""

_DIGITS: Final = 17  # of a data table's instant
_SERVICES: Final = frozenset(
    {COMPACTION_SUFFIX, CLEAN_SUFFIX, RESTORE, INDEXER, LOG_COMPACTION_SUFFIX, ROLLBACK}
)
_ROLLBACKS: Final = (Action.ROLLBACK, Action.RESTORE)


def suffixed(time: InstantTime, suffix: str) -> InstantTime:
    """The metadata table's own instant right after one of the data table's."""
    return InstantTime(time + suffix)


def is_own(time: InstantTime) -> bool:
    """Whether an instant is the metadata table's own: it has no namesake on the data table."""
    if time.startswith(BEFORE_ALL_INSTANTS):
        return True
    suffix = time[_DIGITS:]
    return len(suffix) == 3 and (suffix in _SERVICES or int(suffix) >= FIRST_INIT)


def is_init(time: InstantTime) -> bool:
    """Whether an instant created a metadata partition of a table that had instants already."""
    suffix = time[_DIGITS:]
    return len(suffix) == 3 and int(suffix) >= FIRST_INIT


def is_creation(time: InstantTime) -> bool:
    """Whether an instant of the metadata table is that of a partition's creation."""
    suffix = time[_DIGITS:]
    return len(suffix) == 3 and suffix.isdecimal() and int(suffix) >= FIRST_INIT


def valid_instants(
    data_log: TimelineLog, data: Timeline, own_log: TimelineLog, own: Timeline
) -> frozenset[str]:
    """Instants whose blocks a reader believes.

    data, own: the timelines of the data table and of its metadata table.  Cost: one small read a
    completed rollback or restore of the data table.
    """
    visibility = Visibility.of(own)
    if own_log.layout != 1:
        return visibility.completed - data.pending.times
    known: set[str] = set(data.where(None, State.COMPLETED).times)
    known |= {i.time for i in own.where({Action.DELTA_COMMIT}, State.COMPLETED) if is_own(i.time)}
    start = min(known, default=BEFORE_ALL_INSTANTS)
    for instant in data.where(_ROLLBACKS, State.COMPLETED).after(InstantTime(start)):
        # one that is complete here was written by a process that had lost the table's lock
        known |= rolled_back(data_log, instant) - visibility.completed
    return frozenset(time for time in known if visibility.sees(InstantTime(time)))


def rolled_back(log: TimelineLog, instant: Instant) -> frozenset[InstantTime]:
    """The instants that a completed rollback or restore took back."""
    assert instant.is_completed
    return log.taken_back(instant)

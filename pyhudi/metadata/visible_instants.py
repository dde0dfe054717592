"""Visible instants of the metadata table: those whose log blocks are committed.

The metadata table commits before the data table.  A completed delta commit is therefore not
sufficient: its blocks are committed once the data table's instant of the same time has completed.
Source: table_format 9.8 (suffixes), 9.9 (reader rule).
"""

from __future__ import annotations

from typing import Final

from pyhudi.layouts.table_layout import MetadataInstants
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


def suffixed(time: InstantTime, suffix: str) -> InstantTime:
    """The metadata table's own instant that directly follows an instant of the data table."""
    return InstantTime(time + suffix)


def request_own(
    log: TimelineLog,
    action: Action,
    content: bytes,
    *,
    follows: InstantTime,
    suffix: str,
    data: Timeline,
) -> Instant:
    """Request an instant of the metadata table's own; log: of the metadata table.

    follows, suffix: the instant that it directly follows, where own instants have suffixes; else
    it is later than everything on both timelines.  data: the data table's timeline.
    """
    if log.layout.metadata_instants is MetadataInstants.SUFFIXED:
        return log.request_at(suffixed(follows, suffix), action, content)
    return log.request(action, content, after=data.newest_time)


def init_instant(log: TimelineLog, last_data: InstantTime | None, number: int) -> InstantTime:
    """The instant that creates the `number`th partition; log: of the metadata table.

    last_data: the last completed instant of the data table.
    """
    if log.layout.metadata_instants is MetadataInstants.SUFFIXED:
        return InstantTime(f"{last_data or BEFORE_ALL_INSTANTS}{FIRST_INIT + number:03d}")
    return InstantTime(f"{BEFORE_ALL_INSTANTS}{number:03d}")


def is_own(time: InstantTime) -> bool:
    """Whether an instant is the metadata table's own: the data table has no such instant."""
    if time.startswith(BEFORE_ALL_INSTANTS):
        return True
    suffix = time[_DIGITS:]
    return len(suffix) == 3 and (suffix in _SERVICES or int(suffix) >= FIRST_INIT)


def is_init(time: InstantTime) -> bool:
    """Whether an instant created a metadata partition of a table that already had instants."""
    suffix = time[_DIGITS:]
    return len(suffix) == 3 and int(suffix) >= FIRST_INIT


def is_creation(time: InstantTime) -> bool:
    """Whether an instant of the metadata table created a partition."""
    if time.startswith(BEFORE_ALL_INSTANTS):
        return True
    suffix = time[_DIGITS:]
    return len(suffix) == 3 and suffix.isdecimal() and int(suffix) >= FIRST_INIT


def valid_instants(
    data: Timeline, own_log: TimelineLog, metadata_timeline: Timeline
) -> frozenset[str]:
    """Instants whose blocks readers treat as committed.

    data, metadata_timeline: the timelines of the data table and of its metadata table.  Blocks of a
    commit that was rolled back do not count, with or without a command block: a request of its
    writer may arrive after the rollback.
    """
    visibility = Visibility.of(metadata_timeline)
    if own_log.layout.metadata_instants is MetadataInstants.FRESH:
        # a pending savepoint has the time of a completed commit
        return visibility.completed - (data.pending.times - data.where(None, State.COMPLETED).times)
    known: set[str] = set(data.where(None, State.COMPLETED).times)
    known |= {
        i.time
        for i in metadata_timeline.where({Action.DELTA_COMMIT}, State.COMPLETED)
        if is_own(i.time)
    }
    return frozenset(time for time in known if visibility.sees(InstantTime(time)))

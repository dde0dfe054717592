"""Publish or discard a kept write.  The caller holds the table's lock."""

from __future__ import annotations

from dataclasses import replace

from pyhudi.errors import UserError, WriteConflictError
from pyhudi.metadata.rollback import rollback_metadata
from pyhudi.read.state import TableState
from pyhudi.read.trust import TrustedListing, trusted_metadata
from pyhudi.records import InstantTime
from pyhudi.services.rollback import roll_back_failed
from pyhudi.services.rollback_plan import RolledBack
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.lock import check_lock
from pyhudi.table.config import TableConfig
from pyhudi.table.listing import StoreListing
from pyhudi.timeline.instant import Instant, State
from pyhudi.timeline.log import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.write.kept import Kept, forget_kept, kept_writes, load_kept
from pyhudi.write.markers import remove_markers


def publish(fs: FileSystem, log: TimelineLog, time: InstantTime) -> Kept:
    """Complete a kept write: from here on every reader sees it.

    Raises UserError if there is none at `time`, WriteConflictError if a writer that does not
    know of kept writes has committed since; the write is then kept still.
    """
    timeline = log.load()
    instant = _find(fs, timeline, time)
    kept = load_kept(fs, instant)
    newest = timeline.commits.last
    if newest is not None and newest.time != kept.after:
        raise WriteConflictError(
            "another writer has committed since this write was planned",
            instant=newest.time,
            kept=time,
            file_groups=_shared(log, newest, instant),
            hint=f"table.discard('{time}') and write again",
        )
    check_lock(fs)
    log.complete(instant, kept.content)
    remove_markers(fs, time)
    return kept


def as_if_published(state: TableState, time: InstantTime) -> TableState:
    """The table as it will be once the kept write is published.  Raises UserError."""
    fs, config = state.fs, state.config
    instant = _find(fs, state.timeline, time)
    completed = replace(instant, state=State.COMPLETED)
    log = TimelineLog(fs, layout=config.layout, zone=state.zone)
    log.assume(completed, load_kept(fs, instant).content)
    timeline = Timeline.of([*state.timeline, completed])
    metadata = state.metadata and trusted_metadata(fs, config, log, timeline)
    listing = StoreListing(fs) if metadata is None else TrustedListing(fs, metadata)
    return replace(state, log=log, timeline=timeline, metadata=metadata, listing=listing)


def _shared(log: TimelineLog, other: Instant, mine: Instant) -> str | None:
    shared = sorted(log.commit(other).groups & log.commit(mine).groups)
    return ", ".join(f"{g.partition}/{g.file_id}" for g in shared) or None


def discard(
    fs: FileSystem, config: TableConfig, log: TimelineLog, time: InstantTime
) -> list[RolledBack]:
    """Roll a kept write back.  Raises UserError if there is none at `time`."""
    forget_kept(fs, _find(fs, log.load(), time))
    return roll_back_failed(fs, config, log, metadata_rollback=rollback_metadata)


def _find(fs: FileSystem, timeline: Timeline, time: InstantTime) -> Instant:
    kept = kept_writes(fs, timeline)
    for instant in kept:
        if instant.time == time:
            return instant
    if any(i.time == time for i in timeline.commits):
        raise UserError("this write is published already", instant=time)
    raise UserError(
        "no kept write at this instant",
        instant=time,
        kept=", ".join(i.time for i in kept) or None,
        hint="another writer may have rolled it back: look at table.timeline",
    )

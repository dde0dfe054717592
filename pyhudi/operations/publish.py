"""Publication and discarding of deferred writes, from the lock to the report."""

from __future__ import annotations

from dataclasses import replace

from pyhudi.engine import Engine
from pyhudi.errors import UserError, WriteConflictError
from pyhudi.options import Heartbeats, WriteOptions
from pyhudi.read.metadata_freshness import TrustedListing, trusted_metadata
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import InstantTime
from pyhudi.recovery.rollback import roll_back_failed
from pyhudi.recovery.rollback_plan import RolledBack
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import TableLock, check_lock
from pyhudi.table.listing import StoreListing
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.instant import Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.service_payloads import read_commit
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import check_table
from pyhudi.transaction.conflicts import Conflict, WriteSet, completed_since, find_conflict
from pyhudi.transaction.deferred_publish import (
    DeferredWrite,
    deferred_writes,
    forget_deferred,
    load_deferred,
)
from pyhudi.transaction.markers import remove_markers
from pyhudi.transaction.publication import publish_instant
from pyhudi.write.write_report import WriteReport


def publish_deferred(fs: FileSystem, time: str, options: WriteOptions) -> WriteReport:
    """Complete a deferred write; returns its report.

    Raises UserError if there is none, WriteConflictError if a conflicting change was made since.
    """
    with TableLock(fs, purpose="publish", wait_seconds=options.lock_seconds, rules=options.lock):
        config = load_config(fs)
        check_table(config)
        deferred, completed = _publish(fs, timeline_log(fs, config), InstantTime(time))
    stated = {"published": True, "completed_at": completed.completed_at}
    return WriteReport.from_dict({**deferred.report, **stated})


def discard_deferred(
    fs: FileSystem, time: str, options: WriteOptions, engine: Engine
) -> WriteReport:
    """Roll back a deferred write.  Raises UserError if there is none."""
    with TableLock(fs, purpose="discard", wait_seconds=options.lock_seconds, rules=options.lock):
        config = load_config(fs)
        check_table(config)
        done = _discard(
            fs,
            config,
            timeline_log(fs, config),
            InstantTime(time),
            engine,
            options.concurrency.heartbeats,
        )
    return WriteReport("discard", rolled_back=tuple(str(d.failed.time) for d in done))


def _publish(fs: FileSystem, log: TimelineLog, time: InstantTime) -> tuple[DeferredWrite, Instant]:
    """Complete a deferred write, which makes it visible to readers.

    Raises UserError if there is none at `time`; WriteConflictError if, since it was planned, any
    commit has completed, a commit was rolled back, or a service was planned for its file groups;
    the write then stays deferred.
    """
    timeline = log.load()
    instant = _find(fs, timeline, time)
    deferred = load_deferred(fs, instant)
    other = _conflict(log, deferred, timeline, instant)
    if other is not None:
        groups = ", ".join(f"{g.partition}/{g.file_id}" for g in other.groups)
        raise WriteConflictError(
            other.what,
            instant=other.instant.time,
            deferred=time,
            file_groups=groups or None,
            hint=f"table.discard('{time}') and write again",
        )
    check_lock(fs)
    completed = publish_instant(fs, log, instant, deferred.content, known=timeline)
    with tolerating("markers", time):
        remove_markers(fs, time)
    return deferred, completed


def _conflict(
    log: TimelineLog, deferred: DeferredWrite, now: Timeline, mine: Instant
) -> Conflict | None:
    """The first conflict.  Only the file groups of the plan are stored, so any commit may have
    changed a key that the write looked up."""
    touched = WriteSet(read_commit(deferred.content, path=log.path(mine)).groups)
    found = find_conflict(log, before=deferred.known, now=now, mine=mine, touched=touched)
    if found is not None and not found.instant.is_completed:
        return found
    for other in reversed(completed_since(deferred.known, now)):
        what = "another writer has committed since this write was planned"
        groups = sorted(log.commit(other).groups & touched.groups)
        return Conflict(other, what, tuple(groups))
    return found


def as_if_published(state: TableState, time: InstantTime) -> TableState:
    """The table as it will be after the deferred write is published.  Raises UserError."""
    instant = _find(state.fs, state.timeline, time)
    return with_completed(state, instant, load_deferred(state.fs, instant).content)


def with_completed(state: TableState, instant: Instant, content: bytes) -> TableState:
    """The table as it will be after a pending write is completed with this content."""
    fs, config = state.fs, state.config
    completed = replace(instant, state=State.COMPLETED)
    log = TimelineLog(fs, layout=config.layout, zone=state.zone)
    log.assume(completed, content)
    timeline = Timeline.of([*state.timeline, completed])
    metadata = state.metadata and trusted_metadata(fs, config, log, timeline)
    store = StoreListing(fs)
    listing = store if metadata is None else TrustedListing(fs, metadata, store)
    return replace(state, log=log, timeline=timeline, metadata=metadata, listing=listing)


def _discard(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    time: InstantTime,
    engine: Engine,
    heartbeats: Heartbeats | None = None,
) -> tuple[RolledBack, ...]:
    """Roll back a deferred write.  Raises UserError if there is none at `time`."""
    forget_deferred(fs, _find(fs, log.load(), time))
    undone = roll_back_failed(fs, config, log, engine=engine, heartbeats=heartbeats)
    return undone.rolled_back


def _find(fs: FileSystem, timeline: Timeline, time: InstantTime) -> Instant:
    deferred = deferred_writes(fs, timeline)
    for instant in deferred:
        if instant.time == time:
            return instant
    if any(i.time == time for i in timeline.commits):
        raise UserError(
            "this write is already published", instant=time, hint="table.unpublished() lists others"
        )
    raise UserError(
        "no deferred write at this instant",
        instant=time,
        deferred=", ".join(i.time for i in deferred) or None,
        hint="another writer may have rolled it back: check table.timeline",
    )

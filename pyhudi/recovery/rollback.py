"""Rollback of failed writes and services, and the steps of every rollback.

```
plan -> R.rollback.requested -> R.rollback.inflight -> X unpublished (if it was completed)
     -> X's files deleted, command blocks appended -> metadata table -> X's markers removed, X
     listed as rolled back -> X's inflight, requested removed -> R.rollback -> X's heartbeat removed
```

Every step can be repeated, so the next writer finishes an interrupted rollback under its R.
X's instant files are removed only after its data files have been handled.  R is generated before
the next commit's instant: a command block later than the following commit would hide that commit
from Apache Hudi 0.15.

The caller holds the table's lock, so a pending write has no live writer unless it has a live
heartbeat.  Planned services (compaction, clustering) are not failures.
Source: table_format 5.4, 6.2, 7.7.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Final

from pyhudi.engine import Engine
from pyhudi.errors import CorruptFileError
from pyhudi.filenames import TEMP, LogFileName, join, parse_data_file
from pyhudi.formats.log_block import rollback_block
from pyhudi.index.consistent_hashing import remove_rings
from pyhudi.metadata.rollback import rollback_metadata
from pyhudi.options import Heartbeats
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.recovery.rollback_plan import (
    RolledBack,
    build_rollback_plan,
    files_of_completed,
    files_of_pending,
    to_metadata,
)
from pyhudi.recovery.rolled_back_files import leave_markers_of_unseen, note_rollbacks, sweep_markers
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.instant import COMPLETES_AS, WRITES, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.compaction import CompactionPlan
from pyhudi.timeline.plans.rollback import Removal, RollbackPlan
from pyhudi.timeline.service_payloads import ROLLBACK_METADATA, write_avro
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.deferred_publish import is_deferred
from pyhudi.transaction.finish import without_lock
from pyhudi.transaction.heartbeat import living, remove_heartbeat
from pyhudi.transaction.publication import publish_instant

_SERVICES: Final = frozenset({Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING})
_COMMAND_TOKEN: Final = "1-0-1"  # as Apache Hudi writes without a task


@dataclass(frozen=True, slots=True)
class Undone:
    """What a recovery undid.  swept: paths of deleted files of writers rolled back earlier."""

    rolled_back: tuple[RolledBack, ...]
    swept: tuple[str, ...]


def roll_back_failed(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    *,
    engine: Engine,
    heartbeats: Heartbeats | None = None,
    by_markers: bool = True,
    now: Timeline | None = None,
) -> Undone:
    """Roll back every failed write, newest first, after finishing interrupted rollbacks; delete
    files that rolled-back writers have created since.

    by_markers: False: search the whole table for the files of a write even if it has markers.

    Call it under the table's lock before a new instant is generated.  Reload the timeline
    afterwards if it had a pending rollback or the result is not empty.  now: the timeline, listed
    under that lock.  Cost if nothing failed: a listing, and one of the timeline if it is not
    given.
    """
    marked = [InstantTime(i.name) for i in fs.children(TEMP) if i.is_folder]
    timeline = now or log.load()
    note_rollbacks(fs, config, log, timeline)
    for late in log.late:
        check_lock(fs)
        log.unpublish(late)
    done = [
        execute(fs, config, log, at, planned=resumed, engine=engine)
        for at, resumed in _interrupted(log, timeline)
    ]
    for failed in reversed(failed_writes(log, log.load() if done else timeline, heartbeats)):
        _check_not_built_on(log, timeline, failed)
        planned = build_rollback_plan(
            failed, files_of_pending(fs, log, failed, by_markers=by_markers)
        )
        planned = replace(planned, keeps_request=False)
        at = request_rollback(fs, log, planned)
        done.append(execute(fs, config, log, at, planned=planned, engine=engine))
    return Undone(tuple(done), tuple(sweep_markers(fs, config, log, marked, timeline)))


def plan_completed(
    fs: FileSystem, config: TableConfig, log: TimelineLog, done: Instant
) -> RollbackPlan:
    """The plan for undoing a completed commit, without checks for later dependent commits."""
    files = files_of_completed(fs, log.commit(done), done, has_logs=config.is_merge_on_read)
    return build_rollback_plan(done, files)


def roll_back_service(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    pending: Instant,
    *,
    engine: Engine,
    keeps_request: bool = True,
) -> RolledBack:
    """Return a failed planned service to the requested state, so that it can run again.

    keeps_request: False: remove the plan too.  For a compaction only base files at its instant are
    deleted; logs that later writes added to its slices stay.
    """
    assert not pending.is_completed
    found = files_of_pending(fs, log, pending)
    planned = replace(build_rollback_plan(pending, found), keeps_request=keeps_request)
    at = request_rollback(fs, log, planned)
    return execute(fs, config, log, at, planned=planned, engine=engine)


def _check_not_built_on(log: TimelineLog, timeline: Timeline, failed: Instant) -> None:
    """Raise CorruptFileError for a write that later commits build on: it was completed, but its
    completed file was lost.  Its data files must stay."""
    for later in timeline.commits.after(failed.time):
        if any(stat.previous_instant == failed.time for stat in log.commit(later).stats):
            raise CorruptFileError(
                "a commit that later ones build on is not completed",
                path=log.path(replace(failed, state=State.COMPLETED)),
                instant=failed.time,
                built_on_by=later.time,
                hint="run pyhudi repair to complete it again from its files",
            )


def failed_writes(
    log: TimelineLog, timeline: Timeline, heartbeats: Heartbeats | None = None
) -> list[Instant]:
    """Failed writes: pending commits, delta commits and replace commits that belong to no planned
    service, are not deferred, and have no live heartbeat or lost the table's lock at their commit
    point; and log compactions that cannot be resumed."""
    actions = WRITES - _SERVICES | {Action.LOG_COMPACTION}
    pending = timeline.where(actions, State.REQUESTED, State.INFLIGHT)
    if not pending.instants:
        return []
    alive = living(log.fs, heartbeats) & pending.times
    if alive:
        alive -= without_lock(log, pending)
    return [
        instant
        for instant in pending
        if instant.action is not Action.LOG_COMPACTION or _runs_at_once(log, instant)
        if instant.time not in alive
        and not log.is_clustering(instant)
        and not is_deferred(log.fs, instant)
    ]


def _runs_at_once(log: TimelineLog, instant: Instant) -> bool:
    """Whether the instant is a log compaction that cannot be resumed after a failure."""
    return (
        instant.action is Action.LOG_COMPACTION
        and log.plan(instant, CompactionPlan.from_record).runs_at_once
    )


def request_rollback(fs: FileSystem, log: TimelineLog, planned: RollbackPlan) -> Instant:
    """Raises LockError if the process has lost the table's lock: the presumed failed write may
    belong to the lock's next holder."""
    check_lock(fs)
    return log.request(Action.ROLLBACK, planned.to_avro(root=fs.url))


def _interrupted(log: TimelineLog, timeline: Timeline) -> Iterator[tuple[Instant, RollbackPlan]]:
    """Pending rollbacks that can continue, oldest first; removes those that never began.

    A rollback of a commit that is still completed has changed nothing yet.  It continues only if
    that commit is the newest, because later commits build on it.  One that is only requested, of
    an instant that has left the timeline, is a request that arrived late.
    """
    for at in timeline.where({Action.ROLLBACK}, State.REQUESTED, State.INFLIGHT):
        planned = _planned(log, at)
        if planned is None or not _can_continue(timeline, at, planned):
            log.forget(at)
        else:
            yield at, planned


def _can_continue(timeline: Timeline, at: Instant, planned: RollbackPlan) -> bool:
    newest = timeline.commits.last
    if any(i.time == planned.time for i in timeline.commits):
        return newest is not None and newest.time == planned.time
    return at.state is State.INFLIGHT or any(i.time == planned.time for i in timeline)


def _planned(log: TimelineLog, at: Instant) -> RollbackPlan | None:
    """The plan of a pending rollback; None if its requested file is incomplete."""
    path = log.path(replace(at, state=State.REQUESTED))
    try:
        record = log.requested(at)
    except CorruptFileError:
        if at.state is State.REQUESTED:  # writers without atomic creation leave partial files
            return None
        raise
    planned = RollbackPlan.from_record(record, path=path)
    if planned is None:
        return None
    failed = Instant(planned.time, planned.action, State.INFLIGHT)
    is_service = failed.action in _SERVICES or log.is_clustering(failed)
    runs_again = is_service and not _runs_at_once(log, failed)
    return replace(planned, keeps_request=runs_again)


def execute(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    at: Instant,
    *,
    planned: RollbackPlan,
    engine: Engine,
) -> RolledBack:
    """Run a plan, or continue it after an interruption.  `at` is the pending rollback.

    Raises LockError if the lock is lost; the next holder of the lock finishes the rollback.
    """
    began = time.monotonic()
    check_lock(fs)
    if at.state is State.REQUESTED:
        at = log.start(at)
    done = undo_instant(fs, log, planned, at.time)
    if "files" in config.metadata_partitions:
        rollback_metadata(
            fs,
            config,
            log,
            log.load(),
            failed=done.failed,
            at=at.time,
            engine=engine,
            log_files=done.log_files(),
            deleted=done.deleted,
        )
    check_lock(fs)
    leave_markers_of_unseen(fs, done)  # now, as markers must not outlive an instant that is removed
    log.remember_rolled_back([at.time] if planned.keeps_request else [at.time, planned.time])
    remove_instant(log, planned)
    unpublish(log, planned)
    took_millis = round((time.monotonic() - began) * 1000)
    result = to_metadata(done, root=fs.url, took_millis=took_millis)
    content = write_avro(ROLLBACK_METADATA, result)
    publish_instant(fs, log, at, content, known=Timeline())
    with tolerating("markers", planned.time):
        remove_heartbeat(fs, planned.time)
    return done


def unpublish(log: TimelineLog, planned: RollbackPlan) -> None:
    """Make the write invisible to readers."""
    log.unpublish(Instant(planned.time, COMPLETES_AS[planned.action], State.COMPLETED))


def undo_instant(
    fs: FileSystem, log: TimelineLog, planned: RollbackPlan, at: InstantTime
) -> RolledBack:
    """Unpublish the write, then delete its files or append command blocks, with instant `at`."""
    failed = Instant(planned.time, planned.action, State.INFLIGHT)
    unpublish(log, planned)
    log.reopen(failed)  # a commit published late is recognized by its missing files
    if not planned.keeps_request and log.is_clustering(failed):
        fs.delete([log.path(replace(failed, state=State.REQUESTED))])  # prevents resuming it
    deleted = tuple(path for removal in planned.removals for path in removal.files)
    fs.delete(deleted)
    if COMPLETES_AS[planned.action] is Action.REPLACE_COMMIT:
        remove_rings(fs, planned.time)
    commands, logs = _append_commands(fs, planned, at)
    return RolledBack(failed, at, deleted, commands, logs)


def remove_instant(log: TimelineLog, planned: RollbackPlan) -> None:
    """Remove the instant from the timeline: its inflight file, and its request unless that is a
    plan that will run again."""
    ends = COMPLETES_AS[planned.action]
    for left in log.load().pending:
        if left.time == planned.time and COMPLETES_AS[left.action] is ends:
            (log.reopen if planned.keeps_request else log.forget)(left)


def _append_commands(
    fs: FileSystem, planned: RollbackPlan, at: InstantTime
) -> tuple[dict[str, int], dict[str, int]]:
    """Append one command block per slice with failed logs, unless it already exists.

    Returns the sizes of the command files and of the failed logs, by path.
    """
    block = rollback_block(at, planned.time)
    removals = [removal for removal in planned.removals if removal.logs]
    logs_of = _logs_by_slice(fs, {removal.group.partition for removal in removals})
    commands: dict[str, int] = {}
    failed: dict[str, int] = {}
    for removal in removals:
        logs = logs_of.get((removal.group, removal.base_instant), [])
        failed |= {info.path: info.size_bytes for info, _ in logs if info.name in removal.logs}
        there = (
            info.path
            for info, _ in logs
            if info.size_bytes == len(block) and fs.read(info.path) == block
        )
        version = max((name.version for _, name in logs), default=0)
        path = next(there, None) or _create_next_log(fs, removal, version, block)
        commands[path] = len(block)
    return commands, failed


def _logs_by_slice(
    fs: FileSystem, partitions: Iterable[str]
) -> dict[tuple[FileGroupId, InstantTime], list[tuple[FileInfo, LogFileName]]]:
    found: dict[tuple[FileGroupId, InstantTime], list[tuple[FileInfo, LogFileName]]] = {}
    for partition in sorted(partitions):
        for info in fs.children(partition):
            name = parse_data_file(info.name)
            if isinstance(name, LogFileName):
                slice_ = (FileGroupId(partition, name.file_id), name.instant)
                found.setdefault(slice_, []).append((info, name))
    return found


def _create_next_log(fs: FileSystem, removal: Removal, version: int, block: bytes) -> str:
    while True:
        version += 1
        name = LogFileName(removal.group.file_id, removal.base_instant, version, _COMMAND_TOKEN)
        path = join(removal.group.partition, str(name))
        if fs.create(path, block):
            return path

"""Rollback: take back a write that failed, or the newest commit, so that no trace of it is read.

```
plan -> R.rollback.requested -> R.rollback.inflight -> X unpublished (if it was completed)
     -> X's files deleted, command blocks appended -> metadata table -> X's markers gone, X listed
     as rolled back -> X's inflight, requested gone -> R.rollback -> X's heartbeat gone
```

Every step may be done again, so a rollback cut short anywhere is finished by the next writer
under its own R.  X's instant files go only after its data files are dealt with.  R is drawn
before the next commit's instant: a command block later than the commit behind it would hide that
commit from Apache Hudi 0.15.

The caller holds the table's lock: a pending write met under it has no living writer, unless its
heartbeat says so.  Planned services (compaction, clustering) are not failures.
Source: table_format 5.4, 6.2, 7.7.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final, Protocol

from pyhudi.errors import CorruptFileError
from pyhudi.filenames import (
    METADATA_TABLE,
    TEMP,
    LogFileName,
    join,
    parse_data_file,
)
from pyhudi.formats.log_block import rollback_block
from pyhudi.index.consistent_hashing import remove_rings
from pyhudi.options import Heartbeats
from pyhudi.records import FileGroupId, InstantTime
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
from pyhudi.transaction.deferred_publish import is_kept
from pyhudi.transaction.heartbeat import living, remove_heartbeat
from pyhudi.transaction.markers import remove_markers
from pyhudi.transaction.publication import publish_instant
from pyhudi.transaction.rollback_checks import (
    check_metadata_table,
    check_not_built_on,
    check_predecessors,
    undoable,
)
from pyhudi.transaction.rollback_files import (
    files_of_compaction,
    files_of_completed,
    files_of_pending,
)
from pyhudi.transaction.rollback_plan import RolledBack, build_rollback_plan, to_metadata
from pyhudi.transaction.rolled_back_files import (
    leave_markers_of_unseen,
    note_rollbacks,
    sweep_markers,
)

_SERVICES: Final = frozenset({Action.COMPACTION, Action.LOG_COMPACTION, Action.CLUSTERING})
_COMMAND_TOKEN: Final = "1-0-1"  # what Apache Hudi writes where it knows no task


class MetadataRollback(Protocol):
    """Tell the metadata table: `pyhudi.metadata.rollback_metadata`.  Must bear being repeated."""

    def __call__(
        self,
        fs: FileSystem,
        config: TableConfig,
        log: TimelineLog,
        timeline: Timeline,
        *,
        failed: Instant,
        at: InstantTime,
        log_files: Mapping[str, Mapping[str, int]],
    ) -> None: ...


def roll_back_failed(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    *,
    metadata_rollback: MetadataRollback,
    heartbeats: Heartbeats | None = None,
    by_markers: bool = True,
    now: Timeline | None = None,
) -> list[RolledBack]:
    """Roll back every failed write, newest first, after finishing rollbacks that were cut short.

    by_markers: False: its files are looked for in the whole table, though it has markers.

    To be called under the table's lock before a new instant is drawn; the timeline must be loaded
    anew after it if it had a pending rollback or the result is not empty.  now: the timeline,
    listed under that lock.  Cost where nothing failed: a listing, and one of the timeline if it
    is not given.
    """
    marked = [InstantTime(i.name) for i in fs.children(TEMP) if i.is_folder]
    timeline = now or log.load()
    note_rollbacks(fs, config, log, timeline)
    for late in log.late:
        check_lock(fs)
        log.unpublish(late)
    done = [
        execute(fs, config, log, at, planned=resumed, metadata_rollback=metadata_rollback)
        for at, resumed in _cut_short(log, timeline)
    ]
    for failed in reversed(failed_writes(log, log.load() if done else timeline, heartbeats)):
        check_not_built_on(log, timeline, failed)
        planned = build_rollback_plan(
            failed, files_of_pending(fs, log, failed, by_markers=by_markers)
        )
        planned = replace(planned, keeps_request=False)
        at = _request(fs, log, planned)
        done.append(
            execute(fs, config, log, at, planned=planned, metadata_rollback=metadata_rollback)
        )
    sweep_markers(fs, config, log, marked, timeline)
    return done


def roll_back_newest(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    instant: InstantTime,
    *,
    metadata_rollback: MetadataRollback,
    heartbeats: Heartbeats | None = None,
) -> RolledBack:
    """Undo the newest completed commit, for good.  The caller holds the table's lock.

    Raises UserError, before anything is changed, for what `plan_rollback` refuses.
    """
    roll_back_failed(fs, config, log, metadata_rollback=metadata_rollback, heartbeats=heartbeats)
    planned = plan_rollback(fs, config, log, instant)
    at = _request(fs, log, planned)
    return execute(fs, config, log, at, planned=planned, metadata_rollback=metadata_rollback)


def plan_rollback(
    fs: FileSystem, config: TableConfig, log: TimelineLog, instant: InstantTime
) -> RollbackPlan:
    """What undoing the newest completed commit takes; nothing changes.

    Raises UserError for any other instant, a savepointed one, one that a pending service or the
    metadata table's compaction builds on, and one whose predecessors' files are cleaned.
    """
    target = undoable(log.load(), instant)
    check_metadata_table(fs, config, target)
    written = log.commit(target)
    check_predecessors(fs, written, target)
    return plan_completed(fs, config, log, target)


def plan_completed(
    fs: FileSystem, config: TableConfig, log: TimelineLog, done: Instant
) -> RollbackPlan:
    """How a completed commit is taken back, whatever stands on it."""
    files = files_of_completed(fs, log.commit(done), done, has_logs=config.is_merge_on_read)
    return build_rollback_plan(done, files)


def roll_back_service(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    pending: Instant,
    *,
    metadata_rollback: MetadataRollback,
    keeps_request: bool = True,
) -> RolledBack:
    """Take a planned service that failed back to requested, so that it can be run again.

    keeps_request: False: the plan goes too.  Of a compaction only base files at its instant go;
    the logs that later writes put on its slices stay.
    """
    assert not pending.is_completed
    compacts = pending.action is Action.COMPACTION
    found = files_of_compaction(fs, log, pending) if compacts else files_of_pending(
        fs, log, pending
    )  # fmt: skip
    planned = replace(build_rollback_plan(pending, found), keeps_request=keeps_request)
    at = _request(fs, log, planned)
    return execute(fs, config, log, at, planned=planned, metadata_rollback=metadata_rollback)


def failed_writes(
    log: TimelineLog, timeline: Timeline, heartbeats: Heartbeats | None = None
) -> list[Instant]:
    """Pending commits, delta commits and replace commits that are no planned service's, not kept
    to be published and not alive, or that lost the table's lock at their commit point; and log
    compactions that run at once or never."""
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
        and not is_kept(log.fs, instant)
    ]


def without_lock(log: TimelineLog, pending: Timeline) -> frozenset[InstantTime]:
    """Pending instants whose writers lost the table's lock at their commit point.

    Their delta commit of the metadata table is complete, which is written under the lock, right
    before the data commit.  Whoever finds one under the lock knows that its writer has lost it:
    the writer may live, but what it publishes now was not checked against the commits of others.
    Cost: one listing where anything is pending.
    """
    if not pending.instants:
        return frozenset()
    own = TimelineLog(log.fs.sub(METADATA_TABLE)).load()
    return own.where({Action.DELTA_COMMIT}, State.COMPLETED).times & pending.times


def _runs_at_once(log: TimelineLog, instant: Instant) -> bool:
    """Whether it is a log compaction that is not run again after a failure."""
    return (
        instant.action is Action.LOG_COMPACTION
        and log.plan(instant, CompactionPlan.from_record).runs_at_once
    )


def _request(fs: FileSystem, log: TimelineLog, planned: RollbackPlan) -> Instant:
    """Raises LockError for a process that has lost the table's lock: what it takes for a failed
    write may be that of the lock's next holder."""
    check_lock(fs)
    return log.request(Action.ROLLBACK, planned.to_avro(root=fs.url))


def _cut_short(log: TimelineLog, timeline: Timeline) -> Iterator[tuple[Instant, RollbackPlan]]:
    """Pending rollbacks that can go on, oldest first; those that never began are forgotten.

    A rollback of a commit that still stands has changed nothing yet.  It goes on only if that
    commit is the newest: what came later builds on it.
    """
    newest = timeline.commits.last
    for at in timeline.where({Action.ROLLBACK}, State.REQUESTED, State.INFLIGHT):
        planned = _planned(log, at)
        stands = planned is not None and any(i.time == planned.time for i in timeline.commits)
        if planned is None or (stands and newest is not None and newest.time != planned.time):
            log.forget(at)
        else:
            yield at, planned


def _planned(log: TimelineLog, at: Instant) -> RollbackPlan | None:
    """The plan of a pending rollback; None if its requested file was cut short."""
    path = log.path(replace(at, state=State.REQUESTED))
    try:
        record = log.requested(at)
    except CorruptFileError:
        if at.state is State.REQUESTED:  # writers without atomic creation leave half a file
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
    metadata_rollback: MetadataRollback,
) -> RolledBack:
    """Carry out a plan, from wherever it was left.  `at` is the pending rollback.

    Raises LockError where the lock is lost; the rollback is finished by who holds it next.
    """
    began = time.monotonic()
    check_lock(fs)
    if at.state is State.REQUESTED:
        at = log.start(at)
    done = undo_instant(fs, log, planned, at.time)
    if "files" in config.metadata_partitions:
        metadata_rollback(
            fs, config, log, log.load(), failed=done.failed, at=at.time, log_files=done.log_files()
        )
    check_lock(fs)
    if planned.keeps_request:
        log.remember_rolled_back([at.time])
    else:  # before the instant goes: no marker of a file that stays may outlive it
        leave_markers_of_unseen(fs, done)
        log.remember_rolled_back([at.time, planned.time])
    remove_instant(log, planned)
    unpublish(log, planned)
    took_millis = round((time.monotonic() - began) * 1000)
    result = to_metadata(done, root=fs.url, took_millis=took_millis)
    content = write_avro(ROLLBACK_METADATA, result)
    publish_instant(fs, log, at, content, known=Timeline())
    with tolerating("markers", planned.time):
        if planned.keeps_request:
            remove_markers(fs, planned.time)
        remove_heartbeat(fs, planned.time)
    return done


def unpublish(log: TimelineLog, planned: RollbackPlan) -> None:
    """From here on no reader believes the write."""
    log.unpublish(Instant(planned.time, COMPLETES_AS[planned.action], State.COMPLETED))


def undo_instant(
    fs: FileSystem, log: TimelineLog, planned: RollbackPlan, at: InstantTime
) -> RolledBack:
    """Unpublish the write, then delete or answer its files.  at: of the command blocks."""
    failed = Instant(planned.time, planned.action, State.INFLIGHT)
    unpublish(log, planned)
    log.reopen(failed)  # from here on a commit that is published late is told by what it lacks
    if not planned.keeps_request and log.is_clustering(failed):
        fs.delete([log.path(replace(failed, state=State.REQUESTED))])  # so that nobody resumes it
    deleted = tuple(path for removal in planned.removals for path in removal.files)
    fs.delete(deleted)
    if COMPLETES_AS[planned.action] is Action.REPLACE_COMMIT:
        remove_rings(fs, planned.time)
    commands, logs = _append_commands(fs, planned, at)
    return RolledBack(failed, at, deleted, commands, logs)


def remove_instant(log: TimelineLog, planned: RollbackPlan) -> None:
    """Remove what is left of the instant on the timeline: its inflight file, and its request
    unless that is a plan to be carried out again."""
    ends = COMPLETES_AS[planned.action]
    for left in log.load().pending:
        if left.time == planned.time and COMPLETES_AS[left.action] is ends:
            (log.reopen if planned.keeps_request else log.forget)(left)


def _append_commands(
    fs: FileSystem, planned: RollbackPlan, at: InstantTime
) -> tuple[dict[str, int], dict[str, int]]:
    """Answer each slice's failed logs by one command block, unless it is there already.

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

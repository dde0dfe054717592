"""Restore of the table to a commit S; everything written after S is removed.

```
R.restore.requested   the instants after S, newest first
R.restore.inflight    how each is undone; from now on pyhudi's readers see the table at S
                      -> all of them unpublished -> their files deleted, command blocks appended
                      -> their instants removed -> metadata table -> rollbacks after S removed
R.restore             the result
```

Every step can be repeated: the next writer or service finishes an interrupted restore before it
does anything else.  Cleans after S are not undone and stay on the timeline.  The caller holds the
table's lock.  Source: table_format 7.8.
"""

from __future__ import annotations

import time
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.filenames import METADATA_TABLE, PARTITION_METAFILE, join, parse_data_file
from pyhudi.index.maintenance.partitioned_build import build_by_partition
from pyhudi.index.maintenance.rebuild import build_now, silent
from pyhudi.index.secondary.build import recreate_indexes
from pyhudi.metadata.bootstrap import create_metadata, drop_metadata
from pyhudi.metadata.file_stats.build import create_facts
from pyhudi.metadata.payloads import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
)
from pyhudi.metadata.record_index.by_partition import defined_by_partition
from pyhudi.metadata.restore import agree_with_store, can_be_undone, undo_metadata
from pyhudi.options import ReadOptions, WriteOptions
from pyhudi.read.positions import moment_at
from pyhudi.read.snapshot_availability import check_not_expired
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.records import InstantTime
from pyhudi.recovery.rollback import plan_completed, remove_instant, undo_instant, unpublish
from pyhudi.recovery.rollback_plan import (
    RolledBack,
    build_rollback_plan,
    files_of_pending,
    to_metadata,
)
from pyhudi.reports import Report
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import check_lock
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.instant import COMPLETES_AS, WRITES, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.restore import RestorePlan
from pyhudi.timeline.plans.rollback import InstantInfo, RollbackPlan
from pyhudi.timeline.service_payloads import write_avro
from pyhudi.timeline.timeline import Timeline
from pyhudi.timeline.undo_payloads import RESTORE_METADATA, RestoreWork, read_work, write_work
from pyhudi.transaction.heartbeat import remove_heartbeat
from pyhudi.transaction.markers import remove_markers
from pyhudi.transaction.publication import publish_instant


@dataclass(frozen=True, slots=True)
class RestoreReport(Report):
    """What a restore undid, or (instant None) would undo.

    restored_to: the commit whose snapshot was restored.  instant: of the restore.
    undone: instants undone, newest first.  deleted: files, from the table's root.
    command_blocks: rollback blocks appended to remaining logs.
    """

    restored_to: str
    instant: str | None = None
    undone: tuple[str, ...] = ()
    deleted: tuple[str, ...] = ()
    command_blocks: int = 0
    dry_run: bool = False
    notes: tuple[str, ...] = ()


def propose_restore(state: TableState, to: InstantTime) -> list[RollbackPlan]:
    """How each instant after `to` would be undone, newest first; changes nothing.

    Raises UserError if `to` is no completed commit, or if a later commit is savepointed or
    archived; SnapshotExpiredError if the snapshot's files are cleaned.
    """
    timeline = state.timeline
    target = next((i for i in timeline.commits if i.time == to), None)
    if target is None:
        raise UserError(
            "the table can only be restored to a completed commit of the active timeline",
            instant=to,
            oldest=timeline.commits.first and timeline.commits.first.time,
            hint="table.timeline.commits lists them",
        )
    for saved in timeline.where({Action.SAVEPOINT}, State.COMPLETED).after(to):
        raise UserError(
            "a later commit is savepointed",
            instant=to,
            savepoint=saved.time,
            hint="delete the savepoint first, or restore to it",
        )
    _check_none_archived(state, target)
    moment, limit = moment_at(state, to)
    check_not_expired(state, moment, moment.view(limit=limit), limit)
    return list(_plans(state.fs, state.config, state.log, _after(timeline, to)))


def _after(timeline: Timeline, to: InstantTime) -> list[Instant]:
    """Writes that completed after the commit `to`, and pending writes and services that began
    after it, newest first."""
    since = next((i.completed_at for i in timeline.commits if i.time == to), None)
    if since is None:
        return list(reversed(timeline.after(to).where(WRITES).instants))
    pending = reversed(timeline.pending.after(to).where(WRITES).instants)
    done = [i for i in timeline.commits if i.completed_at is not None and i.completed_at > since]
    return [*pending, *sorted(done, key=lambda i: i.completion, reverse=True)]


def _check_none_archived(state: TableState, target: Instant) -> None:
    """Raise UserError for archived commits after the target: a savepoint can outlive the archival
    of later commits, and a commit can complete after others that began later.

    Cost: layout 1 reads the archive only if the target is older than the active timeline.
    """
    start = state.view(partitions=[]).visibility.start
    if not state.log.layout.has_completion_times and (start is None or target.time >= start):
        return
    active = state.timeline.times
    for archived in state.archive.commit_instants:
        if archived.position > target.position and archived.time not in active:
            raise UserError(
                "commits after this one have been archived and cannot be undone",
                instant=target.time,
                archived=archived.time,
            )


def _plans(
    fs: FileSystem, config: TableConfig, log: TimelineLog, undone: list[Instant]
) -> Iterator[RollbackPlan]:
    """One plan per instant.  Logs of a slice that is removed completely need no command block."""
    times = {instant.time for instant in undone}
    for instant in undone:
        if instant.is_completed:
            planned = plan_completed(fs, config, log, instant)
        else:
            ends = replace(instant, action=COMPLETES_AS[instant.action])
            planned = build_rollback_plan(ends, files_of_pending(fs, log, instant))
        stays = (r for r in planned.removals if r.files or r.base_instant not in times)
        yield replace(planned, removals=tuple(stays))


def write_restore_plan(state: TableState, to: InstantTime) -> Instant | None:
    """Write the restore plan to the timeline; None if nothing was written after `to`."""
    undone = propose_restore(state, to)
    if not undone:
        return None
    infos = tuple(InstantInfo(each.time, each.action) for each in undone)
    return state.log.request(Action.RESTORE, RestorePlan(infos, to).to_avro())


def pending_restores(log: TimelineLog, timeline: Timeline) -> list[Instant]:
    """Restores to finish.  Removes requests that arrived late: no commit begins after a restore
    that is pending, so those after it were planned without it.  The caller holds the lock."""
    newest = timeline.commits.last
    found = []
    for at in timeline.where({Action.RESTORE}, State.REQUESTED, State.INFLIGHT):
        if at.state is State.REQUESTED and newest is not None and newest.time > at.time:
            log.forget(at)
        else:
            found.append(at)
    return found


def execute_restore(
    fs: FileSystem, config: TableConfig, log: TimelineLog, at: Instant, engine: Engine
) -> RestoreReport:
    """Run a restore, or continue an interrupted one."""
    began = time.monotonic()
    plan = log.plan(at, RestorePlan.from_record)
    to = plan.to or InstantTime("")
    at, work = _begun(fs, config, log, at, [each.time for each in plan.undone])
    plans = work.plans
    check_lock(fs)
    for planned in plans:
        unpublish(log, planned)
    done = [undo_instant(fs, log, planned, at.time) for planned in plans]
    _end_partitions(fs, plans)
    log.remember_rolled_back(planned.time for planned in plans)
    for planned in plans:
        remove_instant(log, planned)
        remove_markers(fs, planned.time)
        remove_heartbeat(fs, planned.time)
    undone = {planned.time for planned in plans}
    # of which an interrupted run of this restore has left the requests
    _forget_rollbacks(log, to, State.REQUESTED, State.INFLIGHT)
    _restore_metadata(
        fs, config, log, engine, to=to, at=at.time, undone=undone, group_counts=work.metadata
    )
    _forget_rollbacks(log, to)
    took_millis = round((time.monotonic() - began) * 1000)
    result = _result(done, at.time, fs.url, took_millis)
    check_lock(fs)
    publish_instant(fs, log, at, write_avro(RESTORE_METADATA, result), known=Timeline())
    return RestoreReport(
        restored_to=to,
        instant=at.time,
        undone=tuple(each.failed.time for each in done),
        deleted=tuple(path for each in done for path in each.deleted),
        command_blocks=sum(len(each.command_blocks) for each in done),
    )


def _begun(
    fs: FileSystem, config: TableConfig, log: TimelineLog, at: Instant, undone: list[InstantTime]
) -> tuple[Instant, RestoreWork]:
    """The inflight restore and its work: stored now, or as stored before an interruption."""
    if at.state is State.INFLIGHT:
        work = read_work(log.read(at), path=log.path(at))
        if work is not None:
            return at, work
    there = {i.time: i for i in log.load().where(WRITES)}
    instants = [there[time] for time in undone if time in there]
    work = RestoreWork(tuple(_plans(fs, config, log, instants)), _group_counts(fs, config))
    if at.state is State.REQUESTED:
        at = log.start(at, write_work(work, root=fs.url))
    return at, work


def _group_counts(fs: FileSystem, config: TableConfig) -> dict[str, int]:
    """Number of file groups by metadata partition."""
    counts = {}
    for partition in sorted(config.metadata_partitions):
        names = (parse_data_file(i.name) for i in fs.children(f"{METADATA_TABLE}/{partition}"))
        counts[partition] = len({name.file_id for name in names if name is not None})
    return counts


def _end_partitions(fs: FileSystem, plans: Iterable[RollbackPlan]) -> None:
    """Delete the metafile of partitions without data files, which ends them."""
    touched = {r.group.partition for planned in plans for r in planned.removals if r.files}
    for partition in sorted(touched - {""}):
        if not any(parse_data_file(info.name) for info in fs.children(partition)):
            fs.delete([join(partition, PARTITION_METAFILE)])


def _restore_metadata(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    engine: Engine,
    *,
    to: InstantTime,
    at: InstantTime,
    undone: Collection[InstantTime],
    group_counts: Mapping[str, int],
) -> None:
    """Make every metadata partition match the table at `to`.  Can be repeated.

    group_counts: partitions that the table had, and their numbers of file groups.  undone: the
    instants that the restore undoes, which are already unpublished.  Cost: undoing the commits and
    a listing of the table; reads all record keys if the metadata table must be rebuilt.
    """
    if FILES.path not in group_counts:
        return
    is_listed = FILES.path in config.metadata_partitions
    if is_listed and can_be_undone(fs, config, log.load(), to, undone):
        undo_metadata(fs, config, to=to, at=at, undone=undone)
        agree_with_store(fs, config, log, log.load(), at=at, engine=engine)
    elif is_listed:
        config = drop_metadata(fs, config)
    _create_missing(fs, load_config(fs), log, group_counts, engine)


def _create_missing(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    group_counts: Mapping[str, int],
    engine: Engine,
) -> None:
    """Rebuild the metadata partitions that the table no longer has."""
    missing = group_counts.keys() - config.metadata_partitions
    if not missing:
        return
    create_metadata(fs, config, log, records=None)
    if RECORD_INDEX.path in missing:
        state = load_state(fs, ReadOptions(metadata_enabled=False))
        if defined_by_partition(fs, config):
            build_by_partition(state, WriteOptions(), engine, silent)
        else:
            build_now(state, group_counts[RECORD_INDEX.path], engine, silent)
    recreate_indexes(fs, group_counts, engine)
    facts = (COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS)
    counts = {p: group_counts[p.path] for p in facts if p.path in missing}
    create_facts(fs, load_config(fs), log, group_counts=counts, engine=engine)


def _forget_rollbacks(log: TimelineLog, to: InstantTime, *states: State) -> None:
    """Remove rollbacks after `to`, of writes that the metadata table no longer contains.

    states: of rollbacks to remove; none: all."""
    for instant in log.load().where({Action.ROLLBACK}, *states).after(to):
        if instant.is_completed:
            log.unpublish(instant)
        log.forget(replace(instant, state=State.INFLIGHT))


def _result(done: list[RolledBack], at: InstantTime, root: str, took_millis: int) -> dict[str, Any]:
    infos = [{"commitTime": d.failed.time, "action": d.failed.action.value} for d in done]
    return {
        "startRestoreTime": at,
        "timeTakenInMillis": took_millis,
        "instantsToRollback": [each.failed.time for each in done],
        "hoodieRestoreMetadata": {
            each.failed.time: [to_metadata(each, root=root, took_millis=0)] for each in done
        },
        "version": 1,
        "restoreInstantInfo": infos,
    }

"""Rollback, savepoints, pins of snapshots and restore, from the lock to the report."""

from __future__ import annotations

from collections.abc import Sequence
from collections.abc import Set as AbstractSet
from contextlib import ExitStack
from dataclasses import dataclass, replace

from pyhudi.engine import Engine
from pyhudi.errors import WriteConflictError
from pyhudi.index.hbase.hbase_index import request_reread
from pyhudi.index.selection import shadow_kinds
from pyhudi.index.watermark import touched_groups
from pyhudi.operations.table_services import alone
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.read.time_travel import PointInTime
from pyhudi.records import InstantTime
from pyhudi.recovery.newest_commit import propose_rollback, roll_back_newest
from pyhudi.recovery.restore import (
    RestoreReport,
    execute_restore,
    propose_restore,
    write_restore_plan,
)
from pyhudi.reports import Report
from pyhudi.services.cleaning import claim_clean, execute_clean, pending_cleans
from pyhudi.services.indexing.hbase import open_hbase
from pyhudi.services.savepoint import (
    Savepoint,
    create_savepoint,
    remove_savepoint,
    savepoint_at,
)
from pyhudi.services.snapshot_pins import SnapshotPin, place_pin
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.instant import WRITES, Instant, State
from pyhudi.timeline.plans.rollback import RollbackPlan
from pyhudi.transaction.begin import check_table, table_lock
from pyhudi.transaction.heartbeat import living


@dataclass(frozen=True, slots=True)
class RollbackReport(Report):
    """What a rollback undid, or (instant None) would undo.

    instant: of the rollback.  undone: the undone commit.  deleted: its files, from the table's
    root.  command_blocks: slices that got a command block.
    """

    undone: str
    instant: str | None = None
    deleted: tuple[str, ...] = ()
    command_blocks: int = 0
    dry_run: bool = False
    notes: tuple[str, ...] = ()


def rollback(fs: FileSystem, options: Options, engine: Engine, instant: str) -> RollbackReport:
    """Undo the newest completed commit."""
    end_cleans(fs, options, engine, "rollback")
    with alone(fs, options, engine, "rollback") as state:
        _check_no_clean(state)
        _reread_hbase(state, options, {InstantTime(instant)})
        done = roll_back_newest(
            fs,
            state.config,
            state.log,
            InstantTime(instant),
            engine=engine,
            heartbeats=options.write.concurrency.heartbeats,
        )
        _sync_hbase(fs, options, engine)
    return RollbackReport(
        undone=done.failed.time,
        instant=done.at,
        deleted=done.deleted,
        command_blocks=len(done.command_blocks),
    )


def plan_rollback(state: TableState, instant: str) -> RollbackReport:
    """What `rollback` would do now; changes nothing."""
    planned = propose_rollback(state.fs, state.config, state.log, InstantTime(instant))
    deleted, command_blocks = _removed([planned])
    return RollbackReport(
        undone=planned.time, deleted=deleted, command_blocks=command_blocks, dry_run=True
    )


def _removed(plans: Sequence[RollbackPlan]) -> tuple[tuple[str, ...], int]:
    """Paths that would be deleted, and the number of slices that would get a command block."""
    removals = [removal for planned in plans for removal in planned.removals]
    deleted = tuple(path for removal in removals for path in removal.files)
    return deleted, sum(1 for removal in removals if removal.logs)


def end_cleans(fs: FileSystem, options: Options, engine: Engine, purpose: str) -> None:
    """End pending cleans, which would delete files that the caller restores; finish restores.

    A clean that has not started is removed; one that a crashed process started is finished.
    Raises WriteConflictError for one that is running.
    """
    with alone(fs, options, engine, purpose) as state, ExitStack() as beats:
        begun = []
        for clean in pending_cleans(state.timeline):
            beat = claim_clean(state, clean, options)
            if beat is None:
                raise _clean_running(clean)
            beats.callback(beat.stop)
            if clean.state is State.REQUESTED:
                state.log.forget(clean)
            else:
                begun.append((clean, beat))
        if begun:
            beats.pop_all()
    for clean, beat in begun:
        execute_clean(state, clean, beat, options, engine)


def _check_no_clean(state: TableState) -> None:
    for clean in pending_cleans(state.timeline):
        raise _clean_running(clean)


def _clean_running(clean: Instant) -> WriteConflictError:
    return WriteConflictError(
        "a clean is running and may delete files that would be restored",
        instant=clean.time,
        hint="try again when it has finished",
    )


def savepoint(
    fs: FileSystem, options: Options, engine: Engine, comment: str, instant: str | None
) -> Savepoint:
    """Retain the snapshot at a commit (None: the newest)."""
    with alone(fs, options, engine, "savepoint") as state:
        return create_savepoint(state, comment, None if instant is None else InstantTime(instant))


def plan_savepoint_deletion(state: TableState, instant: str) -> Savepoint:
    """What `delete_savepoint` would release now; changes nothing."""
    return replace(savepoint_at(state, InstantTime(instant)), dry_run=True)


def delete_savepoint(fs: FileSystem, options: Options, engine: Engine, instant: str) -> Savepoint:
    """Remove a savepoint.  Raises UserError if there is none."""
    with alone(fs, options, engine, "delete savepoint") as state:
        return remove_savepoint(state, InstantTime(instant), options.services)


def pin_snapshot(fs: FileSystem, options: Options, as_of: PointInTime | None) -> SnapshotPin:
    """Protect a snapshot from cleaning as long as the result exists.

    Does not roll back crashed writers: a reader changes no rows.
    """
    with table_lock(fs, options.write, "pin snapshot"):
        state = load_state(fs, options.read)
        check_table(state.config)
        return place_pin(state, as_of, options.write)


def restore(fs: FileSystem, options: Options, engine: Engine, instant: str) -> RestoreReport:
    """Undo everything after a commit."""
    end_cleans(fs, options, engine, "restore")
    with alone(fs, options, engine, "restore") as state:
        _check_no_writers(state, options)
        _check_no_clean(state)
        planned = write_restore_plan(state, InstantTime(instant))
        if planned is None:
            return RestoreReport(instant, notes=("nothing was written after it",))
        _reread_hbase(state, options, {i.time for i in state.timeline if i.time > instant})
        report = execute_restore(fs, state.config, state.log, planned, engine)
        _sync_hbase(fs, options, engine)
        return report


def _reread_hbase(state: TableState, options: Options, times: AbstractSet[InstantTime]) -> None:
    """Before commits are undone: request that the entries they deleted and moved in HBase are put
    again."""
    undone = [i for i in state.timeline.commits if i.time in times]
    kinds = shadow_kinds(state.fs, state.config, options.write)
    if undone and any(kind.traits.rereads_undone for kind in kinds):
        request_reread(state.fs, undone[-1].time, touched_groups(state.log, undone))


def _sync_hbase(fs: FileSystem, options: Options, engine: Engine) -> None:
    """Put the HBase entries now if the options enable it; else the next writer puts them."""
    rules = options.write.index_rules.hbase
    if rules.rollback_sync:
        open_hbase(load_state(fs, options.read), rules, engine)


def _check_no_writers(state: TableState, options: Options) -> None:
    """Raise WriteConflictError for live writers outside the lock, whose base would be undone."""
    alive = living(state.fs, options.write.concurrency.heartbeats)
    for pending in state.timeline.where(WRITES, State.REQUESTED, State.INFLIGHT):
        if pending.time in alive:
            raise WriteConflictError(
                "another process is writing to the table",
                instant=pending.time,
                action=pending.action.value,
                hint="stop the writers, then restore",
            )


def plan_restore(state: TableState, instant: str) -> RestoreReport:
    """What `restore` would undo now; changes nothing."""
    plans = propose_restore(state, InstantTime(instant))
    deleted, command_blocks = _removed(plans)
    return RestoreReport(
        restored_to=instant,
        undone=tuple(planned.time for planned in plans),
        deleted=deleted,
        command_blocks=command_blocks,
        dry_run=True,
    )

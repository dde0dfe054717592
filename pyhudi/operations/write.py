"""Writes beside others: the table's lock is held at the begin and at the end, not between.

lock -> remains of the dead rolled back -> the table as it is now -> instant drawn, heartbeat begun
     -> (no lock) batch planned, files written
     -> lock -> nobody came between -> index, metadata table and data commit -> markers gone

Whoever finds that another writer came between rolls itself back and plans anew on the new state,
after a pause of chance length.  The last attempt holds the lock from its beginning, so every write
ends however busy the table is.  See docs/transactions.md.
"""

from __future__ import annotations

import random
import time
from dataclasses import replace

import pyarrow as pa

from pyhudi.errors import FileMissingError, OvertakenError, PyhudiError, WriteConflictError
from pyhudi.metadata.compaction import run_services
from pyhudi.metadata.reader import open_metadata
from pyhudi.options import Concurrency, WriteOptions
from pyhudi.pipeline import (
    WriteRequest,
    dry_run,
    full_report,
    make_ready,
    make_setting,
    nothing_to_write,
    plan_request,
    scratch,
    write_alone,
)
from pyhudi.read.table_snapshot import TableState
from pyhudi.services.commit_writes import commit_beside, request_instant, touched
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staging
from pyhudi.timeline.instant import State
from pyhudi.transaction.begin import claimed, roll_back_dead, table_lock, undoing
from pyhudi.transaction.early_conflicts import check_early
from pyhudi.transaction.heartbeat import Heartbeat
from pyhudi.write.input.row_replay import ReplayedRows
from pyhudi.write.write_report import WriteReport
from pyhudi.write.write_steps import Stopwatch


def write(fs: FileSystem, request: WriteRequest) -> WriteReport:
    """Do one write and report it: beside others if the options say so, else under the lock.

    Raises SchemaError, UserError before anything changes; LockError, WriteConflictError once the
    retries are spent, StorageError with the table as it was.
    """
    if request.dry_run:
        return dry_run(fs, request)
    if not request.options.write.concurrency.optimistic or not request.publish:
        return write_alone(fs, request)
    with scratch(fs, request) as staging:
        return _with_retries(fs, replace(request, rows=ReplayedRows(request.rows)), staging)


def _with_retries(fs: FileSystem, request: WriteRequest, staging: Staging) -> WriteReport:
    rules = request.options.write.concurrency
    met: list[OvertakenError] = []
    while True:
        last = 0 < rules.retries == len(met)
        try:
            carry_out = write_alone if last else _attempt
            report = carry_out(fs, request, staging=staging)
            notes = (*report.notes, *(f"planned anew: {error}" for error in met))
            return replace(report, conflicts=len(met), notes=notes)
        except OvertakenError as overtaken:
            met.append(overtaken)
            if len(met) > rules.retries:
                raise WriteConflictError(
                    overtaken.what, hint=overtaken.hint, attempts=len(met), **overtaken.facts
                ) from overtaken
        time.sleep(pause_seconds(rules, len(met)))


def pause_seconds(rules: Concurrency, conflicts: int) -> float:
    """How long to wait after so many conflicts: a chance length, so that two that met part."""
    longest = min(rules.retry_seconds * 2.0 ** (conflicts - 1), rules.retry_seconds_max)
    return random.uniform(0, longest)


def _attempt(fs: FileSystem, request: WriteRequest, *, staging: Staging) -> WriteReport:
    options = request.options.write
    watch = Stopwatch()
    with table_lock(fs, options, f"begin {request.operation.value.lower()}"):
        ready = make_ready(fs, request)
        if isinstance(ready, WriteReport):
            return ready
        setting, fitted = make_setting(fs, ready.timeline, request, staging, watch)
        state = setting.state
        metadata = open_metadata(fs, state.config, state.log, state.timeline)
        if metadata is not None:
            after = options.metadata_compact_after
            run_services(metadata, compact_after=after, engine=request.engine)
        mine = request_instant(state, request.operation, state.timeline)
        beat = claimed(fs, mine, options)
    with beat:
        try:
            planned = plan_request(setting, request)
            if planned.is_empty and not fitted.has_changed:
                state.log.forget(mine)
                return nothing_to_write(setting, planned)
            if options.concurrency.detects_early:
                check_early(state, mine, touched(setting, planned), options.concurrency.heartbeats)
            done = commit_beside(setting, planned, mine)
        except (PyhudiError, OSError, pa.ArrowException) as error:
            with undoing(error):
                _give_up(state, beat, options)
            if isinstance(error, FileMissingError) and _has_moved(state):
                raise OvertakenError(
                    "files this write was planned on have been cleaned",
                    path=error.facts.get("path"),
                ) from error
            raise
    return full_report(setting, planned, done, request, fitted, ready)


def _give_up(state: TableState, beat: Heartbeat, options: WriteOptions) -> None:
    """Roll back the attempt's own instant, and what other dead there are."""
    with table_lock(state.fs, options, "rollback"):
        beat.stop()
        roll_back_dead(state.fs, state.config, state.log, state.log.load(), options)


def _has_moved(state: TableState) -> bool:
    """Whether others have committed or cleaned since."""
    return state.log.load().where(None, State.COMPLETED) != state.timeline.where(
        None, State.COMPLETED
    )

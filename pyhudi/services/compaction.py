"""Compaction of a merge-on-read table: log files merged into base files, one per slice.

```
C.compaction.requested   the plan: slices by the names of their files
C.compaction.inflight    base files of instant C are being written
C.commit                 readers see them; cleaning deletes the merged log files later
```

A pending plan runs with all committed logs of its slices.  The files of a failed attempt are rolled
back and the plan stays.  Log files that writers add meanwhile have the instant C and apply to the
new base files.
The table's lock is held while a plan is made or claimed and while its completion is published;
meanwhile writers can commit.  Source: table_format 7.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace
from datetime import tzinfo

from pyhudi.engine import Engine
from pyhudi.errors import UserError, WriteConflictError
from pyhudi.formats.log_file import read_blocks
from pyhudi.formats.log_scan import PlacedBlock, holds_committed_rows
from pyhudi.options import CompactionOptions, CompactionTrigger, Options
from pyhudi.planning.compaction import (
    compactable,
    compaction_plan,
    planned_slices,
    whole_slice,
)
from pyhudi.read.metadata_freshness import TrustedListing
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.records import InstantTime
from pyhudi.reports import Report
from pyhudi.services.compaction_tasks import CompactTask, compact_slice
from pyhudi.services.plan_execution import Claim
from pyhudi.services.row_rewriting import rewriting
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.table.cdc_properties import cdc_mode
from pyhudi.table.file_group_view import FileSlice, TableView, Visibility
from pyhudi.table.timeline_facts import completion_times, replaced_groups
from pyhudi.timeline.clock import parse_instant, system_clock
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.plans.compaction import CompactionPlan
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.conflicts import WriteSet
from pyhudi.transaction.finish import complete, finishing
from pyhudi.transaction.markers import remove_leftovers, remove_markers


@dataclass(frozen=True, slots=True)
class CompactionReport(Report):
    """What a compaction did, or (instant None) would do.

    instants: of the compactions, oldest first.  log_files, log_bytes: merged log files.
    """

    instants: tuple[str, ...] = ()
    file_groups: int = 0
    log_files: int = 0
    log_bytes: int = 0
    rows: int = 0
    bytes_written: int = 0
    dry_run: bool = False
    notes: tuple[str, ...] = field(default=())


def deltas_since(timeline: Timeline) -> int:
    """Delta commits completed since the last compaction; all if there was none.  Pure."""
    deltas = timeline.where({Action.DELTA_COMMIT}, State.COMPLETED)
    last = timeline.where({Action.COMMIT}, State.COMPLETED).last
    return len(deltas if last is None else deltas.after(last.time))


def compaction_is_due(timeline: Timeline, zone: tzinfo | None, options: CompactionOptions) -> bool:
    """Whether a compaction is due by the trigger.  zone: time zone of the table's instants."""
    last = timeline.where({Action.COMMIT}, State.COMPLETED).last
    if options.trigger is CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST:
        requested = pending_compactions(timeline)
        last = max((i for i in (last, *requested) if i), key=lambda i: i.time, default=None)
    deltas = timeline.where({Action.DELTA_COMMIT}, State.COMPLETED)
    since = last or deltas.first
    count = len(deltas if last is None else deltas.after(last.time))
    if since is None or not count:
        return False
    elapsed = system_clock() - parse_instant(since.time, zone)
    by_count = count >= options.after_commits
    by_time = elapsed.total_seconds() >= options.after_seconds
    match options.trigger:
        case CompactionTrigger.NUM_COMMITS | CompactionTrigger.NUM_COMMITS_AFTER_LAST_REQUEST:
            return by_count
        case CompactionTrigger.TIME_ELAPSED:
            return by_time
        case CompactionTrigger.NUM_AND_TIME:
            return by_count and by_time
        case CompactionTrigger.NUM_OR_TIME:
            return by_count or by_time


def pending_compactions(timeline: Timeline) -> list[Instant]:
    return list(timeline.where({Action.COMPACTION}, State.REQUESTED, State.INFLIGHT))


def propose_compaction(state: TableState, options: Options) -> list[FileSlice]:
    """The slices that a new plan would merge.  Raises UserError for a copy-on-write table."""
    if not state.config.is_merge_on_read:
        raise UserError(
            "a copy-on-write table has no logs to compact",
            path=state.fs.url,
            hint="table.cluster() merges small files",
        )
    today = system_clock().astimezone(state.zone).date()
    chosen = compactable(state.view(), options.services.compaction, today=today)
    if isinstance(state.listing, TrustedListing):
        return chosen
    committed = (_with_committed_logs(state, slice_) for slice_ in chosen)
    return [slice_ for slice_ in committed if slice_.logs]


def _with_committed_logs(state: TableState, slice_: FileSlice) -> FileSlice:
    """The slice without log files that have no committed block.

    The store also lists log files of pending writes, and of task attempts whose files are deleted
    before the commit: a plan that named one could not run afterwards.
    """
    timeline = state.timeline
    if not timeline.rolled_back and not timeline.where({Action.DELTA_COMMIT}).pending:
        return slice_
    visibility = state.view(partitions=[]).visibility
    logs = tuple(log for log in slice_.logs if _is_committed(state, log.path, visibility))
    return replace(slice_, logs=logs)


def _is_committed(state: TableState, path: str, visibility: Visibility) -> bool:
    """Whether a log file has a committed block of rows or a rollback command.  Reads headers."""
    with closing(state.fs.open(path)) as file:
        return any(
            block.is_rollback or holds_committed_rows(PlacedBlock(path, block), visibility.sees)
            for block in read_blocks(file, path=path)
        )


def write_compaction_plan(state: TableState, options: Options) -> Instant | None:
    """Write a plan to the timeline; None if no log files are eligible for compaction."""
    chosen = propose_compaction(state, options)
    if not chosen:
        return None
    return state.log.request(Action.COMPACTION, compaction_plan(chosen).to_avro())


def execute_compaction(taken: Claim, options: Options, engine: Engine) -> CompactionOutcome:
    """Run a plan concurrently with writers.

    An error other than a crash rolls back everything except the pending plan.
    """
    with taken.running(options, engine):
        return _run(taken.state, taken.instant, options, engine)


def _with_unplanned_logs(
    state: TableState, view: TableView, planned: FileSlice, at: InstantTime
) -> FileSlice:
    """A planned slice with all logs that were committed before the plan, at `at`.  Later ones
    follow the new base file."""
    known = {log.path for log in planned.logs}
    done = completion_times(state.log, state.timeline)
    every = tuple(
        log
        for log in whole_slice(view, planned).logs
        if log.path in known or done.get(log.name.instant, log.name.instant) < at
    )
    if len(every) == len(known):
        return planned
    logs = (g for g in every if g.path in known or _is_committed(state, g.path, view.visibility))
    return replace(planned, logs=tuple(logs))


@dataclass(frozen=True, slots=True)
class CompactionOutcome:
    """A completed compaction."""

    instant: Instant
    stats: tuple[WriteStat, ...]


_NOTHING = WriteSet(frozenset())
"""Writers may write to the groups of a plan: their log files apply to the new base files."""


def _run(
    state: TableState, pending: Instant, options: Options, engine: Engine
) -> CompactionOutcome:
    """state: when the plan was claimed; the table may have changed while plans before it ran."""
    fs, log = state.fs, state.log
    now = load_state(fs, options.read, previous=state)
    if pending.time not in now.timeline.pending.times:
        raise WriteConflictError("another process ended this compaction", instant=pending.time)
    replaced = replaced_groups(log, now.timeline)
    operations = [
        operation
        for operation in log.plan(pending, CompactionPlan.from_record).operations
        if operation.group not in replaced
    ]
    view = now.view()
    planned = planned_slices(view, operations, at=pending.time, listed_by=now.listed_by)
    slices = [_with_unplanned_logs(now, view, each, pending.time) for each in planned]
    how = rewriting(now, pending, options)
    cdc = cdc_mode(state.config) if state.config.layout.compactions_log_changes else None
    plan = replace(how.plan, cdc=cdc)
    tasks = [CompactTask(plan, how.spec, slice_, n) for n, slice_ in enumerate(slices)]
    inflight = log.start(pending)
    stats = tuple(s for s in engine.run(compact_slice, tasks, label="compact") if s is not None)
    remove_leftovers(fs, inflight.time, stats=stats)
    attempt = log.attempt_mark(inflight.time, state.timeline)
    extra = {**attempt, **how.stated}
    content = CommitMetadata(stats, operation="COMPACT", compacted=True, extra=extra)
    with finishing(state, inflight, options.write, touched=_NOTHING) as ending:
        ending.begin_metadata(engine).finish(stats, ())
        completed = complete(state, inflight, state.log.encode(content))
    with tolerating("markers", completed):
        remove_markers(fs, completed.time)
    return CompactionOutcome(completed, stats)


def compaction_report(
    done: Sequence[CompactionOutcome], *, notes: tuple[str, ...] = ()
) -> CompactionReport:
    """The report of executed compactions."""
    stats = [stat for each in done for stat in each.stats]
    return CompactionReport(
        instants=tuple(str(each.instant.time) for each in done),
        file_groups=len(stats),
        log_files=sum(s.compacted_log_files for s in stats),
        log_bytes=sum(s.compacted_log_bytes for s in stats),
        rows=sum(s.write_count for s in stats),
        bytes_written=sum(s.write_bytes for s in stats),
        notes=notes,
    )

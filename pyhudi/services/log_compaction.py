"""Log compaction of a merge-on-read table: the log blocks of a slice merged into one log file.

```
L.logcompaction.requested   the plan: slices by the names of their files
L.logcompaction.inflight    a log file of instant L is being written on each slice
L.deltacommit               readers use its blocks instead of the blocks that they name
```

Base files are not read, so the cost depends on the log files only.  It holds the table's lock from
plan to completion: no log file may be added between the merged ones and the one that replaces them,
as readers that merge block by block would take the older rows for the newer.  A crashed run is
therefore rolled back like a write; a pending plan of another engine is removed and planned again.
Source: table_format 4, 5.4.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import PyhudiError, UserError
from pyhudi.formats.log_file import BlockKind
from pyhudi.options import Options
from pyhudi.planning.compaction import compaction_plan
from pyhudi.read.file_slice import log_blocks
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.recovery.rollback import roll_back_service
from pyhudi.reports import Report
from pyhudi.services.log_compaction_tasks import MergeLogsTask, merge_logs
from pyhudi.services.row_rewriting import rewriting
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.table.file_group_view import FileSlice
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.transaction.begin import is_claimed
from pyhudi.transaction.conflicts import WriteSet
from pyhudi.transaction.finish import complete, finishing
from pyhudi.transaction.markers import remove_leftovers, remove_markers


@dataclass(frozen=True, slots=True)
class LogCompactionReport(Report):
    """What a log compaction did, or (instant None) would do.

    log_files, log_bytes: replaced log files; they stay until cleaning deletes their slice.
    blocks: in the replaced log files.  rows, deletes: in the new log files.
    """

    instant: str | None = None
    file_groups: int = 0
    log_files: int = 0
    log_bytes: int = 0
    blocks: int = 0
    rows: int = 0
    deletes: int = 0
    bytes_written: int = 0
    dry_run: bool = False
    notes: tuple[str, ...] = field(default=())


@dataclass(frozen=True, slots=True)
class Proposal:
    """Slices whose log files to merge, and why other slices with enough blocks are skipped."""

    slices: tuple[FileSlice, ...]
    notes: tuple[str, ...]


def propose_log_compaction(state: TableState, options: Options) -> Proposal:
    """Unclaimed slices with at least `hoodie.log.compaction.blocks.threshold` blocks to merge.

    Excludes blocks of uncommitted writes and blocks that a log compaction has merged.  Opens each
    log file.  Raises UserError for a copy-on-write table.
    """
    if not state.config.is_merge_on_read:
        raise UserError(
            "a copy-on-write table has no logs to compact",
            path=state.fs.url,
            hint="table.cluster() merges small files",
        )
    if not state.rules.is_plain:
        note = "the merge rules of this table need base files, which log compaction does not read"
        return Proposal((), (note,))
    view = state.view()
    least = options.services.compaction.log_blocks_min
    found, partial, unordered = [], 0, 0
    for slice_ in view.latest_slices():
        if not slice_.logs or slice_.group in view.pending.claimed:
            continue
        blocks = [placed.block for placed in log_blocks(state.fs, slice_, view.visibility)]
        if len(blocks) < least:
            continue
        if any(block.is_partial for block in blocks):
            partial += 1
        elif len(state.rules.ordering) > 1 and any(b.kind is BlockKind.DELETE for b in blocks):
            unordered += 1
        else:
            found.append(slice_)
    notes = []
    if partial:
        notes.append(f"skipped {partial} file groups whose log files have partial updates")
    if unordered:
        notes.append(
            f"skipped {unordered} file groups with deletes that have several ordering columns"
        )
    return Proposal(tuple(found), tuple(notes))


def execute_log_compaction(
    state: TableState, options: Options, engine: Engine
) -> LogCompactionReport:
    """Plan a log compaction and run it.  The caller holds the table's lock.

    An error other than a crash rolls back the plan and all files written for it.
    """
    state, notes = _without_plans(state, options, engine)
    proposal = propose_log_compaction(state, options)
    notes += proposal.notes
    if not proposal.slices:
        return LogCompactionReport(notes=(*notes, "no file group has enough log blocks"))
    plan = compaction_plan(proposal.slices, runs_at_once=True)
    pending = state.log.request(Action.LOG_COMPACTION, plan.to_avro())
    try:
        stats = _run(state, pending, proposal.slices, options, engine)
    except (PyhudiError, OSError, pa.ArrowException):
        for left in state.log.load().pending:
            if left.time == pending.time:
                _remove_plan(state, left, engine)
        raise
    return LogCompactionReport(
        instant=pending.time,
        file_groups=len(stats),
        log_files=sum(s.compacted_log_files for s in stats),
        log_bytes=sum(s.compacted_log_bytes for s in stats),
        blocks=sum(s.compacted_blocks for s in stats),
        rows=sum(s.write_count for s in stats),
        deletes=sum(s.delete_count for s in stats),
        bytes_written=sum(s.write_bytes for s in stats),
        notes=notes,
    )


def plan_log_compaction(state: TableState, options: Options) -> LogCompactionReport:
    """Report what `execute_log_compaction` would do now; nothing changes."""
    proposal = propose_log_compaction(state, options)
    return LogCompactionReport(
        file_groups=len(proposal.slices),
        log_files=sum(len(slice_.logs) for slice_ in proposal.slices),
        log_bytes=sum(slice_.log_bytes for slice_ in proposal.slices),
        dry_run=True,
        notes=proposal.notes,
    )


def _run(
    state: TableState,
    pending: Instant,
    slices: Sequence[FileSlice],
    options: Options,
    engine: Engine,
) -> list[WriteStat]:
    how = rewriting(state, pending, options)
    tasks = [MergeLogsTask(how.plan, how.spec, slice_, n) for n, slice_ in enumerate(slices)]
    inflight = state.log.start(pending)
    stats = list(engine.run(merge_logs, tasks, label="merge logs"))
    remove_leftovers(state.fs, inflight.time, stats=stats)
    content = CommitMetadata(
        tuple(stats), operation="LOG_COMPACT", compacted=True, extra={**how.stated}
    )
    touched = WriteSet(frozenset(slice_.group for slice_ in slices))
    with finishing(state, inflight, options.write, touched=touched) as ending:
        ending.begin_metadata(engine).finish(stats, ())
        complete(state, inflight, state.log.encode(content))
    with tolerating("markers", inflight):
        remove_markers(state.fs, inflight.time)
    return stats


def _without_plans(
    state: TableState, options: Options, engine: Engine
) -> tuple[TableState, tuple[str, ...]]:
    """The table after removal of pending log compactions that no process runs."""
    notes = []
    for pending in state.timeline.where({Action.LOG_COMPACTION}, State.REQUESTED, State.INFLIGHT):
        if is_claimed(state.fs, pending, options.write):
            notes.append(f"another process is running log compaction {pending.time}")
            continue
        _remove_plan(state, pending, engine)
        notes.append(f"replaced log compaction {pending.time}, which no process was running")
    return (load_state(state.fs, options.read) if notes else state), tuple(notes)


def _remove_plan(state: TableState, pending: Instant, engine: Engine) -> None:
    if pending.state is State.REQUESTED:
        state.log.forget(pending)
        return
    roll_back_service(
        state.fs, state.config, state.log, pending, engine=engine, keeps_request=False
    )

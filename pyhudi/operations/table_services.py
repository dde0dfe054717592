"""Table services, from the lock to the report.

lock -> crashed writers rolled back -> plan written to the timeline -> plan run on the engine
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from pyhudi.engine import Engine
from pyhudi.metadata.expression_index.definition import maintained_expressions
from pyhudi.metadata.reader import check_metadata_exists
from pyhudi.metadata.record_index.by_partition import check_by_partition
from pyhudi.observe.events import reported
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.recovery.crashed_writers import open_locked
from pyhudi.services.archival import ArchiveReport, execute_archival
from pyhudi.services.cancel_plan import UnscheduleReport, unschedule
from pyhudi.services.cleaning import (
    CleanReport,
    claim_clean,
    execute_clean,
    forget_outdated,
    pending_cleans,
    propose_clean,
    write_clean_plan,
)
from pyhudi.services.clustering import (
    ClusteringReport,
    clustering_report,
    execute_clustering,
    pending_clusterings,
    propose_clustering,
    write_clustering_plan,
)
from pyhudi.services.compaction import (
    CompactionReport,
    compaction_report,
    execute_compaction,
    pending_compactions,
    propose_compaction,
    write_compaction_plan,
)
from pyhudi.services.log_compaction import LogCompactionReport, execute_log_compaction
from pyhudi.services.plan_execution import claim_plan
from pyhudi.services.snapshot_pins import remove_expired_pins
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.instant import Action, Instant
from pyhudi.transaction.begin import check_table


@reported("service", "compaction")
def compact(fs: FileSystem, options: Options, engine: Engine) -> CompactionReport:
    """Run the pending compactions, or plan and run one if there are none."""
    with alone(fs, options, engine, "compact") as state:
        pending = pending_compactions(state.timeline)
        if not pending:
            planned = write_compaction_plan(state, options)
            pending = [planned] if planned else []
        taken = [claim_plan(state, each, options, engine) for each in pending]
    mine = [each for each in taken if each is not None]
    if not mine:
        nothing = "no file group has logs" if not pending else "another process runs it"
        return CompactionReport(notes=(nothing,))
    with ExitStack() as beats:  # a failure ends all claims
        for each in mine:
            beats.callback(each.beat.stop)
        return compaction_report([execute_compaction(each, options, engine) for each in mine])


@reported("service", "log compaction")
def compact_logs(fs: FileSystem, options: Options, engine: Engine) -> LogCompactionReport:
    """Merge the log blocks of slices that have many."""
    with alone(fs, options, engine, "compact logs") as state:
        return execute_log_compaction(state, options, engine)


def schedule_compaction(fs: FileSystem, options: Options, engine: Engine) -> str | None:
    """Write a plan to the timeline for `compact` or Apache Hudi to run; its instant, or None if
    no file group has logs."""
    with alone(fs, options, engine, "schedule compaction") as state:
        planned = write_compaction_plan(state, options)
        return str(planned.time) if planned else None


def unschedule_plan(
    fs: FileSystem,
    options: Options,
    engine: Engine,
    instant: str,
    actions: frozenset[Action],
    *,
    dry_run: bool,
    keeps_request: bool = False,
) -> UnscheduleReport:
    """Remove a plan of these actions from the timeline permanently.

    keeps_request: only undo a crashed attempt to run it."""
    with alone(fs, options, engine, "unschedule") as state:
        return unschedule(
            state, instant, actions, options, engine, dry_run=dry_run, keeps_request=keeps_request
        )


def plan_compaction(state: TableState, options: Options) -> CompactionReport:
    """What `compact` would do now; changes nothing."""
    slices = propose_compaction(state, options)
    return CompactionReport(
        file_groups=len(slices),
        log_files=sum(len(s.logs) for s in slices),
        log_bytes=sum(s.log_bytes for s in slices),
        dry_run=True,
        notes=_would_run_first(pending_compactions(state.timeline)),
    )


def _would_run_first(pending: Sequence[Instant]) -> tuple[str, ...]:
    return tuple(f"already planned, would run first: {instant.time}" for instant in pending)


@reported("service", "clustering")
def cluster(
    fs: FileSystem, options: Options, engine: Engine, *, also_plans: bool = False
) -> ClusteringReport:
    """Run the pending clusterings, or plan and run one if there are none.

    also_plans: always plan one, of file groups that are in no plan.
    """
    with alone(fs, options, engine, "cluster") as state:
        pending = pending_clusterings(state.log, state.timeline)
        notes = _unknown_partitions(state, options)
        if also_plans or not pending:
            planned = write_clustering_plan(state, options)
            if planned:
                pending.append(planned)
            else:
                notes = (*notes, "no file group to rewrite")
        taken = [claim_plan(state, each, options, engine) for each in pending]
    mine = [each for each in taken if each is not None]
    if len(mine) < len(taken):
        notes = (*notes, "another process runs the pending clusterings")
    with ExitStack() as beats:  # a failure ends all claims
        for each in mine:
            beats.callback(each.beat.stop)
        done = [execute_clustering(each, options, engine) for each in mine]
    notes += tuple(
        f"planned clustering {each.instant.time} was rolled back: its file groups have changed"
        for each in done
        if each.plan is None
    )
    return clustering_report(done, notes=notes)


def _unknown_partitions(state: TableState, options: Options) -> tuple[str, ...]:
    selected = options.services.clustering.partitions.selected
    known = set(state.partitions()) if selected else set()
    return tuple(f"no such partition: {path}" for path in selected if path not in known)


def schedule_clustering(fs: FileSystem, options: Options, engine: Engine) -> str | None:
    """Write a plan to the timeline for `cluster` or Apache Hudi to run; its instant, or None if
    no file group qualifies."""
    with alone(fs, options, engine, "schedule clustering") as state:
        planned = write_clustering_plan(state, options)
        return str(planned.time) if planned else None


def plan_clustering(state: TableState, options: Options) -> ClusteringReport:
    """What `cluster` would do now; changes nothing."""
    plan = propose_clustering(state, options)
    return ClusteringReport(
        partitions=len({group.partition for group in plan.groups}),
        file_groups=len(plan.slices),
        new_file_groups=sum(group.output_count for group in plan.groups),
        bytes_read=sum(group.size_bytes for group in plan.groups),
        sort_by=plan.order.columns,
        layout=plan.order.layout.value,
        dry_run=True,
        notes=_would_run_first(pending_clusterings(state.log, state.timeline)),
    )


@reported("service", "cleaning")
def clean(fs: FileSystem, options: Options, engine: Engine) -> CleanReport:
    """Run the pending cleans, then plan a clean and run it."""
    with alone(fs, options, engine, "clean") as state:
        dropped = remove_expired_pins(fs, options.write.concurrency.heartbeats)
        left = pending_cleans(state.timeline)
        left = [each for each in left if not forget_outdated(state, each, options)]
        beats = [(each, claim_clean(state, each, options)) for each in left]
        reports = [
            execute_clean(state, each, beat, options, engine)
            for each, beat in beats
            if beat is not None
        ]
        if len(reports) < len(left):
            return CleanReport(dropped=dropped, notes=("another process is cleaning",))
        if reports:
            state = load_state(fs, options.read)
        planned = write_clean_plan(state, options)
        beat = claim_clean(state, planned, options) if planned else None
    if planned and beat:
        reports.append(execute_clean(state, planned, beat, options, engine))
    if not reports:
        return CleanReport(dropped=dropped, notes=("no files are eligible for cleaning",))
    return CleanReport(
        instants=tuple(time for report in reports for time in report.instants),
        files=sum(report.files for report in reports),
        partitions=max(report.partitions for report in reports),
        kept_from=reports[-1].kept_from,
        held=reports[-1].held,
        dropped=dropped,
    )


def plan_clean(state: TableState, options: Options) -> CleanReport:
    """What `clean` would do now; changes nothing."""
    plan = propose_clean(state, options)
    return CleanReport(
        files=plan.file_count,
        partitions=len(plan.files),
        kept_from=plan.retained_from.time if plan.retained_from else None,
        held=plan.holds,
        dry_run=True,
        notes=_would_run_first(pending_cleans(state.timeline)),
    )


@reported("service", "archival")
def archive(fs: FileSystem, options: Options, engine: Engine) -> ArchiveReport:
    """Move old instants of the table and its metadata table to the archive."""
    with alone(fs, options, engine, "archive") as state:
        return execute_archival(state, options)


@contextmanager
def alone(fs: FileSystem, options: Options, engine: Engine, purpose: str) -> Iterator[TableState]:
    """The table under its lock, after recovery from crashed writers.

    Raises, before the caller changes anything, UnsupportedTableError for a table that cannot be
    written and IndexNotReadyError where its metadata table is missing.
    """
    with open_locked(fs, options, engine, purpose) as state:
        check_table(state.config)
        check_metadata_exists(fs, state.config)
        maintained_expressions(fs, state.config)
        check_by_partition(fs, state.config)
        yield state

"""Table services that options enable, after a write or concurrent with writers.

After a write, it is already committed, so a failing service does not make it fail: the report
contains the failure, and the next write, or `table.services.run`, tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from datetime import tzinfo
from functools import cached_property
from typing import Final

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import LockError, PyhudiError, WriteConflictError
from pyhudi.operations import due_policy
from pyhudi.operations.due_policy import DuePolicy
from pyhudi.operations.table_services import (
    archive,
    clean,
    cluster,
    compact,
    compact_logs,
    schedule_clustering,
    schedule_compaction,
)
from pyhudi.operations.ttl import expire
from pyhudi.options import Options, ServiceOptions
from pyhudi.services.clustering import pending_clusterings
from pyhudi.services.compaction import pending_compactions
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.write.write_report import WriteReport


def after_write(
    fs: FileSystem, options: Options, engine: Engine, report: WriteReport
) -> WriteReport:
    """The report of a write, with a note for each inline service that was due.

    No service runs after a dry run, a write without a commit or an unpublished write.
    Raises errors of services only if `hoodie.fail.writes.on.inline.table.service.exception` or
    `hoodie.fail.on.timeline.archiving` is set.
    """
    rules = options.services
    if not rules.enabled or report.instant is None or not report.published:
        return report
    notes: list[str] = []
    for ran in run_enabled(fs, options, engine):
        if ran.error is None:
            notes += ran.notes
            continue
        if rules.failures_raise or (rules.archival_failures_raise and ran.name == _ARCHIVAL):
            raise ran.error
        notes.append(_failure(ran.name, ran.error))
    return replace(report, notes=(*report.notes, *notes))


@dataclass(frozen=True, slots=True)
class ServiceRun:
    """A service that was due.  notes: for a report.  has_result: whether it changed the table.
    error: why it failed; None: it did not."""

    name: str
    notes: tuple[str, ...] = ()
    has_result: bool = False
    error: PyhudiError | OSError | pa.ArrowException | None = None


def run_enabled(fs: FileSystem, options: Options, engine: Engine) -> Iterator[ServiceRun]:
    """Run each service that the options enable after a write and that is due by the timeline.

    Yields each that has notes or failed, before the next one runs.  Cost if none is due: one
    listing of the timeline.
    """
    table = _Table(fs, options, engine)
    for service in _SERVICES:
        try:
            notes = tuple(service.after(table))
            has_result = not all(isinstance(note, _Remark) for note in notes)
            ran = ServiceRun(service.name, notes, has_result)
        except (PyhudiError, OSError, pa.ArrowException) as error:
            ran = ServiceRun(service.name, error=error)
        if ran.notes or ran.error is not None:
            yield ran
            table = _Table(fs, options, engine)


@dataclass(frozen=True, slots=True)
class PendingServices:
    """Numbers of plans on the timeline that have not been completed."""

    compactions: int
    clusterings: int


def count_pending(fs: FileSystem) -> PendingServices:
    """The pending compactions and clusterings of a table.  Cost: one listing of the timeline."""
    log = timeline_log(fs, load_config(fs))
    timeline = log.load()
    return PendingServices(
        len(pending_compactions(timeline)), len(pending_clusterings(log, timeline))
    )


_ARCHIVAL: Final = "archival"


def _failure(name: str, error: Exception) -> str:
    is_busy = isinstance(error, LockError | WriteConflictError)
    outcome = "did not run" if is_busy else "failed"
    return f"{name} after this write {outcome} and is due again after the next write: {error}"


class _Remark(str):
    """A note that does not state a change of the table."""

    __slots__ = ()


@dataclass(frozen=True)
class _Table:
    """A table after a write.  Its timeline is listed once and reused until a service changes it."""

    fs: FileSystem
    options: Options
    engine: Engine

    @cached_property
    def now(self) -> _OnTimeline:
        config = load_config(self.fs)
        log = timeline_log(self.fs, config)
        return _OnTimeline(config, log, log.load(), zone_of(config.timezone))


@dataclass(frozen=True, slots=True)
class _OnTimeline:
    """The table as triggers read it: see `due_policy.OnTimeline`."""

    config: TableConfig
    log: TimelineLog
    timeline: Timeline
    zone: tzinfo | None


def _expire(table: _Table) -> Iterable[str]:
    done = expire(table.fs, table.options, table.engine, dry_run=False)
    if done.instant is not None:
        yield f"expiry {done.instant} deleted partitions: {', '.join(done.partitions)}"


def _compact(table: _Table) -> Iterable[str]:
    done = compact(table.fs, table.options, table.engine)
    if done.instants:
        yield f"compaction {', '.join(done.instants)} merged {done.file_groups} groups"


def _schedule_compaction(table: _Table) -> Iterable[str]:
    planned = schedule_compaction(table.fs, table.options, table.engine)
    if planned is not None:
        yield f"compaction {planned} is planned"


def _compact_logs(table: _Table) -> Iterable[str]:
    merged = compact_logs(table.fs, table.options, table.engine)
    if merged.instant is not None:
        yield (
            f"log compaction {merged.instant} merged {merged.blocks} blocks of "
            f"{merged.file_groups} groups"
        )


def _cluster(table: _Table) -> Iterable[str]:
    done = cluster(table.fs, table.options, table.engine)
    if done.instants:
        yield (
            f"clustering {', '.join(done.instants)} rewrote {done.file_groups} file groups "
            f"as {done.new_file_groups}"
        )
    yield from map(_Remark, done.notes)


def _schedule_clustering(table: _Table) -> Iterable[str]:
    planned = schedule_clustering(table.fs, table.options, table.engine)
    if planned is not None:
        yield f"clustering {planned} is planned"


def _clean(table: _Table) -> Iterable[str]:
    done = clean(table.fs, table.options, table.engine)
    if done.instants:
        yield f"clean {', '.join(done.instants)} deleted {done.files} files"
    yield from done.dropped


def _archive(table: _Table) -> Iterable[str]:
    done = archive(table.fs, table.options, table.engine)
    if done.instants:
        yield f"archived {len(done.instants)} instants"


def _never(_: ServiceOptions) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class _Service:
    """A service that may run after a write.

    name: used in notes.  runs, plans: whether the options enable the service, or only its planning.
    run, plan: run or plan it; they return one note per result.
    """

    name: str
    policy: DuePolicy
    runs: Callable[[ServiceOptions], bool]
    run: Callable[[_Table], Iterable[str]]
    plans: Callable[[ServiceOptions], bool] = _never
    plan: Callable[[_Table], Iterable[str]] = lambda _: ()

    def after(self, table: _Table) -> list[str]:
        """Run or plan the service if due; returns notes."""
        rules = table.options.services
        if not (self.runs(rules) or self.plans(rules)):
            return []
        due = self.policy.trigger(table.now, table.options)
        if not due.is_due:
            return []
        if self.runs(rules):
            return list(self.run(table))
        return [] if due.is_planned else list(self.plan(table))


_SERVICES: Final = (
    _Service("expiry", due_policy.PARTITION_TTL, lambda rules: rules.expiry.inline, _expire),
    _Service(
        "compaction",
        due_policy.COMPACTION,
        lambda rules: rules.compacts_inline,
        _compact,
        lambda rules: rules.compaction.schedules_inline,
        _schedule_compaction,
    ),
    _Service(
        "log compaction",
        due_policy.LOG_COMPACTION,
        lambda rules: rules.compaction.logs_inline,
        _compact_logs,
    ),
    _Service(
        "clustering",
        due_policy.CLUSTERING,
        lambda rules: rules.clustering.inline,
        _cluster,
        lambda rules: rules.clustering.schedules_inline,
        _schedule_clustering,
    ),
    _Service("cleaning", due_policy.CLEAN, lambda rules: rules.cleans_inline, _clean),
    _Service(_ARCHIVAL, due_policy.ARCHIVAL, lambda rules: rules.archives_inline, _archive),
)
"""Cleaning follows services that make files obsolete; archival follows all other services."""

"""Table services that run after a write.

The write is already committed, so a failing service does not make it fail: the report contains
the failure, and the next write, or `table.services.run`, tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
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
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.write.write_context import Commit
from pyhudi.write.write_report import WriteReport


def after_write(
    fs: FileSystem, options: Options, engine: Engine, report: WriteReport, commit: Commit
) -> WriteReport:
    """The report of a write, with a note for each inline service that was due.

    commit: runs a write without inline services.  No service runs after a dry run, a write without
    a commit or an unpublished write.  Raises errors of services only if
    `hoodie.fail.writes.on.inline.table.service.exception` or
    `hoodie.fail.on.timeline.archiving` is set.
    """
    rules = options.services
    if not rules.enabled or report.instant is None or not report.published:
        return report
    table = _Table(fs, options, engine, commit)
    notes: list[str] = []
    for service in _SERVICES:
        try:
            done = service.after(table)
        except (PyhudiError, OSError, pa.ArrowException) as error:
            if rules.failures_raise or (rules.archival_failures_raise and service.run is _archive):
                raise
            done = [_failure(service.name, error)]
        if done:
            notes += done
            table = _Table(fs, options, engine, commit)
    return replace(report, notes=(*report.notes, *notes))


def _failure(name: str, error: Exception) -> str:
    is_busy = isinstance(error, LockError | WriteConflictError)
    outcome = "did not run" if is_busy else "failed"
    return f"{name} after this write {outcome} and is due again after the next write: {error}"


@dataclass(frozen=True)
class _Table:
    """A table after a write.  Its timeline is listed once and reused until a service changes it."""

    fs: FileSystem
    options: Options
    engine: Engine
    commit: Commit

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
    done = expire(table.fs, table.options, table.engine, table.commit, dry_run=False)
    if done.instant is not None:
        yield f"expiry {done.instant} deleted partitions: {', '.join(done.partitions)}"


def _compact(table: _Table) -> Iterable[str]:
    done = compact(table.fs, table.options, table.engine)
    if done.instants:
        yield f"compaction {', '.join(done.instants)} merged {done.file_groups} groups"


def _schedule_compaction(table: _Table) -> Iterable[str]:
    planned = schedule_compaction(table.fs, table.options)
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
    yield from done.notes


def _schedule_clustering(table: _Table) -> Iterable[str]:
    planned = schedule_clustering(table.fs, table.options)
    if planned is not None:
        yield f"clustering {planned} is planned"


def _clean(table: _Table) -> Iterable[str]:
    done = clean(table.fs, table.options, table.engine)
    if done.instants:
        yield f"clean {', '.join(done.instants)} deleted {done.files} files"
    yield from done.dropped


def _archive(table: _Table) -> Iterable[str]:
    done = archive(table.fs, table.options)
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
    _Service("archival", due_policy.ARCHIVAL, lambda rules: rules.archives_inline, _archive),
)
"""Cleaning follows services that make files obsolete; archival follows all other services."""

"""Table services after a write: which are enabled, which are due, and what each of them did.

The write has committed by then.  A service that fails therefore does not make it fail: the report
says what failed, and the next write, or `table.services.run`, tries again.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Final

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import LockError, PyhudiError, WriteConflictError
from pyhudi.operations.partition_ttl import expire_after
from pyhudi.operations.table_services import (
    archive,
    clean,
    cluster,
    compact,
    compact_logs,
    schedule_clustering,
    schedule_compaction,
)
from pyhudi.options import Options, ServiceOptions
from pyhudi.pipeline import timeline_log
from pyhudi.read.state import load_state
from pyhudi.services.archival import is_due as archival_is_due
from pyhudi.services.cleaning import is_due as clean_is_due
from pyhudi.services.clustering import commits_since
from pyhudi.services.compaction import compaction_is_due
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.config import TableConfig, load_config
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.timeline import Timeline
from pyhudi.write.report import WriteReport


def after_write(
    fs: FileSystem, options: Options, engine: Engine, report: WriteReport
) -> WriteReport:
    """The report of a write, with a note for each inline service that was due.

    Nothing runs after a dry run, a write without a commit or one that is not published.  Raises
    what a service raises only if `hoodie.fail.writes.on.inline.table.service.exception` or
    `hoodie.fail.on.timeline.archiving` asks for it.
    """
    rules = options.services
    if not rules.enabled or report.instant is None or not report.published:
        return report
    table = _Table(fs, options, engine)
    notes: list[str] = []
    for service in _SERVICES:
        if not service.is_enabled(rules):
            continue
        try:
            notes += service.run(table)
        except (PyhudiError, OSError, pa.ArrowException) as error:
            if rules.failures_raise or (rules.archival_failures_raise and service.run is _archive):
                raise
            notes.append(_failure(service.name, error))
    return replace(report, notes=(*report.notes, *notes))


def _failure(name: str, error: Exception) -> str:
    is_busy = isinstance(error, LockError | WriteConflictError)
    outcome = "did not run" if is_busy else "failed"
    return f"{name} after this write {outcome}, and is due again at the next one: {error}"


@dataclass(frozen=True)
class _Table:
    """A table after a write.  The timeline is listed once, for the services that only need it."""

    fs: FileSystem
    options: Options
    engine: Engine

    @cached_property
    def config(self) -> TableConfig:
        return load_config(self.fs)

    @cached_property
    def timeline(self) -> Timeline:
        return timeline_log(self.fs, self.config).load()


def _expire(table: _Table) -> Iterable[str]:
    return expire_after(table.fs, table.options, table.engine)


def _compact(table: _Table) -> Iterable[str]:
    rules = table.options.services
    state = load_state(table.fs, table.options.read)
    if not state.config.is_merge_on_read or not compaction_is_due(state, rules.compaction):
        return
    if rules.compacts_inline:
        done = compact(table.fs, table.options, table.engine)
        yield f"compaction {', '.join(done.instants)} merged {done.file_groups} groups"
    elif (planned := schedule_compaction(table.fs, table.options)) is not None:
        yield f"compaction {planned} is planned"


def _compact_logs(table: _Table) -> Iterable[str]:
    if table.config.is_merge_on_read:
        merged = compact_logs(table.fs, table.options, table.engine)
        if merged.instant is not None:
            yield (
                f"log compaction {merged.instant} merged {merged.blocks} blocks of "
                f"{merged.file_groups} groups"
            )


def _cluster(table: _Table) -> Iterable[str]:
    rules = table.options.services.clustering
    state = load_state(table.fs, table.options.read)
    if commits_since(state.log, state.timeline) < rules.after_commits:
        return
    if rules.inline:
        done = cluster(table.fs, table.options, table.engine)
        if done.instants:
            yield (
                f"clustering {', '.join(done.instants)} rewrote {done.file_groups} file groups "
                f"as {done.new_file_groups}"
            )
        yield from done.notes
    elif (planned := schedule_clustering(table.fs, table.options)) is not None:
        yield f"clustering {planned} is planned"


def _clean(table: _Table) -> Iterable[str]:
    zone = zone_of(table.config.timezone)
    if not clean_is_due(table.timeline, table.options.services, zone):
        return
    done = clean(table.fs, table.options, table.engine)
    if done.instants:
        yield f"clean {', '.join(done.instants)} deleted {done.files} files"
    yield from done.dropped


def _archive(table: _Table) -> Iterable[str]:
    if archival_is_due(table.timeline, table.options.services):
        done = archive(table.fs, table.options)
        if done.instants:
            yield f"archived {len(done.instants)} instants"


@dataclass(frozen=True, slots=True)
class _Service:
    """A service that may run after a write.  run: if it is due; one note for each outcome."""

    name: str
    is_enabled: Callable[[ServiceOptions], bool]
    run: Callable[[_Table], Iterable[str]]


_SERVICES: Final = (
    _Service("expiry", lambda rules: rules.expiry.inline, _expire),
    _Service(
        "compaction",
        lambda rules: rules.compacts_inline or rules.compaction.schedules_inline,
        _compact,
    ),
    _Service("log compaction", lambda rules: rules.compaction.logs_inline, _compact_logs),
    _Service(
        "clustering",
        lambda rules: rules.clustering.inline or rules.clustering.schedules_inline,
        _cluster,
    ),
    _Service("cleaning", lambda rules: rules.cleans_inline, _clean),
    _Service("archival", lambda rules: rules.archives_inline, _archive),
)
"""Cleaning comes after what makes files obsolete, archival after what makes instants old."""

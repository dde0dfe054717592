"""Runs of table services: after a write, concurrent with an ingest, by one call, or in a thread.

```
after_write   services that the options enable and that are due by the timeline; a note for each
run_enabled   the same, one after the other, concurrent with writers
run_due       all services that are due, with failed writes and leftovers; the reason for each
BackgroundServices   a thread that calls `run_due` periodically
```

Expired partitions are deleted before compaction would rewrite them; log compaction takes slices
that compaction leaves; cleaning follows the services that make files obsolete, archival those that
make instants old.  A service that fails or meets a conflict is reported and does not stop the next
ones: whatever it leaves is due again.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from typing import Any, Final, Self

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import LockError, PyhudiError, WriteConflictError
from pyhudi.markup import card_html, rows_html
from pyhudi.operations import due_policy, table_services
from pyhudi.operations.due_policy import DuePolicy
from pyhudi.operations.ttl import expire
from pyhudi.options import Heartbeats, Options, ServiceOptions
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.recovery.crashed_writers import open_locked
from pyhudi.recovery.liveness import crashed_writes
from pyhudi.services.clustering import pending_clusterings
from pyhudi.services.compaction import pending_compactions
from pyhudi.services.leftovers import delete_leftovers, leftover_paths
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import table_lock
from pyhudi.write.write_report import WriteReport

_LOG = logging.getLogger("pyhudi")
_ARCHIVAL: Final = "archival"
_REPORTS_MAX: Final = 100


@dataclass(frozen=True, slots=True)
class _Done:
    """Result of one service.  notes: for the report of a write.  did: for a `ServicesReport`.
    has_result: whether the table changed."""

    notes: tuple[str, ...]
    did: str
    has_result: bool


def _done(
    noun: str,
    instants: Sequence[str],
    what: str,
    reasons: Sequence[str],
    *,
    changes: Sequence[str] = (),
    remarks: Sequence[str] = (),
) -> _Done:
    """reasons: why nothing was done.  changes: others that the service made.  remarks: for the
    report of a write."""
    times = ", ".join(instants)
    notes = (f"{noun} {times} {what}",) if instants else ()
    did = (f"{what} at {times}",) if instants else reasons
    has_result = bool(instants or changes)
    return _Done((*notes, *changes, *remarks), "; ".join((*did, *changes)), has_result)


def _expire(fs: FileSystem, options: Options, engine: Engine) -> _Done:
    report = expire(fs, options, engine, dry_run=False)
    what = f"deleted partitions {', '.join(report.partitions)}"
    return _done("expiry", [report.instant] if report.instant else [], what, report.notes)


def _compact(fs: FileSystem, options: Options, engine: Engine) -> _Done:
    report = table_services.compact(fs, options, engine)
    what = f"merged {report.file_groups} groups"
    return _done("compaction", report.instants, what, report.notes)


def _compact_logs(fs: FileSystem, options: Options, engine: Engine) -> _Done:
    report = table_services.compact_logs(fs, options, engine)
    what = f"merged {report.blocks} blocks of {report.file_groups} groups"
    return _done("log compaction", [report.instant] if report.instant else [], what, report.notes)


def _cluster(fs: FileSystem, options: Options, engine: Engine) -> _Done:
    report = table_services.cluster(fs, options, engine)
    what = f"rewrote {report.file_groups} file groups as {report.new_file_groups}"
    return _done("clustering", report.instants, what, report.notes, remarks=report.notes)


def _clean(fs: FileSystem, options: Options, engine: Engine) -> _Done:
    report = table_services.clean(fs, options, engine)
    what = f"deleted {report.files} files"
    return _done("clean", report.instants, what, report.notes, changes=report.dropped)


def _archive(fs: FileSystem, options: Options, engine: Engine) -> _Done:
    report = table_services.archive(fs, options, engine)
    done = f"archived {len(report.instants)} instants"
    blocked = f", more are blocked by {report.held_by}" if report.held_by else ""
    return _Done((done,) if report.instants else (), done + blocked, bool(report.instants))


def _never(_: ServiceOptions) -> bool:
    return False


@dataclass(frozen=True, slots=True)
class _Service:
    """A table service.

    name: used in notes.  runs, plans: whether the options enable it after a write, or only its
    planning.  plan: write a plan to the timeline; its instant, or None if there is nothing to do.
    """

    name: str
    policy: DuePolicy
    run: Callable[[FileSystem, Options, Engine], _Done]
    runs: Callable[[ServiceOptions], bool]
    plan: Callable[[FileSystem, Options, Engine], str | None] = lambda *_: None
    plans: Callable[[ServiceOptions], bool] = _never

    def is_enabled(self, rules: ServiceOptions) -> bool:
        return self.runs(rules) or self.plans(rules)

    def check(
        self, state: TableState, options: Options, engine: Engine
    ) -> tuple[Service, Callable[[], str]]:
        """Whether it is due, and what runs it; reads what it would find."""
        due = self.policy.due(state, options)
        name = self.policy.name
        return Service(name, due.is_due, due.why), lambda: self.run(state.fs, options, engine).did

    def run_or_plan(
        self, now: _OnTimeline, fs: FileSystem, options: Options, engine: Engine
    ) -> _Done | None:
        """Run it if it is due, or plan it where the options enable only that; None: not due."""
        due = self.policy.trigger(now, options)
        if not due.is_due:
            return None
        if self.runs(options.services):
            return self.run(fs, options, engine)
        planned = None if due.is_planned else self.plan(fs, options, engine)
        return _Done((f"{self.name} {planned} is planned",), "", True) if planned else None


_SERVICES: Final = (
    _Service("expiry", due_policy.PARTITION_TTL, _expire, lambda rules: rules.expiry.inline),
    _Service(
        "compaction",
        due_policy.COMPACTION,
        _compact,
        lambda rules: rules.compacts_inline,
        table_services.schedule_compaction,
        lambda rules: rules.compaction.schedules_inline,
    ),
    _Service(
        "log compaction",
        due_policy.LOG_COMPACTION,
        _compact_logs,
        lambda rules: rules.compaction.logs_inline,
    ),
    _Service(
        "clustering",
        due_policy.CLUSTERING,
        _cluster,
        lambda rules: rules.clustering.inline,
        table_services.schedule_clustering,
        lambda rules: rules.clustering.schedules_inline,
    ),
    _Service("cleaning", due_policy.CLEAN, _clean, lambda rules: rules.cleans_inline),
    _Service(_ARCHIVAL, due_policy.ARCHIVAL, _archive, lambda rules: rules.archives_inline),
)


def after_write(
    fs: FileSystem, options: Options, engine: Engine, report: WriteReport
) -> WriteReport:
    """The report of a write, with a note for each inline service that was due.

    The write is committed: a failing service does not make it fail, and is due again after the
    next write.  No service runs after a dry run, a write without a commit or an unpublished write.
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


def _failure(name: str, error: Exception) -> str:
    is_busy = isinstance(error, LockError | WriteConflictError)
    outcome = "did not run" if is_busy else "failed"
    return f"{name} after this write {outcome} and is due again after the next write: {error}"


@dataclass(frozen=True, slots=True)
class ServiceRun:
    """A service that was due.  notes: for a report.  has_result: whether it changed the table.
    error: why it failed; None: it did not."""

    name: str
    notes: tuple[str, ...] = ()
    has_result: bool = False
    error: PyhudiError | OSError | pa.ArrowException | None = None


@dataclass(frozen=True, slots=True)
class _OnTimeline:
    """The table as triggers read it: see `due_policy.OnTimeline`."""

    config: TableConfig
    log: TimelineLog
    timeline: Timeline
    zone: tzinfo | None


def _on_timeline(fs: FileSystem) -> _OnTimeline:
    config = load_config(fs)
    log = timeline_log(fs, config)
    return _OnTimeline(config, log, log.load(), zone_of(config.timezone))


def run_enabled(fs: FileSystem, options: Options, engine: Engine) -> Iterator[ServiceRun]:
    """Run each service that the options enable after a write and that is due by the timeline.

    Yields each that has notes or failed, before the next one runs.  Cost if none is due: one
    listing of the timeline.
    """
    now: _OnTimeline | None = None
    for service in _SERVICES:
        if not service.is_enabled(options.services):
            continue
        try:
            now = now or _on_timeline(fs)
            done = service.run_or_plan(now, fs, options, engine)
            if done is None or not done.notes:
                continue
            ran = ServiceRun(service.name, done.notes, done.has_result)
        except (PyhudiError, OSError, pa.ArrowException) as error:
            ran = ServiceRun(service.name, error=error)
        yield ran
        now = None


@dataclass(frozen=True, slots=True)
class PendingServices:
    """Numbers of plans on the timeline that have not been completed."""

    compactions: int
    clusterings: int


def count_pending(fs: FileSystem) -> PendingServices:
    """The pending compactions and clusterings of a table.  Cost: one listing of the timeline."""
    now = _on_timeline(fs)
    return PendingServices(
        len(pending_compactions(now.timeline)), len(pending_clusterings(now.log, now.timeline))
    )


@dataclass(frozen=True, slots=True)
class Service:
    """Result of one service.  why: why it is due or not.  did, error: empty if it did not run."""

    name: str
    is_due: bool
    why: str
    did: str = ""
    error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ServicesReport:
    """What `services.run` did, what it skipped and why."""

    services: tuple[Service, ...] = ()
    dry_run: bool = False
    notes: tuple[str, ...] = field(default_factory=tuple)

    @property
    def errors(self) -> tuple[str, ...]:
        return tuple(f"{s.name}: {s.error}" for s in self.services if s.error)

    def to_dict(self) -> dict[str, Any]:
        return {
            "dry_run": self.dry_run,
            "services": [
                {name: getattr(service, name) for name in Service.__slots__}
                for service in self.services
            ],
            "notes": list(self.notes),
        }

    def __str__(self) -> str:
        return "\n".join(
            f"{s.name}: {s.error or s.did or ('due: ' if s.is_due else 'not due: ') + s.why}"
            for s in self.services
        )

    def __repr__(self) -> str:
        return str(self)

    def _repr_html_(self) -> str:
        rows = [
            (s.name, "due" if s.is_due else "not due", s.error or s.did or s.why)
            for s in self.services
        ]
        return card_html("Table services", rows_html(("service", "state", "result"), rows))


def run_due(
    fs: FileSystem,
    options: Options,
    engine: Engine,
    *,
    dry_run: bool = False,
    stop: Callable[[], bool] | None = None,
) -> ServicesReport:
    """Run the services that are due, one after the other; each reads the then current table.

    stop: called before each service; True ends the run.
    Raises errors of opening the table; errors of a service are in the report.
    """
    done = []
    for check in (_rollback, *(service.check for service in _SERVICES), _leftovers):
        if stop is not None and stop():
            break
        service, act = check(load_state(fs, options.read), options, engine)
        done.append(service if dry_run or not service.is_due else _ran(service, act))
    return ServicesReport(tuple(done), dry_run)


def _ran(service: Service, act: Callable[[], str]) -> Service:
    began = time.monotonic()
    did = error = ""
    try:
        did = act()
    except (LockError, WriteConflictError) as busy:
        error = f"deferred to the next run: {busy.what}"
    except PyhudiError as failed:
        error = str(failed)
    seconds = round(time.monotonic() - began, 3)
    return replace(service, did=did, error=error, seconds=seconds)


def services_due(
    state: TableState, options: Options, *, leftovers: int | None, quick: bool = False
) -> tuple[Service, ...]:
    """Which services are due, without running any; each in the order of `run_due`.

    leftovers: markers and heartbeats of crashed writers, if known.  quick: evaluate only the
    triggers, which read the timeline.  An error of a service is in its `error`.
    """
    found = [_rollback_due(crashed_writes(state.log, state.timeline, _heartbeats(options)))]
    for policy in (service.policy for service in _SERVICES):
        try:
            due = policy.trigger(state, options) if quick else policy.due(state, options)
            found.append(Service(policy.name, due.is_due, due.why))
        except PyhudiError as failure:
            found.append(Service(policy.name, False, "unknown", error=str(failure)))
    if leftovers is not None:
        found.append(_leftovers_due(leftovers))
    return tuple(found)


def _heartbeats(options: Options) -> Heartbeats:
    return options.write.concurrency.heartbeats


def _rollback_due(failed: Sequence[Instant]) -> Service:
    times = ", ".join(instant.time for instant in failed)
    why = f"writers crashed: {times}" if failed else "no crashed writer left a write"
    return Service("rollback", bool(failed), why)


def _leftovers_due(count: int) -> Service:
    return Service("leftovers", bool(count), f"{count} markers and heartbeats of crashed writers")


def _rollback(
    state: TableState, options: Options, engine: Engine
) -> tuple[Service, Callable[[], str]]:
    failed = crashed_writes(state.log, state.timeline, _heartbeats(options))

    def act() -> str:
        with open_locked(state.fs, options, engine, "services"):
            return f"rolled back {', '.join(instant.time for instant in failed)}"

    return _rollback_due(failed), act


def _leftovers(state: TableState, options: Options, _: Engine) -> tuple[Service, Callable[[], str]]:
    fs = state.fs
    count = len(leftover_paths(fs, state.config, state.timeline))

    def act() -> str:
        with table_lock(fs, options.write, "services"):
            now = _on_timeline(fs)
            delete_leftovers(fs, leftover_paths(fs, now.config, now.timeline))
        return f"deleted {count} leftovers"

    return _leftovers_due(count), act


class BackgroundServices:
    """A thread that periodically runs the services that are due; a context manager that stops it.

    It takes the table's lock like any other writer and yields to the current owner.  The thread is
    a daemon: a process that ends does not wait for it, and the next run of any process finishes
    interrupted work.

    reports: the newest reports of runs that did something or failed.  failure: the error that
    prevented the last run, None if it ran.  looks: the number of attempted runs.
    """

    def __init__(self, run: Callable[[], ServicesReport], *, every_seconds: float) -> None:
        self._run = run
        self._every_seconds = every_seconds
        self._stopping = threading.Event()
        self.looks = 0
        self.failure: PyhudiError | None = None
        self._reports: deque[ServicesReport] = deque(maxlen=_REPORTS_MAX)
        self._thread = threading.Thread(target=self._loop, name="pyhudi-services", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def reports(self) -> tuple[ServicesReport, ...]:
        return tuple(self._reports)

    def stop(self, *, wait_seconds: float | None = None) -> None:
        """Stop after the current run; wait for it (None: without limit)."""
        self._stopping.set()
        self._thread.join(wait_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                report = self._run()
                self.failure = None
            except PyhudiError as failed:
                self.failure = failed
                _LOG.warning("the services of a table could not run: %s", failed)
            else:
                if any(service.did or service.error for service in report.services):
                    self._reports.append(report)
                    _LOG.info("services: %s", report)
            self.looks += 1
            self._stopping.wait(self._every_seconds)

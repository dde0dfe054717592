"""Scheduling of table services: one call runs all that are due and reports the reasons.

Order: failed writes, partition TTL, compaction, log compaction, clustering, cleaning, archival,
leftovers.  Expired partitions are deleted before compaction would rewrite them; log compaction
takes slices that compaction leaves; cleaning follows the services that make files obsolete,
archival those that make instants old.
A service that fails or meets a conflict is reported and does not stop the next ones.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from pyhudi.engine import Engine
from pyhudi.errors import LockError, PyhudiError, WriteConflictError
from pyhudi.health.findings import RepairAction
from pyhudi.health.inventory import TableInventory
from pyhudi.health.orphans import check_leftovers
from pyhudi.health.quarantine import delete_leftovers
from pyhudi.markup import card_html, rows_html
from pyhudi.operations import due_policy, table_services
from pyhudi.operations.due_policy import DuePolicy
from pyhudi.operations.ttl import expire
from pyhudi.options import Options
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.recovery.crashed_writers import open_locked
from pyhudi.recovery.rollback import failed_writes
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import load_config
from pyhudi.timeline.instant import Instant
from pyhudi.transaction.begin import table_lock


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

    def _repr_html_(self) -> str:
        rows = [
            (s.name, "due" if s.is_due else "not due", s.error or s.did or s.why)
            for s in self.services
        ]
        return card_html("Table services", rows_html(("service", "state", "result"), rows))


@dataclass(frozen=True)
class _Due:
    """A service that may be due: why it is (or is not), and how to run it."""

    name: str
    is_due: bool
    why: str
    act: Callable[[], str]


def run_due(
    fs: FileSystem, options: Options, engine: Engine, *, dry_run: bool = False
) -> ServicesReport:
    """Run the services that are due, one after the other; each reads the then current table.

    Raises errors of opening the table; errors of a service are in the report.
    """
    done = []
    for check in _SERVICES:
        due = check(load_state(fs, options.read), fs, options, engine)
        if dry_run or not due.is_due:
            done.append(Service(due.name, due.is_due, due.why))
            continue
        began = time.monotonic()
        did = error = ""
        try:
            did = due.act()
        except (LockError, WriteConflictError) as busy:
            error = f"deferred to the next run: {busy.what}"
        except PyhudiError as failed:
            error = str(failed)
        seconds = round(time.monotonic() - began, 3)
        done.append(Service(due.name, True, due.why, did, error, seconds))
    return ServicesReport(tuple(done), dry_run)


def services_due(
    state: TableState, options: Options, *, leftovers: int | None, quick: bool = False
) -> tuple[Service, ...]:
    """Which services are due, without running any; each in the order of `run_due`.

    leftovers: markers and heartbeats of crashed writers, if known.  quick: evaluate only the
    triggers, which read the timeline.  An error of a service is in its `error`.
    """
    failed = failed_writes(state.log, state.timeline, options.write.concurrency.heartbeats)
    found = [Service("rollback", bool(failed), _crashed(failed))]
    for policy, _ in _BY_POLICY:
        try:
            due = policy.trigger(state, options) if quick else policy.due(state, options)
            found.append(Service(policy.name, due.is_due, due.why))
        except PyhudiError as failure:
            found.append(Service(policy.name, False, "unknown", error=str(failure)))
    if leftovers is not None:
        found.append(Service("leftovers", bool(leftovers), _left_over(leftovers)))
    return tuple(found)


def _crashed(failed: Sequence[Instant]) -> str:
    times = ", ".join(instant.time for instant in failed)
    return f"writers crashed: {times}" if failed else "no crashed writer left a write"


def _left_over(count: int) -> str:
    return f"{count} markers and heartbeats of crashed writers"


def _rollback(state: TableState, fs: FileSystem, options: Options, engine: Engine) -> _Due:
    failed = failed_writes(state.log, state.timeline, options.write.concurrency.heartbeats)
    times = ", ".join(instant.time for instant in failed)

    def act() -> str:
        with open_locked(fs, options, engine, "services"):
            return f"rolled back {times}"

    return _Due("rollback", bool(failed), _crashed(failed), act)


def _by_policy(
    policy: DuePolicy, act: Callable[[FileSystem, Options, Engine], str]
) -> Callable[[TableState, FileSystem, Options, Engine], _Due]:
    """A service that is due when the policy says so."""

    def check(state: TableState, fs: FileSystem, options: Options, engine: Engine) -> _Due:
        due = policy.due(state, options)
        return _Due(policy.name, due.is_due, due.why, lambda: act(fs, options, engine))

    return check


def _expire(fs: FileSystem, options: Options, engine: Engine) -> str:
    report = expire(fs, options, engine, dry_run=False)
    done = f"deleted partitions {', '.join(report.partitions)} at {report.instant}"
    return done if report.instant else "; ".join(report.notes)


def _compact(fs: FileSystem, options: Options, engine: Engine) -> str:
    report = table_services.compact(fs, options, engine)
    done = f"merged {report.file_groups} groups at {', '.join(report.instants)}"
    return done if report.instants else "; ".join(report.notes)


def _compact_logs(fs: FileSystem, options: Options, engine: Engine) -> str:
    report = table_services.compact_logs(fs, options, engine)
    done = f"merged {report.blocks} blocks of {report.file_groups} groups at {report.instant}"
    return done if report.instant else "; ".join(report.notes)


def _cluster(fs: FileSystem, options: Options, engine: Engine) -> str:
    report = table_services.cluster(fs, options, engine)
    done = f"rewrote {report.file_groups} file groups as {report.new_file_groups}"
    return done if report.instants else "; ".join(report.notes)


def _clean(fs: FileSystem, options: Options, engine: Engine) -> str:
    report = table_services.clean(fs, options, engine)
    done = f"deleted {report.files} files at {', '.join(report.instants)}"
    return "; ".join(((done,) if report.instants else report.notes) + report.dropped)


def _archive(fs: FileSystem, options: Options, engine: Engine) -> str:
    report = table_services.archive(fs, options, engine)
    return f"archived {len(report.instants)} instants" + (
        f", more are blocked by {report.held_by}" if report.held_by else ""
    )


def _leftovers(state: TableState, fs: FileSystem, options: Options, engine: Engine) -> _Due:
    paths = list(_swept(fs))

    def act() -> str:
        with table_lock(fs, options.write, "services"):
            delete_leftovers(fs, _swept(fs))
        return f"deleted {len(paths)} leftovers"

    return _Due("leftovers", bool(paths), _left_over(len(paths)), act)


def _swept(fs: FileSystem) -> Iterator[str]:
    inventory = TableInventory.of(fs, load_config(fs))
    return (f.path for f in check_leftovers(inventory) if f.repair is RepairAction.SWEEP)


_BY_POLICY = (
    (due_policy.PARTITION_TTL, _expire),
    (due_policy.COMPACTION, _compact),
    (due_policy.LOG_COMPACTION, _compact_logs),
    (due_policy.CLUSTERING, _cluster),
    (due_policy.CLEAN, _clean),
    (due_policy.ARCHIVAL, _archive),
)
_SERVICES = (_rollback, *(_by_policy(policy, act) for policy, act in _BY_POLICY), _leftovers)

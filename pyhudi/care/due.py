"""What is due on a table, and done: one call for all services, each with its reason.

Order: failed writes, partition TTL, compaction, log compaction, clustering, cleaning, archival,
leftovers.  Partitions that expire are not compacted first; log compaction takes slices that
compaction leaves; cleaning follows what makes files obsolete, archival what makes instants old.
A service that fails or meets a conflict is reported and does not stop the next ones.
"""

from __future__ import annotations

import html
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from pyhudi.care.finding import Mend
from pyhudi.care.ground import Ground
from pyhudi.care.remains import check_leftovers
from pyhudi.care.setaside import sweep
from pyhudi.engine import Engine
from pyhudi.errors import LockError, PyhudiError, WriteConflictError
from pyhudi.operations import table_services
from pyhudi.operations.partition_ttl import expire, expired_now
from pyhudi.options import Options
from pyhudi.read.state import TableState, load_state
from pyhudi.services.archival import described, is_due
from pyhudi.services.cleaning import pending_cleans, propose
from pyhudi.services.clustering import commits_since, pending_clusterings
from pyhudi.services.compaction import compaction_is_due, deltas_since, pending_compactions
from pyhudi.services.logcompaction import proposed as proposed_log_compaction
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.config import load_config
from pyhudi.transaction.begin import opened, table_lock
from pyhudi.transaction.rollback import failed_writes


@dataclass(frozen=True, slots=True)
class Service:
    """One service's part.  due: why it is, or (did and error empty) why it is not."""

    name: str
    is_due: bool
    why: str
    did: str = ""
    error: str = ""
    seconds: float = 0.0


@dataclass(frozen=True, slots=True)
class ServicesReport:
    """What `services.run` did, and what it left and why."""

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
        return f"<pre>{html.escape(str(self))}</pre>"


@dataclass(frozen=True)
class _Due:
    """A service that may be due: why it is (or is not), and how it is done."""

    name: str
    is_due: bool
    why: str
    act: Callable[[], str]


def run_due(
    fs: FileSystem, options: Options, engine: Engine, *, dry_run: bool = False
) -> ServicesReport:
    """Do what is due, one service after the other; each looks at the table as it then is.

    Raises what keeps the table from being opened; what a service meets is in the report.
    """
    done = []
    for ask in _SERVICES:
        due = ask(load_state(fs, options.read), fs, options, engine)
        if dry_run or not due.is_due:
            done.append(Service(due.name, due.is_due, due.why))
            continue
        began = time.monotonic()
        did = error = ""
        try:
            did = due.act()
        except (LockError, WriteConflictError) as busy:
            error = f"left for the next run: {busy.what}"
        except PyhudiError as failed:
            error = str(failed)
        seconds = round(time.monotonic() - began, 3)
        done.append(Service(due.name, True, due.why, did, error, seconds))
    return ServicesReport(tuple(done), dry_run)


def _rollback(state: TableState, fs: FileSystem, options: Options, engine: Engine) -> _Due:
    failed = failed_writes(state.log, state.timeline, options.write.concurrency.heartbeats)
    times = ", ".join(instant.time for instant in failed)

    def act() -> str:
        with opened(fs, options, "services"):
            return f"rolled back {times}"

    why = f"writers died: {times}" if failed else "no write was left by the dead"
    return _Due("rollback", bool(failed), why, act)


def _compaction(state: TableState, fs: FileSystem, options: Options, engine: Engine) -> _Due:
    def act() -> str:
        report = table_services.compact(fs, options, engine)
        done = f"merged {report.file_groups} groups at {', '.join(report.instants)}"
        return done if report.instants else "; ".join(report.notes)

    if not state.config.is_merge_on_read:
        return _Due("compaction", False, "the table is copy-on-write", act)
    pending = pending_compactions(state.timeline)
    if pending:
        return _Due("compaction", True, f"planned at {pending[0].time}", act)
    asked = options.services.compaction
    why = f"{deltas_since(state.timeline)} delta commits since the last, due at "
    why += f"{asked.after_commits} (by {asked.trigger.value})"
    return _Due("compaction", compaction_is_due(state, asked), why, act)


def _expiry(state: TableState, fs: FileSystem, options: Options, engine: Engine) -> _Due:
    def act() -> str:
        report = expire(fs, options, engine, dry_run=False)
        done = f"deleted partitions {', '.join(report.partitions)} at {report.instant}"
        return done if report.instant else "; ".join(report.notes)

    if options.services.expiry.days <= 0:
        why = "hoodie.partition.ttl.strategy.days.retain is not set"
        return _Due("partition TTL", False, why, act)
    found = expired_now(state, options)
    why = f"{len(found)} partitions are older than {options.services.expiry.days} days"
    return _Due("partition TTL", bool(found), why, act)


def _log_compaction(state: TableState, fs: FileSystem, options: Options, engine: Engine) -> _Due:
    def act() -> str:
        report = table_services.compact_logs(fs, options, engine)
        done = f"merged {report.blocks} blocks of {report.file_groups} groups at {report.instant}"
        return done if report.instant else "; ".join(report.notes)

    if not state.config.is_merge_on_read:
        return _Due("log compaction", False, "the table is copy-on-write", act)
    found = proposed_log_compaction(state, options)
    least = options.services.compaction.log_blocks_min
    why = f"{len(found.slices)} file slices have {least} log blocks or more"
    return _Due("log compaction", bool(found.slices), "; ".join((why, *found.notes)), act)


def _clustering(state: TableState, fs: FileSystem, options: Options, engine: Engine) -> _Due:
    def act() -> str:
        report = table_services.cluster(fs, options, engine)
        done = f"wrote {report.file_groups} file groups anew as {report.new_file_groups}"
        return done if report.instants else "; ".join(report.notes)

    pending = pending_clusterings(state)
    if pending:
        return _Due("clustering", True, f"planned at {pending[0].time}", act)
    asked = options.services.clustering
    if not asked.inline:
        return _Due("clustering", False, "hoodie.clustering.inline does not ask for it", act)
    since = commits_since(state.log, state.timeline)
    why = f"{since} commits since the last, due at {asked.after_commits}"
    return _Due("clustering", since >= asked.after_commits, why, act)


def _clean(state: TableState, fs: FileSystem, options: Options, engine: Engine) -> _Due:
    def act() -> str:
        report = table_services.clean(fs, options, engine)
        done = f"deleted {report.files} files at {', '.join(report.instants)}"
        return "; ".join(((done,) if report.instants else report.notes) + report.dropped)

    pending = pending_cleans(state.timeline)
    if pending:
        return _Due("clean", True, f"planned at {pending[0].time}", act)
    count = propose(state, options).file_count
    return _Due("clean", bool(count), f"{count} files that no reader needs", act)


def _archival(state: TableState, fs: FileSystem, options: Options, engine: Engine) -> _Due:
    def act() -> str:
        report = table_services.archive(fs, options)
        return f"archived {len(report.instants)} instants" + (
            f", more are held by {report.held_by}" if report.held_by else ""
        )

    rules = options.services
    if not is_due(state.timeline, rules):
        why = f"no more than {rules.commits_kept_max} instants of a kind"
        return _Due("archival", False, why, act)
    told = described(state, options)
    why = f"{len(told.instants)} old instants"
    if told.held_by:
        why += f", more are held by {told.held_by}"
    return _Due("archival", bool(told.instants), why, act)


def _leftovers(state: TableState, fs: FileSystem, options: Options, engine: Engine) -> _Due:
    paths = list(_swept(fs))

    def act() -> str:
        with table_lock(fs, options.write, "services"):
            sweep(fs, _swept(fs))
        return f"deleted {len(paths)} leftovers"

    return _Due("leftovers", bool(paths), f"{len(paths)} markers and heartbeats of the dead", act)


def _swept(fs: FileSystem) -> Iterator[str]:
    ground = Ground.of(fs, load_config(fs))
    return (f.path for f in check_leftovers(ground) if f.mend is Mend.SWEEP)


_SERVICES = (
    _rollback,
    _expiry,
    _compaction,
    _log_compaction,
    _clustering,
    _clean,
    _archival,
    _leftovers,
)

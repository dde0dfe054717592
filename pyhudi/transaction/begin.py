"""Begin of a transaction: takes the table's lock and rolls back crashed writers.

```
open_locked  lock -> crashed writers rolled back -> the table as it is now     (plan, request T)
claimed      T's heartbeat begins, still under the lock
             without lock: the work; others begin, commit and run services concurrently
finishing    see `finish`
```

How a service uses it: docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import PyhudiError
from pyhudi.metadata.writer import check_version, check_writable
from pyhudi.options import Heartbeats, Options, WriteOptions
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.locks.table_lock import TableLock
from pyhudi.table.cdc_properties import cdc_mode
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.table.property_checks import check_stated
from pyhudi.table.stored_properties import check_writable_properties
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.deferred_publish import check_none_deferred
from pyhudi.transaction.heartbeat import Heartbeat, living
from pyhudi.transaction.restore import execute_restore, pending_restores
from pyhudi.transaction.rollback import roll_back_failed
from pyhudi.transaction.rollback_plan import RolledBack

_RECOVERED: Final = frozenset({Action.SAVEPOINT, Action.RESTORE, Action.ROLLBACK})
"""Actions that do not stay pending: recovery completes or removes them."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """Result of a recovery.

    config: the table's current properties.  timeline: the current one; None if it must be listed.
    """

    config: TableConfig
    rolled_back: tuple[RolledBack, ...] = ()
    timeline: Timeline | None = None


def table_lock(fs: FileSystem, options: WriteOptions, purpose: str) -> TableLock:
    """The table's lock, with the wait time of the options."""
    waits = 1 + options.lock_retries
    seconds = options.lock_seconds * waits + options.lock_retry_seconds * options.lock_retries
    return TableLock(fs, purpose=purpose, wait_seconds=seconds, rules=options.lock)


@contextmanager
def open_locked(
    fs: FileSystem, options: Options, engine: Engine, purpose: str
) -> Iterator[TableState]:
    """The table under its lock, after recovery from crashed writers.

    Raises LockError; WriteConflictError while a deferred write waits to be published.
    """
    with table_lock(fs, options.write, purpose):
        state = load_state(fs, options.read)
        check_none_deferred(fs, state.timeline)
        is_whole = not state.timeline.where({Action.RESTORE}, State.INFLIGHT)
        now = state.timeline if is_whole else state.log.load()
        recovered = roll_back_crashed(fs, state.config, state.log, now, options.write, engine)
        if recovered.timeline is None or recovered.config != state.config:
            state = load_state(fs, options.read, previous=state)
        yield state


def check_table(config: TableConfig) -> None:
    """Raise UnsupportedTableError, with the reason, for a table that cannot be written."""
    check_version(config)
    check_stated(config)
    check_writable_properties(config)
    cdc_mode(config)  # raises for an unknown mode
    check_writable(config)


def roll_back_crashed(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    now: Timeline,
    options: WriteOptions,
    engine: Engine,
) -> Recovered:
    """Finish or roll back the work of crashed writers; does not affect running writers.

    now: the timeline, listed under the table's lock.
    """
    rules = options.concurrency.heartbeats
    by_markers = options.rollback_by_markers
    return recover(fs, config, log, now, engine, heartbeats=rules, by_markers=by_markers)


def claimed(fs: FileSystem, instant: Instant, options: WriteOptions) -> Heartbeat:
    """The running heartbeat of an instant that is processed outside the lock: use it in `with`,
    or stop it.  Call it under the lock under which the instant was created or found unclaimed."""
    interval = options.concurrency.heartbeats.interval_seconds
    return Heartbeat(fs, instant.time, interval_seconds=interval).start()


def is_claimed(fs: FileSystem, instant: Instant, options: WriteOptions) -> bool:
    """Whether a process currently works on a pending instant.  Call it under the lock."""
    return instant.time in living(fs, options.concurrency.heartbeats)


@contextmanager
def undoing(failed: BaseException) -> Iterator[None]:
    """Context of the rollback of a failed write or service.

    If the rollback fails too, because the lock was lost or the store is unavailable, `failed` is
    still the error raised, with a note; the next holder of the lock rolls back.
    """
    try:
        yield
    except (PyhudiError, OSError, pa.ArrowException) as error:
        failed.add_note(f"not rolled back yet; the next writer rolls it back: {error}")


def recover(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    timeline: Timeline,
    engine: Engine,
    *,
    heartbeats: Heartbeats | None = None,
    by_markers: bool = True,
) -> Recovered:
    """Roll back every failed write, after removing incomplete savepoints and finishing interrupted
    restores.  The caller holds the table's lock.  A second run changes nothing.

    timeline: complete, listed under the lock.  heartbeats: how live writers, which are not
    affected, are recognized.  by_markers: whether a failed write's files are located by its
    markers.  Cost if there is nothing to recover: one small listing.
    """
    _forget_unfinished_savepoints(log, timeline)
    restores = pending_restores(timeline)
    for restore in restores:
        execute_restore(fs, config, log, restore, engine)
    if restores:
        config = load_config(fs)
    done = roll_back_failed(
        fs,
        config,
        log,
        engine=engine,
        heartbeats=heartbeats,
        by_markers=by_markers,
        now=None if restores else timeline,
    )
    is_as_it_was = not (done or timeline.where(_RECOVERED, State.REQUESTED, State.INFLIGHT))
    return Recovered(config, tuple(done), timeline if is_as_it_was else None)


def _forget_unfinished_savepoints(log: TimelineLog, timeline: Timeline) -> None:
    """Remove incomplete savepoints, which protect no files."""
    for begun in timeline.where({Action.SAVEPOINT}, State.REQUESTED, State.INFLIGHT):
        log.forget(begun)

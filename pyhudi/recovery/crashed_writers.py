"""Recovery from crashed writers, which comes before any other work under the table's lock.

```
open_locked        lock -> roll_back_crashed -> the table as it is now
roll_back_crashed  incomplete savepoints removed -> interrupted restores finished
                   -> failed writes rolled back -> an interrupted rebuild of the metadata table
                   finished
```

How a service uses it: docs/transactions.md.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from pyhudi.engine import Engine
from pyhudi.metadata.rebuild import finish_swap
from pyhudi.options import Options, WriteOptions
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.recovery.restore import execute_restore, pending_restores
from pyhudi.recovery.rollback import roll_back_failed
from pyhudi.recovery.rollback_plan import RolledBack
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.instant import Action, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import table_lock
from pyhudi.transaction.deferred_publish import check_none_deferred

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
            state = load_state(fs, options.read)  # with a new listing of its files
        yield state


def roll_back_crashed(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    now: Timeline,
    options: WriteOptions,
    engine: Engine,
) -> Recovered:
    """Roll back every failed write, after removing incomplete savepoints and finishing interrupted
    restores; then finish an interrupted rebuild of the metadata table.  Does not affect running
    writers.  A second run changes nothing.

    now: the timeline, listed under the table's lock.  Cost if there is nothing to recover: one
    small listing, two without metadata table.  Raises IndexNotReadyError where only a rebuild
    brings the metadata table back.
    """
    _forget_unfinished_savepoints(log, now)
    restores = pending_restores(log, now)
    for restore in restores:
        execute_restore(fs, config, log, restore, engine)
    if restores:
        config = load_config(fs)
    undone = roll_back_failed(
        fs,
        config,
        log,
        engine=engine,
        heartbeats=options.concurrency.heartbeats,
        by_markers=options.rollback_by_markers,
        now=None if restores else now,
    )
    if not config.metadata_partitions:
        config = finish_swap(fs, config)
    is_as_it_was = not (
        undone.rolled_back or undone.swept or now.where(_RECOVERED, State.REQUESTED, State.INFLIGHT)
    )
    return Recovered(config, undone.rolled_back, now if is_as_it_was else None)


def _forget_unfinished_savepoints(log: TimelineLog, timeline: Timeline) -> None:
    """Remove incomplete savepoints, which protect no files."""
    for begun in timeline.where({Action.SAVEPOINT}, State.REQUESTED, State.INFLIGHT):
        log.forget(begun)

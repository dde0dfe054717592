"""Recovery from crashed processes, before any other work begins.

incomplete savepoints removed -> interrupted restores finished -> failed writes rolled back

The caller holds the table's lock.  A second run right after the first changes nothing.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Final

from pyhudi.metadata.rollback import rollback_metadata
from pyhudi.options import Heartbeats
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.timeline.instant import Action, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline
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


def recover(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    timeline: Timeline,
    heartbeats: Heartbeats | None = None,
    *,
    by_markers: bool = True,
) -> Recovered:
    """Roll back every failed write, after removing savepoints and finishing restores.

    timeline: complete, listed under the lock.  heartbeats: how live writers, which are not
    affected, are recognized.  by_markers: whether a failed write's files are located by its
    markers.  Cost if there is nothing to recover: one small listing.
    """
    _forget_unfinished_savepoints(log, timeline)
    restores = pending_restores(timeline)
    for restore in restores:
        execute_restore(fs, config, log, restore)
    if restores:
        config = load_config(fs)
    done = roll_back_failed(
        fs,
        config,
        log,
        metadata_rollback=rollback_metadata,
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

"""What dead processes left is brought to an end before anybody else begins.

savepoints that never were -> restores cut short are finished -> failed writes rolled back

The caller holds the table's lock.  A second run right after changes nothing.
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

_MENDED: Final = frozenset({Action.SAVEPOINT, Action.RESTORE, Action.ROLLBACK})
"""Actions that do not stay pending: what is found so is ended, or forgotten."""


@dataclass(frozen=True, slots=True)
class Recovered:
    """What was left over and is no more.

    config: the table's properties now.  timeline: as it is now; None if it has to be listed.
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
    """Roll back every failed write, after finishing what stands before it.

    timeline: listed under the lock, whole.  heartbeats: how those that are alive are told, which
    are left alone.  by_markers: whether the files of a failed write are found where its markers
    point.  Cost where nothing is left over: one small listing.
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
    is_as_it_was = not (done or timeline.where(_MENDED, State.REQUESTED, State.INFLIGHT))
    return Recovered(config, tuple(done), timeline if is_as_it_was else None)


def _forget_unfinished_savepoints(log: TimelineLog, timeline: Timeline) -> None:
    """A savepoint that was never completed protects no files."""
    for begun in timeline.where({Action.SAVEPOINT}, State.REQUESTED, State.INFLIGHT):
        log.forget(begun)

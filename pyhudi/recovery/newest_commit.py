"""Rollback of the newest completed commit, and its preconditions."""

from __future__ import annotations

from pyhudi.engine import Engine
from pyhudi.errors import UserError
from pyhudi.filenames import METADATA_TABLE, BaseFileName, parse_data_file
from pyhudi.metadata.partition_creation import archived_creations
from pyhudi.metadata.visible_instants import is_creation
from pyhudi.options import Heartbeats
from pyhudi.records import InstantTime
from pyhudi.recovery.rollback import execute, plan_completed, request_rollback, roll_back_failed
from pyhudi.recovery.rollback_plan import RolledBack
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import WRITES, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.rollback import RollbackPlan
from pyhudi.timeline.timeline import Timeline


def roll_back_newest(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    instant: InstantTime,
    *,
    engine: Engine,
    heartbeats: Heartbeats | None = None,
) -> RolledBack:
    """Undo the newest completed commit permanently.  The caller holds the table's lock.

    Raises UserError, before any change, for what `propose_rollback` rejects.
    """
    roll_back_failed(fs, config, log, engine=engine, heartbeats=heartbeats)
    planned = propose_rollback(fs, config, log, instant)
    at = request_rollback(fs, log, planned)
    return execute(fs, config, log, at, planned=planned, engine=engine)


def propose_rollback(
    fs: FileSystem, config: TableConfig, log: TimelineLog, instant: InstantTime
) -> RollbackPlan:
    """The plan for undoing the newest completed commit; changes nothing.

    Raises UserError for any other instant, a savepointed one, one that a pending service or the
    metadata table's compaction builds on, and one whose previous files are cleaned.
    """
    target = _undoable(log.load(), instant)
    _check_metadata_table(fs, config, target)
    written = log.commit(target)
    _check_predecessors(fs, written, target)
    return plan_completed(fs, config, log, target)


def _undoable(timeline: Timeline, instant: InstantTime) -> Instant:
    """The completed commit at `instant`.  Raises UserError if it cannot be rolled back."""
    target = timeline.commits.last
    if target is None or target.time != instant:
        raise UserError(
            "only the newest completed commit can be rolled back",
            instant=instant,
            newest=target.time if target else None,
            hint="restore to a savepoint to undo several commits",
        )
    later = timeline.after(instant).where(WRITES, State.REQUESTED, State.INFLIGHT)
    if later.first is not None:
        raise UserError(
            "a pending service builds on this commit", instant=instant, pending=later.first
        )
    if any(i.time == instant for i in timeline.where({Action.SAVEPOINT})):
        raise UserError("the commit is savepointed", instant=instant, hint="delete the savepoint")
    return target


def _check_metadata_table(fs: FileSystem, config: TableConfig, target: Instant) -> None:
    """Raise UserError if the metadata table has the commit in a base file and cannot remove it.

    By compaction, also a pending one, which a rollback would finish first; or because a partition,
    such as the record index, was built after the commit."""
    if "files" not in config.metadata_partitions:
        return
    metadata_log = TimelineLog(fs.sub(METADATA_TABLE), layout=config.layout)
    metadata_timeline = metadata_log.load()
    mine = metadata_timeline.completed(Instant(target.time, Action.DELTA_COMMIT, State.INFLIGHT))
    done = (mine and mine.completed_at) or target.time
    compactions = metadata_timeline.where({Action.COMMIT, Action.COMPACTION})  # also pending ones
    later = [i for i in compactions if i.time >= done]
    if later:
        raise UserError(
            "the metadata table has compacted this commit",
            instant=target.time,
            compaction=later[-1].time,
            hint="restore to the commit before it, which rebuilds the metadata table",
        )
    deltas = metadata_timeline.where({Action.DELTA_COMMIT}, State.COMPLETED)
    created = [*archived_creations(metadata_log), *(i for i in deltas if is_creation(i.time))]
    built = [i for i in created if i.completion > done]
    if built:
        raise UserError(
            "an index was built that includes this commit",
            instant=target.time,
            built=built[-1].time,
            hint="restore to the commit before it, which rebuilds the index",
        )


def _check_predecessors(fs: FileSystem, written: CommitMetadata, target: Instant) -> None:
    """Raise UserError if files that the commit replaced no longer exist."""
    referenced: dict[str, set[tuple[str, InstantTime | None]]] = {}
    for stat in written.stats:
        if stat.previous_instant and isinstance(parse_data_file(stat.file_name), BaseFileName):
            known = referenced.setdefault(stat.partition, set())
            known.add((stat.file_id, InstantTime(stat.previous_instant)))
    for partition, file_ids in (written.replaced or {}).items():
        referenced.setdefault(partition, set()).update((file_id, None) for file_id in file_ids)
    for partition, slices in referenced.items():
        present: set[tuple[str, InstantTime | None]] = set()
        for info in fs.children(partition):
            if (name := parse_data_file(info.name)) is not None:
                present |= {(name.file_id, name.instant), (name.file_id, None)}
        for file_id, base_instant in sorted(slices - present, key=str):
            raise UserError(
                "the files that this commit replaced have been cleaned",
                instant=target.time,
                partition=partition,
                file_id=file_id,
                base_instant=base_instant,
            )

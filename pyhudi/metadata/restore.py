"""Restore of the metadata table together with its data table, to the commit S at instant R.

```
R.restore.requested, .inflight    of the metadata table: the plan of what to undo there
  compactions after S             delete base files and the logs on top of them
  delta commits after S           a command block in every slice they wrote to, as in a rollback
R.restore
R003.deltacommit                  remaining differences between `files` and the store
```

None of this is visible to readers before the data table's restore completes.  Changes that the
undo loses (the delta commits of cleans after S) are recovered by R003, from a listing of the
store.  If a slice of S has been cleaned, or a partition was created after S, the metadata table
cannot be restored and is rebuilt.  Source: table_format 7.8, 9.9.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import Any, Final

from pyhudi.engine import Engine
from pyhudi.filenames import archive_number, parse_data_file
from pyhudi.layouts.table_layout import MetadataInstants
from pyhudi.metadata.bootstrap import stored_files
from pyhudi.metadata.delta_commit import start_delta
from pyhudi.metadata.elastic.store import is_elastic
from pyhudi.metadata.partition_creation import archived_creations
from pyhudi.metadata.payloads import ALL_PARTITIONS, NON_PARTITIONED, FileMap
from pyhudi.metadata.reader import MetadataTable, open_metadata, own_log
from pyhudi.metadata.rollback import answer_blocks
from pyhudi.metadata.visible_instants import RESTORE, suffixed
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.instant import COMPLETES_AS, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.restore import RestorePlan
from pyhudi.timeline.plans.rollback import InstantInfo
from pyhudi.timeline.service_payloads import write_avro
from pyhudi.timeline.timeline import Timeline
from pyhudi.timeline.undo_payloads import RESTORE_METADATA

_DIGITS: Final = 17
_DELTAS: Final = frozenset({Action.DELTA_COMMIT, Action.LOG_COMPACTION})
_BASES: Final = frozenset({Action.COMMIT, Action.COMPACTION})


def can_be_undone(
    fs: FileSystem,
    config: TableConfig,
    data: Timeline,
    to: InstantTime,
    undone: Collection[InstantTime],
) -> bool:
    """Whether every file group of the metadata table still has its files as of `to`.

    data: the timeline of the data table.  undone: its instants to undo.  Cost: a listing of the
    metadata table's timeline and of each partition.
    """
    log = own_log(fs, config)
    if log.layout.metadata_instants is MetadataInstants.FRESH:
        of_data = {*undone, *(instant.time for instant in data)}
        instants = [*archived_creations(log), *log.load()]
        return not is_elastic(config) and _has_deltas_only(instants, to, of_data)
    timeline = log.load()
    if not any(_of_data(i.time) <= to for i in timeline.commits):
        return False
    if not _is_visible_uncompacted(fs, config, data, timeline, to):
        return False
    for partition in config.metadata_partitions:
        oldest: dict[str, InstantTime] = {}
        for info in log.fs.children(partition):
            name = parse_data_file(info.name)
            if name is not None:
                known = oldest.get(name.file_id, name.instant)
                oldest[name.file_id] = min(known, name.instant)
        if not oldest or any(_of_data(time) > to for time in oldest.values()):
            return False
    return True


def _has_deltas_only(
    instants: Collection[Instant], to: InstantTime, known: Collection[InstantTime]
) -> bool:
    """Whether what followed the delta commit `to` are delta commits and rollbacks of `known` data
    instants: no compaction, and no partition was created.

    instants: of the metadata table in layout 2, and archived ones that created partitions.
    """
    commits = (i for i in instants if i.is_completed and i.action is Action.DELTA_COMMIT)
    done = next((i.completed_at for i in commits if i.time == to and i.completed_at), None)
    if done is None:
        return False
    for instant in instants:
        if instant.action in _BASES | {Action.LOG_COMPACTION} and instant.time > done:
            return False
        is_delta = instant.action is Action.DELTA_COMMIT
        if is_delta and instant.completion > done and instant.time not in known:
            return False
    return True


def _is_visible_uncompacted(
    fs: FileSystem,
    config: TableConfig,
    data: Timeline,
    metadata_timeline: Timeline,
    to: InstantTime,
) -> bool:
    """Whether readers accept the blocks exposed by undoing compactions after `to`.

    They ignore blocks of archived instants: archival waits until these are compacted.
    """
    compactions = [_of_data(i.time) for i in metadata_timeline if i.action in _BASES]
    if not compactions or compactions[-1] <= to:
        return True
    stays = [time for time in compactions if time <= to]
    first = data.commits.first
    if stays and first is not None and stays[-1] >= first.time:
        return True
    return not any(archive_number(i.name) for i in fs.children(config.archive_folder))


def _of_data(time: InstantTime) -> InstantTime:
    """The data table's instant that an instant of the metadata table belongs to."""
    return InstantTime(time[:_DIGITS])


def undo_metadata(
    fs: FileSystem,
    config: TableConfig,
    *,
    to: InstantTime,
    at: InstantTime,
    undone: Collection[InstantTime],
) -> None:
    """Undo changes of the metadata table after `to`.  May be repeated.

    at: the data table's restore.  undone: instants that it undoes.  Requires that `can_be_undone`
    returned True.
    """
    log = own_log(fs, config)
    timeline = log.load()
    mine = next((i for i in timeline if i.time == at and i.action is Action.RESTORE), None)
    is_fresh = log.layout.metadata_instants is MetadataInstants.FRESH
    found = [
        instant
        for instant in reversed(timeline.instants)
        if instant.action in _DELTAS | _BASES
        and (instant.time in undone if is_fresh else to < _of_data(instant.time) < at)
    ]
    if mine is None:
        mine = log.request_at(at, Action.RESTORE, RestorePlan(_infos(found), to).to_avro())
    if mine.is_completed:
        return
    if mine.state is State.REQUESTED:
        mine = log.start(mine)
    for instant in found:
        if instant.action in _BASES:
            _undo_compaction(config, log, instant)
    for instant in found:
        if instant.action in _DELTAS:
            answer_blocks(config, log, instant, at)
    log.complete(mine, write_avro(RESTORE_METADATA, _result(found, at)))


def _undo_compaction(config: TableConfig, log: TimelineLog, instant: Instant) -> None:
    """Delete the compaction's base files, the logs on top of them, then its instant files."""
    _unpublish(log, instant)
    for partition in sorted(config.metadata_partitions):
        names = ((i.path, parse_data_file(i.name)) for i in log.fs.children(partition))
        log.fs.delete(p for p, n in names if n is not None and n.instant == instant.time)
    log.forget(Instant(instant.time, Action.COMPACTION, State.INFLIGHT))


def _unpublish(log: TimelineLog, instant: Instant) -> None:
    log.unpublish(Instant(instant.time, COMPLETES_AS[instant.action], State.COMPLETED))


def _infos(undone: Iterable[Instant]) -> tuple[InstantInfo, ...]:
    return tuple(InstantInfo(each.time, COMPLETES_AS[each.action]) for each in undone)


def _result(undone: list[Instant], at: InstantTime) -> dict[str, Any]:
    return {
        "startRestoreTime": at,
        "timeTakenInMillis": 0,
        "instantsToRollback": [instant.time for instant in undone],
        "hoodieRestoreMetadata": {},
        "version": 1,
        "restoreInstantInfo": [each.to_record() for each in _infos(undone)],
    }


def agree_with_store(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    timeline: Timeline,
    *,
    at: InstantTime,
    engine: Engine,
) -> None:
    """Write the differences between the store and `files` to `files`.  May be repeated.

    log, timeline: of the data table, without undone instants.  Cost: a listing of the table.
    """
    table = open_metadata(fs, config, log, timeline)
    if table is None:
        return
    if table.log.layout.metadata_instants is MetadataInstants.FRESH:
        records = _differences(table, stored_files(fs, log, timeline))
        if records:
            time = table.log.new_time(after=timeline.newest_time)
            start_delta(table, time, engine).finish_records(records)
        return
    time = suffixed(at, RESTORE)
    if any(i.time == time and i.is_completed for i in table.timeline):
        return
    start_delta(table, time, engine).finish_records(
        _differences(table, stored_files(fs, log, timeline))
    )


def _differences(table: MetadataTable, stored: dict[str, FileMap]) -> dict[str, FileMap]:
    """Records that make `files` match the store: sizes of missing files, tombstones for others."""
    listing = table.listing()
    known_partitions = listing.partitions()
    known = listing.files(known_partitions)
    partitions: FileMap = {}
    records: dict[str, FileMap] = {}
    for key, names in stored.items():
        if key == ALL_PARTITIONS:
            continue
        partition = "" if key == NON_PARTITIONED else key
        there = {info.name for info in known.get(partition, ())}
        if partition not in known:
            partitions[key] = 0
        record: FileMap = {name: size for name, size in names.items() if name not in there}
        record |= dict.fromkeys(sorted(there - names.keys()))
        if record:
            records[key] = record
    for partition in known_partitions:
        key = partition or NON_PARTITIONED
        if key not in stored:
            partitions[key] = None
            records[key] = dict.fromkeys(info.name for info in known[partition])
    if partitions:
        records[ALL_PARTITIONS] = partitions
    return records

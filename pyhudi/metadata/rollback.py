"""A delta commit of the metadata table taken back, with its data instant or for want of one.

Rollback at R of the data table's instant X, each step skipped if it is done already:

```
R.deltacommit           names and sizes of the logs that the data table's rollback knows of
R006.rollback           X.deltacommit unpublished -> a command block in every slice X wrote to
                        -> X's instant files gone
```

`R006.rollback` only if X had got as far as the metadata table.  Nothing here is believed before
the data table's rollback completes, except that X is gone, which it is by then anyway.
Source: table_format 7.7, 9.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from pyhudi.engine import LocalEngine
from pyhudi.errors import IndexNotReadyError, UnsupportedTableError
from pyhudi.filenames import LogFileName, join, new_write_token
from pyhudi.formats.log_block import rollback_block
from pyhudi.metadata.compaction import finish_pending
from pyhudi.metadata.delta_commit import start_delta
from pyhudi.metadata.elastic.store import is_elastic, remove_undone
from pyhudi.metadata.hfile_slices import OpenLog, StoredFile, open_log
from pyhudi.metadata.payloads import ALL_PARTITIONS, NON_PARTITIONED
from pyhudi.metadata.reader import MetadataTable, open_metadata
from pyhudi.metadata.visible_instants import ROLLBACK, suffixed
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.listing import StoreListing
from pyhudi.table.properties import TableConfig
from pyhudi.table.timeline_facts import load_view
from pyhudi.timeline.instant import COMMITS, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.rollback import Removal, RollbackPlan, target_of
from pyhudi.timeline.service_payloads import ROLLBACK_METADATA, write_avro
from pyhudi.timeline.timeline import Timeline


def rollback_metadata(
    fs: FileSystem,
    config: TableConfig,
    log: TimelineLog,
    timeline: Timeline,
    *,
    failed: Instant,
    at: InstantTime,
    log_files: Mapping[str, Mapping[str, int]],
) -> None:
    """Follow the data table's rollback at `at` of the instant `failed`.  May be repeated.

    fs: rooted at the data table; log, timeline: its own.  log_files: per partition the name and
    size in bytes of each log that holds command blocks or blocks of the failed instant.
    Raises UnsupportedTableError, before anything changes, if the metadata table has compacted
    the failed instant.
    """
    table = _opened(fs, config, log, timeline)
    _check_not_compacted(table, failed.time)
    if finish_pending(table, LocalEngine()):
        table = _opened(fs, config, log, timeline)
    if not any(i.time == at for i in table.timeline.where({Action.DELTA_COMMIT}, State.COMPLETED)):
        start_delta(table, at).finish_records(_records(log_files))
    undo_delta_commit(config, table.log, failed.time, suffixed(at, ROLLBACK))
    if is_elastic(config):
        remove_undone(fs, [failed.time])


def finish_rollbacks(config: TableConfig, table: MetadataTable) -> MetadataTable:
    """Take back delta commits that nobody will complete, and finish rollbacks cut short.

    A pending delta commit whose data instant is pending too is left: it goes with that one.
    table: opened under the table's lock.  Returns it as it is then.
    """
    log = table.log
    if not table.timeline.pending:
        return table
    finish_pending(table, LocalEngine())
    for pending in table.timeline.where({Action.ROLLBACK}, State.REQUESTED, State.INFLIGHT):
        target = log.plan(pending, target_of)
        if target is None:
            log.forget(pending)
        else:
            undo_delta_commit(config, log, target.time, pending.time)
    for pending in log.load().where({Action.DELTA_COMMIT}, State.REQUESTED, State.INFLIGHT):
        if pending.time not in table.data.pending.times:
            undo_delta_commit(config, log, pending.time, suffixed(pending.time, ROLLBACK))
    return table.again()


def _opened(
    fs: FileSystem, config: TableConfig, log: TimelineLog, timeline: Timeline
) -> MetadataTable:
    table = open_metadata(fs, config, log, timeline)
    if table is None:
        raise IndexNotReadyError(
            "the metadata table is listed but is not there",
            path=fs.url,
            hint="rebuild the metadata table",
        )
    return table


def _check_not_compacted(table: MetadataTable, failed: InstantTime) -> None:
    last = table.timeline.where({Action.COMMIT}, State.COMPLETED).last
    here = any(i.time == failed for i in table.timeline.where(COMMITS, State.COMPLETED))
    if here and last is not None and last.time > failed:
        raise UnsupportedTableError(
            "the metadata table has compacted the instant to roll back",
            instant=failed,
            compaction=last.time,
            hint="rebuild the metadata table without it first",
        )


def _records(log_files: Mapping[str, Mapping[str, int]]) -> dict[str, dict[str, int | None]]:
    records: dict[str, dict[str, int | None]] = {
        partition or NON_PARTITIONED: dict(names) for partition, names in log_files.items() if names
    }
    return records and {ALL_PARTITIONS: dict.fromkeys(records, 0), **records}


def undo_delta_commit(
    config: TableConfig, log: TimelineLog, failed: InstantTime, at: InstantTime
) -> None:
    """Roll back one delta commit of the metadata table, if it left anything.  May be repeated.

    log: of the metadata table.  at: the rollback's instant there.
    """
    timeline = log.load()
    mine = next((i for i in timeline if i.time == at and i.action is Action.ROLLBACK), None)
    if mine is not None and mine.is_completed:
        return
    there = any(i.time == failed for i in timeline)
    if mine is None and not there:
        return
    slices = list(_written_slices(config, log, failed))
    if mine is None:
        plan = _plan(log.fs, slices, failed)
        mine = log.request_at(at, Action.ROLLBACK, plan.to_avro(root=log.fs.url))
    if mine.state is State.REQUESTED:
        mine = log.start(mine)
    commands = _take_out(log, failed, [piece for piece, _ in slices], at)
    result = _result_record(log.fs, slices, commands, failed=failed, at=at)
    log.complete(mine, write_avro(ROLLBACK_METADATA, result))


def answer_blocks(config: TableConfig, log: TimelineLog, undone: Instant, at: InstantTime) -> None:
    """Take back one delta commit under an instant that others share.  May be repeated.

    log: of the metadata table.  at: in the command blocks.
    """
    pieces = [piece for piece, _ in _written_slices(config, log, undone.time)]
    _take_out(log, undone.time, pieces, at)
    if undone.action is not Action.DELTA_COMMIT:
        log.forget(Instant(undone.time, undone.action, State.INFLIGHT))


def _take_out(
    log: TimelineLog, failed: InstantTime, pieces: Iterable[FileSlice], at: InstantTime
) -> dict[FileSlice, str]:
    """Unpublish a delta commit, answer its slices, forget it; the command files."""
    pending = Instant(failed, Action.DELTA_COMMIT, State.INFLIGHT)
    log.unpublish(replace(pending, state=State.COMPLETED))
    commands = {piece: _command(log.fs, piece, failed, at) for piece in pieces}
    log.forget(pending)
    return commands


def _written_slices(
    config: TableConfig, log: TimelineLog, failed: InstantTime
) -> Iterator[tuple[FileSlice, list[OpenLog]]]:
    """Slices that hold blocks of the failed commit, and the logs they are in."""
    view = load_view(
        log,
        log.load(),
        StoreListing(log.fs),
        partitions=sorted(config.metadata_partitions),
    )
    for group in sorted(view.groups):
        for piece in view.groups[group].slices:
            logs = [open_log(log.fs, StoredFile(f.path, f.size_bytes)) for f in piece.logs]
            holding = [each for each in logs if any(b.instant == failed for b in each.blocks)]
            if holding:
                yield piece, holding


def _command(fs: FileSystem, piece: FileSlice, failed: InstantTime, at: InstantTime) -> str:
    """Append the command block to a slice, unless it is there; its path."""
    block = rollback_block(at, failed)
    names = [file.name for file in piece.logs]
    for file in piece.logs:
        if file.size_bytes == len(block) and fs.read(file.path) == block:
            return file.path
    version = max((name.version for name in names if isinstance(name, LogFileName)), default=0)
    while True:
        version += 1
        name = LogFileName(piece.file_id, piece.instant, version, new_write_token(1))
        path = join(piece.partition, str(name))
        if fs.create(path, block):
            return path


def _plan(
    fs: FileSystem, slices: list[tuple[FileSlice, list[OpenLog]]], failed: InstantTime
) -> RollbackPlan:
    """Answer each slice's logs by a command block.  Logs are named by their paths."""
    sizes = {file.path: file.size_bytes for piece, _ in slices for file in piece.logs}
    removals = (
        Removal(
            piece.group,
            piece.instant,
            logs={f"{fs.url}/{log.path}": sizes[log.path] for log in logs},
        )
        for piece, logs in slices
    )
    return RollbackPlan(failed, Action.DELTA_COMMIT, tuple(removals))


def _result_record(
    fs: FileSystem,
    slices: list[tuple[FileSlice, list[OpenLog]]],
    commands: Mapping[FileSlice, str],
    *,
    failed: InstantTime,
    at: InstantTime,
) -> dict[str, Any]:
    partitions: dict[str, dict[str, Any]] = {}
    for piece, logs in slices:
        entry = partitions.setdefault(
            piece.partition,
            {
                "partitionPath": piece.partition,
                "successDeleteFiles": [],
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            },
        )
        command = commands[piece]
        entry["rollbackLogFiles"][f"{fs.url}/{command}"] = fs.size(command)
        sizes = {file.path: file.size_bytes for file in piece.logs}
        entry["logFilesFromFailedCommit"].update(
            {f"{fs.url}/{log.path}": sizes[log.path] for log in logs}
        )
    return {
        "startRollbackTime": at,
        "timeTakenInMillis": 0,
        "totalFilesDeleted": 0,
        "commitsRollback": [failed],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [{"commitTime": failed, "action": Action.DELTA_COMMIT.value}],
    }

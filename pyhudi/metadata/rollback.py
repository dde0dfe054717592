"""Rollback of delta commits of the metadata table, with or without a data instant.

Rollback at R of the data table's instant X; completed steps are skipped:

```
R.deltacommit           names and sizes of the logs in the data table's rollback, and deletions of
                        files of other commits that it deleted
R006.rollback           unpublish X.deltacommit -> a command block in every slice X wrote to
                        -> delete X's instant files
```

In layout 2 there is no R.deltacommit, the rollback is R.rollback, and X's logs are deleted.

`R006.rollback` is written only if X had reached the metadata table.  None of this is visible
before the data table's rollback completes, except that X is removed, which it already is by then.
Source: table_format 7.7, 9.9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from pyhudi.engine import Engine
from pyhudi.errors import UnsupportedTableError
from pyhudi.filenames import LogFileName, join, new_write_token, parse_data_file
from pyhudi.formats.log_block import rollback_block
from pyhudi.layouts.table_layout import MetadataInstants
from pyhudi.metadata.compaction import finish_pending
from pyhudi.metadata.delta_commit import start_delta
from pyhudi.metadata.elastic.store import is_elastic, remove_undone
from pyhudi.metadata.hfile_slices import StoredFile, open_log
from pyhudi.metadata.payloads import ALL_PARTITIONS, NON_PARTITIONED
from pyhudi.metadata.reader import MetadataTable, missing_metadata, open_metadata
from pyhudi.metadata.visible_instants import ROLLBACK, suffixed
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.table.file_group_view import DataFile, FileSlice
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
    deleted: Sequence[str],
    engine: Engine,
) -> None:
    """Apply the data table's rollback at `at` of the instant `failed`.  May be repeated.

    fs: rooted at the data table; log, timeline: of the data table.  log_files: per partition the
    name and size in bytes of each log with command blocks or blocks of the failed instant.
    deleted: paths of the files that the rollback deleted.
    Raises UnsupportedTableError, before anything changes, if the metadata table has compacted
    the failed instant.
    """
    table = _opened(fs, config, log, timeline)
    _check_not_compacted(table, failed)
    if finish_pending(table, engine):
        table = _opened(fs, config, log, timeline)
    by_command = table.log.layout.logs_are_shared
    listed = table.timeline.where({Action.DELTA_COMMIT}, State.COMPLETED).times
    if by_command and at not in listed:  # otherwise a rollback adds no files
        records = _records(log_files, _listed(table, deleted))
        start_delta(table, at, engine).finish_records(records)
    own_at = suffixed(at, ROLLBACK) if by_command else at
    undo_delta_commit(config, table.log, failed.time, own_at)
    if is_elastic(config):
        remove_undone(fs, [failed.time])


def finish_rollbacks(config: TableConfig, table: MetadataTable, engine: Engine) -> MetadataTable:
    """Roll back delta commits that no process will complete, and finish interrupted rollbacks.

    A pending delta commit whose data instant is also pending is skipped: it is rolled back with
    that instant.  table: opened under the table's lock.  Returns the table in its new state.
    """
    log = table.log
    if not table.timeline.pending:
        return table
    finish_pending(table, engine)
    for pending in table.timeline.where({Action.ROLLBACK}, State.REQUESTED, State.INFLIGHT):
        target = log.plan(pending, target_of)
        if target is None:
            log.forget(pending)
        else:
            undo_delta_commit(config, log, target.time, pending.time)
    for pending in log.load().where({Action.DELTA_COMMIT}, State.REQUESTED, State.INFLIGHT):
        if pending.time not in table.data.pending.times:
            undo_delta_commit(config, log, pending.time, _own_rollback(table, pending.time))
    return table.again()


def _own_rollback(table: MetadataTable, failed: InstantTime) -> InstantTime:
    """The instant of a rollback that belongs to none of the data table."""
    if table.log.layout.metadata_instants is MetadataInstants.SUFFIXED:
        return suffixed(failed, ROLLBACK)
    return table.log.new_time(after=table.data.newest_time)


def _opened(
    fs: FileSystem, config: TableConfig, log: TimelineLog, timeline: Timeline
) -> MetadataTable:
    table = open_metadata(fs, config, log, timeline)
    if table is None:
        raise missing_metadata(fs)
    return table


def _check_not_compacted(table: MetadataTable, failed: Instant) -> None:
    last = table.timeline.where({Action.COMMIT}, State.COMPLETED).last
    commits = table.timeline.where(COMMITS, State.COMPLETED)
    done = next((i.completion for i in commits if i.time == failed.time), None)
    if done is not None and last is not None and last.time > done:
        raise UnsupportedTableError(
            "the metadata table has compacted the instant to roll back",
            instant=failed.time,
            compaction=last.time,
            hint="run table.repair(), which rolls it back and rebuilds the metadata table",
        )


def _listed(table: MetadataTable, deleted: Sequence[str]) -> list[str]:
    """Those of the deleted files that an earlier commit listed, such as the rollback of a write on
    top of the undone one."""
    partitions = {path.rpartition("/")[0] for path in deleted}
    if not partitions:
        return []
    files = table.listing().files(sorted(partitions))
    listed = {info.path for infos in files.values() for info in infos}
    return [path for path in deleted if path in listed]


def _records(
    log_files: Mapping[str, Mapping[str, int]], gone: Iterable[str]
) -> dict[str, dict[str, int | None]]:
    records: dict[str, dict[str, int | None]] = {
        partition or NON_PARTITIONED: dict(names) for partition, names in log_files.items() if names
    }
    if records:
        records[ALL_PARTITIONS] = dict.fromkeys(records, 0)
    for path in gone:
        partition, _, name = path.rpartition("/")
        records.setdefault(partition or NON_PARTITIONED, {})[name] = None
    return records


def undo_delta_commit(
    config: TableConfig, log: TimelineLog, failed: InstantTime, at: InstantTime
) -> None:
    """Roll back one delta commit of the metadata table, if any of it exists.  May be repeated.

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
        plan = _plan(log, slices, failed)
        mine = log.request_at(at, Action.ROLLBACK, plan.to_avro(root=log.fs.url))
    if mine.state is State.REQUESTED:
        mine = log.start(mine)
    commands = _remove_commit(log, failed, [file_slice for file_slice, _ in slices], at)
    result = _result_record(log.fs, slices, commands, failed=failed, at=at)
    log.complete(mine, write_avro(ROLLBACK_METADATA, result))


def answer_blocks(config: TableConfig, log: TimelineLog, undone: Instant, at: InstantTime) -> None:
    """Undo one delta commit as part of a restore instant.  May be repeated.

    log: of the metadata table.  at: in the command blocks.
    """
    file_slices = [file_slice for file_slice, _ in _written_slices(config, log, undone.time)]
    _remove_commit(log, undone.time, file_slices, at)
    if undone.action is not Action.DELTA_COMMIT:
        log.forget(Instant(undone.time, undone.action, State.INFLIGHT))


def _remove_commit(
    log: TimelineLog, failed: InstantTime, file_slices: Iterable[FileSlice], at: InstantTime
) -> dict[FileSlice, str]:
    """Unpublish a delta commit, undo its logs in each of its slices, and delete its instant files.

    Logs that may hold blocks of other commits get a command block, and these files are returned;
    logs of one commit are deleted."""
    pending = Instant(failed, Action.DELTA_COMMIT, State.INFLIGHT)
    log.unpublish(replace(pending, state=State.COMPLETED))
    commands = {}
    for file_slice in file_slices:
        if log.layout.logs_are_shared:
            commands[file_slice] = _command(log.fs, file_slice, failed, at)
        else:
            log.fs.delete(f.path for f in file_slice.logs if f.name.instant == failed)
    log.forget(pending)
    return commands


def _written_slices(
    config: TableConfig, log: TimelineLog, failed: InstantTime
) -> Iterator[tuple[FileSlice, list[str]]]:
    """Slices with blocks of the failed commit, and the paths of the logs that contain them."""
    listing, partitions = StoreListing(log.fs), sorted(config.metadata_partitions)
    if not log.layout.logs_are_shared:
        yield from _named_logs(listing.files(partitions), failed)
        return
    view = load_view(log, log.load(), listing, partitions=partitions)
    for group in sorted(view.groups):
        for file_slice in view.groups[group].slices:
            logs = [open_log(log.fs, StoredFile(f.path, f.size_bytes)) for f in file_slice.logs]
            matching = [log.path for log in logs if any(b.instant == failed for b in log.blocks)]
            if matching:
                yield file_slice, matching


def _named_logs(
    files: Mapping[str, Iterable[FileInfo]], failed: InstantTime
) -> Iterator[tuple[FileSlice, list[str]]]:
    """Logs named after the failed commit, by file group.

    A view would omit them while the commit is pending.  Torn logs are included."""
    found: dict[FileGroupId, list[DataFile]] = {}
    for partition, infos in files.items():
        for info in infos:
            name = parse_data_file(info.name)
            if isinstance(name, LogFileName) and name.instant == failed:
                group = FileGroupId(partition, name.file_id)
                found.setdefault(group, []).append(DataFile(name, partition, info.size_bytes))
    for group in sorted(found):
        file_slice = FileSlice(group, failed, None, tuple(found[group]))
        yield file_slice, [log.path for log in file_slice.logs]


def _command(fs: FileSystem, file_slice: FileSlice, failed: InstantTime, at: InstantTime) -> str:
    """Add the command block to a slice as a log, unless it exists; returns its path."""
    block = rollback_block(at, failed)
    names = [file.name for file in file_slice.logs]
    for file in file_slice.logs:
        if file.size_bytes == len(block) and fs.read(file.path) == block:
            return file.path
    version = max((name.version for name in names if isinstance(name, LogFileName)), default=0)
    while True:
        version += 1
        name = LogFileName(file_slice.file_id, file_slice.instant, version, new_write_token(1))
        path = join(file_slice.partition, str(name))
        if fs.create(path, block):
            return path


def _plan(
    log: TimelineLog, slices: list[tuple[FileSlice, list[str]]], failed: InstantTime
) -> RollbackPlan:
    """The plan: roll back each slice's logs with a command block, named by path, or delete them."""
    by_command = log.layout.logs_are_shared
    sizes = {file.path: file.size_bytes for file_slice, _ in slices for file in file_slice.logs}
    removals = (
        Removal(
            file_slice.group,
            file_slice.instant,
            files=() if by_command else tuple(paths),
            logs={f"{log.fs.url}/{path}": sizes[path] for path in paths} if by_command else {},
        )
        for file_slice, paths in slices
    )
    return RollbackPlan(failed, Action.DELTA_COMMIT, tuple(removals))


def _result_record(
    fs: FileSystem,
    slices: list[tuple[FileSlice, list[str]]],
    commands: Mapping[FileSlice, str],
    *,
    failed: InstantTime,
    at: InstantTime,
) -> dict[str, Any]:
    partitions: dict[str, dict[str, Any]] = {}
    for file_slice, paths in slices:
        entry = partitions.setdefault(
            file_slice.partition,
            {
                "partitionPath": file_slice.partition,
                "successDeleteFiles": [],
                "failedDeleteFiles": [],
                "rollbackLogFiles": {},
                "logFilesFromFailedCommit": {},
            },
        )
        command = commands.get(file_slice)
        if command is None:
            entry["successDeleteFiles"] += [f"{fs.url}/{path}" for path in paths]
            continue
        entry["rollbackLogFiles"][f"{fs.url}/{command}"] = fs.size(command)
        sizes = {file.path: file.size_bytes for file in file_slice.logs}
        entry["logFilesFromFailedCommit"].update(
            {f"{fs.url}/{path}": sizes[path] for path in paths}
        )
    return {
        "startRollbackTime": at,
        "timeTakenInMillis": 0,
        "totalFilesDeleted": sum(len(p["successDeleteFiles"]) for p in partitions.values()),
        "commitsRollback": [failed],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [{"commitTime": failed, "action": Action.DELTA_COMMIT.value}],
    }

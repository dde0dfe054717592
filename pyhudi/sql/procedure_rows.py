"""Rows of the procedures that only read a table: each takes the table and the values of all
arguments, and yields rows newest first, in the columns that `procedures` states.

Functions read what they yield, so that a limit bounds the work.  Times that Apache Hudi takes from
the modification times of files are null.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping
from contextlib import closing
from datetime import timedelta
from fnmatch import fnmatchcase
from math import ceil
from typing import Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native.hashing import hash_id
from pyhudi.api.table import Table
from pyhudi.errors import UserError
from pyhudi.filenames import LogFileName, parse_data_file
from pyhudi.formats.delete_block import decode_deletes
from pyhudi.formats.log_block import data_batches, read_content
from pyhudi.formats.log_file import BlockKind, HeaderKey, LogBlock, read_blocks
from pyhudi.metadata.file_stats.collect import newest_entries, read_ranges
from pyhudi.metadata.file_stats.records import bloom_key
from pyhudi.metadata.payloads import COLUMN_STATS
from pyhudi.metadata.reader import MetadataTable
from pyhudi.near_names import columns_hint
from pyhudi.records import InstantTime, without_meta
from pyhudi.storage.url_resolver import locate
from pyhudi.table.commit_facts import (
    CommitFacts,
    compare_timelines,
    completed_commit,
    completed_commits,
)
from pyhudi.table.file_group_view import DataFile, FileSlice
from pyhudi.table.listing import StoreListing
from pyhudi.table.log import timeline_log
from pyhudi.table.plan_facts import PlanKind, service_plans
from pyhudi.table.timeline_facts import load_view
from pyhudi.timeline.clock import format_instant, system_clock
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.plans.cleaning import CleanPlan

Values: TypeAlias = Mapping[str, Any]
"""The values of all arguments of a call, by name."""
Row: TypeAlias = tuple[Any, ...]
Rows: TypeAlias = Iterable[Row]
_ALL: Final = "ALL_PARTITIONS"


# ---- commits ------------------------------------------------------------------------------------


def _newest_first(table: Table, *, archived: bool = False) -> list[CommitFacts]:
    return completed_commits(table._fs, archived=archived)[::-1]


def _between(found: Iterable[CommitFacts], values: Values) -> Iterator[CommitFacts]:
    """Commits from start_ts to end_ts; an empty text is no bound."""
    start, end = values["start_ts"], values["end_ts"]
    return (c for c in found if (not start or c.instant >= start) and (not end or c.instant <= end))


def _sums(commit: CommitFacts) -> Row:
    """Sums of the write stats as Apache Hudi has them: a file is added if it replaces none."""
    stats = commit.stats
    return (
        sum(stat.write_bytes for stat in stats),
        sum(stat.previous_instant is None for stat in stats),
        sum(stat.previous_instant is not None for stat in stats),
        len({stat.partition for stat in stats}),
        sum(stat.write_count for stat in stats),
        sum(stat.update_count for stat in stats),
        0,
    )


def commits(table: Table, values: Values) -> Rows:
    for c in _newest_first(table):
        yield (c.instant, c.completed_at, c.action.value, *_sums(c))


def archived_commits(table: Table, values: Values) -> Rows:
    for c in _between(_newest_first(table, archived=True), values):
        yield (c.instant, c.completed_at, *_sums(c))


def _stat_rows(commits_: Iterable[CommitFacts]) -> Rows:
    for c in commits_:
        for s in c.stats:
            yield (
                c.instant, c.completed_at, c.action.value, s.partition, s.file_id,
                s.previous_instant, s.write_count, s.insert_count, s.delete_count, s.update_count,
                0, s.compacted_blocks, 0, 0, 0, s.compacted_updates, s.write_bytes,
            )  # fmt: skip


def commit_stats(table: Table, values: Values) -> Rows:
    return _stat_rows(_newest_first(table))


def archived_commit_stats(table: Table, values: Values) -> Rows:
    return _stat_rows(_between(_newest_first(table, archived=True), values))


def commit_files(table: Table, values: Values) -> Rows:
    c = completed_commit(table._fs, values["instant_time"])
    for s in c.stats:
        yield (
            c.action.value, s.partition, s.file_id, s.previous_instant, s.update_count,
            s.write_count, s.write_bytes, 0, s.size_bytes,
        )  # fmt: skip


def commit_partitions(table: Table, values: Values) -> Rows:
    c = completed_commit(table._fs, values["instant_time"])
    found: dict[str, list[WriteStat]] = {}
    for stat in c.stats:
        found.setdefault(stat.partition, []).append(stat)
    for partition, stats in sorted(found.items()):
        yield (
            c.action.value, partition,
            sum(s.previous_instant is None for s in stats),
            sum(s.previous_instant is not None for s in stats),
            sum(s.insert_count for s in stats), sum(s.update_count for s in stats),
            sum(s.write_bytes for s in stats), 0,
        )  # fmt: skip


def commit_write_stats(table: Table, values: Values) -> Rows:
    c = completed_commit(table._fs, values["instant_time"])
    written, _, _, _, count, *_ = _sums(c)
    yield c.action.value, written, count, ceil(written / count) if count else 0


def commit_extra(table: Table, values: Values) -> Rows:
    """The newest commit, or that of an instant; all keys, or one."""
    instant, key = values["instant_time"], values["metadata_key"]
    if instant is not None:
        chosen = [completed_commit(table._fs, instant)]
    else:
        chosen = completed_commits(table._fs, 1)
    for c in chosen:
        for name, value in sorted(c.metadata.extra.items()):
            if key in (None, name):
                yield c.instant, c.action.value, name, value


def write_amplification(table: Table, values: Values) -> Rows:
    """Rows written for each row updated; only commits that updated rows, then the total."""
    updated = written = 0
    for c in _newest_first(table):
        _, _, _, _, count, updates, _ = _sums(c)
        if updates:
            yield c.instant, updates, count, f"{count / updates:.2f}"
            updated, written = updated + updates, written + count
    yield "Total", updated, written, f"{written / updated:.2f}" if updated else "0"


def file_sizes(table: Table, values: Values) -> Rows:
    """Sizes of the files that each commit wrote, then those of all."""
    pattern = values["partition_path"] or "*"
    every: list[int] = []
    for c in _newest_first(table):
        sizes = [s.size_bytes for s in c.stats if fnmatchcase(s.partition, pattern)]
        if sizes:
            yield _distribution(c.instant, sizes)
            every += sizes
    yield _distribution("ALL", every)


def _distribution(name: str, sizes: list[int]) -> Row:
    values = np.array(sizes or [0], np.float64)
    low, p10, half, p95, high = np.percentile(values, [0, 10, 50, 95, 100]).tolist()
    mean, spread = float(values.mean()), float(values.std())
    return name, int(low), p10, half, mean, p95, int(high), len(sizes), spread


def commits_compared(table: Table, values: Values) -> Rows:
    """Commits that one of two tables lacks.  path: of the other table."""
    found = compare_timelines(table._fs, locate(values["path"]))
    ahead, other = found.only_here, found.only_there
    yield (
        f"table is ahead by {len(ahead)} commits: [{', '.join(ahead)}]; "
        f"path is ahead by {len(other)} commits: [{', '.join(other)}]",
    )


# ---- services -----------------------------------------------------------------------------------


def compactions(table: Table, values: Values) -> Rows:
    for plan in service_plans(table._fs, PlanKind.COMPACTION)[::-1]:
        if plan.action == Action.COMPACTION.value:
            yield plan.instant, len(plan.slices), plan.state.upper()


def clusterings(table: Table, values: Values) -> Rows:
    for plan in service_plans(table._fs, PlanKind.CLUSTERING)[::-1]:
        partitions = ",".join(sorted({one.partition for one in plan.slices}))
        yield (
            plan.instant, len({one.output for one in plan.slices}), plan.state.upper(),
            partitions if values["show_involved_partition"] else "*",
        )  # fmt: skip


def _instants(table: Table, action: Action, *states: State) -> list[Instant]:
    return list(table._state().timeline.where({action}, *states))[::-1]


def _cleans(table: Table, values: Values) -> Iterator[tuple[Instant, Mapping[str, Any]]]:
    state = table._state()
    for instant in _instants(table, Action.CLEAN, State.COMPLETED):
        yield instant, state.log.record(instant)
    if values["showArchived"]:
        for old in state.archive.cleans[::-1]:
            yield Instant(old.time, Action.CLEAN, State.COMPLETED), old.record


def cleans(table: Table, values: Values) -> Rows:
    for instant, record in _cleans(table, values):
        yield (
            instant.time, instant.completed_at, instant.action.value,
            record.get("startCleanTime"), record.get("timeTakenInMillis"),
            record.get("totalFilesDeleted"), record.get("earliestCommitToRetain"),
            record.get("lastCompletedCommitTimestamp"), record.get("version"),
        )  # fmt: skip


def clean_partitions(table: Table, values: Values) -> Rows:
    for instant, record in _cleans(table, values):
        for partition, facts in sorted((record.get("partitionMetadata") or {}).items()):
            yield (
                instant.time, instant.completed_at, instant.action.value,
                record.get("startCleanTime"), partition, facts.get("policy"),
                *(len(facts.get(name) or ()) for name in
                  ("deletePathPatterns", "successDeleteFiles", "failedDeleteFiles")),
                facts.get("isPartitionDeleted"), record.get("timeTakenInMillis"),
                record.get("totalFilesDeleted"),
            )  # fmt: skip


def clean_records(table: Table, instants: Iterable[str]) -> list[Mapping[str, Any]]:
    """The records of completed cleans, which may be newer than the table's state."""
    log, chosen = timeline_log(table._fs, table.config), set(instants)
    completed = log.load().where({Action.CLEAN}, State.COMPLETED)
    return [log.record(instant) for instant in completed if instant.time in chosen]


def clean_result(record: Mapping[str, Any]) -> Row:
    """The row of run_clean."""
    bootstrap = record.get("bootstrapPartitionMetadata")
    return (
        record.get("startCleanTime"), record.get("timeTakenInMillis"),
        record.get("totalFilesDeleted"), record.get("earliestCommitToRetain"),
        None if bootstrap is None else json.dumps(bootstrap), record.get("version"),
    )  # fmt: skip


def clean_plans(table: Table, values: Values) -> Rows:
    log = table._state().log
    for instant in _instants(table, Action.CLEAN):
        plan = log.plan(instant, CleanPlan.from_record)
        earliest = plan.retained_from
        yield (
            instant.time, instant.state.name, instant.action.value,
            None if earliest is None else earliest.time, plan.newest, plan.policy,
            log.requested(instant).get("version"), len(plan.files), len(plan.partitions),
            json.dumps(plan.extra_metadata) if plan.extra_metadata else None,
        )  # fmt: skip


def savepoints(table: Table, values: Values) -> Rows:
    return [(saved.instant,) for saved in reversed(table.savepoints())]


def _rollbacks(table: Table) -> Iterator[Mapping[str, Any]]:
    log = table._state().log
    return (log.record(i) for i in _instants(table, Action.ROLLBACK, State.COMPLETED))


def rollbacks(table: Table, values: Values) -> Rows:
    for record in _rollbacks(table):
        for undone in record.get("commitsRollback") or ():
            yield (
                record.get("startRollbackTime"), undone, record.get("totalFilesDeleted"),
                record.get("timeTakenInMillis"), len(record.get("partitionMetadata") or {}),
            )  # fmt: skip


def rollback_files(table: Table, values: Values) -> Rows:
    """The files of one rollback.  instant_time: of the rollback."""
    log, chosen = table._state().log, values["instant_time"]
    found = [i for i in _instants(table, Action.ROLLBACK, State.COMPLETED) if i.time == chosen]
    if not found:
        raise UserError(
            "the table has no completed rollback at this instant",
            instant=chosen,
            hint="CALL show_timeline lists the instants",
        )
    record = log.record(found[0])
    undone = ",".join(record.get("commitsRollback") or ())
    for partition, facts in sorted((record.get("partitionMetadata") or {}).items()):
        for name, succeeded in (("successDeleteFiles", True), ("failedDeleteFiles", False)):
            for path in facts.get(name) or ():
                yield record.get("startRollbackTime"), undone, partition, path, succeeded


# ---- timeline and properties --------------------------------------------------------------------


def timeline(table: Table, values: Values) -> Rows:
    state = table._state()
    start, end = values["startTime"], values["endTime"]
    archived = state.archive.timeline if values["showArchived"] else ()
    for found, kind in ((state.timeline, "ACTIVE"), (archived, "ARCHIVED")):
        for i in list(found)[::-1]:
            if (start and i.time < start) or (end and i.time > end):
                continue
            yield (
                i.time, i.action.value, i.state.name, None, None, i.completed_at, kind,
                _undone_by(table, i) if kind == "ACTIVE" else None,
            )  # fmt: skip


def _undone_by(table: Table, instant: Instant) -> str | None:
    if instant.action is not Action.ROLLBACK or not instant.is_completed:
        return None
    undone = table._state().log.record(instant).get("commitsRollback") or ()
    return f"Rolled back: {', '.join(undone)}"


def pending(table: Table, values: Values) -> Rows:
    """Pending instants, of all actions, oldest first."""
    state = table._state()
    age = timedelta(minutes=values["min_age_minutes"])
    limit = format_instant(system_clock() - age, state.zone) if age else None
    for i in state.timeline.pending:
        if limit is None or i.time < limit:
            yield i.time, i.action.value, i.state.name


def properties(table: Table, values: Values) -> Rows:
    return sorted(table.config.properties.items())


# ---- files --------------------------------------------------------------------------------------


def _path(table: Table, file: DataFile) -> str:
    return f"{table.path.rstrip('/')}/{file.path}"


def _chosen(table: Table, values: Values) -> list[str]:
    """Partitions of a view: by a path, and by a pattern of paths."""
    pattern, path = values["path_regex"], values.get("partition_path", _ALL)
    return [
        partition
        for partition in table.partitions()
        if path in (_ALL, partition) and (pattern == _ALL or fnmatchcase(partition, pattern))
    ]


def _view_limit(table: Table, values: Values) -> InstantTime | None:
    """The newest instant of a view: max_instant, or (unless include_max) what is before it."""
    limit: str = values["max_instant"]
    if not limit:
        return None
    if not limit.isascii() or not limit.isdigit():
        raise UserError("max_instant must be an instant", max_instant=limit)
    if not values["include_max"]:
        limit = f"{int(limit) - 1:0{len(limit)}d}"
    return InstantTime(limit)


def all_slices(table: Table, values: Values) -> Rows:
    view = table._state().view(partitions=_chosen(table, values), limit=_view_limit(table, values))
    for group in sorted(view.groups):
        for found in view.groups[group].slices:
            yield (
                *_base_facts(table, found), len(found.logs), found.log_bytes,
                _names(table, found.logs),
            )  # fmt: skip


def _base_facts(table: Table, found: FileSlice) -> Row:
    base = found.base
    return (
        found.partition, found.file_id, found.instant,
        "" if base is None else _path(table, base), -1 if base is None else base.size_bytes,
    )  # fmt: skip


def _names(table: Table, logs: Iterable[DataFile]) -> str:
    return json.dumps([_path(table, log) for log in logs])


def latest_slices(table: Table, values: Values) -> Rows:
    """Logs are scheduled if a pending compaction merges them."""
    view = table._state().view(partitions=_chosen(table, values), limit=_view_limit(table, values))
    planned = {
        (one.partition, name.rsplit("/", 1)[-1])
        for plan in service_plans(table._fs, PlanKind.COMPACTION)
        if plan.state != "completed"
        for one in plan.slices
        for name in one.log_files
    }
    for found in view.latest_slices():
        scheduled = [log for log in found.logs if (log.partition, str(log.name)) in planned]
        others = [log for log in found.logs if log not in scheduled]
        sizes = [sum(log.size_bytes for log in logs) for logs in (scheduled, others)]
        base = found.base.size_bytes if found.base else 0
        yield (
            *_base_facts(table, found), len(found.logs), found.log_bytes, *sizes,
            *(size / base if base else -1.0 for size in sizes),
            _names(table, scheduled), _names(table, others),
        )  # fmt: skip


def _logs(table: Table, values: Values) -> Iterator[tuple[DataFile, list[LogBlock], Any]]:
    """Log files whose path matches the pattern, from the table's root or with it; each with its
    blocks and the open file."""
    pattern = values["log_file_path_pattern"]
    matched = False
    listing = table._state().listing
    for partition, infos in listing.files(listing.partitions()).items():
        for info in infos:
            name = parse_data_file(info.name)
            if not isinstance(name, LogFileName):
                continue
            file = DataFile(name, partition, info.size_bytes)
            if any(fnmatchcase(text, pattern) for text in (file.path, _path(table, file))):
                matched = True
                with closing(table._fs.open(file.path)) as opened:
                    yield file, read_blocks(opened, path=file.path), opened
    if not matched:
        raise UserError(
            "no log file matches the pattern",
            pattern=pattern,
            hint="CALL show_fsview_latest lists the log files",
        )


def log_blocks(table: Table, values: Values) -> Rows:
    for file, blocks, opened in _logs(table, values):
        for block in blocks:
            header = {
                key.name if isinstance(key, HeaderKey) else str(key): text
                for key, text in block.header.items()
            }
            found = _records(block, opened, file.path)
            count = 0 if found is None else found.num_rows
            yield block.instant, count, block.kind.name, json.dumps(header), "{}"


def log_records(table: Table, values: Values) -> Rows:
    for file, blocks, opened in _logs(table, values):
        for block in blocks:
            if block.kind is not BlockKind.DELETE:
                found = _records(block, opened, file.path)
                for row in [] if found is None else found.to_pylist():
                    yield (json.dumps(row, default=str, ensure_ascii=False),)


def _records(block: LogBlock, opened: Any, path: str) -> pa.Table | None:
    """The records of a block; None for one without."""
    if block.kind in (BlockKind.COMMAND, BlockKind.CORRUPT):
        return None
    if block.kind is BlockKind.DELETE:
        return decode_deletes(read_content(block, opened), path=path)
    return data_batches(block, opened, path=path)


# ---- metadata table -----------------------------------------------------------------------------


def metadata_of(table: Table) -> MetadataTable:
    """The metadata table of a snapshot.  Raises UserError if there is none."""
    found = table._state().metadata
    if found is None:
        raise UserError(
            "the table has no metadata table that can be read",
            path=table.path,
            hint="table.metadata.rebuild() builds one",
        )
    return found


def metadata_stats(table: Table, values: Values) -> Rows:
    """Files and bytes of each metadata partition."""
    metadata = metadata_of(table)
    yield "isInSync", str(metadata.is_up_to_date).lower()
    yield "partitionCount", str(len(metadata.listing().partitions()))
    for name in sorted(metadata.partitions_listed):
        view = load_view(
            metadata.log, metadata.timeline, StoreListing(metadata.log.fs), partitions=[name]
        )
        slices = view.latest_slices()
        bases = [one.base for one in slices if one.base]
        logs = [log for one in slices for log in one.logs]
        yield f"{name}.baseFileCount", str(len(bases))
        yield f"{name}.logFileCount", str(len(logs))
        yield f"{name}.totalBaseFileSizeInBytes", str(sum(one.size_bytes for one in bases))
        yield f"{name}.totalLogFileSizeInBytes", str(sum(one.size_bytes for one in logs))


def metadata_partitions(table: Table, values: Values) -> Rows:
    return [(partition,) for partition in sorted(metadata_of(table).listing().partitions())]


def metadata_files(table: Table, values: Values) -> Rows:
    """Names of files of one partition, or of all."""
    listing = metadata_of(table).listing()
    chosen = [values["partition"]] if values["partition"] else sorted(listing.partitions())
    for infos in listing.files(chosen).values():
        for info in sorted(infos, key=lambda one: one.name):
            yield (info.path if not values["partition"] else info.name,)


def listing_differences(table: Table, values: Values) -> Rows:
    """Files that the metadata table and the store list differently; verbose: all files."""
    fs = table._fs
    listing, store = metadata_of(table).listing(), StoreListing(fs)
    partitions = sorted({*listing.partitions(), *store.partitions()})
    listed, stored = listing.files(partitions), store.files(partitions)
    for partition in partitions:
        known = {info.name: info.size_bytes for info in listed.get(partition, ())}
        there = {
            info.name: info.size_bytes
            for info in stored.get(partition, ())
            if parse_data_file(info.name) is not None
        }
        for name in sorted(known.keys() | there.keys()):
            if values["verbose"] or known.get(name) != there.get(name):
                yield (
                    partition, name, name in there, name in known, there.get(name, 0),
                    known.get(name, 0),
                )  # fmt: skip


def column_stats(table: Table, values: Values) -> Rows:
    """Ranges of the columns of each base file; values as text."""
    state, metadata = table._state(), metadata_of(table)
    if COLUMN_STATS.path not in metadata.partitions_listed:
        raise UserError(
            "the table has no column statistics",
            path=table.path,
            hint="create index ... using column_stats, or table.index.create('column_stats')",
        )
    schema = without_meta(state.schema())
    names = [one.strip() for one in (values["targetColumns"] or "").split(",") if one.strip()]
    unknown = [name for name in names if name not in schema.names]
    if unknown:
        raise UserError(
            "the table has no such column",
            column=", ".join(unknown),
            hint=columns_hint(unknown, schema.names),
        )
    files = [
        (one.partition, str(one.base.name))
        for one in state.slices(values["partition"] or None)
        if one.base is not None
    ]
    for column in names or schema.names:
        kinds = {column: schema.field(column).type}
        ranges = read_ranges(metadata, files, kinds).get(column) if files else None
        if ranges is None:
            continue
        keys = pa.array([hash_id(column) + bloom_key(*file) for file in files], pa.string())
        nulls = pc.struct_field(newest_entries(metadata, keys), "nullCount").to_pylist()
        sides = zip(ranges.low.to_pylist(), ranges.high.to_pylist(), strict=True)
        for file, (low, high), is_known, null_count in zip(
            files, sides, ranges.is_known, nulls, strict=True
        ):
            if is_known:
                yield file[1], column, _text(low), _text(high), null_count


def _text(value: Any) -> str | None:
    return None if value is None else str(value)

"""Table services of the metadata table: compaction, then cleaning of the outdated slices.

```
L     the newest delta commit            due after `compact_after` delta commits since the last
L001  compaction: one new base HFile for each group that has entries in its logs
L002  clean: slices that no reader of the last COMMITS_RETAINED commits needs
```

Compaction waits while the data table has a pending instant at or before L: a base file contains
committed data only.  Instants of layout 2 have no suffixes, and there compaction waits only for
pending instants that have a delta commit.  Pending plans are executed before anything else is
written.
Source: table_format 7.5, 9.10.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import chain
from typing import Final

import pyarrow as pa

from pyhudi._native.hfile.block_cache import SHARED
from pyhudi._native.keys import latest
from pyhudi.engine import Engine
from pyhudi.errors import UnsupportedTableError, WriteConflictError
from pyhudi.filenames import BaseFileName, join, new_write_token, parse_data_file
from pyhudi.metadata.cleaning import clean_if_due, maintained, run_clean
from pyhudi.metadata.file_stats.partition_ranges import widened
from pyhudi.metadata.file_writers import HFILE, write_base_hfile, write_base_in_chunks
from pyhudi.metadata.hfile_slices import DeleteLayer, MapSlice, ValueLayer, layers
from pyhudi.metadata.partition_creation import PartitionCreations
from pyhudi.metadata.payloads import (
    COLUMN_STATS,
    FILES,
    PARTITION_STATS,
    RECORD_INDEX,
    SCHEMA,
    SECONDARY_PREFIX,
    encode_files,
    group_number,
    payload_fields,
    transcode,
)
from pyhudi.metadata.reader import MetadataTable, file_records
from pyhudi.metadata.record_index.k_way_merge import (
    Chunk,
    UnsortedError,
    entries_at_most,
    merged_chunks,
    rows_with_values,
)
from pyhudi.metadata.record_index.locations import transcode_locations
from pyhudi.metadata.record_schema import records_of
from pyhudi.metadata.secondary_index.records import live_values
from pyhudi.metadata.visible_instants import COMPACTION_SUFFIX, request_own
from pyhudi.planning.compaction import compaction_plan, planned_slices, whole_slice
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice, TableView
from pyhudi.table.listing import StoreListing
from pyhudi.table.timeline_facts import load_view
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.plans.compaction import CompactionOperation, CompactionPlan
from pyhudi.timeline.timeline import Timeline

_LOGS_MIN: Final = 3
_HEAVY_BYTES: Final = 16 << 20
"""Early compaction of the record index: from `_LOGS_MIN` delta commits on, if its files beside the
largest of each group have at least `_HEAVY_BYTES` in total and half the size of the largest ones.
A look-up pays for the number of files that hold much, and not for the kind of one: the log of a
first load is read as a base file is.  Compaction is only ever moved forward, not delayed: archival
assumes that base files contain all data older than the last compaction."""
PENDING_MAX: Final = 1000
"""Number of delta commits since the last compaction at which writes are rejected while an older
instant of the data table is pending: Apache Hudi's
`hoodie.metadata.max.deltacommits.when_pending`."""

_WITH_RANGES: Final = (COLUMN_STATS.path, PARTITION_STATS.path)
"""Partitions whose newest entries may add to older ones."""
_METADATA_SERVICES: Final = frozenset({Action.COMPACTION, Action.CLEAN})
_MIB: Final = 1 << 20


def run_services(table: MetadataTable, *, compact_after: int, engine: Engine) -> MetadataTable:
    """Finish pending services, compact if due, then clean.  Most calls have nothing to do.

    table: opened under the table's lock.  Returns the table in its state after the services.
    """
    is_idle = not table.timeline.where(_METADATA_SERVICES, State.REQUESTED, State.INFLIGHT)
    compacted = finish_pending(table, engine)
    newest = compaction_due(table.timeline, table.data, compact_after)
    if newest is None and not compacted:
        newest = compaction_due(table.timeline, table.data, _LOGS_MIN)
        if newest is not None and not _is_heavy(table):
            newest = None
    if newest is not None and not compacted:
        compacted = _schedule_and_compact(table, newest, engine)
    if not compacted:
        return table if is_idle else table.again()
    table = table.again()
    clean_if_due(table)
    return table.again()


def _is_heavy(table: MetadataTable) -> bool:
    """Whether the files of the record index are large enough to slow down look-ups."""
    if RECORD_INDEX.path not in table.partitions_listed:
        return False
    largest = others = 0
    for _, file_slice in table.numbered_slices(RECORD_INDEX):
        base = file_slice.base.size_bytes if file_slice.base else 0
        sizes = [base, *(log.size_bytes for log in file_slice.logs)]
        largest += max(sizes)
        others += sum(sizes) - max(sizes)
    return others >= max(_HEAVY_BYTES, largest // 2)


def finish_pending(table: MetadataTable, engine: Engine) -> bool:
    """Execute pending plans.  Returns whether there was a compaction among them.

    Must run before any log is written: a pending compaction would lose logs written to the slices
    that it replaces.
    """
    compactions = table.timeline.where({Action.COMPACTION}, State.REQUESTED, State.INFLIGHT)
    for pending in compactions:
        _compact(table, pending, engine)
    for pending in table.timeline.where({Action.CLEAN}, State.REQUESTED, State.INFLIGHT):
        run_clean(table.log, pending)
    return bool(compactions)


def compaction_due(
    metadata_timeline: Timeline, data: Timeline, compact_after: int
) -> InstantTime | None:
    """The newest delta commit, if the logs up to it are due for compaction.  Pure."""
    since = _since_compaction(metadata_timeline)
    newest = since.last
    if newest is None or len(since) < compact_after:
        return None
    if _blocking(since, data):
        return None
    return newest.time


def _blocking(since: Timeline, data: Timeline) -> Timeline:
    """Pending instants of the data table that compaction of these delta commits must wait for.

    Where completion times decide which logs a compaction contains, only those with a delta commit;
    otherwise all that are not later than the newest delta commit.
    """
    newest = since.last
    if newest is None:
        return Timeline()
    if newest.completed_at is not None:
        return data.pending.holding(i for i in data.pending if i.time in since.times)
    return data.pending.up_to(newest.time)


def _since_compaction(metadata_timeline: Timeline) -> Timeline:
    """The delta commits that the last compaction did not include: completed after it was
    requested."""
    deltas = metadata_timeline.where({Action.DELTA_COMMIT}, State.COMPLETED)
    last = metadata_timeline.where({Action.COMMIT}, State.COMPLETED).last
    if last is None:
        return deltas
    return deltas.holding(i for i in deltas if i.completion > last.time)


def check_bounded(metadata_timeline: Timeline, data: Timeline, mine: Instant) -> None:
    """Raise WriteConflictError before a delta commit that would exceed PENDING_MAX, where a pending
    instant of the data table has prevented compaction.  Pure.

    mine: the data instant about to be written.  The oldest pending one may always continue, as
    compaction waits for it to end.
    """
    since = _since_compaction(metadata_timeline)
    count, first = len(since), _blocking(since, data).first
    if count < PENDING_MAX or first is None or first.time >= mine.time:
        return
    raise WriteConflictError(
        "the metadata table cannot be compacted while an instant of the table stays pending",
        pending=first,
        delta_commits=count,
        hint="complete or undo the pending instant with compact, cluster, clean, "
        "unschedule_compaction, unschedule_clustering, publish or discard",
    )


def _schedule_and_compact(table: MetadataTable, newest: InstantTime, engine: Engine) -> bool:
    """Plan a compaction, store the plan, execute it.  False if no group has log entries."""
    chosen = [
        file_slice
        for partition in maintained(table)
        for number, file_slice in table.numbered_slices(partition)
        if _has_entries(table, file_slice, number)
    ]
    if not chosen:
        return False
    plan = compaction_plan(chosen).to_avro()
    requested = request_own(
        table.log,
        Action.COMPACTION,
        plan,
        follows=newest,
        suffix=COMPACTION_SUFFIX,
        data=table.data,
    )
    _compact(table, requested, engine)
    return True


def _has_entries(table: MetadataTable, file_slice: FileSlice, number: int) -> bool:
    """Whether the slice's logs contain committed entries."""
    logs_only = replace(MapSlice.of(file_slice, number, table.valid_in(file_slice)), base=None)
    return bool(file_slice.logs) and bool(layers(table.log.fs, logs_only))


@dataclass(frozen=True, slots=True)
class Rewrite:
    """The task of a compaction for one file group.  fs: rooted at the metadata table."""

    fs: FileSystem
    map_slice: MapSlice
    file_id: str
    instant: InstantTime
    at: InstantTime
    schema: str = SCHEMA


def _compact(table: MetadataTable, pending: Instant, engine: Engine) -> None:
    """Execute a compaction plan, or resume an interrupted execution."""
    log = table.log
    plan = log.plan(pending, CompactionPlan.from_record)
    if pending.state is State.REQUESTED:
        pending = log.start(pending)
    else:
        _delete_bases_at(table, pending.time)
    before = load_view(
        log,
        table.timeline.where(None, State.COMPLETED),
        StoreListing(log.fs),
        partitions=[partition.path for partition in maintained(table)],
        limit=InstantTime(pending.time),
    )
    rewrites = list(_rewrites(table, before, plan, pending.time))
    SHARED.clear()  # mostly blocks of files that are replaced here; the merge needs their memory
    release_freed_memory()
    stats = engine.run(rewrite, rewrites, label="metadata-compaction")
    written = tuple(stat for stat in stats if stat is not None)
    done = CommitMetadata(
        written,
        operation="COMPACT",
        compacted=True,
        extra={"schema": records_of(table.config.layout.index_version).commit},
    )
    log.complete(pending, log.encode(done))


def _delete_bases_at(table: MetadataTable, at: InstantTime) -> None:
    """Delete the base files of an interrupted attempt."""
    fs = table.log.fs
    for partition in maintained(table):
        names = ((info.path, parse_data_file(info.name)) for info in fs.children(partition.path))
        fs.delete(p for p, n in names if isinstance(n, BaseFileName) and n.instant == at)


def _rewrites(
    table: MetadataTable, view: TableView, plan: CompactionPlan, at: InstantTime
) -> Iterable[Rewrite]:
    kinds = {partition.path: partition for partition in maintained(table)}
    operations = _of_current_partitions(table, view, plan, at)
    in_index = [each for each in view.latest_slices() if each.partition == RECORD_INDEX.path]
    for file_slice in planned_slices(view, operations, at=at):
        kind = kinds.get(file_slice.partition)
        number = group_number(kind, file_slice.file_id) if kind else None
        if number is None:
            raise UnsupportedTableError(
                "cannot run a pending compaction of the metadata table",
                instant=at,
                partition=file_slice.partition,
                file_id=file_slice.file_id,
                hint="run it with Apache Hudi, or rebuild the metadata table",
            )
        whole = whole_slice(view, file_slice)
        is_global = whole.partition == RECORD_INDEX.path and not table.is_by_partition
        groups = len(in_index) if is_global else 1
        mapped = MapSlice.of(whole, number, table.valid_in(whole), groups=groups)
        schema = _schema_of(table, file_slice.partition)
        yield Rewrite(table.log.fs, mapped, file_slice.file_id, file_slice.instant, at, schema)


def _of_current_partitions(
    table: MetadataTable, view: TableView, plan: CompactionPlan, at: InstantTime
) -> list[CompactionOperation]:
    """The operations of a plan without those of partitions that were dropped since."""
    times: dict[str, list[InstantTime]] = {}
    for group in view.groups.values():
        times.setdefault(group.id.partition, []).extend(each.instant for each in group.slices)
    created = PartitionCreations.of(table.timeline, times)
    return [
        operation
        for operation in plan.operations
        if operation.group.partition in table.partitions_listed
        and not created.follows(operation.group.partition, at)
    ]


def _schema_of(table: MetadataTable, partition: str) -> str:
    """The schema of the values in new base files of a partition."""
    if partition == RECORD_INDEX.path:
        return SCHEMA
    return records_of(table.config.layout.index_version).stored


def rewrite(task: Rewrite) -> WriteStat | None:
    """Write one group's entries as a new base file.

    A group without live entries gets no base file unless it has one already: Apache Hudi 0.15
    cannot scan an HFile without cells, and logs whose deletes cover all their entries may stay.
    """
    began = time.monotonic()
    file_slice = task.map_slice
    name = BaseFileName(task.file_id, new_write_token(file_slice.number), task.at, HFILE)
    done = None
    if _holds_keys(file_slice.partition):
        with suppress(UnsortedError):
            done = _write_chunks(task, name)
    if done is None:
        merged = merged_files if file_slice.partition == FILES.path else merged_newest
        keys, values = merged(task.fs, file_slice, task.schema)
        if not len(keys) and file_slice.base is None:
            return None
        size = write_base_hfile(task.fs, file_slice.partition, name, keys, values, task.schema)
        done = size, len(keys)
    size, count = done
    if not size:
        return None
    return WriteStat(
        partition=file_slice.partition,
        file_id=task.file_id,
        path=join(file_slice.partition, str(name)),
        previous_instant=task.instant if file_slice.base else None,
        write_count=count,
        delete_count=0,
        update_count=count if file_slice.base else 0,
        insert_count=0 if file_slice.base else count,
        size_bytes=size,
        write_bytes=size,
        compacted_log_files=len(file_slice.logs),
        compacted_log_bytes=sum(log.size_bytes for log in file_slice.logs),
        compacted_updates=count,
        compacted_blocks=len(file_slice.logs),
        create_millis=round((time.monotonic() - began) * 1000),
    )


def _holds_keys(partition: str) -> bool:
    """Whether a partition has an entry for each record, too many to merge in memory."""
    return partition == RECORD_INDEX.path or partition.startswith(SECONDARY_PREFIX)


def _write_chunks(task: Rewrite, name: BaseFileName) -> tuple[int, int]:
    """Write a base file of keys, merged chunk by chunk; returns (size, entries), or
    (0, 0) where there is nothing to write.  Raises UnsortedError and then leaves no file."""
    file_slice = task.map_slice
    found = layers(task.fs, file_slice)
    chunks = merged_chunks(
        found, lambda v, layer: _in_our_schema(file_slice, v, layer, task.schema)
    )
    first = next(chunks, None)
    if first is None and file_slice.base is None:
        return 0, 0
    return write_base_in_chunks(
        task.fs,
        file_slice.partition,
        name,
        chain([first] if first else [], chunks),
        entries_max=entries_at_most(found),
        schema=task.schema,
    )


def merged_newest(fs: FileSystem, file_slice: MapSlice, schema: str = SCHEMA) -> Chunk:
    """(keys, values) of a group in key order: the newest value of each key that has one.  Ranges
    that add to older ones are widened."""
    keys: list[pa.Array] = []
    values: list[pa.Array] = []
    for layer in layers(fs, file_slice):
        if isinstance(layer, DeleteLayer):
            keys.append(layer.keys.cast(pa.binary()))
            values.append(pa.nulls(len(layer.keys), pa.binary()))
            continue
        for batch in layer.batches():
            keys.append(batch.column(0))
            values.append(_in_our_schema(file_slice, batch.column(1), layer, schema))
    all_keys, all_values = _joined(keys), _joined(values)
    newest = pa.array(latest(all_keys))
    if file_slice.partition in _WITH_RANGES and len(newest) < len(all_keys):
        found = widened(all_keys, all_values, schema, path=file_slice.partition)
        return rows_with_values(*found, None)
    return rows_with_values(all_keys, all_values, newest)


def _in_our_schema(
    file_slice: MapSlice, values: pa.Array, layer: ValueLayer, schema: str
) -> pa.Array:
    if file_slice.partition == RECORD_INDEX.path:
        return transcode_locations(values, layer.schema, path=layer.path, target=schema)
    if file_slice.partition.startswith(SECONDARY_PREFIX):
        return live_values(values, layer.schema, path=layer.path)
    fields = payload_fields(file_slice.partition)
    return transcode(values, layer.schema, fields, path=layer.path, target=schema)


def _joined(parts: list[pa.Array]) -> pa.Array:
    """One array; of the large type where 32-bit offsets could overflow."""
    kind = pa.large_binary() if sum(part.nbytes for part in parts) > 1 << 30 else pa.binary()
    return pa.concat_arrays([part.cast(kind) for part in parts]) if parts else pa.array([], kind)


def merged_files(
    fs: FileSystem, file_slice: MapSlice, schema: str = SCHEMA
) -> tuple[pa.Array, pa.Array]:
    """(keys, values) of a group of `files`; tombstones are applied and dropped."""
    names: set[str] = set()
    for layer in layers(fs, file_slice):
        if isinstance(layer, ValueLayer):
            for batch in layer.batches():
                names.update(batch.column(0).cast(pa.string()).to_pylist())
    keys = sorted(names)
    records = file_records(fs, file_slice, pa.array(keys, pa.string()))
    alive = {
        key: {name: size for name, size in record.items() if size is not None}
        for key, record in zip(keys, records, strict=True)
        if record is not None
    }
    return encode_files(alive, schema)


def release_freed_memory() -> None:
    """Make the C library return freed memory, where supported (glibc); some milliseconds.

    For moments after much was freed and before another allocator, Arrow's, needs much.
    """
    trim = getattr(ctypes.CDLL(None), "malloc_trim", None)
    if trim is not None:
        trim(0)

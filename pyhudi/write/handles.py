"""Handles: write one file of one file group, and say what was written.

Each file gets its marker first and a name no other attempt can have; it is durable when the
handle returns.  A task that runs twice leaves a second file, which nobody names and the commit
removes.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass, replace
from itertools import chain

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import BloomFilter
from pyhudi.filenames import BaseFileName, LogFileName, join, new_write_token
from pyhudi.formats import parquet
from pyhudi.formats.conform import conform
from pyhudi.formats.logblock import data_block, delete_block
from pyhudi.formats.logfile import BlockKind
from pyhudi.options import BaseFileOptions, LogFormat
from pyhudi.read.overlay import wanting
from pyhudi.read.rules import MergeRules
from pyhudi.read.slices import SliceSpec, read_slice
from pyhudi.records import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_COLUMNS,
    PARTITION_PATH,
    RECORD_KEY,
    FileGroupId,
    InstantTime,
    with_meta,
)
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.listing import ensure_partition
from pyhudi.table.view import FileSlice
from pyhudi.timeline.stats import WriteStat
from pyhudi.write.assign import Mode, Target
from pyhudi.write.markers import MarkerKind, announce
from pyhudi.write.route import Routed, Router
from pyhudi.write.settle import outcome, settle
from pyhudi.write.tag import Action


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What every file of a write has in common.

    schema: user columns.
    """

    fs: FileSystem
    instant: InstantTime
    schema: pa.Schema
    avro_schema: str  # with the meta fields
    rules: MergeRules
    base_file: BaseFileOptions
    log_format: LogFormat
    natural_deletes: bool  # a delete operation: deletes win whatever is stored
    order_by: tuple[str, ...] = ()  # columns that sort the rows of new files
    stored: SliceSpec | None = None  # how to read what a log goes on top of, where it must be known


@dataclass(frozen=True, slots=True)
class WriteTask:
    """Targets for one task, by number and value."""

    plan: FilePlan
    router: Router
    targets: tuple[tuple[int, Target], ...]


@dataclass(frozen=True, slots=True)
class Written:
    """One file written; stat is None where there was nothing to write after all.

    unchanged: incoming rows that lost to what is stored.
    """

    stat: WriteStat | None
    inserted: int
    updated: int
    deleted: int
    unchanged: int


def write_targets(task: WriteTask) -> list[Written]:
    """Write each target of a task; runs on workers, possibly twice.

    A target all of whose rows lost to stored ones is left as it is.  What Arrow freed goes back
    to the system between files, or a task of many would hold more than the largest of them.
    """
    written = []
    for number, target in task.targets:
        pa.default_memory_pool().release_unused()
        if target.mode is Mode.CREATE:
            written += _create(task.plan, number, target, task.router)
            continue
        routed = task.router.rows_of(number)
        if not routed.rows.num_rows:
            continue
        ensure_partition(task.plan.fs, target.group.partition, task.plan.instant)
        match target.mode:
            case Mode.REWRITE:
                written.append(_rewrite(task.plan, number, target, routed))
            case Mode.APPEND:
                written.append(_append(task.plan, number, target, routed))
    return written


def _create(plan: FilePlan, number: int, target: Target, router: Router) -> list[Written]:
    """The first base file of a new group; none without rows.  Holds a row group at a time."""
    began = time.monotonic()
    pieces = router.pieces_of(number, rows=plan.base_file.row_group_rows, order_by=plan.order_by)
    first = next(pieces, None)
    if first is None:
        return []
    ensure_partition(plan.fs, target.group.partition, plan.instant)
    name = _base_name(plan, number, target.group)
    bloom = new_bloom(plan.base_file)
    count = 0

    def stored() -> Iterator[pa.Table]:
        nonlocal count
        for piece in chain((first,), pieces):
            rows = _with_meta(plan, piece, target.group, number, str(name), count)
            bloom.add(rows.column(RECORD_KEY))
            count += rows.num_rows
            yield rows

    size = _write_base(plan, target.group, name, stored(), bloom, MarkerKind.CREATE, None)
    stat = _base_stat(target.group, name, size, count, None, began)
    return [Written(_counted(stat, inserted=count), count, 0, 0, 0)]


def _rewrite(plan: FilePlan, number: int, target: Target, routed: Routed) -> Written:
    """The next base file of a group: stored rows less those replaced, then the incoming ones."""
    began = time.monotonic()
    assert target.slice is not None and target.slice.base is not None
    base = target.slice.base
    wanted = pa.schema([f for f in with_meta(plan.schema) if f.name not in _CONSTANT])
    few_valued = [f.name for f in wanted if f.name not in (RECORD_KEY, *plan.rules.ordering)]
    stored = parquet.read_base(plan.fs, base.path, schema=wanted, dictionaries=few_valued)
    settled = settle(stored, routed, plan.rules, natural_deletes=plan.natural_deletes)
    name = _base_name(plan, number, target.group)
    incoming = outcome(stored, routed, settled, plan.rules)
    kept = stored if settled.keep.all() else stored.filter(pa.array(settled.keep))
    rows = _constants(kept, target.group, str(name))
    if incoming.num_rows:
        fresh = _with_meta(plan, incoming, target.group, number, str(name), kept.num_rows)
        rows = pa.concat_tables([rows, conform(fresh, rows.schema)])
    foot = parquet.footer(plan.fs, base.path)
    bloom = foot.bloom  # deleted keys stay in it: a filter may say yes too often, never no
    if bloom is None:
        bloom = new_bloom(plan.base_file)
        bloom.add(rows.column(RECORD_KEY))
    else:
        bloom.add(incoming.filter(pa.array(~settled.matched[settled.emit])).column(RECORD_KEY))
    keys = (foot.min_key, foot.max_key) if foot.min_key is not None and foot.max_key else None
    size = _write_base(plan, target.group, name, rows, bloom, MarkerKind.MERGE, keys, incoming)
    stat = _base_stat(target.group, name, size, rows.num_rows, base.name.instant, began)
    stat = _counted(
        stat, inserted=settled.inserted, updated=settled.updated, deleted=settled.deleted
    )
    return Written(stat, settled.inserted, settled.updated, settled.deleted, settled.unchanged)


def _append(plan: FilePlan, number: int, target: Target, routed: Routed) -> Written:
    """A log file on top of the group's newest slice: one data block, then one delete block."""
    began = time.monotonic()
    assert target.slice is not None
    slice_, group = target.slice, target.group
    routed, unchanged = _in_order(plan, slice_, routed)
    if not routed.rows.num_rows:
        return Written(None, 0, 0, 0, unchanged)
    puts = routed.action == Action.PUT
    data = routed.rows.filter(pa.array(puts))
    gone = routed.rows.filter(pa.array(~puts))
    blocks = []
    if data.num_rows:
        rows = _with_meta(plan, data, group, number, group.file_id, 0)
        kind = BlockKind.PARQUET if plan.log_format is LogFormat.PARQUET else BlockKind.AVRO
        blocks.append(
            data_block(rows, kind=kind, instant=plan.instant, avro_schema=plan.avro_schema)
        )
    blocks += _delete_blocks(plan, group, gone, routed.action[~puts])
    token = new_write_token(number)
    instant, version = append_position(slice_)
    name = LogFileName(group.file_id, instant, version, token)
    announce(plan.fs, plan.instant, group.partition, name, kind=MarkerKind.APPEND)
    path = join(group.partition, str(name))
    with plan.fs.open_sink(path) as sink:
        for block in blocks:
            sink.write(block)
        size = sink.tell()
    stat = WriteStat(
        partition=group.partition,
        file_id=group.file_id,
        path=path,
        previous_instant=slice_.instant,
        write_count=data.num_rows,
        delete_count=gone.num_rows,
        update_count=data.num_rows,
        insert_count=0,
        size_bytes=size,
        write_bytes=size,
        log_version=version,
        base_file=str(slice_.base.name) if slice_.base else "",
        log_files=(*(str(log.name) for log in slice_.logs), str(name)),
        upsert_millis=_millis_since(began),
    )
    return Written(stat, 0, data.num_rows, gone.num_rows, unchanged)


def _in_order(plan: FilePlan, slice_: FileSlice, routed: Routed) -> tuple[Routed, int]:
    """The rows to log, and how many of the batch lost.

    Readers merge log with log and then with the base file.  That is the order of the commits
    unless a row comes late, whose values would then go before or behind others than a rewrite's:
    such a row is logged as what it makes of its record, and so are rows that lack values where
    readers would not find them.
    """
    if plan.stored is None:
        return routed, 0
    spec, rules = plan.stored, plan.stored.rules
    narrow = replace(spec, columns=(RECORD_KEY, *rules.ordering))
    known = read_slice(plan.fs, slice_, spec=narrow)
    settled = settle(known, routed, rules, natural_deletes=plan.natural_deletes)
    puts = routed.rows.filter(pa.array(settled.emit))
    late = settled.beneath[settled.emit]
    if rules.fills_before_logging:
        late = late | (wanting(puts, rules) & settled.matched[settled.emit])
    if late.any():
        known = read_slice(plan.fs, slice_, spec=spec)
        settled = settle(known, routed, rules, natural_deletes=plan.natural_deletes)
        whole = outcome(known, routed, settled, rules)
        chosen = np.arange(len(puts)) + np.where(late, len(puts), 0)
        puts = pa.concat_tables([puts, whole]).take(pa.array(chosen))
    gone = (routed.action != Action.PUT) & ~settled.lost
    rows = pa.concat_tables([puts, routed.rows.filter(pa.array(gone))])
    action = np.concatenate([routed.action[settled.emit], routed.action[gone]])
    return Routed(rows, action), settled.unchanged


def append_position(slice_: FileSlice) -> tuple[InstantTime, int]:
    """(slice instant, version) of the next log: the newest slice's name, one version up."""
    newest = slice_.instant
    versions = [0]
    for log in slice_.logs:
        assert isinstance(log.name, LogFileName)
        if log.name.instant > newest:
            newest, versions = log.name.instant, [0]
        if log.name.instant == newest:
            versions.append(log.name.version)
    return newest, max(versions) + 1


def _delete_blocks(
    plan: FilePlan, group: FileGroupId, gone: pa.Table, action: npt.NDArray[np.uint8]
) -> list[bytes]:
    """Deletes with an ordering value first, then those that win by nature (moves, by key)."""
    if not gone.num_rows:
        return []
    ordered = np.zeros(gone.num_rows, np.bool_)
    ordering = plan.rules.ordering
    if len(ordering) == 1 and plan.rules.tombstones and not plan.natural_deletes:
        valid = pc.is_valid(gone.column(ordering[0])).to_numpy()
        ordered = (action == Action.DELETE) & np.asarray(valid, np.bool_)
    blocks = []
    for mask, has_order in ((ordered, True), (~ordered, False)):
        if mask.any():
            rows = gone.filter(pa.array(mask))
            blocks.append(
                delete_block(
                    rows.column(RECORD_KEY),
                    group.partition,
                    rows.column(ordering[0]) if has_order else None,
                    instant=plan.instant,
                    avro_schema=plan.avro_schema,
                )
            )
    return blocks


_CONSTANT = (PARTITION_PATH, FILE_NAME)
"""Meta columns with one value a file: never read for a rewrite, always made."""


def new_bloom(options: BaseFileOptions) -> BloomFilter:
    return BloomFilter(
        options.bloom_entries,
        options.bloom_fpp,
        kind=options.bloom_kind,
        entries_max=options.bloom_entries_max,
    )


def _base_name(plan: FilePlan, number: int, group: FileGroupId) -> BaseFileName:
    return BaseFileName(group.file_id, new_write_token(number), plan.instant)


def _repeated(value: str, count: int) -> pa.DictionaryArray:
    """One value `count` times, which costs a reader and the writer next to nothing."""
    zeros = pa.array(np.zeros(count, np.int32))
    return pa.DictionaryArray.from_arrays(zeros, pa.array([value], pa.string()))


def _with_meta(
    plan: FilePlan, rows: pa.Table, group: FileGroupId, number: int, file_name: str, first: int
) -> pa.Table:
    """Incoming rows as they are stored: meta columns, then the user columns."""
    count = rows.num_rows
    ordinals = pa.array(np.arange(first, first + count)).cast(pa.string())
    seqno = pc.binary_join_element_wise(f"{plan.instant}_{number}", ordinals, "_")
    stamped = pa.table(
        {
            COMMIT_TIME: pa.repeat(pa.scalar(str(plan.instant)), count),
            COMMIT_SEQNO: seqno,
            RECORD_KEY: rows.column(RECORD_KEY),
            **{name: rows.column(name) for name in plan.schema.names},
        }
    )
    return _constants(stamped, group, file_name)


def _constants(rows: pa.Table, group: FileGroupId, file_name: str) -> pa.Table:
    """`rows` with the columns that have one value a file, all in the stored order."""
    columns = {
        PARTITION_PATH: _repeated(group.partition, rows.num_rows),
        FILE_NAME: _repeated(file_name, rows.num_rows),
    }
    names = [*META_COLUMNS, *(n for n in rows.schema.names if n not in META_COLUMNS)]
    return pa.table({n: columns[n] if n in columns else rows.column(n) for n in names})


def _write_base(
    plan: FilePlan,
    group: FileGroupId,
    name: BaseFileName,
    rows: pa.Table | Iterator[pa.Table],
    bloom: BloomFilter,
    kind: MarkerKind,
    keys: tuple[str, str] | None,
    added: pa.Table | None = None,
) -> int:
    """Announce and write a base file; its size in bytes.

    keys: the key range of the rows but for `added`, where it is known.
    """
    announce(plan.fs, plan.instant, group.partition, name, kind=kind)
    low, high = _range(keys, added)
    with plan.fs.open_sink(join(group.partition, str(name))) as sink:
        parquet.write_base(
            sink,
            rows,
            avro_schema=plan.avro_schema,
            bloom=bloom,
            min_key=low,
            max_key=high,
            compression=plan.base_file.codec,
            level=plan.base_file.codec_level or (1 if plan.base_file.codec == "zstd" else None),
            row_group_rows=plan.base_file.row_group_rows,
        )
        return sink.tell()


def _range(keys: tuple[str, str] | None, added: pa.Table | None) -> tuple[str | None, str | None]:
    if keys is None or added is None:
        return None, None
    if not added.num_rows:
        return keys
    found = pc.min_max(added.column(RECORD_KEY)).as_py()
    return min(keys[0], found["min"]), max(keys[1], found["max"])


def _base_stat(
    group: FileGroupId,
    name: BaseFileName,
    size: int,
    rows: int,
    previous: InstantTime | None,
    began: float,
) -> WriteStat:
    return WriteStat(
        partition=group.partition,
        file_id=group.file_id,
        path=join(group.partition, str(name)),
        previous_instant=previous,
        write_count=rows,
        delete_count=0,
        update_count=0,
        insert_count=0,
        size_bytes=size,
        write_bytes=size,
        create_millis=_millis_since(began),
    )


def _counted(
    stat: WriteStat, *, inserted: int = 0, updated: int = 0, deleted: int = 0
) -> WriteStat:
    return replace(stat, insert_count=inserted, update_count=updated, delete_count=deleted)


def _millis_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)


__all__ = ["FilePlan", "WriteTask", "Written", "write_targets"]

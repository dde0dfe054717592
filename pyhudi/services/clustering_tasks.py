"""Tasks of a clustering: the rows of some slices rewritten to new file groups.

```
few rows, or rows in their current order     slices -> file
many rows to sort                            slices -> sample -> bounds of ranges (driver)
                                             slice  -> its rows spilled, range by range
                                             ranges -> file, one range after another
all                                          keys of the files -> index entries, one task per bucket
```

Rows retain their commit time and sequence number; only the file name changes.  Memory of a task: a
slice or a range; if few rows are sorted, all rows of a group.
Source: table_format 7.9.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi._native import BloomFilter
from pyhudi.arrays import taken
from pyhudi.filenames import BaseFileName, join, new_write_token
from pyhudi.index.consistent_hashing import RingShare
from pyhudi.metadata.delta_commit import BucketTarget
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.writer import write_bucket
from pyhudi.options import Layout
from pyhudi.planning.clustering import SortOrder
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.records import FILE_NAME, PARTITION_PATH, RECORD_KEY, FileGroupId
from pyhudi.services.space_filling_curves import Curve
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged, Staging
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.listing import ensure_partition
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import Instant
from pyhudi.transaction.markers import MarkerKind
from pyhudi.write.files.base_writer import write_base_file
from pyhudi.write.files.file_plan import FilePlan, millis_since, with_constants
from pyhudi.write.files.key_filter import filter_of
from pyhudi.write.input.batch import BatchChunk, key_part, rows_of_bucket
from pyhudi.write.placement.sorted_insert import order_of, range_numbers

_NUMBER: Final = "number"


@dataclass(frozen=True, slots=True)
class ClusterWork:
    """What every task of a clustering needs.

    spec: every column.  hash: hash function of the record index; None without a record index.
    """

    plan: FilePlan
    spec: SliceSpec
    order: SortOrder
    sample_rows: int
    staging: Staging
    hash: KeyHash | None


@dataclass(frozen=True, slots=True)
class Sorter:
    """Sort keys of rows: their columns, or their position on a curve; then the record key."""

    columns: tuple[str, ...]
    curve: Curve | None = None

    @classmethod
    def of(cls, order: SortOrder, sample: pa.Table) -> Sorter:
        if order.layout is Layout.LINEAR or len(order.columns) < 2:
            return cls(order.columns)
        return cls(order.columns, Curve.of(order.layout, sample.select(list(order.columns))))

    def keys(self, rows: pa.Table) -> pa.Table:
        """The sort keys of the rows, in row order; all columns are sort columns, in their order."""
        columns = [*dict.fromkeys((*self.columns, RECORD_KEY))]
        if self.curve is None:
            return rows.select(columns)
        numbers = pa.array(self.curve.numbers(rows))
        return pa.table({_NUMBER: numbers, RECORD_KEY: rows.column(RECORD_KEY)})

    def bounds(self, sample: pa.Table, range_count: int) -> pa.Table:
        """The first key of each range but the first; ranges have about equal numbers of rows."""
        keys = self.keys(sample)
        keys = keys.take(order_of(keys))
        at = np.arange(1, range_count) * keys.num_rows // range_count
        return keys.take(pa.array(at if keys.num_rows else at[:0]))


@dataclass(frozen=True, slots=True)
class SampleTask:
    """One slice to sample: at most `rows_max` of its rows, evenly spaced."""

    work: ClusterWork
    file_slice: FileSlice
    rows_max: int


def sample_slice(task: SampleTask) -> pa.Table:
    """The sort columns and the record key of the sampled rows."""
    work = task.work
    columns = tuple(dict.fromkeys((*work.order.columns, RECORD_KEY)))
    rows = read_slice(work.plan.fs, task.file_slice, spec=replace(work.spec, columns=columns))
    count = min(task.rows_max, rows.num_rows)
    at = np.unique(np.linspace(0, rows.num_rows - 1, count).astype(np.int64))
    return taken(rows, at)


@dataclass(frozen=True, slots=True)
class DealTask:
    """One slice to distribute over ranges."""

    work: ClusterWork
    file_slice: FileSlice
    sorter: Sorter
    bounds: pa.Table


def deal_slice(task: DealTask) -> list[Staged | None]:
    """Spill the slice's rows, one item per range number; None for a range without rows."""
    work = task.work
    pa.default_memory_pool().release_unused()
    rows = read_slice(work.plan.fs, task.file_slice, spec=work.spec)
    numbers = range_numbers(task.sorter.keys(rows), task.bounds)
    order = np.argsort(numbers, kind="stable")
    ends = np.cumsum(np.bincount(numbers, minlength=task.bounds.num_rows + 1))
    dealt: list[Staged | None] = []
    begin = 0
    for number, end in enumerate(ends.tolist()):
        some = taken(rows, order[begin:end]) if end > begin else None
        name = f"range-{number:05d}"
        dealt.append(None if some is None else work.staging.put(name, some))
        begin = end
    return dealt


@dataclass(frozen=True, slots=True)
class Stretch:
    """A contiguous part of a slice's rows; begin and end are fractions of its row count."""

    file_slice: FileSlice
    begin: float = 0.0
    end: float = 1.0

    def cut(self, rows: pa.Table) -> pa.Table:
        first, last = (round(share * rows.num_rows) for share in (self.begin, self.end))
        return rows.slice(first, last - first)


@dataclass(frozen=True, slots=True)
class OutputTask:
    """One new file group: built from stretches of slices, or from spilled ranges.

    Rows of all stretches are sorted together if the clustering sorts.  share: for a resize of
    buckets, the part of the hash ring whose rows the group takes.
    """

    work: ClusterWork
    group: FileGroupId
    number: int
    stretches: tuple[Stretch, ...] = ()
    ranges: tuple[tuple[Staged, ...], ...] = ()
    sorter: Sorter | None = None
    share: RingShare | None = None


@dataclass(frozen=True, slots=True)
class Output:
    """A written file.  keys: its record keys by index bucket, if the table has a record index."""

    stat: WriteStat
    keys: BatchChunk | None


def write_output(task: OutputTask) -> Output | None:
    """Write the group's file; None if it has no rows.  May run twice."""
    began = time.monotonic()
    work, plan = task.work, task.work.plan
    pa.default_memory_pool().release_unused()
    chunks = (rows for rows in _row_chunks(task) if rows.num_rows)
    first = next(chunks, None)
    if first is None:
        return None
    ensure_partition(plan.fs, task.group.partition, plan.instant)
    name = BaseFileName(task.group.file_id, new_write_token(task.number), plan.instant)
    keys: list[pa.ChunkedArray] = []
    count = 0

    def stored() -> Iterator[pa.Table]:
        nonlocal count
        for rows in _chain(first, chunks):
            keys.append(rows.column(RECORD_KEY))
            count += rows.num_rows
            yield with_constants(
                rows.drop_columns([PARTITION_PATH, FILE_NAME]), task.group, str(name)
            )

    def bloom() -> BloomFilter | None:
        return filter_of(plan.base_file, _joined(keys))

    size = write_base_file(
        _grouped(plan, first), task.group, name, stored(), bloom, MarkerKind.CREATE
    )
    path = join(task.group.partition, str(name))
    plan.check_stands(path)
    part = None
    if work.hash is not None:
        part = key_part(_joined(keys), work.hash, work.staging)
    stat = WriteStat(
        partition=task.group.partition,
        file_id=task.group.file_id,
        path=path,
        previous_instant=None,
        write_count=count,
        delete_count=0,
        update_count=0,
        insert_count=count,
        size_bytes=size,
        write_bytes=size,
        create_millis=millis_since(began),
    )
    return Output(stat, part)


def _joined(columns: Iterable[pa.ChunkedArray]) -> pa.ChunkedArray:
    return pa.chunked_array([array for column in columns for array in column.chunks])


def _row_chunks(task: OutputTask) -> Iterator[pa.Table]:
    """The rows in file order, in chunks."""
    work = task.work

    def read(stretch: Stretch) -> pa.Table:
        rows = stretch.cut(read_slice(work.plan.fs, stretch.file_slice, spec=work.spec))
        if task.share is None or not rows.num_rows:
            return rows
        return rows.filter(pa.array(task.share.has(rows.column(RECORD_KEY))))

    if task.ranges:
        assert task.sorter is not None
        for staged in task.ranges:
            yield _sorted(task.sorter, [part.load() for part in staged])
    elif work.order.columns:
        rows = [read(stretch) for stretch in task.stretches]
        yield _sorted(Sorter.of(work.order, _thinned(rows, work.sample_rows)), rows)
    else:
        for stretch in task.stretches:
            yield read(stretch)


def _thinned(tables: Sequence[pa.Table], rows_max: int) -> pa.Table:
    """At most `rows_max` of the rows, evenly spaced."""
    rows = pa.concat_tables(tables)
    step = -(-rows.num_rows // rows_max)
    return rows if step <= 1 else taken(rows, np.arange(0, rows.num_rows, step))


def _sorted(sorter: Sorter, tables: Sequence[pa.Table]) -> pa.Table:
    rows = pa.concat_tables(tables)
    return taken(rows, order_of(sorter.keys(rows)).to_numpy())


def _chain(first: pa.Table, rest: Iterator[pa.Table]) -> Iterator[pa.Table]:
    yield first
    yield from rest


def _grouped(plan: FilePlan, rows: pa.Table) -> FilePlan:
    """The plan with fewer rows per row group if the rows are wide."""
    options = plan.base_file
    row_bytes = max(1, rows.nbytes // rows.num_rows)
    fitting = max(1024, min(options.row_group_rows, options.row_group_bytes // row_bytes))
    return replace(plan, base_file=replace(options, row_group_rows=fitting))


@dataclass(frozen=True, slots=True)
class MoveTask:
    """Index entries of one bucket: records that have moved to other file groups."""

    fs: FileSystem
    instant: Instant
    target: BucketTarget
    moved: tuple[tuple[BatchChunk, FileGroupId], ...]


def write_moves(task: MoveTask) -> WriteStat | None:
    """Write the bucket's entries; None if it has none.  May run twice."""
    keys: list[pa.Array] = []
    counts = []
    for part, _ in task.moved:
        rows = rows_of_bucket(part, task.target.number)
        found = part.staged.load().column(RECORD_KEY).take(pa.array(rows))
        keys += found.chunks
        counts.append(len(rows))
    if not sum(counts):
        return None
    at = pa.array(np.repeat(np.arange(len(counts), dtype=np.int32), counts))
    groups = [group for _, group in task.moved]
    paths, ids = (
        pa.array(names, pa.string())
        for names in ([group.partition for group in groups], [group.file_id for group in groups])
    )
    return write_bucket(
        task.fs,
        task.target,
        task.instant,
        keys=pa.concat_arrays(keys),
        partition_path=pa.DictionaryArray.from_arrays(at, paths),
        file_id=pa.DictionaryArray.from_arrays(at, ids),
        deleted=pa.array([], pa.string()),
    )

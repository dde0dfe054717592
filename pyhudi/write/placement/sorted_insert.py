"""Sorted bulk inserts: range partitioning of rows over the files of a partition.

The assignment determines the number of files of a partition.  Samples of all buckets determine the
range bounds; each bucket then counts and groups its own rows by range, so that a file's rows are a
few slices of each bucket's tags, as in any write.  The record key is the last sort column unless
the options specify otherwise: it separates rows that are equal in all other columns.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.engine import Engine
from pyhudi.errors import OptionError
from pyhudi.options import BulkInsert
from pyhudi.records import RECORD_KEY
from pyhudi.storage.spill import Staging
from pyhudi.write.input.batch import BatchChunk, take_rows
from pyhudi.write.placement.assignment import Assignment, Route
from pyhudi.write.placement.tagging import BucketTags

_SAMPLES_A_FILE: Final = 64


def sort_columns(options: BulkInsert, schema: pa.Schema) -> tuple[str, ...]:
    """Columns that order the rows of a file; none if they stay in input order.

    Raises OptionError for a column that does not exist or cannot be sorted.
    """
    if not options.sorts_files:
        return ()
    option = "hoodie.bulkinsert.user.defined.partitioner.sort.columns"
    check_sortable(options.sort_columns, schema, option=option)
    if options.sort_columns and not options.ends_with_key:
        return options.sort_columns
    return (*(n for n in options.sort_columns if n != RECORD_KEY), RECORD_KEY)


def check_sortable(columns: Sequence[str], schema: pa.Schema, *, option: str) -> None:
    """Raise OptionError for a column that does not exist or cannot be sorted."""
    for name in columns:
        if name not in schema.names:
            raise OptionError("no such column to sort by", option=option, column=name)
        if pt.is_nested(schema.field(name).type):
            raise OptionError(
                "rows cannot be sorted by a nested column", option=option, column=name
            )


def by_range(
    parts: tuple[BatchChunk, ...],
    buckets: Sequence[BucketTags],
    assigned: Assignment,
    columns: tuple[str, ...],
    *,
    staging: Staging,
    engine: Engine,
) -> tuple[list[BucketTags], Assignment]:
    """Tags and routes that give each file of a partition a range of `columns`.

    All targets must be new files.  File sizes vary because bounds come from a sample.
    """
    files = _files_of(assigned)
    if not files:
        return list(buckets), assigned
    requests = [_Sample(parts, s, columns, {p: len(t) for p, t in files.items()}) for s in buckets]
    samples = engine.run(_sample, requests, label="sort")
    bounds = {
        path: _bounds([s[path] for s in samples if path in s], len(targets))
        for path, targets in files.items()
    }
    tasks = [
        _Deal(parts, bucket, route, columns, files, bounds, staging)
        for bucket, route in zip(buckets, assigned.routes, strict=True)
    ]
    dealt = engine.run(_deal, tasks, label="sort")
    counts = np.zeros(len(assigned.targets), np.int64)
    for _, route in dealt:
        for pairs in route.inserts:
            for count, target in pairs:
                counts[target] += count
    targets = tuple(
        replace(target, insert_count=count)
        for target, count in zip(assigned.targets, counts.tolist(), strict=True)
    )
    return [bucket for bucket, _ in dealt], Assignment(targets, tuple(r for _, r in dealt))


def _files_of(assigned: Assignment) -> dict[str, tuple[int, ...]]:
    """Targets by partition, for partitions with several targets."""
    files: dict[str, list[int]] = {}
    for number, target in enumerate(assigned.targets):
        files.setdefault(target.group.partition, []).append(number)
    return {path: tuple(numbers) for path, numbers in files.items() if len(numbers) > 1}


@dataclass(frozen=True, slots=True)
class _Sample:
    parts: tuple[BatchChunk, ...]
    bucket: BucketTags
    columns: tuple[str, ...]
    file_counts: dict[str, int]


def _sample(task: _Sample) -> dict[str, pa.Table]:
    """Sort columns of sampled rows of each path, evenly spaced over the bucket."""
    tags = task.bucket.tags.load()
    part, row = (tags.column(name).to_numpy() for name in ("part", "row"))
    found = {}
    begin = 0
    for path, count in zip(task.bucket.paths, task.bucket.insert_counts, strict=True):
        sample_count = task.file_counts.get(path, 0) * _SAMPLES_A_FILE
        if sample_count and count:
            at = begin + np.unique(
                np.linspace(0, count - 1, min(count, sample_count)).astype(np.int64)
            )
            found[path] = take_rows(task.parts, part[at], row[at], columns=task.columns)
        begin += count
    return found


def _bounds(samples: Sequence[pa.Table], file_count: int) -> pa.Table:
    """The first values of every file except the first."""
    sample = pa.concat_tables(samples)
    sample = sample.take(order_of(sample))
    at = np.arange(1, file_count) * sample.num_rows // file_count
    return sample.take(pa.array(at))


def order_of(rows: pa.Table) -> pa.Array:
    """Positions that sort rows by all columns in order; nulls come last."""
    return pc.sort_indices(rows, sort_keys=[(name, "ascending") for name in rows.schema.names])


@dataclass(frozen=True, slots=True)
class _Deal:
    parts: tuple[BatchChunk, ...]
    bucket: BucketTags
    route: Route
    columns: tuple[str, ...]
    files: dict[str, tuple[int, ...]]
    bounds: dict[str, pa.Table]
    staging: Staging


def _deal(task: _Deal) -> tuple[BucketTags, Route]:
    """The bucket's tags with the rows of each path grouped by file, and the matching route."""
    bucket = task.bucket
    tags = bucket.tags.load()
    part, row = (tags.column(name).to_numpy().copy() for name in ("part", "row"))
    inserts = []
    begin = 0
    for path, count, dealt in zip(
        bucket.paths, bucket.insert_counts, task.route.inserts, strict=True
    ):
        here = slice(begin, begin + count)
        begin += count
        targets = task.files.get(path)
        if targets is None or not count:
            inserts.append(dealt)
            continue
        values = take_rows(task.parts, part[here], row[here], columns=task.columns)
        file = range_numbers(values, task.bounds[path])
        order = np.argsort(file, kind="stable")
        part[here], row[here] = part[here][order], row[here][order]
        counts = np.bincount(file, minlength=len(targets)).tolist()
        inserts.append(tuple((n, t) for n, t in zip(counts, targets, strict=True) if n))
    columns = {"part": part, "row": row} | {
        name: tags.column(name) for name in tags.schema.names if name not in ("part", "row")
    }
    staged = task.staging.put(f"dealt-{bucket.bucket:05d}", pa.table(columns))
    return replace(bucket, tags=staged), replace(task.route, inserts=tuple(inserts))


def range_numbers(values: pa.Table, bounds: pa.Table) -> npt.NDArray[np.int64]:
    """Per row the number of bounds less than or equal to it.

    bounds: sorted, with the columns of `values`.
    """
    both = pa.concat_tables([bounds, values])
    order = order_of(both).to_numpy()
    is_bound = order < bounds.num_rows
    passed = np.cumsum(is_bound)
    numbers = np.empty(values.num_rows, np.int64)
    numbers[order[~is_bound] - bounds.num_rows] = passed[~is_bound]
    return numbers

"""Reader of file statistics in the metadata table: column ranges and bloom filters of keys.

Both describe one immutable file and stay valid as long as it exists.  Without an entry nothing is
known about a file; an entry's range may be wider than the file's values.
Source: table_format 9.4, 9.7; written by `records`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native.bloom import BloomFilter
from pyhudi._native.hashing import bucket_of, hash_id
from pyhudi.filenames import LogFileName, parse_data_file
from pyhudi.metadata.file_stats.partition_ranges import partition_key
from pyhudi.metadata.file_stats.ranges import ColumnRanges, as_flags, ranges_in
from pyhudi.metadata.file_stats.records import FileName, bloom_key
from pyhudi.metadata.hfile_slices import DeleteLayer, MapSlice, layers, newest_values
from pyhudi.metadata.payloads import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    PARTITION_STATS,
    MetadataPartition,
    decode_filters,
    decode_ranges,
    ranges_type,
)
from pyhudi.metadata.reader import MetadataTable
from pyhudi.storage.filesystem import FileSystem


def read_ranges(
    metadata: MetadataTable,
    files: Sequence[FileName],
    columns: Mapping[str, pa.DataType],
    partition: MetadataPartition = COLUMN_STATS,
) -> dict[str, ColumnRanges]:
    """Ranges of primitive columns in these files, or of functions of them.

    columns: names and the types of the ranges.  partition: `column_stats` or an expression index.
    Cost: one look-up per file and column.
    """
    tails = [bloom_key(folder, name) for folder, name in files]
    keys = pa.array([hash_id(column) + tail for column in columns for tail in tails], pa.string())
    found = entries_of(metadata, keys, partition)
    is_log = np.array([isinstance(parse_data_file(name), LogFileName) for _, name in files])
    result = {}
    for number, (column, kind) in enumerate(columns.items()):
        start = number * len(files)
        spans = [entries.slice(start, len(files)) for entries in found]
        merged = _merged([ranges_in(span, kind, is_log) for span in spans])
        if merged is not None:
            result[column] = merged
    return result


def _is_in_order(metadata: MetadataTable) -> bool:
    """Whether the logs of `partition_stats`, which are read by begin time, are those of commits
    that completed in this order.  Cost: a listing, if any commits did not."""
    done = {i.time: i.completion for i in metadata.timeline.commits}
    if list(done.values()) == sorted(done.values()):
        return True
    for file_slice in metadata.slices(PARTITION_STATS):
        times = [log.name.instant for log in file_slice.logs]
        ends = [done[time] for time in times if time in done]
        if ends != sorted(ends):
            return False
    return True


def read_partition_ranges(
    metadata: MetadataTable, partitions: Sequence[str], columns: Mapping[str, pa.DataType]
) -> dict[str, ColumnRanges]:
    """Ranges of primitive columns over the newest slices of partitions, as `read_ranges`.

    Entries that are not tight are not used: they add to older ones.  None is used where logs are
    read in another order than that in which their commits completed: another program's bounds
    can replace those of a commit that completed later.
    """
    if not _is_in_order(metadata):
        return {}
    keys = [partition_key(column, partition) for column in columns for partition in partitions]
    found = newest_entries(metadata, pa.array(keys, pa.string()), PARTITION_STATS)
    tight = pc.struct_field(found, "isTightBound").fill_null(False)
    found = found.take(pc.if_else(tight, pa.array(np.arange(len(found))), None))
    result = {}
    any_order = np.ones(len(partitions), np.bool_)
    for number, (column, kind) in enumerate(columns.items()):
        entries = found.slice(number * len(partitions), len(partitions))
        ranges = ranges_in(entries, kind, any_order)
        if ranges is not None:
            result[column] = ranges
    return result


def entries_of(
    metadata: MetadataTable, keys: pa.Array, partition: MetadataPartition = COLUMN_STATS
) -> list[pa.StructArray]:
    """Entries of `column_stats`, or of `partition_stats`, oldest first: arrays as long as `keys`,
    null for keys without an entry.  Several arrays, as a log that was appended to has one entry per
    append, and a partition one per commit."""
    count = len(keys)
    return [
        found.take(_positions(at, count)) for at, found in _layers_of(metadata, keys, partition)
    ]


def newest_entries(
    metadata: MetadataTable, keys: pa.Array, partition: MetadataPartition = COLUMN_STATS
) -> pa.StructArray:
    """The newest entry of each key, in the fields of `ranges_type()`; null for keys without one."""
    found = _layers_of(metadata, keys, partition)
    if not found:
        return pa.nulls(len(keys), ranges_type())
    at = np.concatenate([at for at, _ in found])
    return pa.concat_arrays([entries for _, entries in found]).take(_positions(at, len(keys)))


def _positions(at: Any, count: int) -> pa.Array:
    """For each of `count` keys the position of its last entry; null without one.  at: of each
    entry, the number of its key."""
    place = np.full(count, -1)
    place[at] = np.arange(len(at))
    return pa.array(place, mask=place < 0)


def _layers_of(
    metadata: MetadataTable, keys: pa.Array, partition: MetadataPartition
) -> list[tuple[Any, pa.StructArray]]:
    """(numbers of keys, their entries) in each layer that has some, oldest first."""
    file_slices = metadata.slices(partition)
    homes = bucket_of(keys, len(file_slices))
    found: list[tuple[Any, pa.StructArray]] = []
    for number, file_slice in enumerate(file_slices):
        at = np.flatnonzero(homes == number)
        if not len(at):
            continue
        remaining = keys.take(pa.array(at))
        live: list[tuple[Any, pa.StructArray]] = []
        for layer in layers(
            metadata.log.fs, MapSlice.of(file_slice, number, metadata.valid_in(file_slice))
        ):
            if isinstance(layer, DeleteLayer):
                ended = layer.table.contains(remaining)
                live = [_without(ended, *older) for older in live]
                continue
            values = layer.reader.get_many(remaining)
            if values.null_count == len(values):
                continue
            there = np.flatnonzero(as_flags(values.is_valid()))
            entries = decode_ranges(values.drop_null(), layer.schema, path=layer.path)
            gone = as_flags(pc.struct_field(entries, "isDeleted").fill_null(False))
            if gone.any():
                ended = np.zeros(len(at), np.bool_)
                ended[there[gone]] = True
                live = [_without(ended, *older) for older in live]
                there, entries = _without(ended, there, entries)
            live.append((there, entries))
        found += [(at[there], entries) for there, entries in live if len(there)]
    return found


def _without(ended: Any, there: Any, entries: pa.StructArray) -> tuple[Any, pa.StructArray]:
    """The entries of a layer but for those of keys that have ended."""
    stays = ~ended[there]
    return (there, entries) if stays.all() else (there[stays], entries.filter(pa.array(stays)))


def _merged(found: Sequence[ColumnRanges | None]) -> ColumnRanges | None:
    """Combine several ranges: files with one entry keep it, files with more have unknown ranges."""
    known = [ranges for ranges in found if ranges is not None]
    if not known:
        return None
    result, *others = known
    for other in others:
        one, two = result.is_known & ~other.is_known, other.is_known & ~result.is_known
        result = ColumnRanges(
            pc.if_else(pa.array(one), result.low, other.low),
            pc.if_else(pa.array(one), result.high, other.high),
            (one & result.is_bounded) | (two & other.is_bounded),
            (~one | result.may_be_null) & (~two | other.may_be_null),
            (~one | result.has_values) & (~two | other.has_values),
            result.is_known | other.is_known,
        )
    return result


def may_contain(
    metadata: MetadataTable,
    files: Sequence[FileName],
    keys: pa.Array,
    partition: MetadataPartition = BLOOM_FILTERS,
) -> list[bool]:
    """Whether each file may contain one of the keys by its bloom filter; True without a filter,
    and for the empty text, which no filter contains.

    keys: record keys as text, or values of an expression index, whose partition is given.
    """
    if pc.any(pc.equal(keys, "")).as_py():
        return [True] * len(files)
    file_slices = bloom_filter_slices(metadata, partition)
    result = [True] * len(files)
    for position, bloom in read_filters(metadata.log.fs, file_slices, files):
        result[position] = bool(pc.any(bloom.contains(keys)).as_py())
    return result


def bloom_filter_slices(
    metadata: MetadataTable, partition: MetadataPartition = BLOOM_FILTERS
) -> tuple[MapSlice, ...]:
    """The slices of a partition of bloom filters, for `read_filters`; picklable."""
    file_slices = metadata.slices(partition)
    return tuple(
        MapSlice.of(file_slice, n, metadata.valid_in(file_slice))
        for n, file_slice in enumerate(file_slices)
    )


def read_filters(
    fs: FileSystem, file_slices: Sequence[MapSlice], files: Sequence[FileName]
) -> Iterator[tuple[int, BloomFilter]]:
    """(position, filter) of each file that has one; fs: rooted at the metadata table."""
    keys = pa.array([bloom_key(partition, name) for partition, name in files], pa.string())
    homes = bucket_of(keys, len(file_slices))
    for number, file_slice in enumerate(file_slices):
        at = np.flatnonzero(homes == number)
        if not len(at):
            continue
        for hit in newest_values(fs, file_slice, keys.take(pa.array(at))):
            records = decode_filters(hit.values, hit.schema, path=hit.path)
            for position, record in zip(at[hit.positions].tolist(), records, strict=True):
                if record["bloomFilter"] and not record["isDeleted"]:
                    yield (
                        position,
                        BloomFilter.from_base64(
                            record["bloomFilter"], record["type"], path=hit.path
                        ),
                    )

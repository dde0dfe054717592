"""Reader of file statistics in the metadata table: column ranges and bloom filters of keys.

Both describe one immutable file and stay valid as long as it exists.  Without an entry nothing is
known about a file; an entry's range may be wider than the file's values.
Source: table_format 9.4, 9.7; written by `records`.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi._native.bloom import BloomFilter
from pyhudi._native.hashing import hash_id, shard_of
from pyhudi.filenames import LogFileName, parse_data_file
from pyhudi.formats.java_text import through_text
from pyhudi.metadata.file_stats.records import bloom_key
from pyhudi.metadata.hfile_slices import DeleteLayer, MapSlice, layers, newest_values
from pyhudi.metadata.payloads import BLOOM_FILTERS, COLUMN_STATS, decode_filters, decode_ranges
from pyhudi.metadata.reader import MetadataTable
from pyhudi.storage.filesystem import FileSystem

FileName = tuple[str, str]
"""(partition path, file name) of a data file."""

_BEYOND_JAVA_ORDER: Final = "[\\x{E000}-\\x{10FFFF}]"
"""Characters whose order in Java differs from byte order."""


@dataclass(frozen=True, slots=True)
class ColumnRanges:
    """Ranges of one column per file; the flags are numpy arrays of bool.

    low, high: bounds of the values that are not null, of the column's type; null where
    `is_bounded` is False.  may_be_null: whether the values may include nulls.  has_values: False
    if the file has only nulls, or no rows.  is_known: whether the file has an entry.
    """

    low: pa.Array
    high: pa.Array
    is_bounded: Any
    may_be_null: Any
    has_values: Any
    is_known: Any


def read_ranges(
    metadata: MetadataTable, files: Sequence[FileName], columns: Mapping[str, pa.DataType]
) -> dict[str, ColumnRanges]:
    """Ranges of primitive columns in these files.

    columns: names and their types in the table.  Cost: one look-up per file and column.
    """
    tails = [bloom_key(partition, name) for partition, name in files]
    keys = pa.array([hash_id(column) + tail for column in columns for tail in tails], pa.string())
    found = entries_of(metadata, keys)
    is_log = np.array([isinstance(parse_data_file(name), LogFileName) for _, name in files])
    result = {}
    for number, (column, kind) in enumerate(columns.items()):
        start = number * len(files)
        spans = [entries.slice(start, len(files)) for entries in found]
        merged = _merged([_ranges(span, kind, is_log) for span in spans])
        if merged is not None:
            result[column] = merged
    return result


def entries_of(metadata: MetadataTable, keys: pa.Array) -> list[pa.StructArray]:
    """Entries of `column_stats`: arrays as long as `keys`, null for keys without an entry.  Several
    arrays, as a log that was appended to has one entry per append."""
    file_slices = metadata.slices(COLUMN_STATS)
    homes = shard_of(keys, len(file_slices))
    found: list[tuple[pa.StructArray, Any]] = []
    for number, file_slice in enumerate(file_slices):
        at = np.flatnonzero(homes == number)
        if not len(at):
            continue
        remaining = keys.take(pa.array(at))
        live: list[tuple[pa.StructArray, Any]] = []
        for layer in layers(metadata.log.fs, MapSlice.of(file_slice, number, metadata.valid)):
            if isinstance(layer, DeleteLayer):
                ended = layer.table.contains(remaining)
                live = [(entries, valid & ~ended) for entries, valid in live]
                continue
            values = layer.reader.get_many(remaining)
            if values.null_count == len(values):
                continue
            entries = decode_ranges(values, layer.schema, path=layer.path)
            valid = _flags(values.is_valid())
            ended = valid & _flags(pc.struct_field(entries, "isDeleted").fill_null(False))
            live = [(older, there & ~ended) for older, there in live]
            live.append((entries, valid & ~ended))
        found += [_spread(entries, valid, at, len(keys)) for entries, valid in live if valid.any()]
    return [entries for entries, _ in found]


def _spread(entries: pa.StructArray, valid: Any, at: Any, count: int) -> tuple[pa.StructArray, Any]:
    """The valid entries of some keys as an array for all keys."""
    place = np.full(count, -1)
    place[at[valid]] = np.flatnonzero(valid)
    return entries.take(pa.array(place, mask=place < 0)), place >= 0


def _ranges(entries: pa.StructArray, kind: pa.DataType, is_log: Any) -> ColumnRanges | None:
    """The ranges in the entries of one column; None if there are no entries."""
    known = _flags(entries.is_valid())
    if not known.any():
        return None
    low, high = (_bounds(pc.struct_field(entries, side), kind) for side in ("minValue", "maxValue"))
    bounded = _flags(low.is_valid()) & _flags(high.is_valid())
    if pt.is_string(kind) or pt.is_large_string(kind):
        odd = pc.match_substring_regex(high, _BEYOND_JAVA_ORDER).fill_null(False)
        bounded &= ~(_flags(odd) & is_log)
    values, nulls = (
        pc.struct_field(entries, side).fill_null(-1).to_numpy(zero_copy_only=False)
        for side in ("valueCount", "nullCount")
    )
    no_minimum = _flags(pc.struct_field(entries, "minValue").is_null())
    return ColumnRanges(
        low,
        high,
        bounded,
        ~known | (nulls != 0),
        ~(known & no_minimum & (values >= 0) & (values == nulls)),
        known,
    )


def _bounds(side: pa.StructArray, kind: pa.DataType) -> pa.Array:
    """One side of the ranges as values of the column's type; null where not convertible."""
    found = pa.nulls(len(side), kind)
    for wrapper in _wrappers(kind):
        values = pc.struct_field(side, [wrapper, "value"])
        if values.null_count < len(values):
            try:
                found = pc.coalesce(found, _widened(values, kind))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
    return found


def _widened(values: pa.Array, kind: pa.DataType) -> pa.Array:
    """Bounds of older files, widened to the column's type as reads do."""
    if pt.is_float32(values.type) and pt.is_float64(kind):
        return through_text(values)
    return values.cast(kind)


def _wrappers(kind: pa.DataType) -> tuple[str, ...]:
    """The wrappers whose values have the same meaning in a column of this type."""
    if pt.is_boolean(kind):
        return ("BooleanWrapper",)
    if pt.is_signed_integer(kind):
        return ("IntWrapper", "LongWrapper")
    if pt.is_floating(kind):
        return ("FloatWrapper", "DoubleWrapper", "IntWrapper", "LongWrapper")
    if pt.is_string(kind) or pt.is_large_string(kind):
        return ("StringWrapper",)
    if pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind):
        return ("BytesWrapper",)
    if pt.is_date32(kind):
        return ("DateWrapper",)
    if pt.is_decimal(kind):
        return ("DecimalWrapper",)
    if pt.is_time32(kind):
        return ("IntWrapper",)
    if pt.is_time64(kind):
        return ("LongWrapper",)
    if pt.is_timestamp(kind):
        return ("LongWrapper", *(("TimestampMicrosWrapper",) if kind.unit == "us" else ()))
    return ()


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


def may_contain(metadata: MetadataTable, files: Sequence[FileName], keys: pa.Array) -> list[bool]:
    """Whether each file may contain one of the keys by its bloom filter; True without a filter.

    keys: record keys as text.
    """
    file_slices = bloom_filter_slices(metadata)
    result = [True] * len(files)
    for position, bloom in read_filters(metadata.log.fs, file_slices, files):
        result[position] = bool(pc.any(bloom.contains(keys)).as_py())
    return result


def bloom_filter_slices(metadata: MetadataTable) -> tuple[MapSlice, ...]:
    """The slices of `bloom_filters`, for `read_filters`; picklable."""
    file_slices = metadata.slices(BLOOM_FILTERS)
    return tuple(
        MapSlice.of(file_slice, n, metadata.valid) for n, file_slice in enumerate(file_slices)
    )


def read_filters(
    fs: FileSystem, file_slices: Sequence[MapSlice], files: Sequence[FileName]
) -> Iterator[tuple[int, BloomFilter]]:
    """(position, filter) of each file that has one; fs: rooted at the metadata table."""
    keys = pa.array([bloom_key(partition, name) for partition, name in files], pa.string())
    homes = shard_of(keys, len(file_slices))
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


def _flags(values: pa.Array) -> Any:
    return values.to_numpy(zero_copy_only=False)

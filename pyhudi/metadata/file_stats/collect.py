"""What the metadata table says of data files: ranges of their columns, blooms of their keys.

Both are facts of a file, true as long as the file exists.  A file without an entry says nothing;
an entry may be wider than the file.  Source: table_format 9.4, 9.7; written by `filestats`.
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
"""Characters that Java orders otherwise than bytes do."""


@dataclass(frozen=True, slots=True)
class ColumnRanges:
    """What one column holds, file by file; the flags are numpy arrays of bool.

    low, high: bounds of the values that are not null, of the column's type; null where
    `is_bounded` is False.  may_be_null: whether a null may be among the values.  has_values: a
    file without any holds nulls alone, or no rows.  is_known: whether the file has an entry.
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

    columns: names and the types they have in the table.  Cost: a look-up a file and column.
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
    """Entries of `column_stats`: arrays as long as `keys`, null where they have none.  Several,
    as a log that was appended to has an entry of each time."""
    pieces = metadata.slices(COLUMN_STATS)
    homes = shard_of(keys, len(pieces))
    found: list[tuple[pa.StructArray, Any]] = []
    for number, piece in enumerate(pieces):
        at = np.flatnonzero(homes == number)
        if not len(at):
            continue
        asked = keys.take(pa.array(at))
        kept: list[tuple[pa.StructArray, Any]] = []
        for layer in layers(metadata.log.fs, MapSlice.of(piece, number, metadata.valid)):
            if isinstance(layer, DeleteLayer):
                ended = layer.table.contains(asked)
                kept = [(entries, held & ~ended) for entries, held in kept]
                continue
            values = layer.reader.get_many(asked)
            if values.null_count == len(values):
                continue
            entries = decode_ranges(values, layer.schema, path=layer.path)
            held = _flags(values.is_valid())
            ended = held & _flags(pc.struct_field(entries, "isDeleted").fill_null(False))
            kept = [(older, there & ~ended) for older, there in kept]
            kept.append((entries, held & ~ended))
        found += [_spread(entries, held, at, len(keys)) for entries, held in kept if held.any()]
    return [entries for entries, _ in found]


def _spread(entries: pa.StructArray, held: Any, at: Any, count: int) -> tuple[pa.StructArray, Any]:
    """Entries of some keys as an array for all keys."""
    place = np.full(count, -1)
    place[at[held]] = np.flatnonzero(held)
    return entries.take(pa.array(place, mask=place < 0)), place >= 0


def _ranges(entries: pa.StructArray, kind: pa.DataType, is_log: Any) -> ColumnRanges | None:
    """What entries of one column say; None where there are none."""
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
    none_said = _flags(pc.struct_field(entries, "minValue").is_null())
    return ColumnRanges(
        low,
        high,
        bounded,
        ~known | (nulls != 0),
        ~(known & none_said & (values >= 0) & (values == nulls)),
        known,
    )


def _bounds(side: pa.StructArray, kind: pa.DataType) -> pa.Array:
    """One side of the ranges as values of the column's type, null where it is of none."""
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
    """Bounds of older files as reads widen their values."""
    if pt.is_float32(values.type) and pt.is_float64(kind):
        return through_text(values)
    return values.cast(kind)


def _wrappers(kind: pa.DataType) -> tuple[str, ...]:
    """The wrappers whose values mean the same in a column of this type."""
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
    """One of several: of a file that has one entry what that says, of one with more nothing."""
    told = [ranges for ranges in found if ranges is not None]
    if not told:
        return None
    result, *others = told
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


def may_hold(metadata: MetadataTable, files: Sequence[FileName], keys: pa.Array) -> list[bool]:
    """Of each file, whether its bloom filter allows one of the keys; a file without one may.

    keys: record keys as text.
    """
    pieces = filter_pieces(metadata)
    kept = [True] * len(files)
    for position, bloom in read_filters(metadata.log.fs, pieces, files):
        kept[position] = bool(pc.any(bloom.contains(keys)).as_py())
    return kept


def filter_pieces(metadata: MetadataTable) -> tuple[MapSlice, ...]:
    """The groups of `bloom_filters`, for `read_filters`; picklable."""
    pieces = metadata.slices(BLOOM_FILTERS)
    return tuple(MapSlice.of(piece, n, metadata.valid) for n, piece in enumerate(pieces))


def read_filters(
    fs: FileSystem, pieces: Sequence[MapSlice], files: Sequence[FileName]
) -> Iterator[tuple[int, BloomFilter]]:
    """(position, filter) of each file that has one; fs: rooted at the metadata table."""
    asked = pa.array([bloom_key(partition, name) for partition, name in files], pa.string())
    homes = shard_of(asked, len(pieces))
    for number, piece in enumerate(pieces):
        at = np.flatnonzero(homes == number)
        if not len(at):
            continue
        for hit in newest_values(fs, piece, asked.take(pa.array(at))):
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

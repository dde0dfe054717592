"""Entries of `partition_stats`: the range of a column over the files of a partition.

The files are those of the newest slices, so the bounds are tight, unless a write that began earlier
is still running: its entries will be those of an older commit and have rows of this partition too,
so bounds that replace them would hide these rows.  Bounds that are not tight add to older ones.
The type of the bounds comes
from the entries of the files.  A file that has entries, but none of this column, was written
before the column existed: its rows count as nulls.

Entries that add to older ones (of logs that were appended to, of partitions whose files were not
all looked at) are widened to one entry when the metadata table is compacted.
Source: table_format 9.4, writer_v8_v9 11.8; metadata tables of Apache Hudi 1.0 and 1.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi._native.hashing import hash_id
from pyhudi._native.keys import argsort
from pyhudi.errors import UnsupportedTableError
from pyhudi.metadata.file_stats.entries import COUNTS, EntryColumns
from pyhudi.metadata.file_stats.ranges import ColumnRanges, as_flags, hull, ranges_in
from pyhudi.metadata.file_stats.records import FileName
from pyhudi.metadata.file_stats.value_types import (
    NULL_ORDINAL,
    V1_DIGITS,
    V1_SCALE,
    stored_type,
    stored_values,
    value_type,
)
from pyhudi.metadata.payloads import (
    COLUMN_RANGE,
    COLUMN_STATS,
    NON_PARTITIONED,
    PARTITION_PAYLOADS,
    PARTITION_RANGE,
    PARTITION_STATS,
    decode_ranges,
    encode_ranges,
    ranges_type,
    transcode,
)
from pyhudi.metadata.record_schema import RECORDS_V9
from pyhudi.records import RECORD_KEY

_V1_TYPES: Final = {
    "BooleanWrapper": pa.bool_(),
    "IntWrapper": pa.int32(),
    "LongWrapper": pa.int64(),
    "FloatWrapper": pa.float32(),
    "DoubleWrapper": pa.float64(),
    "BytesWrapper": pa.binary(),
    "StringWrapper": pa.string(),
    "DateWrapper": pa.date32(),
    "DecimalWrapper": pa.decimal128(V1_DIGITS, V1_SCALE),
    "TimestampMicrosWrapper": pa.timestamp("us"),
}
"""The type by which the bounds of a V1 wrapper are compared."""

_RANKS: Final = (pa.int32(), pa.int64(), pa.float32(), pa.float64())


def partition_key(column: str, partition: str) -> str:
    """Key of a partition's entry of a column in `partition_stats`."""
    return _NAMES.key(column, partition)


@dataclass(frozen=True, slots=True)
class PartitionNames:
    """How entries name partitions.  marker: between column and partition in keys, if not empty.
    unpartitioned: the name of the partition of a table that is not partitioned."""

    marker: str = ""
    unpartitioned: str = NON_PARTITIONED

    def key(self, column: str, partition: str) -> str:
        marker = hash_id(self.marker) if self.marker else ""
        return hash_id(column) + marker + hash_id(partition or NON_PARTITIONED)


_NAMES: Final = PartitionNames()


def partition_entries(
    files: Sequence[FileName],
    entries: Mapping[str, pa.StructArray],
    version: int,
    naming: PartitionNames = _NAMES,
    *,
    is_tight: bool = True,
) -> tuple[pa.Array, pa.StructArray]:
    """(keys, entries) of the partitions of these files, in no particular order.  Pure.

    files: of the newest slices of the partitions.  entries: per column one of each file, null
    where it has none.  version: of the index.  is_tight: whether the entries replace those of
    older commits; else they add to them.  A partition has no entry of a column if no file has
    one, or if the bounds of its files cannot be combined.
    """
    partitions, homes = np.unique([p for p, _ in files] or [""], return_inverse=True)
    sets = [str(p) for p in partitions]
    names = [name or naming.unpartitioned for name in sets]
    homes = homes[: len(files)]
    rows = _rows(entries.get(RECORD_KEY), len(files))
    keys: list[str] = []
    parts: list[pa.StructArray] = []
    for column, of_files in entries.items():
        found = _entries_of_column(column, of_files, rows, names, homes, version, is_tight=is_tight)
        if found is not None:
            keys += [naming.key(column, sets[n]) for n in found[0]]
            parts.append(found[1])
    joined = pa.concat_arrays(parts) if parts else pa.nulls(0, ranges_type())
    return pa.array(keys, pa.string()), joined


def _rows(entries: pa.StructArray | None, count: int) -> Any:
    """Rows of each file by the entries of its record keys; -1 for a file without entries."""
    if entries is None:
        return np.full(count, -1)
    return pc.struct_field(entries, "valueCount").fill_null(-1).to_numpy(zero_copy_only=False)


def _entries_of_column(
    column: str,
    entries: pa.StructArray,
    rows: Any,
    names: Sequence[str],
    homes: Any,
    version: int,
    *,
    is_log: bool = False,
    is_tight: bool = False,
) -> tuple[list[int], pa.StructArray] | None:
    """(numbers of sets of rows, their entries) of one column; names: of the sets.

    is_log: the sets are logs; else partitions."""
    kind = bounds_type(entries)
    if kind is None:
        return None
    ranges = ranges_in(entries, kind, np.full(len(entries), is_log))
    if ranges is None:
        return None
    absent = ~ranges.is_known & (rows >= 0)
    ranges = replace(
        ranges, is_known=ranges.is_known | absent, has_values=ranges.has_values & ~absent
    )
    whole = _stated(ranges, homes, len(names), kind)
    chosen = np.flatnonzero(whole.is_known & (whole.is_bounded | ~whole.has_values))
    if not len(chosen):
        return None
    typed = value_type(kind) if version >= 2 else None
    low, high = (
        _as_stored(side, version).take(pa.array(chosen)) for side in (whole.low, whole.high)
    )
    columns = EntryColumns(
        names=pa.array([names[n] for n in chosen.tolist()], pa.string()),
        columns=pa.repeat(pa.scalar(column), len(chosen)),
        wrapper=typed.wrapper if typed else _v1_wrapper(kind),
        low=low,
        high=high,
        counts=_counts(entries, np.where(absent, rows, 0), homes, len(names), chosen),
        typed=typed,
        is_tight=is_tight,
    )
    return chosen.tolist(), columns.to_entries()


def _stated(ranges: ColumnRanges, homes: Any, count: int, kind: pa.DataType) -> ColumnRanges:
    """The hull of each partition.  Floating-point numbers always have one: files whose bounds are
    not stated may contain any number, NaN being the greatest."""
    if pt.is_floating(kind):
        unstated = ~(as_flags(ranges.low.is_valid()) & as_flags(ranges.high.is_valid()))
        unstated = pa.array(unstated & ranges.has_values)
        low = pc.if_else(unstated, pa.scalar(float("-inf"), kind), ranges.low)
        high = pc.if_else(unstated, pa.scalar(float("nan"), kind), ranges.high)
        ranges = replace(ranges, low=low, high=high, is_bounded=as_flags(low.is_valid()))
    return hull(ranges, homes, count)


def bounds_type(entries: pa.StructArray) -> pa.DataType | None:
    """The type to which the bounds of all these entries can be converted; None if there is none.
    Entries without values have no type."""
    kinds = pc.struct_field(entries, "valueType").drop_null()
    types = [
        stored_type(kind["typeOrdinal"], kind["additionalInfo"])
        for kind in _distinct(kinds)
        if kind["typeOrdinal"] != NULL_ORDINAL
    ]
    if any(kind is None for kind in types):
        return None
    found = [kind[1] for kind in types if kind is not None] or _v1_types(entries)
    if not found:
        return pa.string() if pc.any(entries.is_valid()).as_py() else None
    result = found[0]
    for other in found[1:]:
        combined = _common(result, other)
        if combined is None:
            return None
        result = combined
    return result


def _distinct(kinds: pa.StructArray) -> list[dict[str, Any]]:
    names = [kinds.field(n) for n in range(kinds.type.num_fields)]
    table = pa.table(names, names=[field.name for field in kinds.type])
    found: list[dict[str, Any]] = table.group_by(table.column_names).aggregate([]).to_pylist()
    return found


def _v1_types(entries: pa.StructArray) -> list[pa.DataType]:
    side = pc.struct_field(entries, "minValue")
    return [
        kind
        for wrapper, kind in _V1_TYPES.items()
        if pc.struct_field(side, wrapper).null_count < len(side)
    ]


def _common(one: pa.DataType, other: pa.DataType) -> pa.DataType | None:
    """The type that a column has after its type was widened from one to the other."""
    if one == other:
        return one
    if one in _RANKS and other in _RANKS:
        return max(one, other, key=_RANKS.index)
    if pt.is_decimal(one) and pt.is_decimal(other):
        scale = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + scale
        return pa.decimal128(digits, scale) if digits <= 38 else None
    return None


def _v1_wrapper(kind: pa.DataType) -> str:
    return next(wrapper for wrapper, known in _V1_TYPES.items() if known == kind)


def _as_stored(values: pa.Array, version: int) -> pa.Array:
    kind = values.type
    typed = value_type(kind)
    if version >= 2 and typed is not None:
        return stored_values(values, typed)
    return values.cast(pa.int32()) if pt.is_date32(kind) else values


def _counts(
    entries: pa.StructArray, missing: Any, homes: Any, count: int, chosen: Any
) -> tuple[pa.Array, pa.Array, pa.Array, pa.Array]:
    """Sums over the files of each chosen partition; missing: rows of files without the column."""
    sums = []
    for name in COUNTS:
        values = pc.struct_field(entries, name).fill_null(0).to_numpy(zero_copy_only=False)
        total = np.zeros(count, np.int64)
        np.add.at(total, homes, values + (missing if name in ("valueCount", "nullCount") else 0))
        sums.append(pa.array(total[chosen], pa.int64()))
    return sums[0], sums[1], sums[2], sums[3]


def widened(
    keys: pa.Array, values: pa.Array, schema: str, *, path: str
) -> tuple[pa.Array, pa.Array]:
    """(distinct keys in byte order, their entries or null) of a group's rows, given oldest first.

    keys, values: binary; a null value deletes what is older, an entry with `isDeleted` too, and a
    tight one replaces it.  The others add to what is older, so that the entry of a key with several
    of them has the range of all.  Raises UnsupportedTableError for entries that cannot be combined.
    """
    order = argsort(keys)
    ordered = keys.take(pa.array(order))
    changes = as_flags(pc.not_equal(ordered.slice(1), ordered.slice(0, max(len(ordered) - 1, 0))))
    groups = np.concatenate([np.zeros(min(len(keys), 1), np.int64), np.cumsum(changes)])
    count = int(groups[-1]) + 1 if len(groups) else 0
    newest = np.zeros(count, np.int64)
    newest[groups] = order  # the sort is stable: the latest row of a key is the last
    distinct = keys.take(pa.array(newest))
    several = np.bincount(groups, minlength=count)[groups] > 1
    rows, homes = order[several], groups[several]
    found = decode_ranges(values.take(pa.array(rows)).cast(pa.binary()), schema, path=path)
    live = _adding(found, homes, count)
    together = live & (np.bincount(homes[live], minlength=count)[homes] > 1)
    if not together.any():
        return distinct, values.take(pa.array(newest))
    sets, homes = np.unique(homes[together], return_inverse=True)
    combined = _combined(found.filter(pa.array(together)), homes, len(sets), path)
    newest[sets] = len(values) + np.arange(len(sets))
    kind = COLUMN_RANGE if path != PARTITION_STATS.path else PARTITION_RANGE
    encoded = encode_ranges(combined, RECORDS_V9.stored, kind=kind)
    field = PARTITION_PAYLOADS[COLUMN_STATS.path]
    encoded = transcode(encoded, RECORDS_V9.stored, [field], path=path, target=schema)
    every = pa.concat_arrays([values, encoded.cast(values.type)])
    return distinct, every.take(pa.array(newest))


def _adding(entries: pa.StructArray, homes: Any, count: int) -> Any:
    """Which entries count: those since the last that deletes or replaces the ones before it."""
    absent = as_flags(entries.is_null())
    ends = absent | as_flags(pc.struct_field(entries, "isDeleted").fill_null(False))
    tight = as_flags(pc.struct_field(entries, "isTightBound").fill_null(False)) & ~ends
    at, first = np.arange(len(entries)), np.zeros(count, np.int64)
    np.maximum.at(first, homes[ends], at[ends] + 1)
    np.maximum.at(first, homes[tight], at[tight])
    return at >= first[homes]


def _combined(entries: pa.StructArray, homes: Any, count: int, path: str) -> pa.StructArray:
    """One entry for each set of entries, which are of one column and file, or partition, each."""
    names = pc.struct_field(entries, "fileName").take(pa.array(np.unique(homes, True)[1]))
    columns = pc.struct_field(entries, "columnName")
    typed = pc.struct_field(entries, ["valueType", "typeOrdinal"]).is_valid()
    version = 2 if pc.any(typed).as_py() else 1
    parts: list[pa.StructArray] = []
    places: list[int] = []
    for column in pc.unique(columns).to_pylist():
        mine = as_flags(pc.equal(columns, column))
        sets, own = np.unique(homes[mine], return_inverse=True)
        found = _entries_of_column(
            column,
            entries.filter(pa.array(mine)),
            np.full(len(own), -1),
            names.take(pa.array(sets)).to_pylist(),
            own,
            version,
            is_log=True,
        )
        if found is None or len(found[0]) < len(sets):
            raise UnsupportedTableError(
                "the ranges of a column cannot be combined",
                partition=path,
                column=column,
                hint="run table.metadata.rebuild()",
            )
        parts.append(found[1])
        places += sets.tolist()
    return pa.concat_arrays(parts).take(pa.array(np.argsort(places)))

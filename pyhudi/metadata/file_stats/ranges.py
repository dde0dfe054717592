"""Ranges of one column in many files, decoded from entries of the metadata table.

Entries of index version V2 state the type of their bounds, those of V1 leave it to the column.
Bounds that cannot be compared as the column's values are, and those with NaN, bound nothing.
Source: table_format 9.7, writer_v8_v9 11.6.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt
from numpy.typing import NDArray

from pyhudi.formats.java_text import through_text
from pyhudi.formats.timestamp_repair import relabelled_type
from pyhudi.metadata.file_stats.value_types import DECIMAL_ORDINAL, decimals_of, stored_type

_BEYOND_JAVA_ORDER: Final = "[\\x{E000}-\\x{10FFFF}]"
"""Characters whose order in Java differs from byte order."""


@dataclass(frozen=True, slots=True)
class ColumnRanges:
    """Ranges of one column per file; the flags are numpy arrays of bool.

    low, high: bounds of the values that are not null, of the column's type; null where none are
    stated.  is_bounded: whether every value lies between them.  may_be_null: whether the values
    may include nulls.  has_values: False if the file has only nulls, or no rows.  is_known:
    whether the file has an entry.  may_be_nan: whether the values may include NaN; None where that
    is not known, as of entries that earlier releases wrote.
    """

    low: pa.Array
    high: pa.Array
    is_bounded: Any
    may_be_null: Any
    has_values: Any
    is_known: Any
    may_be_nan: Any = None


def as_flags(values: pa.Array) -> Any:
    return values.to_numpy(zero_copy_only=False)


def ranges_in(entries: pa.StructArray, kind: pa.DataType, is_log: Any) -> ColumnRanges | None:
    """The ranges in the entries of one column; None if there are no entries.

    is_log: per entry, whether its bounds may have the order of Java's strings.
    """
    known = as_flags(entries.is_valid())
    if not known.any():
        return None
    low, high = (_bounds(entries, side, kind) for side in ("minValue", "maxValue"))
    bounded = as_flags(low.is_valid()) & as_flags(high.is_valid())
    if pt.is_string(kind) or pt.is_large_string(kind):
        odd = pc.match_substring_regex(high, _BEYOND_JAVA_ORDER).fill_null(False)
        bounded &= ~(as_flags(odd) & is_log)
    if pt.is_floating(kind):
        strange = pc.or_(pc.is_nan(low), pc.is_nan(high)).fill_null(False)
        bounded &= ~as_flags(strange)
    values, nulls = (
        pc.struct_field(entries, side).fill_null(-1).to_numpy(zero_copy_only=False)
        for side in ("valueCount", "nullCount")
    )
    no_minimum = as_flags(pc.struct_field(entries, "minValue").is_null())
    return ColumnRanges(
        low,
        high,
        bounded,
        ~known | (nulls != 0),
        ~(known & no_minimum & (values >= 0) & (values == nulls)),
        known,
    )


def _bounds(entries: pa.StructArray, name: str, kind: pa.DataType) -> pa.Array:
    """One side of the ranges as values of the column's type; null where not convertible."""
    side = pc.struct_field(entries, name)
    ordinals = pc.struct_field(entries, ["valueType", "typeOrdinal"]).fill_null(0)
    found = pa.nulls(len(side), kind)
    for ordinal in pc.unique(ordinals).to_pylist():
        here = pc.equal(ordinals, ordinal)
        if ordinal:
            bounds = _typed_bounds(entries, side, ordinal, kind)
        else:
            bounds = _untyped_bounds(side, kind)
        found = pc.if_else(here, bounds, found)
    return found


def _untyped_bounds(side: pa.StructArray, kind: pa.DataType) -> pa.Array:
    """Bounds of index version V1."""
    found = pa.nulls(len(side), kind)
    for wrapper in _wrappers(kind):
        values = pc.struct_field(side, [wrapper, "value"])
        if values.null_count < len(values):
            try:
                found = pc.coalesce(found, _widened(values, kind))
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
                continue
    return found


def _typed_bounds(
    entries: pa.StructArray, side: pa.StructArray, ordinal: int, kind: pa.DataType
) -> pa.Array:
    """Bounds of index version V2 with this type ordinal; other rows are null or without meaning."""
    details = pc.struct_field(entries, ["valueType", "additionalInfo"])
    found = pa.nulls(len(side), kind)
    texts = pc.unique(details).to_pylist() if ordinal == DECIMAL_ORDINAL else [None]
    for text in texts:
        stored = stored_type(ordinal, text)
        if stored is None or not _converts(relabelled_type(stored[1], kind), kind):
            continue
        values = pc.struct_field(side, [stored[0], "value"])
        if text is not None:
            values = pc.if_else(pc.equal(details, text), values, None)
        try:
            found = pc.coalesce(found, _widened(_as_stored(values, stored[1], kind), kind))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError):
            continue
    return found


def _as_stored(values: pa.Array, stored: pa.DataType, kind: pa.DataType) -> pa.Array:
    """Values of a wrapper as values of the type that their ordinal stands for."""
    if pt.is_decimal(stored):
        return decimals_of(values, stored)
    return values.cast(relabelled_type(stored, kind))


def _converts(stored: pa.DataType, kind: pa.DataType) -> bool:
    """Whether values of a file of type `stored` are values of a column of type `kind`, if widened
    as reads do."""
    families = (
        (pt.is_boolean,),
        (pt.is_signed_integer, pt.is_floating),
        (pt.is_string, pt.is_large_string),
        (pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary),
        (pt.is_date32,),
        (pt.is_decimal,),
        (pt.is_time32,),
        (pt.is_time64,),
        (pt.is_timestamp,),
    )
    return any(
        any(test(stored) for test in family) and any(test(kind) for test in family)
        for family in families
    )


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
        return ("DateWrapper", "LocalDateWrapper")
    if pt.is_decimal(kind):
        return ("DecimalWrapper",)
    if pt.is_time32(kind):
        return ("IntWrapper",)
    if pt.is_time64(kind):
        return ("LongWrapper",)
    if pt.is_timestamp(kind):
        return ("LongWrapper", *(("TimestampMicrosWrapper",) if kind.unit == "us" else ()))
    return ()


def hull(ranges: ColumnRanges, homes: NDArray[np.int64], count: int) -> ColumnRanges:
    """The ranges of sets of files: what all files of one set have together.

    homes: per file the number of its set, from 0 to count - 1.  A set that has a file without an
    entry, or of which no file is given, is unknown.  NaN is greater than every number.
    """
    unbounded, unknown, nulls, values = (
        _any_in_set(flags, homes, count)
        for flags in (
            ~ranges.is_bounded & ranges.has_values,
            ~ranges.is_known,
            ranges.may_be_null,
            ranges.has_values,
        )
    )
    present = np.bincount(homes, minlength=count) > 0
    low = _extreme(ranges.low, homes, count, is_low=True)
    high = _extreme(ranges.high, homes, count, is_low=False)
    stated = as_flags(low.is_valid()) & as_flags(high.is_valid())
    known = present & ~unknown
    return ColumnRanges(
        low, high, known & stated & ~unbounded, nulls | ~known, values | ~known, known
    )


def _any_in_set(flags: Any, homes: NDArray[np.int64], count: int) -> Any:
    return np.bincount(homes[flags], minlength=count) > 0


def _extreme(values: pa.Array, homes: NDArray[np.int64], count: int, *, is_low: bool) -> pa.Array:
    """The least or greatest value of each set that is not null; null for a set without one."""
    order = pc.array_sort_indices(values).to_numpy()[: len(values) - values.null_count]
    if not is_low:
        order = order[::-1]  # NaN is sorted after the numbers
    sets, first = np.unique(homes[order], return_index=True)
    place = np.full(count, -1)
    place[sets] = order[first]
    return values.take(pa.array(place, mask=place < 0))

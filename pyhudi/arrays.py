"""Types of NumPy arrays, and Arrow arrays of Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

TEXT_BYTES_MAX: Final = (1 << 31) - 1
"""Of an Arrow array of text or bytes, whose offsets have 32 bits."""

INTEGERS: Final = pa.decimal128(20, 0)
"""A decimal of every 64-bit integer.  Arrow casts integers only to decimals with room for all of
their type; through this one it asks for the room that the values need."""
_DIGITS_MAX: Final = 76
"""Of decimals of 256 bits."""
_TEXT: Final = pa.decimal256(_DIGITS_MAX, _DIGITS_MAX // 2)
DECIMAL_TEXT: Final = (
    r"^[+-]?(\d{0,38}(\.\d{0,38})?([eE]-(0*\d|[12]\d|3[0-8]))?"
    r"|\d{0,19}(\.\d{0,38})?[eE]\+?(0*\d|1\d)"
    r"|\d(\.\d{0,38})?[eE]\+?([12]\d|3[0-7]))$"
)
"""Texts whose numbers are below 10**38 and have at most 76 digits after the point."""
_FLOAT_DIGITS: Final = 18
"""Of a double from `zero_limit` on, at most, behind those of the decimal."""
HALF_UP: Final = "half_towards_infinity"
"""How Arrow names the rounding of halves away from zero."""


def exact_array(values: Iterable[Any], kind: pa.DataType) -> pa.Array:
    """Python values as an array of a type.

    Raises what Arrow raises for values that do not fit, and ValueError for those that Arrow would
    cut: a fraction of a whole number, the time of a date, digits of seconds.
    """
    given = list(values)
    found = pa.array(given, kind)
    if not (pa.types.is_floating(kind) or pa.types.is_decimal(kind) or pa.types.is_string(kind)):
        for value, stored in zip(given, found.to_pylist(), strict=True):
            if _is_cut(value, stored):
                raise ValueError(f"{value!r} is not a value of {kind}: {stored!r} would be stored")
    return found


def inverse(order: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """The permutation that undoes another: rows taken by `order`, then by it, are as before."""
    back = np.empty_like(order)
    back[order] = np.arange(len(order))
    return back


def taken(rows: pa.Table, at: npt.NDArray[Any], *, bytes_max: int = TEXT_BYTES_MAX) -> pa.Table:
    """Rows by number, in the order of `at`, as `Table.take`, which fails where the chunks of a
    column exceed `bytes_max` together.  Larger rows are taken in parts, each from the chunks that
    have some of it; then the result has many chunks."""
    widest = max((column.nbytes for column in rows.columns), default=0)
    if widest <= bytes_max:
        return rows.take(pa.array(at))
    count = max(1, rows.num_rows * (bytes_max // 4) // widest)
    parts = [_some_taken(rows, at[start : start + count]) for start in range(0, len(at), count)]
    return pa.concat_tables([rows.slice(0, 0), *parts])


def _some_taken(rows: pa.Table, at: npt.NDArray[Any]) -> pa.Table:
    order = np.argsort(at, kind="stable")
    rising, begin, found = at[order], 0, []
    for batch in rows.to_batches():
        low, high = np.searchsorted(rising, [begin, begin + batch.num_rows])
        if low < high:
            found.append(batch.take(pa.array(rising[low:high] - begin)))
        begin += batch.num_rows
    return pa.Table.from_batches(found, rows.schema).take(pa.array(inverse(order)))


def check_finite(given: pa.Array | pa.ChunkedArray, found: pa.Array | pa.ChunkedArray) -> None:
    """Raise ArrowInvalid if a number became infinite in a cast to a narrower float."""
    same = pc.equal(pc.is_inf(found), pc.is_inf(given))
    if not pc.all(same, min_count=0).as_py():
        raise pa.ArrowInvalid("the number is too large for the column")


def _is_cut(value: Any, stored: Any) -> bool:
    """Whether Arrow has stored something else than the value."""
    if isinstance(value, pa.Scalar):
        value = value.as_py()
    match stored:
        case None | bool() | float() | str() | bytes():
            return False
        case int():
            is_time = isinstance(value, date | time)
            return isinstance(value, bool) or (not is_time and bool(value != stored))
        case datetime():
            return isinstance(value, datetime) and value.microsecond != stored.microsecond
        case date():
            return isinstance(value, datetime) and value.time() != time()
        case time():
            return isinstance(value, time) and value.microsecond != stored.microsecond
        case list():
            return len(value) == len(stored) and any(map(_is_cut, value, stored))
        case dict():
            return isinstance(value, Mapping) and any(
                _is_cut(value.get(name), each) for name, each in stored.items()
            )
        case _:
            return False


def exact_cast(values: Any, kind: pa.DataType) -> Any:
    """An Arrow scalar, array or chunked array as another type, as Arrow casts it.

    Decimals, integers and texts become the same decimals or raise ArrowInvalid: Arrow itself wraps
    around beyond 128 bits, and ends the process for a text with a large exponent.  Decimals become
    the nearest floating-point numbers: Arrow itself makes 2.6750000000000003 of 2.675.  These in
    turn become the decimals nearest to their shortest texts, halves away from zero, as in Spark.
    """
    source = values.type
    if pt.is_decimal(source) and pt.is_floating(kind):
        return pc.cast(pc.cast(values, pa.string()), kind)
    if pt.is_integer(source) and pt.is_decimal(kind):
        values, source = pc.cast(values, INTEGERS), INTEGERS
    wide = wide_decimal(source, kind)
    if wide is None:
        return pc.cast(values, kind)
    if not pt.is_decimal(source):
        if not isinstance(values, pa.Array | pa.ChunkedArray):
            return exact_cast(pa.array([values.as_py()], source), kind)[0]
        if pt.is_floating(source):
            doubles = pc.cast(values, pa.float64())
            is_zero = pc.less(pc.abs(doubles), zero_limit(kind))
            values = pc.if_else(is_zero, "0", pc.cast(doubles, pa.string()))
        if not pc.all(pc.match_substring_regex(values, DECIMAL_TEXT), min_count=0).as_py():
            raise pa.ArrowInvalid("the text is not a decimal, or has more digits than the column")
    found = pc.cast(values, wide)
    if pt.is_floating(source):
        found = pc.round(found, kind.scale, HALF_UP)
    return pc.cast(found, kind)


def zero_limit(kind: pa.DataType) -> float:
    """A number below which floating-point numbers are zero as decimals of a type."""
    return float(f"1e-{kind.scale + 1}")


def wide_decimal(source: pa.DataType, kind: pa.DataType) -> pa.DataType | None:
    """The type by way of which Arrow casts decimals, and texts that match `DECIMAL_TEXT`, to `kind`
    exactly; for floating-point numbers that of their texts.  None for other types."""
    if not pt.is_decimal128(kind):
        return None
    if pt.is_floating(source):
        return pa.decimal256(_DIGITS_MAX, kind.scale + _FLOAT_DIGITS)
    if pt.is_decimal(source):
        return pa.decimal256(_DIGITS_MAX, kind.scale)
    return _TEXT if pt.is_string(source) or pt.is_large_string(source) else None

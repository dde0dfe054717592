"""Values of one type as values of another, exactly or not at all.

A number stays a number, a moment a moment, and a truth value never becomes a number.  Texts are
read as those of CSV are.  Numbers with a fraction become the nearest one of a floating-point type.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.arrays import check_finite, exact_cast
from pyhudi.ingest.message_formats import json_values
from pyhudi.ingest.message_formats.json_values import check_integers, decimals, times_of_day

_INFINITE: Final = r"(?i)^[+-]?inf(inity)?$"
_BASE: Final = r"[xX]"
"""In a whole number: Arrow reads 0x10 as 16."""


def exact(array: pa.Array, kind: pa.DataType) -> pa.Array:
    """Neither type is nested.  Raises ArrowException for a value that the type does not have."""
    source = array.type
    if pt.is_string(source) or pt.is_large_string(source) or pt.is_string_view(source):
        return array.cast(kind) if _is_text(kind) else of_text(kind)(array)
    if _is_bytes(source) and not (_is_text(kind) or _is_bytes(kind)):
        raise _no_value(source, kind)
    if pt.is_boolean(source) != pt.is_boolean(kind) and not _is_text(kind):
        raise _no_value(source, kind)
    if pt.is_temporal(source) and not _is_text(kind):
        return _of_moment(array, kind)
    if pt.is_integer(source) and pt.is_time(kind):
        return times_of_day(array, kind)
    if pt.is_decimal(kind) and not pt.is_decimal(source):
        return decimals(array, kind)
    if pt.is_decimal(source) and pt.is_floating(kind):
        return _of_decimal(array, kind)
    found = exact_cast(array, kind)
    if pt.is_floating(kind) and pt.is_floating(source):
        check_finite(array, found)
    return found


def of_text(kind: pa.DataType) -> Callable[[pa.Array], pa.Array]:
    """Raises ArrowInvalid for a text that is not a value of the type."""
    if pt.is_floating(kind):
        return lambda texts: _floats(texts, kind)
    if pt.is_integer(kind):
        return lambda texts: _integers(texts, kind)
    return json_values.of_text(kind)


def _integers(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    texts = texts.cast(pa.string())
    if pc.any(pc.match_substring_regex(texts, _BASE)).as_py():
        raise pa.ArrowInvalid("the number is not decimal")
    return texts.cast(kind)


def _floats(texts: pa.Array, kind: pa.DataType) -> pa.Array:
    found = texts.cast(pa.string()).cast(pa.float64()).cast(kind)
    infinite = pc.fill_null(pc.is_inf(found.cast(pa.float64())), False)
    if pc.any(infinite).as_py():
        stated = pc.match_substring_regex(texts.filter(infinite), _INFINITE)
        if not pc.all(stated).as_py():
            raise pa.ArrowInvalid("the number is too large for the column")
    check_integers(texts, found)
    return found


def _of_decimal(numbers: pa.Array, kind: pa.DataType) -> pa.Array:
    """The floating-point numbers whose shortest texts are those of the decimals."""
    found = exact_cast(numbers, kind)
    again = decimals(found, numbers.type)
    if not pc.all(pc.equal(again, numbers), min_count=0).as_py():
        raise pa.ArrowInvalid("the decimal has more digits than the column")
    return found


def _of_moment(array: pa.Array, kind: pa.DataType) -> pa.Array:
    source = array.type
    is_other = not pt.is_temporal(kind) or pt.is_time(source) != pt.is_time(kind)
    if is_other or pt.is_duration(source) != pt.is_duration(kind):
        raise _no_value(source, kind)
    found = array.cast(kind)
    if pt.is_date(kind) and not pc.all(pc.equal(found.cast(source), array), min_count=0).as_py():
        raise pa.ArrowInvalid("the time is not the beginning of a day")
    return found


def _is_text(kind: pa.DataType) -> bool:
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_binary(kind))


def _is_bytes(kind: pa.DataType) -> bool:
    return bool(
        pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_binary_view(kind)
        or pt.is_fixed_size_binary(kind)
    )


def _no_value(source: pa.DataType, kind: pa.DataType) -> pa.ArrowInvalid:
    return pa.ArrowInvalid(f"a value of type {source} is not one of {kind}")

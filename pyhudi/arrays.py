"""Types of NumPy arrays, and Arrow arrays of Python values."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import date, datetime, time
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Mask = npt.NDArray[np.bool_]
Ints = npt.NDArray[np.int32]
Longs = npt.NDArray[np.int64]

INTEGERS: Final = pa.decimal128(20, 0)
"""A decimal of every 64-bit integer.  Arrow casts integers only to decimals with room for all of
their type; through this one it asks for the room that the values need."""


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

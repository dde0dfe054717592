"""Types of the bounds in column statistics, of index versions V1 and V2.

```
V1  a wrapper per logical type (DateWrapper, DecimalWrapper of 30 digits, 15 of them fractional)
V2  valueType = ordinal and details; the wrapper is that of the primitive below the type
```

Timestamps and times are plain numbers in both; V2 states their unit.  A V2 decimal is its unscaled
number, big-endian, with precision and scale as details.  A column without values in a log has the
ordinal of NULL.  Versions are numbers, as in `TableLayout.index_version`; 0: tables of version 6,
which have V1 without definitions.
Source: writer_v8_v9 11.6; ValueType of Apache Hudi 1.2.0.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.metadata.payloads import codec

NULL_ORDINAL: Final = 1
DECIMAL_ORDINAL: Final = 10
V1_DIGITS: Final = 30
V1_SCALE: Final = 15
"""Precision and scale of the single decimal type of V1."""


@dataclass(frozen=True, slots=True)
class ValueType:
    """How V2 stores values of one Arrow type; details: of a decimal, `<precision>,<scale>`."""

    ordinal: int
    wrapper: str
    details: str | None = None


_Test = Callable[[pa.DataType], bool]


def _moment(unit: str, is_local: bool) -> _Test:
    return lambda t: pt.is_timestamp(t) and t.unit == unit and (t.tz is None) == is_local


_V2: Final[tuple[tuple[_Test, ValueType], ...]] = (
    (pt.is_boolean, ValueType(2, "BooleanWrapper")),
    (lambda t: pt.is_signed_integer(t) and t.bit_width <= 32, ValueType(3, "IntWrapper")),
    (pt.is_int64, ValueType(4, "LongWrapper")),
    (pt.is_float32, ValueType(5, "FloatWrapper")),
    (pt.is_float64, ValueType(6, "DoubleWrapper")),
    (lambda t: pt.is_string(t) or pt.is_large_string(t), ValueType(7, "StringWrapper")),
    (lambda t: pt.is_binary(t) or pt.is_large_binary(t), ValueType(8, "BytesWrapper")),
    (pt.is_fixed_size_binary, ValueType(9, "BytesWrapper")),
    (pt.is_date32, ValueType(12, "IntWrapper")),
    (pt.is_time32, ValueType(13, "IntWrapper")),
    (pt.is_time64, ValueType(14, "LongWrapper")),
    (_moment("ms", False), ValueType(15, "LongWrapper")),
    (_moment("us", False), ValueType(16, "LongWrapper")),
    (_moment("ns", False), ValueType(17, "LongWrapper")),
    (_moment("ms", True), ValueType(18, "LongWrapper")),
    (_moment("us", True), ValueType(19, "LongWrapper")),
    (_moment("ns", True), ValueType(20, "LongWrapper")),
)

_STORED: Final = {
    2: ("BooleanWrapper", pa.bool_()),
    3: ("IntWrapper", pa.int32()),
    4: ("LongWrapper", pa.int64()),
    5: ("FloatWrapper", pa.float32()),
    6: ("DoubleWrapper", pa.float64()),
    7: ("StringWrapper", pa.string()),
    8: ("BytesWrapper", pa.binary()),
    9: ("BytesWrapper", pa.binary()),
    11: ("StringWrapper", pa.string()),
    12: ("IntWrapper", pa.date32()),
    13: ("IntWrapper", pa.time32("ms")),
    14: ("LongWrapper", pa.time64("us")),
    15: ("LongWrapper", pa.timestamp("ms", "UTC")),
    16: ("LongWrapper", pa.timestamp("us", "UTC")),
    17: ("LongWrapper", pa.timestamp("ns", "UTC")),
    18: ("LongWrapper", pa.timestamp("ms")),
    19: ("LongWrapper", pa.timestamp("us")),
    20: ("LongWrapper", pa.timestamp("ns")),
}
"""Ordinal -> wrapper, and Arrow type of the values."""


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type of a column's values."""
    return kind.value_type if pt.is_dictionary(kind) else kind


def value_type(kind: pa.DataType) -> ValueType | None:
    """How V2 stores a column of this type; None for types without an order."""
    kind = _plain(kind)
    if pt.is_decimal(kind):
        return ValueType(DECIMAL_ORDINAL, "BytesWrapper", f"{kind.precision},{kind.scale}")
    return next((found for test, found in _V2 if test(kind)), None)


def stored_type(ordinal: int, details: str | None) -> tuple[str, pa.DataType] | None:
    """(wrapper, Arrow type) of V2 values; None for a type that this package does not know."""
    if ordinal != DECIMAL_ORDINAL:
        return _STORED.get(ordinal)
    try:
        precision, scale = map(int, (details or "").split(","))
        return "BytesWrapper", pa.decimal128(precision, scale)
    except ValueError:
        return None


def has_ranges(kind: pa.DataType, version: int) -> bool:
    """Whether an index of this version (1 or 2) is given ranges of a column of this type.

    V2 could have those of binary columns, but a filter on one with such ranges fails in Apache
    Hudi 1.2.0 on Spark (ClassCastException).  They are maintained where a definition names them.
    """
    kind = _plain(kind)
    if version < 2 and pt.is_decimal(kind):
        return bool(kind.scale <= V1_SCALE and kind.precision - kind.scale <= V1_DIGITS - V1_SCALE)
    is_bytes = pt.is_binary(kind) or pt.is_large_binary(kind) or pt.is_fixed_size_binary(kind)
    return value_type(kind) is not None and not is_bytes


# ---- decimals -----------------------------------------------------------------------------------


@lru_cache(maxsize=64)
def _one_field(kind: str, precision: int, scale: int) -> str:
    decimal = f',"logicalType":"decimal","precision":{precision},"scale":{scale}' if kind else ""
    return (
        '{"type":"record","name":"d","fields":[{"name":"v","type":["null",{"type":"bytes"'
        f"{decimal}}}]}}]}}"
    )


def decimals_of(unscaled: pa.Array, kind: pa.Decimal128Type) -> pa.Array:
    """Big-endian unscaled numbers as decimals; null stays null."""
    plain, typed = (_one_field(k, kind.precision, kind.scale) for k in ("", "decimal"))
    rows = pa.RecordBatch.from_arrays([unscaled.cast(pa.binary())], names=["v"])
    return codec(typed).decode_column(codec(plain).encode_column(rows)).field("v")


def unscaled_of(decimals: pa.Array) -> pa.Array:
    """The inverse of `decimals_of`: as few bytes as the number needs."""
    kind = decimals.type
    plain, typed = (_one_field(k, kind.precision, kind.scale) for k in ("", "decimal"))
    rows = pa.RecordBatch.from_arrays([decimals], names=["v"])
    return codec(plain).decode_column(codec(typed).encode_column(rows)).field("v")


def unscaled_bytes(number: int) -> bytes:
    """One unscaled number, big-endian, as few bytes as it needs."""
    length = (number if number >= 0 else ~number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


def stored_values(values: pa.Array, kind: ValueType) -> pa.Array:
    """Values of a column in the type of their V2 wrapper."""
    if kind.ordinal == DECIMAL_ORDINAL:
        return unscaled_of(values)
    target: Any = {
        "IntWrapper": pa.int32(),
        "LongWrapper": pa.int64(),
        "BytesWrapper": pa.binary(),
        "StringWrapper": pa.string(),
    }.get(kind.wrapper)
    return values if target is None else values.cast(target)

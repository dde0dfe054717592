"""The part of SQL that filters and values may use: tables of syntax, functions, types and casts.

Nodes have the names of sqlglot's classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final, TypeAlias

import pyarrow as pa
import pyarrow.types as pt

OPERATORS: Final[Mapping[str, str]] = {
    "EQ": "==", "NEQ": "!=", "GT": ">", "LTE": "<=", "LT": "<", "GTE": ">=",
}  # fmt: skip
"""Comparisons."""

ARITHMETIC: Final[Mapping[str, str]] = {
    "Add": "add_checked",
    "Sub": "subtract_checked",
    "Mul": "multiply_checked",
}


def is_text(kind: pa.DataType) -> bool:
    """Whether values of the type are text."""
    return bool(pt.is_string(kind) or pt.is_large_string(kind) or pt.is_string_view(kind))


def is_bytes(kind: pa.DataType) -> bool:
    """Whether values of the type are bytes."""
    tests = (pt.is_binary, pt.is_large_binary, pt.is_fixed_size_binary, pt.is_binary_view)
    return any(test(kind) for test in tests)


def is_time(kind: pa.DataType) -> bool:
    """Whether values of the type are dates or timestamps."""
    return bool(pt.is_date(kind) or pt.is_timestamp(kind))


def is_number(kind: pa.DataType) -> bool:
    """Whether values of the type are numbers."""
    return bool(pt.is_integer(kind) or pt.is_floating(kind) or pt.is_decimal(kind))


_Test: TypeAlias = Callable[[pa.DataType], bool]
FUNCTIONS: Final[Mapping[str, tuple[_Test, str, pa.DataType | None]]] = {
    "Lower": (is_text, "utf8_lower", None), "Upper": (is_text, "utf8_upper", None),
    "Length": (is_text, "utf8_length", pa.int32()), "Trim": (is_text, "utf8_trim", None),
    "Abs": (is_number, "abs_checked", None), "Neg": (is_number, "negate_checked", None),
    "Floor": (is_number, "floor", None), "Ceil": (is_number, "ceil", None),
    "Year": (is_time, "year", pa.int64()), "Month": (is_time, "month", pa.int64()),
    "Day": (is_time, "day", pa.int64()),
}  # fmt: skip
"""Functions of one argument: the types that it may have, the function of Arrow, and the type of the
result if it is not that of the argument."""

OPTIONS: Final[Mapping[str, tuple[tuple[str, Any], ...]]] = {"Trim": (("characters", " "),)}

_TWO: Final = frozenset({"this", "expression"})
_ONE: Final = frozenset({"this"})
ARGUMENTS: Final[Mapping[str, frozenset[str]]] = {
    **dict.fromkeys(("And", "Or", "NullSafeEQ", "NullSafeNEQ", "Dot"), _TWO),
    **dict.fromkeys((*OPERATORS, *ARITHMETIC), _TWO),
    **dict.fromkeys(("Not", "Paren", "Boolean", "HexString", *FUNCTIONS), _ONE),
    **dict.fromkeys(("Is", "Like", "ILike"), _TWO | {"negate"}),
    "In": _ONE | {"expressions"},
    "Between": _ONE | {"low", "high", "symmetric"},
    "Column": _ONE | {"table", "db", "catalog"},
    "Identifier": _ONE | {"quoted"},
    "Literal": _ONE | {"is_string"},
    "Null": frozenset(),
    "Cast": _ONE | {"to"},
    "DataType": _ONE | {"expressions"},
    "DataTypeParam": _ONE,
    "Coalesce": _ONE | {"expressions", "is_nvl"},
    "Div": _TWO,
    "DPipe": _TWO | {"safe"},
    "Case": _ONE | {"ifs", "default"},
    "If": _ONE | {"true"},
}
"""The classes of nodes that are converted, and the arguments of each that the conversion reads or
that do not change the meaning here (`quoted`, `is_nvl`; `safe` of `||`: its operands are text)."""

TYPES: Final[Mapping[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(),
    "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "VARCHAR": pa.string(),
    "TEXT": pa.string(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPNTZ": pa.timestamp("us"), "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "BINARY": pa.binary(), "VARBINARY": pa.binary(),
}  # fmt: skip

_FAMILIES: Final[Mapping[str, _Test]] = {
    "boolean": pt.is_boolean, "integer": pt.is_integer, "float": pt.is_floating,
    "decimal": pt.is_decimal, "text": is_text, "bytes": is_bytes, "date": pt.is_date,
    "timestamp": pt.is_timestamp,
}  # fmt: skip
PARSER_FAULTS: Final = (AttributeError, IndexError, KeyError, TypeError, ValueError)
"""What sqlglot raises, beside its own errors, for arguments that it does not expect."""
_CASTS: Final[Mapping[str, frozenset[str]]] = {
    "boolean": frozenset({"integer", "text"}),
    "integer": frozenset({"boolean", "float", "decimal", "text"}),
    "float": frozenset({"integer"}),
    "decimal": frozenset({"integer", "float", "text"}),
    "text": frozenset({"boolean", "integer", "float", "decimal", "bytes", "date", "timestamp"}),
    "date": frozenset({"timestamp", "text"}),
    "timestamp": frozenset({"date"}),
}
"""From a family of types to others; a cast within a family is allowed too."""


def family(kind: pa.DataType) -> str | None:
    """The family of a type; None for nested types and others without literals."""
    return next((name for name, test in _FAMILIES.items() if test(kind)), None)


def has_cast(given: pa.DataType, kind: pa.DataType) -> bool:
    """Whether Arrow casts values of a type to another as Spark does, or fails."""
    one, two = family(given), family(kind)
    if one is None or two is None:
        return False
    return one == two or two in _CASTS.get(one, frozenset())


__all__ = [
    "ARGUMENTS",
    "ARITHMETIC",
    "FUNCTIONS",
    "OPERATORS",
    "OPTIONS",
    "PARSER_FAULTS",
    "TYPES",
    "family",
    "has_cast",
    "is_bytes",
    "is_number",
    "is_text",
    "is_time",
]

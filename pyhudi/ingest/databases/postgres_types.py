"""Values of PostgreSQL, from the text of their output functions, with the types of a table.

bool  smallint  int  bigint  real  double precision  date  time     their equivalents
timestamp, timestamptz     microseconds; timestamptz in UTC
numeric(p, s)              decimal, up to 38 digits; text without precision
bytea, uuid                bytes; text, or bytes if the table's column has bytes
array                      list, if it has one dimension; its lower bound is not kept
domain                     its base type
any other type             text, as the database writes it

Texts are those of a session with the SETTINGS below.  A text that its type cannot represent, such
as `infinity` as a time or NaN as a decimal, makes its row a bad one.
Source: PostgreSQL 15 manual, "Data Types", "Arrays".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.arrays import Mask, exact_cast
from pyhudi.errors import SchemaError
from pyhudi.formats.schema_conform import widens
from pyhudi.write.input.schema_check import fit_schema

SETTINGS: Final = {
    "datestyle": "ISO, YMD", "intervalstyle": "postgres", "timezone": "UTC",
    "bytea_output": "hex", "extra_float_digits": "1", "client_encoding": "UTF8",
    "lc_monetary": "C",
}  # fmt: skip
"""Settings that change the text of a value."""

BOOL, BYTEA, NUMERIC, UUID = 16, 17, 1700, 2950
_DATE, _TIME, _TIMESTAMP, _TIMESTAMPTZ = 1082, 1083, 1114, 1184
_TYPES: Final[dict[int, pa.DataType]] = {
    BOOL: pa.bool_(), 20: pa.int64(), 21: pa.int16(), 23: pa.int32(), 26: pa.int64(),
    700: pa.float32(), 701: pa.float64(), _DATE: pa.date32(), _TIME: pa.time64("us"),
    _TIMESTAMP: pa.timestamp("us"), _TIMESTAMPTZ: pa.timestamp("us", "UTC"), BYTEA: pa.binary(),
}  # fmt: skip
NAMES: Final = {
    "bool": BOOL, "bytea": BYTEA, "int8": 20, "int2": 21, "int4": 23, "oid": 26, "float4": 700,
    "float8": 701, "date": _DATE, "time": _TIME, "timestamp": _TIMESTAMP,
    "timestamptz": _TIMESTAMPTZ, "numeric": NUMERIC, "uuid": UUID, "text": 25, "varchar": 1043,
    "bpchar": 1042, "json": 114, "jsonb": 3802,
}  # fmt: skip
"""Types that are built in, by name."""
_ARRAYS: Final = {
    1000: BOOL, 1001: BYTEA, 1002: 18, 1003: 19, 1005: 21, 1007: 23, 1009: 25, 1014: 1042,
    1015: 1043, 1016: 20, 1021: 700, 1022: 701, 1028: 26, 1040: 829, 1041: 869, 1115: _TIMESTAMP,
    1182: _DATE, 1183: _TIME, 1185: _TIMESTAMPTZ, 1187: 1186, 1231: NUMERIC, 1270: 1266,
    143: 142, 1561: 1560, 1563: 1562, 199: 114, 2951: UUID, 3807: 3802, 651: 650, 775: 774,
    791: 790,
}  # fmt: skip
"""Elements of the arrays that are built in and separate them by commas."""
_DIGITS_MAX: Final = 38
_DATE_TEXT: Final = r"^\d{4}-\d\d-\d\d"
_FORMS: Final = {
    _DATE: f"{_DATE_TEXT}$",
    _TIMESTAMP: rf"{_DATE_TEXT} \d\d:\d\d:\d\d(\.\d+)?$",
    _TIMESTAMPTZ: rf"{_DATE_TEXT} \d\d:\d\d:\d\d(\.\d+)?\+00$",
}
"""Of values from the year 1 to 9999."""
_NO_NUMBER: Final = "^(NaN|-?Infinity)$"
_SIMPLE_ARRAY: Final = r'^\{[^{}"\\]*\}$'
_ELEMENT: Final = re.compile(r'"((?:[^"\\]|\\.)*)"|([^",{}\\]+)')
_FAILURES: Final = (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError)
_NO_DIGIT: Final = 255
_DIGITS: Final = np.full(256, _NO_DIGIT, np.uint8)
_DIGITS[np.frombuffer(b"0123456789abcdef", np.uint8)] = np.arange(16)


@dataclass(frozen=True, slots=True)
class PostgresType:
    """kind: id of the type, which is not a domain.  modifier: -1: none.  element: of an array."""

    kind: int
    modifier: int = -1
    element: PostgresType | None = None

    @property
    def natural(self) -> pa.DataType:
        """The type of a column of a new table."""
        if self.element is not None:
            return pa.list_(pa.field("element", self.element.natural))
        if self.kind == NUMERIC and self.modifier >= 4:
            return _decimal(self.modifier - 4) or pa.string()
        return _TYPES.get(self.kind, pa.string())


def _decimal(packed: int) -> pa.DataType | None:
    """packed: precision, and in 11 bits a scale that may be negative."""
    precision, scale = packed >> 16, ((packed & 0x7FF) ^ 0x400) - 0x400
    digits = max(precision, scale) if scale >= 0 else precision - scale
    return pa.decimal128(digits, max(scale, 0)) if digits <= _DIGITS_MAX else None


@dataclass(frozen=True, slots=True)
class CatalogType:
    """What the database says of a type: base and base_modifier of a domain, element of an array;
    0: it is none."""

    base: int = 0
    base_modifier: int = -1
    element: int = 0


def resolved(kind: int, modifier: int, catalog: Mapping[int, CatalogType]) -> PostgresType:
    """The type without domains.  catalog: of types that are not built in."""
    known = catalog.get(kind, CatalogType())
    if known.base:
        return resolved(known.base, known.base_modifier, catalog)
    element = known.element or _ARRAYS.get(kind, 0)
    if element:
        return PostgresType(kind, -1, resolved(element, modifier, catalog))
    return PostgresType(kind, modifier)


def is_built_in(kind: int) -> bool:
    """Whether the id is that of the database's own types."""
    return kind < 16384


def common_type(types: Sequence[PostgresType], known: pa.DataType | None) -> pa.DataType:
    """The type of a column whose values have these types.  known: that of the table's column,
    which stays unless a write widens it."""
    found = known
    for each in types:
        found = each.natural if found is None else _wider(each.natural, found, known is not None)
    assert found is not None
    return found


def _wider(natural: pa.DataType, found: pa.DataType, is_known: bool) -> pa.DataType:
    if pt.is_list(natural) and pt.is_list(found):
        element = _wider(natural.value_type, found.value_type, is_known)
        return pa.list_(found.value_field.with_type(element)) if not is_known else found
    if natural == found or pt.is_string(found) or widens(natural, found):
        return found
    if is_known:
        return natural if _is_accepted(natural, found) else found
    return natural if widens(found, natural) else pa.string()


def _is_accepted(natural: pa.DataType, known: pa.DataType) -> bool:
    """Whether a write widens the table's column to this type."""
    try:
        fit_schema(pa.schema([pa.field("column", natural)]), pa.schema([("column", known)]))
    except SchemaError:
        return False
    return not pt.is_list(natural)


def typed_column(raw: pa.Array, kind: PostgresType, target: pa.DataType) -> tuple[pa.Array, Mask]:
    """Values, and the mask of texts that are not a value of the type; those are null.

    raw: binary or text.
    """
    bad = np.zeros(len(raw), np.bool_)
    if not len(raw):
        return pa.array([], target), bad
    texts, bad = _converted(raw, bad, lambda part: pc.cast(part, pa.large_string()))
    if kind.element is not None and pt.is_list(target):
        return _lists(texts, bad, kind.element, target)
    form = _FORMS.get(kind.kind)
    if form is not None and not pt.is_string(target):
        bad = bad | _mask(pc.invert(pc.match_substring_regex(texts, form)))
    if kind.kind == NUMERIC and not (pt.is_string(target) or pt.is_floating(target)):
        bad = bad | _mask(pc.match_substring_regex(texts, _NO_NUMBER))
    return _converted(texts, bad, lambda part: _values(part, kind, target))


def _converted(
    values: pa.Array, bad: Mask, convert: Callable[[pa.Array], pa.Array]
) -> tuple[pa.Array, Mask]:
    """The converted values; those that cannot be converted become null and bad too."""
    values = _without(values, bad)
    try:
        return convert(values), bad
    except _FAILURES:
        found = np.array(list(_misfits(values, convert)), np.int64)
    bad = bad.copy()
    bad[found] = True
    values = _without(values, bad)
    try:
        return convert(values), bad
    except _FAILURES:  # no text has a value of this type
        raise AssertionError("values that convert one by one do not convert together") from None


def _without(values: pa.Array, bad: Mask) -> pa.Array:
    return pc.if_else(pa.array(bad), pa.scalar(None, values.type), values) if bad.any() else values


def _misfits(
    values: pa.Array, convert: Callable[[pa.Array], pa.Array], first: int = 0
) -> Iterator[int]:
    """Values that cannot be converted, found by halving."""
    if values.null_count == len(values):
        return
    try:
        convert(values)
        return
    except _FAILURES:
        if len(values) == 1:
            yield first
            return
    half = len(values) // 2
    yield from _misfits(values.slice(0, half), convert, first)
    yield from _misfits(values.slice(half), convert, first + half)


def _values(texts: pa.Array, kind: PostgresType, target: pa.DataType) -> pa.Array:
    """Raises pyarrow's errors for texts without a value."""
    if texts.null_count == len(texts):
        return pa.nulls(len(texts), target)
    if kind.kind == BYTEA:
        return pc.cast(_from_hex(texts, "\\x"), target)
    if kind.kind == BOOL:
        found = pc.index_in(texts, pa.array(["f", "t"], pa.large_string()))
        if found.null_count != texts.null_count:
            raise pa.ArrowInvalid("not a bool")
        flags = pc.cast(found, pa.bool_())
        return pc.cast(flags, target)
    if pt.is_string(target) or pt.is_large_string(target):
        return pc.cast(texts, target)
    if kind.kind == UUID and (pt.is_fixed_size_binary(target) or pt.is_binary(target)):
        plain = pc.replace_substring(texts, "-", "")
        return pc.cast(_from_hex(plain, ""), target)
    if pt.is_decimal(target):
        return exact_cast(texts, target)  # not by way of floats
    if pt.is_nested(target):
        raise pa.ArrowInvalid("not a list")
    natural = kind.natural
    if pt.is_list(natural) or pt.is_decimal(natural):
        natural = pa.large_string()
    if pt.is_time(natural):  # only times of dates may have any number of digits
        day, space = (pa.scalar(text, pa.large_string()) for text in ("1970-01-01", " "))
        texts = pc.binary_join_element_wise(day, texts, space)
        texts = pc.cast(texts, pa.timestamp("us"))
    typed = pc.cast(texts, natural)
    return typed if typed.type == target else pc.cast(typed, target)


def _from_hex(texts: pa.Array, prefix: str) -> pa.Array:
    """Bytes from hexadecimal digits.  Raises pyarrow.ArrowInvalid for other texts."""
    filled = pc.fill_null(texts, prefix)
    if not pc.all(pc.starts_with(filled, prefix)).as_py():
        raise pa.ArrowInvalid("not hexadecimal digits")
    _, offsets, data = filled.buffers()
    at = np.frombuffer(offsets, np.int64)[filled.offset : filled.offset + len(filled) + 1]
    raw = np.frombuffer(data or b"", np.uint8)[at[0] : at[-1]]
    at = at - at[0]
    keep = np.ones(len(raw), np.bool_)
    for place in range(len(prefix)):
        keep[at[:-1] + place] = False
    digits, sizes = _DIGITS[raw[keep]], np.diff(at) - len(prefix)
    if (sizes % 2).any() or (digits == _NO_DIGIT).any():
        raise pa.ArrowInvalid("not hexadecimal digits")
    values = digits[0::2] << 4 | digits[1::2]
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes // 2)])
    is_valid = np.asarray(pc.is_valid(texts))
    buffers = [
        pa.py_buffer(np.packbits(is_valid, bitorder="little")),
        pa.py_buffer(ends),
        pa.py_buffer(values),
    ]
    return pa.Array.from_buffers(pa.large_binary(), len(texts), buffers)


def _lists(
    texts: pa.Array, bad: Mask, element: PostgresType, target: pa.ListType
) -> tuple[pa.Array, Mask]:
    """Arrays, such as `{1,NULL,"a b"}`.  Those with several dimensions are bad."""
    bounded = pc.starts_with(texts, "[")
    if pc.any(bounded).as_py():
        texts = pc.replace_substring_regex(texts, r"^\[[-0-9:]*\]=", "")
    simple = pc.fill_null(pc.match_substring_regex(texts, _SIMPLE_ARRAY), True)
    if pc.all(simple).as_py():
        inner = pc.utf8_slice_codeunits(texts, 1, -1)
        parts = pc.split_pattern(inner, ",")
        is_empty = pc.equal(texts, "{}")
        parts = pc.if_else(is_empty, pa.scalar([], parts.type), parts)
        parts = pc.cast(parts, pa.large_list(pa.large_string()))
        elements = parts.flatten()
        elements = pc.if_else(
            pc.equal(elements, "NULL"), pa.scalar(None, pa.large_string()), elements
        )
        sizes = np.asarray(pc.fill_null(pc.list_value_length(parts), 0))
    else:
        found = [None if text is None else _parsed(text) for text in texts.to_pylist()]
        bad = bad | np.array([f is None and t.is_valid for f, t in zip(found, texts, strict=True)])
        sizes = np.array([len(each or ()) for each in found], np.int64)
        flat = [value for each in found for value in each or ()]
        elements = pa.array(flat, pa.large_string())
    values, wrong = typed_column(elements, element, target.value_type)
    if wrong.any():
        bad = bad.copy()
        bad[np.repeat(np.arange(len(sizes)), sizes)[wrong]] = True
    ends = np.concatenate([np.zeros(1, np.int64), np.cumsum(sizes)]).astype(np.int32)
    missing = np.asarray(pc.is_null(texts)) | bad
    return (
        pa.ListArray.from_arrays(pa.array(ends), values, type=target, mask=pa.array(missing)),
        bad,
    )


def _parsed(text: str) -> list[str | None] | None:
    """The elements of an array; None if it has several dimensions."""
    found: list[str | None] = []
    at, end = 1, len(text) - 1
    if text[:1] != "{" or text[-1:] != "}":
        return None
    while at < end:
        match = _ELEMENT.match(text, at)
        if match is None or (match.end() < end and text[match.end()] != ","):
            return None
        quoted, plain = match.groups()
        if plain is None:
            found.append(re.sub(r"\\(.)", r"\1", quoted, flags=re.DOTALL))
        else:
            found.append(None if plain == "NULL" else plain)
        at = match.end() + 1
    return found


def _mask(values: pa.Array) -> Mask:
    mask: Mask = np.asarray(pc.fill_null(values, False))
    return mask

"""Literals of SQL text: their values, and what a comparison with one means for a column's type.

A literal is compared by its exact value: `n < 2.5` of an integer column is `n <= 2`, and a number
that no value of the column reaches makes the comparison always true or never.  Only a number that
lies within the range of a floating type takes the nearest value of that type.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from decimal import ROUND_FLOOR, Decimal, InvalidOperation, localcontext
from typing import Any, Final, TypeAlias
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pyarrow.types as pt

from pyhudi.arrays import exact_cast
from pyhudi.read.predicate import COMPARISONS
from pyhudi.read.sql.sql_syntax import is_bytes, is_text

SqlLiteral: TypeAlias = str | int | Decimal | bytes | bool | None
"""A literal without a type; None is null."""

_DIGITS_MAX: Final = 1000
"""Integers with more digits are kept as decimals: Python limits the digits of its integers."""
_EXPONENT_MAX: Final = 10**12
_ZONE_NAME: Final = re.compile(r"(.*:.*\d) ?([A-Za-z][\w/+-]*)", re.ASCII)
_FRACTION: Final = re.compile(r"(.*:\d\d)\.(\d{1,30})(.*)", re.ASCII)
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_UNITS: Final = {"s": 0, "ms": 3, "us": 6, "ns": 9}
_INT64: Final = (-(1 << 63), (1 << 63) - 1)


def number_of(text: str) -> int | Decimal:
    """A numeric literal.  Raises ValueError if Python has no such number."""
    if text.isdigit() and text.isascii() and len(text) <= _DIGITS_MAX:
        return int(text)
    try:
        found = Decimal(text)
    except InvalidOperation:
        raise ValueError(f"not a number: {text[:50]}") from None
    if found.is_finite() and abs(found.adjusted()) > _EXPONENT_MAX:
        raise ValueError(f"too large or too small: {text[:50]}")
    return found


def negative(number: int | Decimal) -> int | Decimal:
    """The number with the other sign, exactly."""
    return number.copy_negate() if isinstance(number, Decimal) else -number


@dataclass(frozen=True, slots=True)
class Bound:
    """A comparison with a literal as one with a value of the column's type.

    value: None where the comparison has the same result for all values but null: `holds`.
    """

    operator: str
    value: pa.Scalar | None = None
    holds: bool = False


def bound_of(
    operator: str,
    literal: str | int | Decimal | bytes | bool,
    kind: pa.DataType,
    own: pa.DataType | None,
) -> Bound:
    """The comparison `column operator literal` for a column of a type.

    operator: one of `COMPARISONS`.  own: the type that the text states for the
    literal.  Raises ValueError or ArrowException if the literal is no value of such a type.
    """
    if pt.is_floating(kind):
        return _floating_bound(operator, float_of(literal), kind)
    steps = _steps(literal, kind, own)
    if steps is not None:
        return _stepped_bound(operator, steps, kind)
    return Bound(operator, scalar_of(literal, kind))


def scalar_of(
    literal: str | int | Decimal | bytes | bool,
    kind: pa.DataType | None,
    own: pa.DataType | None = None,
) -> pa.Scalar:
    """The literal as a value that is used with one of a type, or alone.

    Numbers that are used with integers, decimals or no type stay exact: their scalar is an int64,
    or the least decimal that has them.  Raises ValueError or ArrowException if it is not such a
    value.
    """
    target = kind or own
    if target is None:
        return _untyped(literal)
    if pt.is_temporal(target) and isinstance(literal, str):
        return _temporal(literal, target, own)
    is_number = isinstance(literal, int | Decimal) and not isinstance(literal, bool)
    if pt.is_floating(target):
        return pa.scalar(float_of(literal), target)
    if pt.is_integer(target) or pt.is_decimal(target):
        if isinstance(literal, str):
            return exact_cast(pa.scalar(literal), target)
        if not is_number:
            raise ValueError("not a number")
        if isinstance(literal, bytes) or pt.is_integer(target):
            return _untyped(literal)
        return pa.scalar(Decimal(literal))
    return _plain(literal, target)


def _plain(literal: str | int | Decimal | bytes | bool, kind: pa.DataType) -> pa.Scalar:
    """A literal as text, bytes or a truth value."""
    if isinstance(literal, str) and not is_text(kind):
        if pt.is_nested(kind) or pt.is_null(kind):
            raise ValueError("a type without literals")
        return pa.scalar(literal).cast(kind)
    fits = {str: is_text, bytes: is_bytes, bool: pt.is_boolean}.get(type(literal))
    if fits is None or not fits(kind):
        raise ValueError("a literal of another type")
    return pa.scalar(literal, kind)


def _untyped(literal: str | int | Decimal | bytes | bool) -> pa.Scalar:
    if isinstance(literal, bool | str | bytes):
        return pa.scalar(literal)
    if isinstance(literal, int) and _INT64[0] <= literal <= _INT64[1]:
        return pa.scalar(literal, pa.int64())
    return pa.scalar(Decimal(literal))


def float_of(literal: str | int | Decimal | bytes | bool) -> float:
    """A literal as a float.  Raises ValueError if it is none, or beyond the range of floats."""
    if isinstance(literal, bool | bytes):
        raise ValueError("not a number")
    if isinstance(literal, str):
        return float(pa.scalar(literal).cast(pa.float64()).as_py())
    found = float(Decimal(literal))
    if abs(found) == float("inf"):
        raise ValueError("beyond the range of floating-point numbers")
    return found


def _floating_bound(operator: str, number: float, kind: pa.DataType) -> Bound:
    """The nearest value of the type; beyond its greatest one, the comparison with that one."""
    own = kind.to_pandas_dtype()
    if abs(number) != float("inf"):
        with np.errstate(over="ignore"):
            is_beyond = bool(np.isinf(own(number)))
        if is_beyond:
            greatest = float(np.finfo(own).max)
            below, above = (greatest, None) if number > 0 else (None, -greatest)
            return _between(operator, below, above, kind)
    return Bound(operator, pa.scalar(own(number), kind))


def _between(operator: str, below: Any, above: Any, kind: pa.DataType) -> Bound:
    """The comparison with a literal between two neighbours, of which one is given."""
    if operator in ("==", "!="):
        return Bound(operator, None, operator == "!=")
    is_less = operator in ("<", "<=")
    if below is not None:
        return Bound("<=" if is_less else ">", pa.scalar(below, kind))
    return Bound("<" if is_less else ">=", pa.scalar(above, kind))


def _steps(
    literal: str | int | Decimal | bytes | bool, kind: pa.DataType, own: pa.DataType | None
) -> Decimal | None:
    """The literal in units of a type whose values are whole units; None for other types."""
    if pt.is_integer(kind) or pt.is_decimal(kind):
        if isinstance(literal, bool | bytes):
            raise ValueError("not a number")
        if isinstance(literal, str):
            if pt.is_integer(kind):
                return Decimal(pa.scalar(literal).cast(kind).as_py())
            literal = number_of(literal.strip())
        found = Decimal(literal)
        if not found.is_finite():
            raise ValueError("not a finite number")
        return _shifted(found, 0 if pt.is_integer(kind) else kind.scale)
    if pt.is_date(kind) or pt.is_timestamp(kind):
        if not isinstance(literal, str):
            raise ValueError("not a time")
        if pt.is_date(kind) and (own is None or pt.is_date(own)):
            return Decimal((date.fromisoformat(literal.strip()) - _EPOCH.date()).days)
        if own is not None and pt.is_date(own):
            date.fromisoformat(literal.strip())
        seconds, _ = _instant(literal)
        if pt.is_date(kind):
            days = int(seconds.to_integral_value(ROUND_FLOOR)) // 86400
            return Decimal(days) + (0 if seconds == days * 86400 else Decimal("0.5"))
        return _shifted(seconds, _UNITS[kind.unit])
    return None


def _shifted(number: Decimal, digits: int) -> Decimal:
    """number * 10 ** digits, exactly."""
    sign, figures, exponent = number.as_tuple()
    assert isinstance(exponent, int)
    return Decimal((sign, figures, exponent + digits))


def _limits(kind: pa.DataType) -> tuple[int, int]:
    if pt.is_integer(kind):
        if pt.is_unsigned_integer(kind):
            return 0, (1 << kind.bit_width) - 1
        return -(1 << kind.bit_width - 1), (1 << kind.bit_width - 1) - 1
    if pt.is_decimal(kind):
        return -(10**kind.precision) + 1, 10**kind.precision - 1
    return (-(1 << 31), (1 << 31) - 1) if pt.is_date(kind) else _INT64


def _stepped_bound(operator: str, steps: Decimal, kind: pa.DataType) -> Bound:
    low, high = _limits(kind)
    if steps > high:
        return Bound(operator, None, operator in ("!=", "<", "<="))
    if steps < low:
        return Bound(operator, None, operator in ("!=", ">", ">="))
    whole = int(steps.to_integral_value(ROUND_FLOOR))
    value = _of_steps(whole, kind)
    if whole == steps:
        return Bound(operator, value)
    return (
        Bound(operator, None, operator == "!=")
        if operator in ("==", "!=")
        else Bound("<=" if operator in ("<", "<=") else ">", value)
    )


def _of_steps(steps: int, kind: pa.DataType) -> pa.Scalar:
    """The value of a type that is a number of its units."""
    if pt.is_decimal(kind):
        sign, figures, _ = Decimal(steps).as_tuple()
        return pa.scalar(Decimal((sign, figures, -kind.scale)), kind)
    if pt.is_integer(kind):
        return pa.scalar(steps, kind)
    if pt.is_date(kind):
        return pa.scalar(steps, pa.int32()).cast(pa.date32()).cast(kind)
    return pa.scalar(steps, pa.int64()).cast(kind)


def _temporal(text: str, kind: pa.DataType, own: pa.DataType | None) -> pa.Scalar:
    """A text as a date, instant or time of day.  Raises ValueError if the type lacks the value."""
    if pt.is_time(kind) or pt.is_duration(kind) or pt.is_interval(kind):
        return pa.scalar(text).cast(kind)
    steps = _steps(text, kind, own)
    bound = None if steps is None else _stepped_bound("==", steps, kind)
    if bound is None or bound.value is None:
        raise ValueError("the type has no such value")
    return bound.value


def states_zone(text: str) -> bool:
    """Whether a literal of a time states a zone.  Raises ValueError if it is no time."""
    return _instant(text)[1]


def _instant(text: str) -> tuple[Decimal, bool]:
    """Seconds since 1970 of a text in ISO 8601, and whether it states a zone; without, it is UTC.

    The zone is an offset, `Z`, or a name such as `UTC` or `Europe/Paris`.  Raises ValueError.
    """
    plain, zone = text.strip(), None
    if (named := _ZONE_NAME.fullmatch(plain)) and named[2] != "Z":
        plain = named[1]
        try:
            zone = ZoneInfo("UTC" if named[2] == "GMT" else named[2])
        except (KeyError, OSError):
            raise ValueError(f"no such time zone: {named[2]}") from None
    fraction = Decimal(0)
    if part := _FRACTION.fullmatch(plain):
        plain, fraction = part[1] + part[3], Decimal(f"0.{part[2]}")
    plain = re.sub(r"(:\d\d) (Z|[+-]\d\d)", r"\1\2", plain)
    moment = datetime.fromisoformat(plain)
    if zone is not None:
        if moment.tzinfo is not None:
            raise ValueError("a time with two zones")
        moment = moment.replace(tzinfo=zone)
    is_stated = moment.tzinfo is not None
    since = (moment if is_stated else moment.replace(tzinfo=UTC)) - _EPOCH
    with localcontext(prec=64):
        return Decimal(since // timedelta(seconds=1)) + fraction, is_stated


def compared_literals(operator: str, one: SqlLiteral, other: SqlLiteral) -> bool:
    """The comparison of two literals.  Raises ValueError if their types differ."""
    numbers = [isinstance(v, int | Decimal) and not isinstance(v, bool) for v in (one, other)]
    if not all(numbers) and type(one) is not type(other):
        raise ValueError("literals of different types")
    return bool(COMPARISONS[operator](one, other))


__all__ = [
    "Bound",
    "SqlLiteral",
    "bound_of",
    "compared_literals",
    "float_of",
    "negative",
    "number_of",
    "scalar_of",
    "states_zone",
]

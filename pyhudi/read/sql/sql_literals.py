"""Literals of SQL text as Arrow scalars of the types with which they are used."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from decimal import Decimal
from typing import TypeAlias

import pyarrow as pa
import pyarrow.types as pt

SqlLiteral: TypeAlias = str | int | Decimal | bytes | bool | None
"""A literal without a type; None is null."""


def number_of(text: str) -> int | Decimal:
    """A numeric literal."""
    return int(text) if text.isdigit() else Decimal(text)


def takes(kind: pa.DataType, literal: SqlLiteral) -> bool:
    """Whether a literal is read as this type; otherwise Arrow widens the column."""
    if pt.is_integer(kind):
        return isinstance(literal, str) or (
            isinstance(literal, int) and -(1 << 31) <= literal < (1 << 31)
        )
    return True


def scalar_of(literal: str | int | Decimal | bytes | bool, kind: pa.DataType | None) -> pa.Scalar:
    """The literal as a value of a type.  Raises ValueError or ArrowException if it is not one."""
    if kind is None:
        return pa.scalar(float(literal) if isinstance(literal, Decimal) else literal)
    if isinstance(literal, str) and pt.is_timestamp(kind):
        return _instant(literal, kind)
    if isinstance(literal, int | Decimal) and not isinstance(literal, bool):
        if pt.is_floating(kind):
            return pa.scalar(float(literal), kind)
        if pt.is_integer(kind) and isinstance(literal, int):
            return pa.scalar(literal, pa.int64()).cast(pa.int64())
        if pt.is_decimal(kind):
            return pa.scalar(Decimal(literal))
        return pa.scalar(float(literal) if isinstance(literal, Decimal) else literal)
    if isinstance(literal, str) and not (pt.is_string(kind) or pt.is_large_string(kind)):
        return pa.scalar(literal).cast(kind)
    return pa.scalar(literal, kind)


def _instant(text: str, kind: pa.DataType) -> pa.Scalar:
    moment = datetime.fromisoformat(text.strip())
    if kind.tz is None and moment.tzinfo is not None:
        raise ValueError("a time with a zone for a column without")
    if kind.tz is not None and moment.tzinfo is None:
        moment = moment.replace(tzinfo=UTC)
    return pa.scalar(moment, pa.timestamp("us", kind.tz)).cast(kind)


def common_type(values: Sequence[pa.Scalar], kind: pa.DataType | None) -> pa.DataType | None:
    """The type of an `in` list: of the column, unless its literals need a wider one."""
    kinds = {value.type for value in values}
    if len(kinds) == 1:
        return kinds.pop()
    return pa.float64() if any(pt.is_floating(k) for k in kinds) else kind

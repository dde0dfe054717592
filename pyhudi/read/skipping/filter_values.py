"""What a filter requires of the values of a column."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.read.predicate import (
    MIRRORED,
    And,
    Column,
    Compare,
    In,
    IsValid,
    Literal,
    Node,
    Or,
    children,
)


def required_values(
    node: Node, names: Sequence[str], kind: pa.DataType, *, may_be_null: bool = False
) -> pa.Array | None:
    """The values to which a filter limits a column; None if it does not limit the column.

    names: of the column.  kind: its type; None is returned for values that cannot be cast to it.
    may_be_null: whether the column may contain nulls, which `in` finds if its values include null;
    None is returned for such a filter.
    """
    if isinstance(node, And | Or):
        sides = [required_values(side, names, kind, may_be_null=may_be_null) for side in node.sides]
        limited = [side for side in sides if side is not None]
        if isinstance(node, And):
            return min(limited, key=len, default=None)
        return pa.concat_arrays(limited) if len(limited) == len(sides) and limited else None
    compared = comparison(node)
    if compared is None or compared.name not in names or compared.operator not in ("==", "in"):
        return None
    if may_be_null and compared.operator == "in" and compared.values.null_count:
        return None
    if pt.is_floating(compared.values.type) and not pt.is_floating(kind):
        return None  # Arrow compares as floats, which several integers and decimals may equal
    try:
        return compared.values.cast(kind).drop_null()
    except pa.ArrowException:
        return None


@dataclass(frozen=True, slots=True)
class Comparison:
    """A column and its literals: one for `==`, `!=`, `<`, `<=`, `>`, `>=`, or several of `in`."""

    name: str
    operator: str
    values: pa.Array


def comparison(node: Node) -> Comparison | None:
    """The node as a comparison with the column on the left; None for any other node."""
    match node:
        case Compare(operator, Column((name,)), Literal(value)):
            return Comparison(name, operator, _array(value))
        case Compare(operator, Literal(value), Column((name,))):
            return Comparison(name, MIRRORED[operator], _array(value))
        case In(Column((name,)), values):
            return Comparison(name, "in", values)
        case _:
            return None


def may_keep_nan(node: Node) -> bool:
    """Whether a filter may be true for NaN, which bounds do not cover."""
    match node:
        case Column() | Literal():
            return False
        case And() | Or() | IsValid():
            return any(map(may_keep_nan, children(node)))
        case Compare(operator) if operator != "!=":
            return any(map(may_keep_nan, children(node)))
        case _:
            return True


def names_nan(node: Node) -> bool:
    """Whether a filter compares with NaN: Arrow then misjudges bounds."""
    match node:
        case Literal(value):
            return value.is_valid and _holds_nan(_array(value))
        case In(_, values) if _holds_nan(values):
            return True
        case _:
            return any(map(names_nan, children(node)))


def _holds_nan(values: pa.Array) -> bool:
    return pt.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())


def _array(value: pa.Scalar) -> pa.Array:
    return pa.array([value], value.type)


__all__ = [
    "Comparison",
    "comparison",
    "may_keep_nan",
    "names_nan",
    "required_values",
]

"""Comparisons of floating-point numbers as Spark and engines compare them, as filter trees.

NaN equals itself and is greater than all other numbers, the two zeros are equal, and a comparison
with null is null.  Arrow's own comparisons are false for NaN, except for `!=`, and its `is_in`
tells the zeros apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NoReturn

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import UserError
from pyhudi.read.predicate import (
    MIRRORED,
    And,
    Call,
    Column,
    Compare,
    In,
    IsNull,
    IsValid,
    Literal,
    Node,
    Not,
    Or,
    Predicate,
    Unknown,
    literal,
    walk,
)


def _is_nan(node: Node) -> Node:
    return Call("is_nan", (node,))


def compared_with_value(operator: str, node: Node, value: pa.Scalar) -> Node:
    """A comparison with one floating-point value that is not null."""
    if value.as_py() != value.as_py():
        match operator:
            case "==" | ">=":
                return _is_nan(node)
            case "!=" | "<":
                return Not(_is_nan(node))
            case "<=":
                return IsValid(node)
            case _:
                return literal(False)
    found = Compare(operator, node, Literal(value))
    return Or((found, _is_nan(node))) if operator in (">", ">=") else found


def compared(operator: str, left: Node, right: Node) -> Node:
    """A comparison of two floating-point values of the same type."""
    nans = (_is_nan(left), _is_nan(right))
    match operator:
        case "==" | "!=":
            equal = Or((Compare("==", left, right), And(nans)))
            return Not(equal) if operator == "!=" else equal
        case "<" | ">=":
            less = Or((Compare("<", left, right), And((nans[1], Not(nans[0])))))
            return Not(less) if operator == ">=" else less
    greater = Or((Compare(">", left, right), And((nans[0], Not(nans[1])))))
    return Not(greater) if operator == "<=" else greater


def members(node: Node, values: Sequence[pa.Scalar], kind: pa.DataType) -> Node:
    """Whether a value of a type is one of these values of it, none of which is null; false for
    null."""
    if not pt.is_floating(kind):
        return In(node, pa.array(values, kind))
    numbers = [v.as_py() for v in values if v.as_py() == v.as_py()]
    if 0.0 in numbers:
        numbers += [0.0, -0.0]
    found = In(node, pa.array(numbers, kind))
    return found if all(v.as_py() == v.as_py() for v in values) else Or((found, _is_nan(node)))


def of_engine(where: Predicate, schema: pa.Schema) -> Predicate:
    """A filter that a query engine has handed down, with the engine's meaning.

    The engine states comparisons and lists as Arrow's, which differ for NaN, for zeros in lists,
    and for nulls where a list is negated.  Raises UserError for a part that is not known.
    """
    floats = {field.name for field in schema if pt.is_floating(field.type)}
    if not floats and not any(isinstance(node, In | Unknown) for node in walk(where.tree)):
        return where
    return Predicate(_Rewriting(where, floats).condition(where.tree), where.columns)


class _Rewriting:
    """The rewriting of one filter; methods take nodes of its tree."""

    def __init__(self, where: Predicate, floats: set[str]) -> None:
        self._where, self._floats = where, floats

    def condition(self, node: Node, *, negated: bool = False) -> Node:
        """A part of the filter.  negated: whether it is inside a negation, where null and false
        differ."""
        match node:
            case Column((_,)) | Literal():
                return node
            case And(sides) | Or(sides):
                return type(node)(tuple(self.condition(side, negated=negated) for side in sides))
            case Not(In(Column((_,)) as column, values)):
                return And((Not(self._members(column, values)), IsValid(column)))
            case Not(one):
                return Not(self.condition(one, negated=True))
            case IsValid(one):
                return IsValid(self.condition(one))
            case IsNull(one, or_nan):
                return IsNull(self.condition(one), or_nan)
            case Call("is_nan" | "if_else" as name, arguments, ()):
                return Call(name, tuple(map(self.condition, arguments)))
            case In(Column((_,)) as column, values):
                found = self._members(column, values)
                null = literal(None, pa.bool_())
                return Call("if_else", (IsValid(column), found, null)) if negated else found
            case Compare():
                return self._compared(node)
            case Unknown(_, why):
                return self._refuse("that cannot be analyzed", why)
        return self._refuse("with a part that is not known", str(node))

    def _refuse(self, what: str, part: str) -> NoReturn:
        raise UserError(
            f"the engine hands down a filter {what}",
            where=str(self._where),
            part=part,
            hint="write the condition over a subquery's column, or use Table.scan(where=...)",
        )

    def _compared(self, node: Compare) -> Node:
        name, one, two = node.operator, node.left, node.right
        if isinstance(one, Literal):
            one, two, name = two, one, MIRRORED[name]
        left, right = self.condition(one), self.condition(two)
        if not (self._is_float(one) or self._is_float(two)):
            return Compare(name, left, right)
        if isinstance(two, Literal) and pt.is_floating(two.value.type) and two.value.is_valid:
            return compared_with_value(name, left, two.value)
        if isinstance(two, Literal) or not (self._is_float(one) and self._is_float(two)):
            found = Compare(name, left, right)
            return Or((found, _is_nan(left))) if name in (">", ">=") else found
        return compared(name, left, right)

    def _is_float(self, node: Node) -> bool:
        if isinstance(node, Literal):
            return bool(pt.is_floating(node.value.type))
        return isinstance(node, Column) and len(node.path) == 1 and node.path[0] in self._floats

    def _members(self, column: Column, values: pa.Array) -> Node:
        """Whether a column has a value of a list; a null in the list is none of its values."""
        if values.null_count:
            raise UserError(
                "the engine hands down a list with null",
                where=str(self._where),
                column=column.path[0],
                hint="leave null out of the list: it selects no row",
            )
        return members(column, list(values), values.type)


__all__ = ["compared", "compared_with_value", "members", "of_engine"]

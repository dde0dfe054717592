"""Comparisons of floating-point numbers as Spark and engines compare them, as Arrow expressions.

NaN equals itself and is greater than all other numbers, the two zeros are equal, and a comparison
with null is null.  Arrow's own comparisons are false for NaN, except for `!=`, and its `is_in`
tells the zeros apart.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import UserError
from pyhudi.read.skipping.predicates import Call, Field, Literal, Predicate, parse_filter

_ARROW: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "EQ": operator.eq, "NEQ": operator.ne, "GT": operator.gt, "LTE": operator.le,
    "LT": operator.lt, "GTE": operator.ge,
}  # fmt: skip


def compared_with_value(name: str, expression: pc.Expression, value: pa.Scalar) -> pc.Expression:
    """A comparison with one floating-point value that is not null.

    name: one of EQ, NEQ, LT, LTE, GT, GTE.
    """
    found: pc.Expression
    if value.as_py() != value.as_py():
        match name:
            case "EQ" | "GTE":
                found = pc.is_nan(expression)
            case "NEQ" | "LT":
                found = ~pc.is_nan(expression)
            case "LTE":
                found = expression.is_valid()
            case _:
                found = pc.scalar(False)
        return found
    found = _ARROW[name](expression, value)
    return found | pc.is_nan(expression) if name in ("GT", "GTE") else found


def compared(name: str, left: pc.Expression, right: pc.Expression) -> pc.Expression:
    """A comparison of two floating-point expressions of the same type."""
    nans = (pc.is_nan(left), pc.is_nan(right))
    match name:
        case "EQ" | "NEQ":
            equal: pc.Expression = (left == right) | (nans[0] & nans[1])
            return ~equal if name == "NEQ" else equal
        case "LT" | "GTE":
            less: pc.Expression = (left < right) | (nans[1] & ~nans[0])
            return ~less if name == "GTE" else less
    greater: pc.Expression = (left > right) | (nans[0] & ~nans[1])
    return ~greater if name == "LTE" else greater


def members(
    expression: pc.Expression, values: Sequence[pa.Scalar], kind: pa.DataType
) -> pc.Expression:
    """Whether an expression of a type has one of these values of it, none of which is null; false
    for null."""
    if not pt.is_floating(kind):
        return expression.isin(pa.array(values, kind))
    numbers = [v.as_py() for v in values if v.as_py() == v.as_py()]
    if 0.0 in numbers:
        numbers += [0.0, -0.0]
    found: pc.Expression = expression.isin(pa.array(numbers, kind))
    if len([v for v in values if v.as_py() != v.as_py()]):
        found = found | pc.is_nan(expression)
    return found


_NAMES: Final = {
    "equal": "EQ", "not_equal": "NEQ", "less": "LT", "less_equal": "LTE", "greater": "GT",
    "greater_equal": "GTE",
}  # fmt: skip
_MIRRORED: Final = {"LT": "GT", "GT": "LT", "LTE": "GTE", "GTE": "LTE"}


def of_engine(where: pc.Expression | pa.Scalar, schema: pa.Schema) -> pc.Expression:
    """A filter that a query engine has handed down, with the engine's meaning.

    The engine states comparisons and lists as Arrow's, which differ for NaN, for zeros in lists,
    and for nulls where a list is negated.  Raises UserError for a part that is not known.
    """
    if isinstance(where, pa.Scalar):
        return pc.scalar(where)
    node = parse_filter(where)
    floats = {field.name for field in schema if pt.is_floating(field.type)}
    if not floats and "is_in" not in str(where):
        return where
    if node is None:
        raise UserError(
            "the engine hands down a filter that cannot be analyzed", where=str(where),
            hint="write the condition over a subquery's column, or use Table.scan(where=...)",
        )  # fmt: skip
    return _Rewriting(where, schema, floats).condition(node)


class _Rewriting:
    """The rewriting of one filter; methods take nodes of its tree."""

    def __init__(self, where: pc.Expression, schema: pa.Schema, floats: set[str]) -> None:
        self._where, self._schema, self._floats = where, schema, floats

    def condition(self, node: Predicate, *, negated: bool = False) -> pc.Expression:
        """A part of the filter.  negated: whether it is inside a negation, where null and false
        differ."""
        match node:
            case Field(name):
                return pc.field(name)
            case Literal(value):
                return pc.scalar(value)
            case Call("and_kleene", (one, two)):
                return self.condition(one, negated=negated) & self.condition(two, negated=negated)
            case Call("or_kleene", (one, two)):
                return self.condition(one, negated=negated) | self.condition(two, negated=negated)
            case Call("invert", (Call("is_in", (Field(name),), options),)) if options is not None:
                return ~self._members(name, options) & pc.field(name).is_valid()
            case Call("invert", (one,)):
                return ~self.condition(one, negated=True)
            case Call("is_valid", (one,)):
                return self.condition(one).is_valid()
            case Call("is_null", (one,), options):
                return self.condition(one).is_null(nan_is_null=_is_set(options, "nan_is_null"))
            case Call("is_nan", (one,)):
                return pc.is_nan(self.condition(one))
            case Call("if_else", (one, two, three)):
                return pc.if_else(*map(self.condition, (one, two, three)))
            case Call("is_in", (Field(name),), options) if options is not None:
                found = self._members(name, options)
                is_known, null = pc.field(name).is_valid(), pa.scalar(None, pa.bool_())
                return pc.if_else(is_known, found, null) if negated else found
            case Call(name, (one, two)) if name in _NAMES:
                return self._compared(_NAMES[name], one, two)
        raise UserError(
            "the engine hands down a filter with a part that is not known",
            where=str(self._where), part=node.name if isinstance(node, Call) else str(node),
            hint="write the condition over a subquery's column, or use Table.scan(where=...)",
        )  # fmt: skip

    def _compared(self, name: str, one: Predicate, two: Predicate) -> pc.Expression:
        if isinstance(one, Literal):
            one, two, name = two, one, _MIRRORED.get(name, name)
        sides = self.condition(one), self.condition(two)
        if not (self._is_float(one) or self._is_float(two)):
            found: pc.Expression = _ARROW[name](*sides)
            return found
        if isinstance(two, Literal) and pt.is_floating(two.value.type) and two.value.is_valid:
            return compared_with_value(name, sides[0], two.value)
        if isinstance(two, Literal) or not (self._is_float(one) and self._is_float(two)):
            found = _ARROW[name](*sides)
            return found | pc.is_nan(sides[0]) if name in ("GT", "GTE") else found
        return compared(name, *sides)

    def _is_float(self, node: Predicate) -> bool:
        if isinstance(node, Literal):
            return bool(pt.is_floating(node.value.type))
        return isinstance(node, Field) and node.name in self._floats

    def _members(self, name: str, options: pa.Scalar) -> pc.Expression:
        """Whether a column has a value of a list; a null in the list is none of its values."""
        values = options["value_set"].values
        if values.null_count:
            raise UserError(
                "the engine hands down a list with null", where=str(self._where), column=name,
                hint="leave null out of the list: it selects no row",
            )  # fmt: skip
        return members(pc.field(name), list(values), values.type)


def _is_set(options: pa.Scalar | None, name: str) -> bool:
    return options is not None and bool(options[name].as_py())


__all__ = ["compared", "compared_with_value", "members", "of_engine"]

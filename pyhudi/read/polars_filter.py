"""Filters of polars as filter trees that select the same rows or more.

polars applies its filter itself; the one made here decides which partitions, files and row groups
are read.  Only parts that mean the same in both are used: comparisons of a column with a literal,
`is_in`, `is_between` and null tests, joined by `&` and `|`.  Comparisons of floating columns are
left out: polars orders NaN above all numbers.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.read.predicate import (
    MIRRORED,
    And,
    Column,
    Compare,
    In,
    IsNull,
    IsValid,
    Literal,
    Node,
    Or,
    Predicate,
    Unknown,
    analyzed,
    columns_of,
)

if TYPE_CHECKING:
    from polars import Expr

_COMPARISONS: Final = {
    "Eq": "==", "NotEq": "!=", "Lt": "<", "LtEq": "<=", "Gt": ">", "GtEq": ">=",
}  # fmt: skip


def polars_filter(condition: Expr, schema: pa.Schema) -> Predicate | None:
    """A filter that all rows of `condition` pass; None if nothing of it can be used."""
    tree = analyzed(_tree(condition, schema))
    return None if tree is None else Predicate(tree, columns_of(tree, schema))


def _tree(condition: Expr, schema: pa.Schema) -> Node:
    """The tree of a condition; its unknown parts are of no use but to mark them."""
    name, detail = _operation(condition)
    parts = list(reversed(condition.meta.pop()))
    if name in ("And", "LogicalAnd", "Or", "LogicalOr"):
        join = And if name.endswith("And") else Or
        return join(tuple(_tree(part, schema) for part in parts))
    found = _test(name, detail, parts, schema)
    return Unknown(pc.scalar(True), "is not known") if found is None else found


def _test(name: str, detail: Any, parts: list[Expr], schema: pa.Schema) -> Node | None:
    """A condition on one column; None if it is not known."""
    if name in _COMPARISONS:
        operator = _COMPARISONS[name]
        if parts[0].meta.is_literal():
            operator, parts = MIRRORED[operator], parts[::-1]
        return _compared(operator, parts, schema)
    return _tested(name, detail, parts, schema)


def _operation(condition: Expr) -> tuple[str, Any]:
    """The name of the outermost operation and its details; an empty name if it is not known.

    Other releases of polars may serialize expressions differently; then no operation is known.
    """
    stated = json.loads(condition.meta.serialize(format="json"))
    found = stated.get("BinaryExpr") if isinstance(stated, dict) else None
    if isinstance(found, dict):
        return str(found.get("op")), None
    found = stated.get("Function") if isinstance(stated, dict) else None
    inner = found.get("function") if isinstance(found, dict) else None
    inner = inner.get("Boolean") if isinstance(inner, dict) else None
    if isinstance(inner, dict) and len(inner) == 1:
        return next(iter(inner.items()))
    return (inner, None) if isinstance(inner, str) else ("", None)


def _compared(operator: str, parts: list[Expr], schema: pa.Schema) -> Node | None:
    field = _field(parts[0], schema)
    value = None if field is None else _scalar(parts[1], field.type)
    if field is None or value is None:
        return None
    return Compare(operator, Column((field.name,)), Literal(value))


def _tested(name: str, detail: Any, parts: list[Expr], schema: pa.Schema) -> Node | None:
    """A test of one column that is not a comparison with one value."""
    field = _field(parts[0], schema) if parts else None
    if field is None:
        return None
    column = Column((field.name,))
    if name == "IsNull":
        return IsNull(column)
    if name == "IsNotNull":
        return IsValid(column)
    if name == "IsBetween":
        low, high = (_scalar(part, field.type) for part in parts[1:])
        if low is None or high is None:
            return None
        return And((Compare(">=", column, Literal(low)), Compare("<=", column, Literal(high))))
    if name == "IsIn" and isinstance(detail, dict) and detail.get("nulls_equal") is False:
        found = _values(parts[1], field.type)
        return None if found is None else In(column, found)
    return None


def _field(part: Expr, schema: pa.Schema) -> pa.Field | None:
    """The column that a part is, if values of its type are ordered alike in both."""
    if not part.meta.is_column():
        return None
    position = schema.get_field_index(part.meta.output_name())
    if position < 0:
        return None
    field = schema.field(position)
    return None if pt.is_floating(field.type) or pt.is_nested(field.type) else field


def _scalar(part: Expr, kind: pa.DataType) -> pa.Scalar | None:
    found = _values(part, kind)
    return None if found is None or len(found) != 1 or found.null_count else found[0]


def _values(part: Expr, kind: pa.DataType) -> pa.Array | None:
    """The values of a literal with the type of a column; None if they do not fit exactly."""
    import polars

    if part.meta.root_names() or not part.meta.is_literal():
        return None
    column = polars.select(part).to_series()
    values = column.to_list()
    if len(values) == 1 and isinstance(values[0], list):
        values = values[0]
    try:
        found = pa.array(values, kind)
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return None
    return found if found.to_pylist() == values else None  # Arrow truncates numbers and times

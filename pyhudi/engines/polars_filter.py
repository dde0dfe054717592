"""Filters of polars as filters of Arrow that select the same rows or more.

polars applies its filter itself; the one made here decides which partitions, files and row groups
are read.  Only parts that mean the same in both are used: comparisons of a column with a literal,
`is_in`, `is_between` and null tests, joined by `&` and `|`.  Comparisons of floating columns are
left out: polars orders NaN above all numbers.
"""

from __future__ import annotations

import json
import operator
from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.read.skipping.predicates import both

if TYPE_CHECKING:
    from polars import Expr

_COMPARISONS: Final[dict[str, Callable[[Any, Any], pc.Expression]]] = {
    "Eq": operator.eq,
    "NotEq": operator.ne,
    "Lt": operator.lt,
    "LtEq": operator.le,
    "Gt": operator.gt,
    "GtEq": operator.ge,
}
_MIRRORED: Final = {"Lt": "Gt", "LtEq": "GtEq", "Gt": "Lt", "GtEq": "LtEq"}


def arrow_filter(predicate: Expr, schema: pa.Schema) -> pc.Expression | None:
    """A filter that all rows of `predicate` pass; None if nothing of it can be used."""
    name, detail = _operation(predicate)
    parts = list(reversed(predicate.meta.pop()))
    if name in ("And", "LogicalAnd"):
        return both(arrow_filter(parts[0], schema), arrow_filter(parts[1], schema))
    if name in ("Or", "LogicalOr"):
        sides = [arrow_filter(part, schema) for part in parts]
        return None if sides[0] is None or sides[1] is None else sides[0] | sides[1]
    if name in _COMPARISONS:
        if parts[0].meta.is_literal():
            name, parts = _MIRRORED.get(name, name), parts[::-1]
        return _compared(name, parts, schema)
    return _tested(name, detail, parts, schema)


def _operation(predicate: Expr) -> tuple[str, Any]:
    """The name of the outermost operation and its details; an empty name if it is not known.

    Other releases of polars may serialize expressions differently; then no operation is known.
    """
    stated = json.loads(predicate.meta.serialize(format="json"))
    found = stated.get("BinaryExpr") if isinstance(stated, dict) else None
    if isinstance(found, dict):
        return str(found.get("op")), None
    found = stated.get("Function") if isinstance(stated, dict) else None
    inner = found.get("function") if isinstance(found, dict) else None
    inner = inner.get("Boolean") if isinstance(inner, dict) else None
    if isinstance(inner, dict) and len(inner) == 1:
        return next(iter(inner.items()))
    return (inner, None) if isinstance(inner, str) else ("", None)


def _compared(name: str, parts: list[Expr], schema: pa.Schema) -> pc.Expression | None:
    field = _field(parts[0], schema)
    value = None if field is None else _scalar(parts[1], field.type)
    if field is None or value is None:
        return None
    return _COMPARISONS[name](pc.field(field.name), value)


def _tested(name: str, detail: Any, parts: list[Expr], schema: pa.Schema) -> pc.Expression | None:
    """A test of one column that is not a comparison with one value."""
    field = _field(parts[0], schema) if parts else None
    if field is None:
        return None
    column = pc.field(field.name)
    if name == "IsNull":
        return column.is_null()
    if name == "IsNotNull":
        return column.is_valid()
    if name == "IsBetween":
        bounds = [_scalar(part, field.type) for part in parts[1:]]
        return None if None in bounds else (column >= bounds[0]) & (column <= bounds[1])
    if name == "IsIn" and isinstance(detail, dict) and detail.get("nulls_equal") is False:
        found = _values(parts[1], field.type)
        return None if found is None else column.isin(found)
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

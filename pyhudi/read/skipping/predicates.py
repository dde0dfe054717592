"""Filters as predicate trees, and the values that they require of a column.

Arrow does not expose the structure of an expression, but pickles it as a record batch: the calls
and fields are the schema's metadata in prefix order, the literals are columns of one row each.

    call: 'and_kleene'  call: 'equal'  field_ref: 'id'  literal: '0'  end: 'equal'  ...

A filter that cannot be parsed this way has no tree (None) and is not used to skip files.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import UserError


@dataclass(frozen=True, slots=True)
class Field:
    """A column of the table, not one inside a struct."""

    name: str


@dataclass(frozen=True, slots=True)
class Literal:
    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class Call:
    """A function of some nodes.  options: as Arrow stores them, or None."""

    name: str
    arguments: tuple[Predicate, ...]
    options: pa.Scalar | None = None


@dataclass(frozen=True, slots=True)
class Opaque:
    """An operand that is not analyzed, such as a field inside a struct."""


Predicate = Field | Literal | Call | Opaque

_LINE: Final = re.compile(r"(\w+): '(.*)'")


def both(one: pc.Expression | None, other: pc.Expression | None) -> pc.Expression | None:
    """The conjunction of two filters, either of which may be None."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def passing(rows: pa.Table, where: pc.Expression) -> pa.Table:
    """The rows for which a filter is true.  Raises UserError where it fails for a value."""
    try:
        return rows.filter(where)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
        raise UserError(
            "the filter cannot be evaluated for a row", where=str(where), cause=str(error),
            hint="a cast or a calculation has no result for a value; exclude such rows with "
            "case when",
        ) from None  # fmt: skip


class _NoTreeError(Exception):
    """The expression cannot be parsed."""


def parse_filter(where: pc.Expression) -> Predicate | None:
    """The tree of a filter; None where it cannot be parsed."""
    try:
        _, (content,) = where.__reduce__()
        batch = pa.ipc.open_file(content).read_all()
        text = batch.schema.to_string(truncate_metadata=False, show_schema_metadata=True)
        calls = text.partition("-- schema metadata --\n")[2].splitlines()
        lines = iter([_split(line) for line in calls])
        node = _node(next(lines), lines, batch)
        return node if next(lines, None) is None else None
    except (_NoTreeError, StopIteration, pa.ArrowException, ValueError, TypeError, LookupError):
        return None


def _split(line: str) -> tuple[str, str]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise _NoTreeError
    return match[1], match[2]


def _node(head: tuple[str, str], rest: Iterator[tuple[str, str]], batch: pa.Table) -> Predicate:
    kind, text = head
    match kind:
        case "field_ref":
            return Field(text)
        case "nested_field_ref":
            for _ in range(int(text)):
                next(rest)
            return Opaque()
        case "literal":
            return Literal(batch.column(int(text))[0])
        case "call":
            return _call(text, rest, batch)
        case _:
            raise _NoTreeError


def _call(name: str, rest: Iterator[tuple[str, str]], batch: pa.Table) -> Call:
    arguments: list[Predicate] = []
    options = None
    for kind, text in rest:
        if kind == "end":
            if text != name:
                raise _NoTreeError
            return Call(name, tuple(arguments), options)
        if kind == "options":
            options = batch.column(int(text))[0]
        else:
            arguments.append(_node((kind, text), rest, batch))
    raise _NoTreeError


_AND: Final = ("and", "and_kleene")
_OR: Final = ("or", "or_kleene")


def required_values(
    node: Predicate | None,
    names: Sequence[str],
    kind: pa.DataType,
    *,
    may_be_null: bool = False,
) -> pa.Array | None:
    """The values to which a filter limits a column; None if it does not limit the column.

    names: of the column.  kind: its type; None is returned for values that cannot be cast to it.
    may_be_null: whether the column may contain nulls, which `in` finds if its values include null;
    None is returned for such a filter.
    """
    if not isinstance(node, Call):
        return None
    if node.name in _AND or node.name in _OR:
        sides = [
            required_values(side, names, kind, may_be_null=may_be_null) for side in node.arguments
        ]
        limited = [side for side in sides if side is not None]
        if node.name in _AND:
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


_OPERATORS: Final = {
    "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=",
}  # fmt: skip
_MIRRORED: Final = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}


def comparison(node: Call) -> Comparison | None:
    """The call as a comparison with the column on the left; None for any other call."""
    operator = _OPERATORS.get(node.name)
    match node.arguments:
        case (Field(name), Literal(value)) if operator:
            return Comparison(name, operator, _array(value))
        case (Literal(value), Field(name)) if operator:
            return Comparison(name, _MIRRORED[operator], _array(value))
        case (Field(name),) if node.name == "is_in" and node.options is not None:
            return Comparison(name, "in", node.options["value_set"].values)
        case _:
            return None


_FAILED_BY_NAN: Final = frozenset(
    {*_AND, *_OR, "equal", "less", "less_equal", "greater", "greater_equal", "is_valid"}
)


def may_keep_nan(node: Predicate | None) -> bool:
    """Whether a filter may be true for NaN, which bounds do not cover."""
    if node is None:
        return True
    if not isinstance(node, Call):
        return False
    return node.name not in _FAILED_BY_NAN or any(map(may_keep_nan, node.arguments))


def names_nan(node: Predicate | None) -> bool:
    """Whether a filter compares with NaN: Arrow then misjudges bounds."""
    match node:
        case Call():
            values = None if node.options is None else node.options.get("value_set")
            listed = values is not None and _holds_nan(values.values)
            return listed or any(map(names_nan, node.arguments))
        case Literal():
            return node.value.is_valid and _holds_nan(_array(node.value))
        case _:
            return False


def _holds_nan(values: pa.Array) -> bool:
    return pt.is_floating(values.type) and bool(pc.any(pc.is_nan(values)).as_py())


def _array(value: pa.Scalar) -> pa.Array:
    return pa.array([value], value.type)


__all__ = [
    "Call",
    "Comparison",
    "Field",
    "Literal",
    "Opaque",
    "Predicate",
    "both",
    "comparison",
    "may_keep_nan",
    "names_nan",
    "parse_filter",
    "passing",
    "required_values",
]

"""Filters as trees.  Each source is parsed into one, each target is converted from one.

```
SQL text           sql/sql_filter          Arrow expressions    to_arrow
Arrow expressions  arrow_filter            columns of Spark     spark/row_filter
polars             read/polars_filter      statistics, indexes  skipping/
engines' filters   skipping/float_order
```

The meaning of a node is that of the Arrow function it stands for: comparisons with null are null,
those with NaN are false except for `!=`, `And` and `Or` have three truth values, and `In` has two.
A part that cannot be analyzed is `Unknown`: it is applied to rows, and rules nothing out.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property, reduce
from typing import Any, Final, assert_never

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UserError


@dataclass(frozen=True, slots=True)
class Column:
    """A column of the table, or a field inside one.  path: the names from the column inwards."""

    path: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Literal:
    value: pa.Scalar


@dataclass(frozen=True, slots=True)
class Compare:
    """operator: one of `COMPARISONS`."""

    operator: str
    left: Node
    right: Node


@dataclass(frozen=True, slots=True)
class In:
    """Whether a value is in a list; of null, whether null is in the list.

    skip_nulls: whether a null in the list is no value of it.
    """

    value: Node
    values: pa.Array
    skip_nulls: bool = False


@dataclass(frozen=True, slots=True)
class IsNull:
    """or_nan: whether NaN is null too."""

    value: Node
    or_nan: bool = False


@dataclass(frozen=True, slots=True)
class IsValid:
    value: Node


@dataclass(frozen=True, slots=True)
class And:
    sides: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Or:
    sides: tuple[Node, ...]


@dataclass(frozen=True, slots=True)
class Not:
    value: Node


@dataclass(frozen=True, slots=True)
class Cast:
    """safe: whether a value that the type cannot hold is an error."""

    value: Node
    to: pa.DataType
    safe: bool = True


@dataclass(frozen=True, slots=True)
class Call:
    """Another function.  name, options: those of a function of `pyarrow.compute`."""

    name: str
    arguments: tuple[Node, ...]
    options: tuple[tuple[str, Any], ...] = ()

    def option(self, name: str) -> Any:
        """An option of the function; None if it has none of this name."""
        return dict(self.options).get(name)


@dataclass(frozen=True, slots=True)
class Unknown:
    """A condition that only Arrow can evaluate.  why: the reason, as `has ...` or `is ...`."""

    expression: pc.Expression
    why: str


Node = Column | Literal | Compare | In | IsNull | IsValid | And | Or | Not | Cast | Call | Unknown

COMPARISONS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "==": operator.eq, "!=": operator.ne, "<": operator.lt, "<=": operator.le,
    ">": operator.gt, ">=": operator.ge,
}  # fmt: skip
MIRRORED: Final[Mapping[str, str]] = {
    "==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<=",
}  # fmt: skip
"""The operator of a comparison whose sides change places."""
NEGATED: Final[Mapping[str, str]] = {
    "==": "!=", "!=": "==", "<": ">=", "<=": ">", ">": "<=", ">=": "<",
}  # fmt: skip
"""The operator of the negation of a comparison of values that have an order."""


@dataclass(frozen=True)
class Predicate:
    """A filter of a table.  Can be pickled.

    columns: the columns of the table that it names, or more, in the table's order.
    """

    tree: Node
    columns: tuple[str, ...]

    @cached_property
    def arrow(self) -> pc.Expression:
        """The filter as an Arrow expression, which decides which rows pass."""
        return to_arrow(self.tree)

    @property
    def refused(self) -> str | None:
        """Why the filter, or a part of it, rules out no files; None if all of it was analyzed."""
        found = (node.why for node in walk(self.tree) if isinstance(node, Unknown))
        return next(found, None)

    @property
    def analyzed(self) -> Predicate | None:
        """A filter without unknown parts that all rows of this one pass; None if there is none."""
        return self.without(frozenset())

    def without(self, names: frozenset[str]) -> Predicate | None:
        """A filter that all rows of this one pass, without unknown parts and without these columns;
        None if there is none."""
        tree = analyzed(self.tree, names)
        left = tuple(name for name in self.columns if name not in names)
        return None if tree is None else Predicate(tree, left)

    def __str__(self) -> str:
        return str(self.arrow)

    def passing(self, rows: pa.Table) -> pa.Table:
        """The rows for which the filter is true.  Raises UserError where it fails for a value."""
        try:
            return rows.filter(self.arrow)
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
            raise UserError(
                "the filter cannot be evaluated for a row",
                where=str(self),
                cause=str(error),
                hint="a cast or a calculation has no result for a value; exclude such rows with "
                "case when",
            ) from None


def both(one: Predicate | None, other: Predicate | None) -> Predicate | None:
    """The conjunction of two filters of a table, either of which may be None."""
    if one is None or other is None:
        return other if one is None else one
    columns = tuple(dict.fromkeys((*one.columns, *other.columns)))
    return Predicate(And((one.tree, other.tree)), columns)


def among(name: str, values: pa.Array) -> Predicate:
    """The filter for rows with these values of a column."""
    return Predicate(In(Column((name,)), values), (name,))


def literal(value: Any, kind: pa.DataType | None = None) -> Literal:
    """A value as a literal of a type, or of the type that Arrow infers."""
    return Literal(pa.scalar(value, kind))


def children(node: Node) -> tuple[Node, ...]:
    """The operands of a node."""
    match node:
        case And(sides) | Or(sides):
            return sides
        case Compare(_, left, right):
            return left, right
        case In(value) | IsNull(value) | IsValid(value) | Not(value) | Cast(value):
            return (value,)
        case Call(_, arguments):
            return arguments
        case Column() | Literal() | Unknown():
            return ()
        case _:
            assert_never(node)


def walk(node: Node) -> Iterator[Node]:
    """A node and all nodes below it."""
    waiting = [node]
    while waiting:
        found = waiting.pop()
        yield found
        waiting += children(found)


def is_analyzed(node: Node) -> bool:
    """Whether a tree has no unknown part."""
    return not any(isinstance(found, Unknown) for found in walk(node))


def analyzed(node: Node, unused: frozenset[str] = frozenset()) -> Node | None:
    """A tree without unknown parts that is true where this one is; None if there is none.

    unused: columns that it may not name.
    """
    named = (found.path[0] for found in walk(node) if isinstance(found, Column))
    if is_analyzed(node) and unused.isdisjoint(named):
        return node
    if not isinstance(node, And | Or):
        return None
    sides = [side for s in node.sides if (side := analyzed(s, unused)) is not None]
    is_whole = len(sides) == len(node.sides)
    return type(node)(tuple(sides)) if is_whole or (sides and isinstance(node, And)) else None


def inside(node: Node, struct: str) -> Node:
    """A tree of conditions on the fields of a struct column, over rows with these fields."""

    def within(found: Node) -> Node:
        return inside(found, struct)

    match node:
        case Column((outer, *path)):
            assert outer == struct
            return Column(tuple(path))
        case And(sides) | Or(sides):
            return type(node)(tuple(map(within, sides)))
        case Compare(name, left, right):
            return Compare(name, within(left), within(right))
        case In(value) | IsNull(value) | IsValid(value) | Not(value) | Cast(value):
            return replace(node, value=within(value))
        case Call(_, arguments):
            return replace(node, arguments=tuple(map(within, arguments)))
        case _:
            return node


def columns_of(node: Node, schema: pa.Schema) -> tuple[str, ...]:
    """The columns of the schema that a tree without unknown parts names, in its order."""
    named = {found.path[0] for found in walk(node) if isinstance(found, Column)}
    return tuple(name for name in schema.names if name in named)


def to_arrow(node: Node) -> pc.Expression:
    """The Arrow expression of a tree."""
    found: pc.Expression
    match node:
        case Column(path):
            found = pc.field(*path)
        case Literal(value):
            found = pc.scalar(value)
        case Compare(name, left, right):
            found = COMPARISONS[name](to_arrow(left), to_arrow(right))
        case In(value, values, skip_nulls):
            found = pc.is_in(to_arrow(value), values, skip_nulls=skip_nulls)
        case IsNull(value, or_nan):
            found = to_arrow(value).is_null(nan_is_null=or_nan)
        case IsValid(value):
            found = to_arrow(value).is_valid()
        case And(sides):
            found = _balanced([to_arrow(side) for side in sides], operator.and_)
        case Or(sides):
            found = _balanced([to_arrow(side) for side in sides], operator.or_)
        case Not(value):
            found = ~to_arrow(value)
        case Cast(value, to, safe):
            found = to_arrow(value).cast(to, safe=safe)
        case Call(name, arguments, options):
            found = getattr(pc, name)(*map(to_arrow, arguments), **dict(options))
        case Unknown(expression):
            found = expression
        case _:
            assert_never(node)
    return found


def _balanced(
    sides: Sequence[pc.Expression], join: Callable[[Any, Any], pc.Expression]
) -> pc.Expression:
    """Joins many sides with a depth that is logarithmic in their number."""
    while len(sides) > 1:
        sides = [reduce(join, sides[at : at + 2]) for at in range(0, len(sides), 2)]
    return sides[0]


__all__ = [
    "COMPARISONS",
    "MIRRORED",
    "NEGATED",
    "And",
    "Call",
    "Cast",
    "Column",
    "Compare",
    "In",
    "IsNull",
    "IsValid",
    "Literal",
    "Node",
    "Not",
    "Or",
    "Predicate",
    "Unknown",
    "among",
    "analyzed",
    "both",
    "children",
    "columns_of",
    "inside",
    "is_analyzed",
    "literal",
    "to_arrow",
    "walk",
]

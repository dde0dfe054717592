"""Filters and values as SQL text, converted to Arrow expressions.

```
city = 'sf' and (fare > 10 or ts >= timestamp '2026-11-01') and note is not null
```

Comparisons, `and`, `or`, `not`, `in`, `between`, `like`, `ilike`, `is [not] null`, `is [not] true`,
`is [not] distinct from`, arithmetic, `||`, `case when`, `cast`, `coalesce`, and the functions in
`_FUNCTIONS`.  Names are columns or fields of structs (`a.b`), quoted by double quotes or backquotes
where needed; a name that differs only in case is accepted if it is unambiguous.  A literal takes
the type of the column with which it is compared; a time without zone compared with instants is UTC.

SQL has three truth values, and Arrow's `is_in` has two: `not` is therefore moved inwards to the
comparisons, where it is expressed without it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache, reduce
from typing import Any, Final, NoReturn, TypeAlias, overload

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import UserError
from pyhudi.read.sql.sql_literals import SqlLiteral, common_type, number_of, scalar_of, takes
from pyhudi.records import META_COLUMNS

Filter: TypeAlias = pc.Expression | str
"""A condition on rows: an Arrow expression, or SQL text."""


@overload
def as_filter(where: Filter, schema: pa.Schema, scopes: Sequence[str] = ()) -> pc.Expression: ...
@overload
def as_filter(
    where: Filter | None, schema: pa.Schema, scopes: Sequence[str] = ()
) -> pc.Expression | None: ...
def as_filter(
    where: Filter | None, schema: pa.Schema, scopes: Sequence[str] = ()
) -> pc.Expression | None:
    """The Arrow expression of a filter on rows of this schema.

    scopes: structs of the schema whose fields may be named without the struct, where only one of
    them has the field.
    Raises UserError for text that is not SQL, or that uses unknown columns or unsupported SQL.
    """
    if not isinstance(where, str):
        return where
    conversion = _Conversion(where, schema, "filter", tuple(scopes))
    return conversion.condition(conversion.parsed())


def as_value(
    value: Any, schema: pa.Schema, kind: pa.DataType, scopes: Sequence[str] = ()
) -> pc.Expression:
    """The Arrow expression of a value of a column of type `kind`: SQL text over the columns of the
    schema, an Arrow expression, or any other value as a literal.

    scopes: as for `as_filter`.  Raises UserError for text that is not SQL or that uses unknown
    columns or unsupported SQL, and for a literal that is not of the type.
    """
    if isinstance(value, str):
        conversion = _Conversion(value, schema, "value", tuple(scopes))
        return conversion.alone(conversion.value(conversion.parsed()), kind).cast(kind)
    if isinstance(value, pc.Expression):
        return value.cast(kind)
    try:
        return pc.scalar(pa.scalar(value, kind))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UserError(
            "a value is not of the column's type", value=repr(value), type=str(kind),
            cause=str(error),
        ) from None  # fmt: skip


@cache
def _dialect() -> Any:
    """The SQL that filters are written in; made once, as sqlglot registers each dialect."""
    from sqlglot import Dialect, tokens  # slow to import

    class Quoted(Dialect):
        class Tokenizer(tokens.Tokenizer):
            IDENTIFIERS = ['"', "`"]  # noqa: RUF012

    return Quoted


@dataclass(frozen=True, slots=True)
class _Value:
    """An operand: an expression and its type where it is known, or a literal without a type."""

    expression: pc.Expression | None
    kind: pa.DataType | None = None
    literal: SqlLiteral = None

    @property
    def is_literal(self) -> bool:
        return self.expression is None


_COMPARISONS: Final[Mapping[str, tuple[str, str]]] = {
    "EQ": ("eq", "ne"), "NEQ": ("ne", "eq"), "GT": ("gt", "le"), "GTE": ("ge", "lt"),
    "LT": ("lt", "ge"), "LTE": ("le", "gt"),
}  # fmt: skip
"""The operator of a comparison, and of its negation."""

_ARITHMETIC: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "Add": operator.add, "Sub": operator.sub, "Mul": operator.mul,
}  # fmt: skip

_FUNCTIONS: Final[Mapping[str, tuple[Callable[[Any], Any], pa.DataType | None]]] = {
    "Lower": (pc.utf8_lower, pa.string()), "Upper": (pc.utf8_upper, pa.string()),
    "Length": (pc.utf8_length, pa.int32()), "Trim": (pc.utf8_trim_whitespace, pa.string()),
    "Abs": (pc.abs_checked, None), "Neg": (pc.negate_checked, None), "Floor": (pc.floor, None),
    "Ceil": (pc.ceil, None), "Year": (pc.year, pa.int64()), "Month": (pc.month, pa.int64()),
    "Day": (pc.day, pa.int64()),
}  # fmt: skip
"""Functions of one argument, and the type of their result if it is not that of the argument."""

_TYPES: Final[Mapping[str, pa.DataType]] = {
    "BOOLEAN": pa.bool_(), "TINYINT": pa.int8(), "SMALLINT": pa.int16(), "INT": pa.int32(),
    "BIGINT": pa.int64(), "FLOAT": pa.float32(), "DOUBLE": pa.float64(), "VARCHAR": pa.string(),
    "TEXT": pa.string(), "DATE": pa.date32(), "TIMESTAMP": pa.timestamp("us"),
    "TIMESTAMPNTZ": pa.timestamp("us"), "TIMESTAMPTZ": pa.timestamp("us", "UTC"),
    "BINARY": pa.binary(), "VARBINARY": pa.binary(),
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class _Conversion:
    """Conversion of one text; methods take nodes of its syntax tree."""

    text: str
    schema: pa.Schema
    noun: str
    scopes: tuple[str, ...] = ()

    @property
    def stated(self) -> dict[str, str]:
        """The text as a fact of an error."""
        return {"where" if self.noun == "filter" else "value": self.text}

    def parsed(self) -> Any:
        """The syntax tree.  Raises UserError."""
        from sqlglot import parse_one
        from sqlglot.errors import SqlglotError
        from sqlglot.expressions import Condition

        try:
            return parse_one(self.text, into=Condition, dialect=_dialect())
        except SqlglotError as error:
            place: Any = next(iter(getattr(error, "errors", ())), {})
            example = "city = 'sf' and fare > 10" if self.noun == "filter" else "fare * 2, or 'sf'"
            raise UserError(
                f"the {self.noun} is not valid SQL", **self.stated, line=place.get("line"),
                column=place.get("col"), near=place.get("highlight"), hint=f"such as: {example}",
            ) from None  # fmt: skip

    def condition(self, node: Any, *, negated: bool = False) -> pc.Expression:
        """A condition, or its negation.  False and null are the same to a filter."""
        kind = type(node).__name__
        if kind in ("And", "Or"):
            sides = [self.condition(side, negated=negated) for side in node.flatten()]
            return _balanced(sides, operator.and_ if (kind == "And") != negated else operator.or_)
        if kind == "Paren":
            return self.condition(node.this, negated=negated)
        if kind == "Not":
            return self.condition(node.this, negated=not negated)
        if kind in _COMPARISONS:
            left, right = self.typed(self.value(node.this), self.value(node.expression))
            compared: pc.Expression = getattr(operator, _COMPARISONS[kind][negated])(left, right)
            return compared
        convert = getattr(self, f"_{kind.lower()}", None)
        if convert is not None:
            expression: pc.Expression = convert(node, negated)
            return expression
        value = self.value(node)
        if value.kind not in (None, pa.bool_()):
            self.refuse(node, "is not a condition")
        found = self.alone(value)
        return ~found if negated else found

    def _is(self, node: Any, negated: bool) -> pc.Expression:
        expression = self.alone(self.value(node.this))
        match type(node.expression).__name__:
            case "Null":
                return expression.is_valid() if negated else expression.is_null()
            case "Boolean":
                true = expression if node.expression.this else ~expression
                return pc.coalesce(~true, pc.scalar(True)) if negated else true
        return self.refuse(node)

    def _in(self, node: Any, negated: bool) -> pc.Expression:
        if node.args.get("query") is not None or not node.expressions:
            return self.refuse(node)
        value = self.value(node.this)
        items = [self.value(item) for item in node.expressions]
        if not all(item.is_literal for item in items):
            return self.refuse(node)
        given = [item for item in items if item.literal is not None]
        if negated and len(given) < len(items):
            return pc.scalar(False)  # `x not in (null, ...)` is never true
        expression = self.alone(value)
        found = [self.scalar(item, value.kind) for item in given]
        members = expression.isin(
            pa.array([s.as_py() for s in found], common_type(found, value.kind))
        )
        return ~members & expression.is_valid() if negated else members

    def _between(self, node: Any, negated: bool) -> pc.Expression:
        value = self.value(node.this)
        left, low = self.typed(value, self.value(node.args["low"]))
        _, high = self.typed(value, self.value(node.args["high"]))
        return (left < low) | (left > high) if negated else (left >= low) & (left <= high)

    def _like(self, node: Any, negated: bool, *, ignore_case: bool = False) -> pc.Expression:
        pattern = self.value(node.expression)
        if not isinstance(pattern.literal, str):
            return self.refuse(node)
        text = self.alone(self.value(node.this))
        found: pc.Expression = pc.match_like(text, pattern.literal, ignore_case=ignore_case)
        return ~found if negated else found

    def _ilike(self, node: Any, negated: bool) -> pc.Expression:
        return self._like(node, negated, ignore_case=True)

    def _nullsafeeq(self, node: Any, negated: bool) -> pc.Expression:
        one, two = self.value(node.this), self.value(node.expression)
        if type(node.expression).__name__ == "Null":
            null = self.alone(one)
            return null.is_valid() if negated else null.is_null()
        left, right = self.typed(one, two)
        nulls = (left.is_null(), right.is_null())
        same = pc.coalesce(left == right, pc.scalar(False)) | (nulls[0] & nulls[1])
        return ~same if negated else same

    def _nullsafeneq(self, node: Any, negated: bool) -> pc.Expression:
        return self._nullsafeeq(node, not negated)

    def value(self, node: Any) -> _Value:
        """An operand."""
        kind = type(node).__name__
        match kind:
            case "Paren":
                return self.value(node.this)
            case "Column" | "Dot":
                return self.column(node)
            case "Literal":
                return _Value(None, literal=node.this if node.is_string else number_of(node.this))
            case "Boolean":
                return _Value(None, literal=bool(node.this))
            case "Null":
                return _Value(None)
            case "HexString":
                return _Value(None, literal=bytes.fromhex(node.this))
            case "Cast" | "TryCast":
                return self.cast(node)
            case "Coalesce":
                return self.coalesce(node)
            case "Div":
                return self.quotient(node)
            case "DPipe":
                return self.joined(node)
            case "Case":
                return self.case(node)
        if kind in _ARITHMETIC:
            left, right = self.typed(self.value(node.this), self.value(node.expression))
            return _Value(_ARITHMETIC[kind](left, right))
        if kind in _FUNCTIONS:
            return self.function(node, kind)
        if kind in (*_COMPARISONS, "And", "Or", "Not", "Is", "In", "Between", "Like", "ILike"):
            return self.refuse(node, "is a condition, not a value")
        return self.refuse(node)

    def function(self, node: Any, kind: str) -> _Value:
        given = self.value(node.this)
        if kind == "Neg" and given.is_literal and isinstance(given.literal, int | Decimal):
            return _Value(None, literal=-given.literal)
        if any(value for name, value in node.args.items() if name != "this"):
            return self.refuse(node)
        call, result = _FUNCTIONS[kind]
        return _Value(call(self.alone(given)), result or given.kind)

    def coalesce(self, node: Any) -> _Value:
        values = [self.value(part) for part in (node.this, *node.expressions)]
        kind = next((value.kind for value in values if value.kind is not None), None)
        return _Value(pc.coalesce(*(self.alone(value, kind) for value in values)), kind)

    def quotient(self, node: Any) -> _Value:
        left, right = self.typed(self.value(node.this), self.value(node.expression))
        double = right.cast(pa.float64())
        divisor = pc.if_else(double == 0.0, pa.scalar(None, pa.float64()), double)
        return _Value(left.cast(pa.float64()) / divisor, pa.float64())

    def joined(self, node: Any) -> _Value:
        sides = [self.value(side) for side in (node.this, node.expression)]
        texts = [self.alone(side, pa.string()) for side in sides]
        return _Value(pc.binary_join_element_wise(*texts, ""), pa.string())

    def case(self, node: Any) -> _Value:
        """`case when condition then value ... else value end`; a null condition is not met."""
        if node.this is not None:
            return self.refuse(node)
        default = node.args.get("default")
        values = [self.value(branch.args["true"]) for branch in node.args["ifs"]]
        last = _Value(None) if default is None else self.value(default)
        kind = next((v.kind for v in (*values, last) if v.kind is not None), None)
        found = self.alone(last, kind)
        for branch, value in reversed(list(zip(node.args["ifs"], values, strict=True))):
            met = pc.coalesce(self.condition(branch.this), pc.scalar(False))
            found = pc.if_else(met, self.alone(value, kind), found)
        return _Value(found, kind)

    def cast(self, node: Any) -> _Value:
        """A cast; that of a text literal to a time (`date '2026-01-01'`) stays a literal."""
        to = node.to
        name = to.this.name
        if name == "DECIMAL" and to.expressions:
            digits = [int(part.name) for part in to.expressions]
            kind = pa.decimal128(digits[0], digits[1] if len(digits) > 1 else 0)
        elif name in _TYPES:
            kind = _TYPES[name]
        else:
            return self.refuse(node)
        given = self.value(node.this)
        if isinstance(given.literal, str) and pt.is_temporal(kind):
            return _Value(None, kind, given.literal)
        return _Value(self.alone(given).cast(kind), kind)

    def column(self, node: Any) -> _Value:
        names = self.scoped([part.name for part in node.parts])
        path: list[str] = []
        kind: Any = pa.struct(list(self.schema))
        for name in names:
            known = [field.name for field in kind] if pt.is_struct(kind) else []
            found = _named(name, known)
            if len(found) != 1:
                raise UserError(
                    f"the {self.noun} names a column that the table lacks", **self.stated,
                    column=".".join(names), hint=_columns_hint(known),
                )  # fmt: skip
            path.append(found[0])
            kind = kind.field(found[0]).type
        return _Value(pc.field(*path), kind)

    def scoped(self, names: list[str]) -> list[str]:
        """The path of a column, with its scope if the text leaves it out.  Raises UserError."""
        if not self.scopes or _named(names[0], self.scopes):
            return names
        sides = {s: [f.name for f in self.schema.field(s).type] for s in self.scopes}
        found = [scope for scope, known in sides.items() if _named(names[0], known)]
        if len(found) == 1:
            return [*found, *names]
        if found:
            raise UserError(
                f"the {self.noun} names a column of both sides", **self.stated,
                column=".".join(names),
                hint="write " + " or ".join(f"{scope}.{names[0]}" for scope in found),
            )  # fmt: skip
        raise UserError(
            f"the {self.noun} names an unknown column", **self.stated, column=".".join(names),
            hint="; ".join(f"{scope} has {', '.join(known)}" for scope, known in sides.items()),
        )  # fmt: skip

    def typed(self, left: _Value, right: _Value) -> tuple[pc.Expression, pc.Expression]:
        """Two operands of one operator; a literal takes the type of the other."""
        return self.alone(left, right.kind), self.alone(right, left.kind)

    def alone(self, value: _Value, kind: pa.DataType | None = None) -> pc.Expression:
        if value.expression is not None:
            return value.expression
        return pc.scalar(self.scalar(value, kind))

    def scalar(self, value: _Value, kind: pa.DataType | None) -> pa.Scalar:
        """A literal as a value of the type with which it is used, if it has one."""
        if value.literal is None:
            return pa.scalar(None, kind)
        target = kind if kind is not None and takes(kind, value.literal) else value.kind
        try:
            return scalar_of(value.literal, target)
        except (ValueError, pa.ArrowException):
            raise UserError(
                f"the {self.noun} has a literal that is not of the column's type", **self.stated,
                literal=str(value.literal), type=str(target),
                hint="compare with a value of that type, or cast(column as string)",
            ) from None  # fmt: skip

    def refuse(self, node: Any, why: str = "is not supported") -> NoReturn:
        raise UserError(
            f"a part of the {self.noun} {why}", **self.stated, part=node.sql(),
            hint="use a pyarrow.compute.Expression",
        )  # fmt: skip


def _named(name: str, known: Sequence[str]) -> list[str]:
    """The names that are meant: the same one, or those that differ only in case."""
    return [n for n in known if n == name] or [n for n in known if n.lower() == name.lower()]


def _columns_hint(names: Sequence[str]) -> str | None:
    listed = [name for name in names if name not in META_COLUMNS]
    return f"columns: {', '.join(listed)}" if listed else None


def _balanced(
    sides: Sequence[pc.Expression], join: Callable[[Any, Any], pc.Expression]
) -> pc.Expression:
    """Joins many sides with a depth that is logarithmic in their number."""
    while len(sides) > 1:
        sides = [reduce(join, sides[at : at + 2]) for at in range(0, len(sides), 2)]
    return sides[0]


__all__ = ["Filter", "as_filter", "as_value"]

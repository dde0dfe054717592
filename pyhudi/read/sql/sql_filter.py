"""Filters and values as SQL text, parsed into filter trees.

```
city = 'sf' and (fare > 10 or ts >= timestamp '2026-11-01') and note is not null
```

Comparisons, `and`, `or`, `not`, `in`, `between`, `like`, `ilike`, `is [not] null`, `is [not] true`,
`is [not] distinct from`, arithmetic, `||`, `case when`, `cast`, `coalesce`, and the functions in
`sql_syntax`.  Names are columns or fields of structs (`a.b`), quoted by double quotes or backquotes
where needed; a name that differs only in case is accepted if it is unambiguous.  A literal is
compared as a value of the column's type (`sql_literals`); a time without zone is UTC.  Arithmetic
with `0.1` is decimal and exact, unless a side is floating-point or has an exponent (`1e-1`).

The conversion is closed: `ARGUMENTS` lists the classes of sqlglot's nodes that it handles and the
arguments of each.  Any other node is refused, and so is an argument that is set and not listed:
another version of sqlglot may express a part of the text by it.

Floating-point numbers are compared as in Spark: NaN equals itself and is greater than all other
numbers.  SQL has three truth values, and Arrow's `is_in` has two: `not` is therefore moved inwards
to the comparisons, where it is expressed without it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from decimal import Decimal
from functools import cache
from typing import Any, Final, NoReturn, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.arrays import (
    DECIMAL_TEXT,
    HALF_UP,
    INTEGERS,
    exact_array,
    exact_cast,
    wide_decimal,
    zero_limit,
)
from pyhudi.errors import UserError
from pyhudi.formats.nested_fields import check_same_fields
from pyhudi.near_names import columns_hint
from pyhudi.read.predicate import (
    MIRRORED,
    NEGATED,
    And,
    Call,
    Cast,
    Column,
    Compare,
    IsNull,
    IsValid,
    Literal,
    Node,
    Not,
    Or,
    Unknown,
    literal,
    to_arrow,
)
from pyhudi.read.skipping import float_order
from pyhudi.read.sql.sql_literals import (
    Bound,
    SqlLiteral,
    bound_of,
    compared_literals,
    negative,
    number_of,
    scalar_of,
    states_zone,
)
from pyhudi.read.sql.sql_syntax import (
    ARGUMENTS,
    ARITHMETIC,
    FUNCTIONS,
    OPERATORS,
    OPTIONS,
    PARSER_FAULTS,
    TYPES,
    family,
    has_cast,
    is_bytes,
    is_number,
    is_text,
    is_time,
)

Filter: TypeAlias = pc.Expression | str
"""A condition on rows: an Arrow expression, or SQL text."""


def sql_tree(text: str, schema: pa.Schema, scopes: Sequence[str] = ()) -> Node:
    """The tree of a filter on rows of this schema.

    scopes: structs of the schema whose fields may be named without the struct, where only one of
    them has the field.
    Raises UserError for text that is not SQL, or that uses unknown columns or unsupported SQL, or
    that compares values of types that cannot be compared.
    """
    conversion = _Conversion(text, schema, "filter", tuple(scopes))
    return conversion.checked(conversion.condition)


def as_filter(where: Filter, schema: pa.Schema, scopes: Sequence[str] = ()) -> pc.Expression:
    """The Arrow expression of a filter; scopes and errors as for `sql_tree`."""
    return to_arrow(sql_tree(where, schema, scopes)) if isinstance(where, str) else where


def as_value(
    value: Any,
    schema: pa.Schema,
    kind: pa.DataType,
    scopes: Sequence[str] = (),
    *,
    column: str | None = None,
) -> pc.Expression:
    """The Arrow expression of a value of a column of type `kind`: SQL text over the columns of the
    schema, an Arrow expression, or any other value as a literal.

    scopes: as for `as_filter`.  column: its name, for errors.  Raises UserError for text that is
    not SQL or that uses unknown columns or unsupported SQL, and for a literal that is not of the
    type; SchemaError for a value whose structs have other fields than the type's.
    """
    if isinstance(value, str):
        conversion = _Conversion(value, schema, "value", tuple(scopes))
        return to_arrow(
            conversion.checked(lambda node: conversion.assigned(conversion.value(node), kind))
        )
    if isinstance(value, pc.Expression):
        own, node = _type_of(value, schema), Unknown(value, "is not SQL")
        if pt.is_nested(kind):
            check_same_fields(own, kind, column or str(value))
        return to_arrow(
            _as_decimal(node, own, kind) if pt.is_decimal(kind) else _cast(node, own, kind)
        )
    try:
        return pc.scalar(exact_array([value], kind)[0])
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise UserError(
            "a value is not of the column's type",
            value=repr(value),
            type=str(kind),
            cause=str(error),
        ) from None


def _as_decimal(node: Node, own: pa.DataType, kind: pa.DataType) -> Node:
    """A value as a decimal, as in `exact_cast`; one that the type lacks fails as the rows are
    read."""
    if pt.is_integer(own):
        node, own = Cast(node, INTEGERS), INTEGERS
    wide = wide_decimal(own, kind)
    if wide is None:
        return Cast(node, kind)
    if pt.is_floating(own):
        double = Cast(node, pa.float64())
        is_zero = Compare("<", Call("abs", (double,)), literal(zero_limit(kind)))
        node = Call("if_else", (is_zero, literal("0"), Cast(double, pa.string())))
    if not pt.is_decimal(own):
        fits = Call("match_substring_regex", (node,), (("pattern", DECIMAL_TEXT),))
        no_decimal = literal("", own if pt.is_large_string(own) else pa.string())
        node = Call("if_else", (fits, node, no_decimal))
    found: Node = Cast(node, wide)
    if pt.is_floating(own):
        found = Call("round", (found,), (("ndigits", kind.scale), ("round_mode", HALF_UP)))
    return Cast(found, kind)


def _cast(node: Node, own: pa.DataType, kind: pa.DataType) -> Node:
    """A value as one of another type that is no decimal; decimals become the nearest
    floating-point number as in `exact_cast`."""
    is_exact = pt.is_decimal(own) and pt.is_floating(kind)
    return Cast(Cast(node, pa.string()) if is_exact else node, kind)


def _type_of(value: pc.Expression, schema: pa.Schema) -> pa.DataType:
    """The type of an expression over the columns of the schema."""
    from pyarrow import acero  # slow to import

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(schema.empty_table()))
    plan = acero.Declaration("project", acero.ProjectNodeOptions([value]), [source])
    try:
        return plan.to_table(use_threads=False).schema.field(0).type
    except pa.ArrowException as error:
        raise UserError("the value cannot be computed", value=value, cause=str(error)) from None


@cache
def _dialect() -> Any:
    """The SQL that filters are written in; made once, as sqlglot registers each dialect."""
    from sqlglot import Dialect, tokens  # slow to import

    class Quoted(Dialect):
        class Tokenizer(tokens.Tokenizer):
            IDENTIFIERS = ['"', "`"]  # noqa: RUF012
            HEX_STRINGS = [("x'", "'"), ("X'", "'")]  # noqa: RUF012

    return Quoted


@dataclass(frozen=True, slots=True)
class _Value:
    """An operand: a node and its type where it is known, or a literal without a type."""

    node: Node | None
    kind: pa.DataType | None = None
    literal: SqlLiteral = None
    name: str | None = None  # of a column

    @property
    def is_literal(self) -> bool:
        return self.node is None

    @property
    def is_double(self) -> bool:
        """Whether it is a literal with an exponent."""
        return self.is_literal and self.kind == pa.float64()


_INTEGER_DIGITS: Final = {8: 3, 16: 5, 32: 10, 64: 19}
"""Of an integer by its bits; an unsigned one of 64 bits has one more."""


@cache
def _never() -> Literal:
    """False; at the first use, as Arrow imports pandas for its first scalar."""
    return literal(False)


def _coalesced(*sides: Node) -> Node:
    return Call("coalesce", sides)


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

    def checked(self, convert: Callable[[Any], Node]) -> Node:
        """The tree of the whole text, bound to the columns once.  Raises UserError."""
        try:
            found = convert(self.parsed())
            kind = self.kind_of(found)
        except RecursionError:
            stated = {name: text[:200] for name, text in self.stated.items()}
            raise UserError(
                f"the {self.noun} is nested too deeply",
                **stated,
                hint="use fewer brackets; in (...) takes any number of values",
            ) from None
        if self.noun == "filter" and not pt.is_boolean(kind):
            raise UserError("the filter is not a condition", **self.stated, type=str(kind))
        return found

    def kind_of(self, node: Node) -> pa.DataType:
        """The type of a tree over the columns.  Raises UserError if it has none."""
        from pyarrow import acero  # slow to import

        source = acero.TableSourceNodeOptions(self.schema.empty_table())
        plan = acero.Declaration.from_sequence(
            [
                acero.Declaration("table_source", source),
                acero.Declaration("project", acero.ProjectNodeOptions([to_arrow(node)], ["value"])),
            ]
        )
        try:
            return plan.to_table(use_threads=False).schema.field(0).type
        except pa.ArrowException as mismatch:
            raise UserError(
                f"the {self.noun} does not match the table: {mismatch}", **self.stated
            ) from None

    def parsed(self) -> Any:
        """The syntax tree.  Raises UserError."""
        from sqlglot import parse_one
        from sqlglot.errors import SqlglotError
        from sqlglot.expressions import Condition

        try:
            return parse_one(self.text, into=Condition, dialect=_dialect())
        except (SqlglotError, *PARSER_FAULTS) as error:
            place: Any = next(iter(getattr(error, "errors", ())), {})
            example = "city = 'sf' and fare > 10" if self.noun == "filter" else "fare * 2, or 'sf'"
            raise UserError(
                f"the {self.noun} is not valid SQL",
                **self.stated,
                line=place.get("line"),
                column=place.get("col"),
                near=place.get("highlight"),
                hint=f"such as: {example}",
            ) from None

    def name_of(self, node: Any) -> str:
        """The class of a node, if the conversion handles all that it says.  Raises UserError."""
        name = type(node).__name__
        known = ARGUMENTS.get(name)
        if known is None:
            return self.refuse(node)
        for argument, value in node.args.items():
            if argument not in known and value not in (None, False, []):
                raise UserError(
                    f"a part of the {self.noun} is not supported",
                    **self.stated,
                    part=node.sql(),
                    argument=f"{argument} of {name}",
                    hint="use a pyarrow.compute.Expression",
                )
        return name

    def condition(self, node: Any, *, negated: bool = False) -> Node:
        """A condition, or its negation.  False and null are the same to a filter."""
        kind = self.name_of(node)
        match kind:
            case "And" | "Or":
                sides = [self.condition(side, negated=negated) for side in self.sides(node, kind)]
                return And(tuple(sides)) if (kind == "And") != negated else Or(tuple(sides))
            case "Paren":
                return self.condition(node.this, negated=negated)
            case "Not":
                return self.condition(node.this, negated=not negated)
            case "Is":
                return self.tested(node, negated != bool(node.args.get("negate")))
            case "In":
                return self.among(node, negated)
            case "Between":
                return self.between(node, negated)
            case "Like" | "ILike":
                return self.like(
                    node, negated != bool(node.args.get("negate")), ignore_case=kind == "ILike"
                )
            case "NullSafeEQ" | "NullSafeNEQ":
                return self.same(node, negated != (kind == "NullSafeNEQ"))
        if kind in OPERATORS:
            operator = NEGATED[OPERATORS[kind]] if negated else OPERATORS[kind]
            left, right = self.value(node.this), self.value(node.expression)
            return self.compared(operator, left, right, node)
        value = self.value(node)
        if value.is_literal and value.literal is None:
            return _never()
        is_truth = isinstance(value.literal, bool) if value.is_literal else value.kind == pa.bool_()
        if not is_truth:
            self.refuse(node, "is not a condition")
        found = self.alone(value)
        return Not(found) if negated else found

    def sides(self, node: Any, kind: str) -> list[Any]:
        """The operands of a chain of `and` or `or`, which may be long: without recursion."""
        found: list[Any] = []
        waiting = [node]
        while waiting:
            one = waiting.pop()
            if type(one).__name__ == kind:
                self.name_of(one)
                waiting += [one.expression, one.this]
            else:
                found.append(one)
        return found

    def compared(self, operator: str, left: _Value, right: _Value, node: Any) -> Node:
        """A comparison; `operator` is one of `COMPARISONS`."""
        if left.is_literal and right.is_literal and left.kind is None and right.kind is None:
            if left.literal is None or right.literal is None:
                return _never()
            try:
                return literal(compared_literals(operator, left.literal, right.literal))
            except ValueError:
                return self.refuse(node, "compares values of different types")
        if left.is_literal and (not right.is_literal or right.kind is not None):
            left, right, operator = right, left, MIRRORED[operator]
        if right.is_literal:
            if right.literal is None or (left.is_literal and left.literal is None):
                return _never()
            operand, kind = self.alone(left), self.known_kind(left)
            return _bounded(operand, self.bound(operator, right, kind, left.name), kind)
        one, two = self.alike(left, right, node)
        if pt.is_floating(one[1]):
            return float_order.compared(operator, one[0], two[0])
        return Compare(operator, one[0], two[0])

    def alike(self, left: _Value, right: _Value, node: Any) -> list[tuple[Node, pa.DataType]]:
        """Two operands with types whose values Arrow compares as Spark does."""
        sides = [(self.alone(side), self.known_kind(side)) for side in (left, right)]
        kinds = [kind for _, kind in sides]
        families = {family(kind) for kind in kinds}
        if all(map(is_number, kinds)):
            if any(map(pt.is_floating, kinds)) and kinds[0] != kinds[1]:
                return [(self.floating(*side), pa.float64()) for side in sides]
            return _exact(sides, _common)
        if families <= {"date", "timestamp"} and kinds[0] != kinds[1]:
            unit = next((k.unit for k in kinds if pt.is_timestamp(k)), "s")
            instant = pa.timestamp(unit, "UTC")
            return [(self.zoned(*side, instant), instant) for side in sides]
        if len(families) > 1 or None in families:
            return self.refuse(node, f"compares {kinds[0]} with {kinds[1]}")
        return sides

    def zoned(self, node: Node, kind: pa.DataType, to: pa.DataType) -> Node:
        """A date or time as an instant; without zone it is UTC."""
        wall = Cast(node, pa.timestamp(to.unit)) if pt.is_date(kind) else node
        if pt.is_timestamp(kind) and kind.tz is not None:
            return Cast(wall, to)
        return Call("assume_timezone", (Cast(wall, pa.timestamp(to.unit)),), (("timezone", "UTC"),))

    def floating(self, node: Node, kind: pa.DataType) -> Node:
        """A number as the nearest float64."""
        return node if kind == pa.float64() else self.as_kind(node, kind, pa.float64())

    def bound(
        self, operator: str, value: _Value, kind: pa.DataType, column: str | None = None
    ) -> Bound:
        """A comparison of a value of a type with a literal."""
        try:
            return bound_of(operator, value.literal, kind, value.kind)  # type: ignore[arg-type]
        except (ValueError, OverflowError, pa.ArrowException):
            return self.refuse_literal(value, kind, column)

    def tested(self, node: Any, negated: bool) -> Node:
        """`is null`, `is true` and their negations."""
        value = self.value(node.this)
        operand = self.alone(value)
        match self.name_of(node.expression):
            case "Null":
                return IsValid(operand) if negated else IsNull(operand)
            case "Boolean":
                if not (
                    value.literal is None
                    if value.is_literal
                    else pt.is_boolean(self.known_kind(value))
                ):
                    return self.refuse(node, "is not a condition")
                true = operand if node.expression.this else Not(operand)
                return _coalesced(Not(true), literal(True)) if negated else true
        return self.refuse(node)

    def among(self, node: Any, negated: bool) -> Node:
        """`in` with a list."""
        if not node.expressions:
            return self.refuse(node)
        value = self.value(node.this)
        items = [self.value(item) for item in node.expressions]
        if value.is_literal or not all(item.is_literal for item in items):
            single, join = ("!=", And) if negated else ("==", Or)
            return join(tuple(self.compared(single, value, item, node) for item in items))
        given = [item for item in items if item.literal is not None]
        if negated and len(given) < len(items):
            return _never()  # `x not in (null, ...)` is never true
        kind = self.known_kind(value)
        bounds = [self.bound("==", item, kind, value.name) for item in given]
        operand = self.alone(value)
        members = float_order.members(
            operand, [b.value for b in bounds if b.value is not None], kind
        )
        return And((Not(members), IsValid(operand))) if negated else members

    def between(self, node: Any, negated: bool) -> Node:
        value, low, high = (self.value(node.args[name]) for name in ("this", "low", "high"))
        orders = [(low, high), (high, low)] if node.args.get("symmetric") else [(low, high)]
        names = ("<", ">") if negated else (">=", "<=")
        inner, outer = (Or, And) if negated else (And, Or)
        found = [
            inner(
                (
                    self.compared(names[0], value, one, node),
                    self.compared(names[1], value, two, node),
                )
            )
            for one, two in orders
        ]
        return found[0] if len(found) == 1 else outer(tuple(found))

    def like(self, node: Any, negated: bool, *, ignore_case: bool) -> Node:
        pattern, value = self.value(node.expression), self.value(node.this)
        if not isinstance(pattern.literal, str) or pattern.kind is not None:
            return self.refuse(node)
        text = self.alone(value)
        if not (
            isinstance(value.literal, str) if value.is_literal else is_text(self.known_kind(value))
        ):
            return self.refuse(node, "matches values that are not text")
        if len(pattern.literal) - len(pattern.literal.rstrip("\\")) & 1:
            return self.refuse(node, "ends with a backslash that escapes nothing")
        options = (("pattern", pattern.literal), ("ignore_case", ignore_case))
        found = Call("match_like", (text,), options)
        return Not(found) if negated else found

    def same(self, node: Any, negated: bool) -> Node:
        """`is not distinct from`, or its negation."""
        one, two = self.value(node.this), self.value(node.expression)
        nulls = [v.is_literal and v.literal is None for v in (one, two)]
        if any(nulls):
            left, right = self.alone(one), self.alone(two)
            other = right if nulls[0] else left
            return IsValid(other) if negated else IsNull(other)
        equal = _coalesced(self.compared("==", one, two, node), _never())
        if not one.is_literal and not two.is_literal:
            nulls_too = And((IsNull(self.alone(one)), IsNull(self.alone(two))))
            return Not(Or((equal, nulls_too))) if negated else Or((equal, nulls_too))
        return Not(equal) if negated else equal

    def value(self, node: Any) -> _Value:
        """An operand."""
        kind = self.name_of(node)
        match kind:
            case "Paren":
                return self.value(node.this)
            case "Column" | "Dot":
                return self.column(node)
            case "Literal":
                return self.literal(node)
            case "Boolean":
                return _Value(None, literal=bool(node.this))
            case "Null":
                return _Value(None)
            case "HexString":
                return self.hexadecimal(node)
            case "Cast":
                return self.cast(node)
            case "Coalesce":
                return self.coalesce(node)
            case "Div":
                return self.quotient(node)
            case "DPipe":
                return self.joined(node)
            case "Case":
                return self.case(node)
        if kind in ARITHMETIC:
            return self.calculated(node, kind)
        if kind in FUNCTIONS:
            return self.function(node, kind)
        if kind in (
            *OPERATORS,
            "And",
            "Or",
            "Not",
            "Is",
            "In",
            "Between",
            "Like",
            "ILike",
            "NullSafeEQ",
            "NullSafeNEQ",
        ):
            return self.refuse(node, "is a condition, not a value")
        return self.refuse(node)

    def literal(self, node: Any) -> _Value:
        if node.is_string:
            return _Value(None, literal=str(node.this))
        kind = pa.float64() if "e" in node.this.lower() else None  # of one with an exponent
        try:
            return _Value(None, kind, number_of(node.this))
        except ValueError:
            return self.refuse(node)

    def hexadecimal(self, node: Any) -> _Value:
        try:
            return _Value(None, literal=bytes.fromhex(node.this))
        except ValueError:
            return self.refuse(node)

    def function(self, node: Any, name: str) -> _Value:
        given = self.value(node.this)
        number = given.literal
        if name == "Neg" and isinstance(number, int | Decimal) and not isinstance(number, bool):
            return _Value(None, given.kind, negative(number))
        operand, kind = self.alone(given), self.known_kind(given)
        accepts, function, result = FUNCTIONS[name]
        if name in ("Floor", "Ceil") and pt.is_integer(kind):
            return _Value(operand, kind)
        if name in ("Floor", "Ceil") and pt.is_decimal(kind):
            kind = pa.decimal256(kind.precision + 1, kind.scale)  # that of 9.9 is 10
            operand = Cast(operand, kind)
        if not accepts(kind):
            return self.refuse(node, f"has an argument of type {kind}")
        return _Value(Call(function, (operand,), OPTIONS.get(name, ())), result or kind)

    def calculated(self, node: Any, name: str) -> _Value:
        left, right = self.value(node.this), self.value(node.expression)
        sides = [self.operand(left, right), self.operand(right, left)]
        if not all(is_number(kind) for _, kind in sides):
            return self.refuse(node, "calculates with values that are not numbers")
        if any(pt.is_floating(kind) for _, kind in sides):
            sides = [(self.floating(*side), pa.float64()) for side in sides]
        elif name == "Mul":
            sides = _exact(sides, lambda whole, scale: sum(whole) + sum(scale) + 1)
        else:
            sides = _exact(sides, lambda whole, scale: _common(whole, scale) + 1)
        function = ARITHMETIC[name]
        found = Call(function, tuple(_grouped(node, kind, function) for node, kind in sides))
        return _Value(found, self.kind_of(found))

    def operand(self, value: _Value, other: _Value) -> tuple[Node, pa.DataType]:
        """An operand of arithmetic; a literal takes the type of the other operand."""
        if not value.is_literal:
            return self.alone(value), self.known_kind(value)
        kind = None if other.is_literal else self.known_kind(other)
        if value.literal is None:
            return literal(None, kind or pa.int64()), kind or pa.int64()
        found = self.scalar(value, None if value.is_double else kind)
        return Literal(found), found.type

    def coalesce(self, node: Any) -> _Value:
        return self.chosen(
            [self.value(part) for part in (node.this, *node.expressions)],
            lambda found: _coalesced(*found),
            node,
        )

    def chosen(
        self, values: list[_Value], choose: Callable[[list[Node]], Node], node: Any
    ) -> _Value:
        """One of several values, as values of one type."""
        kinds = [self.known_kind(v) for v in values if not v.is_literal]
        kind = kinds[0] if kinds else None
        found: list[tuple[Node, pa.DataType]] = []
        for value in values:
            if value.is_literal:
                used = None if value.is_double else kind
                scalar = (
                    pa.scalar(None, kind) if value.literal is None else self.scalar(value, used)
                )
                found.append((Literal(scalar), scalar.type))
            else:
                found.append((self.alone(value), self.known_kind(value)))
        every = [k for _, k in found if not pt.is_null(k)]
        if any(map(pt.is_floating, every)) and all(map(is_number, every)) and len({*every}) > 1:
            found = [
                (e, k) if pt.is_null(k) else (self.floating(e, k), pa.float64()) for e, k in found
            ]
        elif len({family(k) for k in every} - {"integer", "decimal"}) > 1 or (
            len({family(k) for k in every}) > 1 and not all(map(is_number, every))
        ):
            return self.refuse(node, "chooses between values of different types")
        else:
            found = _of_one_decimal(found)
        kind = next((k for _, k in found if not pt.is_null(k)), None)
        if kind is None:
            return _Value(None)
        choice = choose([literal(None, kind) if pt.is_null(k) else e for e, k in found])
        return _Value(choice, self.kind_of(choice))

    def quotient(self, node: Any) -> _Value:
        left, right = self.value(node.this), self.value(node.expression)
        one, two = self.operand(left, right), self.operand(right, left)
        if not (is_number(one[1]) and is_number(two[1])):
            return self.refuse(node, "divides values that are not numbers")
        double = self.floating(*two)
        is_zero, null = Compare("==", double, literal(0.0)), literal(None, pa.float64())
        divisor = Call("if_else", (is_zero, null, double))
        return _Value(Call("divide_checked", (self.floating(*one), divisor)), pa.float64())

    def joined(self, node: Any) -> _Value:
        texts = []
        for side in (self.value(node.this), self.value(node.expression)):
            if not side.is_literal and not is_text(self.known_kind(side)):
                return self.refuse(node, "joins values that are not text")
            texts.append(self.alone(side, pa.string()))
        return _Value(Call("binary_join_element_wise", (*texts, literal(""))), pa.string())

    def case(self, node: Any) -> _Value:
        """`case when condition then value ... else value end`; a null condition is not met."""
        if node.this is not None:
            return self.refuse(node)
        branches = node.args["ifs"]
        for branch in branches:
            self.name_of(branch)
        default = node.args.get("default")
        values = [self.value(branch.args["true"]) for branch in branches]
        values.append(_Value(None) if default is None else self.value(default))
        conditions = [_coalesced(self.condition(branch.this), _never()) for branch in branches]

        def choose(found: list[Node]) -> Node:
            result = found[-1]
            for met, value in reversed(list(zip(conditions, found[:-1], strict=True))):
                result = Call("if_else", (met, value, result))
            return result

        return self.chosen(values, choose, node)

    def cast(self, node: Any) -> _Value:
        """A cast; that of a text literal to a time (`date '2026-01-01'`) stays a literal."""
        kind = self.target(node)
        given = self.value(node.this)
        if given.is_literal and given.literal is None:
            return _Value(literal(None, kind), kind)
        if isinstance(given.literal, str) and given.kind is None and is_time(kind):
            return self.time_literal(given.literal, kind)
        if given.is_literal:
            try:
                found = scalar_of(given.literal, None, given.kind)  # type: ignore[arg-type]
                self.check_cast(found.type, kind, node)
                if _drops_fraction(found.type, kind):
                    found = pc.trunc(found)
                return _Value(Literal(exact_cast(found, kind)), kind)
            except (ValueError, OverflowError, pa.ArrowException):
                return self.refuse_literal(given, kind)
        own = self.known_kind(given)
        self.check_cast(own, kind, node)
        operand = self.alone(given)
        if _drops_fraction(own, kind):
            operand = Call("trunc", (operand,))
        return _Value(self.as_kind(operand, own, kind), kind)

    def time_literal(self, text: str, kind: pa.DataType) -> _Value:
        """A literal of a date or timestamp; one of a timestamp with a zone is an instant."""
        value = _Value(None, kind, text)
        if pt.is_timestamp(kind) and kind.tz is None:
            try:
                value = _Value(None, pa.timestamp("us", "UTC") if states_zone(text) else kind, text)
            except (ValueError, OverflowError):
                return self.refuse_literal(value, kind)
        self.bound("==", value, kind)
        return value

    def target(self, node: Any) -> pa.DataType:
        """The type of a cast."""
        to = node.args["to"]
        self.name_of(to)
        name = to.this.name
        parameters = [part.this for part in to.expressions if self.name_of(part) == "DataTypeParam"]
        if len(parameters) < len(to.expressions) or any(
            self.name_of(part) != "Literal" for part in parameters
        ):
            return self.refuse(node)
        if name == "DECIMAL" and parameters:
            try:
                digits = [int(part.name) for part in parameters]
                return pa.decimal128(digits[0], digits[1] if len(digits) > 1 else 0)
            except (ValueError, OverflowError):
                return self.refuse(node)
        if name in TYPES and not parameters:
            return TYPES[name]
        return self.refuse(node)

    def check_cast(self, given: pa.DataType, kind: pa.DataType, node: Any) -> None:
        """Raise UserError unless Arrow casts these types as Spark does."""
        if not has_cast(given, kind):
            self.refuse(node, f"casts {given} to {kind}")

    def as_kind(self, node: Node, own: pa.DataType, kind: pa.DataType) -> Node:
        """A value as one of another type; one that the type lacks fails as the rows are read."""
        if pt.is_floating(kind) and (pt.is_integer(own) or pt.is_floating(own)):
            return Cast(node, kind, safe=False)
        if pt.is_decimal(kind):
            return _as_decimal(node, own, kind)
        if pt.is_timestamp(kind) and kind.tz is not None and is_time(own):
            return self.zoned(node, own, kind)
        return _cast(node, own, kind)

    def assigned(self, value: _Value, kind: pa.DataType) -> Node:
        """A value for a column of a type.  Raises SchemaError for structs with other fields."""
        if not value.is_literal:
            own, operand = self.known_kind(value), self.alone(value)
            check_same_fields(own, kind, self.text)
            as_kind = _as_decimal if pt.is_decimal(kind) else _cast
            return as_kind(operand, own, kind)
        if value.literal is None:
            return literal(None, kind)
        try:
            return Literal(exact_cast(self.scalar(value, kind), kind))
        except pa.ArrowException as error:
            raise UserError(
                "the update has a value that does not fit",
                **self.stated,
                type=str(kind),
                cause=str(error),
            ) from None

    def column(self, node: Any) -> _Value:
        for part in node.parts:
            if self.name_of(part) != "Identifier":
                self.refuse(node)
        names = self.scoped([part.name for part in node.parts])
        path: list[str] = []
        kind: Any = pa.struct(list(self.schema))
        for name in names:
            known = [field.name for field in kind] if pt.is_struct(kind) else []
            found = _named(name, known)
            if len(found) != 1:
                raise UserError(
                    f"the {self.noun} names a column that the table lacks",
                    **self.stated,
                    column=".".join(names),
                    hint=self.unknown_hint(name, known, node),
                )
            path.append(found[0])
            kind = kind.field(found[0]).type
        return _Value(Column(tuple(path)), kind, name=".".join(path))

    def unknown_hint(self, name: str, known: Sequence[str], node: Any) -> str | None:
        hint = columns_hint([name], known, has="columns:") if known else None
        if f'"{name}"' in self.text:
            text = name.replace("'", "''")
            return f"double quotes mark a column; text has single ones: '{text}'; {hint}"
        is_right = str(node.arg_key).startswith("expression")
        is_like = hint is None or hint.startswith("did you mean")
        return f"{hint}; text is written in single quotes" if is_right and not is_like else hint

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
                f"the {self.noun} names a column of both sides",
                **self.stated,
                column=".".join(names),
                hint="write " + " or ".join(f"{scope}.{names[0]}" for scope in found),
            )
        raise UserError(
            f"the {self.noun} names an unknown column",
            **self.stated,
            column=".".join(names),
            hint="; ".join(f"{scope} has {', '.join(known)}" for scope, known in sides.items()),
        )

    def known_kind(self, value: _Value) -> pa.DataType:
        """The type of an operand."""
        if value.kind is not None:
            return value.kind
        return self.kind_of(self.alone(value))

    def alone(self, value: _Value, kind: pa.DataType | None = None) -> Node:
        return Literal(self.scalar(value, kind)) if value.node is None else value.node

    def scalar(self, value: _Value, kind: pa.DataType | None) -> pa.Scalar:
        """A literal as a value of the type with which it is used, if it has one."""
        if value.literal is None:
            return pa.scalar(None, kind or value.kind)
        try:
            return scalar_of(value.literal, kind, value.kind)
        except (ValueError, OverflowError, pa.ArrowException):
            return self.refuse_literal(value, kind or value.kind)

    def refuse_literal(
        self, value: _Value, kind: pa.DataType | None, column: str | None = None
    ) -> NoReturn:
        raise UserError(
            f"the {self.noun} has a literal that is not of the column's type",
            **self.stated,
            column=column,
            literal=str(value.literal)[:200],
            type=str(kind),
            hint=_literal_hint(value.literal, kind, column or "column"),
        ) from None

    def refuse(self, node: Any, why: str = "is not supported") -> NoReturn:
        text = why if why.startswith("is ") else f"{why}, which is not supported"
        raise UserError(
            f"a part of the {self.noun} {text}",
            **self.stated,
            part=node.sql(),
            hint="such as: city = 'sf' and fare > 10"
            if why == "is not a condition"
            else "use a pyarrow.compute.Expression",
        )


def _drops_fraction(own: pa.DataType, kind: pa.DataType) -> bool:
    """Whether a cast drops a fraction: as in Spark; Arrow itself refuses one."""
    return bool(pt.is_integer(kind) and (pt.is_floating(own) or pt.is_decimal(own)))


def _grouped(node: Node, kind: pa.DataType, function: str) -> Node:
    """An operand of arithmetic.  Arrow reorders the operands of nested additions, and of nested
    multiplications, which changes rounding and overflow; a cast between them prevents it."""
    is_chain = isinstance(node, Call) and node.name == function
    return Cast(node, kind) if is_chain else node


def _common(whole: list[int], scale: list[int]) -> int:
    """The digits of the least decimal that has the values of several."""
    return max(whole) + max(scale)


def _exact(
    sides: list[tuple[Node, pa.DataType]], digits: Callable[[list[int], list[int]], int]
) -> list[tuple[Node, pa.DataType]]:
    """Integers and decimals that are used together, as decimals if one is: of 256 bits where their
    common type, or that of the result, needs it, which Arrow itself does not choose.

    digits: those that it needs, of the digits before the point of each and of those after it.
    """
    found = _decimals(sides)
    kinds = [kind for _, kind in found if pt.is_decimal(kind)]
    if not kinds or digits([k.precision - k.scale for k in kinds], [k.scale for k in kinds]) <= 38:
        return found
    wide = [pa.decimal256(k.precision, k.scale) if pt.is_decimal128(k) else k for _, k in found]
    return [
        (node if kind == to else Cast(node, to), to)
        for (node, kind), to in zip(found, wide, strict=True)
    ]


def _of_one_decimal(found: list[tuple[Node, pa.DataType]]) -> list[tuple[Node, pa.DataType]]:
    """Integers and decimals as values of the least decimal that has all, if one is a decimal."""
    sides = _decimals(found)
    decimals = [kind for _, kind in sides if pt.is_decimal(kind)]
    if not decimals:
        return found
    scale = max(kind.scale for kind in decimals)
    digits = max(kind.precision - kind.scale for kind in decimals) + scale
    to = pa.decimal128(digits, scale) if digits <= 38 else pa.decimal256(digits, scale)
    return [(node, kind) if pt.is_null(kind) else (Cast(node, to), to) for node, kind in sides]


def _decimals(sides: list[tuple[Node, pa.DataType]]) -> list[tuple[Node, pa.DataType]]:
    """The sides, with integers as decimals if one of the sides is a decimal."""
    if not any(pt.is_decimal(kind) for _, kind in sides):
        return sides
    return [
        _of_integer(node, kind) if pt.is_integer(kind) else (node, kind) for node, kind in sides
    ]


def _of_integer(node: Node, kind: pa.DataType) -> tuple[Node, pa.DataType]:
    """An integer as a decimal; a literal as the least one."""
    if isinstance(node, Literal) and node.value.is_valid:
        found = pa.scalar(Decimal(node.value.as_py()))
        return Literal(found), found.type
    decimal = pa.decimal128(_INTEGER_DIGITS[kind.bit_width] + (kind == pa.uint64()), 0)
    return Cast(node, decimal), decimal


def _bounded(node: Node, bound: Bound, kind: pa.DataType) -> Node:
    """A comparison with a literal."""
    if bound.value is None:
        return IsValid(node) if bound.holds else _never()
    if not pt.is_floating(kind):
        return Compare(bound.operator, node, Literal(bound.value))
    return float_order.compared_with_value(bound.operator, node, bound.value)


def _named(name: str, known: Sequence[str]) -> list[str]:
    """The names that are meant: the same one, or those that differ only in case."""
    return [n for n in known if n == name] or [n for n in known if n.lower() == name.lower()]


def _literal_hint(literal: SqlLiteral, kind: pa.DataType | None, column: str) -> str:
    """How to write a value of the type."""
    if kind is None:
        return "compare with a value of that type"
    if is_text(kind):
        return f"write text in single quotes: '{str(literal)[:50]}'"
    if pt.is_boolean(kind):
        return f"write {column}, or not {column}"
    if pt.is_date(kind):
        way = "such as date '2026-11-21'"
    elif pt.is_timestamp(kind):
        way = "such as timestamp '2026-11-21 09:30:00'"
    elif is_bytes(kind):
        return "such as x'00ff'"
    else:
        way = "compare with a number" if is_number(kind) else "compare with a value of that type"
    return f"{way}, or compare cast({column} as string) with text"


__all__ = ["Filter", "as_filter", "as_value", "sql_tree"]

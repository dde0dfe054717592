"""Arrow expressions as filter trees.

Arrow does not expose the structure of an expression, but serializes it as a record batch: the calls
and fields are the schema's metadata in prefix order, the literals are columns of one row each.

    call: 'and_kleene'  call: 'equal'  field_ref: 'id'  literal: '0'  end: 'equal'  ...

The form is not documented, so nothing depends on it alone: the expression that is made of a
condition's tree must equal the condition, and all conditions joined must equal the expression.  A
condition that does not is `Unknown`.

Substrait, which Arrow writes too, cannot take its place: what Arrow 20 to 26 write doubles
with each level of nesting (apache/arrow#48761), so that 25 conditions joined by `&` take all
memory, and lacks casts and most options of functions.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import UserError
from pyhudi.near_names import columns_hint
from pyhudi.read.predicate import (
    And,
    Call,
    Cast,
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
    children,
    columns_of,
    is_analyzed,
    to_arrow,
    walk,
)

_LINE: Final = re.compile(r"(\w+): '(.*)'")
_COMPARISONS: Final = {
    "equal": "==", "not_equal": "!=", "less": "<", "less_equal": "<=", "greater": ">",
    "greater_equal": ">=",
}  # fmt: skip
_JOINS: Final = frozenset(("call", name) for name in ("and_kleene", "or_kleene", "invert"))
_NO_COLUMNS: Final = pa.schema([])
_DEPTH_MAX: Final = 200


class _UnknownError(Exception):
    """The expression cannot be parsed; the message says why."""


def arrow_predicate(where: pc.Expression, schema: pa.Schema) -> Predicate:
    """A filter of a table with these columns.  Raises UserError if it does not match them."""
    # Behind columns that no function takes, positions of columns name other ones than here.
    shifted = [pa.field(f" {number}", pa.struct([])) for number in range(len(schema))]
    if _mismatch(where, pa.schema([*shifted, *schema])) is not None:
        raise _no_match(where, schema)
    tree = arrow_tree(where, schema)
    if is_analyzed(tree):
        names = list(columns_of(tree, schema))
    else:
        names = fewest_columns(
            lambda some: _mismatch(where, pa.schema(map(schema.field, some))) is None, schema.names
        )
    return Predicate(tree, tuple(n for n in schema.names if n in names) or tuple(schema.names))


def fewest_columns(
    binds: Callable[[Sequence[str]], bool], names: Sequence[str], given: Sequence[str] = ()
) -> list[str]:
    """The fewest of `names` with which, and with those given, expressions can be bound; with all
    they can."""
    if binds(given):
        return []
    if len(names) == 1:
        return list(names)
    one, other = names[: len(names) // 2], names[len(names) // 2 :]
    found = fewest_columns(binds, other, (*given, *one))
    return fewest_columns(binds, one, (*given, *found)) + found


def _no_match(where: pc.Expression, schema: pa.Schema) -> UserError:
    """The error for an expression that Arrow refuses for rows of this schema."""
    mismatch = _mismatch(where, schema)
    if mismatch is None:
        return UserError(
            "the filter names a column by its position",
            where=str(where),
            hint="such as pyarrow.compute.field('city')",
        )
    reason = str(mismatch).partition("\n")[0]
    unknown = re.search(r"No match for FieldRef\.Name\((.*?)\) in ", reason)
    if unknown:
        return UserError(
            "the filter names a column that the table lacks",
            where=str(where),
            column=unknown[1],
            hint=columns_hint([unknown[1]], schema.names),
        )
    kinds = ", ".join(f"{field.name} is {field.type}" for field in _named(where, schema))
    return UserError(
        "the filter does not match the types of the columns",
        where=str(where),
        reason=reason,
        hint=f"{kinds}: compare with values of that type" if kinds else "name a column",
    )


def _named(where: pc.Expression, schema: pa.Schema) -> list[pa.Field]:
    """The columns that an expression names, for a message."""
    try:
        calls = _Form.of(where).calls
    except (_UnknownError, pa.ArrowException):
        return []
    return [field for field in schema if ("field_ref", field.name) in calls]


def _mismatch(where: pc.Expression, schema: pa.Schema) -> Exception | None:
    """Why a filter cannot be applied to rows of this schema; None if it can."""
    try:
        schema.empty_table().filter(where)
    except (pa.ArrowException, TypeError) as mismatch:
        return mismatch
    return None


def arrow_tree(where: pc.Expression, schema: pa.Schema = _NO_COLUMNS) -> Node:
    """The tree of an expression; `Unknown` where it cannot be parsed.

    Conditions that are joined by `and`, `or` and `not` are analyzed one by one.
    schema: the columns that it names, of which floating ones are looked for in lists of their type.
    """
    try:
        form = _Form.of(where)
        if form.calls[0] not in _JOINS:
            return _condition(where, form, schema)
        found, again = _joined(form, schema)
        if _is_deep(found):
            return Unknown(where, "is nested too deeply")
        if _is_same(again, where):
            return found
    except (_UnknownError, pa.ArrowException, ValueError, TypeError, LookupError) as error:
        return Unknown(where, f"cannot be analyzed: {error}")
    return Unknown(where, "cannot be analyzed: it is not stored as expected")


def _is_same(one: pc.Expression, other: pc.Expression) -> bool:
    """Whether two expressions are equal, or stored alike: lists may have NaN."""
    return bool(one.equals(other) or _stored(one).equals(_stored(other)))


def _is_deep(node: Node) -> bool:
    """Whether a tree has more levels than functions that call themselves can visit."""
    level: tuple[Node, ...] = (node,)
    for _ in range(_DEPTH_MAX):
        level = tuple(side for one in level for side in children(one))
    return bool(level)


@dataclass(frozen=True, slots=True)
class _Form:
    """The stored form of an expression, or of a part of one.

    calls: the kinds and texts in prefix order.  literals: one row, to whose columns they refer.
    """

    calls: Sequence[tuple[str, str]]
    literals: pa.RecordBatch

    @classmethod
    def of(cls, where: pc.Expression) -> _Form:
        literals = pa.ipc.open_file(_stored(where)).get_batch(0)
        text = literals.schema.to_string(truncate_metadata=False, show_schema_metadata=True)
        lines = text.partition("-- schema metadata --\n")[2].splitlines()
        return cls([_split(line) for line in lines], literals)

    def expression(self) -> pc.Expression:
        """The expression that is stored so."""
        metadata = pa.KeyValueMetadata(self.calls)
        batch = self.literals.replace_schema_metadata(metadata)
        sink = pa.BufferOutputStream()
        with pa.ipc.new_file(sink, batch.schema) as writer:
            writer.write_batch(batch)
        restore, _ = pc.field("").__reduce__()
        return restore(sink.getvalue())

    def part(self, first: int, last: int) -> _Form:
        """The calls from `first` to before `last`, with the literals that these use."""
        used: list[int] = []
        calls = []
        for kind, text in self.calls[first:last]:
            if kind in ("literal", "options"):
                used.append(int(text))
                text = str(len(used) - 1)
            calls.append((kind, text))
        return _Form(calls, self.literals.select(used))

    def end(self, first: int) -> int:
        """The end of the operand that begins at `first`."""
        kind, text = self.calls[first]
        if kind == "nested_field_ref":
            return first + 1 + int(text)
        at, depth = first, 0
        while True:
            depth += {"call": 1, "end": -1}.get(self.calls[at][0], 0)
            at += 1
            if depth == 0:
                return at


def _joined(form: _Form, schema: pa.Schema) -> tuple[Node, pc.Expression]:
    """The tree of joined conditions, and the expression that is made of them in the same order."""
    waiting: list[list[tuple[Node, pc.Expression]]] = [[]]
    at = 0
    while at < len(form.calls):
        kind, name = form.calls[at]
        if (kind, name) in _JOINS:
            waiting.append([])
            at += 1
        elif kind == "end":
            sides = waiting.pop()
            waiting[-1].append(_join(name, sides))
            at += 1
        else:
            part = form.part(at, at := form.end(at))
            where = part.expression()
            waiting[-1].append((_condition(where, part, schema), where))
    ((found,),) = waiting
    return found


def _join(name: str, sides: list[tuple[Node, pc.Expression]]) -> tuple[Node, pc.Expression]:
    """Sides joined by a function; chains of `and` and of `or` become one node each."""
    match name, sides:
        case "invert", [(node, where)]:
            return Not(node), ~where
        case "and_kleene" | "or_kleene", [(one, left), (other, right)]:
            kind = And if name == "and_kleene" else Or
            parts = [side.sides if isinstance(side, kind) else (side,) for side in (one, other)]
            joined = left & right if name == "and_kleene" else left | right
            return kind((*parts[0], *parts[1])), joined
    raise _UnknownError("it is not stored as expected")


def _condition(where: pc.Expression, form: _Form, schema: pa.Schema) -> Node:
    """The tree of a condition that joins no others, if the same expression can be made of it."""
    try:
        tree = _parsed(form)
    except (_UnknownError, ValueError, TypeError, LookupError) as error:
        return Unknown(where, f"cannot be analyzed: {error}")
    if _is_deep(tree):
        return Unknown(where, "is nested too deeply")
    try:
        if _is_same(to_arrow(tree), where):
            return _of_column_type(tree, schema)
    except (pa.ArrowException, ValueError, TypeError, AttributeError):
        pass
    functions = {node.name for node in walk(tree) if isinstance(node, Call) and node.options}
    return Unknown(where, f"has functions that are not analyzed: {', '.join(sorted(functions))}")


def _stored(where: pc.Expression) -> pa.Buffer:
    _, (content,) = where.__reduce__()
    return content


def _parsed(form: _Form) -> Node:
    lines = iter(form.calls)
    calls: list[tuple[str, list[Node], dict[str, Any]]] = [("", [], {})]
    for kind, name in lines:
        if kind == "call":
            calls.append((name, [], {}))
        elif kind == "end" and len(calls) > 1 and calls[-1][0] == name:
            _, arguments, options = calls.pop()
            calls[-1][1].append(_node(name, tuple(arguments), options))
        elif kind == "options":
            given = form.literals.column(int(name))[0]
            calls[-1][2].update({key: given[key] for key in given if key != "_type_name"})
        else:
            calls[-1][1].append(_operand(kind, name, lines, form.literals))
    (found,) = calls[0][1]
    if len(calls) > 1:
        raise _UnknownError("it is not stored as expected")
    return found


def _split(line: str) -> tuple[str, str]:
    match = _LINE.fullmatch(line)
    if match is None:
        raise _UnknownError("a name in it has a line break")
    return match[1], match[2]


def _operand(
    kind: str, text: str, lines: Iterator[tuple[str, str]], literals: pa.RecordBatch
) -> Node:
    match kind:
        case "field_ref":
            return Column((text,))
        case "nested_field_ref":
            path = [next(lines) for _ in range(int(text))]
            if all(part == "field_ref" for part, _ in path):
                return Column(tuple(name for _, name in path))
        case "literal":
            return Literal(literals.column(int(text))[0])
    raise _UnknownError("it is not stored as expected")


def _node(name: str, arguments: tuple[Node, ...], options: dict[str, pa.Scalar]) -> Node:
    match name, arguments:
        case "and_kleene", (_, _):
            return And(arguments)
        case "or_kleene", (_, _):
            return Or(arguments)
        case "invert", (value,):
            return Not(value)
        case "is_valid", (value,):
            return IsValid(value)
        case "is_null", (value,) if options:
            return IsNull(value, options["nan_is_null"].as_py())
        case "is_in", (value,):
            skips = options["null_matching_behavior"].as_py() == 1
            return In(value, options["value_set"].values, skips)
        case "cast", (value,):
            allowed = {flag.as_py() for key, flag in options.items() if key != "to_type"}
            return Cast(value, options["to_type"].type, allowed == {False})
        case _, (left, right) if name in _COMPARISONS:
            return Compare(_COMPARISONS[name], left, right)
    return Call(name, arguments, tuple((key, value.as_py()) for key, value in options.items()))


def _of_column_type(node: Node, schema: pa.Schema) -> Node:
    """The condition; a list of floating numbers has the type of its column.

    Arrow compares a column of float32 with a list of float64 after rounding the list.
    """
    match node:
        case In(Column((name,)) as column, values, skip_nulls) if name in schema.names:
            kind = schema.field(name).type
            if pt.is_floating(kind) and pt.is_floating(values.type):
                return In(column, values.cast(kind), skip_nulls)
        case Call("is_null", (value,), ()):
            return IsNull(value)
    return node


__all__ = ["arrow_predicate", "arrow_tree", "fewest_columns"]

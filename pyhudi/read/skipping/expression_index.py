"""Use of expression indexes (`expr_index_<name>`): ranges or bloom filters of a function, per file.

A filter on the function is rewritten to one on a pseudo column with the index's name, and files are
ruled out by its ranges as by those of columns, or by its filters.  Functions of Arrow that stand
for those of an index:

```
year month day hour     year month day hour
from_unixtime           strftime of the column cast to timestamp[s]
date_format             strftime, without seconds
to_date                 cast to date32
length                  utf8_length
trim ltrim rtrim        utf8_trim utf8_ltrim utf8_rtrim with the characters
substring               utf8_slice_codeunits from the front
identity                the column itself
lower upper             utf8_lower utf8_upper: equality with ASCII text alone, as Java maps some
                        characters to several
```

Of functions that depend on the zone of the writer's session, ranges are used that bound the values
in every zone (`time_zones`).  Source: writer_v8_v9 11.6, 12; entries written by Apache Hudi 1.2.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.metadata.expression_index.calendar import strftime_format
from pyhudi.metadata.expression_index.definition import ExpressionIndex, usable_expressions
from pyhudi.metadata.expression_index.functions import DEFAULT_FORMAT
from pyhudi.metadata.expression_index.time_zones import depends_on_zone, has_bounds_in_any_zone
from pyhudi.read.predicate import And, Call, Cast, Column, Compare, In, Literal, Node, Or
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig

_CASED: Final = {"lower": "utf8_lower", "upper": "utf8_upper"}
_SAME: Final = {
    **{name: name for name in ("year", "month", "day", "hour")}, "length": "utf8_length", **_CASED,
}  # fmt: skip
_TRIMMED: Final = {"trim": "utf8_trim", "ltrim": "utf8_ltrim", "rtrim": "utf8_rtrim"}
_DOT_ABOVE: Final = "\u0307"


@dataclass(frozen=True, slots=True)
class UsableIndex:
    """An index and what filters compare it with.  source: the type of its column."""

    index: ExpressionIndex
    source: pa.DataType

    @property
    def name(self) -> str:
        return self.index.name

    @property
    def kind(self) -> pa.DataType:
        """The type of its ranges, as Arrow's functions have it."""
        found = self.index.expression.result_type(self.source)
        return pa.int64() if pt.is_integer(found) else found

    @property
    def is_zoned(self) -> bool:
        """Whether its entries depend on the time zone of their writers."""
        return depends_on_zone(self.index.expression, self.source)

    def is_call(self, node: Node) -> bool:
        """Whether a node is the index's function of its column."""
        expression, column = self.index.expression, Column((self.index.column,))
        if expression.function == "identity":
            return node == column
        if isinstance(node, Cast):
            return (
                expression.function == "to_date" and node.value == column and node.to == pa.date32()
            )
        if not isinstance(node, Call):
            return False
        given = dict(expression.options)
        if node.name == "strftime":
            return _is_format_of(node, expression.function, given, column)
        return node.arguments == (column,) and _is_function(node, expression.function, given)


def _is_function(node: Call, function: str, given: Mapping[str, str]) -> bool:
    """Whether a call is this function, except for the formatting of times."""
    if function in _TRIMMED:
        characters = given.get("trimString", " ")
        return node.name == _TRIMMED[function] and node.option("characters") == characters
    if function == "substring":
        start = max(0, int(given["pos"]) - 1)
        span = tuple(node.option(name) for name in ("start", "stop", "step"))
        expected = (start, start + int(given["len"]), 1)
        return node.name == "utf8_slice_codeunits" and span == expected
    return node.name == _SAME.get(function)


def _is_format_of(node: Call, function: str, given: Mapping[str, str], column: Column) -> bool:
    if function == "from_unixtime":
        is_text = node.arguments in _as_seconds(column)
        return is_text and _is_format(node, given.get("format", DEFAULT_FORMAT))
    is_plain = function == "date_format" and node.arguments == (column,)
    # Arrow prints fractions of seconds, Java does not
    return is_plain and "ss" not in given["format"] and _is_format(node, given["format"])


def _as_seconds(column: Column) -> tuple[tuple[Node], ...]:
    kinds = (pa.timestamp("s"), pa.timestamp("s", "UTC"))
    return tuple((Cast(column, kind, safe),) for kind in kinds for safe in (True, False))


def _is_format(node: Call, pattern: str) -> bool:
    return bool(node.option("format") == strftime_format(pattern))


def usable_indexes(
    fs: FileSystem, config: TableConfig, schema: pa.Schema
) -> tuple[UsableIndex, ...]:
    """The listed indexes of functions that are evaluated exactly; schema: of the table.

    Reads the definitions if any such partition is listed.  Raises CorruptFileError.
    """
    found = []
    for index in usable_expressions(fs, config):
        kind = schema.field(index.column).type if index.column in schema.names else None
        if kind is None or not index.accepts(kind):
            continue
        usable = UsableIndex(index, kind)
        is_bounded = index.is_ranged and has_bounds_in_any_zone(index.expression)
        if is_bounded or not usable.is_zoned:
            found.append(usable)
    return tuple(found)


def on_ranges(node: Node, index: UsableIndex) -> Node | None:
    """The filter with comparisons of the index's function as comparisons of the pseudo column;
    None if it has none that the index can decide."""
    found = _rewritten(node, index)
    return found if found != node else None


def _rewritten(node: Node, index: UsableIndex) -> Node:
    pseudo = Column((index.name,))
    match node:
        case And(sides) | Or(sides):
            return type(node)(tuple(_rewritten(side, index) for side in sides))
        case Compare() if _has_case(index):
            return _of_cased_text(node, index)
        case Compare(operator, left, Literal() as right) if index.is_call(left):
            return Compare(operator, pseudo, right)
        case Compare(operator, Literal() as left, right) if index.is_call(right):
            return Compare(operator, left, pseudo)
        case In(value, values, skips) if index.is_call(value) and not _has_case(index):
            return In(pseudo, values, skips)
    return node


def _has_case(index: UsableIndex) -> bool:
    return index.index.expression.function in _CASED


def _of_cased_text(node: Compare, index: UsableIndex) -> Node:
    sides = (node.left, node.right)
    literal = next((side for side in sides if isinstance(side, Literal)), None)
    if node.operator != "==" or literal is None or not any(map(index.is_call, sides)):
        return node
    text = literal.value.as_py()
    if not isinstance(text, str) or not text.isascii():
        return node
    is_odd = index.index.expression.function == "lower" and "i" in text
    if not index.index.is_ranged:
        return node if is_odd else _compared(index, "==", text)
    greatest = text
    if is_odd:  # may stand for i and U+0307
        greatest = text[: text.index("i") + 1] + chr(ord(_DOT_ABOVE) + 1)
    return And((_compared(index, ">=", text), _compared(index, "<=", greatest)))


def _compared(index: UsableIndex, operator: str, text: str) -> Compare:
    return Compare(operator, Column((index.name,)), Literal(pa.scalar(text, pa.string())))


def rewritten_filters(
    fs: FileSystem, config: TableConfig, node: Node, schema: pa.Schema
) -> Iterator[tuple[UsableIndex, Node]]:
    """The indexes that can decide a part of the filter, with the filter on the pseudo column."""
    for index in usable_indexes(fs, config, schema):
        found = on_ranges(node, index)
        if found is not None:
            yield index, found

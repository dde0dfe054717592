"""Use of expression indexes (`expr_index_<name>`): ranges of a function of a column, per file.

A filter on the function is rewritten to one on a pseudo column with the index's name, and files are
ruled out by its ranges as by those of columns.  Only functions are used whose values are certain to
be those that Spark computed when it wrote the index:

```
year, month, day    of dates; of timestamps they depend on the session's time zone
lower, upper        equality with ASCII text; `lower` of U+0130 is two characters in Java
```

Source: writer_v8_v9 11.6, 12; entries written by Apache Hudi 1.2.0.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.metadata.definitions import read_definitions
from pyhudi.metadata.payloads import MetadataPartition
from pyhudi.read.skipping.predicates import Call, Field, Literal, Predicate
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig

EXPRESSION_PREFIX: Final = "expr_index_"
_OF_DATES: Final = {"year": "year", "month": "month", "day": "day"}
_OF_TEXT: Final = {"lower": "utf8_lower", "upper": "utf8_upper"}
_COMPARED: Final = frozenset(
    {"equal", "not_equal", "less", "less_equal", "greater", "greater_equal"}
)
_DOT_ABOVE: Final = "\u0307"


@dataclass(frozen=True, slots=True)
class ExpressionIndex:
    """One index.  name: of its metadata partition; function: of Arrow."""

    name: str
    function: str
    column: str

    @property
    def partition(self) -> MetadataPartition:
        return MetadataPartition(self.name, f"{self.name.replace('_', '-')}-")

    @property
    def kind(self) -> pa.DataType:
        """The type of its ranges."""
        return pa.string() if self.function in _OF_TEXT.values() else pa.int64()


def expression_indexes(
    fs: FileSystem, config: TableConfig, schema: pa.Schema
) -> tuple[ExpressionIndex, ...]:
    """The listed indexes of functions that are evaluated exactly; schema: of the table.

    Reads the definitions if any such partition is listed.  Raises CorruptFileError.
    """
    listed = sorted(
        name for name in config.metadata_partitions if name.startswith(EXPRESSION_PREFIX)
    )
    if not listed:
        return ()
    stored = read_definitions(fs, config)
    found = (_parsed(name, stored.get(name, {}), schema) for name in listed)
    return tuple(index for index in found if index is not None)


def _parsed(name: str, definition: Mapping[str, Any], schema: pa.Schema) -> ExpressionIndex | None:
    fields, options = definition.get("sourceFields"), definition.get("indexOptions") or {}
    if definition.get("indexType") != "column_stats" or set(options) > {"expr"}:
        return None
    if not isinstance(fields, list) or len(fields) != 1 or fields[0] not in schema.names:
        return None
    kind = schema.field(fields[0]).type
    known = _OF_DATES if pt.is_date32(kind) else _OF_TEXT if pt.is_string(kind) else {}
    function = known.get(str(definition.get("indexFunction")))
    return None if function is None else ExpressionIndex(name, function, fields[0])


def on_ranges(node: Predicate, index: ExpressionIndex) -> Predicate | None:
    """The filter with comparisons of the index's function as comparisons of the pseudo column;
    None if it has none that the ranges can decide."""
    found = _rewritten(node, index)
    return found if found != node else None


def _rewritten(node: Predicate, index: ExpressionIndex) -> Predicate:
    if not isinstance(node, Call):
        return node
    if node.name in ("and", "and_kleene", "or", "or_kleene"):
        return Call(node.name, tuple(_rewritten(side, index) for side in node.arguments))
    if node.name not in _COMPARED or len(node.arguments) != 2:
        return node
    one, other = (_replaced(side, index) for side in node.arguments)
    literal = next((side for side in (one, other) if isinstance(side, Literal)), None)
    if literal is None or Field(index.name) not in (one, other):
        return node
    if index.kind != pa.string():
        return Call(node.name, (one, other))
    return _of_text(node, index, literal.value)


def _replaced(node: Predicate, index: ExpressionIndex) -> Predicate:
    called = isinstance(node, Call) and node.name == index.function
    if called and isinstance(node, Call) and node.arguments == (Field(index.column),):
        return Field(index.name)
    return node


def _of_text(node: Call, index: ExpressionIndex, value: pa.Scalar) -> Predicate:
    text = value.as_py()
    if node.name != "equal" or not isinstance(text, str) or not text.isascii():
        return node
    greatest = text
    if index.function == "utf8_lower" and "i" in text:  # may stand for i and U+0307
        greatest = text[: text.index("i") + 1] + chr(ord(_DOT_ABOVE) + 1)
    bounds = (("greater_equal", text), ("less_equal", greatest))
    return Call("and", tuple(_compared(index, name, bound) for name, bound in bounds))


def _compared(index: ExpressionIndex, operator: str, text: str) -> Call:
    return Call(operator, (Field(index.name), Literal(pa.scalar(text, pa.string()))))


def rewritten_filters(
    fs: FileSystem, config: TableConfig, node: Predicate, schema: pa.Schema
) -> Iterator[tuple[ExpressionIndex, Predicate]]:
    """The indexes that can decide a part of the filter, with the filter on their ranges."""
    for index in expression_indexes(fs, config, schema):
        found = on_ranges(node, index)
        if found is not None:
            yield index, found

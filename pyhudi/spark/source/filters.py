"""Conversion of filters that Spark pushes down to Arrow expressions and record keys.

Spark also applies every filter itself, so the converted filters may accept more rows, never fewer:
a filter without an exact equivalent is dropped.  Where semantics differ, those of Spark apply: NaN
equals itself and is greater than any number.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product
from math import prod
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import UnsupportedTableError, UserError
from pyhudi.keygen.generators import record_keys
from pyhudi.keygen.key_generator_config import is_encoding_open, key_rule
from pyhudi.options import Options
from pyhudi.read.skipping.predicates import both
from pyhudi.records import RECORD_KEY
from pyhudi.table.properties import TableConfig

KEYS_MAX: Final = 10_000
"""For more keys than this, a scan is cheaper than an index lookup."""

_NOT_A_VALUE: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)


def as_expression(filters: Iterable[Any], schema: pa.Schema) -> pc.Expression | None:
    """The conjunction of the filters that have an equivalent; None if there is none.

    filters: of `pyspark.sql.datasource`.  schema: the table's columns.
    """
    found: pc.Expression | None = None
    for one in filters:
        found = both(found, _made(one, schema))
    return found


def _made(one: Any, schema: pa.Schema) -> pc.Expression | None:
    kind = type(one).__name__
    if kind == "Not":
        child = _made(one.child, schema)
        return None if child is None else ~child
    attribute: Sequence[str] = getattr(one, "attribute", ())
    if len(attribute) != 1 or attribute[0] not in schema.names:
        return None
    name = attribute[0]
    column, data_type = pc.field(name), schema.field(name).type
    match kind:
        case "IsNull":
            return column.is_null()
        case "IsNotNull":
            return column.is_valid()
        case "In":
            values = _values(one.value, data_type)
            return None if values is None else column.isin(_with_both_zeros(values))
        case "StringStartsWith" | "StringEndsWith" | "StringContains":
            return _text_match(kind, column, one.value) if pt.is_string(data_type) else None
    values = _values([one.value], data_type)
    return None if values is None else _compared(kind, column, values[0], data_type)


def _compared(
    kind: str, column: pc.Expression, value: pa.Scalar, data_type: pa.DataType
) -> pc.Expression | None:
    is_nan = pt.is_floating(data_type)
    match kind:
        case "EqualTo":
            return column == value
        case "EqualNullSafe":
            return (column == value) & column.is_valid()
        case "LessThan":
            return column < value
        case "LessThanOrEqual":
            return column <= value
        case "GreaterThan":
            return (column > value) | pc.is_nan(column) if is_nan else column > value
        case "GreaterThanOrEqual":
            return (column >= value) | pc.is_nan(column) if is_nan else column >= value
    return None


def _with_both_zeros(values: pa.Array) -> pa.Array:
    """Add both zeros if one is there: equal in Spark, but Arrow's `is_in` compares bits."""
    if not pt.is_floating(values.type) or 0.0 not in values.to_pylist():
        return values
    return pa.concat_arrays([values, pa.array([0.0, -0.0], values.type)])


def _text_match(kind: str, column: pc.Expression, text: Any) -> pc.Expression | None:
    if not isinstance(text, str):
        return None
    match kind:
        case "StringStartsWith":
            return pc.starts_with(column, text)
        case "StringEndsWith":
            return pc.ends_with(column, text)
    return pc.match_substring(column, text)


def _values(values: Iterable[Any], data_type: pa.DataType) -> pa.Array | None:
    """Values in the column's type; None if one is null, NaN or not convertible."""
    given = list(values)
    if any(value is None or value != value for value in given):
        return None
    if pt.is_nested(data_type) or any(isinstance(v, bool) for v in given) != pt.is_boolean(
        data_type
    ):
        return None
    try:
        made = pa.array(given, data_type)
    except _NOT_A_VALUE:
        return None
    return made if made.to_pylist() == given else None  # a narrower type may have truncated them


def key_filter(
    filters: Iterable[Any], config: TableConfig, schema: pa.Schema
) -> pc.Expression | None:
    """The condition on the record key that follows from equality or IN filters on every column of
    a composite key, so that the index can be used.  None if a column has no such filter, and for
    keys of one column."""
    fields = config.record_key_fields
    if len(fields) < 2 or RECORD_KEY not in schema.names or is_encoding_open(config):
        return None
    by_column: dict[str, pa.Array] = {}
    for one in filters:
        name = one.attribute[0] if type(one).__name__ in ("EqualTo", "In") else None
        if name in fields and name in schema.names and name not in by_column:
            values = one.value if type(one).__name__ == "In" else [one.value]
            made = _values(values, schema.field(name).type)
            if made is not None and _one_text(made):
                by_column[name] = made
    keys = _composed(by_column, config)
    return None if keys is None else pc.field(RECORD_KEY).isin(pc.unique(keys))


def _composed(by_column: dict[str, pa.Array], config: TableConfig) -> pa.ChunkedArray | None:
    """Record keys of all combinations of the values; None if a key column lacks values."""
    try:
        rule = key_rule(config, Options(), with_paths=False)
    except UnsupportedTableError:
        return None
    if not set(rule.key_fields) <= by_column.keys():
        return None
    columns = [by_column[name] for name in rule.key_fields]
    if not 0 < prod(map(len, columns)) <= KEYS_MAX:
        return None
    rows: Sequence[tuple[Any, ...]] = list(product(*(column.to_pylist() for column in columns)))
    arrays = [pa.array([row[i] for row in rows], c.type) for i, c in enumerate(columns)]
    try:
        return record_keys(pa.table(arrays, names=list(rule.key_fields)), rule)
    except UserError:  # an empty key, which no record has
        return None


def _one_text(column: pa.Array) -> bool:
    """Whether every writer formats equal values of the column identically in record keys."""
    kind = column.type
    return bool(pt.is_string(kind) or pt.is_integer(kind))

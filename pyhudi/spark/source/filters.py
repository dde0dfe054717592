"""Filters that Spark hands down, as Arrow's, and the record keys they tell.

Every filter is also left to Spark, so what is made here may let more rows pass, never fewer: a
filter without an exact likeness is none.  Where the two differ, Spark counts: NaN equals itself
and is greater than any number.
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
from pyhudi.records import RECORD_KEY
from pyhudi.table.properties import TableConfig

KEYS_MAX: Final = 10_000
"""More keys than these are not worth asking the index for, beside a scan."""

_NOT_A_VALUE: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)


def as_expression(filters: Iterable[Any], schema: pa.Schema) -> pc.Expression | None:
    """The conjunction of those filters that have a likeness; None if there is none.

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
    if len(one.attribute) != 1 or one.attribute[0] not in schema.names:
        return None
    name = one.attribute[0]
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
    """To Spark 0.0 and -0.0 are equal; Arrow's `is_in` compares bits."""
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
    """Values as the column's type; None where one is null, NaN or no such value."""
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
    return made if made.to_pylist() == given else None  # a narrower type may have cut them short


def both(one: pc.Expression | None, other: pc.Expression | None) -> pc.Expression | None:
    """The conjunction of two filters, of which either may be none."""
    if one is None or other is None:
        return other if one is None else one
    return one & other


def keys_told(
    filters: Iterable[Any], config: TableConfig, schema: pa.Schema
) -> pc.Expression | None:
    """What equality and IN on every column of a key of several say of the record key, so that the
    index can be asked; None where they do not tell, and for keys of one column."""
    fields = config.record_key_fields
    if len(fields) < 2 or RECORD_KEY not in schema.names or is_encoding_open(config):
        return None
    told: dict[str, pa.Array] = {}
    for one in filters:
        name = one.attribute[0] if type(one).__name__ in ("EqualTo", "In") else None
        if name in fields and name in schema.names and name not in told:
            values = one.value if type(one).__name__ == "In" else [one.value]
            made = _values(values, schema.field(name).type)
            if made is not None and _one_text(made):
                told[name] = made
    keys = _composed(told, config)
    return None if keys is None else pc.field(RECORD_KEY).isin(pc.unique(keys))


def _composed(told: dict[str, pa.Array], config: TableConfig) -> pa.ChunkedArray | None:
    """Keys of every combination of the key columns' values."""
    try:
        rule = key_rule(config, Options(), with_paths=False)
    except UnsupportedTableError:
        return None
    if not set(rule.key_fields) <= told.keys():
        return None
    columns = [told[name] for name in rule.key_fields]
    if not 0 < prod(map(len, columns)) <= KEYS_MAX:
        return None
    rows: Sequence[tuple[Any, ...]] = list(product(*(column.to_pylist() for column in columns)))
    arrays = [pa.array([row[i] for row in rows], c.type) for i, c in enumerate(columns)]
    try:
        return record_keys(pa.table(arrays, names=list(rule.key_fields)), rule)
    except UserError:  # an empty key, which no record has
        return None


def _one_text(column: pa.Array) -> bool:
    """Whether equal values of the column have one and the same text in keys, whoever wrote them."""
    kind = column.type
    return bool(pt.is_string(kind) or pt.is_integer(kind))

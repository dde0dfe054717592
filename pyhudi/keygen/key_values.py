"""Conversion of keys passed by a caller to record keys as the table stores them.

```
str, bytes                  a record key as it is stored; one value, not its characters.  Where keys
                            are `id:value`, a text that does not begin with `id:` is the value
number, date, decimal ...   a value of the only key column, formatted as the key generator does
tuple                       a value for each key column, in their order
dict                        a value for each key column, by name
list, set, array, series    several of these
table, data frame           its key columns; or one column of record keys
```
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.arrays import exact_array, exact_cast
from pyhudi.errors import UserError
from pyhudi.formats.column_names import check_names
from pyhudi.formats.nested_fields import has_fields, type_at, values_at
from pyhudi.keygen.generators import KeyRule, record_keys
from pyhudi.records import RECORD_KEY

_FAILURES: Final = (pa.ArrowException, TypeError, ValueError, OverflowError)


def key_texts(
    keys: Any,
    *,
    fields: tuple[str, ...],
    schema: pa.Schema,
    rule: Callable[[], KeyRule],
    may_have_names: bool = False,
) -> pa.Array:
    """Record keys as strings, in input order; nulls remain null.

    fields: the table's key columns.  schema: the table's.  rule: called only where values have to
    be formatted.  may_have_names: whether keys of one column can be `name:value`.
    Raises UserError for keys that do not match the key columns.
    """
    definition = _KeyColumns(fields, schema, rule)
    if _is_table(keys):
        return _of_table(pa.table(keys), definition)
    column = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else _column(keys, definition)
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if pt.is_null(column.type) or _is_text(column.type):
        texts = _stored(column)
        return _with_name(texts, definition) if may_have_names else texts
    if pt.is_struct(column.type):
        return _of_table(pa.Table.from_struct_array(column), definition)
    return _formatted({_only(definition): column}, definition)


def one_key_text(keys: Any, **definition: Any) -> str:
    """`key_texts` for exactly one key.  Raises UserError for none or several."""
    found = key_texts(keys, **definition)
    if len(found) != 1 or not found[0].is_valid:
        raise UserError("exactly one record key is required", keys=len(found) - found.null_count)
    return str(found[0].as_py())


class _KeyColumns:
    """The key columns of the table."""

    def __init__(
        self, fields: tuple[str, ...], schema: pa.Schema, rule: Callable[[], KeyRule]
    ) -> None:
        self.fields = fields
        self.rule = rule
        self._schema = schema

    def type_of(self, name: str) -> pa.DataType | None:
        return type_at(self._schema, name)


def _is_table(keys: Any) -> bool:
    if isinstance(keys, pa.Table | pa.RecordBatch | pa.RecordBatchReader):
        return True
    return hasattr(keys, "__dataframe__")


def _is_text(kind: pa.DataType) -> bool:
    return bool(
        pt.is_string(kind)
        or pt.is_large_string(kind)
        or pt.is_string_view(kind)
        or pt.is_binary(kind)
        or pt.is_large_binary(kind)
        or pt.is_binary_view(kind)
    )


def _stored(column: pa.Array) -> pa.Array:
    """Strings, or their bytes, as record keys."""
    try:
        return column.cast(pa.string())
    except pa.ArrowException as error:
        raise UserError("a record key is not UTF-8 text") from error


def _with_name(texts: pa.Array, definition: _KeyColumns) -> pa.Array:
    """Record keys, with the name of the key column where stored keys have it and a text lacks it:
    no stored key equals such a text, which is the column's value."""
    prefix = f"{definition.fields[0]}:"
    named = pc.starts_with(texts, prefix)
    if pc.all(named, min_count=0).as_py() or not definition.rule().composite:
        return texts
    return pc.if_else(named, texts, pc.binary_join_element_wise(prefix, texts, ""))


def _column(keys: Any, definition: _KeyColumns) -> pa.Array:
    """Keys passed as Python values or as an array of another library."""
    if hasattr(keys, "__arrow_c_stream__") or hasattr(keys, "__arrow_c_array__"):
        return pa.chunked_array(keys)
    if isinstance(keys, np.ndarray) or hasattr(keys, "to_numpy"):
        return _array(keys, None)
    values = _values(keys, definition)
    kinds = {_kind(value) for value in values if value is not None}
    if len(kinds) > 1:
        raise UserError("keys have different types", kinds=", ".join(sorted(kinds)))
    if kinds == {"tuple"}:
        return _of_tuples(values, definition)
    if kinds == {"dict"}:
        names = [name for name in definition.fields if any(name in (v or {}) for v in values)]
        columns = {
            n: _array([(v or {}).get(n) for v in values], definition.type_of(n)) for n in names
        }
        return (
            pa.table(columns).to_struct_array().combine_chunks() if names else _misfit(definition)
        )
    return _array(values, definition.type_of(_only(definition)) if kinds == {"value"} else None)


def _values(keys: Any, definition: _KeyColumns) -> list[Any]:
    """One or several keys as a list."""
    if isinstance(keys, str | bytes) or not isinstance(keys, Iterable):
        return [keys]
    if isinstance(keys, Mapping):
        columns = [v for v in keys.values() if isinstance(v, list | pa.Array | np.ndarray)]
        if not columns:
            return [keys]
        table: list[Any] = pa.table(dict(keys)).to_pylist()
        return table
    values = list(keys)
    may_be_one = isinstance(keys, tuple) and len(values) == len(definition.fields) > 1
    return [keys] if may_be_one and "tuple" not in map(_kind, values) else values


def _kind(value: Any) -> str:
    match value:
        case str() | bytes():
            return "text"
        case tuple() | list():
            return "tuple"
        case Mapping():
            return "dict"
        case _:
            return "value"


def _of_tuples(values: list[Any], definition: _KeyColumns) -> pa.Array:
    width = len(definition.fields)
    blank = (None,) * width
    rows = [blank if value is None else tuple(value) for value in values]
    if any(len(row) != width for row in rows):
        return _misfit(definition)
    columns = {
        name: _array([row[at] for row in rows], definition.type_of(name))
        for at, name in enumerate(definition.fields)
    }
    return pa.table(columns).to_struct_array().combine_chunks()


def _array(values: Any, kind: pa.DataType | None) -> pa.Array:
    """Values converted to the key column's type if possible, else with their own type."""
    if kind is not None:
        try:
            return exact_array(values, kind)
        except _FAILURES:
            pass
    try:
        return pa.array(values)
    except _FAILURES as error:
        raise UserError("invalid record keys", why=str(error)) from error


def _of_table(rows: pa.Table, definition: _KeyColumns) -> pa.Array:
    check_names(rows.schema)
    if RECORD_KEY in rows.column_names:
        return _stored(rows.column(RECORD_KEY).combine_chunks())
    if definition.fields and has_fields(rows.schema, definition.fields):
        columns = {name: rows.column(name) for name in rows.column_names}
        fields = {name: values_at(rows, name) for name in definition.fields}
        return _formatted({**columns, **fields}, definition)
    if rows.num_columns == 1 and len(definition.fields) == 1:
        return key_texts(
            rows.column(0), fields=definition.fields, schema=pa.schema([]), rule=definition.rule
        )
    return _misfit(definition)


def _formatted(columns: Mapping[str, Any], definition: _KeyColumns) -> pa.Array:
    """Record keys from values of the key columns; a key whose values are all null is null."""
    fitted = {
        n: _fitted(c, n, definition) if n in definition.fields else c for n, c in columns.items()
    }
    rows = pa.table(fitted)
    known = np.zeros(rows.num_rows, np.bool_)
    for name in definition.fields:
        known |= rows.column(name).is_valid().to_numpy()
    keys = record_keys(rows.filter(pa.array(known)), definition.rule())
    at = np.cumsum(known) - 1
    return keys.take(pa.array(at, mask=~known)).combine_chunks()


def _fitted(column: Any, name: str, definition: _KeyColumns) -> Any:
    """A column cast to the type of the table's column, which determines the key's text."""
    kind = definition.type_of(name)
    if isinstance(column, pa.Array):
        column = pa.chunked_array([column])
    if pt.is_dictionary(column.type):
        column = column.cast(column.type.value_type)
    if kind is None or column.type == kind:
        return column
    try:
        fitted = exact_cast(column, kind)
        if not _may_be_cut(column.type, kind) or fitted.cast(column.type).equals(column):
            return fitted
    except pa.ArrowException:
        pass
    try:
        return pa.chunked_array([exact_array(column.to_pylist(), kind)])
    except _FAILURES as error:
        raise UserError(
            "keys cannot be converted to the type of the key column",
            column=name,
            type=str(column.type),
            expected=str(kind),
        ) from error


def _may_be_cut(given: pa.DataType, kind: pa.DataType) -> bool:
    """Whether Arrow's cast may give another value: the day of a time, a rounded decimal."""
    return bool(
        (pt.is_timestamp(given) and pt.is_date(kind))
        or (pt.is_floating(given) and not pt.is_floating(kind))
    )


def _only(definition: _KeyColumns) -> str:
    """The key column.  Raises UserError where there are several."""
    if len(definition.fields) != 1:
        _misfit(definition)
    return definition.fields[0]


def _misfit(definition: _KeyColumns) -> Any:
    raise UserError(
        "keys must have a value for each key column",
        key_columns=", ".join(definition.fields),
        hint="pass tuples in this order, dicts, a table of these columns, or record keys as text",
    )

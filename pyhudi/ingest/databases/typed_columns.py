"""Columns of databases with the types of a table."""

from __future__ import annotations

import pyarrow as pa

from pyhudi.arrays import exact_cast
from pyhudi.errors import SchemaError
from pyhudi.formats.schema_conform import widens


def table_field(field: pa.Field, known: pa.Schema, *, is_typed: bool = True) -> pa.Field:
    """The field with the type of the table's column, if its values do not fit that by themselves:
    databases have fewer types, and SQLite has no dates.  known: the columns of the table.
    is_typed: whether the type is that of a column; later rows may need more than one that is
    inferred from rows."""
    position = known.get_field_index(field.name)
    if position < 0 or (is_typed and widens(field.type, known.field(position).type)):
        return field.with_nullable(True)
    return known.field(position).with_nullable(True)


def cast_batch(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """The columns, by position, with the types of `schema`.  Raises SchemaError for values that a
    type cannot represent."""
    columns = []
    for column, field in zip(batch.columns, schema, strict=True):
        try:
            columns.append(column if column.type == field.type else exact_cast(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                "values of the database do not fit the table's column",
                column=field.name,
                found=str(column.type),
                expected=str(field.type),
                reason=str(error),
                hint="cast the column in the query, or create the table with its type",
            ) from error
    return pa.RecordBatch.from_arrays(columns, schema=schema)

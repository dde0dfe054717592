"""Columns, and fields of structs by their path: `s.k` is the field k of the column s.

Names of columns have no dots, so a path is never ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import SchemaError


def root_of(name: str) -> str:
    """The column that contains a field."""
    return name.partition(".")[0]


def type_at(schema: pa.Schema, name: str) -> pa.DataType | None:
    """The type of a column or field; None if there is none."""
    if name in schema.names:
        return schema.field(name).type
    root, *inner = name.split(".")
    kind = schema.field(root).type if root in schema.names else None
    for part in inner:
        at = kind.get_field_index(part) if kind is not None and pt.is_struct(kind) else -1
        kind = None if at < 0 or kind is None else kind.field(at).type
    return kind


def has_fields(schema: pa.Schema, names: Iterable[str]) -> bool:
    """Whether the schema has each of these columns and fields."""
    return all(type_at(schema, name) is not None for name in names)


def values_at(rows: pa.Table, name: str) -> pa.ChunkedArray:
    """The values of a column or field; null where a struct is null.  Raises SchemaError."""
    if name in rows.column_names:
        return rows.column(name)
    if type_at(rows.schema, name) is None:
        raise SchemaError(
            "the rows lack a key or partition column",
            column=name,
            hint=f"they have {', '.join(rows.column_names)}",
        )
    root, *inner = name.split(".")
    values = rows.column(root)
    for part in inner:
        values = pc.struct_field(values, part)
    return values

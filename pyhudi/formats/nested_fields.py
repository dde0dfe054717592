"""Columns, and fields of structs by their path: `s.k` is the field k of the column s.

Names of columns have no dots, so a path is never ambiguous.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import SchemaError
from pyhudi.formats.schema_conform import is_any_list


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


def check_same_fields(
    given: pa.DataType, known: pa.DataType, name: str, *, fills_missing: bool = False
) -> None:
    """Raise SchemaError where values of type `given` have other fields in structs than the column
    `name` of type `known`: a conversion would write null for the one and drop the other.

    Values of the null type, as of an empty list, lack none.  fills_missing: whether fields that the
    values lack may be null.
    """
    ours, theirs = set(_inner_fields(known, name)), set(_inner_fields(given, name))
    nulls = tuple(f"{path}." for path in _null_parts(given, name))
    missing = set() if fills_missing else {p for p in ours - theirs if not p.startswith(nulls)}
    if missing or theirs - ours:
        raise SchemaError(
            "the values of a column have other fields than the table",
            column=name,
            missing=", ".join(sorted(missing)) or None,
            unknown=", ".join(sorted(theirs - ours)) or None,
            hint="give structs the fields of the table, or add columns to it; nothing was written",
        )


def _inner_fields(kind: pa.DataType, path: str) -> Iterator[str]:
    """Paths of the fields of structs in a type, at any depth."""
    for at, part in _parts(kind, path):
        if pt.is_struct(part):
            yield from (f"{at}.{field.name}" for field in part)


def _null_parts(kind: pa.DataType, path: str) -> Iterator[str]:
    """Paths of the null types in a type."""
    return (at for at, part in _parts(kind, path) if pt.is_null(part))


def _parts(kind: pa.DataType, path: str) -> Iterator[tuple[str, pa.DataType]]:
    """A type and the types in it, by path."""
    yield path, kind
    if pt.is_struct(kind):
        for field in kind:
            yield from _parts(field.type, f"{path}.{field.name}")
    elif pt.is_map(kind):
        yield from _parts(kind.item_type, f"{path}.value")
    elif is_any_list(kind):
        yield from _parts(kind.value_type, f"{path}.element")

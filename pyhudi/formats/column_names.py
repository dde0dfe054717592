"""Checks of column names: duplicates, and names that differ only in case."""

from __future__ import annotations

from collections.abc import Iterator

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import SchemaError
from pyhudi.formats.schema_conform import is_any_list
from pyhudi.records import META_COLUMNS


def check_names(schema: pa.Schema, *, folded: bool = False) -> None:
    """Raise SchemaError if a column or a field of a struct occurs twice.

    folded: also if names differ only in case, which Spark and Hive treat as equal.
    """
    repeated = list(_repeated(schema, "", folded=folded))
    if folded:
        meta = {name.lower() for name in META_COLUMNS}
        repeated += [
            name for name in schema.names if name not in META_COLUMNS and name.lower() in meta
        ]
    if repeated:
        raise SchemaError(
            "column names differ only in case" if folded else "duplicate column name",
            columns=", ".join(dict.fromkeys(repeated)),
            hint="rename or drop all but one; nothing was written",
        )


def _repeated(fields: pa.Schema | pa.StructType, path: str, *, folded: bool) -> Iterator[str]:
    """Dotted paths of fields with the name of an earlier field."""
    seen: set[str] = set()
    for field_ in fields:
        name = field_.name.lower() if folded else field_.name
        if name in seen:
            yield f"{path}{field_.name}"
        seen.add(name)
        yield from _repeated_inside(field_.type, f"{path}{field_.name}", folded=folded)


def _repeated_inside(kind: pa.DataType, path: str, *, folded: bool) -> Iterator[str]:
    if pt.is_struct(kind):
        yield from _repeated(kind, f"{path}.", folded=folded)
    elif is_any_list(kind):
        yield from _repeated_inside(kind.value_type, f"{path}.element", folded=folded)
    elif pt.is_map(kind):
        yield from _repeated_inside(kind.item_type, f"{path}.value", folded=folded)

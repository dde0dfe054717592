"""What users pass to the door, as what the floors below take."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import OptionError, UserError
from pyhudi.options import IndexKind
from pyhudi.records import RECORD_KEY
from pyhudi.table.config import TableConfig, TableType
from pyhudi.write.keys import key_rule, record_keys

_TYPES = {"cow": TableType.COPY_ON_WRITE, "mor": TableType.MERGE_ON_READ} | {
    kind.value.lower(): kind for kind in TableType
}


def arrow_schema(schema: Any) -> pa.Schema:
    """A pyarrow schema from one, or from anything with `__arrow_c_schema__`."""
    if isinstance(schema, pa.Schema):
        return schema
    if hasattr(schema, "__arrow_c_schema__"):
        return pa.schema(schema)
    raise UserError("not a schema", type=type(schema).__name__, hint="pass a pyarrow.Schema")


def arrow_table(rows: Any) -> pa.Table:
    """Rows as a table; anything with `__arrow_c_stream__` or `__arrow_c_array__` will do."""
    if isinstance(rows, pa.Table):
        return rows
    if isinstance(rows, pa.RecordBatchReader):
        return rows.read_all()
    if isinstance(rows, pa.RecordBatch):
        return pa.Table.from_batches([rows])
    if hasattr(rows, "__arrow_c_stream__") or hasattr(rows, "__arrow_c_array__"):
        return pa.table(rows)
    raise UserError(
        "rows must be Arrow data",
        type=type(rows).__name__,
        hint="pass a pyarrow table or anything with __arrow_c_stream__ (polars, pandas, duckdb …)",
    )


def names_of(columns: str | Sequence[str] | None) -> tuple[str, ...]:
    """Column names given as one string, several, or none."""
    if columns is None:
        return ()
    return (columns,) if isinstance(columns, str) else tuple(columns)


def table_type_of(text: str) -> TableType:
    kind = _TYPES.get(text.lower())
    if kind is None:
        raise UserError("unknown table type", table_type=text, hint="use 'cow' or 'mor'")
    return kind


def index_of(text: str) -> IndexKind:
    if text != IndexKind.RECORD.value:
        raise OptionError(
            "this version writes tables with the record index only", index=text,
            hint="use index='record'",
        )  # fmt: skip
    return IndexKind.RECORD


def table_name(path: str) -> str:
    """The name of a table that was given none: the last part of its path."""
    return path.rstrip("/").rsplit("/", 1)[-1] or "table"


class _Readable(Protocol):
    @property
    def config(self) -> TableConfig: ...

    def scan(self, columns: Sequence[str], where: pc.Expression) -> Any: ...


def keys_to_delete(
    table: _Readable, rows: Any, keys: Any, where: pc.Expression | None
) -> pa.ChunkedArray:
    """Record keys named in one of the three ways; exactly one must be used."""
    if sum(given is not None for given in (rows, keys, where)) != 1:
        raise UserError("name the records in one way", hint="pass rows, keys=, or where=")
    if where is not None:
        found: pa.ChunkedArray = table.scan([RECORD_KEY], where).to_arrow().column(RECORD_KEY)
        return found
    if rows is not None:
        return _text(record_keys(arrow_table(rows), key_rule(table.config)))
    return _text(keys)


def _text(keys: Any) -> pa.ChunkedArray:
    if isinstance(keys, pa.Table):
        raise UserError("keys must be one column", hint="pass rows without keys= instead")
    array = keys if isinstance(keys, pa.Array | pa.ChunkedArray) else pa.array(keys)
    if pa.types.is_null(array.type):
        array = array.cast(pa.string())
    if not pa.types.is_string(array.type):
        array = array.cast(pa.string())
    return array if isinstance(array, pa.ChunkedArray) else pa.chunked_array([array])

"""Calls that take the path of a table: `pyhudi.upsert` and `pyhudi.read`."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from typing import Any

from pyhudi.api.input_conversion import (
    IndexName,
    ScanModeName,
    SchemaModeName,
    TableTypeName,
    stream_of,
)
from pyhudi.api.other_arguments import leads_on
from pyhudi.api.table import Table, create_table, open_table
from pyhudi.errors import TableNotFoundError
from pyhudi.keygen.new_table_keys import PartitionBy
from pyhudi.read.scan import Scan
from pyhudi.read.sql.sql_filter import Filter
from pyhudi.read.time_travel import PointInTime
from pyhudi.write.write_report import WriteReport


@leads_on
def upsert(
    path_or_table: str | os.PathLike[str] | Table,
    rows: Any,
    *,
    record_key: str | Sequence[str] | None = None,
    partition_by: PartitionBy = (),
    ordering: str | Sequence[str] | None = None,
    table_type: TableTypeName = "cow",
    index: IndexName = "record",
    name: str | None = None,
    version: int | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
    dry_run: bool = False,
    schema_mode: SchemaModeName | None = None,
) -> WriteReport:
    """Upsert rows into the table at a path; create the table if it does not exist.

    rows: any object with `__arrow_c_stream__`: pyarrow, polars, pandas, DuckDB.  The arguments
    between rows and options describe the new table; they do not change an existing one.
    Raises TableNotFoundError for a path without a table if no record key is given; else as
    `create_table` and `Table.upsert` do.

    >>> rows = pa.table({"id": ["a"], "fare": [1.5]})
    >>> pyhudi.upsert("memory://rides", rows, record_key="id").inserted
    1
    """
    if isinstance(path_or_table, Table):
        return path_or_table.upsert(rows, dry_run=dry_run, schema_mode=schema_mode)
    path = path_or_table
    try:
        table = open_table(path, options=options, storage_options=storage_options)
    except TableNotFoundError as absent:
        if record_key is None or dry_run:
            absent.hint = (
                "upsert(..., record_key=...) creates it" if record_key is None else absent.hint
            )
            raise
        rows = _with_schema(rows)
        table = create_table(
            path,
            rows,
            record_key=record_key,
            partition_by=partition_by,
            ordering=ordering,
            table_type=table_type,
            index=index,
            name=name,
            version=version,
            options=options,
            storage_options=storage_options,
        )
    return table.upsert(rows, dry_run=dry_run, schema_mode=schema_mode)


def _with_schema(rows: Any) -> Any:
    """Rows whose schema can be taken without reading a stream's rows."""
    is_frame = hasattr(rows, "__dataframe__") or hasattr(rows, "__arrow_c_schema__")
    if is_frame or not hasattr(rows, "__arrow_c_stream__"):
        return rows
    return stream_of(rows)


@leads_on
def read(
    path: str | os.PathLike[str],
    columns: str | Sequence[str] | None = None,
    where: Filter | None = None,
    *,
    as_of: PointInTime | None = None,
    mode: ScanModeName = "snapshot",
    with_meta: bool = False,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Scan:
    """A snapshot of the table at a path, read when its rows are asked for: `to_arrow()`,
    `to_pandas()`, `to_polars()`, `count()`.  Arguments as for `Table.scan`, but `with_meta`.

    >>> pyhudi.read(trips.path, where="fare > 15").to_arrow().to_pylist()
    [{'id': 'b', 'fare': 20.0}]
    """
    table = open_table(path, options=options, storage_options=storage_options)
    return table.scan(columns, where, as_of=as_of, mode=mode, with_meta=with_meta)

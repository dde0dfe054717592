"""Writes of SQL: of rows that a query finds in the snapshot on which the commit is planned, of
partitions, and of columns.

A query that reads a table and writes to it must see the rows that the commit replaces: `find` is
called with the table as of that snapshot, once for each attempt of the write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.read.sql.sql_filter import Filter
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import PARTITION_PATH, RECORD_KEY, without_meta
from pyhudi.write.input.batch import NoRows, Rows, StreamRows
from pyhudi.write.merge_clauses import (
    Clause,
    ConditionalMerge,
    FoundRows,
    compiled,
    compiled_on,
    source_schema,
)
from pyhudi.write.schema_changes import SchemaChange
from pyhudi.write.write_context import Operation
from pyhudi.write.write_report import WriteReport

Find: TypeAlias = Callable[[Table], Any]
"""A query of the table as of a snapshot; returns rows as `Table.upsert` takes them."""

PLACE: Final = (RECORD_KEY, PARTITION_PATH)
"""The columns of rows to delete."""


def upsert_found(table: Table, find: Find, *, dry_run: bool = False) -> WriteReport:
    """Upsert the rows that a query finds, which have the table's columns."""
    none = pa.RecordBatchReader.from_batches(without_meta(table.schema), ())
    return table._write(
        Operation.UPSERT,
        StreamRows(none),
        dry_run=dry_run,
        finds=lambda state: table._incoming(find(table._at(state))),
    )


def delete_found(table: Table, find: Find, *, dry_run: bool = False) -> WriteReport:
    """Delete the records that a query finds: rows with the columns of PLACE."""

    def finds(state: TableState) -> Rows:
        return table._places_to_delete(find(table._at(state)))

    return table._write(Operation.DELETE, NoRows(), dry_run=dry_run, finds=finds)


def overwrite_partitions(
    table: Table, rows: Any, partitions: tuple[str, ...], *, dry_run: bool = False
) -> WriteReport:
    """Replace the rows of partitions, given by their paths, by rows that all belong to them; none
    empties them."""
    incoming = table._incoming(rows)
    return table._write(
        Operation.INSERT_OVERWRITE, incoming, dry_run=dry_run, partitions=partitions
    )


def alter_columns(table: Table, changes: tuple[SchemaChange, ...]) -> WriteReport:
    """Change columns by a commit without rows; the errors are those of `schema_changes.altered`."""
    return table._write(Operation.ALTER_SCHEMA, NoRows(), dry_run=False, changes=changes)


def merge_found(
    table: Table,
    schema: pa.Schema,
    find: Find,
    clauses: tuple[Clause, ...],
    on: Filter | None = None,
    *,
    dry_run: bool = False,
) -> WriteReport:
    """Merge the rows that a query finds, which have the columns of schema, by clauses and a
    condition of matches that `check_merge` has accepted."""
    stored = without_meta(table.schema)
    source = FoundRows(schema, lambda state: table._incoming(find(table._at(state))))
    return table._write(
        Operation.UPSERT,
        StreamRows(pa.RecordBatchReader.from_batches(stored, ())),
        dry_run=dry_run,
        merge=ConditionalMerge(source, clauses, on),
    )


def check_merge(
    table: Table,
    source: pa.Schema,
    clauses: tuple[Clause, ...],
    stored: pa.Schema,
    on: Filter | None = None,
) -> None:
    """Raise UserError for clauses that never apply, and for expressions that cannot be converted;
    SchemaError for columns of the source whose structs have other fields than the table's."""
    fills = table._options.write.null_for_missing
    given = source_schema(source, stored, table.config, fills_missing=fills)
    compiled(clauses, given, stored, table.config)
    compiled_on(on, given, stored)

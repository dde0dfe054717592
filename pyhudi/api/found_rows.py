"""Writes of rows that a query finds in the snapshot on which the commit is planned.

A query that reads a table and writes to it must see the rows that the commit replaces: `find` is
called with the table as of that snapshot, once for each attempt of the write.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeAlias

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import PARTITION_PATH, RECORD_KEY, without_meta
from pyhudi.write.input.batch import NoRows, Rows, StreamRows
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

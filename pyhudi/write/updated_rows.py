"""Rows that an update writes: those that a filter selects, with new values in some columns."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UserError
from pyhudi.formats.nested_fields import root_of
from pyhudi.near_names import columns_hint
from pyhudi.read.scan_plan import ScanRequest, plan_scan
from pyhudi.read.scan_tasks import ReadTask, read_task
from pyhudi.read.sql.sql_filter import Filter, as_value
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import without_meta
from pyhudi.table.properties import TableConfig
from pyhudi.write.input.batch import StreamRows


def check_assignments(values: Mapping[str, Any], schema: pa.Schema, config: TableConfig) -> None:
    """Raise UserError unless the values are for columns that an update may change.

    schema: the table's user columns.
    """
    if not isinstance(values, Mapping):
        raise UserError(
            "set must name columns and their new values",
            given=repr(values)[:80],
            hint="such as update({'fare': 'fare * 2'}, where=\"city = 'sf'\")",
        )
    if not values:
        raise UserError("no columns to update", hint="update({'fare': 'fare * 2'})")
    unknown = [str(name) for name in values if name not in schema.names]
    if unknown:
        raise UserError(
            "the table has no such column",
            columns=", ".join(unknown),
            hint=columns_hint(unknown, schema.names),
        )
    fixed = {root_of(name) for name in (*config.record_key_fields, *config.partition_fields)}
    changed = sorted(fixed & values.keys())
    if changed:
        raise UserError(
            "an update cannot change record keys or partitions",
            columns=", ".join(changed),
            hint="delete the rows, then upsert them with their new keys",
        )


def updated_rows(
    state: TableState, values: Mapping[str, Any], where: Filter | None, *, data_skipping: bool
) -> StreamRows:
    """The rows of the latest snapshot for which `where` is true, with new values.

    Memory: a row group, or a whole file slice if it has logs.  Raises UserError for values that
    do not fit the columns, also while the rows are read.
    """
    schema = without_meta(state.schema())
    request = ScanRequest(tuple(schema.names), where, data_skipping=data_skipping)
    tasks = plan_scan(state, request).tasks
    columns = [
        as_value(values[field.name], schema, field.type)
        if field.name in values
        else pc.field(field.name)
        for field in schema
    ]
    batches = _updated(tasks, dict(zip(schema.names, columns, strict=True)), schema)
    return StreamRows(pa.RecordBatchReader.from_batches(schema, batches))


def _updated(
    tasks: Sequence[ReadTask], columns: Mapping[str, pc.Expression], schema: pa.Schema
) -> Iterator[pa.RecordBatch]:
    for task in tasks:
        for part in task.split():
            yield from projected(read_task(part), columns).cast(schema).to_batches()


def projected(rows: pa.Table, columns: Mapping[str, pc.Expression]) -> pa.Table:
    """The values of expressions, by column.  Raises UserError for a value that does not fit."""
    from pyarrow import acero  # slow to import

    source = acero.Declaration("table_source", acero.TableSourceNodeOptions(rows))
    options = acero.ProjectNodeOptions(list(columns.values()), list(columns))
    plan = acero.Declaration.from_sequence([source, acero.Declaration("project", options)])
    try:
        return plan.to_table(use_threads=False)
    except pa.ArrowException as error:
        raise UserError("the update has a value that does not fit", cause=str(error)) from None

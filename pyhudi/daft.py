"""Tables in Daft: `read` is a data frame of a snapshot, one task for each file slice.

pyhudi reads all rows, with the columns that the query needs.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping
from dataclasses import replace
from functools import cache
from typing import Any

import pyarrow as pa

from pyhudi.api.table import Table, open_table
from pyhudi.read.scan import Scan, task_batches
from pyhudi.read.scan_plan import ReadTask
from pyhudi.read.sql.sql_filter import Filter
from pyhudi.read.time_travel import PointInTime


def read(
    table: Table | str | os.PathLike[str],
    *,
    where: Filter | None = None,
    as_of: PointInTime | None = None,
    mode: str = "snapshot",
    with_meta: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """A `daft.DataFrame` of a table's snapshot, which is chosen now.

    table: a table, its path or URL.  where, as_of and mode: as for `Table.scan`; Daft applies the
    filters of the query itself, so `where` is what skips partitions and files.  Tasks can run on
    other machines that reach the table.  Raises as `open_table` and `Table.scan` do.
    """
    opened = table if isinstance(table, Table) else open_table(
        table, storage_options=storage_options
    )  # fmt: skip
    scan = opened.scan(where=where, as_of=as_of, mode=mode, with_meta=with_meta)
    return _classes()[0](opened.config.name, scan).read()


@cache
def _classes() -> tuple[type, type]:
    """The classes of the source and of its tasks, which derive from classes of Daft."""
    from daft import Schema
    from daft.io.source import DataSource, DataSourceTask
    from daft.recordbatch import RecordBatch

    class SliceTask(DataSourceTask):  # type: ignore[misc]
        def __init__(self, task: ReadTask, schema: pa.Schema) -> None:
            self._task, self._columns = task, schema

        @property
        def schema(self) -> Any:
            return Schema.from_pyarrow_schema(self._columns)

        async def read(self) -> AsyncIterator[Any]:
            for batch in task_batches(self._columns, (self._task,)):
                yield RecordBatch.from_arrow_record_batches([batch], self._columns)

    class SnapshotSource(DataSource):  # type: ignore[misc]
        def __init__(self, name: str, scan: Scan) -> None:
            self._name, self._scan = name, scan

        @property
        def name(self) -> str:
            return self._name

        @property
        def schema(self) -> Any:
            return Schema.from_pyarrow_schema(self._scan.schema)

        async def get_tasks(self, pushdowns: Any) -> AsyncIterator[Any]:
            needed = {*(pushdowns.columns or ()), *(pushdowns.filter_required_column_names() or ())}
            names = [n for n in self._scan.schema.names if n in needed] if pushdowns.columns else []
            schema = pa.schema(map(self._scan.schema.field, names)) if names else self._scan.schema
            for task in self._scan.tasks:
                spec = replace(task.spec, columns=tuple(schema.names))
                yield SliceTask(replace(task, spec=spec), schema)

    return SnapshotSource, SliceTask

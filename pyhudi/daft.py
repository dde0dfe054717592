"""Tables in Daft: `read` is a data frame of a snapshot.

Daft's Parquet reader reads base files on the local disk that no log changes.  pyhudi reads the
other file slices, one task each, with the columns that the query needs.
"""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import Any, Final

import pyarrow as pa

from pyhudi.api.input_conversion import ScanModeName
from pyhudi.api.table import Table, open_table
from pyhudi.engines.snapshot_parts import snapshot_parts
from pyhudi.libraries import load_library
from pyhudi.read.scan import task_batches
from pyhudi.read.scan_tasks import ReadTask
from pyhudi.read.sql.sql_filter import Filter
from pyhudi.read.time_travel import PointInTime

_FILES_MAX: Final = 2000
"""Daft opens all files of a frame.  Of tables with more files pyhudi reads the rows."""
_GLOB: Final = frozenset("*?[]{}")


def read(
    table: Table | str | os.PathLike[str],
    *,
    where: Filter | None = None,
    as_of: PointInTime | None = None,
    mode: ScanModeName = "snapshot",
    with_meta: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """A `daft.DataFrame` of a table's snapshot, which is chosen now.

    table: a table, its path or URL.  where, as_of and mode: as for `Table.scan`; Daft applies the
    filters of the query itself, so `where` is what skips partitions and slices that pyhudi reads;
    with it pyhudi reads all rows.  Tasks can run on other machines that reach the table.  Raises
    as `open_table` and `Table.scan` do.
    """
    opened = (
        table if isinstance(table, Table) else open_table(table, storage_options=storage_options)
    )
    scan = opened.scan(where=where, as_of=as_of, mode=mode, with_meta=with_meta).pinned()
    parts = snapshot_parts(scan, native=len(scan.tasks) <= _FILES_MAX, cut=False)
    whole = _files(parts.whole, scan.schema) if parts.whole else None
    if whole is None:
        return _classes()[0](opened.config.name, scan.schema, scan.tasks).read()
    if parts.rest is None:
        return whole
    rest = _classes()[0](opened.config.name, scan.schema, parts.rest.tasks)
    return whole.concat(rest.read())


def _files(paths: Sequence[str], schema: pa.Schema) -> Any:
    """The rows of base files; None if Daft's reader gives other types or other files."""
    daft = load_library("daft", extra="daft", needed_for="pyhudi.daft.read()")
    if any(_GLOB.intersection(path) for path in paths):
        return None
    frame = daft.read_parquet(list(paths)).select(*schema.names)
    return frame if frame.schema() == daft.Schema.from_pyarrow_schema(schema) else None


@cache
def _classes() -> tuple[type, type]:
    """The classes of the source and of its tasks, which derive from classes of Daft."""
    load_library("daft", extra="daft", needed_for="pyhudi.daft.read()")
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
        def __init__(self, name: str, columns: pa.Schema, tasks: Sequence[ReadTask]) -> None:
            self._name, self._columns, self._tasks = name, columns, tasks

        @property
        def name(self) -> str:
            return self._name

        @property
        def schema(self) -> Any:
            return Schema.from_pyarrow_schema(self._columns)

        async def get_tasks(self, pushdowns: Any) -> AsyncIterator[Any]:
            needed = {*(pushdowns.columns or ()), *(pushdowns.filter_required_column_names() or ())}
            names = [n for n in self._columns.names if n in needed] if pushdowns.columns else []
            schema = pa.schema(map(self._columns.field, names)) if names else self._columns
            for task in self._tasks:
                spec = replace(task.spec, columns=tuple(schema.names))
                yield SliceTask(replace(task, spec=spec), schema)

    return SnapshotSource, SliceTask

"""Tables in DataFusion: `register` makes a table of a snapshot.

DataFusion's Parquet reader reads base files on the local disk, less the rows that the logs replace;
pyhudi reads the other rows, a partition for each file slice, with the columns and filters of the
query.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.api.input_conversion import ScanModeName
from pyhudi.api.table import Table, open_table
from pyhudi.engines.snapshot_parts import (
    CutFile,
    RestRows,
    SnapshotParts,
    is_native,
    rest_of,
    snapshot_parts,
)
from pyhudi.read.arrow_dataset import DatasetOverScans
from pyhudi.read.filters import as_predicate
from pyhudi.read.scan import Scan, task_batches
from pyhudi.read.scan_tasks import ReadTask
from pyhudi.read.skipping.float_order import of_engine
from pyhudi.read.time_travel import PointInTime

if TYPE_CHECKING:
    from datafusion import SessionContext

_ROW: Final = "__pyhudi_row"
FILES_OF_A_VIEW_MAX: Final = 200
"""DataFusion plans each file as one input of a union.  Of more files pyhudi reads the rows."""


def register(
    context: SessionContext,
    table: Table | str | os.PathLike[str],
    name: str | None = None,
    *,
    as_of: PointInTime | None = None,
    mode: ScanModeName = "snapshot",
    with_meta: bool = False,
    reader: str = "auto",
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """Register a table's snapshot, and return the name.

    table: a table, its path or URL.  name: of the registered table; None: the table's name.  as_of
    and mode: as for `Table.scan`.  reader: "auto", or "arrow" to have pyhudi read all rows, so that
    files are skipped by the table's indexes and statistics.  Queries see the snapshot of the call.
    Raises as `open_table` and `Table.scan` do, and UserError for another reader.
    """
    by_engine = is_native(reader)
    opened = (
        table if isinstance(table, Table) else open_table(table, storage_options=storage_options)
    )
    scan = opened.scan(as_of=as_of, mode=mode, with_meta=with_meta).pinned()
    view = opened.config.name if name is None else name
    parts = _parts(context, scan) if by_engine else snapshot_parts(scan, native=False)
    if context.table_exist(view):
        context.deregister_table(view)
    if not parts.whole and not parts.cut:
        context.register_dataset(view, _dataset_of(parts.rest or rest_of(scan)))
        return view
    frames = [_file(context, path) for path in parts.whole]
    numbers = pa.array(np.arange(max((file.rows for file in parts.cut), default=0)))
    frames += [_remaining(context, file, numbers) for file in parts.cut]
    if parts.rest is not None:
        rest = f"__pyhudi_rest_{view}"
        if context.table_exist(rest):
            context.deregister_table(rest)
        context.register_dataset(rest, _dataset_of(parts.rest))
        frames.append(context.table(_quoted(rest)))
    first, *others = [frame.select(*map(_quoted, scan.schema.names)) for frame in frames]
    for other in others:
        first = first.union(other)
    context.register_view(view, first)
    return view


def _parts(context: SessionContext, scan: Scan) -> SnapshotParts:
    """The parts that DataFusion's reader and pyhudi read."""
    parts = snapshot_parts(scan, cut=_numbers_rows())
    paths = [*parts.whole, *(file.path for file in parts.cut)]
    if not paths:
        return parts
    if (parts.cut or parts.rest) and any(pt.is_nested(field.type) for field in scan.schema):
        # DataFusion 55 moves uses of fields below a union, and confuses the columns of inputs that
        # are not alike.
        return snapshot_parts(scan, native=False)
    stored = _file(context, paths[0]).schema()
    same = all(
        stored.get_field_index(field.name) >= 0
        and _plain(stored.field(field.name).type) == _plain(field.type)
        for field in scan.schema
    )
    if same and len(paths) <= FILES_OF_A_VIEW_MAX:
        return parts
    return snapshot_parts(scan, native=False)


@cache
def _numbers_rows() -> bool:
    """Whether DataFusion's reader numbers the rows of a file, as newer versions do."""
    from datafusion import SessionConfig, SessionContext

    context = SessionContext(SessionConfig().with_information_schema(True))
    query = "select 1 from information_schema.routines where routine_name = 'file_row_index'"
    return bool(context.sql(query).count())


def _remaining(context: SessionContext, file: CutFile, every: pa.Array) -> Any:
    """The rows of a base file that the logs do not replace.  every: numbers from 0, ascending."""
    from datafusion import udf

    remaining = pa.array(np.logical_not(file.mask))

    def is_remaining(numbers: pa.Array) -> pa.Array:
        first = numbers[0].as_py() if len(numbers) else 0
        if numbers.equals(every.slice(first, len(numbers))):
            return remaining.slice(first, len(numbers))
        return remaining.take(numbers)

    stored = _file(context, file.path)
    numbered = stored.select(
        *(_quoted(field.name) for field in stored.schema()),
        stored.parse_sql_expr("file_row_index()").alias(_ROW),
    )
    chosen = udf(is_remaining, [pa.int64()], pa.bool_(), "immutable", f"pyhudi_{id(remaining)}")
    # The limit keeps conditions of a query above it: with a calculation between the file and the
    # numbers of its rows, which some conditions add, DataFusion cannot number them.
    return numbered.limit(file.rows).filter(chosen(numbered.parse_sql_expr(_ROW)))


def _file(context: SessionContext, path: str) -> Any:
    return context.read_parquet(path, file_extension=os.path.splitext(path)[1])


def _plain(kind: pa.DataType) -> pa.DataType:
    """The type without the layout of texts and bytes, which DataFusion chooses."""
    if kind in (pa.large_string(), pa.string_view()):
        return pa.string()
    return pa.binary() if kind in (pa.large_binary(), pa.binary_view()) else kind


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


class _FragmentedRows(DatasetOverScans):
    """Rows as a dataset with a fragment for each task; DataFusion reads a partition from each."""

    def __init__(self, rest: RestRows) -> None:
        super().__init__(rest.narrowed)
        self._rest = rest

    def get_fragments(self, filter: pc.Expression | None = None) -> Iterator[Any]:
        where = None
        if filter is not None:  # a scalar for a condition that is constant
            given = pc.scalar(filter) if isinstance(filter, pa.Scalar) else filter
            where = of_engine(as_predicate(given, self._rest.schema), self._rest.schema)
        tasks = self._rest.narrowed(None, where).tasks
        return iter([_TaskFragment(self._rest.schema, task) for task in tasks])


@cache
def _dataset_class() -> Any:
    import pyarrow.dataset as ds  # slow to import

    return type("FragmentedDataset", (_FragmentedRows, ds.Dataset), {})


def _dataset_of(rest: RestRows) -> Any:
    return _dataset_class()(rest)


class _TaskFragment:
    """One task as a fragment of a dataset.  The task has the filter of the query already:
    DataFusion passes the same filter to `get_fragments` and to `scanner`."""

    def __init__(self, schema: pa.Schema, task: ReadTask) -> None:
        self._schema, self._task = schema, task

    @property
    def physical_schema(self) -> pa.Schema:
        return self._schema

    @property
    def partition_expression(self) -> pc.Expression:
        return pc.scalar(True)

    def scanner(
        self, schema: pa.Schema, columns: Any = None, filter: Any = None, **options: Any
    ) -> _TaskRows:
        names = list(schema.names if columns is None else columns)
        spec = replace(self._task.spec, columns=tuple(names or schema.names[:1]))
        return _TaskRows(replace(self._task, spec=spec), names)


class _TaskRows:
    """The part of the interface of `pyarrow.dataset.Scanner` that DataFusion uses; a scanner of
    pyarrow reads from another thread, which costs more than the rows of small logs."""

    def __init__(self, task: ReadTask, names: list[str]) -> None:
        self._task, self._names = task, names
        self.projected_schema = pa.schema(map(task.spec.table.field, names))

    def to_batches(self) -> Iterator[pa.RecordBatch]:
        for batch in task_batches(self._task.spec.schema, (self._task,)):
            yield batch.select(self._names)

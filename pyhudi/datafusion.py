"""Tables in DataFusion: `register` makes a table of a snapshot.

DataFusion's Parquet reader reads base files on the local disk that no log changes; pyhudi reads the
other file slices, one partition each, with the columns and filters of the query.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.api.table import Table, open_table
from pyhudi.engines.snapshot_parts import (
    RestRows,
    SnapshotParts,
    rest_of,
    snapshot_parts,
)
from pyhudi.read.arrow_dataset import DatasetOverScans
from pyhudi.read.scan import Scan, task_batches
from pyhudi.read.scan_plan import ReadTask
from pyhudi.read.time_travel import PointInTime

if TYPE_CHECKING:
    from datafusion import SessionContext

FILES_OF_A_VIEW_MAX: Final = 200
"""DataFusion plans each file as one input of a union.  Of more files pyhudi reads the rows."""


def register(
    context: SessionContext,
    table: Table | str | os.PathLike[str],
    name: str | None = None,
    *,
    as_of: PointInTime | None = None,
    mode: str = "snapshot",
    with_meta: bool = False,
    storage_options: Mapping[str, Any] | None = None,
) -> str:
    """Register a table's snapshot, and return the name.

    table: a table, its path or URL.  name: of the registered table; None: the table's name.  as_of
    and mode: as for `Table.scan`.  Queries see the snapshot of the call.  Raises as `open_table`
    and `Table.scan` do.
    """
    opened = table if isinstance(table, Table) else open_table(
        table, storage_options=storage_options
    )  # fmt: skip
    scan = opened.scan(as_of=as_of, mode=mode, with_meta=with_meta).pinned()
    view = opened.config.name if name is None else name
    parts = _parts(context, scan)
    if context.table_exist(view):
        context.deregister_table(view)
    if not parts.whole:
        context.register_dataset(view, _dataset_of(parts.rest or rest_of(scan)))
        return view
    frames = [_file(context, path) for path in parts.whole]
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
    """Parts without cut files: DataFusion's reader does not number the rows of a file."""
    parts = snapshot_parts(scan, cut=False)
    if not parts.whole:
        return parts
    stored = _file(context, parts.whole[0]).schema()
    same = all(
        stored.get_field_index(field.name) >= 0
        and _plain(stored.field(field.name).type) == _plain(field.type)
        for field in scan.schema
    )
    if same and len(parts.whole) <= FILES_OF_A_VIEW_MAX:
        return parts
    return snapshot_parts(scan, native=False)


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
        tasks = self._rest.narrowed(None, filter).tasks
        return iter([_TaskFragment(self._rest, task) for task in tasks])


@cache
def _dataset_class() -> Any:
    import pyarrow.dataset as ds  # slow to import

    return type("FragmentedDataset", (_FragmentedRows, ds.Dataset), {})


def _dataset_of(rest: RestRows) -> Any:
    return _dataset_class()(rest)


class _TaskFragment:
    """One task as a fragment of a dataset."""

    def __init__(self, rest: RestRows, task: ReadTask) -> None:
        self._rest, self._task = rest, task

    @property
    def physical_schema(self) -> pa.Schema:
        return self._rest.schema

    @property
    def partition_expression(self) -> pc.Expression:
        return pc.scalar(True)

    def scanner(
        self, schema: pa.Schema, columns: Any = None, filter: Any = None, **options: Any
    ) -> Any:
        import pyarrow.dataset as ds  # slow to import

        names = list(schema.names if columns is None else columns)
        needed = names or schema.names[:1]
        group = self._task.slice.group
        found = self._rest.narrowed(needed, filter)
        tasks = tuple(task for task in found.tasks if task.slice.group == group)
        reader = task_batches(found.schema, tasks)
        return ds.Scanner.from_batches(reader, columns=names)

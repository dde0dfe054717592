"""The parts of a snapshot: base files for an engine's own Parquet reader, and the remaining rows.

    whole    base files all of whose rows are in the snapshot
    cut      base files of which the logs replace some rows, with the numbers of these rows
    rest     all other rows, read by pyhudi: rows that come from logs, and slices whose base file
             must not be read as it is stored (bootstrap, another schema, a remote store)

An engine's reader decodes a Parquet file two to three times faster than pyarrow hands it over.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.arrays import Longs
from pyhudi.engine import LocalEngine
from pyhudi.errors import UserError
from pyhudi.formats.base_file import BaseFooter, footer
from pyhudi.formats.nan_statistics import bounds_cover_nan, has_floats
from pyhudi.read.arrow_dataset import dataset_of
from pyhudi.read.predicate import Predicate
from pyhudi.read.scan import Scan, task_batches
from pyhudi.read.scan_tasks import ReadTask, count_task, read_replaced
from pyhudi.records import FileGroupId
from pyhudi.storage.local import LocalFileSystem

_READERS: Final = ("auto", "arrow")


@dataclass(frozen=True, slots=True, eq=False)
class CutFile:
    """A local base file.  replaced: numbers of the rows that are not in the snapshot, ascending."""

    path: str
    rows: int
    replaced: Longs

    @property
    def mask(self) -> np.ndarray[Any, np.dtype[np.bool_]]:
        """Whether each row is replaced."""
        found = np.zeros(self.rows, np.bool_)
        found[self.replaced] = True
        return found


@dataclass(frozen=True, slots=True, eq=False)
class SnapshotParts:
    """The parts of one snapshot.  rest: None if no rows are left."""

    schema: pa.Schema
    whole: tuple[str, ...]
    cut: tuple[CutFile, ...]
    rest: RestRows | None


class RestRows:
    """The rows that pyhudi reads, as a scan that can be narrowed.

    logged: file groups of which only the rows that come from logs are read.  omitted: file groups
    that are not read.
    """

    def __init__(
        self, scan: Scan, logged: frozenset[FileGroupId], omitted: frozenset[FileGroupId]
    ) -> None:
        self._scan, self._logged, self._omitted = scan, logged, omitted

    @property
    def schema(self) -> pa.Schema:
        return self._scan.schema

    @property
    def tasks(self) -> tuple[ReadTask, ...]:
        """One task for each slice that has some of the rows."""
        return tuple(
            replace(task, logged_only=True) if task.slice.group in self._logged else task
            for task in self._scan.tasks
            if task.slice.group not in self._omitted
        )

    def narrowed(
        self, columns: Sequence[str] | None, where: pc.Expression | Predicate | None
    ) -> RestRows:
        """Some of the columns, and the rows that pass a filter."""
        return RestRows(self._scan.narrowed(columns, where), self._logged, self._omitted)

    def to_batches(self) -> pa.RecordBatchReader:
        """The rows as a stream; memory as for `Scan.to_batches`."""
        return task_batches(self.schema, self.tasks)

    def count(self) -> int:
        """The number of rows."""
        return sum(map(count_task, self.tasks))

    def dataset(self) -> Any:
        """The rows as a `pyarrow.dataset.Dataset`."""
        return dataset_of(self.narrowed)


def rest_of(scan: Scan) -> RestRows:
    """All rows of a scan, read by pyhudi."""
    return RestRows(scan, frozenset(), frozenset())


def is_native(reader: str) -> bool:
    """Whether a reader of files is the engine's own where possible.

    reader: "auto", or "arrow" for pyhudi, which skips files by the table's indexes and statistics.
    Raises UserError for another name.
    """
    if reader not in _READERS:
        raise UserError("unknown reader", reader=reader, hint=f"one of {', '.join(_READERS)}")
    return reader == "auto"


def snapshot_parts(
    scan: Scan,
    *,
    native: bool = True,
    cut: bool = True,
) -> SnapshotParts:
    """Divide the rows of a scan without a filter, of one snapshot.

    Reads the footers of base files, and merges the keys of logs.  native: False leaves all rows to
    pyhudi; cut: False leaves slices with logs to pyhudi.
    """
    by_engine = native and scan.plan.where is None
    tasks = scan.tasks
    none: list[CutFile | None] = [None] * len(tasks)
    split = _base_file if cut else _whole_file
    found = LocalEngine().run(split, tasks, label="split") if by_engine else none
    known = [(task, file) for task, file in zip(tasks, found, strict=True) if file is not None]
    logged = frozenset(task.slice.group for task, _ in known if task.slice.logs)
    omitted = frozenset(task.slice.group for task, _ in known) - logged
    rest = RestRows(scan, logged, omitted) if len(omitted) < len(tasks) else None
    return SnapshotParts(
        schema=scan.schema,
        whole=tuple(file.path for _, file in known if not len(file.replaced)),
        cut=tuple(file for _, file in known if len(file.replaced)),
        rest=rest,
    )


def _whole_file(task: ReadTask) -> CutFile | None:
    """The base file of a task that has no logs."""
    return None if task.slice.logs else _base_file(task)


def _base_file(task: ReadTask) -> CutFile | None:
    """The base file of a task, if an engine's reader returns its rows as pyhudi does."""
    base, fs = task.slice.base, task.fs
    if base is None or task.slice.source is not None or not isinstance(fs, LocalFileSystem):
        return None
    if task.older is not None or task.logged_only or not base.path.endswith(".parquet"):
        return None
    found = footer(fs, base.path)
    if not _is_as_in_table(found, task):
        return None
    replaced = np.empty(0, np.int64)
    if task.slice.logs:
        replaced = read_replaced(task)  # of all rows: the scan has no filter
    return CutFile(fs.local_path(base.path), found.rows, replaced)


def _is_as_in_table(found: BaseFooter, task: ReadTask) -> bool:
    """Whether the file stores the requested columns with the types and values of the table, and
    its statistics hide no NaN of them."""
    history, base = task.spec.visibility.columns, task.slice.base
    if history is not None and base is not None and history.stored(base.name.instant) is not None:
        return False
    if not bounds_cover_nan(found.metadata) and any(has_floats(f.type) for f in task.spec.schema):
        return False
    for field in task.spec.schema:
        position = found.schema.get_field_index(field.name)
        if position < 0 or found.schema.field(position).type != field.type:
            return False
        if field.name in task.partition_values:
            value = task.partition_values[field.name].as_py()
            if not _is_constant(found.metadata, field.name, value):
                return False
    return True


def _is_constant(stored: pq.FileMetaData, name: str, value: Any) -> bool:
    """Whether statistics prove that all rows of a column have a value."""
    names = [stored.schema.column(n).path for n in range(stored.num_columns)]
    if name not in names:
        return False
    for number in range(stored.num_row_groups):
        group = stored.row_group(number)
        statistics = group.column(names.index(name)).statistics
        if statistics is None or not statistics.has_null_count:
            return False
        if value is None:
            is_equal = statistics.null_count == group.num_rows
        else:
            is_equal = statistics.null_count == 0 and statistics.has_min_max
            is_equal = is_equal and statistics.min == value == statistics.max
        if not is_equal:
            return False
    return True

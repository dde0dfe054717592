"""Tasks of a scan: one slice each, self-contained, readable in any process.

A slice's files may be cleaned between planning and reading.  Reading then raises
SnapshotExpiredError, because the rows of the planned snapshot no longer exist.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.arrays import Longs
from pyhudi.errors import FileMissingError, SnapshotExpiredError
from pyhudi.formats.base_file import footer
from pyhudi.read.changes.row_equality import rows_differ
from pyhudi.read.file_slice import SliceSpec, read_slice, readable_row_groups
from pyhudi.read.predicate import among
from pyhudi.read.slice_parts import logged_rows, replaced_rows
from pyhudi.records import META_COLUMNS
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.file_group_view import FileSlice, Visibility


@dataclass(frozen=True, slots=True)
class Older:
    """Slices that stored a task's keys before, and the instants that were visible then."""

    slices: tuple[FileSlice, ...]
    visibility: Visibility


@dataclass(frozen=True, slots=True)
class ReadTask:
    """One slice to read.  Can be pickled if its file system can.

    older: rows that these slices contain with equal columns are left out.  logged_only: unchanged
    rows of the base file do not match the filter and are not read.
    """

    fs: FileSystem
    slice: FileSlice
    spec: SliceSpec
    partition_values: Mapping[str, pa.Scalar]
    row_groups: tuple[int, ...] | None = None
    older: Older | None = None
    logged_only: bool = False

    @property
    def is_one_file(self) -> bool:
        """Whether its rows are those of one base file, with nothing to merge or compare."""
        return self.slice.base is not None and not self.slice.logs and self.older is None

    def split(self) -> Iterator[ReadTask]:
        """Tasks that together read the same rows in the same order: one for each row group if
        there are no logs to merge.  Reads a footer.  Row groups of a skeleton file differ from
        those of its source file, so such a slice is not split."""
        if not self.is_one_file or self.row_groups is not None or self.slice.source is not None:
            yield self
            return
        with _expiring(self):
            found = readable_row_groups(
                self.fs, self.slice, spec=self.spec, partition_values=self.partition_values
            )
        for number in found:
            yield replace(self, row_groups=(number,))


def read_task(task: ReadTask) -> pa.Table:
    """The rows of one task, with the schema of the plan.  Raises SnapshotExpiredError."""
    with _expiring(task):
        if task.older is not None:
            return _changed_rows(task, task.older)
        if task.logged_only:
            return read_logged(task)
        return read_slice(
            task.fs,
            task.slice,
            spec=task.spec,
            partition_values=task.partition_values,
            row_groups=task.row_groups,
        )


def read_replaced(task: ReadTask) -> Longs:
    """Row numbers in the base file of a task of the rows that its logs replace, ascending; those
    that the filter can match."""
    with _expiring(task):
        return replaced_rows(
            task.fs, task.slice, spec=task.spec, partition_values=task.partition_values
        )


def read_logged(task: ReadTask) -> pa.Table:
    """The rows of a task that are not unchanged rows of its base file."""
    with _expiring(task):
        return logged_rows(
            task.fs, task.slice, spec=task.spec, partition_values=task.partition_values
        )


def count_task(task: ReadTask) -> int:
    """The number of rows of a task."""
    if task.spec.where is None and task.is_one_file:
        assert task.slice.base is not None
        with _expiring(task):
            return footer(task.fs, task.slice.base.path).rows
    cheap = task.spec.filter_columns or tuple(task.spec.table.names)
    narrow = replace(task.spec, columns=cheap[:1])
    rows: int = read_task(replace(task, spec=narrow)).num_rows
    return rows


@contextmanager
def _expiring(task: ReadTask) -> Iterator[None]:
    try:
        yield
    except FileMissingError as missing:
        raise SnapshotExpiredError(
            "a file of this snapshot no longer exists",
            path=missing.facts.get("path"),
            partition=task.slice.partition,
            file_id=task.slice.file_id,
            instant=task.slice.instant,
            hint="it has been cleaned since the scan was planned; scan again",
        ) from missing


def _changed_rows(task: ReadTask, older: Older) -> pa.Table:
    """The task's rows without those that existed before with equal columns."""
    spec = task.spec
    key = spec.rules.key_column
    user = [name for name in spec.table.names if name not in META_COLUMNS]
    wide = replace(spec, columns=tuple(dict.fromkeys((*spec.columns, key, *user))))
    rows = read_task(replace(task, spec=wide, older=None))
    if not rows.num_rows:
        return rows.select(list(spec.columns))
    keys = rows.column(key).combine_chunks()
    before_spec = replace(
        wide,
        columns=tuple(dict.fromkeys((key, *user))),
        where=among(key, keys),
        visibility=replace(older.visibility, columns=spec.visibility.columns),
    )
    before = pa.concat_tables(
        read_slice(task.fs, file_slice, spec=before_spec, partition_values=task.partition_values)
        for file_slice in older.slices
    )
    place = pc.index_in(rows.column(key), value_set=before.column(key).combine_chunks())
    existed = np.flatnonzero(place.is_valid().to_numpy())
    now = rows.select(user).take(pa.array(existed))
    then = before.select(user).take(place.drop_null())
    keep = np.ones(rows.num_rows, np.bool_)
    keep[existed] = rows_differ(then, now)
    return rows.select(list(spec.columns)).filter(pa.array(keep))

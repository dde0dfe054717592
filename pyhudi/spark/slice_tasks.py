"""Reads of file slices by workers.

Workers import this module for their first task, so it imports what reads a slice, and not what
plans a scan.
"""

from __future__ import annotations

import heapq
import pickle
import zlib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.errors import StorageError
from pyhudi.filenames import new_write_token
from pyhudi.formats.nan_statistics import has_floats
from pyhudi.read.scan_tasks import ReadTask, read_logged, read_replaced, read_task
from pyhudi.records import PARTITION_PATH, InstantTime
from pyhudi.spark.merged_reader import bitmaps
from pyhudi.spark.types import as_spark, spark_batches
from pyhudi.spark.worker import Batches
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.sink import LargeWrites
from pyhudi.table.file_group_view import Visibility

_BATCH_ROWS: Final = 32 * 1024


_GROUP_BYTES: Final = 128 << 20
"""Bytes of files in a group from which there are more groups than the session runs at once."""

_GROUPS_MAX: Final = 32
"""Maximum number of groups per task that runs at once."""

_SLICE_BYTES: Final = 256 << 10
"""What opening the files of a slice costs, as bytes."""


@dataclass(frozen=True, slots=True)
class SliceWork:
    """A slice to read.  logged_only: without the unchanged rows of its base file."""

    task: ReadTask
    logged_only: bool = False


@dataclass(frozen=True, slots=True)
class ReadWork:
    """Groups of slices to read, by `packed_groups`, and the schema that Spark expects of rows."""

    groups: tuple[bytes, ...]
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class ReplacedWork:
    """Groups of slices whose replaced rows are determined, by `packed_groups`."""

    groups: tuple[bytes, ...]
    salt: str


def slice_groups(work: Sequence[SliceWork], *, parallelism: int) -> list[list[SliceWork]]:
    """Slices by Spark task.  A task costs as much as reading some small slices, so there is one
    for each slice only where slices are large or few."""
    costs = [_SLICE_BYTES + item.task.slice.size_bytes for item in work]
    count = max(parallelism, min(_GROUPS_MAX * parallelism, sum(costs) // _GROUP_BYTES))
    found: list[list[SliceWork]] = [[] for _ in range(min(count, len(work)))]
    least = [(0, number) for number in range(len(found))]
    for at in sorted(range(len(work)), key=lambda at: -costs[at]):
        cost, number = least[0]
        found[number].append(work[at])
        heapq.heapreplace(least, (cost + costs[at], number))
    return found


class _Pickler(Protocol):
    def dumps(self, value: Any) -> bytes: ...


def packed_groups(groups: Sequence[Sequence[SliceWork]], pickler: _Pickler) -> tuple[bytes, ...]:
    """Each group as bytes.  Every task receives those of all groups and opens its own; slices of a
    group share what they have in common."""
    return tuple(zlib.compress(pickler.dumps(list(group)), 1) for group in groups)


def read_batches(work: ReadWork, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Rows of the file slices whose numbers are in the batches; runs on workers."""
    for item in _opened(work.groups, batches):
        rows = read_logged(item.task) if item.logged_only else read_task(item.task)
        yield from spark_batches(rows, work.schema, rows=_BATCH_ROWS)


def replaced_batches(work: ReplacedWork, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Bitmaps of the file slices whose numbers are in the batches; runs on workers."""
    for item in _opened(work.groups, batches):
        task = item.task
        assert task.slice.base is not None
        found = read_replaced(task)
        if len(found):
            yield bitmaps(found, task.slice.base.path.rpartition("/")[2], work.salt)


def _opened(groups: Sequence[bytes], batches: Batches) -> Iterator[SliceWork]:
    """The slices of the groups whose numbers are in the batches."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            yield from pickle.loads(zlib.decompress(groups[number]))


# ---- merged logs as Parquet files ---------------------------------------------------------------

_DICTIONARY_BYTES: Final = 64 << 10
"""Size of a dictionary from which a column is written without one."""

_ROW_GROUP_ROWS: Final = 1 << 18


@dataclass(frozen=True, slots=True)
class LogWork:
    """A slice whose logs are merged and stored.

    columns: of the rows.  salt: of `merged_reader.bitmaps`.  fs, folder: where the files go.
    """

    task: ReadTask
    columns: tuple[str, ...]
    salt: str
    fs: FileSystem
    folder: str


@dataclass(frozen=True, slots=True)
class StoredFile:
    path: str
    size_bytes: int
    rows: int


@dataclass(frozen=True, slots=True)
class StoredLogs:
    """The merged logs of a slice.

    rows: those that are not unchanged rows of the base file.  replaced: bitmaps of the rows of the
    base file that they replace.  None where there are none.  answers: the instants whose visibility
    the merge asked for, and whether they were visible: with the files and the merge rules, they
    determine the result.
    """

    rows: StoredFile | None
    replaced: StoredFile | None
    answers: tuple[tuple[InstantTime, bool], ...]

    @property
    def files(self) -> tuple[StoredFile, ...]:
        return tuple(file for file in (self.rows, self.replaced) if file is not None)


@dataclass(frozen=True, slots=True)
class _Recording(Visibility):
    """A visibility that records what it was asked."""

    answers: dict[InstantTime, bool] = field(default_factory=dict)

    def sees(self, time: InstantTime) -> bool:
        found = Visibility.sees(self, time)
        self.answers[time] = found
        return found


def store_logs(work: LogWork) -> StoredLogs | None:
    """Merge the logs of a slice and write the result; runs on workers.

    None if the files cannot be written, as on a full disk, or if a row states another partition
    path than that of its slice.  Raises as `read_task` does.
    """
    spec = work.task.spec
    seen = spec.visibility
    recording = _Recording(seen.completed, seen.start, seen.limit, seen.unfinished, seen.columns)
    spec = replace(spec, columns=work.columns, where=None, keys=None, visibility=recording)
    task = replace(work.task, spec=spec, logged_only=False)
    replaced = None
    if task.slice.base is not None:
        numbers = read_replaced(task)
        if len(numbers):
            name = task.slice.base.path.rpartition("/")[2]
            replaced = pa.Table.from_batches([bitmaps(numbers, name, work.salt)])
    rows = read_logged(task)
    if PARTITION_PATH in rows.column_names:
        paths = rows.column(PARTITION_PATH)
        if (
            paths.null_count
            or not pc.all(pc.equal(paths, task.slice.partition), min_count=0).as_py()
        ):
            return None
    batches = spark_batches(rows, as_spark(spec.schema), rows=_ROW_GROUP_ROWS)
    try:
        return StoredLogs(
            _stored(work, "rows", pa.Table.from_batches(batches) if batches else None),
            _stored(work, "replaced", replaced),
            tuple(recording.answers.items()),
        )
    except (StorageError, OSError):
        return None


def _stored(work: LogWork, kind: str, table: pa.Table | None) -> StoredFile | None:
    """Write rows as a Parquet file with a new name: fast, not small.  Bounds of floating columns
    would hide NaN from Spark, so there are none."""
    if table is None or not table.num_rows:
        return None
    path = f"{work.folder}/{kind}-{new_write_token()}.parquet"
    bounded = [column.name for column in table.schema if not has_floats(column.type)]
    with work.fs.open_scratch(path) as sink:
        with LargeWrites(sink) as stream:
            pq.write_table(
                table,
                stream,
                row_group_size=_ROW_GROUP_ROWS,
                compression="snappy",
                dictionary_pagesize_limit=_DICTIONARY_BYTES,
                write_statistics=bounded,
                store_schema=False,
            )
        return StoredFile(path, sink.tell(), table.num_rows)

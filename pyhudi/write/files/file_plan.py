"""Common parameters of the files of a write, and the meta columns added to the rows."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.arrays import Ints
from pyhudi.errors import Overtaken, OvertakenError
from pyhudi.filenames import BaseFileName, DataFileName, cdc_log_of, join, parse_data_file
from pyhudi.formats.column_history import ColumnHistory
from pyhudi.layouts.table_layout import TableLayout
from pyhudi.layouts.v6 import V6
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.metadata.file_entries import IndexOfFiles
from pyhudi.metadata.file_stats.records import FileIndex
from pyhudi.options import BaseFileOptions, FileSizing, LogFormat
from pyhudi.read.file_slice import SliceSpec
from pyhudi.records import (
    COMMIT_SEQNO,
    COMMIT_TIME,
    FILE_NAME,
    META_COLUMNS,
    PARTITION_PATH,
    RECORD_KEY,
    FileGroupId,
    InstantTime,
)
from pyhudi.storage.filesystem import FileSystem, Sink
from pyhudi.table.cdc_properties import CdcMode
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import Instant, State, file_name
from pyhudi.transaction.markers import Marker, MarkerKind, announce
from pyhudi.write.files.file_batch import FileBatch


@dataclass(frozen=True, slots=True)
class FilePlan:
    """Common parameters of the files of a write.

    schema: user columns.  inflight: the instant on the timeline, which must exist while files are
    written; None outside a transaction.  cdc: the change data capture mode of base files; None if
    disabled.  layout: of the table.
    """

    fs: FileSystem
    instant: InstantTime
    schema: pa.Schema
    avro_schema: str  # with the meta fields
    rules: MergeRules
    base_file: BaseFileOptions
    log_format: LogFormat
    natural_deletes: bool  # a delete operation: deletes always win
    order_by: tuple[str, ...] = ()  # columns that sort the rows of new files
    keeps_stored: bool = False  # rows are added even if their key is stored
    stored: SliceSpec | None = None  # how to read the slice below a log, if needed
    hiding: SliceSpec | None = None  # how to read slices whose logs may hide rows logged on top
    sizing: FileSizing = field(default_factory=FileSizing)
    inflight: Instant | None = None
    cdc: CdcMode | None = None
    layout: TableLayout = V6
    partial_schema: str | None = None  # of the log blocks of a partial update, with the meta fields
    marks_together: bool = False  # markers of a task are one file; `announce_type` has been called
    history: ColumnHistory | None = None  # the names of the columns in stored files
    indexes: tuple[IndexOfFiles, ...] = ()  # whose entries of the new files tasks return
    batch: FileBatch | None = None  # of the running task; None: each file is durable by itself

    def announce(self, partition: str, file: DataFileName, kind: MarkerKind) -> None:
        """Create the marker of a file before it is written, unless the task has done so."""
        if self.batch is None:
            announce(self.fs, self.instant, partition, file, kind=kind)
        else:
            self.batch.announce([Marker(partition, file, kind)])

    def open_sink(self, path: str) -> Sink:
        """A new data file, durable when it is closed or when the task ends."""
        return self.fs.open_sink(path) if self.batch is None else self.batch.open_sink(path)

    def check_stands(self, path: str) -> None:
        """Like `overtaken`, for the task of a service.  Raises OvertakenError."""
        lost = self.overtaken([path])
        if lost is not None:
            raise lost.error

    def overtaken(self, paths: Sequence[str]) -> Overtaken | None:
        """Delete the files just written, and the CDC logs of base files, if the instant was rolled
        back in the meantime or completed without this task; None if it is still inflight.

        Cost: two requests.
        """
        if self.inflight is None or not paths:
            return None
        mine = f"{self.layout.timeline_folder}/{file_name(self.inflight)}"
        if self.fs.exists(mine) and not self._is_completed(self.inflight):
            return None
        self.fs.delete([each for path in paths for each in (path, *_cdc_logs(path))])
        error = OvertakenError(
            "the write was rolled back or has ended while this task was still writing",
            instant=self.instant,
            path=paths[0],
            hint="the file written by the task was deleted; write again",
        )
        return Overtaken(error)

    def _is_completed(self, inflight: Instant) -> bool:
        folder = self.layout.timeline_folder
        if not self.layout.has_completion_times:
            completed = replace(inflight, state=State.COMPLETED)
            return self.fs.exists(f"{folder}/{file_name(completed)}")
        return any(name.startswith(f"{inflight.time}_") for name in self.fs.names(folder))


def _cdc_logs(path: str) -> list[str]:
    """Path of the CDC log that a write may have created with a data file."""
    folder, _, name = path.rpartition("/")
    parsed = parse_data_file(name)
    return [join(folder, str(cdc_log_of(parsed)))] if isinstance(parsed, BaseFileName) else []


@dataclass(frozen=True, slots=True)
class Written:
    """One written file; stat is None if there was nothing to write.

    unchanged: incoming rows that lost to stored ones.  entries: of the file in the `indexes` of
    the plan.
    """

    stat: WriteStat | None
    inserted: int
    updated: int
    deleted: int
    unchanged: int
    entries: tuple[FileIndex, ...] = ()


CONSTANT: Final = (PARTITION_PATH, FILE_NAME)
"""Meta columns with one value per file: always generated, never read for a rewrite."""


def repeated(value: str, count: int) -> pa.DictionaryArray:
    """One value `count` times, as a dictionary column."""
    zeros = _ZEROS[:count] if count <= len(_ZEROS) else np.zeros(count, np.int32)
    return pa.DictionaryArray.from_arrays(
        pa.array(zeros), pa.array([value], pa.string()), safe=False
    )


_ZEROS: Final = np.zeros(4096, np.int32)


def stamped(
    plan: FilePlan, rows: pa.Table, group: FileGroupId, number: int, file_name: str, first: int
) -> pa.Table:
    """Incoming rows in stored form: meta columns, then the user columns."""
    count = rows.num_rows
    ordinals = np.arange(first, first + count)
    return with_constants(numbered(plan, rows, [number], [count], ordinals), group, file_name)


def numbered(
    plan: FilePlan,
    rows: pa.Table,
    numbers: Sequence[int],
    counts: Sequence[int] | Ints,
    ordinals: npt.NDArray[np.int64],
) -> pa.Table:
    """Incoming rows of several targets in stored form, without the columns that are `CONSTANT` in a
    file.

    numbers, counts: of each target its number and its rows, which follow one another.  ordinals:
    the position of each row in its file.
    """
    prefix = pa.array([f"{plan.instant}_{number}" for number in numbers])
    of_rows = pa.array(np.repeat(np.arange(len(numbers)), counts))
    seqno = pc.binary_join_element_wise(
        prefix.take(of_rows), pa.array(ordinals).cast(pa.string()), "_"
    )
    return pa.table(
        {
            COMMIT_TIME: pa.repeat(pa.scalar(str(plan.instant)), rows.num_rows),
            COMMIT_SEQNO: seqno,
            RECORD_KEY: rows.column(RECORD_KEY),
            **{name: rows.column(name) for name in plan.schema.names},
        }
    )


def with_constants(rows: pa.Table, group: FileGroupId, file_name: str) -> pa.Table:
    """`rows` with the columns that have one value per file, in stored column order."""
    columns = dict(zip(rows.column_names, rows.columns, strict=True))
    columns[PARTITION_PATH] = repeated(group.partition, rows.num_rows)
    columns[FILE_NAME] = repeated(file_name, rows.num_rows)
    names = [*META_COLUMNS, *(n for n in columns if n not in META_COLUMNS)]
    return pa.table([columns[n] for n in names], names)


def millis_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)

"""What every file of a write has in common: the plan, the columns it adds to the rows."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import OvertakenError
from pyhudi.filenames import HOODIE, BaseFileName, cdc_log_of, join, parse_data_file
from pyhudi.merge.merge_rules import MergeRules
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
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.cdc_properties import CdcMode
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import Instant, State, file_name


@dataclass(frozen=True, slots=True)
class FilePlan:
    """What every file of a write has in common.

    schema: user columns.  inflight: the instant on the timeline, which has to stand for as long as
    files are written; None outside a transaction.  cdc: what is logged of each change to a base
    file; None for nothing.
    """

    fs: FileSystem
    instant: InstantTime
    schema: pa.Schema
    avro_schema: str  # with the meta fields
    rules: MergeRules
    base_file: BaseFileOptions
    log_format: LogFormat
    natural_deletes: bool  # a delete operation: deletes win whatever is stored
    order_by: tuple[str, ...] = ()  # columns that sort the rows of new files
    keeps_stored: bool = False  # rows are added beside stored ones, also to those of their key
    stored: SliceSpec | None = None  # how to read what a log goes on top of, where it must be known
    hiding: SliceSpec | None = None  # how to read slices whose logs may hide rows logged on top
    sizing: FileSizing = field(default_factory=FileSizing)
    inflight: Instant | None = None
    cdc: CdcMode | None = None

    def check_stands(self, path: str) -> None:
        """Delete the file just written at `path`, and the CDC log of a base file, and raise
        OvertakenError if nobody will take it: the instant was rolled back meanwhile, or completed
        without this task.

        Cost: two requests for the existence of a file.
        """
        if self.inflight is None:
            return
        completed = replace(self.inflight, state=State.COMPLETED)
        mine, done = (f"{HOODIE}/{file_name(each)}" for each in (self.inflight, completed))
        if self.fs.exists(mine) and not self.fs.exists(done):
            return
        name = parse_data_file(path.rpartition("/")[2])
        folder = path.rpartition("/")[0]
        logs = [join(folder, str(cdc_log_of(name)))] if isinstance(name, BaseFileName) else []
        self.fs.delete([path, *logs])
        raise OvertakenError(
            "the write was rolled back or has ended while this task was still writing",
            instant=self.instant,
            path=path,
            hint="a file that the task had written is deleted; write again",
        )


@dataclass(frozen=True, slots=True)
class Written:
    """One file written; stat is None where there was nothing to write after all.

    unchanged: incoming rows that lost to what is stored.
    """

    stat: WriteStat | None
    inserted: int
    updated: int
    deleted: int
    unchanged: int


CONSTANT: Final = (PARTITION_PATH, FILE_NAME)
"""Meta columns with one value a file: never read for a rewrite, always made."""


def repeated(value: str, count: int) -> pa.DictionaryArray:
    """One value `count` times, which costs a reader and the writer next to nothing."""
    zeros = pa.array(np.zeros(count, np.int32))
    return pa.DictionaryArray.from_arrays(zeros, pa.array([value], pa.string()))


def stamped(
    plan: FilePlan, rows: pa.Table, group: FileGroupId, number: int, file_name: str, first: int
) -> pa.Table:
    """Incoming rows as they are stored: meta columns, then the user columns."""
    count = rows.num_rows
    ordinals = pa.array(np.arange(first, first + count)).cast(pa.string())
    seqno = pc.binary_join_element_wise(f"{plan.instant}_{number}", ordinals, "_")
    stamped = pa.table(
        {
            COMMIT_TIME: pa.repeat(pa.scalar(str(plan.instant)), count),
            COMMIT_SEQNO: seqno,
            RECORD_KEY: rows.column(RECORD_KEY),
            **{name: rows.column(name) for name in plan.schema.names},
        }
    )
    return with_constants(stamped, group, file_name)


def with_constants(rows: pa.Table, group: FileGroupId, file_name: str) -> pa.Table:
    """`rows` with the columns that have one value a file, all in the stored order."""
    columns = {
        PARTITION_PATH: repeated(group.partition, rows.num_rows),
        FILE_NAME: repeated(file_name, rows.num_rows),
    }
    names = [*META_COLUMNS, *(n for n in rows.schema.names if n not in META_COLUMNS)]
    return pa.table({n: columns[n] if n in columns else rows.column(n) for n in names})


def millis_since(began: float) -> int:
    return round((time.monotonic() - began) * 1000)

"""Rows to delete that a scan finds: record keys with the file groups that contain them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.index.key_join import dealt
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.read.scan_plan import ScanRequest, plan_scan
from pyhudi.read.scan_tasks import ReadTask, read_task
from pyhudi.read.sql.sql_filter import Filter
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import RECORD_KEY, FileGroupId
from pyhudi.storage.spill import Staging
from pyhudi.write.input.batch import PART_ROWS, BatchChunk, KeyPlan, in_bounded_batches, key_part


@dataclass(frozen=True, slots=True)
class MatchedRows:
    """The rows of a scan's tasks, which read only the record key."""

    tasks: tuple[ReadTask, ...]

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([])

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        slices = [task.slice for task in self.tasks]
        searches = [
            Search(tuple(self.tasks[number] for number, _ in chunk), plan.hash, staging)
            for chunk in dealt(slices, engine.parallelism)
        ]
        return [part for parts in engine.run(search, searches, label="find") for part in parts]


def matched_rows(state: TableState, where: Filter, *, data_skipping: bool) -> MatchedRows:
    """The rows of the latest snapshot for which `where` is true."""
    request = ScanRequest(columns=(RECORD_KEY,), where=where, data_skipping=data_skipping)
    return MatchedRows(plan_scan(state, request).tasks)


@dataclass(frozen=True, slots=True)
class Search:
    """Input of one search task."""

    tasks: tuple[ReadTask, ...]
    hash: KeyHash
    staging: Staging


def search(work: Search) -> list[BatchChunk]:
    """Batch chunks of the rows found; runs on workers.  Memory: a row group and a chunk's keys."""
    batches = (batch for task in work.tasks for batch in _found(task))
    return [
        key_part(
            rows.column(RECORD_KEY),
            work.hash,
            work.staging,
            paths=rows.column("partition"),
            file_ids=rows.column("file_id"),
        )
        for rows in in_bounded_batches(batches, rows_max=PART_ROWS)
    ]


def _found(task: ReadTask) -> Iterator[pa.RecordBatch]:
    """Keys that a task finds, with their file groups."""
    for part in task.split():
        found = read_task(part)
        if found.num_rows:
            yield _placed(found.column(RECORD_KEY), task.slice.group)


def _placed(keys: pa.ChunkedArray, group: FileGroupId) -> pa.RecordBatch:
    zeros = pa.array(np.zeros(len(keys), np.int32))
    partition, file_id = (
        pa.DictionaryArray.from_arrays(zeros, pa.array([text], pa.string()))
        for text in (group.partition, group.file_id)
    )
    columns = {RECORD_KEY: keys.combine_chunks(), "partition": partition, "file_id": file_id}
    return pa.record_batch(columns)

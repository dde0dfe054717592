"""Reads of file slices by workers.

Workers import this module for their first task, so it imports what reads a slice, and not what
plans a scan.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa

from pyhudi.read.scan_tasks import ReadTask, read_logged, read_replaced, read_task
from pyhudi.spark.merged_reader import bitmaps
from pyhudi.spark.types import spark_batches
from pyhudi.spark.worker import Batches

_BATCH_ROWS: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class SliceWork:
    """A slice to read.  logged_only: without the unchanged rows of its base file."""

    task: ReadTask
    logged_only: bool = False


@dataclass(frozen=True, slots=True)
class ReadWork:
    """Slices to read, each a pickled `SliceWork`, and the schema that Spark expects of rows."""

    tasks: tuple[bytes, ...]
    schema: pa.Schema


@dataclass(frozen=True, slots=True)
class ReplacedWork:
    """Slices whose replaced rows are determined, each a pickled `ReadTask`."""

    tasks: tuple[bytes, ...]
    salt: str


def read_batches(work: ReadWork, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Rows of the file slices whose numbers are in the batches; runs on workers."""
    for number in _numbers_in(batches):
        item: SliceWork = pickle.loads(work.tasks[number])
        rows = read_logged(item.task) if item.logged_only else read_task(item.task)
        yield from spark_batches(rows, work.schema, rows=_BATCH_ROWS)


def replaced_batches(work: ReplacedWork, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Bitmaps of the file slices whose numbers are in the batches; runs on workers."""
    for number in _numbers_in(batches):
        task: ReadTask = pickle.loads(work.tasks[number])
        assert task.slice.base is not None
        found = read_replaced(task)
        if len(found):
            yield bitmaps(found, task.slice.base.path.rpartition("/")[2], work.salt)


def _numbers_in(batches: Batches) -> Iterator[int]:
    for batch in batches:
        yield from batch.column(0).to_pylist()

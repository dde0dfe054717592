"""Scans as DataFrames: planned on the driver, read on the workers, one task per file slice.

File slices that need no merge are read by Spark itself if that returns the same rows.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession

from pyhudi.read.scan_plan import ReadTask, ScanPlan, read_task
from pyhudi.read.table_snapshot import TableState
from pyhudi.spark.frames import default_parallelism, map_arrow, numbers
from pyhudi.spark.job_submission import remote
from pyhudi.spark.parquet_reader import native_frame, native_tasks
from pyhudi.spark.types import as_spark, spark_batches, to_spark
from pyhudi.spark.worker import Batches, TaskOrder

_BATCH_ROWS: Final = 32 * 1024
_WAVES: Final = 32
"""Maximum number of Spark tasks per slot and scan."""


@dataclass(frozen=True, slots=True)
class ReadWork:
    """File slices to read, each pickled separately, and the schema that Spark expects of rows."""

    tasks: tuple[bytes, ...]
    schema: pa.Schema


def scan_frame(spark: SparkSession, state: TableState, plan: ScanPlan) -> DataFrame:
    """The rows of a plan.  Every use of the frame reads the snapshot of the plan."""
    native = native_tasks(state, plan)
    rest = [task for number, task in enumerate(plan.tasks) if number not in native]
    if not native:
        return _arrow_frame(spark, plan, rest)
    frame = native_frame(spark, plan, [plan.tasks[number] for number in sorted(native)])
    return frame if not rest else frame.union(_arrow_frame(spark, plan, rest))


def _arrow_frame(spark: SparkSession, plan: ScanPlan, tasks: Sequence[ReadTask]) -> DataFrame:
    """The rows of tasks that workers read with pyhudi."""
    packed = tuple(cloudpickle.dumps(task) for task in tasks)  # type: ignore[no-untyped-call]
    work = ReadWork(packed, as_spark(plan.schema))
    slices = max(1, min(len(tasks), _WAVES * default_parallelism(spark)))
    frame = numbers(spark, len(tasks), slices=slices)
    return map_arrow(frame, remote(TaskOrder(read_batches, work), "rows"), to_spark(plan.schema))


def read_batches(work: ReadWork, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Rows of the file slices whose numbers are in the batches; runs on workers."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            task: ReadTask = pickle.loads(work.tasks[number])
            yield from spark_batches(read_task(task), work.schema, rows=_BATCH_ROWS)


__all__ = ["ReadWork", "read_batches", "scan_frame"]

"""A scan as a DataFrame: planned on the driver, read on the workers, a task a file slice."""

from __future__ import annotations

import pickle
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
from pyspark.sql import DataFrame, SparkSession

from pyhudi.read.plan import ReadTask, ScanPlan, read_task
from pyhudi.spark.frames import default_parallelism, map_arrow, numbers
from pyhudi.spark.shipping import remote
from pyhudi.spark.types import as_spark, spark_batches, to_spark
from pyhudi.spark.worker import Batches, Order

_BATCH_ROWS: Final = 32 * 1024
_WAVES: Final = 32
"""Spark tasks per slot and scan at most."""


@dataclass(frozen=True, slots=True)
class ReadWork:
    """Slices to read, each pickled for itself, and the schema in which Spark takes the rows."""

    tasks: tuple[bytes, ...]
    schema: pa.Schema


def scan_frame(spark: SparkSession, plan: ScanPlan) -> DataFrame:
    """The rows of a plan.  The snapshot is that of the plan, however often the frame is used."""
    work = ReadWork(tuple(pickle.dumps(task) for task in plan.tasks), as_spark(plan.schema))
    count = len(plan.tasks)
    slices = max(1, min(count, _WAVES * default_parallelism(spark)))
    frame = numbers(spark, count, slices=slices)
    return map_arrow(frame, remote(Order(read_batches, work), "rows"), to_spark(plan.schema))


def read_batches(work: ReadWork, batches: Batches) -> Iterator[pa.RecordBatch]:
    """Rows of the slices whose numbers come in the batches; runs on workers."""
    for batch in batches:
        for number in batch.column(0).to_pylist():
            task: ReadTask = pickle.loads(work.tasks[number])
            yield from spark_batches(read_task(task), work.schema, rows=_BATCH_ROWS)


__all__ = ["ReadWork", "read_batches", "scan_frame"]

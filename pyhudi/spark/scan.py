"""Scans as DataFrames: planned on the driver, read on the workers, one task per file slice.

Base files are read by Spark itself if that returns the same rows, less the rows that logs replace.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import Final

from pyspark import cloudpickle
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pyhudi.read.scan_plan import ScanPlan
from pyhudi.read.scan_tasks import ReadTask
from pyhudi.read.table_snapshot import TableState
from pyhudi.spark.frames import default_parallelism, map_arrow, numbers
from pyhudi.spark.job_submission import remote
from pyhudi.spark.merged_reader import BITMAPS
from pyhudi.spark.parquet_reader import (
    Reader,
    Readers,
    SliceReader,
    choose_readers,
    merged_frame,
    native_frame,
)
from pyhudi.spark.slice_tasks import (
    ReadWork,
    ReplacedWork,
    SliceWork,
    packed_groups,
    read_batches,
    replaced_batches,
    slice_groups,
)
from pyhudi.spark.store_access import StoreAccess, store_access
from pyhudi.spark.types import as_spark, to_spark
from pyhudi.spark.worker import TaskOrder

BYTES_MIN: Final = "spark.pyhudi.read.logs.minBytes"
"""Property of the session: bytes of base files with logs from which Spark's reader is used."""

_BYTES_MIN: Final = 64 << 20
"""The default, plus `_BYTES_OF_LOGS` for each byte of logs: what Spark's reader saves must exceed
the cost of another job and of a second merge of the logs."""

_BYTES_OF_LOGS: Final = 3


@dataclass(frozen=True)
class SparkScanPlan:
    """What a scan on Spark will read, and the reader of each slice.

    readers: one a slice, in the order of `plan.tasks`.
    """

    plan: ScanPlan
    readers: tuple[SliceReader, ...]

    def __str__(self) -> str:
        """The plan as text; slices with the same reader and reason are counted."""
        counts = Counter(self.readers)
        lines = [
            f"read by     {chosen.reader.value}: {count} slices"
            + (f" ({chosen.reason})" if chosen.reason else "")
            for chosen, count in counts.items()
        ]
        return "\n".join([str(self.plan), *lines])

    __repr__ = __str__


def explain_scan(spark: SparkSession, state: TableState, plan: ScanPlan) -> SparkScanPlan:
    """The plan of `scan_frame`."""
    return SparkScanPlan(plan, _readers(spark, state, plan, _access(spark, plan)).slices)


def scan_frame(spark: SparkSession, state: TableState, plan: ScanPlan) -> DataFrame:
    """The rows of a plan.  Every use of the frame reads the snapshot of the plan."""
    access = _access(spark, plan)
    readers = _readers(spark, state, plan, access)
    plain = readers.tasks(plan, Reader.SPARK)
    logged = readers.tasks(plan, Reader.SPARK_AND_LOGS)
    work = [SliceWork(task) for task in readers.tasks(plan, Reader.PYHUDI)]
    work += [SliceWork(task, logged_only=True) for task in logged]
    frames = []
    if plain:
        frames.append(native_frame(spark, plan, plain, access))
    if logged:
        replaced = _replaced_frame(spark, logged, readers.salt)
        frames.append(merged_frame(spark, plan, logged, access, replaced, readers.salt))
    if work or not frames:
        frames.append(_arrow_frame(spark, plan, work))
    return reduce(lambda one, other: one.union(other), frames)


def _readers(
    spark: SparkSession, state: TableState, plan: ScanPlan, access: StoreAccess
) -> Readers:
    bytes_min = int(spark.conf.get(BYTES_MIN, None) or _default_bytes_min(plan))
    return choose_readers(state, plan, bytes_min=bytes_min, access=access)


def _default_bytes_min(plan: ScanPlan) -> int:
    logs = sum(task.slice.log_bytes for task in plan.tasks if task.slice.base)
    return _BYTES_MIN + _BYTES_OF_LOGS * logs


def _access(spark: SparkSession, plan: ScanPlan) -> StoreAccess:
    """How the session opens the table's files."""
    for task in plan.tasks:
        base = task.slice.base
        if base is not None and base.path.endswith(".parquet"):
            return store_access(spark, task.fs, base.path)
    return StoreAccess()


def _arrow_frame(spark: SparkSession, plan: ScanPlan, work: Sequence[SliceWork]) -> DataFrame:
    """The rows that workers read with pyhudi."""
    groups = slice_groups(work, parallelism=default_parallelism(spark))
    read = ReadWork(packed_groups(groups, cloudpickle), as_spark(plan.schema))
    return _on_workers(spark, len(groups), TaskOrder(read_batches, read), to_spark(plan.schema))


def _replaced_frame(spark: SparkSession, tasks: Sequence[ReadTask], salt: str) -> DataFrame:
    """The bitmaps of the replaced rows of the tasks."""
    work = [SliceWork(task) for task in tasks]
    groups = slice_groups(work, parallelism=default_parallelism(spark))
    order = TaskOrder(replaced_batches, ReplacedWork(packed_groups(groups, cloudpickle), salt))
    return _on_workers(spark, len(groups), order, BITMAPS)


def _on_workers(spark: SparkSession, count: int, order: TaskOrder, schema: StructType) -> DataFrame:
    """The rows of an order over the numbers below `count`, each in a task."""
    slices = max(1, count)
    return map_arrow(numbers(spark, count, slices=slices), remote(order, "rows"), schema)

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
from pyhudi.spark.merged_logs import HeldLogs, held_logs, merged_logs
from pyhudi.spark.merged_reader import BITMAPS, are_distinct
from pyhudi.spark.parquet_reader import (
    AddedFiles,
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
"""Property of the session: bytes of slices with logs from which Spark's reader is used."""

_BYTES_MIN: Final = 64 << 20
"""The default without stored logs, of base files, plus `_BYTES_OF_LOGS` for each byte of logs: what
Spark's reader saves must exceed the cost of another job and of a second merge of the logs."""

_BYTES_OF_LOGS: Final = 3

_STORED_BYTES_MIN: Final = 16 << 20
"""The default where merged logs are stored, of base files and logs: below, a query takes as long
either way."""


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


def scan_frame(
    spark: SparkSession, state: TableState, plan: ScanPlan, *, merges: bool = True
) -> DataFrame:
    """The rows of a plan.  Every use of the frame reads the snapshot of the plan.

    merges: logs may be merged now, for this frame and later ones (`merged_logs`); if not, logs that
    are not stored yet are merged by each use of the frame.  Cost: a job, if logs are merged now.
    """
    access = _access(spark, plan)
    readers = _readers(spark, state, plan, access)
    with held_logs(spark, plan, readers, merges=merges) as logs:
        plain = [*readers.tasks(plan, Reader.SPARK), *logs.whole]
        merging = logs.missing
        others = readers.tasks(plan, Reader.PYHUDI)
        if _size_of(merging) < _bytes_min(spark, merging, is_stored=False):
            others, merging = others + merging, []
        work = [SliceWork(task) for task in others]
        work += [SliceWork(task, logged_only=True) for task in merging]
        frames = _stored_frames(spark, plan, plain, logs, access, readers.salt)
    if merging:
        replaced = _replaced_frame(spark, merging, readers.salt)
        frames.append(merged_frame(spark, plan, merging, access, replaced, readers.salt))
    if work or not frames:
        frames.append(_arrow_frame(spark, plan, work))
    return reduce(lambda one, other: one.union(other), frames)


def _stored_frames(
    spark: SparkSession,
    plan: ScanPlan,
    plain: Sequence[ReadTask],
    logs: HeldLogs,
    access: StoreAccess,
    salt: str,
) -> list[DataFrame]:
    """The rows of stored logs, of their base files, and of base files without logs: in one scan if
    most rows are to be compared with bitmaps anyway."""
    cut, added, replaced = logs.cut, logs.rows, logs.replaced
    if replaced is None:
        return [native_frame(spark, plan, plain, access, added)] if plain or added else []
    if _size_of(plain) <= _size_of(cut) and _are_distinct([*cut, *plain], added, salt):
        tasks = [*cut, *plain]
        return [merged_frame(spark, plan, tasks, access, replaced, salt, added=added)]
    frames = [native_frame(spark, plan, plain, access, added)] if plain or added else []
    return [*frames, merged_frame(spark, plan, cut, access, replaced, salt)]


def _size_of(tasks: Sequence[ReadTask]) -> int:
    """Bytes of the base files of tasks."""
    return sum(task.slice.base.size_bytes for task in tasks if task.slice.base)


def _are_distinct(tasks: Sequence[ReadTask], added: AddedFiles | None, salt: str) -> bool:
    """Whether rows of any of these files are compared with no other file's bitmaps."""
    paths = [task.slice.base.path for task in tasks if task.slice.base]
    paths += added.sizes if added else ()
    return are_distinct([path.rpartition("/")[2] for path in paths], salt)


def _readers(
    spark: SparkSession, state: TableState, plan: ScanPlan, access: StoreAccess
) -> Readers:
    stores = merged_logs(spark) is not None
    bytes_min = _bytes_min(spark, plan.tasks, is_stored=stores)
    return choose_readers(state, plan, bytes_min=bytes_min, access=access, stores_logs=stores)


def _bytes_min(spark: SparkSession, tasks: Sequence[ReadTask], *, is_stored: bool) -> int:
    """Bytes of slices with logs from which Spark's reader is used.  is_stored: the merged logs are,
    so they are not merged again at each query."""
    stated = spark.conf.get(BYTES_MIN, None)
    if stated:
        return int(stated)
    if is_stored:
        return _STORED_BYTES_MIN
    logs = sum(task.slice.log_bytes for task in tasks if task.slice.base)
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

"""What the data source passes from the planner to other processes: partitions.

Workers import this module for their first task, so it imports what reads a slice, and not what
plans a scan.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from typing import Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyhudi.read.scan_tasks import ReadTask, read_task
from pyhudi.spark.error_lines import line_first
from pyhudi.spark.types import as_spark, spark_batches

_BATCH_ROWS: Final = 32 * 1024


class Slices(InputPartition):
    """Pickled read tasks."""

    def __init__(self, tasks: Sequence[ReadTask]) -> None:
        super().__init__(pickle.dumps(list(tasks), pickle.HIGHEST_PROTOCOL))

    @property
    def tasks(self) -> list[ReadTask]:
        found: list[ReadTask] = pickle.loads(self.value)
        return found


class PartitionReader(DataSourceReader):
    """Reads partitions on workers.  planner: the pickled type and attributes of the reader that
    plans."""

    def __init__(self, planner: bytes) -> None:
        self._planner = planner

    def partitions(self) -> Sequence[InputPartition]:
        kind, attributes = pickle.loads(self._planner)
        planner = kind.__new__(kind)
        vars(planner).update(attributes)
        found: Sequence[InputPartition] = planner.partitions()
        return found

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        return read_slices(partition)


def read_slices(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Batches of a partition.  Memory: a row group, or a whole file slice if it has logs."""
    if not isinstance(partition, Slices):
        return  # PySpark's placeholder for an empty list of partitions
    with line_first():
        for task in partition.tasks:
            for part in task.split():
                schema = as_spark(part.spec.schema)
                yield from spark_batches(read_task(part), schema, rows=_BATCH_ROWS)

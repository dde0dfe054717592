"""What the data source passes from the planner to other processes: partitions and snapshots.

Workers import this module for their first task, so it imports what reads a slice, and not what
plans a scan.
"""

from __future__ import annotations

import pickle
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition

from pyhudi.errors import line_first
from pyhudi.read.scan_tasks import ReadTask, read_task
from pyhudi.records import BEFORE_ALL_INSTANTS, InstantTime
from pyhudi.spark.types import as_spark, spark_batches

if TYPE_CHECKING:
    from pyhudi.read.scan_plan import ScanRequest
    from pyhudi.read.table_snapshot import TableState

_BATCH_ROWS: Final = 32 * 1024


@dataclass(frozen=True, slots=True)
class Pin:
    """The snapshot a DataFrame was created on.  newest: its last commit; completed: the latest
    completion time of its commits, or their instant time where no completion time is known."""

    newest: InstantTime
    completed: InstantTime

    @classmethod
    def of(cls, state: TableState) -> Pin:
        commits = state.timeline.commits
        ends = (instant.completed_at or instant.time for instant in commits)
        last = commits.last
        return cls(
            last.time if last else BEFORE_ALL_INSTANTS, max(ends, default=BEFORE_ALL_INSTANTS)
        )

    def request(self, state: TableState, request: ScanRequest) -> ScanRequest:
        """The request restricted to this snapshot; unchanged if no newer snapshot exists."""
        if request.as_of is not None or Pin.of(state) == self:
            return request
        if request.changes is None:
            return replace(request, as_of=self.newest)
        if request.changes.until is None:
            return replace(request, changes=replace(request.changes, until=self.completed))
        return request


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

"""Batch reads of `format("pyhudi")`: planned in a Python process of the driver, read by workers.

Spark requests the schema once, when a DataFrame is created, and plans when the DataFrame runs,
once or every time, depending on its caches.  The newest commit is therefore recorded with the
schema, and a DataFrame returns that snapshot whenever it runs.  A partition is a pickled list of
file slices, or of row groups of a large one.
"""

from __future__ import annotations

import logging
import pickle
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyhudi.read.changes.incremental import check_range
from pyhudi.read.filters import as_predicate
from pyhudi.read.positions import SnapshotInstant, current_position, snapshot_now
from pyhudi.read.scan_plan import ReadTask, ScanPlan, ScanRequest, columns_of, plan_scan
from pyhudi.read.table_snapshot import TableState, load_state, read_current
from pyhudi.records import BEFORE_ALL_INSTANTS, InstantTime, Position
from pyhudi.spark.error_lines import line_first
from pyhudi.spark.source.partition_reads import PartitionReader, Slices, read_slices
from pyhudi.spark.source.source_options import ReadRequest, read_request
from pyhudi.spark.types import check_types, to_spark
from pyhudi.timeline.instant import Instant

_TASKS_TARGET: Final = 32
"""Approximate number of partitions of a small table; the planner does not know the core count."""

_PARTITION_BYTES_MIN: Final = 4 << 20
_LARGE_BYTES: Final = 64 << 20
"""Files of a read from which on a faster way is worth a warning: about a million rows."""

_LOG: Final = logging.getLogger("pyhudi")
_warned: set[str] = set()
"""Paths of tables that this process has warned of.  Spark plans the reads of an application in one
process after another, or in a few."""


@dataclass(frozen=True, slots=True)
class Pin:
    """The snapshot a DataFrame was created on.  newest, pending: its newest commit, and the writes
    that were pending; completed: the position of its readers."""

    newest: InstantTime
    pending: tuple[Instant, ...]
    completed: Position

    @classmethod
    def of(cls, state: TableState) -> Pin:
        now = snapshot_now(state) or SnapshotInstant(BEFORE_ALL_INSTANTS)
        return cls(InstantTime(now), now.pending, current_position(state))

    def request(self, state: TableState, request: ScanRequest) -> ScanRequest:
        """The request restricted to this snapshot; unchanged if no newer snapshot exists."""
        if request.as_of is not None or Pin.of(state) == self:
            return request
        if request.changes is None:
            return replace(request, as_of=SnapshotInstant(self.newest, self.pending))
        if request.changes.until is None:
            return replace(request, changes=replace(request.changes, until=self.completed))
        return request


def open_snapshot(options: Mapping[str, str]) -> tuple[StructType, Pin]:
    """The columns that a read returns, meta columns first, and its snapshot.

    Raises TableNotFoundError, OptionError, UserError.
    """
    settings = read_request(options)

    def read(state: TableState) -> tuple[StructType, Pin]:
        request = settings.request
        _check(request, state)
        if request.as_of is not None or request.changes is not None:
            return to_spark(plan_scan(state, request).schema), Pin.of(state)
        schema = state.schema()
        columns = pa.schema([schema.field(name) for name in columns_of(schema, request)])
        return to_spark(columns), Pin.of(state)

    return read_current(lambda: _current_state(settings), read)


def _current_state(settings: ReadRequest) -> TableState:
    return load_state(settings.fs, settings.options.read, for_reading=True)


def _check(request: ScanRequest, state: TableState) -> None:
    """Raise UserError for a requested range of changes that ends before it begins.  A range that
    ends at the frame's snapshot by default may be empty."""
    if request.changes is not None:
        check_range(state, request.changes.since, request.changes.until)


def reader(options: Mapping[str, str], schema: StructType, pin: Pin | None) -> DataSourceReader:
    """The reader for the planner.  pin: None for the newest snapshot.

    It takes no filters: of a DataFrame whose conditions were pushed down once, PySpark (seen in
    4.3) gives later queries without conditions the same partitions (`PythonScanBuilder`).
    """
    return TableReader(read_request(options), schema, pin)


class TableReader(DataSourceReader):
    """Reads the columns of `schema`."""

    def __init__(self, settings: ReadRequest, schema: StructType, pin: Pin | None) -> None:
        self.settings = settings
        self.schema = schema
        self.pin = pin

    @line_first()
    def partitions(self) -> list[InputPartition]:
        """Plan the scan: reads listings, and the footers of files larger than a partition."""
        settings = self.settings
        plan = read_current(lambda: _current_state(settings), self._plan)
        _warn_if_large(plan.tasks, settings.path)
        return list(partitions(plan.tasks, settings.partition_bytes))

    def _plan(self, state: TableState) -> ScanPlan:
        """Raises SchemaError where the schema does not match the table."""
        requested = self.settings.request
        _check(requested, state)
        request = requested if self.pin is None else self.pin.request(state, requested)
        where = as_predicate(request.where, state.schema())
        columns = tuple(self.schema.names)
        plan = plan_scan(state, replace(request, columns=columns, where=where))
        check_types(plan.schema, self.schema)
        return plan

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Batches of a partition, in exactly the types that Spark expects."""
        return read_slices(partition)

    def __reduce__(self) -> Any:
        """Other processes get a reader that loads what plans a scan only if it has to plan."""
        return PartitionReader, (pickle.dumps((type(self), vars(self))),)


def _warn_if_large(tasks: Sequence[ReadTask], path: str) -> None:
    """Log once that Spark's own reader would read the table faster, if its files are large."""
    size = sum(task.slice.size_bytes for task in tasks)
    if size < _LARGE_BYTES or path in _warned:
        return
    _warned.add(path)
    _LOG.warning(
        'format("pyhudi") reads %d MB of %s in Python, which takes a multiple of the time of '
        "Spark's own reader: call pyhudi.spark.enable(spark) once in a session, or use "
        "pyhudi.spark.read(spark, path)",
        size // 1_000_000,
        path,
    )


def partitions(tasks: Sequence[ReadTask], bytes_max: int) -> Iterator[Slices]:
    """Tasks grouped into partitions of about equal size, none much above `bytes_max`: small file
    slices are combined, large ones without logs are split by row groups."""
    total = sum(task.slice.size_bytes for task in tasks)
    target = min(bytes_max, max(_PARTITION_BYTES_MIN, total // _TASKS_TARGET))
    group: list[ReadTask] = []
    size = 0
    for task in sorted(tasks, key=lambda t: (-t.slice.size_bytes, t.slice.group)):
        if task.slice.size_bytes > bytes_max:
            yield from _cut(task, bytes_max)
            continue
        if group and size + task.slice.size_bytes > target:
            yield Slices(group)
            group, size = [], 0
        group.append(task)
        size += task.slice.size_bytes
    if group:
        yield Slices(group)


def _cut(task: ReadTask, bytes_max: int) -> Iterator[Slices]:
    """One file slice split by row groups into partitions of at most about `bytes_max`."""
    parts = list(task.split())
    task_count = max(1, -(-task.slice.size_bytes // bytes_max))
    step = max(1, -(-len(parts) // task_count))
    for start in range(0, len(parts), step):
        yield Slices(parts[start : start + step])

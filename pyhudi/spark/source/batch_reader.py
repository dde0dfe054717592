"""Batch reads of `format("pyhudi")`: planned in a process of the driver, read by workers.

Spark asks for the schema once, when a frame is made, and plans when the frame runs, once or every
time, as its caches have it.  So the newest commit is noted with the schema, and a frame gives that
snapshot whenever it runs.  A partition is a pickled list of slices, or of row groups of a large
one.
"""

from __future__ import annotations

import pickle
import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceReader, InputPartition
from pyspark.sql.types import StructType

from pyhudi.errors import SchemaError, line_first
from pyhudi.read.changes.incremental import check_range
from pyhudi.read.scan_plan import ReadTask, ScanPlan, ScanRequest, columns_of, plan_scan, read_task
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.records import BEFORE_ALL_INSTANTS, InstantTime
from pyhudi.spark.source.filters import as_expression, both, keys_told
from pyhudi.spark.source.source_options import ReadAsked, read_asked
from pyhudi.spark.types import as_spark, spark_batches, to_spark

_BATCH_ROWS: Final = 32 * 1024
_TASKS_WANTED: Final = 32
"""A small table is cut into about so many partitions; the planner is not told of cores."""

_PARTITION_BYTES_MIN: Final = 4 << 20
_PUSHING: Final = "pyspark.sql.worker.data_source_pushdown_filters"


@dataclass(frozen=True, slots=True)
class Pin:
    """The snapshot a frame was made on.  newest: its last commit; completed: when that was, or any
    before it, by the times the table knows."""

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

    def request(self, state: TableState, asked: ScanRequest) -> ScanRequest:
        """What was asked, of this snapshot; as it stands where there is no newer one."""
        if asked.as_of is not None or Pin.of(state) == self:
            return asked
        if asked.changes is None:
            return replace(asked, as_of=self.newest)
        if asked.changes.until is None:
            return replace(asked, changes=replace(asked.changes, until=self.completed))
        return asked


def open_snapshot(options: Mapping[str, str]) -> tuple[StructType, Pin]:
    """The columns a read gives, meta columns first, and the snapshot it is of.

    Raises TableNotFoundError, OptionError, UserError.
    """
    asked = read_asked(options)
    state = load_state(asked.fs, asked.options.read, for_reading=True)
    request = asked.request
    _check(request, state)
    if request.as_of is not None or request.changes is not None:
        return to_spark(plan_scan(state, request).schema), Pin.of(state)
    schema = state.schema()
    columns = pa.schema([schema.field(name) for name in columns_of(schema, request)])
    return to_spark(columns), Pin.of(state)


def _check(request: ScanRequest, state: TableState) -> None:
    """Raise UserError for a range of changes that ends before it begins, as it was requested: one
    whose end is that of the frame's snapshot may be empty."""
    if request.changes is not None:
        check_range(request.changes.since, request.changes.until, state.zone)


def reader(options: Mapping[str, str], schema: StructType, pin: Pin | None) -> DataSourceReader:
    """The reader for a planner: with filters where the session hands any down.  pin: None for the
    newest snapshot.

    PySpark refuses a reader that takes filters in a session that hands none down, and tells
    readers by nothing but the module that asks.
    """
    asked = read_asked(options)
    kind = FilteringReader if _hands_filters_down() else TableReader
    return kind(asked, schema, pin)


def _hands_filters_down() -> bool:
    main = getattr(sys.modules.get("__main__"), "__spec__", None)
    return _PUSHING in sys.modules or getattr(main, "name", None) == _PUSHING


class Slices(InputPartition):
    """Pickled read tasks."""

    def __init__(self, tasks: Sequence[ReadTask]) -> None:
        super().__init__(pickle.dumps(list(tasks), pickle.HIGHEST_PROTOCOL))

    @property
    def tasks(self) -> list[ReadTask]:
        found: list[ReadTask] = pickle.loads(self.value)
        return found


class TableReader(DataSourceReader):
    """Reads the columns of `schema`."""

    def __init__(self, asked: ReadAsked, schema: StructType, pin: Pin | None) -> None:
        self.asked = asked
        self.schema = schema
        self.pin = pin
        self.filters: tuple[Any, ...] = ()

    @line_first()
    def partitions(self) -> list[InputPartition]:
        """Plans the scan: listings and the footers of files larger than a partition."""
        asked = self.asked
        state = load_state(asked.fs, asked.options.read, for_reading=True)
        _check(asked.request, state)
        request = asked.request if self.pin is None else self.pin.request(state, asked.request)
        plan = plan_batch_scan(state, request, self.schema, self.filters)
        return list(partitions(plan.tasks, asked.partition_bytes))

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Batches of a partition, in exactly the types Spark expects; runs on workers."""
        return read_slices(partition)


class FilteringReader(TableReader):
    """A reader that is handed filters; Spark applies them again."""

    def pushFilters(self, filters: list[Any]) -> Iterable[Any]:
        self.filters = tuple(filters)
        return filters


def plan_batch_scan(
    state: TableState, request: ScanRequest, schema: StructType, filters: Sequence[Any]
) -> ScanPlan:
    """The scan of the columns of `schema`, less what the filters rule out.

    Raises SchemaError where the schema is not that of the table.
    """
    stored = state.schema()
    where = both(as_expression(filters, stored), keys_told(filters, state.config, stored))
    mine = replace(request, columns=tuple(schema.names), where=both(request.where, where))
    plan = plan_scan(state, mine)
    check_types(plan.schema, schema)
    return plan


def check_types(stored: pa.Schema, schema: StructType) -> None:
    pairs = [
        (theirs.name, theirs.dataType, ours.dataType)
        for theirs, ours in zip(schema.fields, to_spark(stored).fields, strict=True)
    ]
    wrong = [
        f"{name}: {theirs.simpleString()}, the table has {ours.simpleString()}"
        for name, theirs, ours in pairs
        if theirs != ours
    ]
    if wrong:
        raise SchemaError(
            "the schema given is not the table's", columns="; ".join(wrong),
            hint="leave schema() out, or cast afterwards",
        )  # fmt: skip


def partitions(tasks: Sequence[ReadTask], bytes_max: int) -> Iterator[Slices]:
    """Tasks dealt to partitions of about equal size, none much above `bytes_max`: small slices
    together, large ones without logs by row groups."""
    total = sum(task.slice.size_bytes for task in tasks)
    target = min(bytes_max, max(_PARTITION_BYTES_MIN, total // _TASKS_WANTED))
    held: list[ReadTask] = []
    size = 0
    for task in sorted(tasks, key=lambda t: (-t.slice.size_bytes, t.slice.group)):
        if task.slice.size_bytes > bytes_max:
            yield from _cut(task, bytes_max)
            continue
        if held and size + task.slice.size_bytes > target:
            yield Slices(held)
            held, size = [], 0
        held.append(task)
        size += task.slice.size_bytes
    if held:
        yield Slices(held)


def _cut(task: ReadTask, bytes_max: int) -> Iterator[Slices]:
    """One slice by its row groups, as many together as make up a partition."""
    pieces = list(task.pieces())
    wanted = max(1, -(-task.slice.size_bytes // bytes_max))
    step = max(1, -(-len(pieces) // wanted))
    for start in range(0, len(pieces), step):
        yield Slices(pieces[start : start + step])


def read_slices(partition: InputPartition) -> Iterator[pa.RecordBatch]:
    """Batches of a partition.  Memory: a row group, or a whole slice where it has logs."""
    if not isinstance(partition, Slices):
        return  # what PySpark makes of no partitions at all
    with line_first():
        for task in partition.tasks:
            for piece in task.pieces():
                schema = as_spark(piece.spec.schema)
                yield from spark_batches(read_task(piece), schema, rows=_BATCH_ROWS)

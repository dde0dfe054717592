"""Streams whose batches are read by the tasks of Spark."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from logging import getLogger
from typing import Any

import pyarrow as pa
from pyspark import cloudpickle
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession

from pyhudi.errors import BadRowsError, SchemaError
from pyhudi.ingest.bad_rows import BadRows
from pyhudi.ingest.retries import Retries
from pyhudi.ingest.source import PlansSplits, RowSource, SourceBatch, SourceLimits
from pyhudi.ingest.status import StatusReceiver
from pyhudi.ingest.stream import Stream, Transform
from pyhudi.spark.frames import map_arrow, numbers
from pyhudi.spark.job_submission import remote
from pyhudi.spark.streams.split_reader import SplitWork, split_batches
from pyhudi.spark.table import SparkTable, open_table
from pyhudi.spark.types import as_spark, to_spark
from pyhudi.spark.worker import TaskOrder
from pyhudi.write.write_report import WriteReport

_LOG = getLogger("pyhudi.ingest.spark")


def ingest(
    spark: SparkSession,
    source: RowSource,
    table: SparkTable | str | os.PathLike[str],
    *,
    operation: str = "upsert",
    max_rows: int | None = None,
    max_bytes: int | None = 1 << 30,
    transform: Transform | Sequence[Transform] | None = None,
    bad_rows: BadRows = "fail",
    max_bad_rows: int | None = None,
    max_bad_share: float | None = None,
    skip_existing: bool = False,
    checkpoint: str | None = None,
    ignore_checkpoint: str | None = None,
    max_seconds: float | None = None,
    continuous: bool = False,
    interval_seconds: float = 0.0,
    stop: Callable[[], bool] = lambda: False,
    on_batch: Callable[[WriteReport], None] = lambda report: None,
    on_status: StatusReceiver | Sequence[StatusReceiver] = (),
    retries: Retries | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> None:
    """Write the rows of a source to a table until there are no new ones, or `continuous`ly.

    table: of `open_table`, or its path.  The other arguments are those of `pyhudi.ingest.Stream`
    and of its method `run`.  Table services run after batches, as the options of the table say.

    Each split of a batch (a range of one partition of a topic, a file) is read by a task.  The
    driver reads the rows of a batch itself if a transform is given, if bad rows are not to fail the
    batch, if the source has no splits, and if tasks find rows that do not fit the table's columns.
    """
    if not isinstance(table, SparkTable):
        table = open_table(spark, table, options=options, storage_options=storage_options)
    stream = SparkStream(
        source,
        table,
        operation,
        max_rows,
        max_bytes,
        transform,
        bad_rows,
        max_bad_rows,
        max_bad_share,
        skip_existing,
        checkpoint,
        ignore_checkpoint,
        max_seconds=max_seconds,
        spark=spark,
    )
    stream.run(
        continuous=continuous,
        interval_seconds=interval_seconds,
        stop=stop,
        on_batch=on_batch,
        on_status=on_status,
        retries=retries,
    )


@dataclass(frozen=True)
class SparkStream(Stream):
    """A Stream whose table is of Spark.  spark: None: the driver reads all rows."""

    spark: SparkSession | None = None

    def _next(self) -> tuple[WriteReport | None, str | None]:
        if not self._reads_in_tasks:
            return super()._next()
        try:
            return super()._next()
        except (BadRowsError, SchemaError, PySparkException) as error:
            # An error of a task has no type, and new fields change the table's schema.
            _LOG.warning("the driver reads a batch that tasks could not: %s", error)
            return replace(self, spark=None)._next()

    @property
    def _reads_in_tasks(self) -> bool:
        return self.spark is not None and not self._transforms and self.bad_rows == "fail"

    def _read(
        self, start: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        if self._reads_in_tasks and isinstance(self.source, PlansSplits):
            return self.source.plan(start, limits, schema)
        return super()._read(start, limits, schema)

    def _write(
        self, batch: SourceBatch, before: str | None, start: str | None, schema: pa.Schema
    ) -> WriteReport:
        if not self._reads_in_tasks or not batch.splits:
            return super()._write(batch, before, start, schema)
        return self.table.ingest(
            self._frame(batch),
            checkpoint=batch.checkpoint if self.saves_checkpoint else None,
            after=before,
            operation=self.operation,
            skip_existing=self.skip_existing,
            reset_key=self.checkpoint,
            ignore_key=self.ignore_checkpoint,
        )

    def _frame(self, batch: SourceBatch) -> DataFrame:
        assert self.spark is not None
        dumps: Callable[[Any], bytes] = cloudpickle.dumps
        work = SplitWork(tuple(map(dumps, batch.splits)), as_spark(batch.rows.schema))
        count = len(batch.splits)
        tasks = remote(TaskOrder(split_batches, work), "rows")
        return map_arrow(
            numbers(self.spark, count, slices=count), tasks, to_spark(batch.rows.schema)
        )

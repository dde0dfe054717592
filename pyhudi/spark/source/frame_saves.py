"""Reads and writes of `format("pyhudi")` in a session that `enable` changed.

The same options and results as those of the data source, but planned in the process of the
session: Spark's own reader reads what it can, and tasks of the session share the whole write.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType

from pyhudi.errors import UserError
from pyhudi.read.changes.incremental import check_range
from pyhudi.read.scan_plan import plan_scan
from pyhudi.read.table_snapshot import load_state
from pyhudi.spark.scan import scan_frame
from pyhudi.spark.source.save_attempts import attempted, logged
from pyhudi.spark.source.save_input import frame_input
from pyhudi.spark.source.save_mode import SaveMode, SaveRequest, check, save, save_request
from pyhudi.spark.source.source_options import read_request
from pyhudi.spark.stream_batches import query_of
from pyhudi.spark.types import check_types, to_arrow
from pyhudi.write.input.stream_idempotency import StreamBatch
from pyhudi.write.write_report import WriteReport


def load_frame(
    spark: SparkSession, options: Mapping[str, str], schema: StructType | None
) -> DataFrame:
    """The rows that the options describe.  Every use of the frame reads the same snapshot.

    schema: some of the table's columns, or None for all.
    Raises TableNotFoundError, OptionError, SchemaError, UserError.
    """
    settings = read_request(options)
    state = load_state(settings.fs, settings.options.read, for_reading=True)
    request = settings.request
    if request.changes is not None:
        check_range(state, request.changes.since, request.changes.until)
    if schema is not None:
        request = replace(request, columns=tuple(schema.names))
    plan = plan_scan(state, request)
    if schema is not None:
        check_types(plan.schema, schema)
    return scan_frame(spark, state, plan)


def save_frame(frame: DataFrame, options: Mapping[str, str]) -> WriteReport:
    """Write a DataFrame as the options describe.  Raises the errors of the table's methods."""
    request = save_request(options, overwrite=False)
    check(request, to_arrow(frame.schema))
    report = _saved(frame, request)
    logged(report, request.options)
    return report


def batch_function(
    options: Mapping[str, str], *, overwrite: bool
) -> Callable[[DataFrame, int], None]:
    """A function for `foreachBatch` that writes each batch of a stream once.

    overwrite: every batch is the whole result (complete mode).
    """
    request = save_request(options, overwrite=False)
    if request.mode is not SaveMode.APPEND:
        raise UserError("save mode not supported by streams", saveMode=request.mode.value)
    if overwrite:
        request = replace(request, operation="insert_overwrite_table")

    def write(frame: DataFrame, number: int) -> None:
        identifier = request.options.stream.identifier or query_of(frame)
        marks = StreamBatch(identifier, number).metadata
        mine = replace(request, hoodie={**request.hoodie, **marks})
        logged(attempted(lambda: _saved(frame, mine), mine.options.stream), mine.options)

    return write


def _saved(frame: DataFrame, request: SaveRequest) -> WriteReport:
    fs = request.fs
    with frame_input(fs, frame) as batch:
        return save(fs, request, batch)

"""Functions for `foreachBatch` that write batches of a stream to a table."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from pyspark.sql import DataFrame

from pyhudi.api.input_conversion import IndexName, TableTypeName
from pyhudi.errors import TableNotFoundError, UserError
from pyhudi.options import parse_options
from pyhudi.spark.frames import is_connect
from pyhudi.spark.source.save_attempts import logged
from pyhudi.spark.table import SparkTable, create_table, open_table
from pyhudi.write.input.stream_idempotency import StreamBatch

_QUERY: Final = "sql.streaming.queryId"
_VERBS: Final = ("upsert", "insert", "bulk_insert", "delete", "insert_overwrite",
                 "insert_overwrite_table")  # fmt: skip


def foreach_batch(
    path: str | os.PathLike[str],
    *,
    operation: str = "upsert",
    query: str | None = None,
    record_key: str | Sequence[str] | None = None,
    partition_by: str | Sequence[str] = (),
    ordering: str | Sequence[str] | None = None,
    table_type: TableTypeName = "cow",
    index: IndexName = "record",
    name: str | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Callable[[DataFrame, int], None]:
    """A function for `writeStream.foreachBatch(...)` that writes each batch once.

    For batches of any size: the executors share the work.  A batch that Spark replays is detected
    by the stream identifier and batch number in the commits, and skipped.  query: the stream
    identifier; None uses the id of the streaming query, which is not available on Spark Connect.
    The other arguments are those of `upsert`.  Raises UserError for an unknown operation.
    """
    if operation not in _VERBS:
        raise UserError("unknown operation", operation=operation, hint="use " + ", ".join(_VERBS))

    def write(frame: DataFrame, batch: int) -> None:
        parsed = parse_options(options)
        identifier = query or parsed.stream.identifier or query_of(frame)
        marked = {**(options or {}), **StreamBatch(identifier, batch).metadata}
        table = _table(frame, marked)
        changes = {} if operation == "delete" else {"schema_mode": "widen"}  # as Apache Hudi
        logged(getattr(table, operation)(frame, **changes), parsed)

    def _table(frame: DataFrame, marked: Mapping[str, Any]) -> SparkTable:
        spark = frame.sparkSession
        try:
            return open_table(spark, path, options=marked, storage_options=storage_options)
        except TableNotFoundError:
            if record_key is None or operation == "delete":
                raise
        return create_table(
            spark,
            path,
            frame,
            record_key=record_key,
            partition_by=partition_by,
            ordering=ordering,
            table_type=table_type,
            index=index,
            name=name,
            options=marked,
            storage_options=storage_options,
        )

    return write


def query_of(frame: DataFrame) -> str:
    """The id of the streaming query that runs this batch."""
    spark = frame.sparkSession
    found = None if is_connect(spark) else spark.sparkContext.getLocalProperty(_QUERY)
    if found is None:
        raise UserError(
            "the streaming query of this batch is unknown",
            hint="pass query=: foreach_batch(path, query='a name')",
        )
    return str(found)

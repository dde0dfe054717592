"""Streams into tables: `writeStream.format("pyhudi")`, and a function for `foreachBatch`.

Each batch is one commit that says whose batch it is (`write/input/stream_idempotency`), so a batch
that is replayed after a crash is found and passed over: every row counts once, whatever the
operation.  Workers park the rows in folders owned by the stream; the commit of a batch removes
them, and what older runs of the stream have left.  What fails, fails the stream, after
`hoodie.datasource.write.streaming.retry.count` more attempts at what may mend.
"""

from __future__ import annotations

import hashlib
import logging
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from pyhudi.errors import (
    LockError,
    PyhudiError,
    StorageError,
    UserError,
    WriteConflictError,
    line_first,
)
from pyhudi.options import StreamOptions
from pyhudi.spark.source.batch_writer import ParkedBatch, logged, parked_batch, parked_files
from pyhudi.spark.source.save_mode import SaveAsked, SaveMode, save, save_asked
from pyhudi.spark.types import to_arrow
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import parked_of, parking_folder
from pyhudi.write.input.stream_idempotency import StreamBatch
from pyhudi.write.write_report import WriteReport

_LOG: Final = logging.getLogger("pyhudi")

_QUERY: Final = "sql.streaming.queryId"


def sink(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> TableSink:
    """The writer of a stream.  overwrite: every batch is the whole result (complete mode)."""
    asked = save_asked(options, overwrite=False)
    if asked.mode is not SaveMode.APPEND:
        raise UserError("a stream appends or replaces all rows", saveMode=asked.mode.value)
    if overwrite:
        asked = replace(asked, operation="insert_overwrite_table")
    return TableSink(asked, to_arrow(schema))


@dataclass(frozen=True, slots=True)
class StreamPart(ParkedBatch):
    """What one task of a batch parked.  identifier: whose batch it is."""

    identifier: str
    folder: str


class TableSink(DataSourceStreamArrowWriter):
    """Parks the rows of each batch and writes them when every task has."""

    def __init__(self, asked: SaveAsked, schema: pa.Schema) -> None:
        self.asked = asked
        self.schema = schema

    @line_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamPart:
        """Runs on workers."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY)
        identifier = self.asked.options.stream.identifier or query
        if identifier is None:
            raise UserError(
                "Spark does not tell whose batch this is",
                hint="option hoodie.datasource.write.streaming.checkpoint.identifier",
            )
        folder = parking_folder(_owner(identifier))
        done = parked_batch(self.asked, folder, iterator)
        return StreamPart(done.files, done.is_whole, identifier, folder)

    @line_first()
    def commit(self, messages: list[Any], batchId: int) -> None:
        parts = [part for part in messages if part is not None]
        if not parts:
            return
        fs = self.asked.fs
        batch = StreamBatch(parts[0].identifier, batchId)
        try:
            files = parked_files(self.asked, parts)
            mine = replace(self.asked, hoodie={**self.asked.hoodie, **batch.metadata})
            logged(attempted(lambda: save(fs, mine, self.schema, files), mine.options.stream))
        finally:
            remove_parked(fs, parts[0].identifier, until=max(part.folder for part in parts))

    @line_first()
    def abort(self, messages: list[Any], batchId: int) -> None:
        fs = self.asked.fs
        for part in messages:
            if part is not None:
                fs.delete_folder(part.folder)


def _owner(identifier: str) -> str:
    return hashlib.sha256(identifier.encode()).hexdigest()[:16]


def remove_parked(fs: FileSystem, identifier: str, *, until: str) -> None:
    """Remove what a stream has parked up to a folder of the batch that is through with.

    Later folders are of later batches: this process may be one that was given up for dead.
    """
    for folder in parked_of(fs, _owner(identifier)):
        if folder <= until:
            fs.delete_folder(folder)


def attempted(write: Callable[[], WriteReport], options: StreamOptions) -> WriteReport:
    """One write, tried again where another attempt may mend what was wrong."""
    for left in range(options.retry_count, -1, -1):
        try:
            return write()
        except (StorageError, LockError, WriteConflictError) as error:
            if not left or not _may_mend(error):
                raise
            _LOG.warning("a batch is tried again, %d attempts left: %s", left, error)
            time.sleep(options.retry_seconds)
    raise AssertionError("the last attempt returns or raises")


def _may_mend(error: PyhudiError) -> bool:
    return not isinstance(error, StorageError) or error.retryable

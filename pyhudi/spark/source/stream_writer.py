"""Streaming writes: `writeStream.format("pyhudi")`.

Each batch is one commit that records its stream and batch number
(`write/input/stream_idempotency`), so a batch that is replayed after a crash is detected and
skipped: every row is written once, for all operations.  Workers spill rows to folders owned by the
stream; the commit of a batch removes them, and those that older runs of the stream left.  Errors
stop the stream; errors that a retry may resolve do so only after
`hoodie.datasource.write.streaming.retry.count` more attempts.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

import pyarrow as pa
from pyspark import TaskContext
from pyspark.sql.datasource import DataSourceStreamArrowWriter
from pyspark.sql.types import StructType

from pyhudi.errors import UserError
from pyhudi.spark.error_lines import line_first
from pyhudi.spark.source.batch_writer import StagedBatch, input_of_batches, stage_records
from pyhudi.spark.source.save_attempts import attempted, logged
from pyhudi.spark.source.save_mode import SaveMode, SaveRequest, save, save_request
from pyhudi.spark.types import to_arrow
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import new_staging_folder, staging_folders_of
from pyhudi.write.input.stream_idempotency import StreamBatch

_QUERY: Final = "sql.streaming.queryId"


def sink(options: Mapping[str, str], schema: StructType, *, overwrite: bool) -> TableSink:
    """The writer of a stream.  overwrite: every batch is the whole result (complete mode)."""
    settings = save_request(options, overwrite=False)
    if settings.mode is not SaveMode.APPEND:
        raise UserError("save mode not supported by streams", saveMode=settings.mode.value)
    if overwrite:
        settings = replace(settings, operation="insert_overwrite_table")
    return TableSink(settings, to_arrow(schema))


@dataclass(frozen=True, slots=True)
class StreamPart(StagedBatch):
    """The files that one task of a batch spilled.  identifier: the stream of the batch."""

    identifier: str
    folder: str


class TableSink(DataSourceStreamArrowWriter):
    """Spills the rows of each batch, and writes them to the table when every task is done."""

    def __init__(self, settings: SaveRequest, schema: pa.Schema) -> None:
        self.settings = settings
        self.schema = schema

    @line_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StreamPart:
        """Runs on workers."""
        context = TaskContext.get()
        query = None if context is None else context.getLocalProperty(_QUERY)
        identifier = self.settings.options.stream.identifier or query
        if identifier is None:
            raise UserError(
                "the streaming query of this batch is unknown",
                hint="set option hoodie.datasource.write.streaming.checkpoint.identifier",
            )
        folder = new_staging_folder(_owner(identifier))
        done = stage_records(self.settings, folder, iterator)
        return StreamPart(done.files, identifier, folder)

    @line_first()
    def commit(self, messages: list[Any], batchId: int) -> None:
        parts = [part for part in messages if part is not None]
        if not parts:
            return
        fs = self.settings.fs
        batch = StreamBatch(parts[0].identifier, batchId)
        try:
            rows = input_of_batches(self.settings, self.schema, parts)
            mine = replace(self.settings, hoodie={**self.settings.hoodie, **batch.metadata})
            logged(attempted(lambda: save(fs, mine, rows), mine.options.stream), mine.options)
        finally:
            remove_staged(fs, parts[0].identifier, until=max(part.folder for part in parts))

    @line_first()
    def abort(self, messages: list[Any], batchId: int) -> None:
        fs = self.settings.fs
        for part in messages:
            if part is not None:
                fs.delete_folder(part.folder)


def _owner(identifier: str) -> str:
    return hashlib.sha256(identifier.encode()).hexdigest()[:16]


def remove_staged(fs: FileSystem, identifier: str, *, until: str) -> None:
    """Remove the spilled rows of a stream, up to the folder of the completed batch.

    Later folders belong to later batches: Spark may have replaced this process already.
    """
    for folder in staging_folders_of(fs, _owner(identifier)):
        if folder <= until:
            fs.delete_folder(folder)

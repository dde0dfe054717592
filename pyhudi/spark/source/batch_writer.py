"""Batch writes of `format("pyhudi")`: workers spill rows to files, one driver process writes them.

Spark provides no shuffle to a data source, so each task returns files of unsorted rows; the commit
keys, tags and writes them in threads of one process.  A batch above the limits of memory is
spilled to disk, with a warning that refers to `pyhudi.spark.enable`, which distributes the write.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyhudi.spark.error_lines import line_first
from pyhudi.spark.source.save_attempts import logged
from pyhudi.spark.source.save_input import FileInput
from pyhudi.spark.source.save_mode import SaveRequest, check, save, save_request
from pyhudi.spark.types import to_arrow
from pyhudi.storage.spill import new_staging_folder
from pyhudi.write.input.batch import in_bounded_batches
from pyhudi.write.input.staged_rows import StagedFile, stage_tables

_LOG: Final = logging.getLogger("pyhudi")


def writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceArrowWriter:
    """The writer of a batch.  Raises errors that can be detected before any row is computed."""
    settings = save_request(options, overwrite=overwrite)
    check(settings, to_arrow(schema))
    return TableWriter(settings, to_arrow(schema))


@dataclass(frozen=True, slots=True)
class StagedBatch(WriterCommitMessage):
    """The files that one task spilled."""

    files: tuple[StagedFile, ...]


class TableWriter(DataSourceArrowWriter):
    """Spills rows to one folder, and writes them to the table when every task is done."""

    def __init__(self, settings: SaveRequest, schema: pa.Schema) -> None:
        self.settings = settings
        self.schema = schema
        self.folder = new_staging_folder()

    @line_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> StagedBatch:
        """Runs on workers."""
        return stage_records(self.settings, self.folder, iterator)

    @line_first()
    def commit(self, messages: list[Any]) -> None:
        fs = self.settings.fs
        try:
            rows = input_of_batches(self.settings, self.schema, messages)
            logged(save(fs, self.settings, rows), self.settings.options)
        finally:
            fs.delete_folder(self.folder)

    @line_first()
    def abort(self, messages: list[Any]) -> None:
        self.settings.fs.delete_folder(self.folder)


def stage_records(
    settings: SaveRequest, folder: str, batches: Iterator[pa.RecordBatch]
) -> StagedBatch:
    """Spill the rows of a task.  Memory: some tens of megabytes."""
    return StagedBatch(tuple(stage_tables(settings.fs, folder, in_bounded_batches(batches))))


def input_of_batches(
    settings: SaveRequest, schema: pa.Schema, messages: Sequence[StagedBatch | None]
) -> FileInput:
    """All rows of a batch.  Logs a warning for a batch above the limits of memory."""
    files = tuple(file for message in messages if message is not None for file in message.files)
    rows = sum(file.row_count for file in files)
    size = sum(file.byte_count for file in files)
    fits = rows <= settings.limits.rows_max and size <= settings.limits.bytes_max
    if not fits:
        _LOG.warning(
            "one process writes a batch of %d rows (%d bytes) to %s, spilled to disk; "
            "pyhudi.spark.enable(spark) or pyhudi.spark.upsert(df, path) distribute the write",
            rows,
            size,
            settings.path,
        )
    return FileInput(schema, files, fits_memory=fits)

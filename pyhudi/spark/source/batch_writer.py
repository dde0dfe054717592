"""Batch writes of `format("pyhudi")`: workers spill rows to files, one driver process writes them.

Spark provides no shuffle to a data source, so each task returns files of unsorted rows; the commit
keys, tags and writes them in threads of one process.  The batch size is therefore limited; the
error above the limit refers to `pyhudi.spark.upsert`, which distributes the whole write.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from pyspark.sql.datasource import DataSourceArrowWriter, WriterCommitMessage
from pyspark.sql.types import StructType

from pyhudi.errors import UserError, line_first
from pyhudi.spark.source.save_mode import SaveRequest, check, save, save_request
from pyhudi.spark.types import to_arrow
from pyhudi.storage.spill import new_staging_folder
from pyhudi.write.input.batch import in_bounded_batches
from pyhudi.write.input.staged_rows import StagedFile, stage_tables
from pyhudi.write.write_report import WriteReport

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
    """The files that one task spilled; `is_whole` is false if it stopped above the limits."""

    files: tuple[StagedFile, ...]
    is_whole: bool


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
            files = files_of_batches(self.settings, messages)
            logged(save(fs, self.settings, self.schema, files))
        finally:
            fs.delete_folder(self.folder)

    @line_first()
    def abort(self, messages: list[Any]) -> None:
        self.settings.fs.delete_folder(self.folder)


def stage_records(
    settings: SaveRequest, folder: str, batches: Iterator[pa.RecordBatch]
) -> StagedBatch:
    """Spill the rows of a task, up to the limits of a batch: a larger batch is rejected."""
    files: list[StagedFile] = []
    for staged_file in stage_tables(settings.fs, folder, in_bounded_batches(batches)):
        files.append(staged_file)
        if not settings.limits.allow(files):
            return StagedBatch(tuple(files), is_whole=False)
    return StagedBatch(tuple(files), is_whole=True)


def files_of_batches(
    settings: SaveRequest, messages: Sequence[StagedBatch | None]
) -> tuple[StagedFile, ...]:
    """All files of a batch.  Raises UserError if the batch is too large."""
    came = [message for message in messages if message is not None]
    files = tuple(file for message in came for file in message.files)
    if not settings.limits.allow(files) or not all(message.is_whole for message in came):
        raise UserError(
            "the batch is too large for one process",
            path=settings.path,
            rows_max=settings.limits.rows_max,
            bytes_max=settings.limits.bytes_max,
            hint="use pyhudi.spark.upsert(df, path, ...) or methods of pyhudi.spark.open_table to "
            "distribute the write; options maxBatchBytes and maxBatchRows raise the limits",
        )
    return files


def logged(report: WriteReport) -> None:
    """Log the report, as Spark's `save` returns nothing."""
    _LOG.info("%s", report.to_dict())

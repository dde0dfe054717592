"""Batch writes of `format("pyhudi")`: workers park the rows, one process of the driver writes them.

Spark gives a data source no shuffle, so what a task returns is files of rows as they came; the
commit keys, tags and writes them in the threads of one process.  That is for batches of a size;
above it the error names `pyhudi.spark.upsert`, which spreads all of it.
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
from pyhudi.spark.source.save_mode import SaveAsked, check, save, save_asked
from pyhudi.spark.types import to_arrow
from pyhudi.storage.spill import parking_folder
from pyhudi.write.input.batch import in_bounded_batches
from pyhudi.write.input.staged_rows import Parked, park
from pyhudi.write.write_report import WriteReport

_LOG: Final = logging.getLogger("pyhudi")


def writer(
    options: Mapping[str, str], schema: StructType, *, overwrite: bool
) -> DataSourceArrowWriter:
    """The writer of a batch.  Raises what can be said before any row is computed."""
    asked = save_asked(options, overwrite=overwrite)
    check(asked, to_arrow(schema))
    return TableWriter(asked, to_arrow(schema))


@dataclass(frozen=True, slots=True)
class ParkedBatch(WriterCommitMessage):
    """What one task parked; `is_whole` is false where it gave up above the limits."""

    files: tuple[Parked, ...]
    is_whole: bool


class TableWriter(DataSourceArrowWriter):
    """Parks rows in one folder, and writes them when every task has."""

    def __init__(self, asked: SaveAsked, schema: pa.Schema) -> None:
        self.asked = asked
        self.schema = schema
        self.folder = parking_folder()

    @line_first()
    def write(self, iterator: Iterator[pa.RecordBatch]) -> ParkedBatch:
        """Runs on workers."""
        return parked_batch(self.asked, self.folder, iterator)

    @line_first()
    def commit(self, messages: list[Any]) -> None:
        fs = self.asked.fs
        try:
            files = parked_files(self.asked, messages)
            logged(save(fs, self.asked, self.schema, files))
        finally:
            fs.delete_folder(self.folder)

    @line_first()
    def abort(self, messages: list[Any]) -> None:
        self.asked.fs.delete_folder(self.folder)


def parked_batch(asked: SaveAsked, folder: str, batches: Iterator[pa.RecordBatch]) -> ParkedBatch:
    """Park the rows of a task, up to the limits of a batch: more would be refused anyway."""
    files: list[Parked] = []
    for parked in park(asked.fs, folder, in_bounded_batches(batches)):
        files.append(parked)
        if not asked.limits.allow(files):
            return ParkedBatch(tuple(files), is_whole=False)
    return ParkedBatch(tuple(files), is_whole=True)


def parked_files(asked: SaveAsked, messages: Sequence[ParkedBatch | None]) -> tuple[Parked, ...]:
    """Every file of a batch.  Raises UserError where the batch is too large."""
    came = [message for message in messages if message is not None]
    files = tuple(file for message in came for file in message.files)
    if not asked.limits.allow(files) or not all(message.is_whole for message in came):
        raise UserError(
            "the batch is too large to be written by one process",
            path=asked.path,
            rows_max=asked.limits.rows_max,
            bytes_max=asked.limits.bytes_max,
            hint="pyhudi.spark.upsert(df, path, ...) and the verbs of pyhudi.spark.open_table "
            "spread it over the workers; options maxBatchBytes and maxBatchRows raise the limits",
        )
    return files


def logged(report: WriteReport) -> None:
    """Spark's `save` returns nothing, so the log has the report."""
    _LOG.info("%s", report.to_dict())

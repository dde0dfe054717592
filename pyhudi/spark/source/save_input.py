"""The rows of a save: staged in files by tasks of a data source, or a DataFrame."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Protocol

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame

from pyhudi.engine import Engine, LocalEngine
from pyhudi.keygen.generators import KeyRule, partition_paths
from pyhudi.spark.engine import SparkEngine
from pyhudi.spark.frames import collected, column_at
from pyhudi.spark.row_staging import SparkKeys, SparkRows
from pyhudi.spark.types import to_arrow
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import FileStaging, Staging, new_staging_folder
from pyhudi.write.input.batch import BatchChunk, KeyPlan, Rows
from pyhudi.write.input.row_replay import ReplayedRows
from pyhudi.write.input.staged_rows import StagedFile, StagedKeys, StagedRows, partitions_of


class SaveInput(Protocol):
    """One batch, which a save may plan twice: in memory first, then on the table.

    schema: of the rows.  engine: runs the tasks of the write.
    """

    @property
    def schema(self) -> pa.Schema: ...

    @property
    def engine(self) -> Engine: ...

    @property
    def is_empty(self) -> bool:
        """Whether the batch is known to have no rows."""
        ...

    def rows(self) -> Rows: ...

    def keys(self, rule: KeyRule, has_partition_columns: bool) -> Rows:
        """The records to delete, by the key columns of the rows."""
        ...

    def partitions(self, rule: KeyRule) -> list[str]:
        """The partition paths of the rows."""
        ...


@dataclass(frozen=True, slots=True)
class FileInput:
    """Rows that tasks of the data source staged; written by threads of this process.

    fits_memory: whether the write may hold the batch in memory; otherwise it spills to disk.
    """

    schema: pa.Schema
    files: tuple[StagedFile, ...]
    fits_memory: bool = True

    @property
    def engine(self) -> Engine:
        return LocalEngine()

    @property
    def is_empty(self) -> bool:
        return not self.files

    def rows(self) -> Rows:
        return StagedRows(self.schema, self.files, fits_memory=self.fits_memory)

    def keys(self, rule: KeyRule, has_partition_columns: bool) -> Rows:
        return StagedKeys(self.files, has_partition_columns)

    def partitions(self, rule: KeyRule) -> list[str]:
        return partitions_of(self.files, rule)


@dataclass(frozen=True, slots=True)
class FrameInput:
    """The rows of a DataFrame; computed once, keyed and written by tasks of its session."""

    frame: DataFrame
    engine: SparkEngine
    keyed: _KeyedOnce

    @property
    def schema(self) -> pa.Schema:
        return to_arrow(self.frame.schema)

    @property
    def is_empty(self) -> bool:
        return False

    def rows(self) -> Rows:
        return self.keyed

    def keys(self, rule: KeyRule, has_partition_columns: bool) -> Rows:
        return SparkKeys(self.frame, rule, has_partition_columns)

    def partitions(self, rule: KeyRule) -> list[str]:
        named = [column_at(self.frame, name).alias(name) for name in rule.partition_fields]
        values = collected(self.frame.select(*named).distinct())
        found = pc.unique(partition_paths(values, rule).cast(pa.string()))
        return sorted(found.to_pylist())


@contextmanager
def frame_input(fs: FileSystem, frame: DataFrame) -> Iterator[FrameInput]:
    """A DataFrame to save in a table; its staged rows are deleted at the end."""
    folder = new_staging_folder()
    engine = SparkEngine(frame.sparkSession)
    staging = FileStaging(fs, folder)
    try:
        yield FrameInput(frame, engine, _KeyedOnce(ReplayedRows(SparkRows(frame)), staging, engine))
    finally:
        fs.delete_folder(folder)


@dataclass(frozen=True, slots=True)
class _KeyedOnce:
    """Rows that are staged by Spark in one folder, whichever engine plans the write."""

    source: ReplayedRows
    staging: Staging
    engine: Engine

    @property
    def schema(self) -> pa.Schema:
        return self.source.schema

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        return self.source.stage(plan, self.staging, self.engine)

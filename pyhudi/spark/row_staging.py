"""Staging of the rows of a DataFrame: workers compute keys and spill the rows in one job.

The DataFrame is computed once: its tasks return files, and all later steps read those.  A task
that runs twice writes its files twice; only the files of the returned attempt are used.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from pyhudi.engine import Engine, LocalEngine
from pyhudi.errors import SchemaError
from pyhudi.formats.nested_fields import root_of, type_at
from pyhudi.keygen.generators import KeyRule, paths_where_known, record_keys
from pyhudi.records import PARTITION_PATH
from pyhudi.spark.frames import in_tasks_at_once, quoted
from pyhudi.spark.job_submission import ship
from pyhudi.spark.parquet_frames import RowGroups, read_row_groups, row_groups
from pyhudi.spark.types import to_arrow
from pyhudi.spark.worker import Batches, TaskOrder
from pyhudi.storage.spill import FileStaging, Staging
from pyhudi.write.input.batch import (
    PART_ROWS,
    BatchChunk,
    KeyPlan,
    KeyRows,
    in_bounded_batches,
    stage_rows,
)


@dataclass(frozen=True, slots=True)
class SparkRows:
    """Incoming rows of a DataFrame."""

    frame: DataFrame

    @property
    def schema(self) -> pa.Schema:
        return to_arrow(self.frame.schema)

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        work = StageWork(plan, staging)
        names = plan.schema.names
        store = staging.fs if isinstance(staging, FileStaging) else None
        stretches = row_groups(self.frame, self.schema, names, rows=PART_ROWS, store=store)
        if stretches is not None:
            cuts = [FileCut(work, stretch) for stretch in stretches]
            found = engine.run(stage_file, cuts, label="key")
            return [chunk for chunks in found for chunk in chunks]
        frame = _selected(self.frame, plan.schema.names)
        return _staged(frame, TaskOrder(stage_batches, work))


@dataclass(frozen=True, slots=True)
class SparkKeys:
    """Records to delete: rows with the key columns of `rule`, or with one column of keys.

    Their partitions are taken from `_hoodie_partition_path` or, if has_partition_columns, from the
    partition columns of the rule, where these columns exist.
    """

    frame: DataFrame
    rule: KeyRule
    has_partition_columns: bool = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([])

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        names = self.rule.key_fields
        requested = _selected(self.frame, (*names, *self.rule.partition_fields, PARTITION_PATH))
        schema = to_arrow(requested.schema)
        absent = [name for name in names if type_at(schema, name) is None]
        if absent:
            raise SchemaError(
                "key columns are missing in the rows to delete",
                columns=", ".join(absent),
                schema=", ".join(self.frame.columns),
            )
        work = StageWork(replace(plan, rule=self.rule), staging, self.has_partition_columns)
        return _staged(requested, TaskOrder(stage_keys, work))


def _selected(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """The frame with only the requested columns that it has; with the whole column of a field."""
    requested = set(map(root_of, names))
    if set(frame.columns) <= requested:
        return frame
    selected = [name for name in frame.columns if name in requested]
    return frame.select(*(frame[quoted(name)] for name in selected))


def _staged(frame: DataFrame, order: TaskOrder) -> list[BatchChunk]:
    tasks = ship(in_tasks_at_once(frame), order, label="key")
    return [returned.value for returned in tasks]


@dataclass(frozen=True, slots=True)
class StageWork:
    """What a task needs to key and spill rows.  has_partition_columns: see `SparkKeys`."""

    plan: KeyPlan
    staging: Staging
    has_partition_columns: bool = True


def stage_batches(work: StageWork, batches: Batches) -> Iterator[BatchChunk]:
    """Chunks of the rows in the batches; runs on workers."""
    first = 0
    for rows in in_bounded_batches(batches):
        yield stage_rows(rows, work.plan, work.staging, first_row=first)
        first += rows.num_rows


@dataclass(frozen=True, slots=True)
class FileCut:
    """A range of row groups to key."""

    work: StageWork
    stretch: RowGroups


def stage_file(cut: FileCut) -> list[BatchChunk]:
    """Chunks of the rows of a range of row groups; runs on workers."""
    first = cut.stretch.first_row
    chunks = []
    for batch in read_row_groups(cut.stretch, rows=PART_ROWS):
        rows = pa.Table.from_batches([batch])
        chunks.append(stage_rows(rows, cut.work.plan, cut.work.staging, first_row=first))
        first += batch.num_rows
    return chunks


def stage_keys(work: StageWork, batches: Batches) -> Iterator[BatchChunk]:
    """Chunks of the keys in the batches; runs on workers."""
    first = 0
    for rows in in_bounded_batches(batches):
        keys = record_keys(rows, work.plan.rule, first_row=first)
        found = KeyRows(keys, _paths(work, rows))
        yield from found.stage(work.plan, work.staging, LocalEngine(1))
        first += rows.num_rows


def _paths(work: StageWork, rows: pa.Table) -> pa.ChunkedArray | None:
    """Partition paths of rows to delete; None if unknown."""
    if PARTITION_PATH in rows.schema.names:
        return rows.column(PARTITION_PATH).dictionary_encode().unify_dictionaries()
    return paths_where_known(rows, work.plan.rule) if work.has_partition_columns else None

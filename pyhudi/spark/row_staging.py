"""Rows of a DataFrame, keyed and put aside on the workers in one job.

The DataFrame is computed once: what its tasks return are files, and everything after reads those.
A task that runs twice writes files twice; only those it returned count.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import pyarrow as pa
from pyspark.sql import DataFrame

from pyhudi.engine import Engine, LocalEngine
from pyhudi.errors import SchemaError
from pyhudi.keygen.generators import KeyRule, paths_if_told, record_keys
from pyhudi.records import PARTITION_PATH
from pyhudi.spark.job_submission import ship
from pyhudi.spark.parquet_frames import RowGroups, read_row_groups, row_groups
from pyhudi.spark.types import to_arrow
from pyhudi.spark.worker import Batches, TaskOrder
from pyhudi.storage.spill import Staging
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
        stretches = row_groups(self.frame, self.schema, plan.schema.names, rows=PART_ROWS)
        if stretches is not None:
            cuts = [FileCut(work, stretch) for stretch in stretches]
            found = engine.run(stage_file, cuts, label="key")
            return [part for parts in found for part in parts]
        frame = _selected(self.frame, plan.schema.names)
        return _staged(frame, TaskOrder(stage_batches, work))


@dataclass(frozen=True, slots=True)
class SparkKeys:
    """Records to delete: rows with the key columns of `rule`, or with one column of keys.

    They tell their partitions by `_hoodie_partition_path`, or, tells_partitions, by the columns of
    the rule if they have them.
    """

    frame: DataFrame
    rule: KeyRule
    tells_partitions: bool = False

    @property
    def schema(self) -> pa.Schema:
        return pa.schema([])

    def stage(self, plan: KeyPlan, staging: Staging, engine: Engine) -> list[BatchChunk]:
        names = self.rule.key_fields
        absent = [name for name in names if name not in self.frame.columns]
        if absent:
            raise SchemaError(
                "the rows to delete lack key columns", columns=", ".join(absent),
                schema=", ".join(self.frame.columns),
            )  # fmt: skip
        work = StageWork(replace(plan, rule=self.rule), staging, self.tells_partitions)
        wanted = (*names, *self.rule.partition_fields, PARTITION_PATH)
        return _staged(_selected(self.frame, wanted), TaskOrder(stage_keys, work))


def _selected(frame: DataFrame, names: Sequence[str]) -> DataFrame:
    """The columns wanted, where the others would only cost time."""
    wanted = set(names)
    if set(frame.columns) <= wanted:
        return frame
    kept = [name for name in frame.columns if name in wanted]
    return frame.select(*(frame["`" + name.replace("`", "``") + "`"] for name in kept))


def _staged(frame: DataFrame, order: TaskOrder) -> list[BatchChunk]:
    return [returned.value for returned in ship(frame, order, label="key")]


@dataclass(frozen=True, slots=True)
class StageWork:
    """What a task needs to key rows and put them aside.  tells_partitions: see `SparkKeys`."""

    plan: KeyPlan
    staging: Staging
    tells_partitions: bool = True


def stage_batches(work: StageWork, batches: Batches) -> Iterator[BatchChunk]:
    """Parts of the rows that come in the batches; runs on workers."""
    first = 0
    for rows in in_bounded_batches(batches):
        yield stage_rows(rows, work.plan, work.staging, first_row=first)
        first += rows.num_rows


@dataclass(frozen=True, slots=True)
class FileCut:
    """Some row groups to key."""

    work: StageWork
    stretch: RowGroups


def stage_file(cut: FileCut) -> list[BatchChunk]:
    """Parts of the rows of some row groups; runs on workers."""
    first = cut.stretch.first_row
    parts = []
    for batch in read_row_groups(cut.stretch, rows=PART_ROWS):
        rows = pa.Table.from_batches([batch])
        parts.append(stage_rows(rows, cut.work.plan, cut.work.staging, first_row=first))
        first += batch.num_rows
    return parts


def stage_keys(work: StageWork, batches: Batches) -> Iterator[BatchChunk]:
    """Parts of the keys that come in the batches; runs on workers."""
    first = 0
    for rows in in_bounded_batches(batches):
        keys = record_keys(rows, work.plan.rule, first_row=first)
        found = KeyRows(keys, _paths(work, rows))
        yield from found.stage(work.plan, work.staging, LocalEngine(1))
        first += rows.num_rows


def _paths(work: StageWork, rows: pa.Table) -> pa.ChunkedArray | None:
    """Partition paths of rows to delete; None where they do not tell."""
    if PARTITION_PATH in rows.schema.names:
        return rows.column(PARTITION_PATH).dictionary_encode().unify_dictionaries()
    return paths_if_told(rows, work.plan.rule) if work.tells_partitions else None

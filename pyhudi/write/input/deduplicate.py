"""Gathering: the rows of one hash part out of every part of the batch, one of each key.

Columns of a gathered part, in order of (part, row): `part: int32`, `row: int32`,
`_hoodie_partition_path: dictionary<int32, string>`, `deleted: bool`, `_hoodie_record_key: string`
where an index is asked, and `file_id: dictionary<int32, string>` where rows name their file groups.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.arrays import Ints
from pyhudi.index.contract import path_codes
from pyhudi.index.key_join import key_run
from pyhudi.merge.combine_batch import greatest_rows, newest_rows
from pyhudi.merge.merge_rules import MergeRules, delete_mask
from pyhudi.records import IS_DELETED, PARTITION_PATH, RECORD_KEY
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged, Staging
from pyhudi.write.input.batch import FILE_ID, BatchChunk, rows_of_shard
from pyhudi.write.input.combine_duplicates import (
    FoldedRows,
    folded_rows,
)

DELETED = "deleted"


class Duplicates(IntEnum):
    """What happens to several rows of one key in a batch."""

    NEWEST = 0  # keep the last one
    GREATEST = 1  # keep the one with the greatest ordering value, the last of equals
    KEEP = 2
    FOLD = 3  # merge them


class ExistingKeyPolicy(IntEnum):
    """What happens to rows whose key is in the table."""

    UPDATE = 0  # they go where their records are
    DROP = 1  # an insert without duplicates: they are left out
    REFUSE = 2  # the write fails


@dataclass(frozen=True, slots=True)
class TagPlan:
    """What the tagging of every part of a batch has in common."""

    fs: FileSystem
    parts: tuple[BatchChunk, ...]
    staging: Staging
    duplicates: Duplicates
    rules: MergeRules | None  # None: a delete operation
    deletes_all: bool  # a delete operation: every row names a key to delete
    moves: bool  # a key that comes with another partition moves there
    asked: bool = True  # whether an index is asked (inserts: no)
    is_global: bool = True  # whether a key is one record, whatever its partition
    known: ExistingKeyPolicy = ExistingKeyPolicy.UPDATE
    skips_unchanged: bool = False  # rows equal to the stored ones are not written
    copies: bool = False  # a key may have places that the index asked does not know

    @property
    def has_groups(self) -> bool:
        """Whether the rows name their file groups, so that no index has to."""
        return any(part.has_groups for part in self.parts)

    @property
    def everywhere(self) -> bool:
        """Whether keys are looked for in all partitions."""
        return self.is_global or any(not part.has_paths for part in self.parts)


@dataclass(frozen=True, slots=True)
class GatherTask:
    """One hash part of the batch.  everywhere: how its keys are looked for; None: as planned."""

    plan: TagPlan
    shard: int
    everywhere: bool | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """A gathered part put aside, with its sorted keys (see `index.probe`)."""

    rows: Staged
    keys: Staged
    duplicate_count: int
    folded: Staged | None = None


def gather_shard(task: GatherTask) -> Gathered:
    """Gather the rows of one hash part for an index that is asked in two steps."""
    found = deduplicate(task)
    everywhere = task.plan.everywhere if task.everywhere is None else task.everywhere
    run = key_run(found.rows, everywhere=everywhere)
    put = task.plan.staging.put
    return Gathered(
        put(f"gathered-{task.shard:05d}", found.rows),
        put(f"keys-{task.shard:05d}", run),
        found.duplicate_count,
        found.folded,
    )


@dataclass(frozen=True, slots=True)
class GatheredRows:
    """Gathered rows; how many were dropped for another row of their key; rows of one key that
    were merged, put aside: the gathered rows name them by the number of parts plus the shard's.
    """

    rows: pa.Table
    duplicate_count: int = 0
    folded: Staged | None = None


def deduplicate(task: GatherTask) -> GatheredRows:
    """The rows of one hash part, one a key."""
    plan = task.plan
    combined = _one_per_key(task, *_rows_of_shard(task))
    rows = combined.rows
    columns = {
        "part": combined.part,
        "row": combined.row,
        PARTITION_PATH: rows.column(PARTITION_PATH),
        DELETED: pa.array(_deleted(plan, rows)),
    }
    if plan.asked:
        columns[RECORD_KEY] = rows.column(RECORD_KEY)
    if plan.has_groups:
        columns[FILE_ID] = rows.column(FILE_ID)
    return GatheredRows(pa.table(columns), combined.dropped, combined.folded)


def _rows_of_shard(
    task: GatherTask,
) -> tuple[pa.Table, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Keys (and what else tagging needs) of the part's rows, with their part and row numbers."""
    plan = task.plan
    first = plan.parts[0].staged.load().schema.names if plan.parts else []
    names = [PARTITION_PATH]
    if plan.asked or plan.duplicates is not Duplicates.KEEP:
        names.append(RECORD_KEY)
    if plan.has_groups:
        names.append(FILE_ID)
    names += (name for name in _looked_at(plan) if name in first and name not in names)
    tables, parts, rows = [], [], []
    for number, part in enumerate(plan.parts):
        at = rows_of_shard(part, task.shard)
        tables.append(part.staged.load().select(names).take(pa.array(at)))
        rows.append(at)
        parts.append(np.full(len(at), number, np.int32))
    return (
        pa.concat_tables(tables, promote_options="default").unify_dictionaries(),
        np.concatenate(parts),
        np.concatenate(rows),
    )


def _looked_at(plan: TagPlan) -> Iterator[str]:
    """Columns that tell deletes, and which of two rows is the greater."""
    yield IS_DELETED
    if plan.rules is not None:
        yield from (mark.column for mark in plan.rules.marks)
        if plan.duplicates is Duplicates.GREATEST:
            yield from plan.rules.ordering or plan.rules.batch_ordering


@dataclass(frozen=True, slots=True)
class _Combined:
    """Rows, one a key, with their part and row numbers; `folded`: merged ones, put aside."""

    rows: pa.Table
    part: Ints
    row: Ints
    dropped: int = 0
    folded: Staged | None = None


def _one_per_key(task: GatherTask, rows: pa.Table, part: Ints, row: Ints) -> _Combined:
    plan = task.plan
    if plan.duplicates is Duplicates.KEEP or rows.num_rows == 0:
        return _Combined(rows, part, row)
    keys = _identity(plan, rows)
    if plan.rules is not None and plan.duplicates is Duplicates.FOLD:
        return _folded(task, rows, part, row, folded_rows(keys, plan.parts, part, row, plan.rules))
    if plan.rules is not None and plan.duplicates is Duplicates.GREATEST:
        kept = greatest_rows(keys, rows, plan.rules)
    else:
        kept = newest_rows(keys)
    if len(kept) == rows.num_rows:
        return _Combined(rows, part, row)
    dropped = rows.num_rows - len(kept)
    return _Combined(rows.take(pa.array(kept)), part[kept], row[kept], dropped)


def _folded(
    task: GatherTask, rows: pa.Table, part: Ints, row: Ints, found: FoldedRows | None
) -> _Combined:
    """Rows of one key merged; what comes out is a part of its own."""
    if found is None:
        return _Combined(rows, part, row)
    count = found.rows.num_rows
    kept, merged = rows.take(pa.array(found.kept)), found.rows.select(rows.schema.names)
    whole = pa.concat_tables([kept, merged], promote_options="default").unify_dictionaries()
    number = len(task.plan.parts) + task.shard
    return _Combined(
        whole,
        np.r_[part[found.kept], np.full(count, number, np.int32)],
        np.r_[row[found.kept], np.arange(count, dtype=np.int32)],
        rows.num_rows - whole.num_rows,
        task.plan.staging.put(f"folded-{task.shard:05d}", found.rows),
    )


def _identity(plan: TagPlan, rows: pa.Table) -> pa.ChunkedArray:
    """What tells one record from another: the key, or partition (or file group) and key."""
    keys = rows.column(RECORD_KEY)
    if plan.has_groups:
        return _within(_within(keys, rows.column(FILE_ID)), rows.column(PARTITION_PATH))
    return keys if plan.everywhere else _within(keys, rows.column(PARTITION_PATH))


def _within(keys: pa.ChunkedArray, places: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts that are equal where both the key and the place (a dictionary column) are."""
    codes, values = path_codes(places)
    if len(values) < 2:
        return keys
    numbers = pa.array([str(number) for number in range(len(values))]).take(pa.array(codes))
    return pc.binary_join_element_wise(numbers, keys, "/")


def _deleted(plan: TagPlan, rows: pa.Table) -> npt.NDArray[np.bool_]:
    if plan.deletes_all:
        return np.ones(rows.num_rows, np.bool_)
    mask = delete_mask(rows, () if plan.rules is None else plan.rules.marks)
    return np.zeros(rows.num_rows, np.bool_) if mask is None else mask

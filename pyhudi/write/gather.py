"""Gathering: the rows of one hash part out of every part of the batch, one of each key.

Columns of a gathered part, in order of (part, row): `part: int32`, `row: int32`,
`_hoodie_partition_path: dictionary<int32, string>`, `deleted: bool`, and `_hoodie_record_key:
string` where an index is asked.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import latest
from pyhudi.index.contract import path_codes
from pyhudi.index.probe import key_run
from pyhudi.records import IS_DELETED, PARTITION_PATH, RECORD_KEY
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.ordering import ordering_ranks
from pyhudi.write.batch import Part, rows_of_shard
from pyhudi.write.staging import Staged, Staging

DELETED = "deleted"


class Duplicates(IntEnum):
    """What happens to several rows of one key in a batch."""

    NEWEST = 0  # keep the last one
    GREATEST = 1  # keep the one with the greatest ordering value, the last of equals
    KEEP = 2


class Known(IntEnum):
    """What happens to rows whose key is in the table."""

    UPDATE = 0  # they go where their records are
    DROP = 1  # an insert without duplicates: they are left out
    REFUSE = 2  # the write fails


@dataclass(frozen=True, slots=True)
class TagPlan:
    """What the tagging of every part of a batch has in common."""

    fs: FileSystem
    parts: tuple[Part, ...]
    staging: Staging
    duplicates: Duplicates
    ordering: tuple[str, ...]
    deletes_all: bool  # a delete operation: every row names a key to delete
    moves: bool  # a key that comes with another partition moves there
    asked: bool = True  # whether an index is asked (inserts: no)
    is_global: bool = True  # whether a key is one record, whatever its partition
    known: Known = Known.UPDATE

    @property
    def everywhere(self) -> bool:
        """Whether keys are looked for in all partitions."""
        return self.is_global or any(not part.has_paths for part in self.parts)


@dataclass(frozen=True, slots=True)
class GatherTask:
    """One hash part of the batch."""

    plan: TagPlan
    shard: int


@dataclass(frozen=True, slots=True)
class Gathered:
    """A gathered part put aside, with its sorted keys (see `index.probe`)."""

    rows: Staged
    keys: Staged
    duplicate_count: int


def gather_shard(task: GatherTask) -> Gathered:
    """Gather the rows of one hash part for an index that is asked in two steps."""
    rows, duplicates = gather(task)
    run = key_run(rows, everywhere=task.plan.everywhere)
    put = task.plan.staging.put
    return Gathered(
        put(f"gathered-{task.shard:05d}", rows), put(f"keys-{task.shard:05d}", run), duplicates
    )


def gather(task: GatherTask) -> tuple[pa.Table, int]:
    """(gathered rows, how many were dropped for another row of their key)."""
    plan = task.plan
    rows, part, row = _rows_of_shard(task)
    kept, duplicates = _one_per_key(plan, rows)
    if kept is not None:
        rows, part, row = rows.take(pa.array(kept)), part[kept], row[kept]
    columns = {"part": part, "row": row, PARTITION_PATH: rows.column(PARTITION_PATH)}
    columns[DELETED] = pa.array(_deleted(plan, rows))
    if plan.asked:
        columns[RECORD_KEY] = rows.column(RECORD_KEY)
    return pa.table(columns), duplicates


def _rows_of_shard(
    task: GatherTask,
) -> tuple[pa.Table, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Keys (and what else tagging needs) of the part's rows, with their part and row numbers."""
    plan = task.plan
    first = plan.parts[0].staged.load().schema.names if plan.parts else []
    names = [PARTITION_PATH]
    if plan.asked or plan.duplicates is not Duplicates.KEEP:
        names.append(RECORD_KEY)
    if plan.duplicates is Duplicates.GREATEST:
        names += plan.ordering
    if IS_DELETED in first and IS_DELETED not in names:
        names.append(IS_DELETED)
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


def _one_per_key(plan: TagPlan, rows: pa.Table) -> tuple[npt.NDArray[np.int64] | None, int]:
    """Positions to keep in ascending order (None: all), and how many rows that drops."""
    if plan.duplicates is Duplicates.KEEP or rows.num_rows == 0:
        return None, 0
    ranks = None
    if plan.duplicates is Duplicates.GREATEST and plan.ordering:
        ranks, _ = ordering_ranks([rows.column(name) for name in plan.ordering])
    winners = latest(_identity(plan, rows), ranks)
    if len(winners) == rows.num_rows:
        return None, 0
    return np.sort(winners), rows.num_rows - len(winners)


def _identity(plan: TagPlan, rows: pa.Table) -> pa.ChunkedArray:
    """What tells one record from another: the key, or partition and key."""
    keys = rows.column(RECORD_KEY)
    if plan.everywhere:
        return keys
    codes, paths = path_codes(rows.column(PARTITION_PATH))
    if len(paths) < 2:
        return keys
    numbers = pa.array([str(number) for number in range(len(paths))]).take(pa.array(codes))
    return pc.binary_join_element_wise(numbers, keys, "/")


def _deleted(plan: TagPlan, rows: pa.Table) -> npt.NDArray[np.bool_]:
    if plan.deletes_all:
        return np.ones(rows.num_rows, np.bool_)
    if IS_DELETED not in rows.schema.names:
        return np.zeros(rows.num_rows, np.bool_)
    flags = pc.fill_null(rows.column(IS_DELETED), False)
    return np.array(flags.to_numpy(), np.bool_)

"""Deduplication of a batch: the rows of one index bucket from all chunks, one per key.

Columns of the result, ordered by (part, row): `part: int32`, `row: int32`,
`_hoodie_partition_path: dictionary<int32, string>`, `deleted: bool`, `_hoodie_record_key: string`
if an index is queried, and `file_id: dictionary<int32, string>` if rows have file groups.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from enum import IntEnum

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.arrays import Ints
from pyhudi.formats.nested_fields import root_of
from pyhudi.index.contract import path_codes
from pyhudi.index.key_join import key_run
from pyhudi.index.known_places import KnownPlaces
from pyhudi.merge.column_merge import plain
from pyhudi.merge.combine_batch import greatest_rows, merged_rows, newest_rows
from pyhudi.merge.log_fold import number_keys
from pyhudi.merge.merge_rules import MergeRules, delete_mask
from pyhudi.records import IS_DELETED, PARTITION_PATH, RECORD_KEY
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged, Staging
from pyhudi.write.input.batch import FILE_ID, BatchChunk, rows_of_bucket, take_rows

DELETED = "deleted"


class Duplicates(IntEnum):
    """How rows of a batch with the same key are handled."""

    NEWEST = 0  # retain the last one
    GREATEST = 1  # retain the greatest ordering value, the last of equals
    KEEP = 2
    FOLD = 3  # merge them


class ExistingKeyPolicy(IntEnum):
    """How rows are handled whose key is in the table, or is not (REQUIRE)."""

    UPDATE = 0  # they update their records
    DROP = 1  # an insert without duplicates: they are dropped
    REFUSE = 2  # the write fails
    REQUIRE = 3  # they update their records; the write fails for a key without a record

    @property
    def updates(self) -> bool:
        return self in (ExistingKeyPolicy.UPDATE, ExistingKeyPolicy.REQUIRE)


@dataclass(frozen=True, slots=True)
class TagPlan:
    """Common parameters for tagging all index buckets of a batch."""

    fs: FileSystem
    parts: tuple[BatchChunk, ...]
    staging: Staging
    duplicates: Duplicates
    rules: MergeRules | None  # None: a delete operation
    deletes_all: bool  # a delete operation: every row is a key to delete
    moves: bool  # a record whose key has a new partition moves there
    queries_index: bool = True  # whether an index is queried (inserts: no)
    is_global: bool = True  # whether keys are unique across partitions
    known: ExistingKeyPolicy = ExistingKeyPolicy.UPDATE
    skips_unchanged: bool = False  # rows equal to the stored ones are not written
    copies: bool = False  # a key may have places unknown to the queried index
    finds_only: bool = False  # the rows are not written: places are found, and stay known

    @property
    def has_groups(self) -> bool:
        """Whether rows have file groups, so that no index is needed."""
        return any(part.has_groups for part in self.parts)

    @property
    def everywhere(self) -> bool:
        """Whether keys are looked up in all partitions."""
        return self.is_global or any(not part.has_paths for part in self.parts)


@dataclass(frozen=True, slots=True)
class GatherTask:
    """One index bucket of the batch.  everywhere: look keys up in all partitions; None: as
    planned.  known: keys that need no look-up."""

    plan: TagPlan
    bucket: int
    everywhere: bool | None = None
    known: KnownPlaces | None = None


@dataclass(frozen=True, slots=True)
class Gathered:
    """Staged rows of one index bucket, with the sorted keys to look up (see `index.key_join`).
    sought: their number."""

    rows: Staged
    keys: Staged
    sought: int
    duplicate_count: int
    folded: Staged | None = None


def gather_bucket(task: GatherTask) -> Gathered:
    """Gather the rows of one index bucket for an index that is queried in two steps."""
    found = deduplicate(task)
    everywhere = task.plan.everywhere if task.everywhere is None else task.everywhere
    sought = found.rows if task.known is None else task.known.unknown(found.rows)
    run = key_run(sought, everywhere=everywhere)
    put = task.plan.staging.put
    return Gathered(
        put(f"gathered-{task.bucket:05d}", found.rows),
        put(f"keys-{task.bucket:05d}", run),
        run.num_rows,
        found.duplicate_count,
        found.folded,
    )


@dataclass(frozen=True, slots=True)
class GatheredRows:
    """Gathered rows, the number of dropped duplicates, and (folded) the staged merged rows: the
    gathered rows refer to them by part number = number of parts + bucket number.
    """

    rows: pa.Table
    duplicate_count: int = 0
    folded: Staged | None = None


def deduplicate(task: GatherTask) -> GatheredRows:
    """The rows of one index bucket, one per key."""
    plan = task.plan
    combined = _one_per_key(task, *_rows_of_bucket(task))
    rows = combined.rows
    columns = {
        "part": combined.part,
        "row": combined.row,
        PARTITION_PATH: rows.column(PARTITION_PATH),
        DELETED: pa.array(_deleted(plan, rows)),
    }
    if plan.queries_index:
        columns[RECORD_KEY] = rows.column(RECORD_KEY)
    if plan.has_groups:
        columns[FILE_ID] = rows.column(FILE_ID)
    return GatheredRows(pa.table(columns), combined.dropped, combined.folded)


def _rows_of_bucket(
    task: GatherTask,
) -> tuple[pa.Table, npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """Keys and other columns for tagging of the rows, with their part and row numbers."""
    plan = task.plan
    first = plan.parts[0].staged.load().schema.names if plan.parts else []
    names = [PARTITION_PATH]
    if plan.queries_index or plan.duplicates is not Duplicates.KEEP:
        names.append(RECORD_KEY)
    if plan.has_groups:
        names.append(FILE_ID)
    names += (name for name in _extra_columns(plan) if name in first and name not in names)
    tables, parts, rows = [], [], []
    for number, part in enumerate(plan.parts):
        at = rows_of_bucket(part, task.bucket)
        tables.append(part.staged.load().select(names).take(pa.array(at)))
        rows.append(at)
        parts.append(np.full(len(at), number, np.int32))
    return (
        pa.concat_tables(tables, promote_options="default").unify_dictionaries(),
        np.concatenate(parts),
        np.concatenate(rows),
    )


def _extra_columns(plan: TagPlan) -> Iterator[str]:
    """Columns that mark deletes or order rows."""
    yield IS_DELETED
    if plan.rules is not None:
        yield from (mark.column for mark in plan.rules.marks)
        if plan.duplicates is Duplicates.GREATEST:
            yield from map(root_of, plan.rules.ordering or plan.rules.batch_ordering)


@dataclass(frozen=True, slots=True)
class _Combined:
    """Rows, one per key, with part and row numbers; `folded`: staged merged rows."""

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
        return _folded(task, rows, part, row, _folded_rows(keys, plan.parts, part, row, plan.rules))
    if plan.rules is not None and plan.duplicates is Duplicates.GREATEST:
        retained = greatest_rows(keys, rows, plan.rules)
    else:
        retained = newest_rows(keys)
    if len(retained) == rows.num_rows:
        return _Combined(rows, part, row)
    dropped = rows.num_rows - len(retained)
    return _Combined(rows.take(pa.array(retained)), part[retained], row[retained], dropped)


def _folded(
    task: GatherTask, rows: pa.Table, part: Ints, row: Ints, found: _FoldedRows | None
) -> _Combined:
    """Merge rows with the same key; the merged rows form an additional part."""
    if found is None:
        return _Combined(rows, part, row)
    count = found.rows.num_rows
    retained, merged = rows.take(pa.array(found.retained)), found.rows.select(rows.schema.names)
    whole = pa.concat_tables([retained, merged], promote_options="default").unify_dictionaries()
    number = len(task.plan.parts) + task.bucket
    return _Combined(
        whole,
        np.r_[part[found.retained], np.full(count, number, np.int32)],
        np.r_[row[found.retained], np.arange(count, dtype=np.int32)],
        rows.num_rows - whole.num_rows,
        task.plan.staging.put(f"folded-{task.bucket:05d}", found.rows),
    )


def _identity(plan: TagPlan, rows: pa.Table) -> pa.ChunkedArray:
    """The identity of records: the key, or partition (or file group) and key."""
    keys = rows.column(RECORD_KEY)
    if plan.has_groups:
        return _within(_within(keys, rows.column(FILE_ID)), rows.column(PARTITION_PATH))
    return keys if plan.everywhere else _within(keys, rows.column(PARTITION_PATH))


def _within(keys: pa.ChunkedArray, places: pa.ChunkedArray) -> pa.ChunkedArray:
    """Texts that are equal if both the key and the place (a dictionary column) are equal."""
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


@dataclass(frozen=True, slots=True)
class _FoldedRows:
    """Rows of a batch after rows with the same key were merged.

    retained: positions of unmerged rows.  rows: merged rows, with the keyed columns.
    """

    retained: npt.NDArray[np.int64]
    rows: pa.Table


def _folded_rows(
    keys: pa.ChunkedArray, parts: Sequence[BatchChunk], part: Ints, row: Ints, rules: MergeRules
) -> _FoldedRows | None:
    """Merge rows with the same key, in order; None if no key occurs twice.

    keys: of rows ordered by (part, row).  A key whose last effective row is a delete retains that
    row.  Copies only the rows of duplicate keys.
    """
    _, _, key = number_keys(keys)
    several = np.bincount(key)[key] > 1
    if not several.any():
        return None
    at = np.flatnonzero(several)
    merged = merged_rows(key[at], plain(take_rows(parts, part[at], row[at])), rules)
    paths = merged.rows.schema.get_field_index(PARTITION_PATH)
    encoded = merged.rows.column(paths).dictionary_encode()
    rows = merged.rows.set_column(paths, PARTITION_PATH, encoded)
    return _FoldedRows(
        np.sort(np.concatenate([np.flatnonzero(~several), at[merged.removed]])), rows
    )

"""Index changes of a write, by index bucket: rows that gain or lose an index entry, and the tasks
that write these.

A new record gets an entry, a deleted record loses its entry, and an update in place changes
nothing.  A record that moves gets a new entry, which hides the old one.  If a different index was
queried, the tags state which rows' entries change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.arrays import Ints, Mask
from pyhudi.index.external_index import ENDED
from pyhudi.metadata.delta_commit import BucketTarget
from pyhudi.metadata.writer import write_bucket
from pyhudi.records import RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged, Staging
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import Instant
from pyhudi.write.input.batch import BatchChunk, take_rows
from pyhudi.write.placement.assignment import Route
from pyhudi.write.placement.routing import lost_of, row_order, targets_of
from pyhudi.write.placement.tagging import NEW, RECORDS, REPLACES, RowAction, entry_column


@dataclass(frozen=True, slots=True)
class EntryRows:
    """Rows whose entries change.  part, row, target: rows that get an entry, ordered by (part,
    row); ended_*: rows that lose their entry, and the target that they leave.  has_entry: whether a
    key that gets an entry already has one."""

    part: Ints
    row: Ints
    target: Ints
    has_entry: Mask
    ended_part: Ints
    ended_row: Ints
    ended_target: Ints

    @property
    def is_empty(self) -> bool:
        return not len(self.part) and not len(self.ended_part)


def entry_rows(tags: Staged, route: Route, lost: Staged | None, index: str) -> EntryRows:
    """Rows of a bucket's tags that change entries of an index.  index: its name in the tags."""
    table = tags.load()
    part, row, home, action = (
        table.column(name).to_numpy() for name in ("part", "row", "home", "action")
    )
    target = targets_of(route)
    column = entry_column(index)
    if column in table.schema.names:
        entry = table.column(column).to_numpy()
        fresh = (action == RowAction.PUT) & (entry > 0)
        deleted = (action == RowAction.DELETE) & (entry > 0)
        has_entry = entry == REPLACES
    else:
        fresh = (action == RowAction.PUT) & (home == NEW)
        deleted = (action == RowAction.DELETE) & (home != NEW)
        number = part.astype(np.int64) << 32 | row
        has_entry = np.isin(number, number[action == RowAction.LEAVE])
    gone = lost_of(lost, table.num_rows)
    if gone is not None:
        fresh &= ~gone
        deleted &= ~gone
    put, end = _in_order(part, row, fresh), _in_order(part, row, deleted)
    return EntryRows(
        part[put], row[put], target[put], has_entry[put], part[end], row[end], target[end]
    )


def _in_order(part: Ints, row: Ints, mask: Mask) -> npt.NDArray[np.int64]:
    """Positions where the mask is set, ordered by (part, row)."""
    at = np.flatnonzero(mask)
    return at[row_order(part[at], row[at])]


def keys_of(parts: Sequence[BatchChunk], part: Ints, row: Ints) -> pa.Array:
    """Record keys of rows that are ordered by (part, row)."""
    column = take_rows(parts, part, row, columns=[RECORD_KEY]).column(RECORD_KEY)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """Input of the task that spills a bucket's changes of an index.  is_queried: whether the index
    was queried; if not, any key may have an entry."""

    index: str
    is_queried: bool
    parts: tuple[BatchChunk, ...]
    tags: Staged
    route: Route
    lost: Staged | None
    staging: Staging


@dataclass(frozen=True, slots=True)
class Changed:
    """Spilled changes (see `index.external_index.Changes`).  index: name of the index."""

    index: str
    table: Staged


def spill_changes(task: ChangeTask) -> Changed | None:
    """Spill a bucket's changes of an index; None if there are none."""
    rows = entry_rows(task.tags, task.route, task.lost, task.index)
    if rows.is_empty:
        return None
    keys = pa.concat_arrays(
        [
            keys_of(task.parts, rows.part, rows.row),
            keys_of(task.parts, rows.ended_part, rows.ended_row),
        ]
    )
    ended = len(rows.ended_part)
    target = np.concatenate([rows.target, np.full(ended, ENDED, np.int32)]).astype(np.int32)
    has_entry = np.concatenate([rows.has_entry | (not task.is_queried), np.ones(ended, np.bool_)])
    table = pa.table({"key": keys, "target": target, "has_entry": has_entry})
    return Changed(task.index, task.staging.put(f"changes-{task.index}", table))


@dataclass(frozen=True, slots=True)
class EntryTask:
    """Input of one bucket's task.  groups: the file group of each target, by target number."""

    fs: FileSystem
    instant: Instant
    target: BucketTarget
    parts: tuple[BatchChunk, ...]
    tags: Staged
    route: Route
    lost: Staged | None
    groups: tuple[FileGroupId, ...]
    ended: Staged | None = None  # keys of file groups that the write replaces


def write_entries(task: EntryTask) -> WriteStat | None:
    """Write the bucket's entries; None if the batch changes none.  May run more than once."""
    rows = entry_rows(task.tags, task.route, task.lost, RECORDS)
    if rows.is_empty and task.ended is None:
        return None
    paths = pa.array([group.partition for group in task.groups], pa.string())
    ids = pa.array([group.file_id for group in task.groups], pa.string())
    at = pa.array(rows.target)
    return write_bucket(
        task.fs,
        task.target,
        task.instant,
        keys=keys_of(task.parts, rows.part, rows.row),
        partition_path=pa.DictionaryArray.from_arrays(at, paths),
        file_id=pa.DictionaryArray.from_arrays(at, ids),
        deleted=_and_ended(keys_of(task.parts, rows.ended_part, rows.ended_row), task.ended),
    )


def _and_ended(keys: pa.Array, ended: Staged | None) -> pa.Array:
    if ended is None:
        return keys
    return pa.concat_arrays([keys, *ended.load().column(RECORD_KEY).chunks])


@dataclass(frozen=True, slots=True)
class EndTask:
    """Input of one bucket's task of a write without rows.  ended: keys to remove."""

    fs: FileSystem
    instant: Instant
    target: BucketTarget
    ended: Staged


def end_entries(task: EndTask) -> WriteStat:
    """Write the bucket's tombstones.  May run more than once."""
    none = pa.array([], pa.string())
    return write_bucket(
        task.fs,
        task.target,
        task.instant,
        keys=none,
        partition_path=none,
        file_id=none,
        deleted=task.ended.load().column(RECORD_KEY),
    )

"""Index entries of a write: one task per shard of the record index.

New records get an entry, deleted ones a tombstone; an update in place writes nothing.  A record
that moves gets its new entry, which hides the old one.  Where another index was asked, the tags
say which rows' entries change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.metadata.writer import ShardTarget, write_shard
from pyhudi.records import RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.stats import WriteStat
from pyhudi.write.assign import Route
from pyhudi.write.batch import Part
from pyhudi.write.route import lost_of, row_order, take_rows, targets_of
from pyhudi.write.staging import Staged
from pyhudi.write.tag import NEW, Action

Ints = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class EntryTask:
    """What one shard's task needs.  groups: file group of each target, by its number."""

    fs: FileSystem
    instant: Instant
    target: ShardTarget
    parts: tuple[Part, ...]
    tags: Staged
    route: Route
    lost: Staged | None
    groups: tuple[FileGroupId, ...]
    ended: Staged | None = None  # keys of file groups that are taken out of the table


def write_entries(task: EntryTask) -> WriteStat | None:
    """Write the shard's entries; None where the batch changes none.  May run twice."""
    table = task.tags.load()
    part, row, home, action = (
        table.column(name).to_numpy() for name in ("part", "row", "home", "action")
    )
    target = targets_of(task.route)
    if "entry" in table.schema.names:
        changed = table.column("entry").to_numpy()
        fresh = (action == Action.PUT) & changed
        dead = (action == Action.DELETE) & changed
    else:
        fresh = (action == Action.PUT) & (home == NEW)
        dead = (action == Action.DELETE) & (home != NEW)
    gone = lost_of(task.lost, table.num_rows)
    if gone is not None:
        fresh &= ~gone
        dead &= ~gone
    if not fresh.any() and not dead.any() and task.ended is None:
        return None
    paths = pa.array([group.partition for group in task.groups], pa.string())
    ids = pa.array([group.file_id for group in task.groups], pa.string())
    born = _in_order(part, row, fresh)
    at = pa.array(target[born])
    return write_shard(
        task.fs,
        task.target,
        task.instant,
        keys=_keys(task.parts, part[born], row[born]),
        partition_path=pa.DictionaryArray.from_arrays(at, paths),
        file_id=pa.DictionaryArray.from_arrays(at, ids),
        deleted=_and_ended(
            _keys(task.parts, *(c[_in_order(part, row, dead)] for c in (part, row))), task.ended
        ),
    )


def _and_ended(keys: pa.Array, ended: Staged | None) -> pa.Array:
    if ended is None:
        return keys
    return pa.concat_arrays([keys, *ended.load().column(RECORD_KEY).chunks])


@dataclass(frozen=True, slots=True)
class EndTask:
    """One shard of a write without rows: its keys to forget."""

    fs: FileSystem
    instant: Instant
    target: ShardTarget
    ended: Staged


def end_entries(task: EndTask) -> WriteStat:
    """Write the shard's tombstones.  May run twice."""
    none = pa.array([], pa.string())
    return write_shard(
        task.fs,
        task.target,
        task.instant,
        keys=none,
        partition_path=none,
        file_id=none,
        deleted=task.ended.load().column(RECORD_KEY),
    )


def _in_order(part: Ints, row: Ints, mask: npt.NDArray[np.bool_]) -> npt.NDArray[np.int64]:
    """Positions where the mask is set, in order of (part, row)."""
    at = np.flatnonzero(mask)
    return at[row_order(part[at], row[at])]


def _keys(parts: Sequence[Part], part: Ints, row: Ints) -> pa.Array:
    """Record keys of rows given in order of (part, row)."""
    column = take_rows(parts, part, row, columns=[RECORD_KEY]).column(RECORD_KEY)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()

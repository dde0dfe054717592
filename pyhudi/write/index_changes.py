"""What a write changes in an index, by hash part: the rows whose places are new or gone.

New records get an entry, deleted ones lose theirs; an update in place changes nothing.  A record
that moves gets its new entry, which hides the old one.  Where another index was asked, the tags
say which rows' entries change.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.arrays import Ints, Mask
from pyhudi.index.external_index import ENDED
from pyhudi.records import RECORD_KEY
from pyhudi.storage.spill import Staged, Staging
from pyhudi.write.input.batch import BatchChunk
from pyhudi.write.placement.assignment import Route
from pyhudi.write.placement.routing import lost_of, row_order, take_rows, targets_of
from pyhudi.write.placement.tagging import HELD, NEW, RowAction, entry_column


@dataclass(frozen=True, slots=True)
class EntryRows:
    """Rows whose entries change.  part, row, target: of those that get one, in order of (part,
    row); ended_*: of those that lose theirs.  held: whether a key that gets one has one."""

    part: Ints
    row: Ints
    target: Ints
    held: Mask
    ended_part: Ints
    ended_row: Ints

    @property
    def is_empty(self) -> bool:
        return not len(self.part) and not len(self.ended_part)


def entry_rows(tags: Staged, route: Route, lost: Staged | None, index: str) -> EntryRows:
    """The rows of a shard's tags that change entries of an index; index: its name in the tags."""
    table = tags.load()
    part, row, home, action = (
        table.column(name).to_numpy() for name in ("part", "row", "home", "action")
    )
    target = targets_of(route)
    column = entry_column(index)
    if column in table.schema.names:
        entry = table.column(column).to_numpy()
        fresh = (action == RowAction.PUT) & (entry > 0)
        dead = (action == RowAction.DELETE) & (entry > 0)
        held = entry == HELD
    else:
        fresh = (action == RowAction.PUT) & (home == NEW)
        dead = (action == RowAction.DELETE) & (home != NEW)
        number = part.astype(np.int64) << 32 | row
        held = np.isin(number, number[action == RowAction.LEAVE])
    gone = lost_of(lost, table.num_rows)
    if gone is not None:
        fresh &= ~gone
        dead &= ~gone
    born, died = _in_order(part, row, fresh), _in_order(part, row, dead)
    return EntryRows(part[born], row[born], target[born], held[born], part[died], row[died])


def _in_order(part: Ints, row: Ints, mask: Mask) -> npt.NDArray[np.int64]:
    """Positions where the mask is set, in order of (part, row)."""
    at = np.flatnonzero(mask)
    return at[row_order(part[at], row[at])]


def keys_of(parts: Sequence[BatchChunk], part: Ints, row: Ints) -> pa.Array:
    """Record keys of rows given in order of (part, row)."""
    column = take_rows(parts, part, row, columns=[RECORD_KEY]).column(RECORD_KEY)
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


@dataclass(frozen=True, slots=True)
class ChangeTask:
    """What one shard's task needs to put its changes of an index aside.  asked: whether the index
    was; else any key may have an entry."""

    index: str
    asked: bool
    parts: tuple[BatchChunk, ...]
    tags: Staged
    route: Route
    lost: Staged | None
    staging: Staging


@dataclass(frozen=True, slots=True)
class Changed:
    """Changes put aside (see `index.stores.Changes`).  index: whose."""

    index: str
    table: Staged


def spill_changes(task: ChangeTask) -> Changed | None:
    """Put a shard's changes of an index aside; None where there are none."""
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
    held = np.concatenate([rows.held | (not task.asked), np.ones(ended, np.bool_)])
    table = pa.table({"key": keys, "target": target, "held": held})
    return Changed(task.index, task.staging.put(f"changes-{task.index}", table))

"""Deletes and moves whose effect depends on what is stored.

Under event-time order a delete (or a move to another partition) with an older ordering value than
the stored record's has no effect.  The index entries of a commit must know that before they are
written, so the few file groups with such rows are asked first.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.read.slices import SliceSpec, read_slice
from pyhudi.records import RECORD_KEY
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.view import FileSlice
from pyhudi.write.batch import Part
from pyhudi.write.handles import settle
from pyhudi.write.route import Routed, take_rows
from pyhudi.write.staging import Staged, Staging
from pyhudi.write.tag import Action, ShardTags


@dataclass(frozen=True, slots=True)
class ContestTask:
    """One shard's contested rows.  slices: by position in the shard's homes."""

    fs: FileSystem
    spec: SliceSpec
    parts: tuple[Part, ...]
    shard: ShardTags
    slices: tuple[tuple[int, FileSlice], ...]
    ordering: tuple[str, ...]
    staging: Staging


def lost_rows(task: ContestTask) -> Staged | None:
    """Positions in the shard's tags of rows that lose to a stored record; None if none does.

    A move that loses takes its insert with it: the record stays where and as it is.
    """
    tags = task.shard.tags.load()
    part, row, home, action = (
        tags.column(name).to_numpy() for name in ("part", "row", "home", "action")
    )
    gone = np.zeros(len(part), np.bool_)
    for number, slice_ in task.slices:
        at = np.flatnonzero((home == number) & (action != Action.PUT))
        stored = read_slice(task.fs, slice_, spec=task.spec)
        columns = [RECORD_KEY, *task.ordering]
        incoming = take_rows(task.parts, part[at], row[at], columns=columns)
        settled = settle(stored, Routed(incoming, action[at]), task.ordering, natural_deletes=False)
        gone[at[settled.lost]] = True
    leaving = gone & (action == Action.LEAVE)
    if leaving.any():
        key = part.astype(np.int64) << 32 | row
        gone |= np.isin(key, key[leaving])
    if not gone.any():
        return None
    return task.staging.put(
        f"lost-{task.shard.shard:05d}", pa.table({"position": np.flatnonzero(gone)})
    )

"""Index entries of a write: one task per shard of the record index.

New records get an entry, deleted ones a tombstone; an update in place writes nothing.  A record
that moves gets its new entry, which hides the old one.
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
from pyhudi.write.route import route_shard
from pyhudi.write.staging import Staged
from pyhudi.write.tag import NEW, Action


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


def write_entries(task: EntryTask) -> WriteStat | None:
    """Write the shard's entries; None where the batch changes none.  May run twice."""
    table = task.tags.load()
    gone = None if task.lost is None else task.lost.load().column("position").to_numpy()
    part, row, target, action = route_shard(table, task.route, lost=gone)
    home = table.column("home").to_numpy()
    if gone is not None:
        keep = np.ones(len(home), np.bool_)
        keep[gone] = False
        home = home[keep]
    fresh = (action == Action.PUT) & (home == NEW)
    dead = (action == Action.DELETE) & (home != NEW)
    if not fresh.any() and not dead.any():
        return None
    paths = pa.array([group.partition for group in task.groups], pa.string())
    ids = pa.array([group.file_id for group in task.groups], pa.string())
    at = pa.array(target[fresh])
    return write_shard(
        task.fs,
        task.target,
        task.instant,
        keys=_keys(task.parts, part[fresh], row[fresh]),
        partition_path=pa.DictionaryArray.from_arrays(at, paths),
        file_id=pa.DictionaryArray.from_arrays(at, ids),
        deleted=_keys(task.parts, part[dead], row[dead]),
    )


def _keys(
    parts: Sequence[Part], part: npt.NDArray[np.int32], row: npt.NDArray[np.int32]
) -> pa.Array:
    """Record keys of rows given in order of (part, row)."""
    cuts = np.searchsorted(part, np.arange(len(parts) + 1))
    pieces: list[pa.Array] = []
    for number in range(len(parts)):
        low, high = cuts[number], cuts[number + 1]
        if low < high:
            column = parts[number].staged.load().column(RECORD_KEY)
            pieces += column.take(pa.array(row[low:high])).chunks
    return pa.concat_arrays(pieces) if pieces else pa.array([], pa.string())

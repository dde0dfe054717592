"""Resolution of rows whose effect depends on stored records, before anything is written.

In event-time order a delete (or a move to another partition) with an ordering value older than the
stored record's has no effect.  This must be known before index entries are written, so the few
file groups with such rows are read first.

A write that skips unchanged rows reads every file group it would change.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.arrays import Mask
from pyhudi.merge.column_merge import plain
from pyhudi.merge.resolve_updates import outcome, resolve_updates
from pyhudi.read.changes.row_equality import rows_differ
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.read.skipping.partition_values import partition_values
from pyhudi.records import META_COLUMNS
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged, Staging
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.properties import TableConfig
from pyhudi.write.input.batch import BatchChunk, take_rows
from pyhudi.write.placement.routing import Routed
from pyhudi.write.placement.tagging import BucketTags, RowAction


@dataclass(frozen=True, slots=True)
class ContestTask:
    """Input for one bucket's contested rows.  slices: by position in the bucket's homes.

    spec: the columns to compare.  skips_unchanged: rows equal to the stored ones lose too.
    """

    fs: FileSystem
    spec: SliceSpec
    parts: tuple[BatchChunk, ...]
    bucket: BucketTags
    slices: tuple[tuple[int, FileSlice], ...]
    staging: Staging
    config: TableConfig
    skips_unchanged: bool = False


def lost_rows(task: ContestTask) -> Staged | None:
    """Positions in the bucket's tags of rows that lose to a stored record; None if there are none.

    If a move loses, its insert is dropped too: the record is not changed.
    """
    tags = task.bucket.tags.load()
    part, row, home, action = (
        tags.column(name).to_numpy() for name in ("part", "row", "home", "action")
    )
    gone = np.zeros(len(part), np.bool_)
    for number, slice_ in task.slices:
        mine = home == number
        at = np.flatnonzero(mine if task.skips_unchanged else mine & (action != RowAction.PUT))
        stored = read_slice(task.fs, slice_, spec=task.spec)
        columns = [name for name in task.spec.columns if name in _keyed(task)]
        incoming = Routed(take_rows(task.parts, part[at], row[at], columns=columns), action[at])
        gone[at[_losers(stored, incoming, task, slice_.partition)]] = True
    leaving = gone & (action == RowAction.LEAVE)
    if leaving.any():
        key = part.astype(np.int64) << 32 | row
        gone |= np.isin(key, key[leaving])
    if not gone.any():
        return None
    return task.staging.put(
        f"lost-{task.bucket.bucket:05d}", pa.table({"position": np.flatnonzero(gone)})
    )


def _keyed(task: ContestTask) -> set[str]:
    return set(task.parts[0].staged.load().schema.names)


def _losers(stored: pa.Table, incoming: Routed, task: ContestTask, partition: str) -> Mask:
    rules = task.spec.rules
    decision = resolve_updates(stored, incoming.rows, incoming.puts, rules, natural_deletes=False)
    lost: Mask = decision.lost & (incoming.action != RowAction.PUT)
    if not task.skips_unchanged:
        return lost
    puts = (incoming.action == RowAction.PUT) & decision.matched
    lost |= puts & decision.lost
    after = outcome(stored, incoming.rows, decision, rules)
    at = np.flatnonzero((puts & ~decision.lost)[decision.emit])
    rows = np.flatnonzero(decision.emit)[at]
    before = plain(stored.take(pa.array(decision.partner[rows])))
    # A file may store another partition than its path says: of an earlier row that did not move.
    in_path = partition_values(task.config, task.spec.table, partition)
    unread = {*in_path, *META_COLUMNS}
    names = [name for name in before.column_names if name not in unread]
    differ = rows_differ(before.select(names), after.take(pa.array(at)).select(names))
    lost[rows[~differ]] = True
    return lost

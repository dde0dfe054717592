"""The RocksDB index: a store a bucket on the workers, with a checkpoint for each commit.

A bucket's task restores its store from the checkpoint if this machine does not have it.  So any
worker may process any bucket, and the loss of a worker loses no data.  The checkpoint of a commit
is published before the commit and becomes valid when it completes (`watermark`, `checkpoint`).
"""

from __future__ import annotations

import hashlib
import logging
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi._native import bucket_of
from pyhudi.arrays import Longs
from pyhudi.engine import Engine
from pyhudi.errors import Overtaken, OvertakenError, StorageError
from pyhudi.index.contract import Located, one_array
from pyhudi.index.external_index import Changes, are_live, only_live, places
from pyhudi.index.key_join import SpilledTable
from pyhudi.index.rocksdb.bucket_store import BucketChanges, advance, open_bucket
from pyhudi.index.rocksdb.checkpoint import (
    CHECKPOINT_FOLDER,
    Checkpoint,
    missing_files,
    publish_checkpoint,
    remove_outdated_checkpoints,
)
from pyhudi.index.rocksdb.store_files import BucketState, Place
from pyhudi.index.watermark import Covered
from pyhudi.options import IndexKind, RocksRules
from pyhudi.records import RECORD_KEY, FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_LOG: Final = logging.getLogger("pyhudi")


def place_of(fs: FileSystem, rules: RocksRules) -> Place:
    """Where the stores of a table are; fs: rooted at the table.  The local folder depends on the
    table's URL only."""
    name = hashlib.sha256(fs.url.encode()).hexdigest()[:16]
    return Place(fs.sub(CHECKPOINT_FOLDER), rules.folder, name)


@dataclass(frozen=True, slots=True)
class RocksFinder:
    """Looks up the keys of a hash part in their buckets.  Picklable; opens stores where it runs."""

    place: Place
    buckets: tuple[BucketState, ...]
    live: SpilledTable

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        found, _ = look_up_rocksdb(self.place, self.buckets, one_array(rows.column(RECORD_KEY)))
        return only_live(found, self.live)


def look_up_rocksdb(
    place: Place, buckets: Sequence[BucketState], keys: pa.Array
) -> tuple[Located, Longs]:
    """(places of keys, the commit of each), including file groups that the table no longer has.

    keys: without nulls.
    """
    groups: dict[FileGroupId, int] = {}
    row, home, time = [np.zeros(0, np.int64)], [np.zeros(0, np.int32)], [np.zeros(0, np.int64)]
    numbers = bucket_of(keys, len(buckets))
    for number in np.unique(numbers).tolist():
        store = open_bucket(place, buckets[number])
        if store is None:
            continue
        mine = np.flatnonzero(numbers == number)
        codes, commits = store.find(keys.take(pa.array(mine)))
        hit = codes >= 0
        used, position = np.unique(codes[hit], return_inverse=True)
        named = [groups.setdefault(store.groups[code], len(groups)) for code in used.tolist()]
        row.append(mine[hit])
        home.append(np.array([*named, 0], np.int32)[position])
        time.append(commits[hit])
    rows = np.concatenate(row)
    order = np.argsort(rows, kind="stable")
    located = Located(rows[order], np.concatenate(home)[order], tuple(groups))
    return located, np.concatenate(time)[order]


@dataclass(frozen=True, slots=True)
class AdvanceTask:
    """A task that applies one bucket's changes, selected from those of all hash parts."""

    place: Place
    state: BucketState
    bucket_count: int
    changes: Changes
    instant: InstantTime


def advance_bucket(task: AdvanceTask) -> BucketState:
    """The bucket after the changes; unchanged if it has none."""
    keys, targets = [pa.array([], pa.string())], [np.zeros(0, np.int32)]
    for stored in task.changes.tables:
        table = stored.load()
        some = one_array(table.column("key"))
        mine = np.flatnonzero(bucket_of(some, task.bucket_count) == task.state.number)
        keys.append(some.take(pa.array(mine)))
        targets.append(np.asarray(table.column("target").to_numpy(), np.int32)[mine])
    target = np.concatenate(targets)
    if not len(target):
        return task.state
    used = np.unique(target[target >= 0])
    groups = tuple(task.changes.groups[number] for number in used.tolist())
    target = np.where(target < 0, -1, np.searchsorted(used, target)).astype(np.int32)
    changes = BucketChanges(pa.concat_arrays(keys), target, groups)
    return advance(task.place, task.state, changes, task.instant)


@dataclass(frozen=True)
class RocksStore:
    """The index as of a checkpoint that has seen all of `timeline`, which `log` loaded."""

    place: Place
    log: TimelineLog
    timeline: Timeline
    buckets: tuple[BucketState, ...]
    rules: RocksRules
    notes: tuple[str, ...] = ()

    @property
    def kind(self) -> IndexKind:
        return IndexKind.ROCKSDB

    @property
    def part_count(self) -> int:
        return len(self.buckets)

    def finder(self, part: int, part_count: int, live: SpilledTable) -> RocksFinder:
        buckets = self.buckets
        if part_count == len(buckets):  # a part has the keys of one bucket
            buckets = tuple(b if b.number == part else BucketState(b.number) for b in buckets)
        return RocksFinder(self.place, buckets, live)

    def write(self, changes: Changes, instant: InstantTime, engine: Engine) -> Checkpoint:
        buckets = self.buckets
        if changes.tables:
            tasks = [AdvanceTask(self.place, b, len(buckets), changes, instant) for b in buckets]
            buckets = tuple(engine.run(advance_bucket, tasks, label="index"))
        return Checkpoint(Covered.of(self.timeline, mine=instant), buckets)

    def publish(self, written: Checkpoint) -> Overtaken | None:
        """Publish the checkpoint, unless concurrent writers have cleaned files that it refers
        to."""
        if self.log.load().commits != self.timeline.commits:
            gone = missing_files(self.place.fs, written)
            if gone:
                error = OvertakenError(
                    "the RocksDB checkpoint that this write is based on was removed",
                    path=gone[0],
                    files=len(gone),
                )
                return Overtaken(error)
        publish_checkpoint(self.place.fs, written)
        return None

    def apply_deferred(self, written: Checkpoint) -> None:
        try:
            remove_outdated_checkpoints(
                self.place.fs, self.log.load(), keep=self.rules.checkpoints_retained
            )
        except StorageError as error:
            _LOG.warning("old checkpoints of the RocksDB index were not removed: %s", error)

    def lookup(self, keys: pa.Array, live: SpilledTable, engine: Engine) -> pa.Table:
        valid = np.flatnonzero(np.asarray(keys.is_valid()))
        found, commits = look_up_rocksdb(self.place, self.buckets, keys.take(pa.array(valid)))
        keep = are_live(found, live)
        rows = valid[found.rows[keep]]
        return places(keys, Located(rows, found.homes[keep], found.groups), commits[keep])

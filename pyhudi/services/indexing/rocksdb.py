"""Opening of the RocksDB index: catch-up with the table, or a build from the table's keys.

```
valid checkpoint that covers every commit                     used unchanged
valid checkpoint that lacks some commits                      reads the file groups they touched
none, or missing commits are archived or rolled back          reads every key (`sorted_key_runs`)
```

The result is a checkpoint of the newest commit.  The caller holds the table's lock, or does not
publish.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import argsort, is_strictly_sorted, latest
from pyhudi.engine import Engine
from pyhudi.errors import CorruptFileError, IndexNotReadyError
from pyhudi.index.maintenance.rebuild import (
    ReportProgress,
    gather_keys,
    in_waves,
    plan_build,
    remove_build,
    silent,
)
from pyhudi.index.maintenance.sorted_key_runs import BucketKeys, KeyRun, make_run, run_tasks
from pyhudi.index.rocksdb.bucket_store import BucketChanges, advance, open_bucket
from pyhudi.index.rocksdb.checkpoint import Checkpoint, newest_valid, publish_checkpoint
from pyhudi.index.rocksdb.rocksdb_index import RocksStore, place_of
from pyhudi.index.rocksdb.store_files import BucketState, Place
from pyhudi.index.watermark import Covered, touched_groups
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.options import RocksRules
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.spill import Staging
from pyhudi.table.file_group_view import FileSlice


@dataclass(frozen=True)
class StoreOpening:
    """How the index is opened.  bucket_count: of an index that does not exist yet.  publishes:
    whether the result is stored for later writes."""

    rules: RocksRules
    staging: Staging
    bucket_count: int
    publishes: bool
    progress: ReportProgress = silent


def open_rocks(state: TableState, engine: Engine, opening: StoreOpening) -> RocksStore:
    """The index of the table, up to date with its newest commit.

    Cost: one listing and one read if it covers every commit; after a catch-up the keys of the
    touched file groups and a pass over every store; for a build every key of the table.
    """
    place = _place(state, engine, opening)
    last = state.timeline.commits.last
    if last is None:
        empty = tuple(BucketState(number) for number in range(opening.bucket_count))
        return RocksStore(place, state.log, state.timeline, empty, opening.rules)
    found = newest_valid(place.fs, state.log, state.timeline)
    missed = None if found is None else found.covered.missed(state.timeline)
    if found is None:
        return build_rocks(state, engine, opening)
    if missed is None:
        same = replace(opening, bucket_count=len(found.buckets))
        return build_rocks(state, engine, same)
    groups = touched_groups(state.log, missed)
    store = RocksStore(place, state.log, state.timeline, found.buckets, opening.rules)
    if not groups:
        return store
    buckets = _caught_up(state, engine, opening, store, groups)
    note = f"RocksDB index: read {len(missed)} commits of writers that do not update it"
    return _done(replace(store, buckets=buckets, notes=(note,)), opening, last.time)


def _place(state: TableState, engine: Engine, opening: StoreOpening) -> Place:
    """An unpublished index stays on this machine if all tasks run there."""
    copies = opening.publishes or not engine.shares_memory
    return replace(place_of(state.fs, opening.rules), copies=copies)


def opened_for_reading(state: TableState, rules: RocksRules) -> RocksStore:
    """The index for lookups.  Raises IndexNotReadyError if it is not up to date with the table."""
    place = place_of(state.fs, rules)
    last = state.timeline.commits.last
    if last is None:
        return RocksStore(place, state.log, state.timeline, (BucketState(0),), rules)
    found = newest_valid(place.fs, state.log, state.timeline)
    missed = None if found is None else found.covered.missed(state.timeline)
    if found is None or missed is None or touched_groups(state.log, missed):
        raise IndexNotReadyError(
            "the RocksDB index does not cover all commits of the table",
            path=state.fs.url,
            seen=None if found is None else found.covered.newest,
            newest=last.time,
            hint="write with the RocksDB index to update it, or run table.index.rebuild()",
        )
    return RocksStore(place, state.log, state.timeline, found.buckets, rules)


def bucket_count_of(state: TableState, rules: RocksRules) -> int:
    """The number of buckets of the index; that of the rules if no checkpoint is readable."""
    place = place_of(state.fs, rules)
    with suppress(CorruptFileError):
        found = newest_valid(place.fs, state.log, state.timeline)
        if found is not None:
            return len(found.buckets)
    return rules.bucket_count


def build_rocks(state: TableState, engine: Engine, opening: StoreOpening) -> RocksStore:
    """Build the index from every key of the table; resumes an interrupted build."""
    place = _place(state, engine, opening)
    last = state.timeline.commits.last
    assert last is not None
    if opening.publishes:
        plan = plan_build(state, KeyHash(opening.bucket_count))
        groups, runs = plan.groups, tuple(gather_keys(plan, engine, opening.progress))
    else:
        slices = state.view().latest_slices()
        groups = tuple(slice_.group for slice_ in slices)
        runs = _runs(state, engine, opening, slices, opening.bucket_count)
    tasks = [
        BuildTask(place, BucketState(number), runs, groups, last.time)
        for number in range(opening.bucket_count)
    ]
    buckets = tuple(in_waves(engine, build_store_bucket, tasks, "buckets", opening.progress))
    if opening.publishes:
        remove_build(state.fs)
    note = f"RocksDB index: built from the keys of {len(groups)} file groups"
    store = RocksStore(place, state.log, state.timeline, buckets, opening.rules, (note,))
    return _done(store, opening, last.time)


def _done(store: RocksStore, opening: StoreOpening, time: InstantTime) -> RocksStore:
    if opening.publishes:
        publish_checkpoint(
            store.place.fs, Checkpoint(Covered.of(store.timeline, mine=time), store.buckets)
        )
    return store


@dataclass(frozen=True, slots=True)
class BuildTask:
    """One bucket to update with keys that were read.

    groups: the file group of each slice read, by its number.  replaced: file groups whose
    entries become exactly these keys; empty for a build.
    """

    place: Place
    state: BucketState
    runs: tuple[KeyRun, ...]
    groups: tuple[FileGroupId, ...]
    instant: InstantTime
    replaced: frozenset[FileGroupId] = frozenset()


def build_store_bucket(task: BuildTask) -> BucketState:
    """The bucket updated with the keys; of duplicates the last one counts."""
    keys, homes = BucketKeys(task.runs, task.state.number).up_to(None)
    order = pa.array(argsort(keys))
    keys, homes = keys.take(order), homes.take(order)
    if not is_strictly_sorted(keys):
        once = pa.array(np.sort(latest(keys)))
        keys, homes = keys.take(once), homes.take(once)
    ended = _left(task, keys)
    if not len(keys) and not len(ended):
        return task.state
    target = np.concatenate([homes.to_numpy(), np.full(len(ended), -1, np.int32)])
    changes = BucketChanges(pa.concat_arrays([keys, ended]), target.astype(np.int32), task.groups)
    return advance(task.place, task.state, changes, task.instant)


def _left(task: BuildTask, keys: pa.Array) -> pa.Array:
    """Keys that the bucket has in a file group that no longer has them."""
    none = pa.array([], pa.string())
    store = open_bucket(task.place, task.state) if task.replaced else None
    if store is None:
        return none
    numbers = [n for n, group in enumerate(store.groups) if group in task.replaced]
    stated = store.keys_of(numbers) if numbers else none
    return stated.filter(pc.invert(pc.is_in(stated, value_set=keys)))


def _caught_up(
    state: TableState,
    engine: Engine,
    opening: StoreOpening,
    store: RocksStore,
    groups: frozenset[FileGroupId],
) -> tuple[BucketState, ...]:
    slices: Sequence[FileSlice] = [s for s in state.view().latest_slices() if s.group in groups]
    runs = _runs(state, engine, opening, slices, store.part_count)
    last = state.timeline.commits.last
    assert last is not None
    named = tuple(slice_.group for slice_ in slices)
    work = [
        BuildTask(store.place, bucket, runs, named, last.time, groups) for bucket in store.buckets
    ]
    return tuple(engine.run(build_store_bucket, work, label="index"))


def _runs(
    state: TableState,
    engine: Engine,
    opening: StoreOpening,
    slices: Sequence[FileSlice],
    bucket_count: int,
) -> tuple[KeyRun, ...]:
    """The keys of some slices by bucket, spilled for this write."""
    if not slices:
        return ()
    tasks = run_tasks(state, slices, KeyHash(bucket_count), opening.staging)
    return tuple(engine.run(make_run, tasks, label="read-keys"))

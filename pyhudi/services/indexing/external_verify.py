"""Verification, repair and statistics of external indexes (RocksDB, HBase).

The comparison is that of the record index (`index.maintenance.verify`).  It covers the entries that
lookups use: their commit is completed and their file group is in the table.  Lookups ignore other
entries, so those are not faults.

RocksDB: a repair publishes another checkpoint of the newest commit.  HBase: a repair puts and
deletes rows; the index is checked as one bucket, as its rows are one sequence in key order.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.engine import Engine
from pyhudi.index.hbase.hbase_index import HBaseStore
from pyhudi.index.hbase.hbase_table import Entry, HBasePlace
from pyhudi.index.maintenance.sorted_key_runs import make_run, run_tasks
from pyhudi.index.maintenance.stats import IndexStats, stats_of
from pyhudi.index.maintenance.verify import BucketCheck, CheckedBucket, Fault
from pyhudi.index.rocksdb.bucket_store import BucketChanges, advance, open_bucket
from pyhudi.index.rocksdb.checkpoint import Checkpoint, publish_checkpoint
from pyhudi.index.rocksdb.rocksdb_index import RocksStore
from pyhudi.index.rocksdb.store_files import BucketState, Place
from pyhudi.index.watermark import Covered
from pyhudi.metadata.record_index.entries import IndexEntries
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.index_stats import BucketFigures
from pyhudi.metadata.record_index.locations import Locations
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.spill import Staged, Staging
from pyhudi.table.file_group_view import Visibility

_ROWS: Final = 1 << 16
_PUT: Final = (Fault.MISSING, Fault.WRONG_FILE_GROUP, Fault.STALE_PARTITION)

OpenStore = RocksStore | HBaseStore


@dataclass(frozen=True, slots=True)
class RocksEntries:
    """The entries of one bucket of the RocksDB index that lookups use."""

    place: Place
    state: BucketState

    def chunks(self, live: frozenset[FileGroupId]) -> Iterator[IndexEntries]:
        store = open_bucket(self.place, self.state)
        if store is None:
            return
        is_live = np.array([group in live for group in store.groups], np.bool_)
        for keys, codes, commits in store.chunks(_ROWS):
            keep = is_live[codes]
            some = keys.filter(pa.array(keep))
            yield IndexEntries(some, _locations(store.groups, codes[keep], commits[keep]))


@dataclass(frozen=True, slots=True)
class HBaseEntries:
    """The rows of an HBase table that lookups use.  Cost: some Python objects per row."""

    place: HBasePlace
    visibility: Visibility

    def chunks(self, live: frozenset[FileGroupId]) -> Iterator[IndexEntries]:
        sees: dict[bytes, bool] = {}
        groups: dict[FileGroupId, int] = {}
        for page in self.place.pages(_ROWS):
            keys, codes, commits = [], [], []
            for key, entry in page:
                if entry.commit not in sees:
                    sees[entry.commit] = self.visibility.sees(InstantTime(entry.commit.decode()))
                group = FileGroupId(entry.partition.decode(), entry.file_id.decode())
                if sees[entry.commit] and group in live:
                    keys.append(key)
                    codes.append(groups.setdefault(group, len(groups)))
                    commits.append(int(entry.commit))
            where = _locations(tuple(groups), np.array(codes), np.array(commits, np.int64))
            yield IndexEntries(pa.array(keys, pa.binary()).cast(pa.string()), where)


def _locations(groups: Sequence[FileGroupId], codes: np.ndarray, commits: np.ndarray) -> Locations:
    at = pa.array(codes, pa.int32())
    partitions = pa.array([group.partition for group in groups], pa.string())
    ids = pa.array([group.file_id for group in groups], pa.string())
    return Locations(
        pa.DictionaryArray.from_arrays(at, partitions),
        pa.DictionaryArray.from_arrays(at, ids),
        pa.array(commits, pa.int64()).cast(pa.string()),
    )


@dataclass(frozen=True, slots=True)
class StoreCheckTask:
    """One bucket to check."""

    entries: RocksEntries | HBaseEntries
    bucket: CheckedBucket


def check_store_bucket(task: StoreCheckTask) -> BucketCheck:
    """Compare the entries of a bucket with the keys that belong to it.  May run twice."""
    return task.bucket.check(task.entries.chunks(frozenset(task.bucket.groups)))


def check_store(
    state: TableState, opened: OpenStore, engine: Engine, store: Staging
) -> list[BucketCheck]:
    """Check every bucket of an index that is up to date with the table.

    Cost: the key column of the table and every entry of the index, once.
    """
    sources = _sources(opened)
    hash_ = KeyHash(len(sources))
    slices = state.view().latest_slices()
    tasks = run_tasks(state, slices, hash_, store) if slices else []
    runs = tuple(engine.run(make_run, tasks, label="read-keys"))
    groups = tuple(slice_.group for slice_ in slices)
    checks = [
        StoreCheckTask(source, CheckedBucket(number, hash_, runs, groups, store))
        for number, source in enumerate(sources)
    ]
    return engine.run(check_store_bucket, checks, label="check-index")


def _sources(opened: OpenStore) -> list[RocksEntries | HBaseEntries]:
    if isinstance(opened, HBaseStore):
        return [HBaseEntries(opened.place, opened.visibility)]
    return [RocksEntries(opened.place, bucket) for bucket in opened.buckets]


def repair_store(
    state: TableState, opened: OpenStore, checks: Sequence[BucketCheck], engine: Engine
) -> InstantTime:
    """Repair the faults that the checks found; the instant from which the repair takes effect.

    The caller holds the table's lock.  An interrupted repair leaves RocksDB unchanged and HBase
    with some rows repaired.
    """
    newest = state.timeline.commits.last
    assert newest is not None
    faulty = [check for check in checks if check.faults is not None]
    if isinstance(opened, HBaseStore):
        for check in faulty:
            assert check.faults is not None
            opened.place.put(_rows(check.faults.load(), newest.time))
        return newest.time
    tasks = [
        RepairTask(opened.place, opened.buckets[check.bucket], check.faults, newest.time)
        for check in faulty
        if check.faults is not None
    ]
    done = {bucket.number: bucket for bucket in engine.run(repair_bucket, tasks, label="index")}
    buckets = tuple(done.get(bucket.number, bucket) for bucket in opened.buckets)
    publish_checkpoint(
        opened.place.fs, Checkpoint(Covered.of(opened.timeline, mine=newest.time), buckets)
    )
    return newest.time


@dataclass(frozen=True, slots=True)
class RepairTask:
    """One bucket of the RocksDB index and its faults."""

    place: Place
    state: BucketState
    faults: Staged
    instant: InstantTime


def repair_bucket(task: RepairTask) -> BucketState:
    """The bucket with its faults repaired, as another checkpoint.  May run twice."""
    keys, partitions, ids, put = _faulty(task.faults.load())
    groups: dict[FileGroupId, int] = {}
    targets = [
        groups.setdefault(FileGroupId(partition, file_id), len(groups)) if is_put else -1
        for partition, file_id, is_put in zip(
            partitions.to_pylist(), ids.to_pylist(), put, strict=True
        )
    ]
    changes = BucketChanges(keys, np.array(targets, np.int32), tuple(groups))
    return advance(task.place, task.state, changes, task.instant)


def _rows(faults: pa.Table, instant: InstantTime) -> Iterator[tuple[bytes, Entry | None]]:
    keys, partitions, ids, put = _faulty(faults)
    columns = (column.cast(pa.binary()).to_pylist() for column in (keys, partitions, ids))
    for key, partition, file_id, is_put in zip(*columns, put, strict=True):
        yield key, Entry(instant.encode(), file_id, partition) if is_put else None


def _faulty(faults: pa.Table) -> tuple[pa.Array, pa.Array, pa.Array, list[bool]]:
    """(keys, partitions, file ids, True to put or False to delete) of faults."""
    names = ("record_key", "partition_path", "file_id")
    key, partition, file_id = (faults.column(name).combine_chunks() for name in names)
    put = pc.is_in(faults.column("fault"), pa.array([kind.value for kind in _PUT]))
    return key, partition, file_id, put.to_pylist()


def store_stats(opened: OpenStore, engine: Engine) -> IndexStats:
    """Statistics of the index.  Cost: RocksDB reads stated counts, HBase scans its table."""
    if isinstance(opened, HBaseStore):
        return _hbase_stats(opened.place.pages(_ROWS))
    tasks = [RocksEntries(opened.place, bucket) for bucket in opened.buckets]
    return stats_of(engine.run(_bucket_figures, tasks, label="index-figures"))


def _bucket_figures(task: RocksEntries) -> BucketFigures:
    store = open_bucket(task.place, task.state)
    tables = task.state.tables
    return BucketFigures(
        bucket=task.state.number,
        base_entries=0 if store is None else store.entries_estimated,
        log_entries=0,
        tombstones=0,
        files=len(tables),
        bytes=sum(table.size_bytes for table in tables),
    )


def _hbase_stats(pages: Iterable[Sequence[tuple[bytes, Entry]]]) -> IndexStats:
    count = size = 0
    for page in pages:
        count += len(page)
        size += sum(len(k) + len(e.commit) + len(e.file_id) + len(e.partition) for k, e in page)
    return IndexStats(
        bucket_count=1,
        entries=count,
        tombstones=0,
        files=0,
        bytes=size,
        bytes_per_entry=round(size / count, 2) if count else 0.0,
        load=0.0,
        skew=1.0,
        advice="HBase splits and balances the regions of its table itself",
        buckets=(),
    )

"""Verification of the record index against the table, in both directions.

```
table -> index   every key that a reader sees has an entry with its file group
index -> table   every entry's key is in the file group that the entry states
```

Keys are staged by bucket (`sorted_key_runs`), then each bucket's entries and keys are merged in key
order.  Memory: some chunks of a bucket, independent of the size of the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import KeyTable, latest
from pyhudi.engine import Engine
from pyhudi.index.maintenance.sorted_key_runs import BucketKeys, KeyRun, make_run, run_tasks
from pyhudi.metadata.hfile_slices import MapSlice
from pyhudi.metadata.payloads import RECORD_INDEX
from pyhudi.metadata.record_index.entries import (
    IndexEntries,
    StoredLayer,
    bucket_entries,
    stored_entries,
)
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.k_way_merge import UnsortedError
from pyhudi.metadata.record_index.locations import Locations
from pyhudi.metadata.record_index.lookup import IndexBucket, RecordIndex
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged, Staging
from pyhudi.table.file_group_view import FileSlice

EXAMPLES_MAX: Final = 20
"""Number of faults of one kind in a report."""

_STARTS: Final = b"starts"
_ROWS: Final = 1 << 18


class Fault(Enum):
    """Kinds of faults of a key."""

    MISSING = "missing"  # in the table, but not in the index
    ORPHANED = "orphaned"  # in the index, but not in the table
    WRONG_FILE_GROUP = "wrong_file_group"  # elsewhere in its partition
    STALE_PARTITION = "stale_partition"  # in another partition
    WRONG_BUCKET = "wrong_bucket"  # an entry that lookups cannot find


FAULT_SCHEMA: Final = pa.schema(
    {
        "record_key": pa.string(),
        "fault": pa.string(),
        "partition_path": pa.string(),
        "file_id": pa.string(),
        "stated_partition": pa.string(),
        "stated_file_id": pa.string(),
    }
)
"""A fault: the key's place (null: absent), and the place in its entry (null: no entry)."""


@dataclass(frozen=True, slots=True)
class BucketCheck:
    """Result for one bucket.  copies: rows whose key is also stored elsewhere in the table."""

    bucket: int
    keys: int
    entries: int
    copies: int
    counts: Mapping[str, int]
    examples: pa.Table
    faults: Staged | None


@dataclass(frozen=True, slots=True)
class CheckTask:
    """One bucket to check.  groups: the file group of each slice, by its number."""

    fs: FileSystem
    bucket: IndexBucket
    hash: KeyHash
    runs: tuple[KeyRun, ...]
    groups: tuple[FileGroupId, ...]
    store: Staging
    under: tuple[EntryRun, ...] = ()  # entries of older groups of buckets, oldest first


@dataclass(frozen=True, slots=True)
class EntryRun:
    """Staged entries of one bucket of an older group, by buckets of the newest group."""

    stored: Staged

    def of(self, bucket: int) -> StoredLayer:
        table = self.stored.load()
        starts = np.frombuffer(table.schema.metadata[_STARTS], np.int64)
        return StoredLayer(table.slice(starts[bucket], starts[bucket + 1] - starts[bucket]))


@dataclass(frozen=True, slots=True)
class _EntryTask:
    fs: FileSystem
    bucket: IndexBucket
    stored_hash: KeyHash
    into: KeyHash
    store: Staging


def _stage_entries(task: _EntryTask) -> EntryRun:
    """Stage a bucket's entries.  May run twice."""
    table, starts = stored_entries(task.fs, task.bucket, task.stored_hash, task.into)
    facts = {_STARTS: starts.tobytes()}
    name = f"entries-{task.bucket.group:03d}-{task.bucket.number:05d}"
    return EntryRun(task.store.put(name, table.replace_schema_metadata(facts)))


def check_index(state: TableState, engine: Engine, store: Staging) -> list[BucketCheck]:
    """Check every bucket, of an index by partition those of each partition.  Raises
    IndexNotReadyError without a record index."""
    slices, locations = state.view().latest_slices(), state.locations
    if isinstance(locations, RecordIndex):
        return _check_part(state, locations, slices, engine, store)
    nothing = IndexBucket(MapSlice(RECORD_INDEX.path, 0, None, (), frozenset()), None)
    without = RecordIndex(state.fs, (nothing,))
    names = sorted({*locations.by_partition, *(each.partition for each in slices)})
    return [
        check
        for name in names
        for check in _check_part(
            state,
            locations.by_partition.get(name, without),
            [each for each in slices if each.partition == name],
            engine,
            store,
        )
    ]


def _check_part(
    state: TableState,
    index: RecordIndex,
    slices: Sequence[FileSlice],
    engine: Engine,
    store: Staging,
) -> list[BucketCheck]:
    """Check an index of the keys of these slices."""
    tasks = run_tasks(state, slices, index.hash, store) if slices else []
    runs = tuple(engine.run(make_run, tasks, label="read-keys"))
    groups = tuple(slice_.group for slice_ in slices)
    olds = [
        _EntryTask(state.fs, bucket, index.older_hashes[bucket.group], index.hash, store)
        for bucket in index.older
    ]
    under = tuple(engine.run(_stage_entries, olds, label="old-entries"))
    checks = [
        CheckTask(state.fs, bucket, index.hash, runs, groups, store, under)
        for bucket in index.buckets
    ]
    return engine.run(check_bucket, checks, label="check-index")


def summarize(checks: Sequence[BucketCheck]) -> dict[str, Any]:
    """The checks of all buckets as fields of an `IndexCheck`."""
    counts: dict[str, int] = {}
    for check in checks:
        for kind, count in check.counts.items():
            counts[kind] = counts.get(kind, 0) + count
    shown = pa.concat_tables([FAULT_SCHEMA.empty_table(), *(check.examples for check in checks)])
    return {
        "buckets": len(checks),
        "keys": sum(check.keys for check in checks),
        "entries": sum(check.entries for check in checks),
        "copies": sum(check.copies for check in checks),
        "faults": counts,
        "examples": tuple(_examples(shown).to_pylist()),
    }


def check_bucket(task: CheckTask) -> BucketCheck:
    """Compare the entries of a bucket with the keys that belong to it.  May run twice."""
    try:
        return _check(task, whole=False)
    except UnsortedError:
        return _check(task, whole=True)


def _check(task: CheckTask, *, whole: bool) -> BucketCheck:
    under = [run.of(task.bucket.number) for run in task.under]
    chunks = bucket_entries(task.fs, task.bucket, whole=whole, under=under)
    bucket = CheckedBucket(task.bucket.number, task.hash, task.runs, task.groups, task.store)
    return bucket.check(chunks)


@dataclass(frozen=True, slots=True)
class CheckedBucket:
    """The keys that belong to one bucket.  groups: the file group of each slice, by its number."""

    number: int
    hash: KeyHash
    runs: tuple[KeyRun, ...]
    groups: tuple[FileGroupId, ...]
    store: Staging

    def check(self, chunks: Iterable[IndexEntries]) -> BucketCheck:
        """Compare the keys with the bucket's entries, which come in key order."""
        return _compared(self, chunks)


def _compared(bucket: CheckedBucket, chunks: Iterable[IndexEntries]) -> BucketCheck:
    keys = BucketKeys(bucket.runs, bucket.number)
    key_count, entry_count, copies = keys.left, 0, 0
    compare = _Comparison(bucket.groups)
    found: list[pa.Table] = []
    for entries in chunks:
        entry_count += len(entries.keys)
        strays, mine = _strays(entries, bucket)
        found += strays
        if not len(entries.keys):
            continue
        bound = entries.keys[-1].as_py().encode()
        faults, copied = compare(*keys.up_to(bound), mine)
        found += faults
        copies += copied
    nothing = IndexEntries(pa.array([], pa.string()), Locations.none(0))
    for some, homes in keys.chunks(_ROWS):
        faults, copied = compare(some, homes, nothing)
        found += faults
        copies += copied
    table = pa.concat_tables([FAULT_SCHEMA.empty_table(), *found])
    kinds = table.column("fault")
    counts = {f.value: n for f in Fault if (n := int(_is(kinds, f).sum()))}
    stored = bucket.store.put(f"faults-{bucket.number:05d}", table) if counts else None
    return BucketCheck(
        bucket.number, key_count, entry_count, copies, counts, _examples(table), stored
    )


def _is(kinds: Any, fault: Fault) -> npt.NDArray[np.bool_]:
    return np.asarray(pc.equal(kinds, fault.value).to_numpy(), np.bool_)


def _examples(faults: pa.Table) -> pa.Table:
    """The first `EXAMPLES_MAX` of each kind."""
    parts = [
        faults.take(pa.array(np.flatnonzero(_is(faults.column("fault"), kind))[:EXAMPLES_MAX]))
        for kind in Fault
    ]
    return pa.concat_tables(parts)


def _strays(entries: IndexEntries, bucket: CheckedBucket) -> tuple[list[pa.Table], IndexEntries]:
    """(entries that belong to other buckets, as faults; the others)."""
    home = bucket.hash.buckets(entries.keys) == bucket.number
    if home.all():
        return [], entries
    return (
        list(_faults(_some(entries, ~home), Fault.WRONG_BUCKET)),
        _some(entries, home),
    )


def _some(entries: IndexEntries, mask: npt.NDArray[np.bool_]) -> IndexEntries:
    where, places = pa.array(mask), entries.places
    return IndexEntries(
        entries.keys.filter(where),
        Locations(
            places.partition_path.filter(where),
            places.file_id.filter(where),
            places.instant_time.filter(where),
        ),
    )


def _faults(
    entries: IndexEntries, fault: Fault, truth: pa.Table | None = None
) -> Iterator[pa.Table]:
    """Faults of entries; truth: [partition_path, file_id] of each, None where there is none."""
    count = len(entries.keys)
    if count:
        none = pa.nulls(count, pa.string())
        yield pa.Table.from_arrays(
            [
                entries.keys,
                pa.repeat(pa.scalar(fault.value), count),
                none if truth is None else truth.column("partition_path"),
                none if truth is None else truth.column("file_id"),
                entries.places.partition_path.cast(pa.string()),
                entries.places.file_id.cast(pa.string()),
            ],
            schema=FAULT_SCHEMA,
        )


class _Comparison:
    """Compares keys and entries of one key range, for slices of these groups."""

    def __init__(self, groups: Sequence[FileGroupId]) -> None:
        self._numbers = {group: number for number, group in enumerate(groups)}
        self._partitions = pa.array([group.partition for group in groups], pa.string())
        self._file_ids = pa.array([group.file_id for group in groups], pa.string())

    def __call__(
        self, keys: pa.Array, homes: pa.Array, entries: IndexEntries
    ) -> tuple[list[pa.Table], int]:
        """(faults, copies).  homes: the slice of each key; a key in several slices repeats."""
        home = np.asarray(homes.to_numpy(), np.int64)
        at = KeyTable(entries.keys).first(keys)
        stated = self._stated(entries.places)
        known = at >= 0
        right = known.copy()
        right[known] = stated[at[known]] == home[known]
        truth = np.full(len(entries.keys), -1, np.int64)
        truth[at[known]] = home[known]
        is_right = np.zeros(len(entries.keys), np.bool_)
        is_right[at[right]] = True
        absent = np.flatnonzero(~known)
        once = absent[latest(keys.take(pa.array(absent)))]
        faults = [
            *_faults(_some(entries, truth < 0), Fault.ORPHANED),
            *self._moved(entries, truth, (truth >= 0) & ~is_right),
            *self._missing(keys.take(pa.array(once)), home[once]),
        ]
        return faults, len(keys) - int((truth >= 0).sum()) - len(once)

    def _stated(self, places: Locations) -> npt.NDArray[np.int64]:
        """The number of the slice that each entry states; -1 where there is no such slice."""
        partitions, files = places.partition_path, places.file_id
        width = max(1, len(files.dictionary))
        pairs = np.asarray(
            partitions.indices.fill_null(0).to_numpy(), np.int64
        ) * width + np.asarray(files.indices.fill_null(0).to_numpy(), np.int64)
        used, back = np.unique(pairs, return_inverse=True)
        names, ids = partitions.dictionary.to_pylist(), files.dictionary.to_pylist()
        numbers = [
            self._numbers.get(FileGroupId(names[pair // width], ids[pair % width]), -1)
            for pair in used.tolist()
        ]
        return np.array(numbers, np.int64)[back] if len(pairs) else np.zeros(0, np.int64)

    def _truth(self, homes: npt.NDArray[np.int64]) -> pa.Table:
        at = pa.array(homes)
        return pa.table(
            {"partition_path": self._partitions.take(at), "file_id": self._file_ids.take(at)}
        )

    def _moved(
        self, entries: IndexEntries, truth: npt.NDArray[np.int64], wrong: npt.NDArray[np.bool_]
    ) -> Iterator[pa.Table]:
        if not wrong.any():
            return
        some, where = _some(entries, wrong), self._truth(truth[wrong])
        same = np.asarray(
            pc.equal(
                some.places.partition_path.cast(pa.string()), where.column("partition_path")
            ).to_numpy(),
            np.bool_,
        )
        for mask, fault in ((same, Fault.WRONG_FILE_GROUP), (~same, Fault.STALE_PARTITION)):
            yield from _faults(_some(some, mask), fault, where.filter(pa.array(mask)))

    def _missing(self, keys: pa.Array, homes: npt.NDArray[np.int64]) -> Iterator[pa.Table]:
        count = len(keys)
        if count:
            where, none = self._truth(homes), pa.nulls(count, pa.string())
            kind = pa.repeat(pa.scalar(Fault.MISSING.value), count)
            columns = [keys, kind, *where.columns, none, none]
            yield pa.Table.from_arrays(columns, schema=FAULT_SCHEMA)

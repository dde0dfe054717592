"""Staged runs of the record keys of a table, sorted by index bucket and key.

```
slices -> runs     some slices a task: [key: string, home: int32], by bucket and key
runs   -> chunks   a bucket's rows of every run, cut at the same keys
```

Memory: one file slice.  A run is a memory-mapped Arrow file, so each bucket is read separately.
home: position of the key's slice among the run's slices.
"""

from __future__ import annotations

import hashlib
from bisect import bisect_right
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import argsort
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.read.file_slice import SliceSpec, read_slice
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import RECORD_KEY
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import Staged, Staging
from pyhudi.table.file_group_view import FileSlice

_STARTS: Final = b"starts"
_RUN_BYTES: Final = 128 << 20
"""Stored bytes of the slices of one run; larger runs make fewer files, and need more memory."""


@dataclass(frozen=True, slots=True)
class RunTask:
    """Some slices, by number, whose keys make one run.  fs: rooted at the data table."""

    fs: FileSystem
    spec: SliceSpec
    slices: tuple[tuple[int, FileSlice], ...]
    hash: KeyHash
    store: Staging
    name: str


@dataclass(frozen=True, slots=True)
class KeyRun:
    """A staged run.  first: the number of its first slice, among all slices of the build."""

    stored: Staged
    first: int


def run_tasks(
    state: TableState, slices: Sequence[FileSlice], hash: KeyHash, store: Staging
) -> list[RunTask]:
    """Tasks that together read the keys of all slices, in the order of the slices.

    A run is of one partition.  Its name is a digest of its input: equal names mean equal runs.
    """
    spec = SliceSpec(state.schema(), (RECORD_KEY,), state.rules, state.view().visibility)
    newest = state.timeline.commits.last
    seen = f"{len(state.timeline)} {newest.time if newest else ''}"
    return [
        RunTask(state.fs, spec, group, hash, store, _name(group, hash, seen))
        for group in _groups(slices)
    ]


def _groups(slices: Sequence[FileSlice]) -> Iterator[tuple[tuple[int, FileSlice], ...]]:
    group: list[tuple[int, FileSlice]] = []
    size = 0
    for number, slice_ in enumerate(slices):
        other = group and slice_.partition != group[0][1].partition
        if other or (group and size + slice_.size_bytes > _RUN_BYTES):
            yield tuple(group)
            group, size = [], 0
        group.append((number, slice_))
        size += slice_.size_bytes
    if group:
        yield tuple(group)


def _name(group: Sequence[tuple[int, FileSlice]], hash: KeyHash, seen: str) -> str:
    """seen: the committed instants, which determine which log blocks are visible."""
    facts = [hash.facts]
    for _, slice_ in group:
        facts.append(slice_.partition)
        facts += [f"{file.name} {file.size_bytes}" for file in slice_.files]
        if slice_.logs:
            facts.append(seen)
    return f"keys-{hashlib.sha256(chr(10).join(facts).encode()).hexdigest()[:24]}"


def make_run(task: RunTask) -> KeyRun:
    """Read the keys of some slices, as readers see them, and stage them.  May run twice."""
    keys: list[pa.Array] = []
    homes: list[pa.Array] = []
    for number, (_, slice_) in enumerate(task.slices):
        column = read_slice(task.fs, slice_, spec=task.spec).column(RECORD_KEY)
        keys += column.chunks
        homes.append(pa.array(np.full(len(column), number, np.int32)))
    none = pa.array([], pa.string())
    key = pa.concat_arrays([none, *keys])
    home = pa.concat_arrays([pa.array([], pa.int32()), *homes])
    order = np.asarray(argsort(key), np.int64)
    bucket = task.hash.buckets(key)[order]
    order = order[np.argsort(bucket.astype(np.uint16), kind="stable")]  # a radix sort
    starts = np.concatenate([[0], np.cumsum(np.bincount(bucket, minlength=task.hash.count))])
    table = pa.table({"key": key.take(pa.array(order)), "home": home.take(pa.array(order))})
    facts = {_STARTS: starts.astype(np.int64).tobytes()}
    stored = task.store.put(task.name, table.replace_schema_metadata(facts))
    return KeyRun(stored, task.slices[0][0])


class BucketKeys:
    """The keys of one bucket over all runs, consumed in key order up to a bound."""

    def __init__(self, runs: Sequence[KeyRun], bucket: int) -> None:
        self._runs: list[tuple[pa.Array, pa.Array, int]] = []
        self._at: list[int] = []
        for run in runs:
            table = run.stored.load()
            starts = np.frombuffer(table.schema.metadata[_STARTS], np.int64)
            low, high = starts[bucket], starts[bucket + 1]
            if low < high:
                some = table.slice(low, high - low)
                self._runs.append((_one(some.column("key")), _one(some.column("home")), run.first))
                self._at.append(0)

    @property
    def left(self) -> int:
        """The number of keys not consumed."""
        return sum(len(keys) - at for (keys, *_), at in zip(self._runs, self._at, strict=True))

    def up_to(self, bound: bytes | None) -> tuple[pa.Array, pa.Array]:
        """Consume the keys up to `bound` (None: all); returns (keys, numbers of their slices),
        unordered."""
        keys, homes = [pa.array([], pa.string())], [pa.array([], pa.int32())]
        for number, (column, home, first) in enumerate(self._runs):
            start = self._at[number]
            end = len(column) if bound is None else _after(column, bound, start)
            if end > start:
                keys.append(column[start:end])
                homes.append(pc.add(home[start:end], pa.scalar(first, pa.int32())))
                self._at[number] = end
        return pa.concat_arrays(keys), pa.concat_arrays(homes)

    def chunks(self, rows_max: int) -> Iterator[tuple[pa.Array, pa.Array]]:
        """The remaining keys in chunks of at most about `rows_max` rows; equal keys are in one
        chunk."""
        while (left := self.left) > rows_max:
            yield self.up_to(self._cut(rows_max / left))
        if left:
            yield self.up_to(None)

    def _cut(self, share: float) -> bytes:
        """A key that about `share` of the remaining keys do not exceed: the median of the runs'
        estimates, weighted by their rows."""
        marks: list[tuple[bytes, int]] = []
        for (column, *_), at in zip(self._runs, self._at, strict=True):
            rest = len(column) - at
            if rest:
                marks.append((column[at + int(rest * share)].as_py().encode(), rest))
        marks.sort()
        half, seen = sum(rest for _, rest in marks) / 2, 0
        for key, rest in marks:
            seen += rest
            if seen >= half:
                return key
        return marks[-1][0]


def _one(column: pa.ChunkedArray) -> pa.Array:
    return column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()


def _after(column: pa.Array, bound: bytes, start: int) -> int:
    """Position after the keys up to `bound`, in byte order."""
    return bisect_right(
        range(len(column)), bound, lo=start, key=lambda at: column[at].as_py().encode()
    )

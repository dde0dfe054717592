"""Look-ups in the record index: the bucket of each key, and its location in the bucket's files.

Source: table_format 9.5, 9.6.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import tzinfo
from itertools import pairwise
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyhudi._native.hashing import group_keys
from pyhudi.engine import Engine
from pyhudi.errors import SchemaError, UserError
from pyhudi.filenames import METADATA_TABLE
from pyhudi.formats.java_text import as_text
from pyhudi.metadata.hfile_slices import (
    Layer,
    LayerMatches,
    MapSlice,
    dated_layers,
    layers,
    look_up_layers,
)
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.locations import CodedLocations, combine_parts, decode_coded
from pyhudi.metadata.record_index.lookup_costs import LookupCost
from pyhudi.storage.filesystem import FileSystem

_PARALLEL_KEYS_MIN: Final = 4096  # with fewer keys, starting threads costs more than it saves


class Beneath(Protocol):
    """Older groups of buckets below those of an index; picklable."""

    def look_up(
        self, fs: FileSystem, keys: pa.Array, *, method: str, costs: list[LookupCost] | None = None
    ) -> tuple[list[LayerMatches], NDArray[np.int64]]:
        """Like `hfile_slices.asked`; fs: rooted at the data table."""
        ...


@dataclass(frozen=True, slots=True)
class IndexBucket:
    """One bucket of the record index; picklable, for workers.

    zone: of the instants.  method: of look-ups in its files: "auto", "seek" or "scan".  root: the
    folder of the index, relative to the data table's root.  Elastic indexes only: `sealed` file
    groups of the bucket, oldest first; older groups of buckets `beneath`; `group`: the number of
    the bucket's group.
    """

    map_slice: MapSlice
    zone: tzinfo | None
    method: str = "auto"
    root: str = METADATA_TABLE
    sealed: tuple[MapSlice, ...] = ()
    beneath: Beneath | None = None
    group: int = 0

    @property
    def number(self) -> int:
        return self.map_slice.number

    @property
    def slices(self) -> tuple[MapSlice, ...]:
        """Every file group of the bucket, oldest first."""
        return (*self.sealed, self.map_slice)

    def dated_layers(self, fs: FileSystem) -> tuple[tuple[Layer, str | None], ...]:
        """`hfile_slices.dated_layers` of the bucket, oldest first; fs: rooted at the data table."""
        index_fs = fs.sub(self.root)
        return tuple(
            layer for file_slice in self.slices for layer in dated_layers(index_fs, file_slice)
        )

    def layers(self, fs: FileSystem) -> tuple[Layer, ...]:
        return tuple(layer for layer, _ in self.dated_layers(fs))

    def look_up(
        self, fs: FileSystem, keys: pa.Array, *, costs: list[LookupCost] | None = None
    ) -> list[LayerMatches]:
        """The newest value of each key; a key in no match is absent or deleted.

        costs: the cost of each file is appended.
        """
        hits, left = look_up_layers(self.layers(fs), keys, method=self.method, costs=costs)
        if self.beneath is None or not len(left):
            return hits
        below, _ = self.beneath.look_up(
            fs, keys.take(pa.array(left)), method=self.method, costs=costs
        )
        return hits + [replace(hit, positions=left[hit.positions]) for hit in below]


class RecordIndex:
    """Look-ups of record locations over all buckets.

    hash: of the keys; None: that of Apache Hudi.  older, older_hashes: buckets of older groups, and
    the hash of each of these groups.
    """

    def __init__(
        self,
        fs: FileSystem,
        buckets: tuple[IndexBucket, ...],
        *,
        hash: KeyHash | None = None,
        older: tuple[IndexBucket, ...] = (),
        older_hashes: tuple[KeyHash, ...] = (),
    ) -> None:
        self._fs = fs
        self.buckets = buckets
        self.hash = hash or KeyHash(len(buckets))
        self.older = older
        self.older_hashes = older_hashes

    @property
    def bucket_count(self) -> int:
        return len(self.buckets)

    def lookup(self, keys: Any, *, engine: Engine | None = None) -> pa.Table:
        """One row per key, in the order of `keys`.

        keys: list or column of strings; a null key is absent.  Returns [record_key: string,
        partition_path: string, file_id: string, instant_time: string, found: bool]; the location
        is null where the key is absent.
        """
        column = _key_column(keys)
        valid = column.drop_null()
        spread = engine if len(valid) >= _PARALLEL_KEYS_MIN else None
        if spread is not None and (self.older or any(s.sealed for s in self.buckets)):
            hits = self._by_file_group(valid, spread)
        else:
            hits = self._by_bucket(valid, spread)
        if column.null_count:
            at = _valid_positions(column)
            hits = [replace(hit, positions=at[hit.positions]) for hit in hits]
        found = _places(hits, len(column), self.buckets[0].zone)
        file_id = found.file_ids.take(found.codes)
        return pa.table(
            {
                "record_key": column,
                "partition_path": found.partition_paths.take(found.codes),
                "file_id": file_id,
                "instant_time": found.instant_times.take(found.codes),
                "found": file_id.is_valid(),
            }
        )

    def _by_bucket(self, keys: pa.Array, engine: Engine | None) -> list[LayerMatches]:
        """Run one task per bucket, which searches its file groups in turn, newest first."""
        cuts = keys_by_bucket(keys, self.hash)
        tasks = [LookupTask(self._fs, self.buckets[n], some) for n, some, _ in cuts]
        if engine is None or len(tasks) < 2:
            answers = [_look_up_bucket(task) for task in tasks]
        else:
            answers = engine.run(_look_up_bucket, tasks, label="lookup")
        return [
            replace(hit, positions=at[hit.positions])
            for (_, _, at), answer in zip(cuts, answers, strict=True)
            for hit in answer
        ]

    def _by_file_group(self, keys: pa.Array, engine: Engine) -> list[LayerMatches]:
        """Run one task per file group, all in parallel; the newest result of a key is used."""
        tasks: list[_FileGroupTask] = []
        places: list[NDArray[np.int64]] = []
        hashes = (*self.older_hashes, self.hash)
        buckets = {(bucket.group, bucket.number): bucket for bucket in (*self.older, *self.buckets)}
        for group in reversed(range(len(hashes))):
            for number, some, at in keys_by_bucket(keys, hashes[group]):
                bucket = buckets[group, number]
                for file_slice in reversed(bucket.slices):
                    tasks.append(
                        _FileGroupTask(self._fs.sub(bucket.root), file_slice, some, bucket.method)
                    )
                    places.append(at)
        known = np.zeros(len(keys), np.bool_)
        found: list[LayerMatches] = []
        for at, answer in zip(
            places, engine.run(_look_up_group, tasks, label="lookup"), strict=True
        ):
            for hit in answer.hits:
                where = at[hit.positions]
                fresh = ~known[where]
                if fresh.any():
                    values = hit.values.filter(pa.array(fresh))
                    found.append(replace(hit, positions=where[fresh], values=values))
            known[at[answer.known]] = True
        return found


def keys_by_bucket(keys: pa.Array, hash: KeyHash) -> list[tuple[int, pa.Array, NDArray[np.int64]]]:
    """(bucket, its keys, their positions) of each bucket with at least one key."""
    if hash.count == 1:
        return [(0, keys, np.arange(len(keys), dtype=np.int64))] if len(keys) else []
    grouped, rows, bounds = group_keys(keys, hash.buckets(keys), hash.count)
    return [
        (number, grouped[low:high], rows[low:high])
        for number, (low, high) in enumerate(pairwise(bounds.tolist()))
        if low < high
    ]


def _key_column(keys: Any) -> pa.Array:
    """Keys as text.  A str or bytes is one key; numbers are formatted as in Java."""
    column = _as_array(keys)
    if pa.types.is_large_string(column.type) or pa.types.is_string(column.type):
        return column
    try:
        if pa.types.is_null(column.type) or pa.types.is_binary(column.type):
            return column.cast(pa.string())
        return as_text(column, "record key")
    except (pa.ArrowException, SchemaError) as error:
        raise UserError("record keys must be strings", type=column.type) from error


def _as_array(keys: Any) -> pa.Array:
    if isinstance(keys, pa.Array):
        return keys
    if isinstance(keys, pa.ChunkedArray):
        return keys.combine_chunks()
    if hasattr(keys, "__arrow_c_stream__") or hasattr(keys, "__arrow_c_array__"):
        return pa.chunked_array(keys).combine_chunks()
    is_one = isinstance(keys, str | bytes) or not isinstance(keys, Iterable)
    try:
        return pa.array([keys] if is_one else list(keys))
    except (pa.ArrowException, TypeError, ValueError) as error:
        raise UserError("record keys must be strings", why=str(error)) from error


def _valid_positions(column: pa.Array) -> np.ndarray[Any, np.dtype[np.int64]]:
    return np.flatnonzero(column.is_valid().to_numpy(zero_copy_only=False))


@dataclass(frozen=True, slots=True)
class LookupTask:
    """Keys for one bucket."""

    fs: FileSystem
    bucket: IndexBucket
    keys: pa.Array


def _look_up_bucket(task: LookupTask) -> list[LayerMatches]:
    return task.bucket.look_up(task.fs, task.keys)


@dataclass(frozen=True, slots=True)
class _FileGroupTask:
    """Keys for one file group of a bucket.  fs: rooted at the index."""

    fs: FileSystem
    map_slice: MapSlice
    keys: pa.Array
    method: str


@dataclass(frozen=True, slots=True)
class _Answer:
    """The result of one file group.  known: positions of keys with a location or a tombstone."""

    hits: list[LayerMatches]
    known: NDArray[np.int64]


def _look_up_group(task: _FileGroupTask) -> _Answer:
    hits, left = look_up_layers(layers(task.fs, task.map_slice), task.keys, method=task.method)
    known = np.ones(len(task.keys), np.bool_)
    known[left] = False
    return _Answer(hits, np.flatnonzero(known))


def _places(hits: list[LayerMatches], count: int, zone: tzinfo | None) -> CodedLocations:
    """The locations in the matches, as a column of `count` slots.  All values of one schema are
    decoded together, so each distinct value is decoded once."""
    by_schema: dict[str, list[LayerMatches]] = {}
    for hit in hits:
        by_schema.setdefault(hit.schema, []).append(hit)
    parts = [
        decode_coded(
            pa.concat_arrays([hit.values for hit in group]), schema, zone=zone, path=group[0].path
        )
        for schema, group in by_schema.items()
    ]
    positions = [hit.positions for group in by_schema.values() for hit in group]
    return combine_parts(
        parts, np.concatenate(positions) if positions else np.empty(0, np.int64), count
    )


LOOKUP_SCHEMA: Final = pa.schema(
    {
        "partition_path": pa.dictionary(pa.int32(), pa.string()),
        "file_id": pa.dictionary(pa.int32(), pa.string()),
        "instant_time": pa.string(),
        "found": pa.bool_(),
    }
)


def lookup_bucket(
    fs: FileSystem, bucket: IndexBucket, keys: pa.Array, costs: list[LookupCost] | None = None
) -> pa.RecordBatch:
    """Locations of keys of one bucket: rows of LOOKUP_SCHEMA in the order of `keys`.

    fs: rooted at the data table.  keys: strings without nulls, all of this bucket.
    costs: the cost of each file is appended.
    """
    found = _places(bucket.look_up(fs, keys, costs=costs), len(keys), bucket.zone).spread()
    return pa.RecordBatch.from_arrays(
        [found.partition_path, found.file_id, found.instant_time, found.file_id.is_valid()],
        schema=LOOKUP_SCHEMA,
    )

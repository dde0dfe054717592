"""Scans of the record index: all entries of a bucket in key order, chunk by chunk.

Source: table_format 9.6.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pyhudi.filenames import METADATA_TABLE
from pyhudi.metadata.compaction import merged_newest
from pyhudi.metadata.hfile_slices import ValueLayer
from pyhudi.metadata.payloads import RECORD_INDEX, SCHEMA
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.k_way_merge import Chunk, merged_chunks
from pyhudi.metadata.record_index.locations import Locations, decode_locations, transcode_locations
from pyhudi.metadata.record_index.lookup import IndexBucket
from pyhudi.storage.filesystem import FileSystem

_ROWS: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class StoredLayer:
    """Staged entries: [key, value] in key order; an empty value for a deleted key."""

    table: pa.Table
    path: str = "staged entries"
    schema: str = SCHEMA

    def batches(self) -> Iterator[pa.RecordBatch]:
        yield from self.table.to_batches()


@dataclass(frozen=True, slots=True)
class IndexEntries:
    """Some entries of a bucket.  keys: strings, distinct and in byte order."""

    keys: pa.Array
    places: Locations


def bucket_entries(
    fs: FileSystem, bucket: IndexBucket, *, whole: bool = False, under: Sequence[StoredLayer] = ()
) -> Iterator[IndexEntries]:
    """The visible entries of a bucket, without tombstones.  fs: rooted at the data table.

    under: entries of its keys in older groups of buckets, oldest first; without them, only the
    bucket's own entries are returned.  Cost: reads every file of the bucket once; memory for a few
    chunks.  whole: use memory for the whole bucket.
    Raises UnsortedError, possibly after some results, where Java's key order differs from byte
    order: discard those results and read such a bucket with `whole`.
    """
    if whole:
        keys, values = merged_newest(fs.sub(METADATA_TABLE), bucket.map_slice)
        chunks = iter([(keys[at : at + _ROWS], values[at : at + _ROWS]) for at in _steps(keys)])
    else:
        chunks = merged_chunks((*under, *bucket.layers(fs)), _in_our_schema)
    for chunk in _gathered(chunks):
        found = _entries(chunk, bucket)
        if len(found.keys):
            yield found


def stored_entries(
    fs: FileSystem, bucket: IndexBucket, stored_hash: KeyHash, into: KeyHash
) -> tuple[pa.Table, NDArray[np.int64]]:
    """A bucket's newest entries grouped by target bucket: ([key, value], start of each target).

    stored_hash: the hash that assigned keys to the bucket; into: that of the target buckets.  In
    each target, keys ascend; deleted keys have an empty value.  Entries that no look-up finds are
    left out.  Cost: reads the bucket's files once, and memory for the bucket.
    """

    def all_of(keys: pa.Array) -> NDArray[np.bool_]:
        return np.ones(len(keys), np.bool_)

    chunks = [*merged_chunks(bucket.layers(fs), _in_our_schema, keeps_ended=all_of)]
    keys = pa.concat_arrays([pa.array([], pa.binary()), *(chunk[0] for chunk in chunks)])
    values = pa.concat_arrays([pa.array([], pa.binary()), *(chunk[1] for chunk in chunks)])
    texts = keys.cast(pa.string())
    homes = into.buckets(texts)
    at = np.flatnonzero(stored_hash.buckets(texts) == bucket.number)
    at = at[np.argsort(homes[at], kind="stable")]
    starts = np.concatenate([[0], np.cumsum(np.bincount(homes[at], minlength=into.count))])
    take = pa.array(at)
    return pa.table({"key": keys.take(take), "value": values.take(take)}), starts.astype(np.int64)


def _steps(keys: pa.Array) -> range:
    return range(0, len(keys), _ROWS)


def _in_our_schema(values: pa.Array, layer: ValueLayer | StoredLayer) -> pa.Array:
    return transcode_locations(values, layer.schema, path=layer.path)


def _gathered(chunks: Iterator[Chunk]) -> Iterator[Chunk]:
    """Combine small chunks into larger ones."""
    keys: list[pa.Array] = []
    values: list[pa.Array] = []
    count = 0
    for key, value in chunks:
        keys.append(key)
        values.append(value)
        count += len(key)
        if count >= _ROWS:
            yield pa.concat_arrays(keys), pa.concat_arrays(values)
            keys, values, count = [], [], 0
    if count:
        yield pa.concat_arrays(keys), pa.concat_arrays(values)


def _entries(chunk: Chunk, bucket: IndexBucket) -> IndexEntries:
    keys, values = chunk
    empty = pc.equal(pc.binary_length(values), pa.scalar(0, pa.int32()))
    if pc.any(empty).as_py():  # Java's marker of a deleted key
        keys, values = keys.filter(pc.invert(empty)), values.filter(pc.invert(empty))
    path = f"{RECORD_INDEX.path} bucket {bucket.number}"
    return IndexEntries(
        keys.cast(pa.string()), decode_locations(values, SCHEMA, zone=bucket.zone, path=path)
    )

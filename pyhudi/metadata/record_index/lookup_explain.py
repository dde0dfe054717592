"""Explanation of record index look-ups: the chosen method in each file, and its cost."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi.metadata.hfile_slices import DeleteLayer
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.lookup import IndexBucket, RecordIndex
from pyhudi.storage.filesystem import FileSystem

EXPLAIN_SCHEMA: Final = pa.schema(
    {
        "bucket": pa.int32(),
        "file": pa.string(),
        "entries": pa.int64(),
        "keys": pa.int64(),
        "found": pa.int64(),
        "method": pa.string(),
        "seek_seconds": pa.float64(),
        "scan_seconds": pa.float64(),
        "seconds": pa.float64(),
    }
)
"""One row per searched file: its entries, keys looked up and found, the chosen method, estimated
and actual times."""


def explain_lookup(fs: FileSystem, index: RecordIndex, keys: pa.Array) -> pa.Table:
    """Rows of EXPLAIN_SCHEMA, for each bucket the newest file first.

    Runs the look-up one file at a time, so that the actual times are of one thread.
    fs: rooted at the data table.  keys: strings without nulls.
    """
    hashes = (*index.older_hashes, index.hash)
    buckets = {(bucket.group, bucket.number): bucket for bucket in (*index.older, *index.buckets)}
    tables = [EXPLAIN_SCHEMA.empty_table()]
    for group in reversed(range(len(hashes))):
        left = []
        for number, mine in _by_bucket(keys, hashes[group]):
            files, unknown = _bucket(fs, buckets[group, number], mine)
            tables.append(files)
            left.append(unknown)
        keys = pa.concat_arrays([pa.array([], pa.string()), *left])
    return pa.concat_tables(tables)


def _by_bucket(keys: pa.Array, hash: KeyHash) -> Iterator[tuple[int, pa.Array]]:
    homes = hash.buckets(keys)
    for number in np.unique(homes).tolist():
        yield number, keys.filter(pa.array(homes == number))


def _bucket(fs: FileSystem, bucket: IndexBucket, keys: pa.Array) -> tuple[pa.Table, pa.Array]:
    """(the searched files, keys not found in any of them)."""
    files: list[_File] = []
    for layer in reversed(bucket.layers(fs)):
        if not len(keys):
            break
        if isinstance(layer, DeleteLayer):
            known = layer.table.contains(keys)
        else:
            plan = layer.reader.plan(keys)
            method = plan.method if bucket.method == "auto" else bucket.method
            began = time.perf_counter()
            values = layer.reader.get_many(keys, method=bucket.method)
            took = time.perf_counter() - began
            known = np.asarray(values.is_valid(), np.bool_)
            files.append(
                _File(
                    bucket.number,
                    layer.path,
                    layer.reader.entry_count,
                    len(keys),
                    int(known.sum()),
                    method,
                    plan.seek_cost,
                    plan.scan_cost,
                    took,
                )
            )
        keys = keys.filter(pa.array(~known))
    columns = [[getattr(file, name) for file in files] for name in _File.__slots__]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, EXPLAIN_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=EXPLAIN_SCHEMA), keys


@dataclass(frozen=True, slots=True)
class _File:
    bucket: int
    file: str
    entries: int
    keys: int
    found: int
    method: str
    seek_seconds: float
    scan_seconds: float
    seconds: float

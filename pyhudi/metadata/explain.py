"""What a look-up in the record index chose in each file, and what that cost."""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi._native import shard_of
from pyhudi.filenames import METADATA_TABLE
from pyhudi.metadata.reader import IndexShard, RecordIndex
from pyhudi.metadata.slices import DeleteLayer, layers
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
"""A file asked: its entries, keys asked and found, the choice, costs predicted and real."""


def explain_lookup(fs: FileSystem, index: RecordIndex, keys: pa.Array) -> pa.Table:
    """Rows of EXPLAIN_SCHEMA, of each bucket the newest file first.

    The look-up is done, one file at a time, so that the real cost is of one thread.
    fs: rooted at the data table.  keys: strings without nulls.
    """
    homes = shard_of(keys, index.shard_count)
    tables = [EXPLAIN_SCHEMA.empty_table()]
    for shard in index.shards:
        mine = keys.filter(pa.array(homes == shard.number))
        if len(mine):
            tables.append(_bucket(fs.sub(METADATA_TABLE), shard, mine))
    return pa.concat_tables(tables)


def _bucket(fs: FileSystem, shard: IndexShard, keys: pa.Array) -> pa.Table:
    files: list[_File] = []
    for layer in reversed(layers(fs, shard.piece)):
        if not len(keys):
            break
        if isinstance(layer, DeleteLayer):
            known = layer.table.contains(keys)
        else:
            plan = layer.reader.plan(keys)
            method = plan.method if shard.method == "auto" else shard.method
            began = time.perf_counter()
            values = layer.reader.get_many(keys, method=shard.method)
            took = time.perf_counter() - began
            known = np.asarray(values.is_valid(), np.bool_)
            files.append(
                _File(shard.number, layer.path, layer.reader.entry_count, len(keys),
                      int(known.sum()), method, plan.seek_cost, plan.scan_cost, took)
            )  # fmt: skip
        keys = keys.filter(pa.array(~known))
    columns = [[getattr(file, name) for file in files] for name in _File.__slots__]
    arrays = [pa.array(c, f.type) for c, f in zip(columns, EXPLAIN_SCHEMA, strict=True)]
    return pa.Table.from_arrays(arrays, schema=EXPLAIN_SCHEMA)


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

"""Files of a secondary index: base HFiles of live entries, logs of added and ended entries.

All live entries have the same value.  Ended entries are DELETE blocks of keys, as Apache Hudi 1.x
writes them; a value that is marked as deleted has the same effect.
"""

from __future__ import annotations

from functools import lru_cache

import numpy as np
import pyarrow as pa

from pyhudi._native.keys import argsort
from pyhudi.metadata.file_writers import tombstone_block, value_blocks
from pyhudi.metadata.payloads import SECONDARY_KEY, codec
from pyhudi.metadata.record_schema import RECORDS_V9
from pyhudi.metadata.secondary_index.changes import EntryChanges
from pyhudi.metadata.secondary_index.lookup import PAYLOAD, ended
from pyhudi.records import InstantTime


@lru_cache(maxsize=2)
def entry_value(*, is_deleted: bool = False) -> bytes:
    """The value of an entry."""
    rows = pa.RecordBatch.from_pylist(
        [{"key": "", "type": SECONDARY_KEY, PAYLOAD: {"isDeleted": is_deleted}}],
        schema=pa.schema(
            {"key": pa.string(), "type": pa.int32(), PAYLOAD: _payload_type()},
        ),
    )
    value: bytes = codec(RECORDS_V9.stored).encode_column(rows)[0].as_py()
    return value


def _payload_type() -> pa.DataType:
    return codec(RECORDS_V9.stored).arrow_schema.field(PAYLOAD).type


def sorted_entries(keys: pa.Array) -> tuple[pa.Array, pa.Array]:
    """(keys in byte order, values) of live entries; keys: distinct."""
    ordered = keys.take(pa.array(argsort(keys)))
    one = pa.array([entry_value()], pa.binary())
    return ordered, one.take(pa.array(np.zeros(len(keys), np.int32)))


def live_values(values: pa.Array, schema: str, *, path: str) -> pa.Array:
    """The values in our schema; null for those that mark their entry as deleted.  Nulls stay."""
    alive = values.is_valid().to_numpy(zero_copy_only=False)
    if alive.any():
        alive[alive] = ~ended(values.drop_null(), schema, path=path)
    places = pa.array(np.zeros(len(values), np.int32), mask=~alive)
    return pa.array([entry_value()], pa.binary()).take(places)


def log_blocks_of(changes: EntryChanges, partition: str, *, instant: InstantTime) -> list[bytes]:
    """The blocks of a log with these changes of one file group."""
    blocks: list[bytes] = []
    schema = RECORDS_V9.stored
    if len(changes.added):
        blocks += value_blocks(*sorted_entries(changes.added), instant=instant, schema=schema)
    if len(changes.ended):
        blocks.append(tombstone_block(changes.ended, partition, instant=instant, schema=schema))
    return blocks

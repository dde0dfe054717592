"""Entries of the record index read through: a bucket in key order, piece by piece.

Source: table_format 9.6.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.filenames import METADATA_TABLE
from pyhudi.metadata.compaction import merged_newest
from pyhudi.metadata.locations import Locations, decode_locations, transcode_locations
from pyhudi.metadata.pieces import Piece, merged_pieces
from pyhudi.metadata.reader import IndexShard
from pyhudi.metadata.records import RECORD_INDEX, SCHEMA
from pyhudi.metadata.slices import ValueLayer, layers
from pyhudi.storage.filesystem import FileSystem

_ROWS: Final = 1 << 17


@dataclass(frozen=True, slots=True)
class Entries:
    """Some entries of a bucket.  keys: strings, distinct and in byte order."""

    keys: pa.Array
    places: Locations


def bucket_entries(fs: FileSystem, shard: IndexShard, *, whole: bool = False) -> Iterator[Entries]:
    """What readers believe of a bucket, tombstones left out.  fs: rooted at the data table.

    Cost: every file of the bucket once; memory for some pieces.  whole: memory for the bucket.
    Raises UnsortedError, perhaps at the end, where Java sorted keys unlike bytes: `whole` reads
    such a bucket, and what was given before does not count.
    """
    own = fs.sub(METADATA_TABLE)
    if whole:
        keys, values = merged_newest(own, shard.piece)
        pieces = iter([(keys[at : at + _ROWS], values[at : at + _ROWS]) for at in _steps(keys)])
    else:
        pieces = merged_pieces(layers(own, shard.piece), _in_our_schema)
    for piece in _gathered(pieces):
        found = _entries(piece, shard)
        if len(found.keys):
            yield found


def _steps(keys: pa.Array) -> range:
    return range(0, len(keys), _ROWS)


def _in_our_schema(values: pa.Array, layer: ValueLayer) -> pa.Array:
    return transcode_locations(values, layer.schema, path=layer.path)


def _gathered(pieces: Iterator[Piece]) -> Iterator[Piece]:
    """Larger pieces out of small ones."""
    keys: list[pa.Array] = []
    values: list[pa.Array] = []
    count = 0
    for key, value in pieces:
        keys.append(key)
        values.append(value)
        count += len(key)
        if count >= _ROWS:
            yield pa.concat_arrays(keys), pa.concat_arrays(values)
            keys, values, count = [], [], 0
    if count:
        yield pa.concat_arrays(keys), pa.concat_arrays(values)


def _entries(piece: Piece, shard: IndexShard) -> Entries:
    keys, values = piece
    empty = pc.equal(pc.binary_length(values), pa.scalar(0, pa.int32()))
    if pc.any(empty).as_py():  # Java's mark of a key that has ended
        keys, values = keys.filter(pc.invert(empty)), values.filter(pc.invert(empty))
    path = f"{RECORD_INDEX.path} bucket {shard.number}"
    return Entries(
        keys.cast(pa.string()), decode_locations(values, SCHEMA, zone=shard.zone, path=path)
    )

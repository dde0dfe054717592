"""Look-ups in a secondary index: the record keys of values of its column.

Entries may be stale where an older writer failed to remove them: callers filter the rows again.
Cost: the entries with the values' prefixes; version V2 stores those of a value in one file group,
version V1 in any.
"""

from __future__ import annotations

from collections.abc import Iterable
from functools import partial
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native.hashing import bucket_of
from pyhudi._native.keys import latest
from pyhudi.errors import CorruptFileError
from pyhudi.metadata.hfile_slices import DeleteLayer, MapSlice, layers
from pyhudi.metadata.payloads import decode_payload
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.secondary_index.definition import SecondaryIndex
from pyhudi.metadata.secondary_index.key_format import (
    HashedPart,
    groups_of,
    key_prefixes,
    possible_texts,
    split_keys,
)
from pyhudi.storage.filesystem import FileSystem

PAYLOAD: Final = "SecondaryIndexMetadata"


def record_keys_of(metadata: MetadataTable, index: SecondaryIndex, values: pa.Array) -> pa.Array:
    """The distinct record keys of entries with these values; nulls have none.

    values: of the column's type in the table.  Raises CorruptFileError, UnsupportedTableError.
    """
    prefixes = key_prefixes(possible_texts(values, index.part))
    groups = slices_of(metadata, index)
    if index.part is HashedPart.VALUE:
        homes = bucket_of(prefixes, len(groups))
        requested = [prefixes.filter(pa.array(homes == n)) for n in range(len(groups))]
    else:
        requested = [prefixes] * len(groups)
    found = [pa.array([], pa.string())]
    for group, mine in zip(groups, requested, strict=True):
        if len(mine):
            keys = live_keys(metadata.log.fs, group, mine.to_pylist())
            found.append(split_keys(keys, path=index.name)[1])
    return pc.unique(pa.concat_arrays(found))


def slices_of(metadata: MetadataTable, index: SecondaryIndex) -> tuple[MapSlice, ...]:
    """The file groups of an index; reading one refuses a file that is another group's."""
    found = metadata.slices(index.partition)
    homes = partial(groups_of, part=index.part)
    return tuple(
        MapSlice.of(each, number, metadata.valid_in(each), groups=len(found), homes=homes)
        for number, each in enumerate(found)
    )


def live_keys(fs: FileSystem, group: MapSlice, prefixes: Iterable[str]) -> pa.Array:
    """The keys (binary) of a file group's live entries that have one of the prefixes."""
    requested = list(prefixes)
    keys, alive = [pa.array([], pa.binary())], [np.empty(0, np.bool_)]
    for layer in layers(fs, group):
        if isinstance(layer, DeleteLayer):
            keys.append(layer.keys.cast(pa.binary()))
            alive.append(np.zeros(len(layer.keys), np.bool_))
            continue
        for prefix in requested:
            for batch in layer.reader.prefix(prefix):
                keys.append(batch.column(0))
                alive.append(~ended(batch.column(1), layer.schema, path=layer.path))
    every = pa.concat_arrays(keys)
    newest = latest(every)
    newest = newest[np.concatenate(alive)[newest]]
    return every.take(pa.array(newest))


def ended(
    values: pa.Array, schema: str, *, path: str
) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    """Whether each value marks its entry as deleted.  Raises CorruptFileError for other values."""
    coded = values.dictionary_encode()  # all live entries have equal values
    payload = decode_payload(coded.dictionary, schema, PAYLOAD, path=path)
    if payload.null_count:
        raise CorruptFileError("an entry is not one of a secondary index", path=path)
    deleted = payload.field("isDeleted").to_numpy(zero_copy_only=False)
    found: np.ndarray[tuple[int], np.dtype[np.bool_]] = deleted[coded.indices.to_numpy()]
    return found

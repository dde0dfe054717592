"""Streaming merge of the layers of a file group, with memory for a few batches of each layer.

Every layer is read in key order.  The merge bound is the least of the last keys of all current
batches, as no later batch can contain a smaller key.  Rows up to the bound are merged; then the
layers whose batch is exhausted read their next one.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Iterator, Sequence
from typing import Any, Final, Protocol

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pyhudi._native.keys import argsort, is_strictly_sorted, latest
from pyhudi.metadata.hfile_slices import DeleteLayer, Layer, ValueLayer


class Ordered(Protocol):
    """A layer of values, in key order."""

    def batches(self) -> Iterator[pa.RecordBatch]:
        """[key: binary, value: binary]"""
        ...


Chunk = tuple[pa.Array, pa.Array]
"""A chunk of keys and values (binary), in key order; a null value deletes its key."""

KeepsEnded = Callable[[pa.Array], NDArray[np.bool_]]
"""Deleted keys (binary) -> which of them an older file still has."""

_ROWS: Final = 1 << 14  # rows of a layer's current batch, whatever batch size its reader returns

Transcode = Callable[[pa.Array, Any], pa.Array]


class UnsortedError(Exception):
    """A layer's keys do not ascend: Java sorts by UTF-16, which can differ from byte order."""


def merged_chunks(
    found: Sequence[Ordered | DeleteLayer],
    transcode: Transcode,
    *,
    keeps_ended: KeepsEnded | None = None,
) -> Iterator[Chunk]:
    """The newest value of each key that has one, in key order; no chunk is empty.

    found: layers, oldest first.  transcode: converts a layer's values to the current schema.
    keeps_ended: selects the deleted keys to return, with an empty value; None: none of them.
    Raises UnsortedError for layers that have to be merged as a whole.
    """
    readers = [_Reader(_batches(layer, transcode)) for layer in found]
    while last := [reader.last for reader in readers if reader.keys is not None]:
        bound = min(last)
        parts = [part for reader in readers for part in reader.up_to(bound)]
        keys = pa.concat_arrays([part[0] for part in parts])
        values = pa.concat_arrays([part[1] for part in parts])
        newest = pa.array(latest(keys)) if len(parts) > 1 else None
        keys, values = rows_with_values(keys, values, newest, keeps_ended)
        if len(keys):
            yield keys, values


def rows_with_values(
    keys: pa.Array,
    values: pa.Array,
    newest: pa.Array | None,
    keeps_ended: KeepsEnded | None = None,
) -> Chunk:
    """The rows `newest` (None: all) with a value, and retained deleted keys; in key order."""
    if newest is not None:
        keys, values = keys.take(newest), values.take(newest)
    if keeps_ended is not None:
        keys, values = _with_ended(keys, values, keeps_ended)
    elif values.null_count:
        alive = values.is_valid()
        keys, values = keys.filter(alive), values.filter(alive)
    if not is_strictly_sorted(keys):
        order = pa.array(argsort(keys))
        keys, values = keys.take(order), values.take(order)
    return keys, values


def _with_ended(keys: pa.Array, values: pa.Array, keeps_ended: KeepsEnded) -> Chunk:
    """Rows that have a value, and rows of deleted keys to retain."""
    ended = pc.fill_null(pc.equal(pc.binary_length(values), 0), True)
    if not pc.any(ended).as_py():
        return keys, values
    at = np.flatnonzero(ended.to_numpy(zero_copy_only=False))
    stays = np.ones(len(keys), np.bool_)
    stays[at] = keeps_ended(keys.take(pa.array(at)))
    retained = pa.array(stays)
    return keys.filter(retained), pc.fill_null(values.filter(retained), b"")


def entries_at_most(found: Sequence[Layer]) -> int:
    """An upper bound of the entries of the merged layers."""
    return sum(layer.reader.entry_count for layer in found if isinstance(layer, ValueLayer))


def _batches(layer: Ordered | DeleteLayer, transcode: Transcode) -> Iterator[Chunk]:
    if isinstance(layer, DeleteLayer):
        keys = layer.keys.cast(pa.binary())
        keys = keys.take(pa.array(latest(keys)))
        yield keys.take(pa.array(argsort(keys))), pa.nulls(len(keys), pa.binary())
        return
    for batch in layer.batches():
        if not is_strictly_sorted(batch.column(0)):
            raise UnsortedError
        for start in range(0, batch.num_rows, _ROWS):
            part = batch.slice(start, _ROWS)
            yield part.column(0), transcode(part.column(1), layer)


class _Reader:
    """One layer, read on demand.  keys: of the current batch; None at the end of the layer."""

    def __init__(self, batches: Iterator[Chunk]) -> None:
        self._batches = batches
        self._before = b""
        self.keys: pa.Array | None = None
        self._values: pa.Array | None = None
        self._read_on()

    @property
    def last(self) -> bytes:
        """The last key of the current batch."""
        assert self.keys is not None
        found: bytes = self.keys[-1].as_py()
        return found

    def _read_on(self) -> None:
        if self.keys is not None:
            self._before = self.last
        for keys, values in self._batches:
            if len(keys):
                if self.keys is not None and keys[0].as_py() <= self._before:
                    raise UnsortedError
                self.keys, self._values = keys, values
                return
        self.keys = self._values = None

    def up_to(self, bound: bytes) -> Iterator[Chunk]:
        """Rows of the current batch up to `bound`, which is at most the last key of every layer."""
        while self.keys is not None and self._values is not None:
            keys = self.keys
            count = bisect_right(range(len(keys)), bound, key=lambda at: keys[at].as_py())
            if count:
                yield keys[:count], self._values[:count]
            if count < len(keys):
                self.keys, self._values = keys[count:], self._values[count:]
                return
            self._read_on()
            return

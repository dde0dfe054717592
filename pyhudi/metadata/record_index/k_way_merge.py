"""Layers of a file group merged a piece at a time: memory for some batches of each, not for all.

Every layer is read in key order.  What lies up to the least of the last keys at hand is merged,
as no later batch can hold a key below it; then the layers that ended there are read on.
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


Piece = tuple[pa.Array, pa.Array]
"""Keys and values (binary), in key order; a null value ends its key."""

KeepsEnded = Callable[[pa.Array], NDArray[np.bool_]]
"""Ended keys (binary) -> which of them an older file still has."""

_ROWS: Final = 1 << 14  # of a layer at hand, whatever its reader gives at once

Transcode = Callable[[pa.Array, Any], pa.Array]


class UnsortedError(Exception):
    """A layer whose keys do not ascend, as Java writes them where UTF-16 sorts unlike bytes."""


def merged_pieces(
    found: Sequence[Ordered | DeleteLayer],
    transcode: Transcode,
    *,
    keeps_ended: KeepsEnded | None = None,
) -> Iterator[Piece]:
    """The newest value of each key that has one, in key order; no piece is empty.

    found: oldest first.  transcode: makes a layer's values into those of today.  keeps_ended: says
    which of some ended keys are told, with an empty value; None: none is.
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
) -> Piece:
    """The rows `newest` (None: all) with a value, and ended ones that are kept; in key order."""
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


def _with_ended(keys: pa.Array, values: pa.Array, keeps_ended: KeepsEnded) -> Piece:
    """Rows that have a value, and those of ended keys that are kept."""
    ended = pc.fill_null(pc.equal(pc.binary_length(values), 0), True)
    if not pc.any(ended).as_py():
        return keys, values
    at = np.flatnonzero(ended.to_numpy(zero_copy_only=False))
    stays = np.ones(len(keys), np.bool_)
    stays[at] = keeps_ended(keys.take(pa.array(at)))
    kept = pa.array(stays)
    return keys.filter(kept), pc.fill_null(values.filter(kept), b"")


def entries_at_most(found: Sequence[Layer]) -> int:
    """How many entries the merged layers can have."""
    return sum(layer.reader.entry_count for layer in found if isinstance(layer, ValueLayer))


def _batches(layer: Ordered | DeleteLayer, transcode: Transcode) -> Iterator[Piece]:
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
    """One layer, read as far as it was asked for.  keys: those at hand, None at its end."""

    def __init__(self, batches: Iterator[Piece]) -> None:
        self._batches = batches
        self._before = b""
        self.keys: pa.Array | None = None
        self._values: pa.Array | None = None
        self._read_on()

    @property
    def last(self) -> bytes:
        """The last key at hand."""
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

    def up_to(self, bound: bytes) -> Iterator[Piece]:
        """What is at hand up to `bound`, which is at most the last key of every layer."""
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

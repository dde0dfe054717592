"""Matching of log entries with the rows of a base file: by record key, or by position.

by key       a column of keys of every log entry and every base row
by position  the row number of every log entry; only base rows that an entry names are looked at

Either way entries of one record have one key, so both are merged by the same code.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.arrays import Longs
from pyhudi.formats.nested_fields import root_of

_CHUNK: Final = 1 << 27  # keys of an array, whose offsets are 32 bits


@dataclass(frozen=True, slots=True)
class RowMatch:
    """Keys of log entries, oldest first, and of base rows.

    stored: None without a base file.  at: the base rows of `stored`, ascending; None: all rows.
    """

    entries: pa.ChunkedArray
    stored: pa.ChunkedArray | None
    at: Longs | None = None

    def compared(self, base: pa.Table | None, columns: Sequence[str]) -> pa.Table | None:
        """The columns of the base rows of `stored`."""
        if base is None or self.at is None:
            return base
        roots = list(dict.fromkeys(map(root_of, columns)))
        return base.select(roots).take(pa.array(self.at))

    def spread(self, values: Any, count: int, fill: object) -> Any:
        """One value for each of `count` base rows: those of `stored`, else `fill`."""
        if self.at is None:
            return values
        result = np.full(count, fill, values.dtype)
        result[self.at] = values
        return result


def match_positions(positions: Sequence[Longs], stretches: Sequence[range]) -> RowMatch:
    """positions: row numbers in the base file of the entries of each log block, oldest first.
    stretches: the row numbers of the base rows that were read, ascending."""
    entries = np.concatenate(positions)
    is_touched = np.zeros(int(entries.max(initial=-1)) + 1, np.bool_)
    is_touched[entries] = True
    touched = np.flatnonzero(is_touched)
    at, read, begin = [touched[:0]], [touched[:0]], 0
    for stretch in stretches:
        low, high = np.searchsorted(touched, (stretch.start, stretch.stop))
        read.append(touched[low:high])
        at.append(touched[low:high] - stretch.start + begin)
        begin += len(stretch)
    return RowMatch(_keys(entries), _keys(np.concatenate(read)), np.concatenate(at))


def _keys(rows: Longs) -> pa.ChunkedArray:
    """Row numbers as a column of keys of eight bytes."""
    chunks = [_key_array(rows[start : start + _CHUNK]) for start in range(0, len(rows), _CHUNK)]
    return pa.chunked_array(chunks, pa.binary())


def _key_array(rows: Longs) -> pa.Array:
    offsets = np.arange(0, 8 * len(rows) + 1, 8, dtype=np.int32)
    data = pa.py_buffer(np.ascontiguousarray(rows, np.int64))
    return pa.Array.from_buffers(pa.binary(), len(rows), [None, pa.py_buffer(offsets), data])

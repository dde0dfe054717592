"""Row groups of a base file that may contain some keys, by the statistics of the key column.

Keys that follow time, or files that are sorted by key, have disjoint ranges of keys in their row
groups: a batch for the last of them reads no others.
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Sequence

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from pyhudi.arrays import Longs
from pyhudi.records import RECORD_KEY


class KeyRowGroups:
    """Chooses the row groups to read; converts rows among those read to rows of the file.

    keys: arrays of keys, each ascending in byte order.
    """

    def __init__(self, keys: Sequence[pa.Array]) -> None:
        self._keys = keys
        self._first = np.zeros(1, np.int64)  # of each row group read, its first row in the file
        self._ends = np.zeros(0, np.int64)  # and its end among the rows read

    def __call__(self, metadata: pq.FileMetaData) -> list[int]:
        """Numbers of the row groups whose range contains a key, or is unknown."""
        count = metadata.num_row_groups
        groups = [metadata.row_group(number) for number in range(count)]
        chosen = [number for number in range(count) if self._may_contain(groups[number])]
        sizes = np.array([group.num_rows for group in groups], np.int64)
        self._first = (np.cumsum(sizes) - sizes)[chosen]
        self._ends = np.cumsum(sizes[chosen])
        return chosen

    def file_rows(self, rows: Longs) -> Longs:
        """Rows of the file, for rows among those read, ascending."""
        if not len(rows):
            return rows
        group = np.searchsorted(self._ends, rows, side="right")
        begins = np.concatenate([[0], self._ends[:-1]])
        found: Longs = rows - begins[group] + self._first[group]
        return found

    def _may_contain(self, group: pq.RowGroupMetaData) -> bool:
        bounds = _bounds(group)
        return bounds is None or any(_any_within(keys, *bounds) for keys in self._keys)


def _bounds(group: pq.RowGroupMetaData) -> tuple[bytes, bytes] | None:
    """The key range of a row group in byte order; None where it is not stored."""
    for number in range(group.num_columns):
        column = group.column(number)
        if column.path_in_schema == RECORD_KEY:
            found = column.statistics
            if found is None or not found.has_min_max:
                return None
            return bytes(found.min_raw), bytes(found.max_raw)
    return None


def _any_within(keys: pa.Array, low: bytes, high: bytes) -> bool:
    def key_at(position: int) -> bytes:
        text: str = keys[position].as_py()
        return text.encode()

    span = range(len(keys))
    begin = bisect_left(span, low, key=key_at)
    return begin < bisect_right(span, high, lo=begin, key=key_at)

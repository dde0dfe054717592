"""Cache of merge decisions: which rows of the base file and of the logs of a slice are live.

A merge reads every record key, which is most of the bytes of a read of few columns.  Files are
immutable, so the process caches the decision for a slice, one bit a row and within a bound.  The
next read of the slice reads only the requested columns.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi._native.hfile.block_cache import BlockCache
from pyhudi.arrays import Mask
from pyhudi.errors import CorruptFileError
from pyhudi.formats.log_scan import PlacedBlock
from pyhudi.merge.column_merge import plain
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.table.file_group_view import FileSlice

CACHE_BYTES_MAX: Final = 32 << 20
"""Bound on the cached decisions: 250 million rows."""


@dataclass(frozen=True, slots=True)
class Live:
    """Which of `count` rows are live.  bits: one bit a row; None if all are live."""

    count: int
    bits: npt.NDArray[np.uint8] | None

    @classmethod
    def of(cls, mask: Mask) -> Live:
        return cls(len(mask), None if mask.all() else np.packbits(mask))

    @property
    def nbytes(self) -> int:
        return 0 if self.bits is None else self.bits.nbytes

    @property
    def mask(self) -> Mask:
        """One flag a row."""
        if self.bits is None:
            return np.ones(self.count, np.bool_)
        return np.unpackbits(self.bits, count=self.count).view(np.bool_)

    def rows(self, table: pa.Table) -> pa.Table:
        """The live rows of a table.  Raises CorruptFileError where its row count has changed."""
        if table.num_rows != self.count:
            raise CorruptFileError(
                "a file was overwritten in place", rows=table.num_rows, before=self.count
            )
        if self.bits is None:
            return table
        return table.filter(pa.array(self.mask))


@dataclass(frozen=True, slots=True)
class Outcome:
    """base: live rows of the base file, None without one; log: live rows of the data blocks."""

    base: Live | None
    log: Live

    def rows(
        self, base: pa.Table | None, log: Sequence[pa.Table], columns: Sequence[str]
    ) -> pa.Table:
        """Live rows of base in file order, then those of the log's tables.

        Columns of base may be dictionary arrays; columns of the result are not.
        """
        parts = []
        if base is not None:
            assert self.base is not None
            parts.append(plain(self.base.rows(base.select(columns))))
        if log:
            parts.append(self.log.rows(pa.concat_tables([rows.select(columns) for rows in log])))
        return pa.concat_tables(parts)


class Outcomes:
    """A bounded cache of decisions with least-recently-used eviction."""

    def __init__(self, bytes_max: int = CACHE_BYTES_MAX) -> None:
        self.bytes_max = bytes_max
        self._cache = BlockCache(bytes_max)

    def clear(self) -> None:
        self._cache = BlockCache(self.bytes_max)

    def get(self, key: Hashable) -> Outcome | None:
        found: Outcome | None = self._cache.get(key)
        return found

    def put(self, key: Hashable, outcome: Outcome) -> None:
        base = outcome.base.nbytes if outcome.base else 0
        self._cache.put(key, outcome, base + outcome.log.nbytes + 1024)


OUTCOMES: Final = Outcomes()


def outcome_key(
    url: str, slice: FileSlice, blocks: Sequence[PlacedBlock], rules: MergeRules
) -> Any:
    """The cache key of a merge: equal for the same blocks of the same files and the same rules."""
    files = tuple((file.path, file.size_bytes) for file in slice.files)
    read = tuple((placed.path, placed.block.content_offset) for placed in blocks)
    return url, files, read, rules

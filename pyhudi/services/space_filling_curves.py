"""Space-filling curves: one number per row, close for rows that are close in every column.

```
value -> rank, 0 to 2^bits - 1   its position in a sorted sample of the column, so that any type
                                 and any distribution fill the whole range
ranks -> number                  Z-order: their bits interleaved, the first column's first;
                                 Hilbert: the position on the Hilbert curve, where two adjacent
                                 points differ by one in a single rank
```

Input and output are columns of numbers.  Source of the Hilbert transform: J. Skilling,
"Programming the Hilbert curve", AIP Conference Proceedings 707 (2004).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.types as pt

from pyhudi.options import Layout
from pyhudi.write.placement.sorted_insert import order_of, range_numbers

_BITS_MAX: Final = 16
CurveRanks = npt.NDArray[np.uint64]


@dataclass(frozen=True, slots=True)
class Curve:
    """A curve through the columns of a sample.  samples: one per column, each sorted."""

    layout: Layout
    columns: tuple[str, ...]
    samples: tuple[pa.Table, ...]

    @classmethod
    def of(cls, layout: Layout, sample: pa.Table) -> Curve:
        """The curve for rows with the same distribution as the sample."""
        most = 1 << _bits(sample.num_columns)
        sorted_columns = []
        for name in sample.schema.names:
            column = sample.select([name])
            column = column.take(order_of(column))
            if column.num_rows > most:
                at = np.arange(most) * column.num_rows // most
                column = column.take(pa.array(at))
            sorted_columns.append(column)
        return cls(layout, tuple(sample.schema.names), tuple(sorted_columns))

    def numbers(self, rows: pa.Table) -> CurveRanks:
        """The number of each row.  rows: must have the curve's columns, with the sample's types."""
        bits = _bits(len(self.columns))
        ranks = [
            _ranks(rows.select([name]), sample, bits)
            for name, sample in zip(self.columns, self.samples, strict=True)
        ]
        if self.layout is Layout.HILBERT:
            ranks = hilbert_transpose(ranks, bits)
        return interleave(ranks, bits)


def _bits(column_count: int) -> int:
    return min(_BITS_MAX, 63 // max(1, column_count))


def _ranks(values: pa.Table, sample: pa.Table, bits: int) -> CurveRanks:
    """For each value the fraction of the sample at or before it, as a number of `bits` bits."""
    if not sample.num_rows:
        return np.zeros(values.num_rows, np.uint64)
    passed = _passed(values, sample).astype(np.uint64)
    return passed * np.uint64((1 << bits) - 1) // np.uint64(sample.num_rows)


def _passed(values: pa.Table, sample: pa.Table) -> npt.NDArray[np.int64]:
    column, bounds = values.column(0), sample.column(0)
    whole = pt.is_integer(column.type) or pt.is_temporal(column.type)
    if whole and not column.null_count and not bounds.null_count:
        kind = f"int{column.type.bit_width}" if pt.is_temporal(column.type) else column.type
        numbers, cuts = (c.cast(kind).to_numpy() for c in (column, bounds))
        return np.asarray(np.searchsorted(cuts, numbers, side="right"), np.int64)
    return range_numbers(values, sample)


def interleave(ranks: Sequence[CurveRanks], bits: int) -> CurveRanks:
    """Interleave the bits of all ranks, the highest first."""
    count = len(ranks)
    number = np.zeros_like(ranks[0])
    one = np.uint64(1)
    for bit in range(bits):
        for at, rank in enumerate(ranks):
            place = np.uint64(bit * count + count - 1 - at)
            number |= ((rank >> np.uint64(bit)) & one) << place
    return number


def hilbert_transpose(ranks: Sequence[CurveRanks], bits: int) -> list[CurveRanks]:
    """Ranks whose interleaved bits are the position on the Hilbert curve."""
    axes = [rank.copy() for rank in ranks]
    first = axes[0]
    for bit in range(bits - 1, 0, -1):  # undo excess work, from the highest bit down
        high = np.uint64(1 << bit)
        low = high - np.uint64(1)
        for axis in axes:
            is_set = (axis & high) != 0
            swapped = np.where(is_set, np.uint64(0), (first ^ axis) & low)
            first ^= np.where(is_set, low, np.uint64(0)) ^ swapped
            if axis is not first:
                axis ^= swapped
    for before, axis in pairwise(axes):  # Gray code
        axis ^= before
    flips = np.zeros_like(first)
    for bit in range(bits - 1, 0, -1):
        high = np.uint64(1 << bit)
        flips ^= np.where((axes[-1] & high) != 0, high - np.uint64(1), np.uint64(0))
    for axis in axes:
        axis ^= flips
    return axes

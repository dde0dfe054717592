"""Ranks of ordering values: integers that compare as the values do.

Event-time order compares the ordering columns of records from the batch, base files and logs.
Values to be compared must be ranked together in one call, unless `is_direct` reports that the rank
of a value does not depend on the others.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.arrays import Mask

Ranks = npt.NDArray[np.int64]


def is_direct(kinds: Sequence[pa.DataType]) -> bool:
    """Whether ranks do not depend on other values: one column of numbers, times or booleans."""
    return len(kinds) == 1 and _has_own_rank(kinds[0])


def _has_own_rank(kind: pa.DataType) -> bool:
    if pt.is_integer(kind):
        return not bool(pt.is_uint64(kind))
    return bool(pt.is_temporal(kind) or pt.is_boolean(kind) or pt.is_floating(kind))


def ordering_ranks(columns: Sequence[pa.ChunkedArray]) -> tuple[Ranks, Mask]:
    """(rank, comparable) of each row over one or several ordering columns.

    A row with a null in any of them is not comparable, and its rank is undefined.
    """
    assert columns
    comparable = _valid(columns[0])
    for column in columns[1:]:
        comparable &= _valid(column)
    if is_direct([c.type for c in columns]):
        return _direct(columns[0]), comparable
    ranks = _dense(columns[0])
    for column in columns[1:]:
        more = _dense(column)
        ranks = ranks * np.int64(int(more.max(initial=0)) + 1) + more
        ranks = np.unique(ranks, return_inverse=True)[1].astype(np.int64)
    return ranks, comparable


def sequence_columns(column: pa.ChunkedArray) -> list[pa.ChunkedArray]:
    """`file.position` texts as two columns of numbers; null where a text does not match."""
    if not len(column):
        return [pa.chunked_array([], pa.int64()), pa.chunked_array([], pa.int64())]
    parts = pc.extract_regex(column.cast(pa.string()), r"^(?P<file>\d{1,18})\.(?P<at>\d{1,18})$")
    return [pc.struct_field(parts, name).cast(pa.int64()) for name in ("file", "at")]


def _valid(column: pa.ChunkedArray) -> Mask:
    if column.null_count == 0:
        return np.ones(len(column), np.bool_)
    return np.array(column.is_valid().to_numpy(zero_copy_only=False), np.bool_)


def _direct(column: pa.ChunkedArray) -> Ranks:
    kind = column.type
    if pt.is_boolean(kind):
        column = column.cast(pa.int8())
    elif pt.is_temporal(kind) and kind.bit_width == 32:
        column = column.cast(pa.int32())
    elif pt.is_floating(kind):
        return _of_floats(pc.fill_null(column.cast(pa.float64()), 0.0).to_numpy())
    filled = pc.fill_null(column.cast(pa.int64()), 0)
    return np.asarray(filled.to_numpy(), np.int64)


def _of_floats(values: npt.NDArray[np.float64]) -> Ranks:
    """Bits that compare as java.lang.Double does: -0.0 before 0.0, NaN last."""
    values = np.where(np.isnan(values), np.nan, values)
    bits = values.view(np.int64)
    return np.where(bits < 0, bits ^ np.int64(0x7FFFFFFFFFFFFFFF), bits)


def _dense(column: pa.ChunkedArray) -> Ranks:
    """Dense ranks of the values, from 1; 0 for nulls."""
    if pt.is_floating(column.type):
        ranks = np.unique(_direct(column), return_inverse=True)[1].astype(np.int64) + 1
        return np.where(_valid(column), ranks, 0)
    ranked = pc.rank(column, sort_keys="ascending", tiebreaker="dense")
    ranks = np.asarray(ranked.to_numpy(zero_copy_only=False), np.int64)
    return np.where(_valid(column), ranks, 0) if column.null_count else ranks

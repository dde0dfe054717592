"""Comparison of the rows of two tables, column by column without a Python object for each row.

Null equals null and NaN equals NaN; lists, structs and maps are compared by their elements, maps in
their stored order.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt


def rows_differ(left: pa.Table, right: pa.Table) -> Any:
    """For each pair of rows, whether any column differs.  left, right: same schema and length.

    Returns a numpy array of bool.
    """
    found = np.zeros(left.num_rows, np.bool_)
    for name in left.column_names:
        found |= _differ(_whole(left.column(name)), _whole(right.column(name)))
    return found


def _whole(column: pa.ChunkedArray) -> pa.Array:
    whole = column.combine_chunks()
    if isinstance(whole, pa.ChunkedArray):  # several chunks if the text does not fit into one
        whole = pa.concat_arrays(whole.chunks)
    return whole.dictionary_decode() if pt.is_dictionary(whole.type) else whole


def _differ(left: pa.Array, right: pa.Array) -> Any:
    kind = left.type
    if pt.is_null(kind):
        return np.zeros(len(left), np.bool_)
    if pt.is_struct(kind):
        found = _flags(left.is_null()) ^ _flags(right.is_null())
        for number in range(kind.num_fields):
            found |= _differ(pc.struct_field(left, [number]), pc.struct_field(right, [number]))
        return found
    if pt.is_nested(kind):
        return _lists_differ(left, right)
    found = _flags(pc.not_equal(left, right).fill_null(False))
    found |= _flags(left.is_null()) ^ _flags(right.is_null())
    if pt.is_floating(kind):
        both = pc.and_(pc.is_nan(left), pc.is_nan(right)).fill_null(False)
        found &= ~_flags(both)
    return found


def _lists_differ(left: pa.Array, right: pa.Array) -> Any:
    """Whether lists differ: one is null, or their lengths or elements differ."""
    missing = _flags(left.is_null()), _flags(right.is_null())
    sizes = _sizes(left), _sizes(right)
    found = (missing[0] ^ missing[1]) | (sizes[0] != sizes[1])
    alike = np.flatnonzero(~found & ~missing[0])
    taken = pa.array(alike)
    unlike = _differ(_elements(left.take(taken)), _elements(right.take(taken)))
    owners = np.repeat(alike, sizes[0][alike])
    found[owners[unlike]] = True
    return found


def _sizes(lists: pa.Array) -> Any:
    """Lengths of lists or maps, 0 for null."""
    if pt.is_fixed_size_list(lists.type):
        sizes = np.full(len(lists), lists.type.list_size)
    else:
        sizes = np.diff(lists.offsets.to_numpy())
    return np.where(_flags(lists.is_null()), 0, sizes)


def _elements(lists: pa.Array) -> pa.Array:
    """The elements of lists without nulls, concatenated."""
    if not pt.is_map(lists.type):
        return lists.flatten()
    return pa.StructArray.from_arrays([lists.keys, lists.items], names=["key", "value"])


def _flags(values: pa.Array) -> Any:
    return values.to_numpy(zero_copy_only=False)

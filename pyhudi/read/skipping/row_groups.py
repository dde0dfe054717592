"""Selection of the row groups of a base file that may contain rows matching a filter.

Arrow decides by the footer's statistics and the values that the partition guarantees.  Columns
whose type has changed since the file was written are not used: their statistics are of another
type.  A filter on floating values, at any depth, that NaN may pass is decided only where the
footer's bounds cover NaN (`nan_statistics`), and tests for NaN itself by the ranges of the floating
columns, which Arrow does not use for them.  Of a filter that names such columns, parts that are not
analyzed are not used.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from pyhudi.errors import CorruptFileError
from pyhudi.formats.nan_statistics import bounds_cover_nan, has_floats
from pyhudi.read.predicate import And, Column, Compare, Literal, Predicate, among
from pyhudi.read.skipping.filter_values import may_keep_nan, names_nan
from pyhudi.read.skipping.partition_values import guarantee, is_zero
from pyhudi.storage.filesystem import FileSystem

if TYPE_CHECKING:
    from pyhudi.metadata.file_stats.ranges import ColumnRanges

_KEYS_MAX: Final = 256


def matching_row_groups(
    fs: FileSystem,
    path: str,
    *,
    where: Predicate,
    table: pa.Schema,
    partition_values: Mapping[str, pa.Scalar],
) -> list[int] | None:
    """Numbers of the row groups to read; None for all of them.

    Reads the footer.
    """
    import pyarrow.dataset as ds  # slow to import

    with fs.arrow_file(path) as source:
        try:
            fragment = ds.ParquetFileFormat().make_fragment(
                source, partition_expression=guarantee(partition_values)
            )
            stored = fragment.physical_schema
            read = [name for name in where.columns if name not in partition_values]
            if any(is_zero(v) for n, v in partition_values.items() if n in where.columns):
                return None  # Arrow would take the statistics of what the file stores
            if fragment.num_row_groups < 1 or not all(_alike(stored, table, n) for n in read):
                return None
        except pa.ArrowNotImplementedError:
            return None
        except (pa.ArrowException, OSError, ValueError) as broken:
            raise CorruptFileError(f"unreadable Parquet: {broken}", path=path) from broken
        floats = any(has_floats(table.field(name).type) for name in where.columns)
        used = where.analyzed if floats else where
        if used is None or names_nan(used.tree):
            return None
        try:
            matched = [group.id for group in fragment.subset(used.arrow, schema=table).row_groups]
        except pa.ArrowException:  # the filter has no result for a value of the partition
            return None
        if floats and may_keep_nan(used.tree):
            kinds = {name: table.field(name).type for name in read}
            matched = _with_floats(fragment.metadata, used, kinds, matched)
        return None if len(matched) == fragment.num_row_groups else matched


def _with_floats(
    metadata: pq.FileMetaData,
    where: Predicate,
    kinds: Mapping[str, pa.DataType],
    matched: list[int],
) -> list[int]:
    """The row groups of a filter that NaN may pass.

    kinds: the columns whose values are those in the file.  matched: those that Arrow selects.
    """
    # A worker of Spark that has no such filter does not import what plans.
    from pyhudi.read.skipping.file_slices import can_pass

    every = list(range(metadata.num_row_groups))
    if not bounds_cover_nan(metadata) or _has_nan_bounds(metadata):
        return every
    ranges = {
        name: found
        for name, kind in kinds.items()
        if pt.is_floating(kind)
        if (found := _float_range(metadata, name, kind)) is not None
    }
    possible = can_pass(where.tree, ranges, len(every))
    # Bounds state a zero of either sign as both; Arrow evaluates the filter for the minimum.
    zeros = {group for group in every if (0.0, 0.0) in _float_bounds(metadata, group)}
    return sorted(group for group in zeros.union(matched) if possible[group])


def _has_nan_bounds(metadata: pq.FileMetaData) -> bool:
    """Whether NaN is a bound, as in files of parquet-java: Arrow takes it for a number."""
    groups = range(metadata.num_row_groups)
    return any(high != high for group in groups for _, high in _float_bounds(metadata, group))


def _float_bounds(metadata: pq.FileMetaData, group: int) -> list[tuple[float, float]]:
    """The stated minimum and maximum of each floating column of a row group."""
    columns = map(metadata.row_group(group).column, range(metadata.num_columns))
    found = (c.statistics for c in columns if c.physical_type in ("FLOAT", "DOUBLE"))
    return [(s.min, s.max) for s in found if s is not None and s.has_min_max]


def _float_range(metadata: pq.FileMetaData, name: str, kind: pa.DataType) -> ColumnRanges | None:
    """The ranges of a floating column in the row groups; None if the file has no such column."""
    from pyhudi.metadata.file_stats.ranges import ColumnRanges

    paths = [metadata.schema.column(n).path for n in range(metadata.num_columns)]
    if name not in paths:
        return None
    at = paths.index(name)
    lows, highs, nulls, counts = [], [], [], []
    for group in range(metadata.num_row_groups):
        chunk = metadata.row_group(group).column(at)
        found = chunk.statistics
        stated = found is not None and found.has_min_max
        lows.append(found.min if stated else None)
        highs.append(found.max if stated else None)
        nulls.append(found.null_count if found is not None and found.has_null_count else None)
        counts.append(chunk.num_values)
    low, high = pa.array(lows, kind), pa.array(highs, kind)
    bounded = np.array(
        [a is not None and a == a and b == b for a, b in zip(lows, highs, strict=True)]
    )
    empty = np.array([n == count for n, count in zip(nulls, counts, strict=True)])
    return ColumnRanges(
        low,
        high,
        bounded,
        np.array([n != 0 for n in nulls]),
        ~empty,
        np.ones(len(counts), np.bool_),
        may_be_nan=~bounded & ~empty,
    )


def key_condition(column: str, keys: pa.Array) -> Predicate:
    """A filter that selects rows with these keys, or with any key between them if they are many:
    Arrow compares each key with the statistics of each row group."""
    if len(keys) <= _KEYS_MAX:
        return among(column, keys)
    bounds, key = pc.min_max(keys), Column((column,))
    sides = (Compare(">=", key, Literal(bounds["min"])), Compare("<=", key, Literal(bounds["max"])))
    return Predicate(And(sides), (column,))


def _alike(stored: pa.Schema, table: pa.Schema, name: str) -> bool:
    """Whether statistics of the stored column can be compared with values of the table's."""
    index = stored.get_field_index(name)
    if index < 0:
        return True
    old, new = stored.field(index).type, table.field(name).type
    return bool(old == new or (pt.is_signed_integer(old) and pt.is_signed_integer(new)))

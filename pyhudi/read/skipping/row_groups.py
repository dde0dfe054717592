"""Selection of the row groups of a base file that may contain rows matching a filter.

Arrow decides by the footer's statistics and the values that the partition guarantees.  Columns
whose type has changed since the file was written are not used: their statistics are of another
type.  Neither are floating-point columns where NaN may pass, because statistics omit NaN.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.errors import CorruptFileError
from pyhudi.read.skipping.partition_values import guarantee
from pyhudi.read.skipping.predicates import may_keep_nan, parse_filter
from pyhudi.storage.filesystem import FileSystem

_KEYS_MAX: Final = 256


def matching_row_groups(
    fs: FileSystem,
    path: str,
    *,
    where: pc.Expression,
    filter_columns: Iterable[str],
    table: pa.Schema,
    partition_values: Mapping[str, pa.Scalar],
) -> list[int] | None:
    """Numbers of the row groups to read; None for all of them.

    filter_columns: the columns `where` names, with their types in `table`.  Reads the footer.
    """
    import pyarrow.dataset as ds  # slow to import

    with fs.arrow_file(path) as source:
        try:
            fragment = ds.ParquetFileFormat().make_fragment(
                source, partition_expression=guarantee(partition_values)
            )
            stored = fragment.physical_schema
            read = [name for name in filter_columns if name not in partition_values]
            floating = any(pt.is_floating(table.field(name).type) for name in read)
            if floating and may_keep_nan(parse_filter(where)):
                return None
            if fragment.num_row_groups < 1 or not all(_alike(stored, table, n) for n in read):
                return None
            matched = [group.id for group in fragment.subset(where, schema=table).row_groups]
            return None if len(matched) == fragment.num_row_groups else matched
        except pa.ArrowNotImplementedError:
            return None
        except (pa.ArrowException, OSError, ValueError) as broken:
            raise CorruptFileError(f"unreadable Parquet: {broken}", path=path) from broken


def key_condition(column: str, keys: pa.Array) -> pc.Expression:
    """A filter that selects rows with these keys, or with any key between them if they are many:
    Arrow compares each key with the statistics of each row group."""
    if len(keys) <= _KEYS_MAX:
        return pc.field(column).isin(keys)
    bounds = pc.min_max(keys)
    return (pc.field(column) >= bounds["min"]) & (pc.field(column) <= bounds["max"])


def _alike(stored: pa.Schema, table: pa.Schema, name: str) -> bool:
    """Whether statistics of the stored column can be compared with values of the table's."""
    index = stored.get_field_index(name)
    if index < 0:
        return True
    old, new = stored.field(index).type, table.field(name).type
    return bool(old == new or (pt.is_signed_integer(old) and pt.is_signed_integer(new)))

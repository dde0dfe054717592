"""Number of file groups of a record index that is built for the rows of a table."""

from __future__ import annotations

from math import ceil
from typing import Final

from pyhudi.formats.base_file import footer
from pyhudi.options import WriteOptions
from pyhudi.read.table_snapshot import TableState

_ENTRY_BYTES: Final = 48
"""Size of an entry, as Apache Hudi estimates it when it plans a record index."""


def planned_groups(
    state: TableState, options: WriteOptions, *, entries: int | None = None, at_least: int = 0
) -> int:
    """Number of groups for the rows of the base files, times the growth factor, between the limits.

    entries: of a group; None: as many as fit its size.  at_least: replaces the lower limit if not
    zero.
    Cost: the footer of each base file.
    """
    rules = options.index_size
    slices = state.view().latest_slices()
    rows = sum(footer(state.fs, s.base.path).rows for s in slices if s.base is not None)
    per_group = entries or max(1, rules.group_bytes // _ENTRY_BYTES)
    needed = min(ceil(rows * rules.growth / per_group), rules.groups_max)
    return max(at_least or options.bucket_count, needed)


def partition_group_count(rows: int, options: WriteOptions) -> int:
    """Number of groups of a partition with these rows in an index by partition; 0 for no rows."""
    if not rows:
        return 0
    size, limits = options.index_size, options.partition_groups
    needed = ceil(rows * size.growth / max(1, size.group_bytes // _ENTRY_BYTES))
    return max(limits.least, min(needed, limits.most))

"""Selection of the partitions that may contain rows matching a filter, by `partition_stats`.

An entry covers the files of the newest slices, so it is used for the newest snapshot alone, and
only where merges take each value from one of the files.
"""

from __future__ import annotations

import logging
from collections.abc import Sequence

from pyhudi.errors import CorruptFileError, FileMissingError, UnsupportedTableError
from pyhudi.metadata.file_stats.collect import read_partition_ranges
from pyhudi.metadata.payloads import PARTITION_STATS
from pyhudi.read.skipping.file_slices import SkippingRequest, can_pass
from pyhudi.read.table_snapshot import TableState

_LOG = logging.getLogger("pyhudi")


def possible_partitions(
    state: TableState, partitions: Sequence[str], request: SkippingRequest
) -> list[bool]:
    """For each partition, whether a row of it may match.  Reads only the metadata table."""
    every = [True] * len(partitions)
    metadata, rules = state.metadata, state.rules
    if metadata is None or not request.is_newest or not partitions:
        return every
    if not rules.takes_stored_values:
        return every
    columns = request.stored
    if not columns or PARTITION_STATS.path not in metadata.partitions_listed:
        return every
    try:
        ranges = read_partition_ranges(metadata, partitions, columns)
    except (CorruptFileError, FileMissingError, UnsupportedTableError) as broken:
        _LOG.warning("cannot skip partitions of %s by their statistics: %s", state.fs.url, broken)
        return every
    found: list[bool] = can_pass(request.where.tree, ranges, len(partitions)).tolist()
    return found

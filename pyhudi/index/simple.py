"""The simple index: a join of keys with the record keys of the slices of their partitions.

Global: of all partitions.  Reads only one column of every slice.
"""

from __future__ import annotations

import pyarrow as pa

from pyhudi.index.key_join import Joined, KeyMatches, ProbeWork, by_partition, match_slice


def join_slices(work: ProbeWork) -> pa.Table:
    """Which keys of the runs are in which of the slices; see `key_join` for the columns."""
    hits = KeyMatches(len(work.runs))
    for probes, slices in by_partition(work):
        keys = Joined(probes)
        for number, slice_ in slices:
            match_slice(work, slice_, keys, hits, number)
    return hits.table()

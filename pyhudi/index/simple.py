"""The simple index: keys joined with the record keys of the slices of their partitions.

Global: of all partitions.  Reads one column of every slice, and no more.
"""

from __future__ import annotations

import numpy as np
import pyarrow as pa

from pyhudi._native import KeyTable
from pyhudi.index.probe import Hits, Joined, ProbeWork, by_partition, stored_keys


def join_slices(work: ProbeWork) -> pa.Table:
    """Which keys of the runs are in which of the slices; see `probe` for the columns."""
    hits = Hits(len(work.runs))
    for probes, slices in by_partition(work):
        keys = Joined(probes)
        table = KeyTable(keys.keys)
        for number, slice_ in slices:
            at = np.asarray(table.first(stored_keys(work, slice_)))
            found = np.unique(at[at >= 0])
            hits.add(keys.runs[found], keys.rows[found], number)
    return hits.table()

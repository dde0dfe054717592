"""The record index of the metadata table: one lookup a key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.index.contract import Located, indices, one_array, pair_groups
from pyhudi.metadata.record_index.lookup import IndexShard, lookup_shard
from pyhudi.metadata.record_index.lookup_costs import LookupCost
from pyhudi.records import RECORD_KEY
from pyhudi.storage.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class RecordFinder:
    """Looks up keys in one shard of the record index.  Groups are in dictionary order."""

    shard: IndexShard

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        costs: list[LookupCost] = []
        answer = lookup_shard(fs, self.shard, one_array(rows.column(RECORD_KEY)), costs)
        found = np.asarray(answer.column("found").to_numpy(zero_copy_only=False))
        partition, file_id = answer.column("partition_path"), answer.column("file_id")
        at = np.flatnonzero(found)
        homes, groups = pair_groups(
            indices(partition)[at], partition.dictionary.to_pylist(),
            indices(file_id)[at], file_id.dictionary.to_pylist(),
        )  # fmt: skip
        return Located(at, homes, groups, cost=LookupCost.sum(costs))

"""The record index of the metadata table: one lookup a key."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.index.contract import Located, indices, one_array
from pyhudi.metadata.record_index.lookup import IndexShard, lookup_shard
from pyhudi.metadata.record_index.lookup_costs import LookupCost
from pyhudi.records import RECORD_KEY, FileGroupId
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
        width = max(1, len(file_id.dictionary))
        at = np.flatnonzero(found)
        pairs = (indices(partition).astype(np.int64) * width + indices(file_id))[at]
        partitions, files = partition.dictionary.to_pylist(), file_id.dictionary.to_pylist()
        used = np.zeros(max(1, len(partitions)) * width, np.bool_)
        used[pairs] = True
        groups = tuple(
            FileGroupId(partitions[pair // width], files[pair % width])
            for pair in np.flatnonzero(used).tolist()
        )
        position = (np.cumsum(used, dtype=np.int64) - 1).astype(np.int32)
        return Located(at, position[pairs], groups, cost=LookupCost.sum(costs))

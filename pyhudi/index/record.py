"""The record index of the metadata table: one lookup a key, or one a key and partition."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np
import pyarrow as pa

from pyhudi.arrays import Ints, Longs
from pyhudi.index.contract import Located, indices, one_array, pair_groups, path_codes
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.lookup import IndexBucket, keys_by_bucket, lookup_bucket
from pyhudi.metadata.record_index.lookup_costs import LookupCost
from pyhudi.records import PARTITION_PATH, RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem


@dataclass(frozen=True, slots=True)
class RecordFinder:
    """Looks up keys in one bucket of the record index.  Groups are in dictionary order."""

    bucket: IndexBucket

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        costs: list[LookupCost] = []
        answer = lookup_bucket(fs, self.bucket, one_array(rows.column(RECORD_KEY)), costs)
        found = np.asarray(answer.column("found").to_numpy(zero_copy_only=False))
        partition, file_id = answer.column("partition_path"), answer.column("file_id")
        at = np.flatnonzero(found)
        homes, groups = pair_groups(
            indices(partition)[at],
            partition.dictionary.to_pylist(),
            indices(file_id)[at],
            file_id.dictionary.to_pylist(),
        )
        return Located(at, homes, groups, cost=LookupCost.sum(costs))


@dataclass(frozen=True, slots=True)
class PartitionFinder:
    """Looks up keys in a record index by partition, in the partition of their rows.

    buckets: of each partition, by bucket.  everywhere: in all of these partitions.
    """

    buckets: Mapping[str, tuple[IndexBucket, ...]]
    everywhere: bool

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        places = _Places()
        keys = one_array(rows.column(RECORD_KEY))
        for partition, at in self._sought(rows):
            buckets = self.buckets[partition]
            for number, some, where in keys_by_bucket(keys.take(at), KeyHash(len(buckets))):
                answer = lookup_bucket(fs, buckets[number], some, places.costs)
                places.add(partition, answer, np.asarray(at.to_numpy(), np.int64)[where])
        return places.located()

    def _sought(self, rows: pa.Table) -> Iterator[tuple[str, pa.Array]]:
        """The rows to look up in each partition that the index has."""
        if self.everywhere:
            every = pa.array(np.arange(rows.num_rows))
            yield from ((partition, every) for partition in self.buckets)
            return
        codes, paths = path_codes(rows.column(PARTITION_PATH))
        order = np.argsort(codes, kind="stable")
        ends = np.searchsorted(codes[order], np.arange(len(paths) + 1))
        for number, partition in enumerate(paths):
            at = order[ends[number] : ends[number + 1]]
            if partition in self.buckets and len(at):
                yield partition, pa.array(at)


@dataclass(slots=True)
class _Places:
    """Locations under construction, bucket by bucket."""

    rows: list[Longs] = field(default_factory=list)
    homes: list[Ints] = field(default_factory=list)
    groups: dict[FileGroupId, int] = field(default_factory=dict)
    costs: list[LookupCost] = field(default_factory=list)

    def add(self, partition: str, answer: pa.RecordBatch, rows: Longs) -> None:
        """Add the result of a bucket; rows: the number of each looked-up row."""
        found = np.asarray(answer.column("found").to_numpy(zero_copy_only=False))
        if not found.any():
            return
        file_id = answer.column("file_id")
        numbers = [
            self.groups.setdefault(FileGroupId(partition, name), len(self.groups))
            for name in file_id.dictionary.to_pylist()
        ]
        self.rows.append(rows[found])
        self.homes.append(np.array(numbers, np.int32)[indices(file_id)[found]])

    def located(self) -> Located:
        """All locations, by row."""
        cost = LookupCost.sum(self.costs)
        if not self.rows:
            return replace(Located.nothing(), cost=cost)
        rows, homes = np.concatenate(self.rows), np.concatenate(self.homes)
        order = np.argsort(rows, kind="stable")
        return Located(rows[order], homes[order], tuple(self.groups), cost=cost)

"""Reader of an elastic index as a record index: the newest group's buckets on top of older ones."""

from __future__ import annotations

from dataclasses import dataclass, replace
from datetime import tzinfo

import numpy as np
import pyarrow as pa
from numpy.typing import NDArray

from pyhudi.errors import IndexNotReadyError
from pyhudi.metadata.elastic.state import IndexState
from pyhudi.metadata.elastic.store import ROOT, read_state
from pyhudi.metadata.hfile_slices import LayerMatches, layers, look_up_layers
from pyhudi.metadata.record_index.hash_functions import KeyHash, fingerprint
from pyhudi.metadata.record_index.lookup import IndexBucket, RecordIndex
from pyhudi.metadata.record_index.lookup_costs import LookupCost
from pyhudi.storage.filesystem import FileSystem


def hashes_of(state: IndexState) -> tuple[KeyHash, ...]:
    """The hash of each group.  Raises IndexNotReadyError for a hash that is not registered, or
    differs from the one the index was created with."""
    rule = state.rule
    if fingerprint(rule.hash) != rule.fingerprint:
        raise IndexNotReadyError(
            "the registered hash function is not the one the table's index was created with",
            hash=rule.hash,
            hint="register that function; the hash function of an index never changes",
        )
    return tuple(KeyHash.named(rule.hash, len(g.buckets), g.turn) for g in state.groups)


def elastic_index(
    fs: FileSystem, state: IndexState, zone: tzinfo | None, method: str
) -> RecordIndex:
    """The index at a state read from the store.  fs: rooted at the data table."""
    hashes = hashes_of(state)
    buckets: list[tuple[IndexBucket, ...]] = []
    for number in range(len(state.groups)):
        beneath = OlderGroups(state.path, hashes[:number]) if number else None
        buckets.append(
            tuple(
                IndexBucket(
                    map_slice=bucket[-1].slice(at),
                    zone=zone,
                    method=method,
                    root=ROOT,
                    sealed=tuple(segment.slice(at) for segment in bucket[:-1]),
                    beneath=beneath,
                    group=number,
                )
                for at, bucket in enumerate(state.groups[number].buckets)
            )
        )
    older = tuple(bucket for group in buckets[:-1] for bucket in group)
    return RecordIndex(fs, buckets[-1], hash=hashes[-1], older=older, older_hashes=hashes[:-1])


@dataclass(frozen=True, slots=True)
class OlderGroups:
    """The oldest groups of an index; one per hash.  path: of the state."""

    path: str
    hashes: tuple[KeyHash, ...]

    def look_up(
        self, fs: FileSystem, keys: pa.Array, *, method: str, costs: list[LookupCost] | None = None
    ) -> tuple[list[LayerMatches], NDArray[np.int64]]:
        """Like `hfile_slices.asked`; each group is searched for keys not found in a newer one."""
        index_fs = fs.sub(ROOT)
        state = read_state(index_fs, self.path)
        found: list[LayerMatches] = []
        left = np.arange(len(keys), dtype=np.int64)
        for group, hash in reversed(list(zip(state.groups, self.hashes, strict=False))):
            some = keys.take(pa.array(left))
            homes = hash.buckets(some)
            rest = []
            for bucket in np.unique(homes).tolist():
                at = np.flatnonzero(homes == bucket)
                file_slices = [segment.slice(bucket) for segment in group.buckets[bucket]]
                files = [
                    layer for file_slice in file_slices for layer in layers(index_fs, file_slice)
                ]
                hits, unknown = look_up_layers(
                    files, some.take(pa.array(at)), method=method, costs=costs
                )
                found += [replace(hit, positions=left[at[hit.positions]]) for hit in hits]
                rest.append(at[unknown])
            left = left[np.sort(np.concatenate(rest))] if rest else left
            if not len(left):
                break
        return found, left

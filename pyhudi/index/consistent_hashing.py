"""The consistent-hashing bucket index: a ring of hash values a partition, kept in a file.

A node of the ring owns the hashes from behind the node before it up to its own value, and names
the one file group that holds their keys.  Nodes are split and merged by Apache Hudi's clustering,
so which group holds a key is read, not computed:

```
.hoodie/.bucket_index/consistent_hashing_metadata/<partition>/<instant>.hashing_meta
    JSON: version, partitionPath, instant, numBuckets, seqNo, nodes [value, fileIdPrefix, tag]
    00000000000000     the first one: numBuckets equal parts of 0..2^31-1; a node's id prefix is
                       the UUID (MD5) of its bounds, two big-endian longs, and the partition path,
                       so whoever writes it first writes the same
    <instant>          of the replace commit that made the nodes anew
.../<instant>.commit   empty: that commit is known to have completed; 1.2.0 writes it whenever it
                       reads the ring, pyhudi where nothing else proves it
                       (write/placement/hashing_metadata.py)
```

hash: XXH32, seed 0, of the hash fields' values without anything between them (`null` for
`__null__`, nothing for `__empty__`), without its highest bit; of the whole key where it has no
such values.  A node's file group is `<fileIdPrefix>-0`.
Source: ConsistentBucketIdentifier, HoodieConsistentHashingMetadata, ConsistentBucketIndexUtils
and KeyGenUtils of Apache Hudi 1.2.0; bytes of 0.15.0 and 1.2.0.
"""

from __future__ import annotations

import hashlib
import json
import uuid
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import xxh32
from pyhudi.errors import CorruptFileError
from pyhudi.filenames import HOODIE, join
from pyhudi.index.bucket import hash_values
from pyhudi.index.contract import Located, one_array, path_codes
from pyhudi.records import PARTITION_PATH, RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem

HASHING_METADATA_FOLDER: Final = f"{HOODIE}/.bucket_index/consistent_hashing_metadata"
SUFFIX: Final = ".hashing_meta"
MARKER: Final = ".commit"
FIRST: Final = "00000000000000"
_HASH_MAX: Final = 0x7FFFFFFF


@dataclass(frozen=True, slots=True)
class Ring:
    """Who holds which hashes of one partition.

    ends: the nodes' values, rising; prefixes: of their file ids.  sequence: how often the nodes
    were made anew.  is_kept: whether its file is there.
    """

    partition: str
    instant: str
    bucket_count: int
    sequence: int
    ends: tuple[int, ...]
    prefixes: tuple[str, ...]
    is_kept: bool = True

    def groups(self) -> tuple[FileGroupId, ...]:
        """The nodes' file groups, there or not."""
        return tuple(FileGroupId(self.partition, f"{prefix}-0") for prefix in self.prefixes)

    @property
    def path(self) -> str:
        return ring_path(self.partition, self.instant)

    @property
    def marker(self) -> str:
        """The file that says its commit has completed; the first ring needs none."""
        return join(_folder(self.partition), self.instant + MARKER)

    def to_json(self) -> bytes:
        """As Apache Hudi writes it, byte for byte."""
        nodes = ", ".join(
            f'{{\n    "value" : {end},\n    "fileIdPrefix" : "{name}",\n    "tag" : "NORMAL"\n  }}'
            for end, name in zip(self.ends, self.prefixes, strict=True)
        )
        facts = {
            "version": 0, "partitionPath": self.partition, "instant": self.instant,
            "numBuckets": self.bucket_count, "seqNo": self.sequence,
        }  # fmt: skip
        told = {name: json.dumps(fact, ensure_ascii=False) for name, fact in facts.items()}
        told["nodes"] = f"[ {nodes} ]"
        lines = ",\n".join(f'  "{name}" : {text}' for name, text in told.items())
        return f"{{\n{lines}\n}}".encode()


def first_ring(partition: str, bucket_count: int) -> Ring:
    """The ring of a partition that has none; not kept yet."""
    step = (_HASH_MAX + bucket_count - 1) // bucket_count
    ends = [min(step * number, _HASH_MAX) for number in range(1, bucket_count + 1)]
    starts = [0, *ends]
    prefixes = tuple(_named(partition, a, b) for a, b in zip(starts, ends, strict=False))
    return Ring(partition, FIRST, bucket_count, 0, tuple(ends), prefixes, is_kept=False)


def _named(partition: str, start: int, end: int) -> str:
    """Java's UUID.nameUUIDFromBytes of a node's bounds and partition."""
    name = start.to_bytes(8, "big") + end.to_bytes(8, "big") + partition.encode()
    return str(uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3))


def ring_anew(ring: Ring) -> Ring:
    """The same nodes with other file groups, for a replace commit that empties the partition.

    Its instant is still to be given: a group that was replaced cannot be written again.
    """
    prefixes = tuple(str(uuid.uuid4()) for _ in ring.prefixes)
    return replace(ring, instant="", sequence=ring.sequence + 1, prefixes=prefixes, is_kept=False)


def ring_of(data: bytes, path: str) -> Ring:
    """Raises CorruptFileError."""
    try:
        record = json.loads(data)
        nodes = sorted((int(n["value"]), str(n["fileIdPrefix"])) for n in record["nodes"])
        ring = Ring(
            str(record["partitionPath"]), str(record["instant"]), int(record["numBuckets"]),
            int(record["seqNo"]), tuple(end for end, _ in nodes), tuple(name for _, name in nodes),
        )  # fmt: skip
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError("hashing metadata cannot be read", path=path) from error
    if not nodes or len(set(ring.ends)) < len(nodes) or not 0 <= ring.ends[0] <= ring.ends[-1]:
        raise CorruptFileError("hashing metadata has no ring of nodes", path=path)
    return ring


def load_ring(
    fs: FileSystem, partition: str, is_believed: Callable[[str, Ring], bool]
) -> Ring | None:
    """The newest ring of a partition that counts: the first one, one marked, or one believed.

    is_believed: (instant, ring) -> whether the replace commit that made it has completed.
    Cost: a listing, and a read a ring, newest first.
    """
    names = [file.name for file in fs.children(_folder(partition))]
    instants = [name[: -len(SUFFIX)] for name in names if name.endswith(SUFFIX)]
    marked = {FIRST, *(name[: -len(MARKER)] for name in names if name.endswith(MARKER))}
    for instant in sorted((i for i in instants if i.isdigit()), reverse=True):
        path = join(_folder(partition), instant + SUFFIX)
        ring = ring_of(fs.read(path), path)
        if instant in marked or is_believed(instant, ring):
            return ring
    return None


def remove_rings(fs: FileSystem, instant: str) -> None:
    """Delete what a write that is taken back left: Apache Hudi stops at a ring of nobody's."""
    folders, doomed = [HASHING_METADATA_FOLDER], []
    while folders:
        for entry in fs.children(folders.pop()):
            if entry.is_folder:
                folders.append(entry.path)
            elif entry.name in (instant + SUFFIX, instant + MARKER):
                doomed.append(entry.path)
    fs.delete(doomed)


def ring_path(partition: str, instant: str) -> str:
    """The file of the ring that an instant made."""
    return join(_folder(partition), instant + SUFFIX)


def _folder(partition: str) -> str:
    return f"{HASHING_METADATA_FOLDER}/{partition}" if partition else HASHING_METADATA_FOLDER


def ring_hashes(keys: Any, fields: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Places of keys on every ring; keys: strings without nulls, fields: hash fields."""
    hashes = np.asarray(xxh32(keys)).copy()
    rows, values, starts = hash_values(keys, fields)
    if len(rows):
        offsets = pa.array(starts, pa.int32())
        lists = pa.ListArray.from_arrays(offsets, pc.fill_null(values, "null"))
        hashes[rows] = np.asarray(xxh32(pc.binary_join(lists, "")))
    return hashes.astype(np.int64) & _HASH_MAX


@dataclass(frozen=True, slots=True)
class RingFinder:
    """Looks up on the rings where rows go.  fields: hash fields; groups: those there are."""

    fields: tuple[str, ...]
    rings: Mapping[str, Ring]
    groups: frozenset[FileGroupId]

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        """Every row that is no delete has a place, if only one that is still to be made."""
        codes, paths = path_codes(rows.column(PARTITION_PATH))
        hashes = ring_hashes(one_array(rows.column(RECORD_KEY)), self.fields)
        held, numbers = np.unique(codes, return_inverse=True)  # a dictionary may hold other paths
        rings = [self.rings[paths[code]] for code in held.tolist()]
        nodes = _nodes(rings, numbers.astype(np.int64), hashes)
        groups = [group for ring in rings for group in ring.groups()]
        used, homes = np.unique(nodes, return_inverse=True)
        places = tuple(groups[node] for node in used.tolist())
        there = np.array([place in self.groups for place in places], np.bool_)
        deleted = np.asarray(rows.column("deleted").to_numpy(), np.bool_)
        at = np.flatnonzero(there[homes] | ~deleted)
        return Located(at, homes[at].astype(np.int32), places)


def _nodes(
    rings: Sequence[Ring], codes: npt.NDArray[np.int64], hashes: npt.NDArray[np.int64]
) -> npt.NDArray[np.int64]:
    """The node of each row, counted over all rings: the first at or behind its hash, else the
    ring's first."""
    if not rings:
        return np.zeros(0, np.int64)
    span = _HASH_MAX + 1
    ends = np.concatenate([number * span + np.array(r.ends) for number, r in enumerate(rings)])
    begins = np.cumsum([0, *(len(ring.ends) for ring in rings)])
    found = np.searchsorted(ends, codes * span + hashes)
    return np.where(found < begins[codes + 1], found, begins[codes]).astype(np.int64)


@dataclass(frozen=True, slots=True)
class RingShare:
    """The keys of one node of a ring.  fields: hash fields."""

    ring: Ring
    node: int
    fields: tuple[str, ...]

    def has(self, keys: Any) -> npt.NDArray[np.bool_]:
        """Whether each key is the node's; keys: a column of strings without nulls."""
        hashes = ring_hashes(one_array(keys), self.fields)
        codes = np.zeros(len(hashes), np.int64)
        return np.asarray(_nodes([self.ring], codes, hashes) == self.node, np.bool_)

"""The consistent-hashing bucket index: a ring of hash values a partition, stored in a file.

A node of the ring owns the hashes above the previous node's value up to its own value, and states
the one file group that contains their keys.  Apache Hudi's clustering splits and merges nodes, so
the group of a key is read from the ring:

```
.hoodie/.bucket_index/consistent_hashing_metadata/<partition>/<instant>.hashing_meta
    JSON: version, partitionPath, instant, numBuckets, seqNo, nodes [value, fileIdPrefix, tag]
    00000000000000     the first one: numBuckets equal parts of 0..2^31-1; a node's id prefix is
                       the UUID (MD5) of its bounds, two big-endian longs, and the partition path,
                       so all writers create identical files
    <instant>          of the replace commit that rewrote the nodes
.../<instant>.commit   empty: that commit is known to have completed; 1.2.0 writes it whenever it
                       reads the ring, pyhudi where nothing else proves it
                       (write/placement/hashing_metadata.py)
```

hash: XXH32, seed 0, of the concatenated values of the hash fields (`null` for `__null__`, nothing
for `__empty__`), without its highest bit; of the whole key where it has no such values.  A node's
file group is `<fileIdPrefix>-0`.
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
    """The assignment of the hashes of one partition to file groups.

    ends: the nodes' values, ascending; prefixes: of their file ids.  sequence: how often the nodes
    were rewritten.  is_stored: whether its file exists.
    """

    partition: str
    instant: str
    bucket_count: int
    sequence: int
    ends: tuple[int, ...]
    prefixes: tuple[str, ...]
    is_stored: bool = True

    def groups(self) -> tuple[FileGroupId, ...]:
        """The nodes' file groups, whether or not they exist."""
        return tuple(FileGroupId(self.partition, f"{prefix}-0") for prefix in self.prefixes)

    @property
    def path(self) -> str:
        return ring_path(self.partition, self.instant)

    @property
    def marker(self) -> str:
        """Path of the file that marks its commit as completed; the first ring needs none."""
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
        fields = {name: json.dumps(fact, ensure_ascii=False) for name, fact in facts.items()}
        fields["nodes"] = f"[ {nodes} ]"
        lines = ",\n".join(f'  "{name}" : {text}' for name, text in fields.items())
        return f"{{\n{lines}\n}}".encode()


def first_ring(partition: str, bucket_count: int) -> Ring:
    """The ring of a partition that has none; not stored yet."""
    step = (_HASH_MAX + bucket_count - 1) // bucket_count
    ends = [min(step * number, _HASH_MAX) for number in range(1, bucket_count + 1)]
    starts = [0, *ends]
    prefixes = tuple(_named(partition, a, b) for a, b in zip(starts, ends, strict=False))
    return Ring(partition, FIRST, bucket_count, 0, tuple(ends), prefixes, is_stored=False)


def _named(partition: str, start: int, end: int) -> str:
    """Java's UUID.nameUUIDFromBytes of a node's bounds and partition."""
    name = start.to_bytes(8, "big") + end.to_bytes(8, "big") + partition.encode()
    return str(uuid.UUID(bytes=hashlib.md5(name, usedforsecurity=False).digest(), version=3))


def ring_with_new_groups(ring: Ring) -> Ring:
    """The same nodes with new file groups, for a replace commit that empties the partition.

    New groups are needed because a replaced group cannot be written again.  The caller sets the
    instant.
    """
    prefixes = tuple(str(uuid.uuid4()) for _ in ring.prefixes)
    return replace(ring, instant="", sequence=ring.sequence + 1, prefixes=prefixes, is_stored=False)


def ring_of(data: bytes, path: str) -> Ring:
    """The ring in a file of hashing metadata.  Raises CorruptFileError."""
    try:
        record = json.loads(data)
        nodes = sorted((int(n["value"]), str(n["fileIdPrefix"])) for n in record["nodes"])
        ring = Ring(
            str(record["partitionPath"]),
            str(record["instant"]),
            int(record["numBuckets"]),
            int(record["seqNo"]),
            tuple(end for end, _ in nodes),
            tuple(name for _, name in nodes),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError("hashing metadata cannot be read", path=path) from error
    if not nodes or len(set(ring.ends)) < len(nodes) or not 0 <= ring.ends[0] <= ring.ends[-1]:
        raise CorruptFileError("the nodes of hashing metadata are not a ring", path=path)
    return ring


def load_ring(
    fs: FileSystem, partition: str, is_visible: Callable[[str, Ring], bool]
) -> Ring | None:
    """The newest valid ring of a partition: the first one, a marked one, or a committed one.

    is_visible: (instant, ring) -> whether the replace commit that made it has completed.
    Cost: a listing, and a read a ring, newest first.
    """
    names = [file.name for file in fs.children(_folder(partition))]
    instants = [name[: -len(SUFFIX)] for name in names if name.endswith(SUFFIX)]
    marked = {FIRST, *(name[: -len(MARKER)] for name in names if name.endswith(MARKER))}
    for instant in sorted((i for i in instants if i.isdigit()), reverse=True):
        path = join(_folder(partition), instant + SUFFIX)
        ring = ring_of(fs.read(path), path)
        if instant in marked or is_visible(instant, ring):
            return ring
    return None


def remove_rings(fs: FileSystem, instant: str) -> None:
    """Delete the rings of a write that is rolled back: Apache Hudi fails on a ring without a
    commit."""
    folders, doomed = [HASHING_METADATA_FOLDER], []
    while folders:
        for entry in fs.children(folders.pop()):
            if entry.is_folder:
                folders.append(entry.path)
            elif entry.name in (instant + SUFFIX, instant + MARKER):
                doomed.append(entry.path)
    fs.delete(doomed)


def ring_path(partition: str, instant: str) -> str:
    """Path of the ring that an instant made."""
    return join(_folder(partition), instant + SUFFIX)


def _folder(partition: str) -> str:
    return f"{HASHING_METADATA_FOLDER}/{partition}" if partition else HASHING_METADATA_FOLDER


def ring_hashes(keys: Any, fields: tuple[str, ...]) -> npt.NDArray[np.int64]:
    """Hashes of keys, valid on every ring.  keys: strings without nulls; fields: hash fields."""
    hashes = np.asarray(xxh32(keys)).copy()
    rows, values, starts = hash_values(keys, fields)
    if len(rows):
        offsets = pa.array(starts, pa.int32())
        lists = pa.ListArray.from_arrays(offsets, pc.fill_null(values, "null"))
        hashes[rows] = np.asarray(xxh32(pc.binary_join(lists, "")))
    return hashes.astype(np.int64) & _HASH_MAX


@dataclass(frozen=True, slots=True)
class RingFinder:
    """Looks up the places of rows on the rings.  fields: hash fields; groups: existing groups."""

    fields: tuple[str, ...]
    rings: Mapping[str, Ring]
    groups: frozenset[FileGroupId]

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        """Every row that is not a delete has a place, whose group may not exist yet."""
        codes, paths = path_codes(rows.column(PARTITION_PATH))
        hashes = ring_hashes(one_array(rows.column(RECORD_KEY)), self.fields)
        used_codes, numbers = np.unique(codes, return_inverse=True)  # paths may have unused values
        rings = [self.rings[paths[code]] for code in used_codes.tolist()]
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
    """The node of each row, numbered over all rings: the first at or above its hash, else the
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

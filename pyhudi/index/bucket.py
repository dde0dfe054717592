"""The bucket index: the hash of a key determines its file group; upserts need no lookup.

Deletes by key, and inserts that skip existing keys, are joined with the stored keys as in the
simple index, to find the keys to delete or to skip.

A partition has at most one group a bucket; the first eight characters of its file id are the
bucket's number.  The hash is that of BucketIdentifier in Apache Hudi 1.2.0, the Java list hash of
the values of the hash fields in the record key:

    key without `:` or without `,`   one value, the whole key; also for a key without a hash field
    `f1:v1,f2:v2`                    values of the hash fields, in the key's order; a value ends at
                                     the last `,` before the next `:`; `__null__` and `__empty__`
                                     hash to 0
    h = 1, then h = 31 h + hash of each value; bucket = (h & 0x7fffffff) mod count

0.15.0 also splits a plain key that contains `:`, and finds no value in it.
Source: table_format 8.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import java_string_hash
from pyhudi.errors import UserError
from pyhudi.index.contract import Located, one_array, path_codes
from pyhudi.records import PARTITION_PATH, RECORD_KEY, FileGroupId
from pyhudi.storage.filesystem import FileSystem

_PREFIX: Final = 8
_NUMBER: Final = re.compile(r"\d{8}(?=-|$)")
_SHARED: Final = "-0000-0000-0000-000000000000-0"
_NULL: Final = "__null__"
_EMPTY: Final = "__empty__"


@dataclass(frozen=True, slots=True)
class BucketRule:
    """How keys are assigned to buckets.  fields: hash fields, of the table's record key fields.

    count: number of buckets; under consistent hashing only for new partitions
    (`consistent_hashing`).
    """

    count: int
    fields: tuple[str, ...]
    is_consistent: bool = False


def bucket_of_group(group: FileGroupId) -> tuple[str, str]:
    """Equal for two groups of one bucket, which two writers may have created concurrently."""
    return group.partition, group.file_id[:_PREFIX]


def buckets_of(keys: Any, rule: BucketRule) -> npt.NDArray[np.int32]:
    """The bucket of each key; keys: strings without nulls.

    Cost: keys of several fields whose values contain `:` or `,` are parsed one by one.
    """
    hashes = np.uint32(31) + np.asarray(java_string_hash(keys)).view(np.uint32)
    rows, values, starts = hash_values(keys, rule.fields)
    if len(rows):
        hashes[rows] = _list_hashes(values, starts)
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(rule.count)).astype(np.int32)


def _flags(values: Any) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)


def hash_values(
    keys: Any, fields: tuple[str, ...]
) -> tuple[npt.NDArray[np.int64], pa.Array, npt.NDArray[np.int64]]:
    """The hash fields' values, for the keys that contain any: (rows, values, starts).

    rows: numbers of those keys, ascending; values[starts[i]:starts[i + 1]] are the values of
    rows[i], null for `__null__` and an empty string for `__empty__`.
    """
    named = _flags(pc.match_substring(keys, ":")) & _flags(pc.match_substring(keys, ","))
    if not named.any():
        return np.zeros(0, np.int64), pa.array([], pa.string()), np.zeros(1, np.int64)
    numbers = np.flatnonzero(named)
    of, values = _values(keys.filter(pa.array(named)), fields)
    used, counts = np.unique(of, return_counts=True)
    return numbers[used], values, np.concatenate([[0], np.cumsum(counts)]).astype(np.int64)


def _values(keys: Any, fields: tuple[str, ...]) -> tuple[npt.NDArray[np.int64], pa.Array]:
    """(number of the key, value) of each hash field, in the keys' order."""
    lists = pc.split_pattern(keys, ",")
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    row = np.asarray(pc.list_parent_indices(lists).to_numpy(), np.int64)
    pairs = pc.split_pattern(lists.flatten(), ":")
    odd = np.zeros(len(keys), np.bool_)
    odd[row[_flags(pc.not_equal(pc.list_value_length(pairs), 2))]] = True
    plain = ~odd[row]
    row, pairs = row[plain], pairs.filter(pa.array(plain))
    names, values = pc.list_element(pairs, 0), pc.list_element(pairs, 1)
    hashed = pc.is_in(names, pa.array(fields, pa.string()))
    row, values = row[_flags(hashed)], values.filter(hashed)
    values = pc.if_else(pc.equal(values, _NULL), None, values)
    values = pc.if_else(pc.equal(values, _EMPTY), "", values)
    apart = {at: hash_field_values(keys[at].as_py(), fields) for at in np.flatnonzero(odd).tolist()}
    if not apart:
        return row, values
    row = np.concatenate([row, np.repeat(list(apart), [len(v) for v in apart.values()])])
    order = np.argsort(row, kind="stable")
    more = pa.array([value for found in apart.values() for value in found], values.type)
    return row[order], pa.concat_arrays([values, more]).take(pa.array(order))


def _list_hashes(values: pa.Array, starts: npt.NDArray[np.int64]) -> npt.NDArray[np.uint32]:
    """Java's hash of each list of strings; the hash of null and of an empty string is 0."""
    counts = np.asarray(java_string_hash(values)).view(np.uint32)
    hashes = np.ones(len(starts) - 1, np.uint32)
    size = np.diff(starts)
    for turn in range(int(size.max(initial=0))):
        more = np.flatnonzero(size > turn)
        hashes[more] = hashes[more] * np.uint32(31) + counts[starts[more] + turn]
    return hashes


def hash_field_values(key: str, fields: tuple[str, ...]) -> list[str | None]:
    """Values of the hash fields in a key of several fields."""
    found: list[str | None] = []
    start = 0
    while start < len(key):
        colon = key.index(":", start)
        comma, after = -1, key.find(":", colon + 1)
        while after >= 0 and comma < colon:
            comma = key.rfind(",", 0, after)
            after = key.find(":", after + 1)
        end = comma if comma > colon else len(key)
        if key[start:colon] in fields:
            value = key[colon + 1 : end]
            found.append(None if value == _NULL else "" if value == _EMPTY else value)
        start = end + 1
    return found


def bucket_of_file(file_id: str) -> int | None:
    """The bucket of a file id; None for a file id in another format."""
    match = _NUMBER.match(file_id)
    return int(match[0]) if match else None


def bucket_groups(
    groups: Iterable[FileGroupId], rule: BucketRule
) -> dict[tuple[str, int], FileGroupId]:
    """Groups by partition and bucket.  Raises UserError if they do not match the rule."""
    found: dict[tuple[str, int], FileGroupId] = {}
    for group in groups:
        number = bucket_of_file(group.file_id)
        if number is None or number >= rule.count:
            raise UserError(
                "a file group of the table is not one of its buckets",
                partition=group.partition,
                file_id=group.file_id,
                buckets=rule.count,
                hint="set hoodie.bucket.index.num.buckets and hoodie.index.bucket.engine to the "
                "table's values, or use another index",
            )
        if (group.partition, number) in found:
            raise UserError(
                "a bucket of the table has several file groups",
                partition=group.partition,
                bucket=number,
            )
        found[group.partition, number] = group
    return found


def new_bucket(partition: str, number: int) -> FileGroupId:
    """Placeholder for the group of a bucket that has none yet: the prefix of a file id."""
    return FileGroupId(partition, f"{number:0{_PREFIX}d}")


def is_new_bucket(group: FileGroupId) -> bool:
    return len(group.file_id) == _PREFIX and group.file_id.isdigit()


def begun(group: FileGroupId, file_id: str) -> FileGroupId:
    """The group that replaces the placeholder of `new_bucket`.  file_id: a new one, of which the
    part after the prefix is used."""
    return FileGroupId(group.partition, group.file_id + file_id[_PREFIX:])


def shared_bucket(group: FileGroupId) -> FileGroupId:
    """The group that replaces the placeholder of `new_bucket` under non-blocking concurrency
    control: every writer gives it the same file id."""
    return FileGroupId(group.partition, group.file_id + _SHARED)


@dataclass(frozen=True, slots=True)
class BucketFinder:
    """Computes the places of rows.  groups: existing groups, by partition and bucket."""

    rule: BucketRule
    groups: Mapping[tuple[str, int], FileGroupId]

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        """Every row that is not a delete has a place, which may be that of `new_bucket`."""
        numbers = buckets_of(one_array(rows.column(RECORD_KEY)), self.rule).astype(np.int64)
        codes, paths = path_codes(rows.column(PARTITION_PATH))
        pairs = codes.astype(np.int64) * self.rule.count + numbers
        used, homes = np.unique(pairs, return_inverse=True)
        places = [
            (paths[pair // self.rule.count], pair % self.rule.count) for pair in used.tolist()
        ]
        there = np.array([place in self.groups for place in places], np.bool_)
        deleted = np.asarray(rows.column("deleted").to_numpy(), np.bool_)
        at = np.flatnonzero(there[homes] | ~deleted)
        groups = tuple(self.groups.get(place) or new_bucket(*place) for place in places)
        return Located(at, homes[at].astype(np.int32), groups)

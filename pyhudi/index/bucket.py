"""The bucket index: the key's hash names the file group; an upsert looks nothing up.

Deletes by key, and inserts that leave known keys out, are joined with the stored keys as in the
simple index, which tells what there is to delete or to leave out.

A partition has at most one group a bucket; the first eight characters of its file id are the
bucket's number.  The hash is that of BucketIdentifier in Apache Hudi 1.2.0, a list's hash of the
values that the record key holds for the hash fields:

    key without `:` or without `,`   one value, the whole key; so too a key without a hash field
    `f1:v1,f2:v2`                    values of the hash fields, in the key's order; a value ends at
                                     the last `,` before the next `:`; `__null__` and `__empty__`
                                     hash to 0
    h = 1, then h = 31 h + hash of each value; bucket = (h & 0x7fffffff) mod count

0.15.0 takes a plain key that holds `:` apart, too, and finds no value in it.
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
_BLANKS: Final = ("__null__", "__empty__")


@dataclass(frozen=True, slots=True)
class BucketRule:
    """How keys fall into buckets.  fields: hash fields, of the table's record key fields."""

    count: int
    fields: tuple[str, ...]


def bucket_of_group(group: FileGroupId) -> tuple[str, str]:
    """Equal for two groups of one bucket: two writers may have begun it at a time."""
    return group.partition, group.file_id[:_PREFIX]


def buckets_of(keys: Any, rule: BucketRule) -> npt.NDArray[np.int32]:
    """The bucket of each key; keys: strings without nulls.

    Cost: keys of several fields whose values hold `:` or `,` are read one by one.
    """
    hashes = np.uint32(31) + np.asarray(java_string_hash(keys)).view(np.uint32)
    named = _flags(pc.match_substring(keys, ":")) & _flags(pc.match_substring(keys, ","))
    if named.any():
        of_values, told = _hashes_of_values(keys.filter(pa.array(named)), rule.fields)
        hashes[named] = np.where(told, of_values, hashes[named])
    return ((hashes & np.uint32(0x7FFFFFFF)) % np.uint32(rule.count)).astype(np.int32)


def _flags(values: Any) -> npt.NDArray[np.bool_]:
    return np.asarray(values.to_numpy(zero_copy_only=False), np.bool_)


def _hashes_of_values(
    keys: Any, fields: tuple[str, ...]
) -> tuple[npt.NDArray[np.uint32], npt.NDArray[np.bool_]]:
    """(list hash of the values, whether there are any) of keys that hold `:` and `,`."""
    lists = pc.split_pattern(keys, ",")
    lists = lists.combine_chunks() if isinstance(lists, pa.ChunkedArray) else lists
    row = np.asarray(pc.list_parent_indices(lists).to_numpy())
    pairs = pc.split_pattern(lists.flatten(), ":")
    odd = np.zeros(len(keys), np.bool_)
    odd[row[_flags(pc.not_equal(pc.list_value_length(pairs), 2))]] = True
    hashes = np.ones(len(keys), np.uint32)
    told = np.zeros(len(keys), np.bool_)
    for at in np.flatnonzero(odd).tolist():
        found = values_of(keys[at].as_py(), fields)
        hashes[at], told[at] = _list_hash(found), bool(found)
    plain = ~odd[row]
    row, pairs = row[plain], pairs.filter(pa.array(plain))
    names, values = pc.list_element(pairs, 0), pc.list_element(pairs, 1)
    counts = np.asarray(java_string_hash(values)).view(np.uint32).copy()
    counts[_flags(pc.is_in(values, pa.array(_BLANKS)))] = 0
    kept = _flags(pc.is_in(names, pa.array(fields, pa.string())))
    row, counts = row[kept], counts[kept]
    told[row] = True
    starts = np.searchsorted(row, np.arange(len(keys) + 1))
    size = np.diff(starts)
    for turn in range(int(size.max(initial=0))):
        more = np.flatnonzero(size > turn)
        hashes[more] = hashes[more] * np.uint32(31) + counts[starts[more] + turn]
    return hashes, told


def values_of(key: str, fields: tuple[str, ...]) -> list[str]:
    """Values of the hash fields in a key of several fields, blanks as "" (both hash to 0)."""
    found = []
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
            found.append("" if value in _BLANKS else value)
        start = end + 1
    return found


def _list_hash(values: list[str]) -> int:
    result = 1
    for value in np.asarray(java_string_hash(pa.array(values, pa.string()))).tolist():
        result = (31 * result + value) & 0xFFFFFFFF
    return result


def bucket_of_file(file_id: str) -> int | None:
    """The bucket whose group this is; None for a file id of another form."""
    match = _NUMBER.match(file_id)
    return int(match[0]) if match else None


def bucket_groups(
    groups: Iterable[FileGroupId], rule: BucketRule
) -> dict[tuple[str, int], FileGroupId]:
    """Groups by partition and bucket.  Raises UserError if they are not those of the rule."""
    found: dict[tuple[str, int], FileGroupId] = {}
    for group in groups:
        number = bucket_of_file(group.file_id)
        if number is None or number >= rule.count:
            raise UserError(
                "a file group of the table is not one of its buckets",
                partition=group.partition, file_id=group.file_id, buckets=rule.count,
                hint="set hoodie.bucket.index.num.buckets to the table's own number, or use "
                "another index",
            )  # fmt: skip
        if (group.partition, number) in found:
            raise UserError(
                "a bucket of the table has several file groups",
                partition=group.partition, bucket=number,
            )  # fmt: skip
        found[group.partition, number] = group
    return found


def new_bucket(partition: str, number: int) -> FileGroupId:
    """Stands for the group of a bucket that has none yet: a file id that is only begun."""
    return FileGroupId(partition, f"{number:0{_PREFIX}d}")


def is_new_bucket(group: FileGroupId) -> bool:
    return len(group.file_id) == _PREFIX and group.file_id.isdigit()


def begun(group: FileGroupId, file_id: str) -> FileGroupId:
    """The group that `new_bucket` stood for; file_id: a fresh one, whose end is used."""
    return FileGroupId(group.partition, group.file_id + file_id[_PREFIX:])


@dataclass(frozen=True, slots=True)
class BucketFinder:
    """Computes where rows go.  groups: those there are, by partition and bucket."""

    rule: BucketRule
    groups: Mapping[tuple[str, int], FileGroupId]

    def locate(self, fs: FileSystem, rows: pa.Table) -> Located:
        """Every row that is no delete has a place, if only `new_bucket`'s."""
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

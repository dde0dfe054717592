"""Verification of entries of `column_stats` and `bloom_filters` against their files.

A file without an entry is no error.  An entry may be wider than its file but never narrower, as
readers would skip existing rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from pyhudi._native.hashing import bucket_of
from pyhudi.filenames import join
from pyhudi.metadata.file_stats.collect import bloom_filter_slices, entries_of
from pyhudi.metadata.file_stats.records import ColumnRange, FileIndex
from pyhudi.metadata.hfile_slices import newest_values
from pyhudi.metadata.payloads import BLOOM_FILTERS, COLUMN_STATS, decode_filters
from pyhudi.metadata.reader import MetadataTable


@dataclass(frozen=True, slots=True)
class WrongFact:
    """An incorrect entry.  column: None for a bloom filter."""

    path: str
    column: str | None
    why: str


def wrong_facts(metadata: MetadataTable, files: Sequence[FileIndex]) -> Iterator[WrongFact]:
    """Every entry that contradicts its file.  Cost: one look-up per file and column."""
    if COLUMN_STATS.path in metadata.partitions_listed:
        yield from _wrong_ranges(metadata, files)
    if BLOOM_FILTERS.path in metadata.partitions_listed:
        yield from _wrong_filters(metadata, files)


def _wrong_ranges(metadata: MetadataTable, files: Sequence[FileIndex]) -> Iterator[WrongFact]:
    expected = [(index, found) for index in files for found in index.ranges]
    if not expected:
        return
    keys = pa.array([index.range_key(found.column) for index, found in expected], pa.string())
    for entries in entries_of(metadata, keys):
        for (index, found), entry in zip(expected, entries.to_pylist(), strict=True):
            why = _contradicts(found, entry) if entry is not None else None
            if why:
                yield WrongFact(join(index.partition, index.file_name), found.column, why)


def _contradicts(found: ColumnRange, entry: dict[str, Any]) -> str | None:
    """How an entry contradicts its file; None if it does not."""
    low, high = (_value(entry[side], found.wrapper) for side in ("minValue", "maxValue"))
    if found.low is not None and low is not None and _is_less(found.low, low):
        return f"the file contains {found.low!r}, below the recorded minimum {low!r}"
    if found.high is not None and high is not None and _is_less(high, found.high):
        return f"the file contains {found.high!r}, above the recorded maximum {high!r}"
    nulls, count = entry["nullCount"], entry["valueCount"]
    if nulls == 0 and found.null_count:
        return f"the file contains {found.null_count} nulls, but none are recorded"
    if entry["minValue"] is None and found.low is not None and nulls == count and count:
        return "the file contains values, but only nulls are recorded"
    return None


def _is_less(one: Any, other: Any) -> bool:
    """Whether a bound is less than another; NaN is the greatest value."""
    return bool(one < other or (other != other and one == one))


def _value(side: dict[str, Any] | None, wrapper: str) -> Any:
    wrapped = (side or {}).get(wrapper)
    return None if wrapped is None else wrapped["value"]


def _wrong_filters(metadata: MetadataTable, files: Sequence[FileIndex]) -> Iterator[WrongFact]:
    expected = [index for index in files if index.bloom_text is not None]
    keys = pa.array([index.bloom_key for index in expected], pa.string())
    file_slices = bloom_filter_slices(metadata)
    homes = bucket_of(keys, len(file_slices))
    for number, file_slice in enumerate(file_slices):
        at = np.flatnonzero(homes == number)
        if not len(at):
            continue
        for hit in newest_values(metadata.log.fs, file_slice, keys.take(pa.array(at))):
            records = decode_filters(hit.values, hit.schema, path=hit.path)
            for position, record in zip(at[hit.positions].tolist(), records, strict=True):
                index = expected[position]
                text, stored = (
                    (index.bloom_text or "").encode(),
                    bytes(record["bloomFilter"] or b""),
                )
                if stored and stored != text and not record["isDeleted"]:
                    yield WrongFact(
                        join(index.partition, index.file_name),
                        None,
                        "the stored filter differs from the one in the file's footer",
                    )

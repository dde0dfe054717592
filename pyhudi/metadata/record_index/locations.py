"""Record locations: the payload of the record index.

Rows written to one file group by one commit have equal values, so each distinct value is encoded
and decoded once.  Source: table_format 9.6.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pyhudi.errors import CorruptFileError
from pyhudi.metadata.payloads import (
    LOCATION_FIELDS,
    RECORD_LOCATION,
    SCHEMA,
    codec,
    decode_payload,
)
from pyhudi.records import InstantTime
from pyhudi.timeline.clock import format_instant


@dataclass(frozen=True, slots=True)
class Locations:
    """Locations of record keys; one slot per key, null where absent.

    partition_path and file_id: dictionary<int32, string>; instant_time: string.
    """

    partition_path: pa.DictionaryArray
    file_id: pa.DictionaryArray
    instant_time: pa.Array

    @classmethod
    def none(cls, count: int) -> Locations:
        codes = pa.nulls(count, pa.int32())
        empty = pa.DictionaryArray.from_arrays(codes, pa.array([], pa.string()))
        return cls(empty, empty, pa.nulls(count, pa.string()))


@dataclass(frozen=True, slots=True)
class CodedLocations:
    """Locations of record keys: the distinct locations, and the location number of each slot.

    partition_paths, file_ids, instant_times: string, one per location; null where a value marks
    the key as absent.  codes: int32, one per slot, null where absent.
    """

    partition_paths: pa.StringArray
    file_ids: pa.StringArray
    instant_times: pa.StringArray
    codes: pa.Array

    def spread(self) -> Locations:
        """The locations as columns with one slot per key."""
        return Locations(
            _spread(self.partition_paths, self.codes),
            _spread(self.file_ids, self.codes),
            self.instant_times.take(self.codes),
        )


_UUID_ID = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:-(\d+))?")
_TWO_64: Final = 1 << 64


def _signed(bits: int) -> int:
    return bits - _TWO_64 if bits >> 63 else bits


@lru_cache(maxsize=1 << 14)
def _file_id_fields(file_id: str) -> tuple[int, int, int, str, int]:
    """(high bits, low bits, index, text, encoding) of a file id."""
    match = _UUID_ID.fullmatch(file_id)
    number = match[2] if match else None
    if match and (number is None or (number == str(int(number)) and int(number) < 1 << 31)):
        value = UUID(match[1]).int
        index = -1 if number is None else int(number)
        return _signed(value >> 64), _signed(value % _TWO_64), index, "", 0
    return -1, -1, -1, file_id, 1


@lru_cache(maxsize=1 << 14)
def _file_id_text(high: int, low: int, index: int, text: str, encoding: int) -> str:
    if encoding != 0:
        return text
    uuid = UUID(int=(high % _TWO_64) << 64 | low % _TWO_64)
    return str(uuid) if index == -1 else f"{uuid}-{index}"


def _dictionary(column: pa.Array | pa.ChunkedArray) -> pa.DictionaryArray:
    if isinstance(column, pa.ChunkedArray):
        column = column.combine_chunks()
    return column if pa.types.is_dictionary(column.type) else column.dictionary_encode()


def encode_locations(
    partition_path: Any, file_id: Any, epoch_millis: int, schema: str = SCHEMA
) -> pa.Array:
    """Encode values of `record_index` for keys written to these locations at one instant.

    partition_path, file_id: columns of string (preferably dictionaries), without nulls.  schema:
    of the values.
    Cost: one Avro datum per distinct (partition, file id), and a gather.
    """
    partitions, files = _dictionary(partition_path), _dictionary(file_id)
    if not len(partitions):
        return pa.array([], pa.binary())
    width = max(1, len(files.dictionary))
    pairs = pc.add(
        pc.multiply(partitions.indices.cast(pa.int64()), width), files.indices.cast(pa.int64())
    ).dictionary_encode()
    codes = pairs.dictionary.to_numpy()
    names = partitions.dictionary.take(pa.array(codes // width)).cast(pa.string())
    ids = files.dictionary.take(pa.array(codes % width)).to_pylist()
    parts = list(zip(*map(_file_id_fields, ids), strict=True))
    count = len(ids)
    location = pa.StructArray.from_arrays(
        [
            names,
            pa.array(parts[0], pa.int64()),
            pa.array(parts[1], pa.int64()),
            pa.array(parts[2], pa.int32()),
            pa.array(parts[3], pa.string()),
            pa.repeat(pa.scalar(epoch_millis, pa.int64()), count),
            pa.array(parts[4], pa.int32()),
        ],
        names=list(LOCATION_FIELDS),
    )
    return _location_rows(location, schema).take(pairs.indices)


def _location_rows(location: pa.StructArray, schema: str) -> pa.Array:
    count = len(location)
    rows = pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(""), count),
            pa.repeat(pa.scalar(RECORD_LOCATION, pa.int32()), count),
            location,
        ],
        names=["key", "type", "recordIndexMetadata"],
    )
    return codec(schema).encode_column(rows)


def decode_locations(values: pa.Array, schema: str, *, zone: tzinfo | None, path: str) -> Locations:
    """Decode values of `record_index`; zone: of the table's instants.

    A value of length 0 means absent.  Cost: as `encode_locations`.
    """
    return decode_coded(values, schema, zone=zone, path=path).spread()


def decode_coded(
    values: pa.Array, schema: str, *, zone: tzinfo | None, path: str
) -> CodedLocations:
    """Like `decode_locations`, without building texts per slot."""
    coded = values.dictionary_encode()
    empty = pc.equal(pc.binary_length(coded.dictionary), pa.scalar(0, pa.int32()))
    distinct = pc.if_else(empty, pa.scalar(None, pa.binary()), coded.dictionary)
    info = decode_payload(distinct, schema, "recordIndexMetadata", path=path)
    if info.null_count != distinct.null_count:
        raise CorruptFileError("a record index entry has no location", path=path)
    names, ids, times = (pa.array(texts, pa.string()) for texts in _places(info, zone))
    return CodedLocations(names, ids, times, coded.indices)


def _places(
    info: pa.StructArray, zone: tzinfo | None
) -> tuple[list[str | None], list[str | None], list[str | None]]:
    """Partition, file id and instant of each distinct location; None for null slots."""
    names: list[str | None] = []
    ids: list[str | None] = []
    times: list[str | None] = []
    for place in info.to_pylist():
        if place is None:
            names.append(None)
            ids.append(None)
            times.append(None)
            continue
        index = place["fileIndex"]
        names.append(place["partitionName"] or "")
        ids.append(
            _file_id_text(
                place["fileIdHighBits"] or 0,
                place["fileIdLowBits"] or 0,
                -1 if index is None else index,
                place["fileId"] or "",
                place["fileIdEncoding"],
            )
        )
        times.append(instant_text(place["instantTime"] or 0, zone))
    return names, ids, times


def _spread(texts: pa.StringArray, codes: pa.Array) -> pa.DictionaryArray:
    """A dictionary column whose row i is texts[codes[i]]; equal texts share an entry."""
    distinct = texts.dictionary_encode()
    indices = distinct.indices.take(codes).cast(pa.int32())
    return pa.DictionaryArray.from_arrays(indices, distinct.dictionary)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1 << 12)
def instant_text(epoch_millis: int, zone: tzinfo | None) -> InstantTime:
    """The instant time of an entry's epoch milliseconds.  Raises CorruptFileError if out of
    range."""
    try:
        return format_instant(_EPOCH + timedelta(milliseconds=epoch_millis), zone)
    except (OverflowError, ValueError):
        raise CorruptFileError("an instant is out of range", millis=epoch_millis) from None


def combine_parts(
    parts: list[CodedLocations], positions: NDArray[np.int64], count: int
) -> CodedLocations:
    """Combine several parts into one column of `count` slots.

    positions: the slot of each row of the concatenated parts; slots without a row are null.
    """
    codes, places = [np.empty(0, np.int32)], 0
    for part in parts:
        codes.append(part.codes.to_numpy() + np.int32(places))
        places += len(part.file_ids)
    slots = np.full(count, -1, np.int32)
    slots[positions] = np.concatenate(codes)
    absent = slots < 0

    def all_of(columns: list[pa.StringArray]) -> pa.StringArray:
        return pa.concat_arrays(columns) if columns else pa.array([], pa.string())

    return CodedLocations(
        all_of([part.partition_paths for part in parts]),
        all_of([part.file_ids for part in parts]),
        all_of([part.instant_times for part in parts]),
        pa.array(slots, mask=absent if absent.any() else None),
    )


def transcode_locations(
    values: pa.Array, schema: str, *, path: str, target: str = SCHEMA
) -> pa.Array:
    """Re-encode values of `record_index` from another writer's schema to the wanted one; keeps
    nulls."""
    if schema == target:
        return values
    coded = values.dictionary_encode()
    info = decode_payload(coded.dictionary, schema, "recordIndexMetadata", path=path)
    if info.null_count:
        raise CorruptFileError("a record index entry has no location", path=path)
    location = pa.StructArray.from_arrays(
        [info.field(name) for name in LOCATION_FIELDS], names=list(LOCATION_FIELDS)
    )
    return _location_rows(location, target).take(coded.indices)

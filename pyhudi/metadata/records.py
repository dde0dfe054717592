"""Records of the metadata table: one Avro schema for all its partitions, and their payloads.

```
partition      key                          value
files          __all_partitions__           {partition name: size 0, isDeleted}
files          partition path, `.` if none  {file name: size, isDeleted}
record_index   record key                   partition, file id (128 bits + index, or text), instant
column_stats   column, partition, file      least and greatest value, counts, sizes
bloom_filters  partition, file              the file's bloom filter as its footer has it
```

A value holds no key: the HFile's row is the key.  Meta fields are null.  A value says nothing of
the row it is for, so rows that went to one file group in one commit have equal bytes: values are
encoded and decoded once per distinct one, never once a row.
Source: table_format 9.2 to 9.7.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta, tzinfo
from functools import lru_cache
from typing import Any, Final
from uuid import UUID

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from numpy.typing import NDArray

from pyhudi._native.avro import AvroCodec
from pyhudi.errors import CorruptFileError, UnsupportedTableError
from pyhudi.records import META_COLUMNS, InstantTime
from pyhudi.timeline.clock import format_instant

ALL_PARTITIONS: Final = "__all_partitions__"
NON_PARTITIONED: Final = "."
"""How the metadata table names the one partition of a non-partitioned table."""


@dataclass(frozen=True, slots=True)
class MetadataPartition:
    """A kind of record: its folder and how its file groups are called."""

    path: str
    prefix: str

    def file_id(self, number: int) -> str:
        return f"{self.prefix}{number:04d}-0"

    def number(self, file_id: str) -> int | None:
        """The inverse of `file_id`; None for a file id of another form."""
        match = re.fullmatch(re.escape(self.prefix) + r"(\d{4,9})-\d+", file_id)
        return int(match[1]) if match else None


FILES: Final = MetadataPartition("files", "files-")
RECORD_INDEX: Final = MetadataPartition("record_index", "record-index-")
COLUMN_STATS: Final = MetadataPartition("column_stats", "col-stats-")
BLOOM_FILTERS: Final = MetadataPartition("bloom_filters", "bloom-filters-")
KEPT: Final = (FILES, RECORD_INDEX, COLUMN_STATS, BLOOM_FILTERS)
"""The partitions this package keeps in step with the data; it creates the first two."""

PARTITION_LIST: Final = 1
FILE_LIST: Final = 2
COLUMN_RANGE: Final = 3
FILE_FILTER: Final = 4
RECORD_LOCATION: Final = 5

PAYLOADS: Final = {
    FILES.path: "filesystemMetadata",
    RECORD_INDEX.path: "recordIndexMetadata",
    COLUMN_STATS.path: "ColumnStatsMetadata",
    BLOOM_FILTERS.path: "BloomFilterMetadata",
}
"""The field of the record that each partition fills."""

LOCATION_FIELDS: Final = (
    "partitionName",
    "fileIdHighBits",
    "fileIdLowBits",
    "fileIndex",
    "fileId",
    "instantTime",
    "fileIdEncoding",
)

_STRING: Final = {"type": "string", "avro.java.string": "String"}
_WRAPPERS: Final = {
    "BooleanWrapper": "boolean",
    "IntWrapper": "int",
    "LongWrapper": "long",
    "FloatWrapper": "float",
    "DoubleWrapper": "double",
    "BytesWrapper": "bytes",
    "StringWrapper": _STRING,
    "DateWrapper": "int",
    "DecimalWrapper": {"type": "bytes", "logicalType": "decimal", "precision": 30, "scale": 15},
    "TimeMicrosWrapper": {"type": "long", "logicalType": "time-micros"},
    "TimestampMicrosWrapper": "long",
}


def _record(name: str, fields: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def _maybe(name: str, kind: Any) -> dict[str, Any]:
    """An optional field; `kind` may be a list of branches."""
    branches = kind if isinstance(kind, list) else [kind]
    return {"name": name, "type": ["null", *branches], "default": None}


def _fields() -> list[dict[str, Any]]:
    file_info = _record(
        "HoodieMetadataFileInfo", [_field("size", "long"), _field("isDeleted", "boolean")]
    )
    bloom = _record(
        "HoodieMetadataBloomFilter",
        [
            _field("type", _STRING),
            _field("timestamp", _STRING),
            _field("bloomFilter", "bytes"),
            _field("isDeleted", "boolean"),
        ],
    )
    wrappers = [_record(name, [_field("value", kind)]) for name, kind in _WRAPPERS.items()]
    statistics = _record(
        "HoodieMetadataColumnStats",
        [
            _maybe("fileName", _STRING),
            _maybe("columnName", _STRING),
            _maybe("minValue", wrappers),
            _maybe("maxValue", list(_WRAPPERS)),
            _maybe("valueCount", "long"),
            _maybe("nullCount", "long"),
            _maybe("totalSize", "long"),
            _maybe("totalUncompressedSize", "long"),
            _field("isDeleted", "boolean"),
        ],
    )
    location = _record(
        "HoodieRecordIndexInfo",
        [
            _maybe("partitionName", _STRING),
            _maybe("fileIdHighBits", "long"),
            _maybe("fileIdLowBits", "long"),
            _maybe("fileIndex", "int"),
            _maybe("fileId", _STRING),
            _maybe("instantTime", "long"),
            {"name": "fileIdEncoding", "type": "int", "default": 0},
        ],
    )
    files = {"type": "map", "values": file_info, "avro.java.string": "String"}
    return [
        _field("key", _STRING),
        _field("type", "int"),
        _field("filesystemMetadata", ["null", files]),
        _maybe("BloomFilterMetadata", bloom),
        _maybe("ColumnStatsMetadata", statistics),
        _maybe("recordIndexMetadata", location),
    ]


def _schema(fields: list[dict[str, Any]]) -> str:
    head = {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "namespace": "org.apache.hudi.avro.model",
        "fields": fields,
    }
    return json.dumps(head, separators=(",", ":"))


COMMIT_SCHEMA: Final = _schema(_fields())
"""`extraMetadata.schema` of the metadata table's commits: without meta fields."""

SCHEMA: Final = _schema([*(_maybe(name, "string") for name in META_COLUMNS), *_fields()])
"""What values are written with: in block headers and in the HFiles' file info."""


@lru_cache(maxsize=64)
def codec(schema: str) -> AvroCodec:
    """Compiled once per schema text; other writers' schemas have more fields."""
    return AvroCodec(schema)


FileMap = dict[str, int | None]
"""One record of `files`: name -> size in bytes, None for a tombstone."""


def merge_files(older: Mapping[str, int | None], newer: Mapping[str, int | None]) -> FileMap:
    """Apply a newer record of one key to an older one.

    Sizes only grow; a tombstone takes its name out, and stays where the name was unknown.
    """
    merged = dict(older)
    for name, size in newer.items():
        if name not in merged:
            merged[name] = size
        elif size is None:
            del merged[name]
        else:
            merged[name] = max(size, merged[name] or 0)
    return merged


def encode_files(records: Mapping[str, Mapping[str, int | None]]) -> tuple[pa.Array, pa.Array]:
    """(keys: binary in key order, values: binary) of records of `files`."""
    keys = sorted(records, key=str.encode)
    entries = [entry for key in keys for entry in records[key].items()]
    offsets = np.cumsum([0, *(len(records[key]) for key in keys)], dtype=np.int32)
    infos = pa.StructArray.from_arrays(
        [
            pa.array([size or 0 for _, size in entries], pa.int64()),
            pa.array([size is None for _, size in entries], pa.bool_()),
        ],
        fields=[
            pa.field("size", pa.int64(), nullable=False),
            pa.field("isDeleted", pa.bool_(), nullable=False),
        ],
    )
    names = pa.array([name for name, _ in entries], pa.string())
    kinds = [PARTITION_LIST if key == ALL_PARTITIONS else FILE_LIST for key in keys]
    rows = pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(""), len(keys)),
            pa.array(kinds, pa.int32()),
            pa.MapArray.from_arrays(pa.array(offsets), names, infos),
        ],
        names=["key", "type", "filesystemMetadata"],
    )
    return pa.array([key.encode() for key in keys], pa.binary()), codec(SCHEMA).encode_column(rows)


def decode_files(values: pa.Array, schema: str, *, path: str) -> list[FileMap | None]:
    """The maps of records of `files`; None where `values` is null."""
    rows = codec(schema).decode_column(values, fields=["filesystemMetadata"], path=path)
    maps = rows.field("filesystemMetadata")
    offsets = maps.offsets.to_pylist()
    names = maps.keys.to_pylist()
    sizes = maps.items.field("size").to_pylist()
    gone = maps.items.field("isDeleted").to_pylist()
    found: list[FileMap | None] = []
    for number, is_valid in enumerate(values.is_valid().to_pylist()):
        span = range(offsets[number], offsets[number + 1]) if is_valid else range(0)
        record: FileMap = {names[i]: None if gone[i] else sizes[i] for i in span}
        found.append(record if is_valid else None)
    return found


@dataclass(frozen=True, slots=True)
class Locations:
    """Where record keys live, one slot a key, null where absent.

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


_UUID_ID = re.compile(r"([0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12})(?:-(\d+))?")
_TWO_64: Final = 1 << 64


_ZERO: Final = pa.scalar(0, pa.int32())
_NO_VALUE: Final = pa.scalar(None, pa.binary())


def _signed(bits: int) -> int:
    return bits - _TWO_64 if bits >> 63 else bits


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


def encode_locations(partition_path: Any, file_id: Any, epoch_millis: int) -> pa.Array:
    """Values of `record_index` for keys that went to these places at one instant.

    partition_path, file_id: columns of string (dictionaries are best), without nulls.
    Cost: one Avro datum a distinct (partition, file id); the rest is a gather.
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
    return _location_rows(location).take(pairs.indices)


def _location_rows(location: pa.StructArray) -> pa.Array:
    count = len(location)
    rows = pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(""), count),
            pa.repeat(pa.scalar(RECORD_LOCATION, pa.int32()), count),
            location,
        ],
        names=["key", "type", "recordIndexMetadata"],
    )
    return codec(SCHEMA).encode_column(rows)


def decode_locations(values: pa.Array, schema: str, *, zone: tzinfo | None, path: str) -> Locations:
    """The places that values of `record_index` name; zone: that of the table's instants.

    A value of length 0 counts as absent.  Cost: as `encode_locations`.
    """
    coded = values.dictionary_encode()
    empty = pc.equal(pc.binary_length(coded.dictionary), _ZERO)
    distinct = pc.if_else(empty, _NO_VALUE, coded.dictionary)
    rows = codec(schema).decode_column(distinct, fields=["recordIndexMetadata"], path=path)
    info = rows.field("recordIndexMetadata")
    if info.null_count != distinct.null_count:
        raise CorruptFileError("a record index entry holds no location", path=path)
    names, ids, times = _places(info, zone)
    codes = coded.indices
    return Locations(
        _spread(names, codes), _spread(ids, codes), pa.array(times, pa.string()).take(codes)
    )


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


def _spread(texts: list[str | None], codes: pa.Array) -> pa.DictionaryArray:
    """A dictionary column whose row i is texts[codes[i]]; equal texts share an entry."""
    distinct = pa.array(texts, pa.string()).dictionary_encode()
    indices = distinct.indices.take(codes).cast(pa.int32())
    return pa.DictionaryArray.from_arrays(indices, distinct.dictionary)


_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1 << 12)
def instant_text(epoch_millis: int, zone: tzinfo | None) -> InstantTime:
    """The instant of a moment as the index stores it.  Raises CorruptFileError off the calendar."""
    try:
        return format_instant(_EPOCH + timedelta(milliseconds=epoch_millis), zone)
    except (OverflowError, ValueError):
        raise CorruptFileError("an instant is off the calendar", millis=epoch_millis) from None


def gather(parts: list[Locations], positions: NDArray[np.int64], count: int) -> Locations:
    """One column of `count` slots out of several parts.

    positions: for each row of the parts, laid end to end, its slot; slots not named are null.
    """
    if not parts:
        return Locations.none(count)
    rows = np.full(count, -1, np.int64)
    rows[positions] = np.arange(len(positions))
    take = pa.array(rows, mask=rows < 0)

    def one(columns: list[pa.Array]) -> pa.Array:
        chunked = pa.chunked_array(columns)
        if len(columns) > 1 and pa.types.is_dictionary(chunked.type):
            chunked = chunked.unify_dictionaries()
        whole = chunked.combine_chunks() if len(columns) > 1 else columns[0]
        return whole.take(take)

    return Locations(
        one([p.partition_path for p in parts]),
        one([p.file_id for p in parts]),
        one([p.instant_time for p in parts]),
    )


def transcode_locations(values: pa.Array, schema: str, *, path: str) -> pa.Array:
    """Values of `record_index` written with another writer's schema, in ours; nulls stay."""
    if schema == SCHEMA:
        return values
    coded = values.dictionary_encode()
    rows = codec(schema).decode_column(coded.dictionary, fields=["recordIndexMetadata"], path=path)
    info = rows.field("recordIndexMetadata")
    if info.null_count:
        raise CorruptFileError("a record index entry holds no location", path=path)
    location = pa.StructArray.from_arrays(
        [info.field(name) for name in LOCATION_FIELDS], names=list(LOCATION_FIELDS)
    )
    return _location_rows(location).take(coded.indices)


def encode_ranges(records: list[dict[str, Any]]) -> pa.Array:
    """Values of `column_stats` out of the records' fields, a dict each."""
    return _encode_payload(COLUMN_RANGE, "ColumnStatsMetadata", records)


def encode_filters(records: list[dict[str, Any]]) -> pa.Array:
    """Values of `bloom_filters` out of the records' fields, a dict each."""
    return _encode_payload(FILE_FILTER, "BloomFilterMetadata", records)


def _encode_payload(kind: int, field: str, records: list[dict[str, Any]]) -> pa.Array:
    compiled = codec(SCHEMA)
    count = len(records)
    rows = pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(""), count),
            pa.repeat(pa.scalar(kind, pa.int32()), count),
            pa.array(records, compiled.arrow_schema.field(field).type),
        ],
        names=["key", "type", field],
    )
    return compiled.encode_column(rows)


def transcode(values: pa.Array, schema: str, field: str, *, path: str) -> pa.Array:
    """Values of any partition, written with another writer's schema, in ours; nulls stay.

    field: the one that holds the partition's payload.  Dates of newer writers become those of
    older ones.  Raises UnsupportedTableError for bounds that ours has no type for.
    """
    if schema == SCHEMA:
        return values
    compiled = codec(SCHEMA)
    rows = codec(schema).decode_column(values, fields=["key", "type", field], path=path)
    payload = _fitted(rows.field(field), compiled.arrow_schema.field(field).type, path)
    fitted = pa.StructArray.from_arrays(
        [rows.field("key"), rows.field("type"), payload],
        names=["key", "type", field],
        mask=values.is_null(),
    )
    return compiled.encode_column(fitted)


def _fitted(column: pa.StructArray, wanted: pa.StructType, path: str) -> pa.StructArray:
    """A struct column with just the wanted fields, looked up by name."""
    held = {column.type.field(i).name: column.field(i) for i in range(column.type.num_fields)}
    if "LocalDateWrapper" in held:
        held["DateWrapper"] = pc.coalesce(held["DateWrapper"], held["LocalDateWrapper"])
    if "ArrayWrapper" in held and held["ArrayWrapper"].null_count < len(column):
        raise UnsupportedTableError("bounds of several columns in one entry", path=path)
    children = [
        _fitted(held[field.name], field.type, path)
        if pa.types.is_struct(field.type)
        else held[field.name]
        for field in wanted
    ]
    return pa.StructArray.from_arrays(children, fields=list(wanted), mask=column.is_null())

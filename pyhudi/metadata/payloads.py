"""Records of the metadata table: the partitions and their payloads.

```
partition        key                          value
files            __all_partitions__           {partition name: size 0, isDeleted}
files            partition path, `.` if none  {file name: size, isDeleted}
record_index     record key                   partition, file id (128 bits + index, or text), time
column_stats     column, partition, file      least and greatest value, counts, sizes
partition_stats  column, partition            the same of all files of a partition
bloom_filters    partition, file              the file's bloom filter as stored in its footer
```

A value contains no key: the HFile stores the key of each row.  Meta fields are null.  A value does
not depend on its row, so rows written to one file group by one commit have equal values: each
distinct value is encoded and decoded once, not once per row.  Functions that encode take the Avro
schema of the values (`record_schema`), that of version 6 unless given.
Source: table_format 9.2 to 9.7.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi._native.avro.codec import AvroCodec
from pyhudi.errors import CorruptFileError, UnsupportedTableError
from pyhudi.metadata.record_schema import RECORDS_V6, RECORDS_V9

ALL_PARTITIONS: Final = "__all_partitions__"
NON_PARTITIONED: Final = "."
"""Name of the single partition of a non-partitioned table."""


@dataclass(frozen=True, slots=True)
class MetadataPartition:
    """A metadata partition: its folder and the prefix of its file ids."""

    path: str
    prefix: str

    def file_id(self, number: int) -> str:
        return f"{self.prefix}{number:04d}-0"

    def number(self, file_id: str) -> int | None:
        """The inverse of `file_id`; None for a file id of another format."""
        match = re.fullmatch(re.escape(self.prefix) + r"(\d{4,9})-\d+", file_id)
        return int(match[1]) if match else None


FILES: Final = MetadataPartition("files", "files-")
RECORD_INDEX: Final = MetadataPartition("record_index", "record-index-")
PARTITION_GROUP: Final = re.compile(
    re.escape(RECORD_INDEX.prefix) + r"(.*)-(\d{4,9})-\d+", re.DOTALL
)
"""File ids of a record index by partition: the escaped path of the data partition, the number."""
COLUMN_STATS: Final = MetadataPartition("column_stats", "col-stats-")
PARTITION_STATS: Final = MetadataPartition("partition_stats", "partition-stats-")
BLOOM_FILTERS: Final = MetadataPartition("bloom_filters", "bloom-filters-")
MAINTAINED_PARTITIONS: Final = (
    FILES,
    RECORD_INDEX,
    COLUMN_STATS,
    PARTITION_STATS,
    BLOOM_FILTERS,
)
"""The partitions that this package maintains; it creates the first two with the table."""


def group_number(partition: MetadataPartition, file_id: str) -> int | None:
    """The number of a file group; in a record index by partition, within its data partition.

    None for a file id of another format."""
    number = partition.number(file_id)
    if number is not None or partition != RECORD_INDEX:
        return number
    match = PARTITION_GROUP.fullmatch(file_id)
    return int(match[2]) if match else None


PARTITIONS_V6: Final = frozenset(
    partition.path for partition in (FILES, RECORD_INDEX, COLUMN_STATS, BLOOM_FILTERS)
)
"""Those that tables of version 6 may have."""

PARTITION_LIST: Final = 1
FILE_LIST: Final = 2
COLUMN_RANGE: Final = 3
FILE_FILTER: Final = 4
RECORD_LOCATION: Final = 5
PARTITION_RANGE: Final = 6
SECONDARY_KEY: Final = 7

PARTITION_PAYLOADS: Final = {
    FILES.path: "filesystemMetadata",
    RECORD_INDEX.path: "recordIndexMetadata",
    COLUMN_STATS.path: "ColumnStatsMetadata",
    PARTITION_STATS.path: "ColumnStatsMetadata",
    BLOOM_FILTERS.path: "BloomFilterMetadata",
}
"""The payload field of each partition's records."""

SECONDARY_PREFIX: Final = "secondary_index_"
"""Of the partitions of secondary indexes, one per index."""

EXPRESSION_PREFIX: Final = "expr_index_"
"""Of the partitions of expression indexes, one per index."""

INDEX_PREFIXES: Final = (SECONDARY_PREFIX, EXPRESSION_PREFIX)


def maintained_partitions(listed: Iterable[str]) -> tuple[MetadataPartition, ...]:
    """The partitions among those listed that this package maintains; indexes by name, last."""
    paths = frozenset(listed)
    fixed = tuple(partition for partition in MAINTAINED_PARTITIONS if partition.path in paths)
    named = (path for path in sorted(paths) if path.startswith(INDEX_PREFIXES))
    return (*fixed, *(MetadataPartition(path, f"{path.replace('_', '-')}-") for path in named))


def payload_fields(partition: str) -> tuple[str, ...]:
    """The payload fields that records of a partition may have."""
    if partition.startswith(EXPRESSION_PREFIX):
        return PARTITION_PAYLOADS[COLUMN_STATS.path], PARTITION_PAYLOADS[BLOOM_FILTERS.path]
    return (PARTITION_PAYLOADS[partition],)


LOCATION_FIELDS: Final = (
    "partitionName",
    "fileIdHighBits",
    "fileIdLowBits",
    "fileIndex",
    "fileId",
    "instantTime",
    "fileIdEncoding",
)

COMMIT_SCHEMA: Final = RECORDS_V6.commit
SCHEMA: Final = RECORDS_V6.stored


@lru_cache(maxsize=64)
def codec(schema: str) -> AvroCodec:
    """The codec of a schema, compiled once per text; other writers' schemas have more fields."""
    return AvroCodec(schema)


FileMap = dict[str, int | None]
"""One record of `files`: name -> size in bytes; None for a tombstone."""


def merge_files(older: Mapping[str, int | None], newer: Mapping[str, int | None]) -> FileMap:
    """Apply a newer record of one key to an older one.

    Sizes only grow; a tombstone removes its name, and is retained where the name was unknown.
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


def encode_files(
    records: Mapping[str, Mapping[str, int | None]], schema: str = SCHEMA
) -> tuple[pa.Array, pa.Array]:
    """Encode records of `files`: (keys: binary in key order, values: binary)."""
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
    return pa.array([key.encode() for key in keys], pa.binary()), codec(schema).encode_column(rows)


def decode_payload(
    values: pa.Array | pa.ChunkedArray, schema: str, field: str, *, path: str
) -> pa.Array:
    """The payload of records: a struct, or a map of structs, with at least the fields that this
    library knows.  Not for ranges, of which tables have several generations.

    Raises CorruptFileError for other schemas and for values that are not of theirs.
    """
    if unlike := _unlike(schema, field):
        raise _other_schema(unlike, path)
    return codec(schema).decode_column(values, fields=[field], path=path).field(field)


def _other_schema(unlike: Sequence[str], path: str) -> CorruptFileError:
    return CorruptFileError(
        "the schema of metadata records lacks fields, or has them with other types",
        path=path,
        fields=",".join(unlike),
    )


@lru_cache(maxsize=256)
def _unlike(schema: str, field: str) -> tuple[str, ...]:
    """Fields of a payload that a schema lacks, or has with another type."""
    stored, known = codec(schema).arrow_schema, codec(RECORDS_V9.stored).arrow_schema
    if field not in stored.names:
        return (field,)
    found, needed = stored.field(field).type, known.field(field).type
    if pt.is_map(needed):
        if not pt.is_map(found):
            return (field,)
        found, needed = found.item_type, needed.item_type
    types = {child.name: child.type for child in found} if pt.is_struct(found) else {}
    return tuple(
        child.name
        for child in needed
        if child.name not in _LATER_FIELDS and types.get(child.name) != child.type
    )


_LATER_FIELDS: Final = ("position", "isTightBound")
"""Fields that schemas of older writers lack: of record locations, and of ranges."""


def decode_files(values: pa.Array, schema: str, *, path: str) -> list[FileMap | None]:
    """Decode records of `files`; None where `values` is null."""
    maps = decode_payload(values, schema, "filesystemMetadata", path=path)
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


def encode_ranges(
    ranges: pa.StructArray | list[dict[str, Any]],
    schema: str = SCHEMA,
    *,
    kind: int = COLUMN_RANGE,
) -> pa.Array:
    """Encode values of `column_stats`, or of `partition_stats` if that is the record's kind.

    ranges: the fields of ColumnStatsMetadata; absent fields are null or have their default.
    """
    return _encode_payload(kind, "ColumnStatsMetadata", ranges, schema)


def encode_filters(records: list[dict[str, Any]], schema: str = SCHEMA) -> pa.Array:
    """Encode values of `bloom_filters`; records: one dict of fields each."""
    return _encode_payload(FILE_FILTER, "BloomFilterMetadata", records, schema)


def ranges_type(schema: str = RECORDS_V9.stored) -> pa.StructType:
    """The Arrow type of an entry of `column_stats` or `partition_stats`."""
    return codec(schema).arrow_schema.field(PARTITION_PAYLOADS[COLUMN_STATS.path]).type


def decode_ranges(values: pa.Array, schema: str, *, path: str) -> pa.StructArray:
    """Decode entries of `column_stats` or `partition_stats` to the fields of `ranges_type()`; null
    where `values` is null.

    Raises UnsupportedTableError for bounds of several columns.
    """
    field = PARTITION_PAYLOADS[COLUMN_STATS.path]
    found = _decoded(values, schema, [field], path).field(field)
    if not pt.is_struct(found.type):
        raise _other_schema([field], path)
    for side in ("minValue", "maxValue"):
        index = found.type.get_field_index(side)
        bounds = found.type.field(index).type if index >= 0 else pa.null()
        if pt.is_struct(bounds) and bounds.get_field_index("ArrayWrapper") >= 0:
            _check_single(pc.struct_field(found, [side, "ArrayWrapper"]), path)
    return _fitted(found, ranges_type(), path)


def decode_filters(values: pa.Array, schema: str, *, path: str) -> list[dict[str, Any]]:
    """Decode entries of `bloom_filters`; `values` has no nulls."""
    field = PARTITION_PAYLOADS[BLOOM_FILTERS.path]
    found: list[dict[str, Any]] = decode_payload(values, schema, field, path=path).to_pylist()
    return found


def _encode_payload(
    kind: int, field: str, records: pa.StructArray | list[dict[str, Any]], schema: str
) -> pa.Array:
    compiled = codec(schema)
    count = len(records)
    if not isinstance(records, pa.StructArray):
        records = pa.array(records, compiled.arrow_schema.field(field).type)
    rows = pa.RecordBatch.from_arrays(
        [
            pa.repeat(pa.scalar(""), count),
            pa.repeat(pa.scalar(kind, pa.int32()), count),
            records,
        ],
        names=["key", "type", field],
    )
    return compiled.encode_column(rows)


def transcode(
    values: pa.Array, schema: str, fields: Sequence[str], *, path: str, target: str = SCHEMA
) -> pa.Array:
    """Re-encode values of any partition from another writer's schema to the wanted one; nulls stay
    null.

    fields: the partition's payload fields.  Fields that the values lack are null or have their
    default; dates of newer writers are converted to the type of older ones.  Raises
    UnsupportedTableError for bounds of a type that the wanted schema does not have.
    """
    if schema == target:
        return values
    compiled = codec(target)
    rows = _decoded(values, schema, ["key", "type", *fields], path)
    payloads = [
        _fitted(rows.field(field), compiled.arrow_schema.field(field).type, path)
        for field in fields
    ]
    fitted = pa.StructArray.from_arrays(
        [rows.field("key"), rows.field("type"), *payloads],
        names=["key", "type", *fields],
        mask=values.is_null(),
    )
    return compiled.encode_column(fitted)


def _decoded(values: pa.Array, schema: str, fields: Sequence[str], path: str) -> pa.StructArray:
    compiled = codec(schema)
    if missing := [name for name in fields if name not in compiled.arrow_schema.names]:
        raise _other_schema(missing, path)
    return compiled.decode_column(values, fields=fields, path=path)


def _fitted(column: pa.StructArray, target: pa.StructType, path: str) -> pa.StructArray:
    """A struct column with only the wanted fields, matched by name; null, or false for one of a
    later generation, where the column lacks one.  Raises CorruptFileError for other schemas."""
    found = {column.type.field(i).name: column.field(i) for i in range(column.type.num_fields)}
    names = {field.name for field in target}
    if "LocalDateWrapper" in found and "LocalDateWrapper" not in names:
        date = target.field("DateWrapper")
        sides = [found[name] for name in ("DateWrapper", "LocalDateWrapper") if name in found]
        fitted = [_fitted_field(side, date, len(column), path) for side in sides]
        found["DateWrapper"] = pc.coalesce(*fitted)
    if "ArrayWrapper" in found and "ArrayWrapper" not in names:
        _check_single(found["ArrayWrapper"], path)
    children = [_fitted_field(found.get(field.name), field, len(column), path) for field in target]
    return pa.StructArray.from_arrays(children, fields=list(target), mask=column.is_null())


def _fitted_field(column: pa.Array | None, target: pa.Field, count: int, path: str) -> pa.Array:
    if column is None:
        if target.nullable:
            return pa.nulls(count, target.type)
        if target.name not in _LATER_FIELDS:
            raise _other_schema([target.name], path)
        return pa.repeat(pa.scalar(False), count)
    if pt.is_struct(column.type) and pt.is_struct(target.type):
        return _fitted(column, target.type, path)
    if column.type != target.type:
        raise _other_schema([target.name], path)
    return column


def _check_single(several: pa.Array, path: str) -> None:
    if several.null_count < len(several):
        raise UnsupportedTableError("an entry has bounds of several columns", path=path)

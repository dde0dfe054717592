"""Avro schemas of the metadata table's records, one per generation of table versions.

RECORDS_V6 is written to tables of version 6, RECORDS_V9 to versions 8 and 9.  The newer one adds
to column statistics whether the bounds are tight and the type of the values, to record locations
the row's position (always null), and the payload of secondary indexes.  Readers use the schema in
each block or HFile, so one metadata table may contain both.
Source: table_format 9.3, writer_v8_v9 11.6; metadata tables of Apache Hudi 0.15 and 1.1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.records import META_COLUMNS


@dataclass(frozen=True, slots=True)
class RecordSchema:
    """The schema of one generation.

    stored: of written values, in block headers and in the HFiles' file info; with meta fields.
    commit: `extraMetadata.schema` of the metadata table's commits, without meta fields.
    """

    stored: str
    commit: str


_STRING: Final = {"type": "string", "avro.java.string": "String"}
_WRAPPERS_V6: Final[Mapping[str, Any]] = {
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
_PLAIN_WRAPPERS_V9: Final[Mapping[str, Any]] = {**_WRAPPERS_V6, "LocalDateWrapper": "int"}


def _record(name: str, fields: Iterable[dict[str, Any]]) -> dict[str, Any]:
    return {"type": "record", "name": name, "fields": list(fields)}


def _field(name: str, kind: Any) -> dict[str, Any]:
    return {"name": name, "type": kind}


def _maybe(name: str, kind: Any) -> dict[str, Any]:
    """An optional field; `kind` may be a list of branches."""
    branches = kind if isinstance(kind, list) else [kind]
    return {"name": name, "type": ["null", *branches], "default": None}


def _wrappers(plain: Mapping[str, Any]) -> list[dict[str, Any]]:
    return [_record(name, [_field("value", kind)]) for name, kind in plain.items()]


def _statistics(
    wrappers: list[dict[str, Any]], more: Iterable[dict[str, Any]] = ()
) -> dict[str, Any]:
    return _record(
        "HoodieMetadataColumnStats",
        [
            _maybe("fileName", _STRING),
            _maybe("columnName", _STRING),
            _maybe("minValue", wrappers),
            _maybe("maxValue", [wrapper["name"] for wrapper in wrappers]),
            _maybe("valueCount", "long"),
            _maybe("nullCount", "long"),
            _maybe("totalSize", "long"),
            _maybe("totalUncompressedSize", "long"),
            _field("isDeleted", "boolean"),
            *more,
        ],
    )


def _statistics_v9() -> dict[str, Any]:
    several = {"type": "array", "items": ["null", *_PLAIN_WRAPPERS_V9]}
    kind = _record(
        "HoodieValueTypeInfo", [_field("typeOrdinal", "int"), _maybe("additionalInfo", _STRING)]
    )
    return _statistics(
        [
            *_wrappers(_PLAIN_WRAPPERS_V9),
            _record("ArrayWrapper", [_maybe("wrappedValues", several)]),
        ],
        [{"name": "isTightBound", "type": "boolean", "default": False}, _maybe("valueType", kind)],
    )


def _location(more: Iterable[dict[str, Any]] = ()) -> dict[str, Any]:
    return _record(
        "HoodieRecordIndexInfo",
        [
            _maybe("partitionName", _STRING),
            _maybe("fileIdHighBits", "long"),
            _maybe("fileIdLowBits", "long"),
            _maybe("fileIndex", "int"),
            _maybe("fileId", _STRING),
            _maybe("instantTime", "long"),
            {"name": "fileIdEncoding", "type": "int", "default": 0},
            *more,
        ],
    )


def _fields(statistics: dict[str, Any], location: dict[str, Any]) -> list[dict[str, Any]]:
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
    files = {"type": "map", "values": file_info, "avro.java.string": "String"}
    return [
        _field("key", _STRING),
        _field("type", "int"),
        _field("filesystemMetadata", ["null", files]),
        _maybe("BloomFilterMetadata", bloom),
        _maybe("ColumnStatsMetadata", statistics),
        _maybe("recordIndexMetadata", location),
    ]


def _text(fields: list[dict[str, Any]]) -> str:
    head = {
        "type": "record",
        "name": "HoodieMetadataRecord",
        "namespace": "org.apache.hudi.avro.model",
        "fields": fields,
    }
    return json.dumps(head, separators=(",", ":"))


def _schema(fields: list[dict[str, Any]]) -> RecordSchema:
    meta = [_maybe(name, "string") for name in META_COLUMNS]
    return RecordSchema(stored=_text([*meta, *fields]), commit=_text(fields))


RECORDS_V6: Final = _schema(_fields(_statistics(_wrappers(_WRAPPERS_V6)), _location()))
RECORDS_V9: Final = _schema(
    [
        *_fields(_statistics_v9(), _location([_maybe("position", "long")])),
        _maybe(
            "SecondaryIndexMetadata",
            _record("HoodieSecondaryIndexInfo", [_field("isDeleted", "boolean")]),
        ),
    ]
)


def records_of(index_version: int) -> RecordSchema:
    """The records of a table whose layout defines indexes of this version; 0: it defines none."""
    return RECORDS_V9 if index_version else RECORDS_V6

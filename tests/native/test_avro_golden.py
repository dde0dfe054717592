"""Rows that Apache Hudi wrote: decoded as fastavro reads them, encoded back to the same bytes."""

import json
import struct

import pyarrow as pa
import pytest

from pyhudi._native import AvroCodec
from pyhudi._native.avro.types import parse_schema
from pyhudi.formats.avro_schema import META_FIELD_NAMES
from tests.support import avro_rows
from tests.support.fixtures import fixtures

DELETE_LIST = json.dumps(
    {
        "type": "record",
        "name": "HoodieDeleteRecordList",
        "namespace": "org.apache.hudi.avro.model",
        "fields": [
            {
                "name": "deleteRecordList",
                "type": {
                    "type": "array",
                    "items": {
                        "type": "record",
                        "name": "HoodieDeleteRecord",
                        "fields": [
                            {"name": "recordKey", "type": ["null", "string"], "default": None},
                            {"name": "partitionPath", "type": ["null", "string"], "default": None},
                            {
                                "name": "orderingVal",
                                "default": None,
                                "type": [
                                    "null",
                                    *(
                                        {
                                            "type": "record",
                                            "name": f"{name}Wrapper",
                                            "fields": [{"name": "value", "type": kind}],
                                        }
                                        for name, kind in [
                                            ("Boolean", "boolean"),
                                            ("Int", "int"),
                                            ("Long", "long"),
                                        ]
                                    ),
                                ],
                            },
                        ],
                    },
                },
            }
        ],
    }
)

PAYLOADS = avro_rows.golden_payloads()


def check_framed(schema_json: str, content: bytes) -> int:
    _, count = struct.unpack_from(">ii", content)
    codec = AvroCodec(schema_json)
    batch = codec.decode_framed(memoryview(content)[8:], count)
    batch.validate(full=True)
    datums = avro_rows.unframed(content[8:])
    assert batch.to_pylist() == avro_rows.read_rows(schema_json, parse_schema(schema_json), datums)
    assert codec.encode_framed(batch) == content[8:]
    return count


def check_values(schema_json: str, values: list[bytes]) -> None:
    codec = AvroCodec(schema_json)
    column = pa.array(values, pa.binary())
    rows = codec.decode_column(column)
    rows.validate(full=True)
    assert rows.to_pylist() == avro_rows.read_rows(schema_json, parse_schema(schema_json), values)
    assert codec.encode_column(rows) == column


def test_log_blocks_decode_and_encode_back() -> None:
    counts = [
        check_framed(schema, content)
        for kind, schema, content in avro_rows.golden_log_blocks()
        if kind == avro_rows.AVRO_BLOCK and schema
    ]
    assert len(counts) == 4
    assert all(counts)


def test_log_rows_start_with_the_meta_columns() -> None:
    schema = avro_rows.golden_log_blocks()[0][1]
    assert schema is not None
    assert tuple(AvroCodec(schema).arrow_schema.names[:5]) == META_FIELD_NAMES


def test_delete_lists_decode_and_encode_back() -> None:
    codec = AvroCodec(DELETE_LIST)
    for kind, _, content in avro_rows.golden_log_blocks():
        if kind != avro_rows.DELETE_BLOCK:
            continue
        values = pa.array([content[8:]], pa.binary())
        deletes = codec.decode_column(values)
        entries = deletes.field("deleteRecordList").values
        assert entries.field("recordKey").null_count == 0
        ordering = entries.field("orderingVal")
        assert ordering.field("IntWrapper").field("value").to_pylist() == [0] * len(entries)
        assert ordering.field("LongWrapper").null_count == len(entries)
        assert codec.encode_column(deletes) == values


@pytest.mark.parametrize(("name", "schema", "values"), PAYLOADS, ids=[p[0] for p in PAYLOADS])
def test_metadata_payloads_decode_and_encode_back(
    name: str, schema: str, values: list[bytes]
) -> None:
    check_values(schema, values)


def test_files_payload_is_a_map_of_file_infos() -> None:
    _, schema, values = next(p for p in PAYLOADS if p[0].endswith("-files"))
    files = AvroCodec(schema).decode_column(pa.array(values), fields=["filesystemMetadata"])
    listing = files.field("filesystemMetadata")
    info = pa.struct(
        [pa.field("size", pa.int64(), False), pa.field("isDeleted", pa.bool_(), False)]
    )
    assert listing.type == pa.map_(pa.string(), pa.field("value", info, False))
    assert all(item["size"] >= 0 for item in listing.items.to_pylist())


def test_record_index_payload_is_a_struct_of_locations() -> None:
    _, schema, values = next(p for p in PAYLOADS if p[0].endswith("-record_index"))
    rows = AvroCodec(schema).decode_column(pa.array(values), fields=["recordIndexMetadata"])
    location = rows.field("recordIndexMetadata")
    assert location.field("partitionName").to_pylist()[0] is not None
    assert location.field("fileIdEncoding").to_pylist() == [0] * len(values)


def test_every_avro_block_of_the_fixtures_decodes() -> None:
    folder = fixtures()
    rows = 0
    files = [(p.name, p.read_bytes()) for p in folder.glob("logs/*/.*.log.*")]
    for path in [*folder.glob("golden/mor_*.zip"), *folder.glob("tables/mor_avro*.zip")]:
        files += [
            member
            for member in avro_rows.zip_members(path)
            if ".log." in member[0] and "/metadata/" not in member[0]
        ]
    for _, data in files:
        for kind, header, content in avro_rows.log_blocks(data):
            if kind == avro_rows.AVRO_BLOCK:
                rows += check_framed(header[2], content)
    assert rows > 300


@pytest.mark.parametrize(
    "table",
    [
        "golden/cow_rli.zip",
        "golden/mor_rli_avro_h120.zip",
        "tables/mor_avro_v8_trips_8i3u1d.zip",
        "tables/mor_avro_v9_txns_simple_meta.zip",
    ],
)
def test_every_metadata_value_of_a_table_decodes(table: str) -> None:
    checked = 0
    for name, data in avro_rows.zip_members(fixtures() / table):
        if "/.hoodie/metadata/" in name and b"DATABLK*" in data:
            check_values(*avro_rows.hfile_rows(data))
            checked += 1
    assert checked > 20

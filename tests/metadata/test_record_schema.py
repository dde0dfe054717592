"""The records of the metadata table: their schemas are those of Apache Hudi, per table version."""

from __future__ import annotations

import hashlib
import json
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.metadata.hfile_slices import MapSlice, ValueLayer, layers
from pyhudi.metadata.payloads import (
    COLUMN_STATS,
    PARTITION_PAYLOADS,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataPartition,
    codec,
    decode_ranges,
    transcode,
)
from pyhudi.metadata.record_index.locations import transcode_locations
from pyhudi.metadata.record_schema import RECORDS_V6, RECORDS_V9, records_of
from tests.metadata.conftest import Unzip
from tests.support.fixtures import fixtures

TABLE = "tables/mor_avro_v9_txns_simple_meta.zip"


def plain(schema: Any) -> Any:
    """An Avro schema without documentation."""
    if isinstance(schema, dict):
        return {key: plain(value) for key, value in schema.items() if key != "doc"}
    return [plain(value) for value in schema] if isinstance(schema, list) else schema


def value_layers(table: Any, partition: MetadataPartition) -> list[ValueLayer]:
    metadata = table.metadata()
    return [
        layer
        for number, file_slice in enumerate(metadata.slices(partition))
        for layer in layers(metadata.log.fs, MapSlice.of(file_slice, number, metadata.valid))
        if isinstance(layer, ValueLayer)
    ]


def test_records_of_new_versions_have_the_schema_of_apache_hudi(unzip: Unzip) -> None:
    layer, *_ = value_layers(unzip(fixtures() / TABLE), COLUMN_STATS)
    theirs = plain(json.loads(layer.schema))
    assert json.loads(RECORDS_V9.stored) == theirs
    theirs["fields"] = [f for f in theirs["fields"] if not f["name"].startswith("_hoodie_")]
    assert json.loads(RECORDS_V9.commit) == theirs


def test_records_of_version_6_are_unchanged() -> None:
    digest = hashlib.sha256(RECORDS_V6.stored.encode()).hexdigest()
    assert digest[:16] == "cbc93e1a1224af8d"
    assert hashlib.sha256(RECORDS_V6.commit.encode()).hexdigest()[:16] == "89e976e972e4f0df"


def test_the_version_of_indexes_selects_the_records() -> None:
    assert [records_of(version) for version in (0, 1, 2)] == [RECORDS_V6, RECORDS_V9, RECORDS_V9]


@pytest.mark.parametrize("partition", [COLUMN_STATS, PARTITION_STATS, RECORD_INDEX])
def test_entries_of_apache_hudi_keep_every_field_in_the_schema_of_their_version(
    partition: MetadataPartition, unzip: Unzip
) -> None:
    field, compared = PARTITION_PAYLOADS[partition.path], 0
    for layer in value_layers(unzip(fixtures() / TABLE), partition):
        for batch in layer.batches():
            values, target = batch.column(1), RECORDS_V9.stored
            if partition == RECORD_INDEX:
                ours = transcode_locations(values, layer.schema, path="p", target=target)
            else:
                ours = transcode(values, layer.schema, [field], path="p", target=target)
            before, after = (
                codec(text).decode_column(column, fields=["key", "type", field]).to_pylist()
                for text, column in ((layer.schema, values), (target, ours))
            )
            assert after == before
            compared += len(before)
    assert compared > 10


def test_entries_of_version_6_get_the_defaults_of_newer_fields() -> None:
    entry = {"fileName": "f", "columnName": "c", "isDeleted": False,
             "minValue": {"IntWrapper": {"value": 1}}}  # fmt: skip
    rows = pa.RecordBatch.from_pylist(
        [{"key": "", "type": 3, "ColumnStatsMetadata": entry}],
        pa.schema([codec(RECORDS_V6.stored).arrow_schema.field(name)
                   for name in ("key", "type", "ColumnStatsMetadata")]),
    )  # fmt: skip
    old = codec(RECORDS_V6.stored).encode_column(rows)
    new = transcode(
        old, RECORDS_V6.stored, ["ColumnStatsMetadata"], path="p", target=RECORDS_V9.stored
    )
    (found,) = decode_ranges(new, RECORDS_V9.stored, path="p").to_pylist()
    assert (found["isTightBound"], found["valueType"]) == (False, None)
    assert found["minValue"]["IntWrapper"] == {"value": 1}
    assert decode_ranges(old, RECORDS_V6.stored, path="p").to_pylist() == [found]

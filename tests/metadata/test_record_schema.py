"""The records of the metadata table: their schemas are those of Apache Hudi, per table version."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.errors import CorruptFileError
from pyhudi.metadata.hfile_slices import MapSlice, ValueLayer, layers
from pyhudi.metadata.payloads import (
    COLUMN_STATS,
    PARTITION_PAYLOADS,
    PARTITION_STATS,
    RECORD_INDEX,
    MetadataPartition,
    codec,
    decode_files,
    decode_filters,
    decode_ranges,
    encode_files,
    transcode,
)
from pyhudi.metadata.record_index.locations import (
    decode_locations,
    encode_locations,
    transcode_locations,
)
from pyhudi.metadata.record_schema import RECORDS_V6, RECORDS_V9, records_of
from pyhudi.metadata.secondary_index.lookup import ended
from pyhudi.metadata.secondary_index.records import entry_value
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


def changed(schema: Any, at: str = "") -> Iterator[Any]:
    """The schema with one name or one type changed, as a damaged byte of a file changes it."""
    match schema:
        case str() if at == "name":
            yield f"{schema}x"
        case str() if at in ("", "type", "items", "values"):
            yield "string" if schema == "long" else "long"
        case list():
            for number, part in enumerate(schema):
                for other in changed(part):
                    yield [*schema[:number], other, *schema[number + 1 :]]
        case dict():
            for key, part in schema.items():
                if key in ("name", "type", "items", "values", "fields"):
                    yield from ({**schema, key: other} for other in changed(part, key))


NEW = RECORDS_V9.stored


def encoded(field: str, **payload: Any) -> pa.Array:
    """One value with this payload."""
    known = codec(NEW).arrow_schema
    schema = pa.schema([known.field(name) for name in ("key", "type", field)])
    row = {"key": "", "type": 1, field: payload}
    return codec(NEW).encode_column(pa.RecordBatch.from_pylist([row], schema))


LISTED = encode_files({"p": {"a": 1, "b": None}}, NEW)[1]
PLACE = encode_locations(pa.array(["p"]), pa.array(["x"]), 0, NEW)
RANGE = encoded(
    "ColumnStatsMetadata", fileName="f", columnName="c", isDeleted=False, isTightBound=True,
    minValue={"LocalDateWrapper": {"value": 1}}, valueType={"typeOrdinal": 1}, valueCount=3,
)  # fmt: skip
FILTER = encoded(
    "BloomFilterMetadata", type="SIMPLE", timestamp="1", bloomFilter=b"x", isDeleted=False
)
ENTRY = pa.array([entry_value()], pa.binary())
READERS: dict[str, Callable[[str], Any]] = {
    "files": lambda schema: decode_files(LISTED, schema, path="t"),
    "locations": lambda schema: decode_locations(PLACE, schema, zone=UTC, path="t"),
    "rewritten locations": lambda schema: transcode_locations(PLACE, schema, path="t"),
    "ranges": lambda schema: decode_ranges(RANGE, schema, path="t"),
    "rewritten ranges": lambda schema: transcode(
        RANGE, schema, ["ColumnStatsMetadata"], path="t", target=RECORDS_V6.stored
    ),
    "filters": lambda schema: decode_filters(FILTER, schema, path="t"),
    "rewritten filters": lambda schema: transcode(
        FILTER, schema, ["BloomFilterMetadata"], path="t", target=RECORDS_V6.stored
    ),
    "entries of a secondary index": lambda schema: ended(ENTRY, schema, path="t"),
}


@pytest.mark.parametrize("reader", READERS)
def test_records_of_a_changed_schema_are_read_or_corrupt(reader: str) -> None:
    """A name or a type of their schema differs; no error is foreign."""
    read, outcomes = READERS[reader], Counter[str]()
    for other in changed(json.loads(NEW)):
        try:
            read(json.dumps(other))
            outcomes["read"] += 1
        except CorruptFileError:
            outcomes["corrupt"] += 1
    assert outcomes["read"] > 50 and outcomes["corrupt"] > 3, outcomes

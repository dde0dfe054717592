"""Messages of Confluent's serializers, with the schemas of a real registry, on a real broker.

$PYHUDI_KAFKA: `host:port` of the broker.  $PYHUDI_SCHEMA_REGISTRY: URL of the registry, with the
interface of Confluent's.  `make long-kafka` runs these tests.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from confluent_kafka.schema_registry import Schema, SchemaRegistryClient
from confluent_kafka.schema_registry.avro import AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

import pyhudi
from pyhudi.ingest import ErrorTable, KafkaSource, Stream
from tests.ingest.kafka.topics import Broker
from tests.ingest.message_formats.protobuf_files import framed, message_class

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
COUNT = 2_000
SCHEMA = pa.schema({"id": pa.string(), "n": pa.int64(), "note": pa.string()})
MOMENT = datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)
Serialize = Callable[[dict[str, Any], SerializationContext], bytes]

NULLABLE_TEXT = {"name": "note", "type": ["null", "string"], "default": None}
AVRO = [
    json.dumps({"type": "record", "name": "ride", "fields": [
        {"name": "id", "type": "string"}, {"name": "n", "type": number}, NULLABLE_TEXT, *more]})
    for number, more in (("int", []), ("long", [
        {"name": "stops", "default": [], "type": {"type": "array", "items": {
            "type": "record", "name": "stop", "fields": [{"name": "name", "type": "string"}]}}},
    ]))
]  # fmt: skip
JSON = [
    json.dumps({"$schema": "http://json-schema.org/draft-07/schema#", "title": "ride",
                "type": "object", "required": ["id"], "properties": {
        "id": {"type": "string"}, "n": {"type": "integer"},
        "note": {"oneOf": [{"type": "null"}, {"type": "string"}]}, **more}})
    for more in ({}, {"stops": {"type": "array", "items": {
        "type": "object", "properties": {"name": {"type": "string"}}}}})
]  # fmt: skip
PROTOBUF = [
    'syntax = "proto3"; package shop; import "google/protobuf/timestamp.proto"; '
    "message Stop { string name = 1; } "
    f"message Ride {{ string id = 1; {number} n = 2; optional string note = 3; {more} }}"
    for number, more in (
        ("int32", ""),
        ("int64", "repeated Stop stops = 4; google.protobuf.Timestamp at = 5;"),
    )
]


def avro(version: int, client: Any) -> Serialize:
    return AvroSerializer(client, AVRO[version])  # type: ignore[no-any-return]


def json_schema(version: int, client: Any) -> Serialize:
    return JSONSerializer(JSON[version], client)  # type: ignore[no-any-return]


def protobuf(version: int, client: Any) -> Serialize:
    """Registers the schema as a descriptor in base64."""
    kind = message_class(PROTOBUF[version], 1)
    serializer = ProtobufSerializer(kind, client, {"use.deprecated.format": False})
    return lambda row, context: serializer(kind(**row), context)


def protobuf_text(version: int, client: Any) -> Serialize:
    """As producers in Java register it: the text of the file."""
    kind = message_class(PROTOBUF[version], 1)

    def serialize(row: dict[str, Any], context: SerializationContext) -> bytes:
        schema = Schema(PROTOBUF[version], "PROTOBUF")
        number = client.register_schema(f"{context.topic}-value", schema)
        return framed(number, kind(**row), bytes([2, 2]))

    return serialize


@pytest.fixture(scope="module")
def real() -> Broker:
    return Broker(os.environ["PYHUDI_KAFKA"], is_real=True)


@pytest.fixture(scope="module")
def url() -> str:
    return os.environ["PYHUDI_SCHEMA_REGISTRY"]


def rows(table: Any) -> list[dict[str, Any]]:
    names = [name for name in table.schema.names if not name.startswith("_hoodie")]
    found = pyhudi.open_table(table.path).scan(names).to_arrow().to_pylist()
    return sorted(found, key=lambda row: row["id"])


@pytest.mark.parametrize(
    ("form", "made"),
    [
        pytest.param("avro", avro, id="avro"),
        pytest.param("json-schema", json_schema, id="json-schema"),
        pytest.param("protobuf", protobuf, id="protobuf"),
        pytest.param("protobuf", protobuf_text, id="protobuf-text"),
    ],
)
def test_messages_of_the_serializers_are_rows(
    tmp_path: Path, real: Broker, url: str, form: str, made: Callable[[int, Any], Serialize]
) -> None:
    """Two versions of a schema, null values, bad bytes and an unknown schema."""
    client, topic = SchemaRegistryClient({"url": url}), real.topic(2)
    context = SerializationContext(topic, MessageField.VALUE)
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", table_type="mor")
    errors = tmp_path / "errors"
    source = KafkaSource(real.servers, topic, format=form, registry=url, key_columns=["id"])
    stream = Stream(source, table, max_rows=700, bad_rows=ErrorTable(str(errors)))
    first = [{"id": f"k{n:05}", "n": n, "note": None if n % 3 else f"t{n}"} for n in range(COUNT)]
    serialize = made(0, client)
    values = [serialize(row, context) for row in first]
    real.put(topic, values[::2], partition=0)
    real.put(topic, values[1::2], partition=1)
    assert sum(report.inserted for report in stream.available()) == COUNT
    assert rows(table) == first

    serialize = made(1, client)
    changed = [{"id": f"k{n:05}", "n": 1 << 40, "note": "new", "stops": [{"name": f"s{n}"}]}
               for n in range(100)]  # fmt: skip
    later = [{**row, "at": MOMENT} if form == "protobuf" else row for row in changed]
    good = [serialize(row, context) for row in later]
    real.put(topic, [*good, good[0][:-1], b"\0\0\0\xff\xff\0", b"text"], partition=0)
    real.put(topic, [None], partition=1, key="k00150")
    assert sum(report.rejected for report in stream.available()) == 3
    empty = {"stops": None, **({"at": None} if form == "protobuf" else {})}
    expected = [*later, *({**row, **empty} for row in first[100:150]),
                *({**row, **empty} for row in first[151:])]  # fmt: skip
    assert rows(table) == expected
    failed = pyhudi.open_table(errors).scan().to_arrow().to_pylist()
    places = {row["position"]: row["reason"] for row in failed}
    assert sorted(places) == [f"{topic},0:{1100 + n}" for n in range(3)]
    assert "no such schema" in places[f"{topic},0:1101"]

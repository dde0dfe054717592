"""Topics whose messages name schemas of a registry, read into tables."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import Any

import fastavro
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import BadRowsError, OptionError, StorageError
from pyhudi.ingest import ErrorTable, IngestStatus, KafkaSource, Retries, SourceLimits, Stream
from pyhudi.ingest.source_registry import source_from
from pyhudi.ingest.streamer.classes import source_class
from tests.ingest.kafka.topics import Broker
from tests.ingest.message_formats.protobuf_files import framed, message_class
from tests.ingest.registries import Registry

SCHEMA = pa.schema({"id": pa.string(), "n": pa.int64()})
AVRO = [
    json.dumps({"type": "record", "name": "r", "fields": [
        {"name": "id", "type": "string"}, {"name": "n", "type": ["null", "long"]}, *more]})
    for more in ([], [{"name": "city", "type": ["null", "string"]}])
]  # fmt: skip
JSON = [
    json.dumps({"type": "object", "properties": {
        "id": {"type": "string"}, "n": {"type": ["null", "integer"]}, **more}})
    for more in ({}, {"city": {"type": "string"}})
]  # fmt: skip
PROTOBUF = [
    f'syntax = "proto3"; message R {{ string id = 1; optional int64 n = 2; {more} }}'
    for more in ("", "optional string city = 3;")
]


def avro(number: int, row: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, json.loads(AVRO[number - 1]), row)
    return struct.pack(">bI", 0, number) + out.getvalue()


def json_schema(number: int, row: dict[str, Any]) -> bytes:
    return struct.pack(">bI", 0, number) + json.dumps(row).encode()


def protobuf(number: int, row: dict[str, Any]) -> bytes:
    return framed(number, message_class(PROTOBUF[number - 1])(**row))


FORMATS = [
    pytest.param("avro", AVRO, avro, id="avro"),
    pytest.param("json-schema", JSON, json_schema, id="json-schema"),
    pytest.param("protobuf", PROTOBUF, protobuf, id="protobuf"),
]
KINDS = {"avro": "AVRO", "json-schema": "JSON", "protobuf": "PROTOBUF"}
Message = Callable[[int, dict[str, Any]], bytes]


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry().running() as found:
        yield found


def table_at(path: Path) -> Any:
    return pyhudi.create_table(path, SCHEMA, record_key="id")


def rows(table: Any) -> list[dict[str, Any]]:
    names = [name for name in ("id", "n", "city") if name in table.schema.names]
    found = table.scan(names).to_arrow().to_pylist()
    return sorted(found, key=lambda row: str(row["id"]))


@pytest.mark.parametrize(("form", "schemas", "message"), FORMATS)
def test_evolution_nulls_and_bad_bytes(
    tmp_path: Path, broker: Broker, registry: Registry, form: str, schemas: Any, message: Message
) -> None:
    def put(*values: bytes | None) -> None:
        broker.put(topic, values, partition=0, key="a")

    topic, table, errors = broker.topic(), table_at(tmp_path / "t"), tmp_path / "errors"
    registry.add(1, schemas[0], KINDS[form])
    source = KafkaSource(
        broker.servers, topic, format=form, registry=registry.url, key_columns=["id"]
    )
    stream = Stream(source, table, bad_rows=ErrorTable(str(errors)))
    put(message(1, {"id": "a", "n": 1}), message(1, {"id": "b", "n": None}))
    assert stream.run_once() is not None
    assert rows(table) == [{"id": "a", "n": 1}, {"id": "b", "n": None}]
    registry.add(2, schemas[1], KINDS[form])
    good = message(2, {"id": "c", "n": 3, "city": "sf"})
    put(message(1, {"id": "d", "n": 4}), good, good[:-1], b"\0\0\0\0\7\0", b"text", None)
    report = stream.run_once()
    assert report is not None and report.rejected == 3
    assert rows(table) == [
        {"id": "b", "n": None, "city": None},
        {"id": "c", "n": 3, "city": "sf"},
        {"id": "d", "n": 4, "city": None},
    ]
    failed = pyhudi.open_table(errors).scan().to_arrow().to_pylist()
    by_place = {row["position"]: row for row in failed}
    assert sorted(by_place) == [f"{topic},0:{offset}" for offset in (4, 5, 6)]
    assert by_place[f"{topic},0:6"]["raw"] == b"text"
    assert "no such schema" in by_place[f"{topic},0:5"]["reason"]


def test_fields_of_structs_that_a_schema_lacks_are_null_in_any_batch(
    tmp_path: Path, broker: Broker, registry: Registry
) -> None:
    """Alone, and beside messages of the newer schema."""
    topic = broker.topic()
    schemas = []
    for number, names in enumerate((["x"], ["x", "y"]), 1):
        fields = [{"name": name, "type": ["null", "long"]} for name in names]
        at = {"type": "record", "name": "at", "fields": fields}
        columns = [{"name": "id", "type": "string"}, {"name": "at", "type": at}]
        schemas.append({"type": "record", "name": "r", "fields": columns})
        registry.add(number, json.dumps(schemas[-1]), "AVRO")
    table = table_at(tmp_path / "t")
    for numbers in ((2,), (1,), (1, 2)):
        for number in numbers:
            out, row = io.BytesIO(), {"id": f"k{numbers}{number}", "at": {"x": 1, "y": 2}}
            fastavro.schemaless_writer(out, schemas[number - 1], row)
            broker.put(topic, [struct.pack(">bI", 0, number) + out.getvalue()], partition=0)
        source = KafkaSource(broker.servers, topic, format="avro", registry=registry.url)
        Stream(source, table).run_once()
    found = table.scan(["id", "at"]).to_arrow().to_pylist()
    assert {row["id"]: row["at"] for row in found} == {
        "k(2,)2": {"x": 1, "y": 2}, "k(1,)1": {"x": 1, "y": None},
        "k(1, 2)1": {"x": 1, "y": None}, "k(1, 2)2": {"x": 1, "y": 2},
    }  # fmt: skip


@pytest.mark.parametrize(("form", "schemas", "message"), FORMATS)
def test_a_bad_message_stops_an_ingest_that_allows_none(
    tmp_path: Path, broker: Broker, registry: Registry, form: str, schemas: Any, message: Message
) -> None:
    topic, table = broker.topic(), table_at(tmp_path / "t")
    registry.add(1, schemas[0], KINDS[form])
    broker.put(topic, [message(1, {"id": "a", "n": 1}), b"\0\0\0\0\7\0"], partition=0)
    source = KafkaSource(broker.servers, topic, format=form, registry=registry.url)
    with pytest.raises(BadRowsError, match=rf"{topic},0:1.*no such schema"):
        Stream(source, table).run_once()
    assert (rows(table), table.checkpoint()) == ([], None)


@pytest.mark.parametrize(("form", "schemas", "message"), FORMATS)
def test_a_registry_that_is_down_is_waited_for(
    tmp_path: Path, broker: Broker, form: str, schemas: Any, message: Message
) -> None:
    """A server that is closed, and opened again while the stream retries."""
    topic, table, registry = broker.topic(), table_at(tmp_path / "t"), Registry()
    registry.add(1, schemas[0], KINDS[form])
    broker.put(topic, [message(1, {"id": f"k{n}", "n": n}) for n in range(8)])
    with registry.running():
        pass
    stream = Stream(KafkaSource(broker.servers, topic, format=form, registry=registry.url), table)
    with pytest.raises(StorageError, match="the schema registry does not answer") as caught:
        stream.run_once()
    assert "\n" not in str(caught.value)
    assert (rows(table), table.checkpoint()) == ([], None)
    errors: list[str] = []
    with ExitStack() as opened:

        def on_status(state: IngestStatus) -> None:
            errors.extend([state.error] if state.error else [])
            if state.failures == 2:
                opened.enter_context(registry.running())

        stream.run(retries=Retries(5, first_seconds=0.05), on_status=on_status)
    assert [row["n"] for row in rows(table)] == list(range(8))
    assert len(errors) == 2
    assert all("the schema registry does not answer" in error for error in errors)


CLASSES = [
    ("AvroKafkaSource", {}, "avro", AVRO, avro),
    ("JsonKafkaSource",
     {"source.kafka.value.deserializer.class":
      "io.confluent.kafka.serializers.json.KafkaJsonSchemaDeserializer"},
     "json-schema", JSON, json_schema),
    ("ProtoKafkaSource", {}, "protobuf", PROTOBUF, protobuf),
    ("ProtoKafkaSource",
     {"source.kafka.proto.value.deserializer.class":
      "io.confluent.kafka.serializers.protobuf.KafkaProtobufDeserializer",
      "schemaprovider.proto.flatten.wrappers": "true"},
     "protobuf", PROTOBUF, protobuf),
]  # fmt: skip


@pytest.mark.parametrize(("name", "stated", "form", "schemas", "message"), CLASSES)
def test_classes_of_the_streamer_make_the_source(
    broker: Broker, registry: Registry, name: str, stated: dict[str, str], form: str,
    schemas: Any, message: Message,
) -> None:  # fmt: skip
    topic = broker.topic()
    registry.add(1, schemas[0], KINDS[form])
    broker.put(topic, [message(1, {"id": "a", "n": 1})])
    properties = {
        "bootstrap.servers": broker.servers, "source.kafka.topic": topic,
        "schema.registry.url": registry.url, "auto.offset.reset": "earliest", **stated,
        **source_class(f"org.apache.hudi.utilities.sources.{name}").implied,
    }  # fmt: skip
    batch = source_from("kafka", properties).read(None, SourceLimits(None, None), SCHEMA)
    assert batch is not None
    assert batch.rows.read_all().to_pylist() == [{"id": "a", "n": 1}]


@pytest.mark.parametrize(
    "stated",
    [
        {},
        {"source.kafka.proto.value.deserializer.class": "org.example.Mine"},
        {"source.kafka.proto.value.deserializer.class": "ByteArrayDeserializer"},
        {"pyhudi.ingest.proto.descriptors": "rides.desc"},
    ],
)
def test_protobuf_needs_a_registry_or_descriptors(stated: dict[str, str]) -> None:
    base = {"bootstrap.servers": "h:1", "source.kafka.topic": "t", "format": "protobuf"}
    with pytest.raises(OptionError):
        source_from("kafka", {**base, **stated})


@pytest.mark.parametrize("form", ["avro", "json-schema", "protobuf"])
def test_formats_of_a_registry_need_its_address(form: str) -> None:
    with pytest.raises(OptionError):
        KafkaSource("h:1", "t", format=form)

"""Topics in formats of other programs, read into tables."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.ingest import KafkaSource, SourceLimits, Stream
from pyhudi.ingest.source_registry import source_from
from pyhudi.ingest.streamer.classes import source_class
from tests.ingest.kafka.topics import Broker
from tests.ingest.message_formats.changes import MYSQL, POSTGRESQL, change, dms_message, wrapped

POSITION = {
    "PostgresDebeziumAvroPayload": [("_event_lsn", pa.int64())],
    "MySqlDebeziumAvroPayload": [
        ("_event_bin_file", pa.string()), ("_event_pos", pa.int64()), ("_event_seq", pa.string()),
    ],
}  # fmt: skip


def made(folder: Path, payload: str, version: int) -> Any:
    columns = [("id", pa.int64()), ("n", pa.int64()), ("_change_operation_type", pa.string())]
    return pyhudi.create_table(
        folder, pa.schema([*columns, *POSITION[payload]]), record_key="id", table_type="mor",
        version=version, options={"hoodie.datasource.write.payload.class": payload},
    )  # fmt: skip


def rows(table: Any) -> list[dict[str, Any]]:
    return sorted(table.scan(["id", "n"]).to_arrow().to_pylist(), key=lambda row: row["id"])


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize(
    ("payload", "origin", "position"),
    [
        ("PostgresDebeziumAvroPayload", POSTGRESQL, "lsn"),
        ("MySqlDebeziumAvroPayload", MYSQL, "pos"),
    ],
)
def test_changes_of_debezium_are_merged_by_their_position(
    tmp_path: Path, broker: Broker, version: int, payload: str, origin: Any, position: str
) -> None:
    def put(*values: bytes | None) -> None:
        broker.put(topic, values, partition=0)

    def message(op: str, before: Any, after: Any, place: int) -> bytes:
        return wrapped(change(op, before, after, origin, **{position: place}))

    topic = broker.topic()
    table = made(tmp_path / "t", payload, version)
    stream = Stream(KafkaSource(broker.servers, topic, format="debezium"), table)
    put(*(message("c", None, {"id": n, "n": 10 * n}, 100 + n) for n in range(4)))
    assert stream.run_once() is not None
    put(
        message("u", None, {"id": 1, "n": 11}, 201), message("u", None, {"id": 2, "n": 0}, 50),
        message("d", {"id": 3, "n": None}, None, 203), None,
    )  # fmt: skip
    assert stream.run_once() is not None
    assert rows(table) == [{"id": 0, "n": 0}, {"id": 1, "n": 11}, {"id": 2, "n": 20}]


@pytest.mark.parametrize("name", ["PostgresDebeziumSource", "MysqlDebeziumSource"])
def test_the_classes_of_debezium_make_a_source_of_changes(broker: Broker, name: str) -> None:
    topic = broker.topic()
    broker.put(topic, [json.dumps(change("c", None, {"id": 1})).encode(), None])
    found = source_class(f"org.apache.hudi.utilities.sources.debezium.{name}")
    properties = {
        "bootstrap.servers": broker.servers, "source.kafka.topic": topic,
        "auto.offset.reset": "earliest", **found.implied,
    }  # fmt: skip
    batch = source_from(found.name, properties).read(None, SourceLimits(None, None), pa.schema([]))
    assert batch is not None
    assert batch.rows.read_all()["_event_lsn"].to_pylist() == [24_023_128]


def test_changes_of_dms_are_merged_in_their_order(tmp_path: Path, broker: Broker) -> None:
    columns = [("id", pa.int64()), ("n", pa.int64()), ("Op", pa.string())]
    table = pyhudi.create_table(
        tmp_path / "t", pa.schema(columns), record_key="id",
        options={"hoodie.datasource.write.payload.class": "AWSDmsAvroPayload"},
    )  # fmt: skip
    topic = broker.topic()
    stream = Stream(KafkaSource(broker.servers, topic, format="dms"), table)
    for operation, changed in [
        ("load", [(1, 10), (2, 20), (3, 30)]), ("update", [(1, 11), (1, 12)]), ("delete", [(2, 0)]),
    ]:  # fmt: skip
        values = [dms_message(operation, {"id": key, "n": n}) for key, n in changed]
        broker.put(topic, [json.dumps(value).encode() for value in values], partition=0)
        assert stream.run_once() is not None
    assert rows(table) == [{"id": 1, "n": 12}, {"id": 3, "n": 30}]

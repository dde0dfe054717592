"""Changes of Debezium become rows with the columns of Apache Hudi's sources."""

from __future__ import annotations

import io
import json
from datetime import UTC, date, datetime
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pyhudi.ingest import AvroFormat, DebeziumFormat, JsonFormat
from tests.ingest.message_formats.changes import MYSQL, POSTGRESQL, change, wrapped

NO_COLUMNS = pa.schema([])


def decoded(values: list[Any], schema: pa.Schema = NO_COLUMNS, form: Any = None) -> Any:
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return (form or DebeziumFormat()).decoder(schema).decode(pa.array(texts, pa.binary()))


def test_a_change_in_postgresql_has_the_columns_of_its_source() -> None:
    found = decoded([change("c", None, {"id": 1, "city": "sf"}, xmin=7)])
    assert not found.failures
    assert found.rows.to_pylist() == [
        {
            "_change_operation_type": "c",
            "_upstream_event_processed_ts_ms": 1_700_000_000_123,
            "db_shard_source_partition": "shop",
            "_event_origin_ts_ms": 1_700_000_000_000,
            "_event_tx_id": 555,
            "_event_lsn": 24_023_128,
            "_event_xmin": 7,
            "id": 1,
            "city": "sf",
        }
    ]


@pytest.mark.parametrize("connector", ["mysql", "mariadb"])
def test_a_change_in_mysql_has_a_sequence(connector: str) -> None:
    found = decoded([change("u", {"id": 1}, {"id": 1, "n": 2}, MYSQL, connector=connector)])
    assert found.rows.to_pylist() == [
        {
            "_change_operation_type": "u",
            "_upstream_event_processed_ts_ms": 1_700_000_000_123,
            "db_shard_source_partition": "shop",
            "_event_origin_ts_ms": 1_700_000_000_000,
            "_event_bin_file": "mysql-bin.000003",
            "_event_pos": 484,
            "_event_row": 0,
            "_event_seq": "000003.484",
            "id": 1,
            "n": 2,
        }
    ]


def test_deletes_are_rows_of_the_image_before() -> None:
    values = [
        change("r", None, {"id": 1, "n": 10}),
        change("d", {"id": 1, "n": None}, None),
        change("u", {"id": 2, "n": 5}, {"id": 2, "n": 6}),
    ]
    found = decoded(values)
    rows = found.rows.select(["_change_operation_type", "id", "n"]).to_pylist()
    assert [tuple(row.values()) for row in rows] == [("r", 1, 10), ("d", 1, None), ("u", 2, 6)]
    assert found.places.tolist() == [0, 1, 2]


def test_the_wrapper_of_connect_is_taken_off() -> None:
    values: list[Any] = [
        wrapped(change("c", None, {"id": 1})),
        change("c", None, {"id": 2}),
        wrapped(None),
        wrapped(change("c", None, {"id": 3, "payload": "x"}), {"type": "struct", "version": 2}),
        {"payload": change("c", None, {"id": 4}), "schema": None},
        wrapped(change("c", None, {"id": 5, "payload": None})),
        wrapped(change("c", None, {"id": 6}))[:-3],
        b'{"schema":{"payload":',
    ]
    found = decoded(values)
    assert found.rows["id"].to_pylist() == [1, 2, 3, 4, 5]
    assert found.rows["payload"].to_pylist() == [None, None, "x", None, None]
    assert found.places.tolist() == [0, 1, 3, 4, 5]
    assert [failure.place for failure in found.failures] == [6, 7]


def test_wrapped_messages_with_spaces_are_read() -> None:
    values = [
        {"schema": {"type": "struct"}, "payload": change("c", None, {"id": n})} for n in range(20)
    ]
    assert decoded(values).rows["id"].to_pylist() == list(range(20))


def test_messages_that_are_no_changes_fail_alone() -> None:
    good = change("c", None, {"id": 1})
    values: list[Any] = [
        good,
        b"{bad",
        {"id": 1},
        change("t", None, None),
        change("d", None, None),
        change("c", None, None),
        change("c", None, {"id": 1}, connector="mongodb"),
        {**good, "op": None},
        [good],
        good,
    ]
    found = decoded(values)
    assert found.places.tolist() == [0, 9]
    reasons = {failure.place: failure.reason for failure in found.failures}
    assert list(reasons) == list(range(1, 9))
    assert "op is 't'" in reasons[3]
    assert "REPLICA IDENTITY" in reasons[4]
    assert "no after image" in reasons[5]
    assert "mongodb" in reasons[6]


def test_only_bad_messages_are_all_failures() -> None:
    found = decoded([b"x", change("d", None, None), wrapped({"id": 1})])
    assert found.rows.num_rows == 0
    assert [failure.place for failure in found.failures] == [0, 1, 2]


def test_columns_of_the_table_type_the_images() -> None:
    schema = pa.schema(
        [("id", pa.int32()), ("at", pa.timestamp("us", "UTC")), ("day", pa.date32()),
         ("_event_lsn", pa.int64())]
    )  # fmt: skip
    image = {"id": 1, "at": "2024-01-02T03:04:05Z", "day": 19724}
    found = decoded([change("c", None, image), change("d", {"id": 2}, None)], schema)
    assert found.rows.schema.field("id").type == pa.int32()
    assert found.rows["at"].to_pylist() == [datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC), None]
    assert found.rows["day"].to_pylist() == [date(2024, 1, 2), None]
    assert found.rows["_event_lsn"].to_pylist() == [24_023_128] * 2


def test_a_value_that_does_not_fit_its_column_fails_alone() -> None:
    values = [change("c", None, {"id": n}) for n in (1, "two", 3)]
    found = decoded(values, pa.schema([("id", pa.int64())]))
    assert found.rows["id"].to_pylist() == [1, 3]
    assert [failure.place for failure in found.failures] == [1]


def test_new_columns_evolve_and_their_text_stays_text() -> None:
    schema = pa.schema([("id", pa.int64())])
    decoder = DebeziumFormat().decoder(schema)
    parts = [
        [change("c", None, {"id": 1, "at": "2024-01-02 03:04:05", "n": 1})],
        [change("u", {"id": 1, "at": None}, {"id": 1, "at": "noon", "n": 2.5, "m": [1]})],
        [change("u", None, {"id": 1, "n": "text"})],
    ]
    found = [
        decoder.decode(pa.array([json.dumps(value) for value in part], pa.binary()))
        for part in parts
    ]
    rows = [part.rows.select(["id", "at", "n"]).to_pylist() for part in found[:2]]
    assert rows == [
        [{"id": 1, "at": "2024-01-02 03:04:05", "n": 1}],
        [{"id": 1, "at": "noon", "n": 2.5}],
    ]
    assert [failure.place for failure in found[2].failures] == [0]


def test_a_change_whose_image_has_another_type_fails_alone() -> None:
    values = [
        change("c", None, {"id": 1, "n": "x"}),
        change("d", {"id": 1, "n": {"x": 1}}, None),
    ]
    found = decoded(values)
    ((place, reason),) = [(failure.place, failure.reason) for failure in found.failures]
    assert (found.rows["id"].to_pylist(), found.places.tolist()) == ([1], [1 - place])
    assert reason.startswith("column n: not a value of type")


def test_fields_beyond_a_stated_schema_are_dropped() -> None:
    form = DebeziumFormat(JsonFormat(schema=pa.schema([("id", pa.int64())])))
    found = decoded([change("c", None, {"id": 1, "x": {"y": 1}})], form=form)
    assert "x" not in found.rows.schema.names
    assert found.rows["id"].to_pylist() == [1]
    assert found.rows["_event_lsn"].to_pylist() == [24_023_128]


def source_fields(source: dict[str, Any]) -> list[dict[str, Any]]:
    numbers = {"ts_ms": "long", "txId": "long", "lsn": "long", "xmin": "long", "pos": "long",
               "server_id": "long", "thread": "long", "row": "int"}  # fmt: skip
    return [
        {"name": name, "type": ["null", numbers.get(name, "string")], "default": None}
        for name in source
    ]


def envelope(source: dict[str, Any], *more: dict[str, Any]) -> dict[str, Any]:
    """The schema that Debezium registers."""
    day = {"type": "int", "connect.version": 1, "connect.name": "io.debezium.time.Date"}
    value = {"type": "record", "name": "Value", "namespace": "shop.trips", "fields": [
        {"name": "id", "type": "int"},
        {"name": "day", "type": ["null", day], "default": None}, *more]}  # fmt: skip
    origin = {"type": "record", "name": "Source", "namespace": "io.debezium.connector",
              "fields": source_fields(source)}  # fmt: skip
    return {"type": "record", "name": "Envelope", "namespace": "shop.trips", "fields": [
        {"name": "before", "type": ["null", value], "default": None},
        {"name": "after", "type": ["null", "Value"], "default": None},
        {"name": "source", "type": origin},
        {"name": "op", "type": "string"},
        {"name": "ts_ms", "type": ["null", "long"], "default": None}]}  # fmt: skip


def datum(value: dict[str, Any], schema: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, fastavro.parse_schema(schema), value)
    return out.getvalue()


@pytest.mark.parametrize("source", [POSTGRESQL, MYSQL])
def test_avro_changes_are_flattened_and_their_days_are_dates(source: dict[str, Any]) -> None:
    schema = envelope(source)
    values = [
        datum(change("c", None, {"id": 1, "day": 19724}, source), schema),
        datum(change("d", {"id": 1, "day": None}, None, source), schema),
        b"\xff",
        datum(change("d", None, None, source), schema),
    ]
    found = decoded(values, form=DebeziumFormat(AvroFormat(schema=json.dumps(schema))))
    assert found.rows["id"].to_pylist() == [1, 1]
    assert found.rows["day"].to_pylist() == [date(2024, 1, 2), None]
    assert found.rows["_change_operation_type"].to_pylist() == ["c", "d"]
    expected = {
        column: kind
        for column, kind in zip(found.rows.schema.names, found.rows.schema.types, strict=True)
        if column.startswith("_event")
    }
    if source is MYSQL:
        assert found.rows["_event_seq"].to_pylist() == ["000003.484"] * 2
        assert expected["_event_row"] == pa.int32()
    else:
        assert found.rows["_event_lsn"].to_pylist() == [24_023_128] * 2
        assert expected["_event_xmin"] == pa.int64()
    assert [failure.place for failure in found.failures] == [2, 3]

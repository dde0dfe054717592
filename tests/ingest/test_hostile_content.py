"""No content of a message or line ends an ingest: each is a row or a bad row, exactly once."""

from __future__ import annotations

import json
import random
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import BadRowsError
from pyhudi.ingest import (
    AvroFormat,
    DebeziumFormat,
    DmsFormat,
    ErrorTable,
    JsonFormat,
    JsonSchemaFormat,
    ProtobufFormat,
    Stream,
)
from tests.ingest.hostile import OFFSET, SCHEMA, Messages, expected_rows, json_texts
from tests.ingest.message_formats.changes import change, dms_message
from tests.ingest.message_formats.protobuf_files import framed, message_class
from tests.ingest.message_formats.test_avro_messages import encoded
from tests.ingest.registries import Registry

SHORT = [(seed, 300) for seed in range(2)]
LONG = [pytest.param(seed, 2500, marks=pytest.mark.slow) for seed in range(100, 104)]
SIZES = pytest.mark.parametrize(("seed", "count"), [*SHORT, *LONG])
GOOD = b'{"id":"good","n":1}'


def stored(path: Path) -> dict[int, dict[str, Any]]:
    """Rows by offset; times as microseconds."""
    rows = pyhudi.open_table(path).scan(with_meta=False).to_arrow()
    for number, column in enumerate(rows.schema):
        if pa.types.is_timestamp(column.type):
            rows = rows.set_column(number, column.name, rows[column.name].cast(pa.int64()))
    return {row.pop(OFFSET): row for row in rows.to_pylist()}


def equal_nan(row: dict[str, Any]) -> dict[str, Any]:
    """The row with a text for NaN, which no value is equal to."""
    return {name: "NaN" if value != value else value for name, value in row.items()}


def rejected(path: Path) -> dict[int, bytes]:
    rows = pyhudi.open_table(path).scan(["position", "raw"]).to_arrow().to_pylist()
    found = {int(row["position"].removeprefix("t,0:")): row["raw"] for row in rows}
    assert len(found) == len(rows)
    return found


def ingested(
    tmp_path: Path, form: Any, texts: list[bytes], good: list[bytes], schema: pa.Schema
) -> tuple[dict[int, dict[str, Any]], set[int]]:
    """The rows and the offsets of the rejected messages; the other treatments agree with them."""
    for name in ("fail", "skip", "table"):
        pyhudi.create_table(tmp_path / name, schema, record_key="id")
    errors = ErrorTable(str(tmp_path / "errors"))
    source = Messages(form, [texts, good])
    reports = list(
        Stream(source, pyhudi.open_table(tmp_path / "table"), "insert", bad_rows=errors).available()
    )
    assert len(reports) == 2 and reports[1].rejected == 0 and reports[1].inserted == len(good)
    raws = rejected(tmp_path / "errors") if reports[0].rejected else {}
    bad = set(raws)
    assert len(bad) == len(raws) == reports[0].rejected
    skipping = Stream(source, pyhudi.open_table(tmp_path / "skip"), "insert", bad_rows="skip")
    assert [r.rejected for r in skipping.available()] == [len(bad), 0]
    rows = stored(tmp_path / "table")
    assert str(stored(tmp_path / "skip")) == str(rows)
    failing = Stream(source, pyhudi.open_table(tmp_path / "fail"), "insert")
    if bad:
        with pytest.raises(BadRowsError, match="positions=") as error:
            failing.run_once()
        assert "bad_rows=" in str(error.value) and "reason=" in str(error.value)
        assert pyhudi.open_table(tmp_path / "fail").checkpoint() is None
    else:
        assert failing.run_once() is not None
    return {n: row for n, row in rows.items() if n < len(texts)}, bad


@SIZES
def test_json_messages_are_rows_or_bad_rows(tmp_path: Path, seed: int, count: int) -> None:
    texts = list(json_texts(random.Random(seed), count))
    rows, bad = ingested(tmp_path, JsonFormat(), texts, [GOOD], SCHEMA)
    expected = expected_rows(texts)
    assert bad == set(range(len(texts))) - expected.keys()
    for offset, row in expected.items():
        found = {name: rows[offset].get(name) for name in row}
        assert equal_nan(found) == equal_nan(row), texts[offset]
    assert rows.keys() == expected.keys()


@SIZES
def test_json_of_a_new_table_is_rows_or_bad_rows(tmp_path: Path, seed: int, count: int) -> None:
    texts = list(json_texts(random.Random(seed), count))
    schema = pa.schema({"id": pa.string()})
    rows, bad = ingested(tmp_path, JsonFormat(), texts, [b'{"id":"good"}'], schema)
    assert sorted([*rows, *bad]) == list(range(len(texts)))


def changed(draw: random.Random, text: bytes) -> bytes:
    """Some bytes lost, added or different."""
    for _ in range(draw.choice([0, 0, 1, 1, 3])):
        at = draw.randrange(len(text) + 1)
        text = text[:at] + draw.randbytes(draw.randrange(3)) + text[at + draw.randrange(3) :]
    return text[: draw.randrange(len(text) + 1)] if draw.random() < 0.1 else text


def check_binary(
    tmp_path: Path, form: Any, made: Callable[[int], tuple[bytes, dict[str, Any]]],
    seed: int, count: int, schema: pa.Schema,
) -> None:  # fmt: skip
    """Messages that were not changed are rows; the others rows or bad rows."""
    draw = random.Random(seed)
    values = [made(number) for number in range(count)]
    texts = [changed(draw, text) for text, _ in values]
    rows, bad = ingested(tmp_path, form, texts, [made(count)[0]], schema)
    sound = {n for n in range(count) if texts[n] == values[n][0]}
    assert not sound & bad and len(sound) > count // 4
    for offset in sound:
        expected = values[offset][1]
        assert {name: rows[offset][name] for name in expected} == expected
    assert sorted([*rows, *bad]) == list(range(count))


TRIP = {"type": "record", "name": "trip", "fields": [
    {"name": "id", "type": "string"}, {"name": "n", "type": ["null", "long"]},
    {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
    {"name": "f", "type": "double"}]}  # fmt: skip
TRIP_TABLE = pa.schema(
    {"id": pa.string(), "n": pa.int64(), "at": pa.timestamp("us", "UTC"), "f": pa.float64()}
)


@SIZES
def test_avro_messages_are_rows_or_bad_rows(tmp_path: Path, seed: int, count: int) -> None:
    def made(number: int) -> tuple[bytes, dict[str, Any]]:
        row = {"id": f"key-{number:06}", "n": number, "f": 0.5}
        return encoded({**row, "at": number}, TRIP), {**row, "at": number * 1000}

    check_binary(tmp_path, AvroFormat(schema=json.dumps(TRIP)), made, seed, count, TRIP_TABLE)


@SIZES
def test_registered_avro_is_rows_or_bad_rows(tmp_path: Path, seed: int, count: int) -> None:
    """With a schema whose column has another type, and one that cannot be read."""
    other = {**TRIP, "fields": [TRIP["fields"][0], {"name": "n", "type": "string"}]}
    recursive = {"type": "record", "name": "a", "fields": [{"name": "a", "type": ["null", "a"]}]}

    def made(number: int) -> tuple[bytes, dict[str, Any]]:
        row = {"id": f"key-{number:06}", "n": number, "f": 0.5}
        if number % 7 == 3:
            body = encoded({"id": row["id"], "n": str(number)}, other)
            return struct.pack(">bI", 0, 2) + body, {"id": row["id"], "n": number}
        return struct.pack(">bI", 0, 1) + encoded({**row, "at": number}, TRIP), row

    with Registry().running() as registry:
        registry.add(1, json.dumps(TRIP))
        registry.add(2, json.dumps(other))
        registry.add(3, json.dumps(recursive))
        check_binary(tmp_path, AvroFormat(registry.url), made, seed, count, TRIP_TABLE)


@SIZES
def test_protobuf_messages_are_rows_or_bad_rows(tmp_path: Path, seed: int, count: int) -> None:
    text = 'syntax = "proto3"; message Ride { string id = 1; int64 n = 2; repeated string l = 3; }'
    kind = message_class(text)
    schema = pa.schema({"id": pa.string(), "n": pa.int64(), "l": pa.list_(pa.string())})

    def made(number: int) -> tuple[bytes, dict[str, Any]]:
        row: dict[str, Any] = {"id": f"key-{number:06}", "n": number, "l": ["x"]}
        return framed(1, kind(**row)), row

    with Registry().running() as registry:
        registry.add(1, text, "PROTOBUF")
        check_binary(tmp_path, ProtobufFormat(registry.url), made, seed, count, schema)


@SIZES
def test_json_schema_messages_are_rows_or_bad_rows(tmp_path: Path, seed: int, count: int) -> None:
    text = {"type": "object", "properties": {
        "id": {"type": "string"}, "n": {"type": "integer"}, "f": {"type": "number"},
        "s": {"type": "object", "properties": {"a": {"type": "integer"}, "e": {}}},
        "new": {}}}  # fmt: skip
    schema = pa.schema([field for field in SCHEMA if field.name in ("id", "n", "f")])
    texts = [struct.pack(">bI", 0, 1) + t for t in json_texts(random.Random(seed), count)]
    with Registry().running() as registry:
        registry.add(1, json.dumps(text), "JSON")
        good = [struct.pack(">bI", 0, 1) + GOOD]
        rows, bad = ingested(tmp_path, JsonSchemaFormat(registry.url), texts, good, schema)
    assert sorted([*rows, *bad]) == list(range(len(texts)))


@SIZES
@pytest.mark.parametrize("kind", ["debezium", "dms"])
def test_changes_are_rows_or_bad_rows(tmp_path: Path, kind: str, seed: int, count: int) -> None:
    draw = random.Random(seed)
    schema = pa.schema([*SCHEMA, ("_event_lsn", pa.int64())]) if kind == "debezium" else SCHEMA

    def wrapped(image: str) -> bytes:
        if kind == "dms":
            text = json.dumps(dms_message(draw.choice(["insert", "load", "none"]), "?"))
        else:
            op = draw.choice(["c", "r", "u", "d", "t"])
            both = ("?", None) if op == "d" else (None, "?")
            lsn = draw.choice([5, 5, 5, "x", 1 << 70, None, 0.5])
            text = json.dumps(change(op, *both, lsn=lsn))
        return text.replace('"?"', image).encode()

    images = [text.decode("utf-8", "replace") for text in json_texts(draw, count)]
    texts = [changed(draw, wrapped(image)) for image in images]
    good = [json.dumps(change("c", None, {"id": "good"})).encode()]
    if kind == "dms":
        good = [json.dumps(dms_message("insert", {"id": "good"})).encode()]
    form = DebeziumFormat() if kind == "debezium" else DmsFormat()
    rows, bad = ingested(tmp_path, form, texts, good, schema)
    known = {*rows, *bad}
    silent = set(range(count)) - known
    assert not rows.keys() & bad
    assert not silent  # there are no control messages or tombstones

"""Messages in JSON Schema become columns, with the types of their schemas."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.errors import CorruptFileError, OptionError, StorageError
from pyhudi.ingest import JsonSchemaFormat
from pyhudi.ingest.message_formats.json_schema_types import columns_of_json_schema
from pyhudi.ingest.message_formats.schema_registry import RegisteredSchema
from tests.ingest.registries import Registry

NO_COLUMNS = pa.schema([])
FIRST = {"type": "object", "properties": {"id": {"type": "string"}, "ts": {"type": "integer"}}}
SECOND = {"type": "object", "required": ["id"], "properties": {
    "id": {"type": "string"}, "ts": {"type": "number"},
    "city": {"oneOf": [{"type": "null"}, {"type": "string"}]},
    "at": {"type": "string", "format": "date-time"}}}  # fmt: skip


@pytest.fixture
def registry() -> Iterator[Registry]:
    with Registry().running() as found:
        found.add(1, json.dumps(FIRST), "JSON")
        found.add(70_000, json.dumps(SECOND), "JSON")
        yield found


def message(number: int, value: Any) -> bytes:
    return struct.pack(">bI", 0, number) + json.dumps(value).encode()


def decoded(registry: Registry, values: list[bytes], schema: pa.Schema = NO_COLUMNS) -> Any:
    return JsonSchemaFormat(registry.url).decoder(schema).decode(pa.array(values, pa.binary()))


def types(schema: dict[str, Any], **references: Any) -> Any:
    others = {name: json.dumps(other) for name, other in references.items()}
    return {
        field.name: field.type
        for field in columns_of_json_schema(RegisteredSchema(json.dumps(schema), others))
    }


def test_messages_of_several_schemas_keep_their_order(registry: Registry) -> None:
    values = [
        message(1, {"id": "a", "ts": 1}),
        message(70_000, {"id": "b", "ts": 1.5, "city": "sf", "at": "2026-01-01T00:00:00Z"}),
        message(1, {"id": None, "extra": 1}),
        message(70_000, {"id": "d", "city": None}),
    ]
    found = decoded(registry, values)
    assert found.rows.to_pylist() == [
        {"id": "a", "ts": 1.0, "city": None, "at": None},
        {"id": "b", "ts": 1.5, "city": "sf", "at": "2026-01-01T00:00:00Z"},
        {"id": None, "ts": None, "city": None, "at": None},
        {"id": "d", "ts": None, "city": None, "at": None},
    ]
    assert (found.places.tolist(), found.failures) == ([0, 1, 2, 3], [])
    assert len(registry.requests) == 2


def test_types_of_the_table_that_json_lacks_are_used(registry: Registry) -> None:
    table = pa.schema({"ts": pa.int32(), "at": pa.timestamp("us", "UTC"), "city": pa.int64()})
    values = [message(70_000, {"ts": 3.5, "city": "sf", "at": "2026-01-01T00:00:00Z"})]
    row = decoded(registry, values, table).rows.to_pylist()[0]
    assert row == {"id": None, "ts": 3.5, "city": "sf", "at": datetime(2026, 1, 1, tzinfo=UTC)}


def test_bad_messages_fail_alone(registry: Registry) -> None:
    registry.add(3, '{"type": "string"}', "JSON")
    registry.add(4, "no json", "JSON")
    registry.add(5, '"string"', "AVRO")
    registry.add(6, '{"properties": {"a": {"$ref": "other#/x"}}}', "JSON")
    good = message(1, {"id": "a", "ts": 1})
    bad = [b"", b"\1\0\0\0\1{}", message(2, {}), message(1, {"ts": "text"}), good[:-1],
           message(1, [1]), *(message(number, {}) for number in (3, 4, 5, 6))]  # fmt: skip
    found = decoded(registry, [good, *bad, good])
    assert found.places.tolist() == [0, 11]
    assert [failure.place for failure in found.failures] == list(range(1, 11))
    reasons = {failure.place: failure.reason for failure in found.failures}
    assert "no number of a schema" in reasons[1]
    assert "no such schema" in reasons[3]
    assert "another kind" in reasons[9]
    assert "leads nowhere" in reasons[10]


def test_a_registry_that_does_not_answer_is_an_error_that_may_pass() -> None:
    with pytest.raises(StorageError, match="registry does not answer") as caught:
        decoded(Registry(port=9), [message(1, {})])
    assert caught.value.retryable


def test_a_registry_is_needed() -> None:
    with pytest.raises(OptionError):
        JsonSchemaFormat()


def test_schemas_become_types() -> None:
    found = types({"type": "object", "properties": {
        "text": {"type": ["null", "string"], "format": "date-time"}, "flag": {"type": "boolean"},
        "number": {"type": ["integer", "number", "null"]},
        "choice": {"oneOf": [{"type": "string"}, {"type": "integer"}]},
        "level": {"enum": ["low", "high", None]}, "one": {"const": "x"}, "any": True,
        "list": {"type": "array", "items": {"type": "object", "properties": {
            "n": {"type": "integer"}}}},
        "things": {"type": "array"}, "free": {"type": "object"},
        "all": {"allOf": [{"$ref": "#/definitions/point"},
                          {"properties": {"z": {"type": "number"}}}]},
    }, "definitions": {"point": {"properties": {"x": {"type": "integer"}}}}})  # fmt: skip
    assert found == {
        "text": pa.string(), "flag": pa.bool_(), "number": pa.float64(), "choice": pa.null(),
        "level": pa.string(), "one": pa.string(), "any": pa.null(),
        "list": pa.list_(pa.struct([("n", pa.int64())])), "things": pa.null(), "free": pa.null(),
        "all": pa.struct([("x", pa.int64()), ("z", pa.float64())]),
    }  # fmt: skip


def test_values_without_a_type_get_that_of_their_values(registry: Registry) -> None:
    registry.add(8, json.dumps({"properties": {
        "id": {"type": "string"}, "free": {"type": "object"}}}), "JSON")  # fmt: skip
    values = [message(8, {"id": "a", "free": {"x": 1, "at": "2026-01-01"}, "dropped": 1})]
    assert decoded(registry, values).rows.to_pylist() == [
        {"id": "a", "free": {"x": 1, "at": "2026-01-01"}}
    ]


def test_references_to_other_schemas_are_read(registry: Registry) -> None:
    point = {"$id": "point", "properties": {"unit": {"$ref": "#/$defs/unit"}},
             "$defs": {"unit": {"type": "string"}}}  # fmt: skip
    registry.add_subject("point.json", json.dumps(point), "JSON")
    main = {"properties": {"at": {"$ref": "point.json"}, "to": {"$ref": "point"}}}
    registry.add(9, json.dumps(main), "JSON", "point.json")
    place = {"unit": "m"}
    found = decoded(registry, [message(9, {"at": place, "to": place})])
    assert found.rows.to_pylist() == [{"at": place, "to": place}]
    registry.add_subject("endless.json", "{}", "JSON", "endless.json")
    registry.add(10, json.dumps(main), "JSON", "endless.json")
    assert "do not end" in decoded(registry, [message(10, {})]).failures[0].reason


def test_a_recursive_schema_has_a_limit() -> None:
    node = {"type": "object", "properties": {"v": {"type": "integer"}, "next": {"$ref": "#"}}}
    assert types(node)["v"] == pa.int64()
    with pytest.raises(CorruptFileError, match="not JSON"):
        columns_of_json_schema(RegisteredSchema("[" * 100_000 + "]" * 100_000, {}))
    wide = {"properties": {f"c{n}": {"properties": {f"d{m}": {"$ref": "#"} for m in range(9)}}
                           for n in range(9)}}  # fmt: skip
    with pytest.raises(CorruptFileError, match="too many columns"):
        types(wide)

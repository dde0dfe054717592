"""Avro messages become columns, by schemas of a registry or a given one."""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterator
from typing import Any

import fastavro
import pyarrow as pa
import pytest

from pyhudi.errors import OptionError, StorageError
from pyhudi.ingest import AvroFormat
from tests.ingest.registries import Registry

FIRST = {"type": "record", "name": "trip", "fields": [
    {"name": "id", "type": "string"}, {"name": "ts", "type": "int"}]}  # fmt: skip
SECOND = {"type": "record", "name": "trip", "fields": [
    {"name": "id", "type": "string"}, {"name": "ts", "type": "long"},
    {"name": "city", "type": ["null", "string"], "default": None}]}  # fmt: skip
SCHEMAS = {1: FIRST, 70_000: SECOND}


@pytest.fixture
def registry() -> Iterator[str]:
    with Registry().running() as found:
        for number, schema in SCHEMAS.items():
            found.add(number, json.dumps(schema))
        yield found.url


def encoded(row: dict[str, Any], schema: dict[str, Any]) -> bytes:
    out = io.BytesIO()
    fastavro.schemaless_writer(out, schema, row)
    return out.getvalue()


def message(number: int, row: dict[str, Any]) -> bytes:
    return struct.pack(">bI", 0, number) + encoded(row, SCHEMAS[number])


def decoded(form: AvroFormat, values: list[bytes]) -> Any:
    return form.decoder(pa.schema([])).decode(pa.array(values, pa.binary()))


def test_messages_of_several_schemas_keep_their_order(registry: str) -> None:
    values = [
        message(1, {"id": "a", "ts": 1}),
        message(70_000, {"id": "b", "ts": 1 << 40, "city": "sf"}),
        message(1, {"id": "c", "ts": 3}),
    ]
    found = decoded(AvroFormat(registry=registry), values)
    assert found.rows.to_pylist() == [
        {"id": "a", "ts": 1, "city": None},
        {"id": "b", "ts": 1 << 40, "city": "sf"},
        {"id": "c", "ts": 3, "city": None},
    ]
    assert found.places.tolist() == [0, 1, 2]


def test_bad_messages_fail_alone(registry: str) -> None:
    good = message(1, {"id": "a", "ts": 1})
    values = [good, b"", b"\1\0\0\0\1x", b"\0\0\0\0\2x", good[:6], good + b"x", good]
    found = decoded(AvroFormat(registry=registry), values)
    assert found.places.tolist() == [0, 6]
    assert [failure.place for failure in found.failures] == [1, 2, 3, 4, 5]
    assert all(failure.reason for failure in found.failures)


def test_a_given_schema_reads_messages_without_a_header() -> None:
    values = [encoded({"id": "a", "ts": 1}, FIRST), b"\xff"]
    found = decoded(AvroFormat(schema=json.dumps(FIRST)), values)
    assert found.rows.to_pylist() == [{"id": "a", "ts": 1}]
    assert [failure.place for failure in found.failures] == [1]


def test_a_registry_that_does_not_answer_is_an_error_that_may_pass() -> None:
    with pytest.raises(StorageError, match="registry does not answer") as caught:
        decoded(AvroFormat(registry="http://127.0.0.1:9"), [message(1, {"id": "a", "ts": 1})])
    assert caught.value.retryable


@pytest.mark.parametrize("wrong", [{}, {"registry": "http://x", "schema": "{}"}])
def test_a_registry_or_a_schema_is_needed(wrong: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        AvroFormat(**wrong)

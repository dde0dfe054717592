"""JSON messages become columns of the table's types; messages that do not fit are named."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime, time
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.errors import SchemaError
from pyhudi.ingest import JsonFormat

STAMP = datetime(2024, 1, 2, 3, 4, 5, tzinfo=UTC)
MILLIS = int(STAMP.timestamp() * 1000)


def decoded(values: list[Any], schema: pa.Schema, form: JsonFormat | None = None) -> Any:
    texts = [value if isinstance(value, bytes) else json.dumps(value).encode() for value in values]
    return (form or JsonFormat()).decoder(schema).decode(pa.array(texts, pa.binary()))


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (pa.int32(), 7, 7),
        (pa.float64(), 7, 7.0),
        (pa.float32(), 0.5, 0.5),
        (pa.bool_(), True, True),
        (pa.string(), "2024-01-02", "2024-01-02"),
        (pa.binary(), "text", b"text"),
        (pa.date32(), "2024-01-02", date(2024, 1, 2)),
        (pa.date32(), 19724, date(2024, 1, 2)),
        (pa.timestamp("ms", "UTC"), MILLIS, STAMP),
        (pa.timestamp("us", "UTC"), MILLIS * 1000, STAMP),
        (pa.timestamp("us", "UTC"), "2024-01-02T03:04:05", STAMP),
        (pa.timestamp("us", "UTC"), "2024-01-02T03:04:05Z", STAMP),
        (pa.timestamp("us", "UTC"), "2024-01-02 05:04:05+02:00", STAMP),
        (pa.timestamp("us"), "2024-01-02 03:04:05.25", datetime(2024, 1, 2, 3, 4, 5, 250_000)),
        (pa.time64("us"), 3_600_000_000, time(1)),
        (pa.time64("us"), "01:00:00", time(1)),
        (pa.decimal128(10, 2), "12.30", Decimal("12.30")),
        (pa.decimal128(10, 2), 12.3, Decimal("12.30")),
        (pa.decimal128(10, 2), 12, Decimal("12.00")),
        (pa.list_(pa.int64()), [1, 2], [1, 2]),
        (pa.list_(pa.date32()), ["2024-01-02"], [date(2024, 1, 2)]),
        (
            pa.struct([("a", pa.int64()), ("at", pa.date32())]),
            {"a": 1, "at": 19724},
            {"a": 1, "at": date(2024, 1, 2)},
        ),
    ],
)
def test_values_are_read_as_the_type_of_the_column(
    kind: pa.DataType, value: Any, expected: Any
) -> None:
    found = decoded([{"v": value}, {"v": None}, {"x": 1}], pa.schema([("v", kind)]))
    assert not found.failures
    assert found.rows.schema.field("v").type == kind
    assert found.rows["v"].to_pylist() == [expected, None, None]


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int32(), 1 << 40),
        (pa.int64(), 1.5),
        (pa.int64(), "1"),
        (pa.string(), 1),
        (pa.bool_(), "yes"),
        (pa.timestamp("us", "UTC"), "yesterday"),
        (pa.date32(), "2024-13-01"),
        (pa.decimal128(10, 2), 12.345),
        (pa.decimal128(4, 2), "123456"),
        (pa.list_(pa.int64()), 1),
        (pa.struct([("a", pa.int64())]), [1]),
    ],
)
def test_a_value_that_does_not_fit_fails_alone(kind: pa.DataType, value: Any) -> None:
    found = decoded([{"k": 1}, {"k": 2, "v": value}, {"k": 3}], pa.schema([("v", kind)]))
    assert found.rows["k"].to_pylist() == [1, 3]
    assert found.places.tolist() == [0, 2]
    assert [failure.place for failure in found.failures] == [1]


def test_many_bad_messages_among_many_are_found() -> None:
    values: list[Any] = [{"k": number} for number in range(5000)]
    bad = [0, 17, 2500, 4998, 4999]
    for place in bad:
        values[place] = b"{bad"
    found = decoded(values, pa.schema([]))
    assert [failure.place for failure in found.failures] == bad
    assert found.rows["k"].to_pylist() == [n for n in range(5000) if n not in bad]


def test_fields_beyond_a_stated_schema_are_dropped() -> None:
    schema = pa.schema([("a", pa.int64()), ("at", pa.date32())])
    form = JsonFormat(schema=schema)
    values = [{"a": 1, "at": 19724, "x": 1}, {"a": 2, "x": "text"}]
    found = decoded(values, pa.schema([]), form)
    assert found.rows.to_pylist() == [
        {"a": 1, "at": date(2024, 1, 2)},
        {"a": 2, "at": None},
    ]


def test_a_new_field_keeps_the_type_of_its_first_value() -> None:
    found = decoded([{"a": 1}, {"a": 2.5}, {"a": "text"}, {"a": 3}], pa.schema([]))
    assert found.rows["a"].to_pylist() == [1.0, 2.5, 3.0]
    assert [failure.place for failure in found.failures] == [2]


def test_text_that_looks_like_a_time_stays_text() -> None:
    values = [{"a": "2024-01-02 03:04:05", "b": {"c": ["2024-01-02"]}}, {"a": "x"}]
    found = decoded(values, pa.schema([]))
    assert found.rows["a"].to_pylist() == ["2024-01-02 03:04:05", "x"]
    assert found.rows["b"].to_pylist() == [{"c": ["2024-01-02"]}, None]


def test_a_long_message_is_read() -> None:
    found = decoded([{"a": "x" * 5_000_000}, {"a": "y"}], pa.schema([]))
    assert [len(text) for text in found.rows["a"].to_pylist()] == [5_000_000, 1]


def test_map_columns_are_refused() -> None:
    with pytest.raises(SchemaError, match="map column"):
        decoded([{}], pa.schema([("m", pa.map_(pa.string(), pa.int64()))]))


def test_new_fields_of_a_struct_column_are_read() -> None:
    schema = pa.schema([("s", pa.struct([("at", pa.date32())]))])
    values = [{"s": {"at": 19724, "n": 1, "t": "2024-01-02"}}, {"s": None}]
    found = decoded(values, schema)
    assert found.rows["s"].to_pylist() == [
        {"at": date(2024, 1, 2), "n": 1, "t": "2024-01-02"},
        None,
    ]
    assert not found.failures

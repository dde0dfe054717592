"""Rows fitted to a schema: by name, absent fields null, widening casts, at any depth."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest

from pyhudi.errors import SchemaError
from pyhudi.formats.schema_conform import conform, normal_type, widens


def elements(data_type: pa.DataType) -> pa.DataType:
    return pa.list_(pa.field("element", data_type))


def conformed(values: pa.Array, target: pa.DataType) -> pa.Array:
    (field,) = schema = pa.schema([("c", target)])
    table = conform(pa.table({"c": values}), schema)
    assert table.schema.equals(schema, check_metadata=True)
    table.validate(full=True)
    return table[field.name].combine_chunks()


def test_columns_come_in_the_schemas_order_and_absent_ones_are_null() -> None:
    table = pa.table({"b": [1, 2], "dropped": [0, 0], "a": ["x", "y"]})
    expected = pa.schema([("a", pa.string()), ("new", pa.date32()), ("b", pa.int64())])
    got = conform(table, expected)
    assert got.schema == expected
    assert got.to_pylist() == [{"a": "x", "new": None, "b": 1}, {"a": "y", "new": None, "b": 2}]


def test_columns_that_fit_are_shared() -> None:
    table = pa.table({"a": [1, 2, 3]})
    got = conform(table, pa.schema([("a", pa.int64())]))
    assert got["a"].chunk(0).buffers()[1].address == table["a"].chunk(0).buffers()[1].address


@pytest.mark.parametrize(
    ("values", "source", "target", "expected"),
    [
        ([1, None], pa.int32(), pa.int64(), [1, None]),
        ([1, None], pa.int32(), pa.float64(), [1.0, None]),
        ([1.5, None], pa.float32(), pa.float64(), [1.5, None]),
        ([Decimal("1.50")], pa.decimal128(5, 2), pa.decimal128(9, 3), [Decimal("1.500")]),
        ([b"x"], pa.binary(), pa.string(), ["x"]),
        (["x"], pa.large_string(), pa.string(), ["x"]),
        ([None, None], pa.null(), pa.string(), [None, None]),
        (["x", None], pa.dictionary(pa.int32(), pa.string()), pa.string(), ["x", None]),
        (["x", None], pa.string(), pa.dictionary(pa.int32(), pa.string()), ["x", None]),
    ],
)
def test_values_widen(
    values: list[object], source: pa.DataType, target: pa.DataType, expected: list[object]
) -> None:
    assert conformed(pa.array(values, source), target).to_pylist() == expected


def test_timestamps_take_the_unit_and_zone_requested() -> None:
    moment = dt.datetime(2024, 5, 6, 7, 8, 9, 123000, dt.UTC)
    millis = pa.array([moment], pa.timestamp("ms"))
    assert conformed(millis, pa.timestamp("us", "UTC")).to_pylist() == [moment]


@pytest.mark.parametrize(
    ("source", "target"),
    [
        (pa.int64(), pa.int32()),
        (pa.float64(), pa.float32()),
        (pa.string(), pa.int64()),
        (pa.decimal128(9, 3), pa.decimal128(9, 2)),
        (pa.bool_(), pa.string()),
        (pa.list_(pa.int64()), pa.list_(pa.int32())),
        (pa.struct([("x", pa.string())]), pa.struct([("x", pa.bool_())])),
        (pa.struct([("x", pa.string())]), pa.string()),
    ],
)
def test_types_that_do_not_widen_are_refused_with_the_columns_name(
    source: pa.DataType, target: pa.DataType
) -> None:
    assert not widens(source, target)
    table = pa.table({"col": pa.nulls(1, source)})
    with pytest.raises(SchemaError, match="column=col"):
        conform(table, pa.schema([("col", target)]))


class TestNested:
    ROWS = (
        {"a": 1, "in": [{"p": 1}, None, {"p": None}]},
        None,
        {"a": None, "in": None},
        {"a": 4, "in": []},
    )
    OLD = pa.struct([("a", pa.int32()), ("in", pa.list_(pa.struct([("p", pa.int32())])))])
    NEW = pa.struct(
        [
            ("in", elements(pa.struct([("q", pa.string()), ("p", pa.int64())]))),
            ("b", pa.float64()),
            ("a", pa.int64()),
        ]
    )
    EXPECTED = (
        {"in": [{"q": None, "p": 1}, None, {"q": None, "p": None}], "b": None, "a": 1},
        None,
        {"in": None, "b": None, "a": None},
        {"in": [], "b": None, "a": 4},
    )

    def test_fields_are_added_reordered_and_widened_inside_lists_and_structs(self) -> None:
        assert conformed(pa.array(self.ROWS, self.OLD), self.NEW).to_pylist() == [*self.EXPECTED]

    @pytest.mark.parametrize("start", range(4))
    @pytest.mark.parametrize("count", range(3))
    def test_slices_keep_their_rows(self, start: int, count: int) -> None:
        part = pa.array(self.ROWS, self.OLD).slice(start, count)
        got = conformed(part, self.NEW).to_pylist()
        assert got == [*self.EXPECTED][start : start + count]

    @pytest.mark.parametrize("start", range(4))
    def test_maps(self, start: int) -> None:
        rows = [[("k", 1), ("l", None)], None, [], [("m", 2)]]
        old = pa.array(rows, pa.map_(pa.string(), pa.int32())).slice(start)
        assert conformed(old, pa.map_(pa.string(), pa.int64())).to_pylist() == rows[start:]


def test_every_style_of_list_has_one_normal_type() -> None:
    inner = pa.struct([pa.field("x", pa.list_(pa.field("bag", pa.int32(), nullable=False)))])
    for name in ("item", "array", "element", "bag"):
        styled = pa.list_(pa.field(name, inner))
        assert str(normal_type(styled)) == "list<element: struct<x: list<element: int32>>>"

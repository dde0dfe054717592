"""AvroCodec encoding: datums that fastavro reads back, from any Arrow form of the rows."""

import datetime as dt
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from pyhudi._native import AvroCodec
from pyhudi._native.avro.types import parse_schema
from pyhudi.errors import SchemaError
from tests.support.avro_rows import datum, frames, read_rows, text
from tests.support.avro_schemas import tables
from tests.support.examples import examples

PAIR = text(("a", ["null", "string"]), ("b", "long"))


@examples(15, 100, table=tables())
def test_any_rows_encode_as_fastavro_writes_them(table) -> None:
    schema, rows = table
    codec = AvroCodec(schema)
    datums = [datum(schema, row) for row in rows]
    batch = codec.decode_framed(frames(datums), len(rows))
    encoded = codec.encode_column(batch)
    encoded.validate(full=True)
    assert read_rows(schema, parse_schema(schema), encoded.to_pylist()) == batch.to_pylist()
    assert codec.encode_framed(batch) == frames(encoded.to_pylist())
    assert [len(d) for d in encoded.to_pylist()] == [len(d) for d in datums]


@examples(10, 40, table=tables(), data=st.data())
def test_slices_and_null_rows_encode_as_their_rows(table, data) -> None:
    schema, rows = table
    codec = AvroCodec(schema)
    datums = [datum(schema, row) for row in rows]
    keep = data.draw(st.lists(st.booleans(), min_size=len(rows), max_size=len(rows)))
    slots = [d if retained else None for d, retained in zip(datums, keep, strict=True)]
    whole = codec.decode_column(pa.array(slots, pa.binary()))
    start = data.draw(st.integers(0, len(rows)))
    encoded = codec.encode_column(whole.slice(start))
    encoded.validate(full=True)
    assert encoded == codec.encode_column(whole).slice(start)
    assert codec.decode_column(encoded).to_pylist() == whole.to_pylist()[start:]


def test_columns_are_found_by_name_and_missing_ones_are_null() -> None:
    batch = pa.record_batch({"b": pa.array([1, 2])})
    assert AvroCodec(PAIR).encode_column(batch).to_pylist() == [b"\x00\x02", b"\x00\x04"]
    batch = pa.record_batch({"b": pa.array([1]), "a": pa.array(["x"])})
    assert AvroCodec(PAIR).encode_column(batch).to_pylist() == [b"\x02\x02x\x02"]


def test_a_missing_column_takes_its_default() -> None:
    schema = (
        '{"type":"record","name":"r","fields":['
        '{"name":"a","type":"string"},{"name":"b","type":"int","default":7}]}'
    )
    batch = pa.record_batch({"a": pa.array(["x"])})
    assert AvroCodec(schema).encode_column(batch).to_pylist() == [b"\x02x\x0e"]


@pytest.mark.parametrize(
    "column",
    [
        pa.array(["x", None, "y"], pa.large_string()),
        pa.array(["x", None, "y"], pa.string_view()),
        pa.array(["x", None, "y"]).dictionary_encode(),
        pa.array([b"x", None, b"y"], pa.binary()),
    ],
    ids=lambda c: str(c.type),
)
def test_other_forms_of_text_are_taken(column: pa.Array) -> None:
    batch = pa.record_batch({"a": column, "b": pa.array([1, 2, 3], pa.int16())})
    expected = [b"\x02\x02x\x02", b"\x00\x04", b"\x02\x02y\x06"]
    assert AvroCodec(PAIR).encode_column(batch).to_pylist() == expected


@pytest.mark.parametrize(
    ("declared", "column", "expected"),
    [
        (
            {"type": "array", "items": "int"},
            pa.array([[1, 2], []], pa.large_list(pa.int64())),
            [b"\x04\x02\x04\x00", b"\x00"],
        ),
        (
            {"type": "array", "items": "int"},
            pa.array([[1], [2]], pa.list_(pa.int8(), 1)),
            [b"\x02\x02\x00", b"\x02\x04\x00"],
        ),
        (
            {"type": "array", "items": "string"},
            pa.array([["a"], ["b"]], pa.list_(pa.large_string())),
            [b"\x02\x02a\x00", b"\x02\x02b\x00"],
        ),
        (
            {"type": "map", "values": ["null", "int"]},
            pa.array([[("a", 1)], [("b", None)]], pa.map_(pa.large_string(), pa.int64())),
            [b"\x02\x02a\x02\x02\x00", b"\x02\x02b\x00\x00"],
        ),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            pa.array([1, 2], pa.timestamp("ms", "Europe/Berlin")),
            [b"\xd0\x0f", b"\xa0\x1f"],
        ),
        (
            {"type": "int", "logicalType": "date"},
            pa.array([dt.date(1970, 1, 2), dt.date(1969, 12, 31)], pa.date64()),
            [b"\x02", b"\x01"],
        ),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2},
            pa.array([Decimal("1.28"), Decimal("-1.28")], pa.decimal128(5, 2)),
            [b"\x04\x00\x80", b"\x02\x80"],
        ),
        (
            {"type": "enum", "name": "e", "symbols": ["A", "B"]},
            pa.array(["B", "A"]).dictionary_encode(),
            [b"\x02", b"\x00"],
        ),
        (["null", "int"], pa.nulls(2), [b"\x00", b"\x00"]),
        ("double", pa.array([0.0, 1.0], pa.float32()), [b"\0" * 8, b"\0" * 6 + b"\xf0\x3f"]),
    ],
)
def test_castable_columns_are_cast(declared, column, expected) -> None:
    codec = AvroCodec(text(("x", declared)))
    assert codec.encode_column(pa.record_batch({"x": column})).to_pylist() == expected


@pytest.mark.parametrize(
    ("declared", "column", "reason"),
    [
        ("long", pa.array([1, None]), "cannot hold nulls.*column=x, row=1"),
        ("int", pa.array([1, 2**40]), "column=x"),
        ("int", pa.array(["a", "b"]), "column=x"),
        ("string", pa.array([[1]]), "column=x"),
        ("string", pa.array([b"\xff"]), "column=x"),
        ({"type": "array", "items": "int"}, pa.array([1]), "column=x"),
        ({"type": "array", "items": "int"}, pa.array([[1, None]]), "column=x.element, row=0"),
        ({"type": "map", "values": "int"}, pa.array([[1]]), "column=x"),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.array(["A", "Q"]), "value=Q"),
        (
            {"type": "long", "logicalType": "timestamp-micros"},
            pa.array([1], pa.timestamp("ns")),
            "column=x",
        ),
        (
            {"type": "fixed", "name": "f", "size": 1, "logicalType": "decimal", "precision": 4},
            pa.array([Decimal(128)], pa.decimal128(4, 0)),
            "fixed bytes.*column=x, row=0",
        ),
        (
            {"type": "record", "name": "y", "fields": [{"name": "z", "type": "int"}]},
            pa.array([{"q": 1}]),
            "record=x, columns=.*q",
        ),
    ],
)
def test_rows_that_do_not_fit_are_refused_by_name(declared, column, reason) -> None:
    with pytest.raises(SchemaError, match=reason):
        AvroCodec(text(("x", declared))).encode_column(pa.record_batch({"x": column}))


def test_unknown_and_lacking_columns_are_refused_by_name() -> None:
    with pytest.raises(SchemaError, match=r"columns=.*extra"):
        AvroCodec(PAIR).encode_column(pa.record_batch({"b": [1], "extra": [1]}))
    with pytest.raises(SchemaError, match="column=b"):
        AvroCodec(PAIR).encode_column(pa.record_batch({"a": ["x"]}))
    with pytest.raises(SchemaError, match="record batch"):
        AvroCodec(PAIR).encode_column([{"a": "x"}])


UNION = text(("x", ["null", "int", "string"]))
BARE_UNION = text(("x", ["int", "string"]))


def branches(*rows: dict[str, object] | None) -> pa.RecordBatch:
    kind = pa.struct([("int", pa.int32()), ("string", pa.string())])
    return pa.record_batch({"x": pa.array(rows, kind)})


def test_a_general_union_takes_the_branch_that_has_a_value() -> None:
    rows = branches({"int": 1}, {"string": "a"}, None, {})
    expected = [b"\x02\x02", b"\x04\x02a", b"\x00", b"\x00"]
    assert AvroCodec(UNION).encode_column(rows).to_pylist() == expected


def test_a_general_union_lacks_no_branch_that_is_not_used() -> None:
    kind = pa.struct([("string", pa.string())])
    batch = pa.record_batch({"x": pa.array([{"string": "a"}], kind)})
    assert AvroCodec(UNION).encode_column(batch).to_pylist() == [b"\x04\x02a"]


def test_a_general_union_with_no_or_two_values_is_refused() -> None:
    with pytest.raises(SchemaError, match=r"more than one.*row=1"):
        AvroCodec(UNION).encode_column(branches({"int": 1}, {"int": 1, "string": "a"}))
    with pytest.raises(SchemaError, match=r"no value.*row=0"):
        AvroCodec(BARE_UNION).encode_column(branches({}))


def test_no_rows() -> None:
    batch = AvroCodec(PAIR).arrow_schema.empty_table().to_batches() or [
        pa.RecordBatch.from_pylist([], schema=AvroCodec(PAIR).arrow_schema)
    ]
    assert AvroCodec(PAIR).encode_framed(batch[0]) == b""
    assert AvroCodec(PAIR).encode_column(batch[0]).to_pylist() == []


def test_a_thousand_columns() -> None:
    schema = text(*((f"c{i}", ["null", "long"]) for i in range(1000)))
    batch = pa.record_batch({f"c{i}": pa.array([i, None, -i]) for i in range(1000)})
    codec = AvroCodec(schema)
    assert codec.decode_framed(codec.encode_framed(batch), 3).equals(batch)

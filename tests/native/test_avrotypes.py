"""Avro schema text: what it becomes in Arrow, and what is refused."""

import contextlib
import json

import pyarrow as pa
import pytest
from hypothesis import strategies as st

from pyhudi._native import AvroCodec
from pyhudi._native.avro.types import DEPTH_MAX, Kind, parse_schema
from pyhudi.errors import CorruptFileError, UnsupportedTableError
from tests.support.avro_rows import text
from tests.support.examples import examples


def arrow(declared: object) -> pa.Field:
    return AvroCodec(text(("x", declared))).arrow_schema.field("x")


@pytest.mark.parametrize(
    ("declared", "expected"),
    [
        ("int", pa.int32()),
        ({"type": "long"}, pa.int64()),
        (
            {"type": "bytes", "logicalType": "decimal", "precision": 38, "scale": 2},
            pa.decimal128(38, 2),
        ),
        ({"type": "bytes", "logicalType": "decimal", "precision": 39}, pa.decimal256(39, 0)),
        ({"type": "bytes", "logicalType": "decimal", "precision": 2, "scale": 3}, pa.binary()),
        ({"type": "int", "logicalType": "date"}, pa.date32()),
        ({"type": "int", "logicalType": "nonsense"}, pa.int32()),
        ({"type": "long", "logicalType": "date"}, pa.int64()),
        ({"type": "long", "logicalType": "timestamp-micros"}, pa.timestamp("us", "UTC")),
        ({"type": "long", "logicalType": "local-timestamp-millis"}, pa.timestamp("ms")),
        ({"type": "fixed", "name": "f", "size": 3}, pa.binary(3)),
        ({"type": "enum", "name": "e", "symbols": ["A"]}, pa.string()),
        (
            {"type": {"type": "array", "items": "int"}},
            pa.list_(pa.field("element", pa.int32(), False)),
        ),
    ],
)
def test_arrow_types(declared: object, expected: pa.DataType) -> None:
    assert arrow(declared) == pa.field("x", expected, nullable=False)
    assert arrow(["null", declared]) == pa.field("x", expected)
    assert arrow([declared, "null"]) == pa.field("x", expected)


def test_list_items_are_named_element() -> None:
    assert arrow({"type": "array", "items": "int"}).type.value_field.name == "element"


def test_branches_of_a_general_union_are_named_by_type() -> None:
    union = arrow(
        [
            "null",
            "int",
            {"type": "array", "items": "int"},
            {"type": "record", "name": "a.b.C", "fields": []},
            {"type": "record", "name": "D", "namespace": "q", "fields": []},
        ]
    )
    assert [f.name for f in union.type] == ["int", "array", "C", "D"]
    assert all(f.nullable for f in union.type)
    assert union.nullable


def test_branches_whose_short_names_clash_have_full_names() -> None:
    union = arrow(
        [
            {"type": "record", "name": "a.C", "fields": []},
            {"type": "record", "name": "C", "namespace": "b", "fields": []},
        ]
    )
    assert [f.name for f in union.type] == ["a.C", "b.C"]


def test_names_are_found_in_the_enclosing_namespace() -> None:
    inner = {"type": "record", "name": "I", "fields": [{"name": "q", "type": "int"}]}
    declared = {
        "type": "record",
        "name": "r",
        "namespace": "n.s",
        "fields": [
            {"name": "a", "type": inner},
            {"name": "b", "type": ["null", "I"]},
            {"name": "c", "type": "n.s.I"},
            {"name": "d", "type": {"type": "I"}},
        ],
    }
    types = {f.type for f in AvroCodec(json.dumps(declared)).arrow_schema}
    assert types == {pa.struct([pa.field("q", pa.int32(), False)])}


def test_the_fewest_bytes_of_a_record() -> None:
    root = parse_schema(text(("a", "double"), ("b", ["null", "double"]), ("c", ["double"])))
    assert root.size_min == 8 + 1 + 9
    assert root.kind is Kind.RECORD


@pytest.mark.parametrize(
    "schema",
    [
        "",
        "{",
        "[]",
        "1",
        '"int"',
        "null",
        '{"type":"record"}',
        '{"type":"record","name":"r"}',
        '{"type":"record","name":"r","fields":[{}]}',
        '{"type":"record","name":"r","fields":[{"name":"a"}]}',
        '{"type":"array","items":"int"}',
        text(("a", "int"), ("a", "int")),
        text(("a", "nope")),
        text(("a", [])),
        text(("a", ["null", "null"])),
        text(("a", ["int", "int"])),
        text(("a", [["null", "int"], "string"])),
        text(("a", {"type": "fixed", "name": "f", "size": -1})),
        text(("a", {"type": "fixed", "name": "f"})),
        text(("a", {"type": "enum", "name": "e", "symbols": []})),
        text(("a", {"type": "enum", "name": "e", "symbols": [1]})),
        text(("a", {"type": "fixed", "size": 1})),
        text(("a", {"type": 5})),
    ],
)
def test_malformed_schemas_are_corrupt(schema: str) -> None:
    with pytest.raises(CorruptFileError):
        AvroCodec(schema)


def nested(depth: int) -> str:
    declared: object = "int"
    for _ in range(depth):
        declared = {"type": "array", "items": declared}
    return text(("a", declared))


def test_depth_is_bounded() -> None:
    AvroCodec(nested(DEPTH_MAX - 2)).decode_framed(b"", 0)
    for depth in (DEPTH_MAX + 1, 900):
        with pytest.raises(UnsupportedTableError, match="deep"):
            AvroCodec(nested(depth))
    with pytest.raises(UnsupportedTableError, match="deep"):
        AvroCodec('{"type":' * 100_000 + '"int"' + "}" * 100_000)


def test_recursive_schemas_are_refused_by_name() -> None:
    with pytest.raises(UnsupportedTableError, match=r"recursive.*type=r"):
        AvroCodec(text(("next", ["null", "r"])))


def test_types_that_double_at_each_level_are_bounded() -> None:
    declared: object = {"type": "record", "name": "t0", "fields": [{"name": "x", "type": "int"}]}
    for level in range(1, 40):
        inner = f"t{level - 1}"
        declared = {
            "type": "record",
            "name": f"t{level}",
            "fields": [{"name": "a", "type": declared}, {"name": "b", "type": inner}],
        }
    with pytest.raises(UnsupportedTableError):
        AvroCodec(json.dumps(declared))


@pytest.mark.parametrize(
    "declared",
    [
        {"type": "fixed", "name": "f", "size": 1 << 30},
        {"type": "bytes", "logicalType": "decimal", "precision": 77},
    ],
)
def test_types_beyond_arrow_are_refused(declared: object) -> None:
    with pytest.raises(UnsupportedTableError):
        AvroCodec(text(("x", declared)))


WORDS = ["null", "int", "string", "bytes", "fixed", "record", "array", "map", "enum", "r"]
KEYS = ["type", "name", "namespace", "fields", "items", "values", "size", "symbols", "precision"]
scraps = st.recursive(
    st.sampled_from(WORDS) | st.none() | st.integers(-2, 70) | st.just("\ud800") | st.booleans(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(KEYS), inner, max_size=6)
    ),
    max_leaves=12,
)


@examples(50, 300, declared=scraps, name=st.text(max_size=3) | st.just("\udc00"))
def test_any_json_is_a_schema_or_refused(declared: object, name: str) -> None:
    for schema in (json.dumps(declared), text((name, declared)), text(("x", ["null", declared]))):
        with contextlib.suppress(CorruptFileError, UnsupportedTableError):
            AvroCodec(schema).decode_framed(b"", 0)

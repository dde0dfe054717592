"""Table schemas: equal to what Apache Hudi commits, and refusals by column name."""

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from pyhudi.errors import CorruptFileError, SchemaError
from pyhudi.formats.avro_schema import (
    META_FIELD_NAMES,
    Nullability,
    arrow_to_avro,
    avro_to_arrow,
    decimal_bytes,
    table_record_name,
    with_meta_fields,
    without_meta_fields,
)
from tests.support import avro_rows
from tests.support.fixtures import fixtures


def avro(arrow: pa.DataType) -> object:
    """Avro type of a column `x`, without its null."""
    text = arrow_to_avro(pa.schema([("x", arrow)]), name="r", namespace="n")
    return json.loads(text)["fields"][0]["type"][1]


def remade(schema_json: str) -> object:
    declared = json.loads(schema_json)
    text = arrow_to_avro(
        avro_to_arrow(schema_json), name=declared["name"], namespace=declared["namespace"]
    )
    return json.loads(text)


def test_schemas_of_golden_log_blocks_are_remade() -> None:
    schemas = [schema for _, schema, _ in avro_rows.golden_log_blocks() if schema]
    for schema in schemas:
        assert remade(schema) == json.loads(schema)
        assert with_meta_fields(without_meta_fields(schema)) == schema
        assert with_meta_fields(schema) == schema


def test_schemas_of_all_golden_commits_are_remade() -> None:
    schemas = set()
    for path in fixtures().glob("golden/*.zip"):
        for name, data in avro_rows.zip_members(path):
            action = name.rpartition(".")[2]
            if action not in ("commit", "deltacommit", "replacecommit") or "/metadata/" in name:
                continue
            schema = json.loads(data)["extraMetadata"].get("schema") if data else None
            if schema:
                schemas.add(schema)
    assert len(schemas) > 40
    for schema in schemas:
        assert remade(schema) == json.loads(schema)


def test_meta_columns_stand_in_front() -> None:
    schema = pa.schema([("id", pa.string())])
    text = arrow_to_avro(schema, name="t_record", namespace="hoodie.t", with_meta=True)
    assert avro_to_arrow(text).names == [*META_FIELD_NAMES, "id"]
    assert json.loads(text)["fields"][0] == {
        "name": "_hoodie_commit_time",
        "type": ["null", "string"],
        "doc": "",
        "default": None,
    }
    assert without_meta_fields(text) == arrow_to_avro(schema, name="t_record", namespace="hoodie.t")


def test_the_operation_column_is_a_meta_column_too() -> None:
    schema = pa.schema([("_hoodie_operation", pa.string()), ("id", pa.string())])
    text = arrow_to_avro(schema, name="r", namespace="n", with_meta=True)
    assert avro_to_arrow(without_meta_fields(text)).names == ["id"]


@pytest.mark.parametrize(
    ("arrow", "expected"),
    [
        (pa.int8(), "int"),
        (pa.int16(), "int"),
        (pa.int64(), "long"),
        (pa.large_string(), "string"),
        (pa.string_view(), "string"),
        (pa.dictionary(pa.int32(), pa.string()), "string"),
        (pa.large_binary(), "bytes"),
        (pa.binary_view(), "bytes"),
        (pa.float32(), "float"),
        (pa.bool_(), "boolean"),
        (pa.date32(), {"type": "int", "logicalType": "date"}),
        (pa.time32("ms"), {"type": "int", "logicalType": "time-millis"}),
        (pa.time64("us"), {"type": "long", "logicalType": "time-micros"}),
        (pa.timestamp("us", "UTC"), {"type": "long", "logicalType": "timestamp-micros"}),
        (pa.timestamp("ms", "UTC"), {"type": "long", "logicalType": "timestamp-millis"}),
        (pa.timestamp("us"), {"type": "long", "logicalType": "local-timestamp-micros"}),
        (pa.timestamp("s"), {"type": "long", "logicalType": "local-timestamp-millis"}),
        (pa.large_list(pa.int8()), {"type": "array", "items": ["null", "int"]}),
        (pa.map_(pa.string(), pa.int64()), {"type": "map", "values": ["null", "long"]}),
        (pa.binary(16), {"type": "fixed", "name": "fixed", "namespace": "n.r.x", "size": 16}),
    ],
)
def test_arrow_types_have_an_avro_form(arrow: pa.DataType, expected: object) -> None:
    assert avro(arrow) == expected


def test_structs_in_lists_and_maps_are_named_by_the_column() -> None:
    inner = pa.struct([("d", pa.decimal128(10, 5)), ("s", pa.struct([("q", pa.int32())]))])
    for record in (
        avro(pa.list_(inner))["items"][1],
        avro(pa.map_(pa.string(), inner))["values"][1],
        avro(inner),
    ):
        assert (record["name"], record["namespace"]) == ("x", "n.r")
        decimal, nested = (field["type"][1] for field in record["fields"])
        assert (decimal["namespace"], decimal["size"]) == ("n.r.x.d", 5)
        assert (nested["name"], nested["namespace"]) == ("s", "n.r.x")


def test_declared_nullability_is_retained_on_request() -> None:
    item = pa.field("element", pa.int32(), nullable=False)
    schema = pa.schema([pa.field("a", pa.list_(item), nullable=False), pa.field("b", pa.int64())])
    text = arrow_to_avro(schema, name="r", namespace="n", nullability=Nullability.DECLARED)
    assert avro_to_arrow(text) == schema
    assert all(f.nullable for f in avro_to_arrow(arrow_to_avro(schema, name="r", namespace="n")))


@given(st.integers(1, 38))
def test_decimals_take_the_fewest_bytes(precision: int) -> None:
    size, top = decimal_bytes(precision), 10**precision - 1
    top.to_bytes(size, "big", signed=True)
    (-top).to_bytes(size, "big", signed=True)
    with pytest.raises(OverflowError):
        top.to_bytes(size - 1, "big", signed=True)


@pytest.mark.parametrize(
    ("arrow", "reason"),
    [
        (pa.uint8(), "unsigned.*column=x"),
        (pa.list_(pa.uint64()), "unsigned.*column=x.element"),
        (pa.timestamp("ns", "UTC"), "cast it to us.*column=x"),
        (pa.time64("ns"), "cast it to us.*column=x"),
        (pa.struct([("y", pa.map_(pa.string(), pa.uint8()))]), "column=x.y.value"),
        (pa.struct([("1y", pa.int8())]), "invalid in Avro.*column=x.1y"),
        (pa.map_(pa.int32(), pa.int32()), "keys.*column=x"),
        (pa.decimal256(39, 0), "precision.*column=x"),
        (pa.decimal128(3, -2), "column=x"),
        (pa.null(), "column=x"),
        (pa.duration("s"), "column=x"),
        (pa.struct([("y", pa.int8()), ("y", pa.int8())]), "duplicate"),
    ],
)
def test_types_that_hudi_cannot_hold_are_refused_by_name(arrow: pa.DataType, reason: str) -> None:
    with pytest.raises(SchemaError, match=reason):
        avro(arrow)


@pytest.mark.parametrize("name", ["", "1a", "a-b", "a b", "ä", "a.b"])
def test_illegal_column_names_are_refused(name: str) -> None:
    with pytest.raises(SchemaError, match="invalid in Avro"):
        arrow_to_avro(pa.schema([(name, pa.int32())]), name="r", namespace="n")


def test_repeated_column_names_are_refused() -> None:
    with pytest.raises(SchemaError, match="duplicate column name"):
        arrow_to_avro(pa.schema([("a", pa.int32()), ("a", pa.int32())]), name="r", namespace="n")


@pytest.mark.parametrize(
    ("table", "expected"),
    [
        ("trips", ("trips_record", "hoodie.trips")),
        ("my-trips", ("my__trips_record", "hoodie.my__trips")),
        ("1st.trips", ("__st__trips_record", "hoodie.__st__trips")),
    ],
)
def test_record_names_of_tables(table: str, expected: tuple[str, str]) -> None:
    assert table_record_name(table) == expected


@pytest.mark.parametrize("text", ["", "{", "[]", "{}"])
def test_text_that_is_no_schema_is_corrupt(text: str) -> None:
    for reader in (avro_to_arrow, with_meta_fields, without_meta_fields):
        with pytest.raises(CorruptFileError):
            reader(text)


@pytest.mark.parametrize("field", ['{"nme": "a", "type": "int"}', '"a"', '{"name": 1}', "null"])
def test_a_field_without_a_name_is_corrupt(field: str) -> None:
    text = f'{{"type": "record", "name": "r", "fields": [{field}]}}'
    for call in (with_meta_fields, without_meta_fields):
        with pytest.raises(CorruptFileError, match="no name"):
            call(text)

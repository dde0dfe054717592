"""Vector columns written: declared by field metadata, stored as Apache Hudi 1.2 stores them."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.errors import SchemaError, UserError
from tests.support.foreign import expected_rows, foreign_table

names = itertools.count()
ELEMENTS = [("FLOAT", pa.float32()), ("DOUBLE", pa.float64()), ("INT8", pa.int8())]


def vector(name: str, text: str, kind: pa.DataType) -> pa.Field:
    return pa.field(name, kind, metadata={"hudi_type": text})


F3 = vector("f", "VECTOR(3)", pa.list_(pa.float32(), 3))
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        F3,
        vector("d", "VECTOR(2, DOUBLE)", pa.list_(pa.float64())),
        vector("b", "vector(4, int8)", pa.large_list(pa.int8())),
        vector("g", "VECTOR(3)", pa.list_(pa.float32(), 3)),
        ("plain", pa.list_(pa.float32(), 2)),
        ("ts", pa.int64()),
    ]
)


def rows(low: int, high: int, ts: int, *, seed: int = 1) -> pa.Table:
    made = np.random.default_rng(seed + ts)
    count = range(low, high)
    columns = {
        "id": [str(n) for n in count],
        "f": [made.random(3, np.float32) if n % 3 else None for n in count],
        "d": [[made.random(), float("inf")] for n in count],
        "b": [made.integers(-128, 128, 4).astype(np.int8) for n in count],
        "g": [None] * len(count),
        "plain": [[1.0, n] for n in count],
        "ts": [ts] * len(count),
    }
    return pa.table({f.name: pa.array(columns[f.name], f.type) for f in SCHEMA}, SCHEMA)


def new(schema: pa.Schema = SCHEMA, **more: Any) -> Table:
    more = {"record_key": "id", **more}
    return pyhudi.create_table(f"memory://vectors{next(names)}", schema, **more)


def by_id(table: pa.Table) -> dict[str, Any]:
    return {row["id"]: row for row in table.to_pylist()}


def stored(table: Table) -> dict[str, Any]:
    return by_id(table.scan(with_meta=False).to_arrow())


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("log_format", ["avro", "parquet"])
def test_vectors_come_back_from_every_file_they_go_through(kind: str, log_format: str) -> None:
    table = new(
        table_type=kind,
        ordering="ts",
        options={"hoodie.logfile.data.block.format": log_format, "hoodie.table.cdc.enabled": True},
    )
    expected = {**by_id(rows(0, 20, 1)), **by_id(rows(5, 25, 2))}
    table.insert(rows(0, 20, 1))
    table.upsert(rows(5, 25, 2))
    assert stored(table) == expected
    if kind == "mor":
        table.compact()
        assert stored(table) == expected
    table.cluster()
    assert stored(table) == expected
    table.delete(keys=["7"])
    table.bulk_insert(rows(30, 31, 3))
    del expected["7"]
    assert stored(table) == {**expected, **by_id(rows(30, 31, 3))}
    assert table.fetch("8")["f"].to_pylist() == [expected["8"]["f"]]


def test_a_vector_is_stored_as_apache_hudi_stores_it(tmp_path: Path) -> None:
    """Types and names as in tables of Apache Hudi 1.2.0; the second of a kind by its name."""
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")
    table.insert(rows(1, 2, 1))
    (file,) = (tmp_path / "t").glob("*.parquet")
    metadata = pq.read_metadata(file)
    column = metadata.schema.column(metadata.schema.names.index("f"))
    assert (column.physical_type, column.length) == ("FIXED_LEN_BYTE_ARRAY", 12)
    assert metadata.metadata[b"hoodie.vector.columns"] == (
        b"f:VECTOR(3),d:VECTOR(2, DOUBLE),b:VECTOR(4, INT8),g:VECTOR(3)"
    )
    fields = json.loads(metadata.metadata[b"parquet.avro.schema"])["fields"]
    types = {field["name"]: field["type"][1] for field in fields}
    assert types["f"] == {
        "type": "fixed", "name": "vector_float_3", "namespace": "", "size": 12,
        "logicalType": "vector", "dimension": 3, "elementType": "FLOAT",
        "storageBacking": "FIXED_BYTES",
    }  # fmt: skip
    assert types["g"] == "vector_float_3"
    assert types["b"]["name"] == "vector_int8_4"
    assert types["plain"]["type"] == "array"
    raw = pq.read_table(file)["f"][0].as_py()
    assert np.frombuffer(raw, "<f4").tolist() == rows(1, 2, 1)["f"][0].as_py()


def test_the_tables_schema_declares_its_vectors_to_another_table() -> None:
    table = new()
    assert table.schema.field("b").metadata == {b"hudi_type": b"VECTOR(4, INT8)"}
    table.insert(rows(0, 4, 1))
    copy = new(table.schema)
    copy.insert(table.scan(with_meta=False).to_arrow())
    assert copy.schema == table.schema
    assert stored(copy) == stored(table)


@pytest.mark.parametrize(
    "field",
    [
        vector("v", "VECTOR(0)", pa.list_(pa.float32())),
        vector("v", "VECTOR", pa.list_(pa.float32())),
        vector("v", "VECTOR(3, INT4)", pa.list_(pa.int8())),
        vector("v", "VECTOR(3)", pa.list_(pa.float64())),
        vector("v", "VECTOR(3)", pa.list_(pa.float32(), 4)),
        vector("v", "VECTOR(3)", pa.float32()),
        vector("v", "VECTOR(3)", pa.binary(12)),
        vector("v", "VECTOR(9999999)", pa.list_(pa.float64())),
        vector("v", "BLOB", pa.binary()),
        vector("v", "VARIANT", pa.string()),
        pa.field("v", pa.struct([vector("x", "VECTOR(3)", pa.list_(pa.float32()))])),
        pa.field("v", pa.list_(vector("x", "VECTOR(3)", pa.list_(pa.float32())))),
    ],
    ids=str,
)
def test_a_declaration_that_cannot_be_stored_is_refused(field: pa.Field) -> None:
    with pytest.raises(SchemaError, match="Hudi type"):
        new(pa.schema([("id", pa.string()), field]))


@pytest.mark.parametrize("value", [[1.0, 2.0], [1.0, 2.0, 3.0, 4.0], [], [1.0, None, 3.0]])
@pytest.mark.parametrize("stream", [False, True])
def test_a_vector_of_another_size_is_named_before_anything_is_written(
    value: list[Any], stream: bool
) -> None:
    table = new(pa.schema([("id", pa.string()), F3]))
    table.insert(pa.table({"id": ["0"], "f": pa.array([[1, 2, 3]], pa.list_(pa.float32()))}))
    before = len(table.timeline)
    column = pa.array([None, [1, 2, 3], value], pa.list_(pa.float32()))
    batch = pa.table({"id": ["a", "b", "c"], "f": column})
    for verb in (table.insert, table.upsert, table.bulk_insert):
        with pytest.raises(
            UserError, match=rf"column=f, row=2, type=VECTOR\(3\), values={len(value)}"
        ):
            verb(batch.to_reader() if stream else batch)
    assert len(table.timeline) == before
    assert sorted(stored(table)) == ["0"]


@pytest.mark.parametrize(
    "given",
    [
        pa.field("f", pa.list_(pa.float32(), 4)),
        pa.field("f", pa.list_(pa.float64())),
        pa.field("f", pa.binary(12)),
        vector("f", "VECTOR(4)", pa.list_(pa.float32())),
        vector("f", "VECTOR(3, DOUBLE)", pa.list_(pa.float64())),
    ],
    ids=str,
)
def test_a_column_of_another_type_does_not_fit_a_vector(given: pa.Field) -> None:
    table = new(pa.schema([("id", pa.string()), F3]))
    with pytest.raises(SchemaError, match="does not fit"):
        table.upsert(pa.schema([("id", pa.string()), given]).empty_table())


def test_an_array_does_not_become_a_vector() -> None:
    table = new(pa.schema([("id", pa.string()), pa.field("f", pa.list_(pa.float32()))]))
    with pytest.raises(SchemaError, match=r"the table has list.*the batch VECTOR\(3\)"):
        table.upsert(pa.schema([("id", pa.string()), F3]).empty_table())


@pytest.mark.parametrize(("name", "kind"), ELEMENTS)
def test_lists_of_any_layout_fit_a_vector(name: str, kind: pa.DataType) -> None:
    table = new(pa.schema([("id", pa.string()), vector("v", f"VECTOR(2, {name})", pa.list_(kind))]))
    for number, layout in enumerate(
        (pa.list_(kind), pa.list_(kind, 2), pa.large_list(kind), pa.list_view(kind))
    ):
        column = pa.array([None, [1, 2], None, [3, 4]], layout).slice(1)
        ids = [f"{number}{n}" for n in range(3)]
        table.upsert(pa.table({"id": ids, "v": column}))
        found = stored(table)
        assert [found[i]["v"] for i in ids] == [[1, 2], None, [3, 4]]


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_vector_column_is_added_and_stays_one_when_others_are(kind: str) -> None:
    table = new(pa.schema([("id", pa.string())]), table_type=kind)
    table.insert(pa.table({"id": ["1", "2"]}))
    one = pa.array([[1, 2, 3]], pa.list_(pa.float32(), 3))
    added = pa.table([pa.array(["2"]), one], schema=pa.schema([("id", pa.string()), F3]))
    table.upsert(added, schema_mode="widen")
    table.upsert(pa.table({"id": ["1"], "f": one, "more": [5]}), schema_mode="widen")
    assert table.schema.field("f").metadata == {b"hudi_type": b"VECTOR(3)"}
    assert stored(table) == {
        "1": {"id": "1", "f": [1, 2, 3], "more": 5},
        "2": {"id": "2", "f": [1, 2, 3], "more": None},
    }


@pytest.mark.parametrize("key", ["record_key", "ordering", "partition_by"])
def test_a_vector_is_no_key_and_no_order(key: str) -> None:
    with pytest.raises(pyhudi.PyhudiError):
        new(pa.schema([("id", pa.string()), F3]), **{key: "f"})


def test_a_table_of_apache_hudi_goes_on_with_its_vectors(tmp_path: Path) -> None:
    """Version 6, merge-on-read, two columns of one kind; written by Apache Hudi 1.2.0."""
    root = foreign_table("vectors_mor_v6", tmp_path)
    table = pyhudi.open_table(root, options={"hoodie.index.type": "BLOOM"})
    before = stored(table)
    expected = by_id(expected_rows(tmp_path).select(["id", "f", "g", "ts"]))
    assert before == expected
    table.upsert(
        pa.table(
            {
                "id": ["1", "9"],
                "f": pa.array([[7, 8], None], pa.list_(pa.float32())),
                "g": pa.array([None, [9, 10]], pa.list_(pa.float32())),
                "ts": [5, 5],
            }
        )
    )
    new_rows = {
        "1": {"id": "1", "f": [7.0, 8.0], "g": None, "ts": 5},
        "9": {"id": "9", "f": None, "g": [9.0, 10.0], "ts": 5},
    }
    assert stored(table) == {**expected, **new_rows}
    table.compact()
    assert stored(table) == {**expected, **new_rows}

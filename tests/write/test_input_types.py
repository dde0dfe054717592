"""What a batch's schema may hold: every type with an Apache Hudi type, each name once."""

from __future__ import annotations

import datetime as dt
import itertools
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.errors import SchemaError

names = itertools.count()
DAY = dt.date(2020, 1, 1)
STRUCT = pa.struct([("b", pa.uint16()), ("a", pa.large_list(pa.uint8()))])
CASES: list[tuple[pa.DataType, list[Any], pa.DataType]] = [
    (pa.uint8(), [255], pa.int32()),
    (pa.uint16(), [65535], pa.int32()),
    (pa.uint32(), [(1 << 32) - 1], pa.int64()),
    (pa.float16(), [np.float16(1.5)], pa.float32()),
    (pa.date64(), [DAY], pa.date32()),
    (pa.time32("s"), [dt.time(1, 2, 3)], pa.time32("ms")),
    (pa.large_list(pa.int64()), [[1, None]], pa.list_(pa.field("element", pa.int64()))),
    (pa.large_list(pa.large_string()), [["a", None]], pa.list_(pa.field("element", pa.string()))),
    (pa.list_(pa.int64(), 2), [[1, 2]], pa.list_(pa.field("element", pa.int64()))),
    (pa.list_view(pa.int64()), [[1, None]], pa.list_(pa.field("element", pa.int64()))),
    (pa.large_list(STRUCT), [[{"b": 1, "a": [2]}]], pa.null()),
    (pa.map_(pa.large_string(), pa.uint8()), [[("k", 1)]], pa.map_(pa.string(), pa.int32())),
]


def made(schema: pa.Schema, **more: Any) -> Table:
    return pyhudi.create_table(f"memory://types{next(names)}", schema, record_key="id", **more)


def stored(table: Table) -> dict[str, Any]:
    rows = table.scan(with_meta=False).to_arrow().to_pylist()
    return {row["id"]: row["c"] for row in rows}


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("given, values, retained", CASES, ids=lambda v: str(v)[:30])
def test_types_with_a_like_in_apache_hudi_are_written(
    table_type: str, given: pa.DataType, values: list[Any], retained: pa.DataType
) -> None:
    schema = pa.schema([("id", pa.string()), ("c", given)])
    table = made(schema, table_type=table_type)
    if retained != pa.null():
        assert table.schema.field("c").type == retained
    rows = pa.table({"id": ["1", "2"], "c": pa.array([*values, None], given)}, schema)
    for _ in range(2):
        table.upsert(rows)
    table.bulk_insert(rows.slice(1).set_column(0, "id", pa.array(["3"])))
    expected = pa.array(values, given).to_pylist()
    assert stored(table) == {"1": expected[0], "2": None, "3": None}
    table.delete(rows.slice(0, 1))
    assert sorted(stored(table)) == ["2", "3"]


@pytest.mark.parametrize(
    "kind",
    [
        pa.uint64(), pa.duration("us"), pa.map_(pa.int32(), pa.string()), pa.null(),
        pa.list_(pa.uint64()), pa.struct([("a", pa.month_day_nano_interval())]),
    ],
    ids=str,
)  # fmt: skip
def test_types_without_a_like_are_refused_at_creation(kind: pa.DataType) -> None:
    with pytest.raises(SchemaError, match="cannot be stored"):
        made(pa.schema([("id", pa.string()), ("c", kind)]))


def test_a_map_whose_keys_are_not_text_does_not_fit() -> None:
    table = made(pa.schema([("id", pa.string()), ("c", pa.map_(pa.string(), pa.int64()))]))
    wrong = pa.array([[(1, 1)]], pa.map_(pa.int64(), pa.int64()))
    with pytest.raises(SchemaError, match="does not fit"):
        table.upsert(pa.table({"id": ["1"], "c": wrong}))


SIMPLE = pa.schema([("id", pa.string()), ("v", pa.int64())])
VERBS = ["upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete"]


@pytest.mark.parametrize("verb", VERBS)
@pytest.mark.parametrize("twice", ["id", "v", "new"])
@pytest.mark.parametrize("stream", [False, True])
def test_a_repeated_column_is_named_before_anything_is_written(
    verb: str, twice: str, stream: bool
) -> None:
    table = made(SIMPLE)
    table.upsert(pa.table({"id": ["0"], "v": [0]}))
    before = len(table.timeline)
    columns = {"id": pa.array(["1"]), "v": pa.array([1]), "new": pa.array([1])}
    rows = pa.Table.from_arrays([*columns.values(), columns[twice]], [*columns, twice])
    given = rows.to_reader() if stream else rows
    with pytest.raises(SchemaError, match=rf"duplicate.*columns={twice}"):
        getattr(table, verb)(given)
    assert len(table.timeline) == before


def test_a_repeated_field_of_a_struct_is_named() -> None:
    kind = pa.struct([("a", pa.int64()), ("b", pa.string())])
    table = made(pa.schema([("id", pa.string()), ("s", kind)]))
    inner = pa.StructArray.from_arrays(
        [pa.array([1]), pa.array([2]), pa.array(["x"])], names=["a", "a", "b"]
    )
    for column, path in (
        (inner, "s.a"),
        (pa.ListArray.from_arrays(pa.array([0, 1], pa.int32()), inner), "s.element.a"),
    ):
        with pytest.raises(SchemaError, match=rf"duplicate.*columns={path}"):
            table.upsert(pa.table([pa.array(["1"]), column], names=["id", "s"]))


@pytest.mark.parametrize(
    "schema",
    [
        pa.schema([("id", pa.string()), ("a", pa.int64()), ("a", pa.int64())]),
        pa.schema([("id", pa.string()), ("ID", pa.int64())]),
        pa.schema([("id", pa.string()), ("_Hoodie_Commit_Time", pa.string())]),
        pa.schema([("id", pa.string()), ("s", pa.struct([("x", pa.int64()), ("X", pa.int64())]))]),
        pa.schema(
            [("id", pa.string()), ("l", pa.list_(pa.struct([("x", pa.int64()), ("X", pa.int8())])))]
        ),
    ],
)
def test_names_that_spark_takes_for_one_are_refused_at_creation(schema: pa.Schema) -> None:
    with pytest.raises(SchemaError, match=r"duplicate|only in case"):
        made(schema)

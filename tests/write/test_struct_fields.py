"""A struct with other fields than the table's column neither loses values nor drops fields."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.errors import PyhudiError

X, Y = pa.field("x", pa.int32()), pa.field("y", pa.string())
FULL = {"x": 1, "y": "stored"}
LACKS, MORE = pa.struct([X]), pa.struct([X, Y, pa.field("z", pa.int32())])
SHAPES: dict[str, tuple[Callable[[pa.DataType], pa.DataType], Callable[[Any], Any]]] = {
    "struct": (lambda kind: kind, lambda value: value),
    "list": (pa.list_, lambda value: [value]),
    "map": (lambda kind: pa.map_(pa.string(), kind), lambda value: [("k", value)]),
    "inner struct": (lambda kind: pa.struct([pa.field("in", kind)]), lambda value: {"in": value}),
}
FILLS = {"hoodie.write.set.null.for.missing.columns": "true"}


def merged(table: Table, rows: pa.Table) -> None:
    table.merge(rows).when_matched_update().execute()


def inserted(table: Table, rows: pa.Table) -> None:
    table.merge(rows).when_not_matched_insert().execute()


def assigned(table: Table, rows: pa.Table) -> None:
    table.merge(rows).when_matched_update({"s": "source.s"}).execute()


def merged_by_sql(table: Table, rows: pa.Table) -> None:
    text = "merge into t using src on t.id = src.id when matched then update set *"
    pyhudi.sql(text, tables={"t": table, "src": rows})


def assigned_by_sql(table: Table, rows: pa.Table) -> None:
    text = "merge into t using src on t.id = src.id when matched then update set t.s = src.s"
    pyhudi.sql(text, tables={"t": table, "src": rows})


def upserted(table: Table, rows: pa.Table) -> None:
    table.upsert(rows)


WRITES = [merged, inserted, assigned, merged_by_sql, assigned_by_sql, upserted]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("given", [LACKS, MORE], ids=["lacks a field", "has one more"])
@pytest.mark.parametrize("write", WRITES)
def test_rows_with_other_fields_are_refused(
    write: Callable[[Table, pa.Table], None], given: pa.StructType, shape: str, tmp_path: Path
) -> None:
    kind_of, value_of = SHAPES[shape]
    schema = pa.schema([("id", pa.string()), ("s", kind_of(pa.struct([X, Y])))])
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    table.upsert(pa.table({"id": ["a"], "s": [value_of(FULL)]}, schema=schema))
    before = table.to_arrow()
    values = pa.array([value_of({"x": 2})], kind_of(given))
    key = "b" if write is inserted else "a"
    with pytest.raises(PyhudiError, match=r"\by\b" if given is LACKS else r"\bz\b"):
        write(table, pa.table({"id": [key], "s": values}))
    assert pyhudi.open_table(table.path).to_arrow().equals(before)


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("write", WRITES)
def test_values_that_are_all_null_lack_no_fields(
    write: Callable[[Table, pa.Table], None], shape: str, tmp_path: Path
) -> None:
    kind_of, value_of = SHAPES[shape]
    schema = pa.schema([("id", pa.string()), ("s", kind_of(pa.struct([X, Y])))])
    key = "b" if write is inserted else "a"
    for n, given in enumerate([pa.nulls(1), pa.array([value_of(None)], kind_of(pa.null()))]):
        table = pyhudi.create_table(tmp_path / str(n), schema, record_key="id")
        table.upsert(pa.table({"id": ["a"], "s": [value_of(FULL)]}, schema=schema))
        write(table, pa.table({"id": [key], "s": given}))
        written = {row["id"]: row["s"] for row in table.to_arrow().to_pylist()}
        assert written[key] == given[0].as_py()


@pytest.mark.parametrize("empty", ["array()", "map()"])
def test_a_merge_by_sql_takes_empty_lists_and_maps(empty: str, tmp_path: Path) -> None:
    kind_of, value_of = SHAPES["list" if empty == "array()" else "map"]
    schema = pa.schema([("id", pa.string()), ("s", kind_of(pa.struct([X, Y])))])
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    table.upsert(pa.table({"id": ["a"], "s": [value_of(FULL)]}, schema=schema))
    pyhudi.sql(
        f"merge into t using (select 'a' as id, {empty} as s) src on t.id = src.id "
        "when matched then update set *",
        tables={"t": table},
    )
    assert table.to_arrow()["s"].to_pylist() == [[]]


def test_the_error_for_other_fields_names_the_column(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("s", pa.struct([X, Y]))])
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    table.upsert(pa.table({"id": ["a"], "s": [FULL]}, schema=schema))
    with pytest.raises(PyhudiError, match=r"column=s, missing=s\.y;"):
        assigned_by_sql(table, pa.table({"id": ["a"], "s": pa.array([{"x": 2}], LACKS)}))


def test_fields_of_a_struct_that_no_clause_takes_may_differ(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("n", pa.int32()), ("s", pa.struct([X, Y]))])
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    table.upsert(pa.table({"id": ["a"], "n": [0], "s": [FULL]}, schema=schema))
    rows = pa.table({"id": ["a"], "s": pa.array([{"x": 2, "z": 3}], MORE)})
    table.merge(rows).when_matched_update({"n": "source.s.z"}).execute()
    assert table.to_arrow().to_pylist() == [{"id": "a", "n": 3, "s": FULL}]


def test_missing_fields_are_null_where_an_option_fills_them(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("s", pa.struct([X, Y]))])
    pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    table = pyhudi.open_table(tmp_path / "t", options=FILLS)
    rows = pa.table({"id": ["a"], "s": pa.array([{"x": 2}], LACKS)})
    table.merge(rows).when_not_matched_insert().execute()
    merged_by_sql(table, rows)
    assert table.to_arrow()["s"].to_pylist() == [{"x": 2, "y": None}]


def test_a_struct_column_is_not_assigned_to_one_with_other_fields(tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.string()), ("s", pa.struct([X, Y])), ("o", LACKS)])
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    table.upsert(pa.table({"id": ["a"], "s": [FULL], "o": [{"x": 2}]}, schema=schema))
    for target, other in (("s", "o"), ("o", "s")):
        with pytest.raises(PyhudiError, match=r"\by\b"):
            table.update({target: other})
    assert table.to_arrow()["s"].to_pylist() == [FULL]

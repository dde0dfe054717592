"""Filters as SQL text select the rows that DuckDB selects, on every method that takes `where`."""

from __future__ import annotations

import datetime as dt
from decimal import Decimal
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pyarrow.dataset
import pytest

import pyhudi
from pyhudi.errors import UserError
from pyhudi.read.sql.sql_filter import as_filter, as_value

UTC = pa.timestamp("us", "UTC")
NAIVE = pa.timestamp("us")
MOMENTS = [dt.datetime(2026, 1, 1, 3), dt.datetime(2026, 2, 1), None, dt.datetime(2025, 1, 1)]


def rows() -> pa.Table:
    return pa.table(
        {
            "n": pa.array([1, 2, 3, None], pa.int32()),
            "f": [1.5, None, -2.0, 4.0],
            "city": ["sf", "la", None, "SF"],
            "d": pa.array(
                [Decimal("1.500"), Decimal("2.25"), None, Decimal(0)], pa.decimal128(10, 3)
            ),
            "day": pa.array([m and m.date() for m in MOMENTS], pa.date32()),
            "moment": pa.array(MOMENTS, UTC),
            "wall": pa.array(MOMENTS, NAIVE),
            "b": [True, False, None, True],
            "s": [{"x": 1}, {"x": 2}, None, {"x": None}],
            "odd name": [1, 2, 3, 4],
            "row": [1, 2, 3, 4],
        }
    )


CONDITIONS = """
n > 1 | n = 1 or city = 'la' | not (n = 1 or city = 'la') | n in (1,3) | n not in (1,3)
n not in (1,null) | n in (1,null) | not (n in (1,3) and f > 0) | f between 1 and 4
f not between 1 and 4 | city like 's%' | city ilike 's%' | not city like 's_' | city is null
city is not null | b | not b | b is true | b is not true | b is false | b is not false
n is distinct from 1 | n is not distinct from null | city is not distinct from 'sf' | d = 1.5
n is distinct from null | d in (1.5, 2.25) | d > 1 | d <> 0 | day >= date '2026-01-01'
day = '2026-01-01' | moment = timestamp '2026-01-01 03:00:00' | moment < '2026-01-15T00:00:00+01:00'
wall >= '2026-01-01' | wall = timestamp '2026-02-01' | s.x = 1 | n + 1 = 3 | n * 2 > f | n / 2 = 1.5
n / 0 = 1 | -n < -1 | abs(f) = 2 | lower(city) = 'sf' | upper(city) in ('SF', 'X')
length(city) = 2 | coalesce(n, 7) = 7 | cast(n as varchar) = '2' | cast(city as varchar) = 'la'
"odd name" > 3 | N = 2 | n > 1.5 | n in (1, 2.0) | year(day) = 2026 | 1 < n | n = 99999999999
n in (1, 99999999999) | n between 1 and 2 and not (city = 'sf') | f > 1 and b | (n > 1) and true
n = null | not (n = null) | city = 'it''s' | not (b is null or n is null) | f = 4 | f >= -2
"""


@pytest.mark.parametrize(
    "text", [t.strip() for t in CONDITIONS.replace("\n", "|").split("|") if t.strip()]
)
def test_text_selects_what_duckdb_selects(text: str) -> None:
    stored = rows()
    with duckdb.connect() as peer:
        peer.execute("set timezone = 'UTC'")
        peer.register("stored", stored)
        expected = [
            row for (row,) in peer.execute(f"select row from stored where {text}").fetchall()
        ]
    assert stored.filter(as_filter(text, stored.schema)).column("row").to_pylist() == expected


def test_backquotes_quote_names_too() -> None:
    stored = rows()
    assert stored.filter(as_filter("`odd name` = 2", stored.schema)).num_rows == 1


def test_many_conditions_are_no_deep_expression() -> None:
    stored = rows()
    text = " or ".join(f"n = {n}" for n in range(3000))
    assert stored.filter(as_filter(text, stored.schema)).num_rows == 3


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n >", "not valid SQL"),
        ("n = 1; drop table t", "not valid SQL"),
        ("", "not valid SQL"),
        ("nope = 1", "a column that the table lacks.*column=nope.*columns: n, f, city"),
        ("s.y = 1", r"column=s\.y.*columns: x"),
        ("n in (select 1)", r"not supported.*part=n IN \(SELECT 1\)"),
        ("foo(n) = 1", r"not supported.*part=FOO\(n\)"),
        ("case n when 1 then true end", "a part of the filter is not supported"),
        ("n", "is not a condition"),
        ("(n = 1) = (n = 2)", "is a condition, not a value"),
        ("day = 'x'", "not of the column's type.*literal=x.*date32"),
        ("city = 5", "does not match the table"),
    ],
)
def test_text_that_cannot_be_a_filter_is_refused(tmp_path: Path, text: str, message: str) -> None:
    schema = rows().drop(["odd name"]).schema
    table = pyhudi.create_table(tmp_path / "t", schema, record_key="row")
    with pytest.raises(UserError, match=message):
        table.scan(where=text).to_arrow()


def test_every_method_with_a_filter_takes_text(tmp_path: Path) -> None:
    made: Any = {"record_key": "row", "partition_by": "city", "table_type": "mor"}
    stored = rows().drop(["odd name"]).set_column(2, "city", pa.array(["sf", "la", "la", "sf"]))
    table = pyhudi.create_table(tmp_path / "t", stored.schema, **made)
    table.upsert(stored)
    first = table.timeline.commits.last.time
    table.upsert(stored.slice(0, 1).set_column(0, "n", pa.array([9], pa.int32())))
    scan = table.scan("row", "city = 'sf'")
    assert sorted(scan.to_arrow().column("row").to_pylist()) == [1, 4]
    assert scan.plan.partitions_read == 1
    dataset = table.scan(where="city = 'sf'").to_pyarrow_dataset()
    assert dataset.to_table(filter=as_filter("n = 9", dataset.schema)).num_rows == 1
    assert table.changes(first, where="n = 9").count() == 1
    assert table.changes(first, where="n = 8").count() == 0
    moment = table.timeline.commits.first.completed_at or first
    assert table.diff(moment, where="city = 'sf'").num_rows == 1
    assert table.lookup(where="n = 9").column("record_key").to_pylist() == ["1"]
    assert table.delete(where="f < 0 or n = 9").deleted == 2
    assert sorted(table.scan("row").to_arrow().column("row").to_pylist()) == [2, 4]


def test_a_key_in_text_reads_only_its_file_group(tmp_path: Path) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", pa.schema([("id", pa.string()), ("p", pa.string())]),
        record_key="id", partition_by="p",
    )  # fmt: skip
    table.upsert(
        pa.table({"id": [f"k{n}" for n in range(40)], "p": [f"p{n % 8}" for n in range(40)]})
    )
    scan = table.scan(where="id in ('k3', 'k11')")
    assert len(scan.tasks) == 1 and scan.count() == 2


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n +", r"^the value is not valid SQL; value=n \+"),
        ("absent", "^the value names a column that the table lacks; value=absent"),
        ("foo(n)", "^a part of the value is not supported; value="),
        ("n between 1 and 2", "^a part of the value is a condition, not a value; value="),
    ],
)
def test_messages_about_values_do_not_speak_of_filters(text: str, message: str) -> None:
    with pytest.raises(UserError, match=message):
        as_value(text, pa.schema({"n": pa.int64()}), pa.int64())


def test_fields_of_scopes_are_found_without_the_scope_where_one_has_them() -> None:
    sides = pa.schema(
        {
            "source": pa.struct({"n": pa.int64(), "op": pa.string()}),
            "target": pa.struct({"n": pa.int64()}),
        }
    )
    scopes = ("source", "target")
    rows = pa.table({"source": [{"n": 1, "op": "D"}, {"n": 2, "op": "U"}],
                     "target": [{"n": 1}, {"n": 1}]}, sides)  # fmt: skip
    dataset = pyarrow.dataset.dataset(rows)
    for text in ("op = 'U'", "source.n > target.n", "SOURCE.op = 'U' and target.n = 1"):
        assert dataset.to_table(filter=as_filter(text, sides, scopes)).num_rows == 1, text
    with pytest.raises(UserError, match=r"a column of both sides.*write source.n or target.n"):
        as_filter("n > 1", sides, scopes)
    with pytest.raises(UserError, match=r"unknown column.*column=x; source has n, op; target has"):
        as_value("x", sides, pa.int64(), scopes)

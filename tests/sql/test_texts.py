"""Changed statements end in errors of pyhudi; no value, name or path is read as SQL."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import strategies as st

import pyhudi
from tests.sql.fuzz import foreign
from tests.support.examples import UNSHRUNK, examples

FRAGMENTS = (
    "'", '"', "`", "\\", ";", "--", "/*", "*/", "\0", "\n", "?", ":p", "$1", "{x}", "é",
    "\u202e", "😀",
    " or 1=1", "') or ('a'='a", "drop table t", "\\'", "''", "%", "_", "#", "x",
)  # fmt: skip
ODD = st.lists(st.sampled_from(FRAGMENTS), min_size=1, max_size=5).map("".join) | st.text(
    st.characters(exclude_categories=["Cs"]), min_size=1, max_size=12
)


def test_changed_statements_end_in_errors_of_pyhudi(tmp_path: Path) -> None:
    found, counts = foreign(100, 3, tmp_path)
    assert not found and counts["run"] and counts["refused"]


@pytest.mark.parametrize(
    "call",
    ["dayofweek()", "substr('a')", "ceil()", "pmod(1)", "bigint(1, 2)", "isnull(1, 2)", "every()",
     "weekday()", "regexp_replace(1, 2)", "regexp_extract('a', 'b', 'c', 'd')", "isnotnull()",
     "ts_or_ds_add('a', 'b', 'c', 'd')"],
)  # fmt: skip
def test_a_function_with_other_arguments_is_an_error_of_pyhudi(call: str) -> None:
    with pytest.raises(
        pyhudi.UserError, match=r"arguments|not valid SQL|position|rejected|the engine"
    ):
        pyhudi.sql(f"select {call}")


@pytest.mark.parametrize(
    "text",
    ["select map('a' map(), 1)", "delete from t where map('a' map(), 1) = 2",
     "call show_commits(map('a' map(), 1))"],
)  # fmt: skip
def test_a_fault_of_the_parser_is_a_typed_error(text: str) -> None:
    with pytest.raises(pyhudi.UserError, match="not valid SQL"):
        pyhudi.sql(text, tables={"t": "nowhere"})


def test_a_value_that_a_later_part_of_a_query_cannot_cast_is_a_typed_error() -> None:
    rows = pa.table({"id": ["a"], "op": ["U"]})
    text = "select id from r union all select id from r where op = 3"
    with pytest.raises(pyhudi.UserError, match="the query failed"):
        pyhudi.sql(text, tables={"r": rows})


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def literal(value: str) -> str:
    return "'" + value.replace("\\", "\\\\").replace("'", "''") + "'"


@examples(5, 300, UNSHRUNK, value=ODD, other=ODD, name=ODD)
def test_values_and_names_are_never_read_as_sql(
    tmp_path_factory: pytest.TempPathFactory, value: str, other: str, name: str
) -> None:
    rows = pa.table({"id": ["safe"], "v": ["old"]})
    path = tmp_path_factory.mktemp("t") / "t"
    pyhudi.create_table(path, rows.schema, record_key="id").upsert(rows)
    tables = {name: str(path)}
    given = [value, other]
    table = quoted(name)
    pyhudi.sql(f"insert into {table} values (?, ?)", tables=tables, parameters=given)
    found = pyhudi.sql(
        f"select v, ? as a, {literal(other)} as b from {table} where id = {literal(value)}",
        tables=tables, parameters=[value],
    )  # fmt: skip
    assert found.to_pylist() == [{"v": other, "a": value, "b": other}]
    pyhudi.sql(
        f"merge into {table} t using (select {literal(value)} as id, :o as v) s on t.id = s.id "
        "when matched and t.v = :o then update set v = concat(t.v, :v)",
        tables=tables, parameters={"o": other, "v": value},
    )  # fmt: skip
    pyhudi.sql(f"update {table} set v = ? where id = ?", tables=tables, parameters=["x", other])
    expected = {"safe": "old", value: "x" if other == value else other + value}
    stored = pyhudi.open_table(path).to_arrow().to_pylist()
    assert {row["id"]: row["v"] for row in stored} == expected
    pyhudi.sql(f"delete from {table} where id = :v", tables=tables, parameters={"v": value})
    assert pyhudi.open_table(path).count() == 1


@examples(3, 100, UNSHRUNK, name=ODD.filter(lambda name: "\0" not in name and "/" not in name))
def test_a_path_is_never_read_as_sql(tmp_path_factory: pytest.TempPathFactory, name: str) -> None:
    rows = pa.table({"id": ["safe"]})
    path = tmp_path_factory.mktemp("t") / f"x{name}"
    pyhudi.create_table(path, rows.schema, record_key="id").upsert(rows)
    pyhudi.sql(f"insert into hudi.{quoted(str(path))} values ('b')")
    found = pyhudi.sql(f"select id from hudi.{quoted(str(path))} order by id")
    assert found["id"].to_pylist() == ["b", "safe"]

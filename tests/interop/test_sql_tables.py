"""Tables that SQL of ours creates and alters are read, written and altered by Apache Hudi."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.support.apache_hudi import ApacheHudi, newest_table_version

pytestmark = pytest.mark.interop

COLUMNS = ["id", "fare", "s", "tip", "city"]


def rows_of(table: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = table.select(COLUMNS).sort_by("id").to_pylist()
    return found


def both_read(apache: ApacheHudi, path: Path) -> list[dict[str, Any]]:
    """The rows, which both programs must read."""
    ours = rows_of(pyhudi.open_table(path).to_arrow())
    assert rows_of(apache.read(path)) == ours
    return ours


def write_by_apache(apache: ApacheHudi, path: Path, rows: list[dict[str, Any]]) -> None:
    """An upsert of rows with the columns of the table."""
    schema = pyhudi.open_table(path).schema
    known = pa.schema([field for field in schema if not field.name.startswith("_hoodie")])
    pq.write_table(pa.Table.from_pylist(rows, known), path.parent / "rows.parquet")
    apache.call("write", path=str(path), rows=str(path.parent / "rows.parquet"), operation="upsert")


@pytest.mark.parametrize("has_rows", [True, False])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_table_with_added_columns_is_read_and_written_by_both(
    kind: str, has_rows: bool, apache: ApacheHudi, tmp_path: Path
) -> None:
    version = newest_table_version([apache])
    lake, path = pyhudi.connect(tmp_path), tmp_path / "rides"
    lake.sql(
        "create table rides (id bigint comment 'of it''s ☃ meter', fare float, s struct<a: int>, "
        "ts bigint, city string) using hudi partitioned by (city) comment 'all rides' "
        "tblproperties (primaryKey = 'id', preCombineField = 'ts', "
        f"type = '{kind}', hoodie.table.version = {version})"
    )
    if has_rows:
        lake.sql(
            "insert into rides values (1, 1.5, struct(1 as a), 1, 'sf'), (2, 2.5, null, 1, 'la')"
        )
    lake.sql("alter table rides add columns (tip bigint comment 'in cash', s.b string)")
    lake.sql("alter table rides alter column fare type double")
    lake.sql("alter table rides alter column s.a comment 'inner'")
    old = [
        {"id": 1, "fare": 1.5, "s": {"a": 1, "b": None}, "tip": None, "city": "sf"},
        {"id": 2, "fare": 2.5, "s": None, "tip": None, "city": "la"},
    ]
    if has_rows:
        assert both_read(apache, path) == old
    changed = {"id": 2, "fare": 1e300, "s": {"a": 5, "b": "x"}, "tip": 2**40, "city": "la"}
    new = {"id": 3, "fare": 3.5, "s": None, "tip": 4, "city": "ny"}
    write_by_apache(apache, path, [{**row, "ts": 2} for row in (changed, new)])
    expected = [old[0], changed, new] if has_rows else [changed, new]
    assert both_read(apache, path) == expected
    lake.sql("update rides set tip = 9 where id = 3")
    lake.sql("insert into rides (id, ts, tip, city) values (4, 1, 7, 'sf')")
    found = both_read(apache, path)
    assert [row["tip"] for row in found] == [None, 2**40, 9, 7][0 if has_rows else 1 :]
    assert pyhudi.open_table(path).doctor().findings == ()


def test_columns_that_apache_hudi_adds_are_read_and_written_here(
    apache_hudi: Any, tmp_path: Path
) -> None:
    apache = apache_hudi("1.2.0")
    lake, path = pyhudi.connect(tmp_path), tmp_path / "rides"
    lake.sql(
        "create table rides (id bigint, fare float, s struct<a: int>, city string) "
        "using hudi partitioned by (city) tblproperties (primaryKey = 'id')"
    )
    lake.sql("insert into rides values (1, 1.5, struct(1 as a), 'sf')")
    apache.call("sql", path=str(path), text="alter table {table} add columns (tip bigint)")
    assert pyhudi.open_table(path).schema.names[-2:] == ["tip", "city"]
    lake.sql("update rides set tip = 2")
    assert both_read(apache, path)[0]["tip"] == 2
    lake.sql("alter table rides add columns (n int)")
    apache.call("sql", path=str(path), text="insert into {table} values (7, 1, null, 5, 6, 'sf')")
    assert [row["tip"] for row in both_read(apache, path)] == [2, 5]
    described = apache.call("sql", path=str(path), text="describe {table}")["results"]
    assert [row["col_name"] for row in described[5:11]] == ["id", "fare", "s", "tip", "n", "city"]


EVOLVED = {
    "hoodie.schema.on.read.enable": "true",
    "hoodie.datasource.write.schema.allow.auto.evolution.column.drop": "true",
}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_columns_that_either_program_renames_and_drops_are_read_by_both(
    kind: str, apache: ApacheHudi, tmp_path: Path
) -> None:
    version = newest_table_version([apache])
    lake, path = pyhudi.connect(tmp_path), tmp_path / "rides"

    def by_apache(text: str) -> Any:
        return apache.call("sql", path=str(path), text=text, conf=EVOLVED)["results"]

    def both_find(*columns: str) -> list[tuple[Any, ...]]:
        query = f"select {', '.join(columns)} from {{table}} order by id"
        ours = lake.sql(query.replace("{table}", "rides")).to_pylist()
        assert by_apache(query) == ours
        return [tuple(row.values()) for row in ours]

    lake.sql(
        "create table rides (id bigint, a int comment 'in cash', b string, s struct<x: int>, "
        "l array<struct<k: int>>, m map<string, int>, d decimal(10, 2), at timestamp, ts bigint, "
        "city string) partitioned by (city) tblproperties (primaryKey = 'id', "
        f"preCombineField = 'ts', type = '{kind}', hoodie.table.version = {version})"
    )
    lake.sql(
        "insert into rides (id, a, b, s, ts, city) values (1, 10, 'x', struct(1 as x), 1, 'sf'), "
        "(2, 20, 'y', null, 1, 'sf'), (3, 30, 'z', null, 1, 'la')"
    )
    lake.sql("alter table rides rename column a to aa")
    lake.sql("alter table rides drop column b")
    lake.sql("update rides set aa = 21 where id = 2")
    lake.sql("alter table rides add columns (b int)")
    assert both_find("id", "aa", "b", "s") == [
        (1, 10, None, {"x": 1}), (2, 21, None, None), (3, 30, None, None),
    ]  # fmt: skip
    by_apache("update {table} set aa = 31, b = 3 where id = 3")
    by_apache("alter table {table} rename column aa to a")
    by_apache("alter table {table} drop column b")
    by_apache("alter table {table} add columns (b string)")
    assert both_find("id", "a", "b") == [(1, 10, None), (2, 21, None), (3, 31, None)]
    lake.sql("update rides set b = 'new' where id = 1")
    by_apache("update {table} set a = 22 where id = 2")
    expected = [(1, 10, "new"), (2, 22, None), (3, 31, None)]
    assert both_find("id", "a", "b") == expected
    table = pyhudi.open_table(path)
    _ = table.compact() if kind == "mor" else table.cluster()
    by_apache("update {table} set a = 32 where id = 3")
    assert both_find("id", "a", "b") == [*expected[:2], (3, 32, None)]
    assert pyhudi.open_table(path).doctor().findings == ()


def test_hudi_metadata_gives_the_records_that_apache_hudi_reads(
    apache_hudi: Any, tmp_path: Path
) -> None:
    apache = apache_hudi("1.2.0")
    path, out = tmp_path / "rides", tmp_path / "records.parquet"
    lake = pyhudi.connect(tmp_path, options={"hoodie.metadata.compact.max.delta.commits": "4"})
    lake.sql(
        "create table rides (id int, fare double, d decimal(10, 2), at timestamp, s string, "
        "city string) partitioned by (city) tblproperties (primaryKey = 'id', "
        "hoodie.metadata.index.column.stats.enable = true, "
        "hoodie.metadata.index.bloom.filter.enable = true)"
    )
    lake.sql(
        "insert into rides values (1, 1.5, 1.25, timestamp '2026-01-02 03:04:05', 'x', 'sf'), "
        "(2, 2.5, null, null, 'y', 'la')"
    )
    lake.sql("create index i on rides (s)")
    lake.sql("create index e on rides using column_stats (s) options (expr = 'upper')")
    for number in range(3):
        lake.sql(f"update rides set s = 'z{number}' where id = 1")
    lake.sql("delete from rides where id = 2")
    lake.sql("call run_clean('rides', retain_commits => 1)")
    ours = lake.sql("select * from hudi_metadata('rides')")
    text = f"select * from hudi_metadata('{path}')"
    apache.call("sql", path=str(path), text=text, out=str(out))
    theirs = pq.read_table(out)
    assert ours.column_names == theirs.column_names
    assert {row["type"] for row in ours.to_pylist()} == {1, 2, 3, 4, 5, 6, 7}

    def as_texts(rows: pa.Table) -> list[str]:
        found = rows.to_pylist()
        for row in found:
            row["filesystemMetadata"] = sorted(row["filesystemMetadata"] or [])
        return sorted(map(str, found))

    assert as_texts(ours) == as_texts(theirs)

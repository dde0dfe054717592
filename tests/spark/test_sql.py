"""`pyhudi.spark.sql` gives what the table of statements says."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import pyhudi
import pyhudi.spark as hudi
from tests.sql.cases import DELETES, INSERTS, MERGES, QUERIES, SOURCES, UPDATES, Case
from tests.sql.reading_cases import READ, WRONG
from tests.sql.test_statements import stored, trips

OTHER = (
    "1.5 where id = 'a'",  # Spark casts as its store assignment does
    "7 % 4",  # decimal quotients
)
"""Statements of which Spark gives other values than DuckDB."""
CASES = [
    case
    for case in (*QUERIES, *UPDATES, *DELETES, *INSERTS, *MERGES)
    if case.ordered is None and not any(text in case.sql for text in OTHER)
]
FEW = 9


@pytest.mark.parametrize(
    "case",
    [
        case if number % FEW == 0 else pytest.param(case, marks=pytest.mark.slow)
        for number, case in enumerate(CASES)
    ],
    ids=lambda case: case.sql[:90],
)
def test_a_statement_gives_its_rows_on_spark(spark: Any, case: Case, tmp_path: Path) -> None:
    table = trips(tmp_path, "mor")
    before = stored(table)

    def runs() -> Any:
        found = hudi.sql(
            spark, case.sql, tables={"trips": table.path, **SOURCES},
            parameters=case.parameters, options=dict(case.options) or None,
        )  # fmt: skip
        return sorted(map(tuple, found.collect())) if case.rows is not None else found

    if case.error is not None:
        with pytest.raises(pyhudi.PyhudiError):
            runs()
        assert stored(table) == before
        return
    found = runs()
    if case.rows is not None:
        assert found == sorted(case.rows)
        return
    assert case.change is not None
    after = {**before, **{key: [row] for key, row in case.change.items() if row is not None}}
    for key in (key for key, row in case.change.items() if row is None):
        del after[key]
    assert stored(table) == after


def test_a_value_that_spark_cannot_compute_is_a_typed_error(spark: Any, tmp_path: Path) -> None:
    table = trips(tmp_path, "cow")
    before = stored(table)
    with pytest.raises(pyhudi.UserError, match=r"Spark cannot compute a value.*CAST"):
        hudi.sql(spark, "update trips set n = 'x' where id = 'a'", tables={"trips": table.path})
    with pytest.raises(pyhudi.UserError, match=r"Spark rejected the query.*cannot cast"):
        text = "insert into trips values ('z', map('k', 1), 1, 1, 'sf')"
        hudi.sql(spark, text, tables={"trips": table.path})
    with pytest.raises(pyhudi.UserError, match="an operand needs parentheses"):
        hudi.sql(spark, "delete from trips where n in (1) is true", tables={"trips": table.path})
    with pytest.raises(pyhudi.UserError, match="More than one row returned by a subquery"):
        text = "update trips set fare = (select fare from news)"
        hudi.sql(spark, text, tables={"trips": table.path, **SOURCES})
    assert stored(table) == before


def test_a_table_as_of_now_and_one_with_options_are_tables_of_spark(
    spark: Any, tmp_path: Path
) -> None:
    trips(tmp_path, "cow")
    table = hudi.open_table(spark, tmp_path / "trips")
    for same in (table.frozen(), table.with_options({"hoodie.clean.commits.retained": 3})):
        assert same.scan(["id"], where="n = 1").collect() == [("a",)]


def test_rows_of_a_statement_are_written_by_executors(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "at": pa.array([0, None], pa.timestamp("us", "UTC"))})
    path = tmp_path / "t"
    pyhudi.create_table(path, rows.schema, record_key="id").upsert(rows)
    for text in (
        "insert into t select 'c', at from t where id = 'a'",
        "update t set at = timestamp '1970-01-01 00:00:00Z' where at is null",
        "merge into t using s on t.id = s.id when matched then delete",
    ):
        hudi.sql(spark, text, tables={"t": path, "s": rows.slice(1)})
    found = pyhudi.open_table(path).to_arrow().sort_by("id")
    assert found["id"].to_pylist() == ["a", "c"]
    assert found["at"].cast(pa.int64()).to_pylist() == [0, 0]


def test_views_of_the_session_are_read(spark: Any, tmp_path: Path) -> None:
    table = trips(tmp_path, "cow")
    spark.range(3).createOrReplaceTempView("three")
    try:
        query = "select count(*) from trips cross join three"
        assert hudi.sql(spark, query, tables={"trips": table.path}).collect()[0][0] == 12
        with pytest.raises(pyhudi.UserError, match="cannot be written to"):
            hudi.sql(spark, "delete from three")
        assert not [t for t in spark.catalog.listTables() if t.name.startswith("__pyhudi")]
    finally:
        spark.catalog.dropTempView("three")


def test_tables_are_defined_altered_shown_and_dropped_on_spark(spark: Any, tmp_path: Path) -> None:
    lake = hudi.connect(spark, tmp_path)

    def rows(text: str) -> list[tuple[Any, ...]]:
        return sorted(map(tuple, lake.sql(text).collect()))

    created = lake.sql(
        "create table rides (id bigint comment 'of it''s meter', city string, fare decimal(10, 2)) "
        "using hudi partitioned by (city) tblproperties (type = 'mor', primaryKey = 'id')"
    )
    assert created.table_type == "MERGE_ON_READ" and lake.tables == ["rides"]
    lake.sql("insert into rides values (1, 1.5, 'sf'), (2, 2.5, 'la')")
    lake.sql("alter table rides add columns (tip int comment 'in cash' after fare)")
    lake.sql("update rides set tip = 3 where id = 1")
    assert rows("select id, tip, city from rides") == [(1, 3, "sf"), (2, None, "la")]
    described = lake.sql("describe rides").collect()
    assert [tuple(row) for row in described[:3]] == [
        ("id", "bigint", "of it's meter"), ("fare", "decimal(10,2)", None),
        ("tip", "int", "in cash"),
    ]  # fmt: skip
    lake.sql("create index by_city on rides using secondary_index (city)")
    assert "secondary_index_by_city" in [row[0] for row in rows("show indexes from rides")]
    assert rows("drop index by_city on rides") == [("secondary_index_by_city",)]
    lake.sql("create table twin tblproperties (primaryKey = 'id') as select id, tip from rides")
    assert rows("select id, tip from twin") == [(1, 3), (2, None)]
    lake.sql("insert overwrite rides partition (city = 'sf') select id, fare, tip from rides "
             "where id > 9")  # fmt: skip
    assert rows("select id from rides") == [(2,)]
    assert rows("alter table rides add partition (city = 'ny')") == [("city=ny",)]
    lake.sql("truncate table rides partition (city = 'la')")
    assert rows("select count(*) from rides") == [(0,)]
    assert len(rows("call show_commits(table => 'rides', limit => 2)")) == 2
    assert rows("show tables") == [("", "rides", False), ("", "twin", False)]
    lake.sql("drop table twin")
    assert lake.tables == ["rides"]


def test_a_table_is_created_at_a_path_on_spark(spark: Any, tmp_path: Path) -> None:
    key = "tblproperties (primaryKey = 'id')"
    hudi.sql(spark, f"create table hudi.`{tmp_path}/t` (id int) {key}")
    hudi.sql(spark, f"insert into hudi.`{tmp_path}/t` values (1)")
    assert pyhudi.open_table(tmp_path / "t").count() == 1
    report = hudi.sql(spark, f"create table u (id int) {key} location '{tmp_path}/u'")
    assert report.path == str(tmp_path / "u")


def test_create_table_as_select_that_fails_on_spark_leaves_no_table(
    spark: Any, tmp_path: Path
) -> None:
    lake = hudi.connect(spark, tmp_path)
    with pytest.raises(pyhudi.PyhudiError):
        lake.sql(
            "create table t tblproperties (primaryKey = 'id') "
            "as select cast(v as int) as id from (select explode(array('1', 'x')) as v)"
        )
    assert lake.tables == []


@pytest.mark.parametrize(
    ("text", "error"),
    [
        ("create table t (id int)", "needs a record key"),
        ("create table t (id varchar(3)) tblproperties (primaryKey = 'id')", "type of a column"),
        ("drop table nothing", "no table has this name"),
        ("drop table `a/b`", "no table has this name"),
        ("alter table nothing add columns (n int)", "no table has this name"),
        ("call nonsense()", "no such procedure"),
        ("show partitions nothing", "no table has this name"),
    ],
)
def test_a_definition_that_cannot_be_is_a_typed_error_on_spark(
    spark: Any, text: str, error: str, tmp_path: Path
) -> None:
    with pytest.raises(pyhudi.PyhudiError, match=error):
        hudi.connect(spark, tmp_path).sql(text)


OTHER_ON_SPARK: dict[str, Any] = {
    "select 1 / 0": "refused",
    "select array(1, 2)[5]": "refused",
    "select array(1, 2)[-2], array(1, 2)[cast(1 as int)]": "refused",
    "select t.id, s.id from trips t right join news s on t.id = s.id": [
        ("b", "b"), ("d", "d"), (None, "e")  # the table of cases has one value for each name
    ],
}  # fmt: skip
"""Results that docs/sql.md states to be other ones on one machine."""


@pytest.mark.slow
def test_statements_that_read_or_are_wrong_are_so_on_spark(spark: Any, tmp_path: Path) -> None:
    table = trips(tmp_path, "mor")
    before, instants = stored(table), len(table.timeline)
    sources = {"trips": table.path, **SOURCES}

    def outcome(text: str) -> Any:
        try:
            found = hudi.sql(spark, text, tables=sources)
            return sorted(map(tuple, found.collect()), key=repr)
        except (pyhudi.PyhudiError, PySparkException, Py4JError):  # while rows are collected
            return "refused"

    expected = {text: sorted(rows, key=repr) for text, rows in READ}
    expected |= {text: "refused" for text, _ in WRONG if text != "select version()"}
    found = {text: outcome(text) for text in expected}
    assert {t: rows for t, rows in found.items() if rows != expected[t]} == OTHER_ON_SPARK
    assert stored(table) == before and len(table.timeline) == instants

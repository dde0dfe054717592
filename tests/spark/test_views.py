"""Tables as views of SQL: `register_views`, and `USING pyhudi`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from pyhudi.errors import UserError


def made(path: Path, *keys: str) -> pyhudi.Table:
    rows = pa.table({"id": list(keys), "n": list(range(len(keys)))})
    table = pyhudi.create_table(path, rows.schema, record_key="id")
    table.insert(rows)
    return table


def rows_of(spark: Any, query: str) -> list[tuple[Any, ...]]:
    return [tuple(row) for row in spark.sql(query).collect()]


def test_registered_views_join_in_sql_and_show_the_snapshot(spark: Any, tmp_path: Path) -> None:
    one, two = made(tmp_path / "one", "a", "b"), made(tmp_path / "two", "b", "c")
    paths = {"view_one": one.path, "view_two": tmp_path / "two"}
    hudi.register_views(spark, paths)
    joined = "select a.id, b.n from view_one a join view_two b on a.id = b.id"
    assert rows_of(spark, joined) == [("b", 0)]
    assert spark.table("view_one").columns == ["id", "n"]
    two.upsert(pa.table({"id": ["a"], "n": [7]}))
    assert len(rows_of(spark, joined)) == 1
    hudi.register_views(spark, paths)
    assert sorted(rows_of(spark, joined)) == [("a", 7), ("b", 0)]
    for name in ("no name", "a.b", ""):
        with pytest.raises(UserError, match="must be an identifier"):
            hudi.register_views(spark, {"fine": one.path, name: one.path})
    assert not spark.catalog.tableExists("fine")


@pytest.mark.pyspark("4.0")
def test_a_view_of_the_data_source_reads_with_its_options(spark: Any, tmp_path: Path) -> None:
    table = made(tmp_path / "t", "a", "b")
    first = table.timeline.commits.last
    assert first is not None
    table.upsert(pa.table({"id": ["c"], "n": [7]}))
    options = {"view_now": "", "view_then": f", `as.of.instant` '{first.time}'"}
    for name, more in options.items():
        spark.sql(f"create temporary view {name} using pyhudi options (path '{table.path}'{more})")
    assert rows_of(spark, "select id from view_now order by id") == [("a",), ("b",), ("c",)]
    assert rows_of(spark, "select id, n from view_then where n > 0") == [("b", 1)]


@pytest.mark.pyspark("4.0")
def test_create_table_is_answered_with_what_spark_cannot_keep(spark: Any, tmp_path: Path) -> None:
    path = made(tmp_path / "t", "a").path
    with pytest.raises(Exception, match=r"CREATE TABLE does not support USING pyhudi.*VIEW name"):
        spark.sql(f"create table made_here using pyhudi options (path '{path}')")
    spark.sql(f"create table with_columns (id string, n bigint) using pyhudi location '{path}'")
    with pytest.raises(Exception, match=r"Spark passes no LOCATION of a table.*register_views"):
        spark.sql("select id from with_columns").collect()
    spark.sql("drop table with_columns")
    assert pyhudi.open_table(path).count() == 1

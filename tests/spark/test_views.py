"""Tables as views of SQL: `register_views`, and `USING pyhudi`."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

from pyspark.errors import AnalysisException

import pyhudi
import pyhudi.spark as hudi
from pyhudi.errors import TableNotFoundError, UserError


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


def test_fresh_views_read_the_newest_snapshot_at_each_query(spark: Any, tmp_path: Path) -> None:
    table = made(tmp_path / "t", "a", "b")
    hudi.register_views(spark, {"view_fresh": table.path}, fresh=True)
    spark.sql("create or replace temporary view view_over as select max(id) m from view_fresh")
    assert rows_of(spark, "select count(*) from view_fresh") == [(2,)]
    table.upsert(pa.table({"id": ["c"], "n": [7], "more": [1.5]}), schema_mode="widen")
    assert rows_of(spark, "select m from view_over") == [("c",)]
    assert spark.table("view_fresh").columns == ["id", "n", "more"]
    frame = spark.table("view_fresh")
    table.delete(keys=["c"])
    assert frame.count() == 3  # of a frame that was made before
    assert spark.table("view_fresh").count() == 2


def test_views_that_the_program_replaced_are_left_alone(spark: Any, tmp_path: Path) -> None:
    table = made(tmp_path / "t", "a", "b")
    names = {"view_x": table.path, "view_y": table.path, "view_z": table.path}
    hudi.register_views(spark, names, fresh=True)
    spark.sql("create or replace temporary view view_x as select 1 as one")
    spark.catalog.dropTempView("view_y")
    hudi.register_views(spark, {"view_z": table.path})
    table.delete(keys=["a"])
    assert rows_of(spark, "select * from view_x") == [(1,)]
    assert not spark.catalog.tableExists("view_y")
    assert rows_of(spark, "select count(*) from view_z") == [(2,)]
    assert not spark.newSession().catalog.tableExists("view_z")


def test_a_fresh_view_of_a_deleted_table_fails_only_statements_that_name_it(
    spark: Any, tmp_path: Path
) -> None:
    table = made(tmp_path / "t", "a", "b")
    hudi.register_views(spark, {"view_gone": table.path}, fresh=True)
    shutil.rmtree(tmp_path / "t")
    assert rows_of(spark, "select 1 as one") == [(1,)]
    with pytest.raises(TableNotFoundError):
        spark.sql("select * from view_gone")
    spark.catalog.dropTempView("view_gone")
    with pytest.raises(AnalysisException):
        spark.sql("select * from view_gone")


@pytest.mark.pyspark("4.0")
def test_insert_into_a_view_of_the_data_source_upserts(spark: Any, tmp_path: Path) -> None:
    path = made(tmp_path / "t", "a", "b").path
    own = f"using pyhudi options (path '{path}', columns 'id,n')"
    spark.sql(f"create temporary view view_own {own}")
    spark.sql("insert into view_own values ('a', 7), ('c', 8)")
    spark.sql(f"create temporary view view_all using pyhudi options (path '{path}')")
    spark.sql("insert into view_all values (null, null, null, null, null, 'd', 9)")
    rows = pyhudi.read(path, ["id", "n"]).to_arrow().to_pylist()
    assert {row["id"]: row["n"] for row in rows} == {"a": 7, "b": 1, "c": 8, "d": 9}
    assert len(pyhudi.open_table(path).timeline.commits) == 3
    hudi.register_views(spark, {"view_frame": path})
    with pytest.raises(Exception, match="UNSUPPORTED_INSERT"):
        spark.sql("insert into view_frame values ('e', 1)")

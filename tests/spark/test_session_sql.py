"""`hudi.enable(spark)`: `spark.sql` runs statements about tables of Hudi."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from py4j.protocol import Py4JError
from pyspark.errors import PySparkException

import pyhudi
import pyhudi.spark as hudi
from tests.sql.test_statements import stored, trips


@pytest.fixture
def enabled(spark: Any, tmp_path: Path) -> Iterator[Any]:
    hudi.enable(spark, folder=tmp_path / "lake")
    yield spark
    hudi.disable(spark)
    for name in ("trips", "news", "three", "rides", "held"):
        spark.catalog.dropTempView(name)


def rows(spark: Any, text: str, **given: Any) -> list[tuple[Any, ...]]:
    return sorted(map(tuple, spark.sql(text, **given).collect()))


def in_catalog(spark: Any, name: str, path: str) -> None:
    """An entry with the provider hudi, as a catalog sync makes it; Spark makes none without a
    jar."""
    spark.sql(f"create table {name} (id string) using parquet location '{path}'")
    state = spark._jsparkSession.sessionState()
    found = state.sqlParser().parseTableIdentifier(name)
    entry = state.catalog().getTableMetadata(found)
    spark.sql(f"drop table {name}")
    count = entry.productArity()
    values = spark.sparkContext._gateway.new_array(spark._jvm.java.lang.Object, count)
    for at in range(count):
        values[at] = entry.productElement(at)
        if entry.productElementName(at) == "provider":
            values[at] = spark._jvm.scala.Some("hudi")
        elif entry.productElementName(at) == "lastAccessTime":
            values[at] = 1 << 40  # py4j passes small numbers as int, not long
    made = entry.getClass().getConstructors()[0].newInstance(values)
    state.catalog().createTable(made, False, False)


def test_statements_about_a_fresh_view_write_to_its_table(enabled: Any, tmp_path: Path) -> None:
    table = trips(tmp_path, "mor_ordered")
    hudi.register_views(enabled, {"trips": table.path}, fresh=True)
    enabled.createDataFrame([("a", 99.0, 9)], "id string, fare double, ts long") \
        .createOrReplaceTempView("news")  # fmt: skip
    report = enabled.sql("update trips set fare = :fare, ts = 6 where id = 'b'", {"fare": 7.0})
    assert report.collect()[0].asDict()["updated"] == 1
    assert rows(enabled, "select fare from trips where id = 'b'") == [(7.0,)]
    enabled.sql("merge into trips t using news s on t.id = s.id when matched then update set *")
    enabled.sql("delete from trips where id = ?", ["c"])
    enabled.sql("insert into trips values ('e', 1, 2, 6, 'sf')")
    left = {key: found[0][1] for key, found in stored(table).items()}
    assert left == {"a": 99.0, "b": 7.0, "d": None, "e": 1.0}
    assert len(rows(enabled, "call show_commits(table => 'trips')")) == 5
    assert rows(enabled, "show partitions trips") == [("la",), ("sf",)]
    first = str(next(iter(table.timeline)).time)
    assert rows(enabled, f"select count(*) from trips version as of '{first}'") == [(4,)]
    changed = "select id from hudi_table_changes('trips', 'latest_state', ?) where id = 'e'"
    assert rows(enabled, changed, args=[first]) == [("e",)]
    assert "update" in str(rows(enabled, "explain update trips set fare = 0")).lower()
    hudi.disable(enabled)
    before = stored(table)
    with pytest.raises((PySparkException, Py4JError)):
        enabled.sql("delete from trips")
    assert stored(table) == before


def test_statements_about_a_table_of_the_catalog_write_to_it(enabled: Any, tmp_path: Path) -> None:
    table = trips(tmp_path, "cow")
    in_catalog(enabled, "held", table.path)
    try:
        enabled.sql("update default.held set fare = 1 where id = 'a'")
        assert rows(enabled, "select fare from spark_catalog.default.HELD where id = 'a'") == [
            (1.0,)
        ]
        assert rows(enabled, "describe held")[0][0] == "# Partition Information"
        hudi.sql(enabled, "delete from held where id = 'a'")
        assert "a" not in stored(table)
    finally:
        catalog = enabled._jsparkSession.sessionState().catalog()
        parser = enabled._jsparkSession.sessionState().sqlParser()
        catalog.dropTable(parser.parseTableIdentifier("held"), True, False)


def test_tables_of_the_folder_are_made_read_and_dropped(enabled: Any, tmp_path: Path) -> None:
    made = enabled.sql("create table rides (id int, fare double) using hudi "
                       "tblproperties (primaryKey = 'id')")  # fmt: skip
    assert made.collect() == []
    enabled.sql("insert into rides values (1, 2.5)")
    enabled.range(3).createOrReplaceTempView("three")
    joined = (
        "select three.id, fare from three left join rides on rides.id = three.id where fare > 1"
    )
    assert rows(enabled, joined) == [(1, 2.5)]
    path = tmp_path / "elsewhere"
    enabled.sql(f"create table hudi.`{path}` (id int) tblproperties (primaryKey = 'id')")
    assert rows(enabled, f"select * from hudi.`{path}`") == []
    with pytest.raises(pyhudi.UserError, match="CREATE OR REPLACE TABLE"):
        enabled.sql(f"create or replace table hudi.`{path}` (id int) using hudi")
    enabled.sql("drop table rides")
    assert hudi.connect(enabled, tmp_path / "lake").tables == []


def test_what_the_session_has_is_not_shadowed_by_the_folder(enabled: Any, tmp_path: Path) -> None:
    key = "tblproperties (primaryKey = 'id')"
    hudi.connect(enabled, tmp_path / "lake").sql(f"create table three (id int) {key}")
    enabled.range(3).createOrReplaceTempView("three")
    assert rows(enabled, "select count(*) from three") == [(3,)]
    with pytest.raises((PySparkException, Py4JError)):
        enabled.sql("delete from three")
    enabled.sql(f"create table rides using hudi {key} as select id from three")
    assert rows(enabled, "select count(*) from rides") == [(3,)]
    enabled.catalog.dropTempView("three")
    assert rows(enabled, "select count(*) from three") == [(0,)]


OF_SPARK = [
    "create or replace temp view three as select id from range(3)",
    "create table held (id int) using parquet",
    "set spark.sql.shuffle.partitions",
    "cache table news",
    "show tables",
    "show functions like 'ab*'",
    "describe trips",
    "describe function abs",
    "explain extended select * from trips",
    "with trips as (select 1 as one) select * from trips",
    "from trips select id where fare > 1",
    "select /*+ broadcast(trips) */ transform(array(1), x -> x + 1), city from trips",
    "select * from (values (1)) as v(x) lateral view explode(array(1)) as y",
    "drop view if exists trips",
    "use default",
    "",
    "select",
    "select * from nothing",
    "delete from news",
    "select 'open",
    "call cat.system.rollback(table => 'trips')",
    "alter table news rename to newer",
    "drop table trips",
    "analyze table news compute statistics",
    "insert into held select id from trips",
]


def test_any_other_statement_is_sparks(enabled: Any, tmp_path: Path) -> None:
    table = trips(tmp_path, "cow")
    before = stored(table)

    def outcome(text: str) -> Any:
        hudi.register_views(enabled, {"trips": table.path}, fresh=True)
        enabled.range(2).createOrReplaceTempView("news")
        enabled.sql("drop table if exists held")
        try:
            found = enabled.sql(text)
            return found.columns, [
                re.sub(r"#\d+|\[plan_id=\d+\]", "", str(r)) for r in found.collect()
            ]
        except (PySparkException, Py4JError) as error:
            return type(error), re.sub(r"o\d+", "", str(error).partition("\n")[0])
        finally:
            enabled.catalog.dropTempView("newer")

    here = {text: outcome(text) for text in OF_SPARK}
    hudi.disable(enabled)
    assert here == {text: outcome(text) for text in OF_SPARK}
    assert stored(table) == before

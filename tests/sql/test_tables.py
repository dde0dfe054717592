"""CREATE TABLE, CREATE TABLE AS SELECT, DROP TABLE and TRUNCATE TABLE on one machine."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi

KEY = "tblproperties (primaryKey = 'id')"
VERSIONS = (6, 8, 9)
FILE = "notes.txt"


def created(lake: Any, columns: str = "id bigint, city string, fare double", more: str = "") -> Any:
    properties = f"primaryKey = 'id'{more}"
    return lake.sql(f"create table trips ({columns}) using hudi tblproperties ({properties})")


def rows(lake: Any, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in lake.sql(text).to_pylist()]


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("version", VERSIONS)
def test_a_created_table_is_written_and_read(version: int, kind: str, tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    report = lake.sql(
        "create table if not exists trips (id bigint not null, city string, fare decimal(10, 2), "
        "ts timestamp) using hudi partitioned by (CITY) tblproperties (type = "
        f"'{kind}', primaryKey = 'ID', preCombineField = 'ts', 'hoodie.table.version' = {version})"
    )
    assert report.created and report.version == version and lake.tables == ["trips"]
    lake.sql("insert into trips values (1, 1.5, timestamp '2026-01-01 00:00:00', 'sf')")
    lake.sql("insert into trips values (1, 0.5, timestamp '2025-01-01 00:00:00', 'sf')")
    table = pyhudi.open_table(tmp_path / "trips")
    config = table.config
    assert (config.version, config.is_merge_on_read) == (version, kind == "mor")
    assert config.record_key_fields == ("id",) and config.ordering_fields == ("ts",)
    assert table.partitions() == ["city=sf"]
    assert rows(lake, "select id, cast(fare as string), city from trips") == [(1, "1.50", "sf")]


def test_partition_columns_are_last_in_their_order(tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    lake.sql(f"create table a (day date, id int, city string) partitioned by (city, day) {KEY}")
    lake.sql(f"create table b (id int) partitioned by (day date) {KEY}")
    lake.sql("insert into a values (1, 'sf', date '2026-01-01')")
    assert [row[0] for row in rows(lake, "describe a")][:3] == ["id", "city", "day"]
    assert rows(lake, "show partitions a") == [("city=sf/day=2026-01-01",)]
    assert [row[0] for row in rows(lake, "describe b")][:2] == ["id", "day"]


def test_partition_folders_have_no_names_if_the_statement_says_so(tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    lake.sql(
        "create table t (id int, city string) partitioned by (city) tblproperties "
        "(primaryKey = 'id', hoodie.datasource.write.hive_style_partitioning = false)"
    )
    lake.sql("insert into t values (1, 'sf')")
    assert rows(lake, "show partitions t") == [("sf",)]


def test_comments_are_stored_and_shown_and_stay_when_the_table_is_written(tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    lake.sql(
        "create table trips (id bigint comment 'it''s \"k\"', "
        "s struct<x: int comment 'in \\\\ ☃'>) "
        f"comment 'tab ☃ ''q''' {KEY}"
    )
    lake.sql("insert into trips values (1, null)")
    table = pyhudi.open_table(tmp_path / "trips")
    wider = pa.table({"id": [2], "s": pa.nulls(1, table.schema.field("s").type), "n": [1]})
    table.upsert(wider, schema_mode="add")
    assert rows(lake, "describe trips") == [
        ("id", "bigint", 'it\'s "k"'), ("s", "struct<x:int>", None), ("n", "bigint", None),
    ]  # fmt: skip
    assert dict(rows(lake, "show tblproperties trips"))["comment"] == "tab ☃ 'q'"
    again = pyhudi.connect(tmp_path)
    ((text,),) = rows(again, "show create table trips")
    again.sql(text.replace("trips`", "twin`").replace("/trips'", "/twin'"))
    ((copied,),) = rows(again, "show create table twin")
    assert copied == text.replace("trips`", "twin`").replace("/trips'", "/twin'")


def test_properties_of_the_user_are_stored(tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    created(lake, more=", owner = 'ana', 'a.b' = 'x=1', flag = true, level = -1")
    known = dict(rows(lake, "show tblproperties trips"))
    assert [known[name] for name in ("owner", "a.b", "flag", "level")] == [
        "ana",
        "x=1",
        "true",
        "-1",
    ]


def test_options_choose_the_index(tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    created(lake, more=", hoodie.index.type = 'BUCKET', hoodie.bucket.index.num.buckets = 4")
    properties = pyhudi.open_table(tmp_path / "trips").config.properties
    assert properties["hoodie.index.type"] == "BUCKET"
    assert properties["hoodie.bucket.index.num.buckets"] == "4"


TYPES = {
    "boolean": pa.bool_(), "tinyint": pa.int32(), "byte": pa.int32(), "smallint": pa.int32(),
    "short": pa.int32(), "int": pa.int32(), "integer": pa.int32(), "bigint": pa.int64(),
    "long": pa.int64(), "float": pa.float32(), "real": pa.float32(), "double": pa.float64(),
    "decimal": pa.decimal128(10, 0), "dec(5)": pa.decimal128(5, 0),
    "numeric(38, 38)": pa.decimal128(38, 38), "string": pa.string(), "binary": pa.binary(),
    "date": pa.date32(), "timestamp": pa.timestamp("us", "UTC"),
    "timestamp_ltz": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
    "array<int>": pa.list_(pa.field("element", pa.int32())),
    "map<string, array<date>>": pa.map_(pa.string(), pa.list_(pa.field("element", pa.date32()))),
    "struct<a: int, `b c`: string>": None, "struct<a int, b: struct<c: decimal(4, 1)>>":
        pa.struct([("a", pa.int32()), ("b", pa.struct([("c", pa.decimal128(4, 1))]))]),
}  # fmt: skip


@pytest.mark.parametrize("name", TYPES)
def test_a_type_of_spark_is_a_type_of_arrow(name: str, tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    text = f"create table t (id int, v {name}) {KEY}"
    expected = TYPES[name]
    if expected is None:  # Avro has no such name
        with pytest.raises(pyhudi.SchemaError, match="invalid in Avro"):
            lake.sql(text)
        return
    lake.sql(text)
    assert pyhudi.open_table(tmp_path / "t").schema.field("v").type == expected


REFUSED_TYPES = [
    "char(3)", "varchar(3)", "varchar", "interval", "interval day to second", "void", "null",
    "variant", "int8", "int64", "float8", "bool", "text", "number", "datetime", "blob", "uuid",
    "json", "time", "time(3)", "geometry", "nonsense", "map<int, int>", "map<string, text>",
    "array", "array<>", "array<int, int>", "struct<>", "struct<int>", "struct<a: varchar(3)>",
    "struct<a: int not null>", "decimal(39, 1)", "decimal(2, 3)", "decimal(0)", "decimal(10, -1)",
    "timestamp without time zone", "timestamp with time zone", "int collate utf8_binary",
    "int default 3", "int generated always as (id + 1)", "int primary key", "int unique",
    "int references other (id)", "string check (v > 'a')",
]  # fmt: skip


@pytest.mark.parametrize("name", REFUSED_TYPES)
def test_another_type_or_constraint_is_refused(name: str, tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    with pytest.raises(pyhudi.UserError):
        lake.sql(f"create table t (id int, v {name}) {KEY}")
    assert not list(tmp_path.iterdir())


def test_names_of_types_and_keywords_are_names_of_columns(tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    names = ["text", "type", "date", "timestamp", "comment", "int8", "partition", "location"]
    columns = ", ".join(f"{name} string" for name in names)
    lake.sql(f"create table t (id int, {columns}, `select` string, `table` string) {KEY}")
    found = pyhudi.open_table(tmp_path / "t").schema.names
    assert found[-10:] == [*names, "select", "table"]


REFUSED = [
    ("create table t (id int)", "needs a record key"),
    ("create table t (id int) tblproperties (primary_key = 'id')", "did you mean primaryKey"),
    ("create table t (id int) tblproperties (primaryKey = 'key')", "not in the schema"),
    ("create table t (id int, ID int) KEY", "defined twice"),
    ("create table t (id int, v int not null) KEY", "cannot be NOT NULL"),
    ("create table t (id int, a.b int) KEY", "no dots"),
    ("create table t (id int, primary key (id))", "primaryKey"),
    ("create table t (id int) partitioned by (city) KEY", "no such column"),
    ("create table t (id int) partitioned by (id) partitioned by (id) KEY", "given twice"),
    ("create table t (ts timestamp, id int) partitioned by (days(ts)) KEY", "names of columns"),
    ("create table t (id int) using delta KEY", "format is not supported"),
    ("create table t (id int) stored as parquet KEY", "format is not supported"),
    ("create table t (id int) clustered by (id) into 4 buckets KEY", "not supported"),
    ("create table t (id int) tblproperties (primaryKey = 'id', primaryKey = 'v')", "given twice"),
    ("create table t (id int) tblproperties (primaryKey = 'id', 'primarykey' = 'v')", "conflict"),
    ("create table t (id int) tblproperties (primaryKey = id)", "constant is expected"),
    ("create table t (id int) tblproperties (primaryKey = null)", "constant is expected"),
    ("create table t (id int) tblproperties (primaryKey = 'id', type = 'x')", "table type"),
    ("create table t (id int) tblproperties (primaryKey = 'id', hoodie.no = 1)", "unknown option"),
    ("create table t (id int) tblproperties (primaryKey = 'id', hoodie.clean.commits.retained = 3)",
     "does not store this option"),
    ("create table t (id int) tblproperties (primaryKey = 'id', hoodie.table.version = 5)", ""),
    ("create or replace table t (id int) KEY", "OR REPLACE"),
    ("create temporary table t (id int) KEY", "not supported"),
    ("create external table t (id int) KEY", "not supported"),
    ("create table t like trips", "needs columns"),
    ("create table t (id int) KEY as select 1 as id", "takes its columns from the query"),
    ("create table t KEY", "needs columns"),
    ("create table t KEY as select 1 as id, 2 as id", ""),
    ("create table t KEY as select 'x' as key", "not in the schema"),
    ("create table t KEY as delete from trips", ""),
    ("create table `a/b` (id int) KEY", "cannot be that of a table"),
    ("create table `..` (id int) KEY", "cannot be that of a table"),
    ("create table `` (id int) KEY", "cannot be that of a table"),
    ("create table `.x` (id int) KEY", "cannot be that of a table"),
    ("create table `_x` (id int) KEY", "cannot be that of a table"),
    ("create table ` x` (id int) KEY", "cannot be that of a table"),
    ("create table `a\n` (id int) KEY", "cannot be that of a table"),
    ("create table a.b (id int) KEY", "cannot be that of a table"),
    ("create table trips (id int) KEY", "already exists"),
    ("create table TRIPS (id int) KEY", "already exists"),
    ("create table news (id int) KEY", "name is that of rows"),
    ("create table t (id int) location '/tmp/elsewhere' KEY", "LOCATION is another place"),
    ("create view v as select 1", "VIEW is not supported"),
    ("create database d", "not supported"),
    ("create function f as 'x'", "not supported"),
    ("drop table nothing", "no table has this name"),
    ("drop table news", "name is that of rows"),
    ("drop table trips, t", "one name is dropped"),
    ("drop table trips cascade", "not supported"),
    ("drop view trips", "VIEW is not supported"),
    ("drop database d", "not supported"),
    ("truncate table nothing", "no table has this name"),
    ("truncate table news", "name is that of rows"),
    ("truncate table trips partition (city = 'sf')", "no partitions"),
    ("explain create table t (id int) KEY", "EXPLAIN of this statement"),
]  # fmt: skip


@pytest.mark.parametrize(("text", "error"), REFUSED, ids=[text[:70] for text, _ in REFUSED])
def test_a_statement_that_cannot_be_is_refused_and_changes_nothing(
    text: str, error: str, tmp_path: Path
) -> None:
    lake = pyhudi.connect(tmp_path, tables={"news": pa.table({"id": [1]})})
    created(lake)
    before = sorted(tmp_path.rglob("*"))
    with pytest.raises(pyhudi.PyhudiError, match=error or None):
        lake.sql(text.replace("KEY", KEY))
    assert sorted(tmp_path.rglob("*")) == before


def test_if_not_exists_leaves_another_table_as_it_is(tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    created(lake)
    lake.sql("insert into trips values (1, 'sf', 2)")
    report = lake.sql(f"create table if not exists Trips (id int, other int) {KEY}")
    assert not report.created and "city, fare, other" in report.notes[0]
    again = lake.sql(f"create table if not exists trips {KEY} as select 7 as id")
    assert not again.created and again.inserted == 0
    assert rows(lake, "select id, city from trips") == [(1, "sf")]


@pytest.mark.parametrize("version", VERSIONS)
def test_create_table_as_select_takes_columns_and_rows_of_the_query(
    version: int, tmp_path: Path
) -> None:
    lake = pyhudi.connect(tmp_path, tables={"news": pa.table({"id": [1, 2], "city": ["sf", "la"]})})
    report = lake.sql(
        "create table t using hudi partitioned by (city) tblproperties (primaryKey = 'id', "
        f"hoodie.table.version = {version}) as select city, id, id * 2 as n from news"
    )
    assert report.inserted == 2 and report.version == version
    assert rows(lake, "select * from t order by id") == [(1, 2, "sf"), (2, 4, "la")]
    lake.sql(f"create table v {KEY} as values (1, 'a'), (2, 'b') as x(id, name)")
    assert rows(lake, "select * from v order by id") == [(1, "a"), (2, "b")]


def test_create_table_as_select_that_fails_leaves_no_table(tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path, tables={"news": pa.table({"id": ["1", "x"]})})
    with pytest.raises(pyhudi.UserError, match="cannot be cast"):
        lake.sql(f"create table t {KEY} as select cast(id as int) as id from news")
    assert lake.tables == []
    lake.sql(f"create table t {KEY} as select id from news")
    assert lake.tables == ["t"]


def test_a_table_is_created_at_a_path(tmp_path: Path) -> None:
    one, two = tmp_path / "one", tmp_path / "it's two"
    pyhudi.sql(f"create table hudi.`{one}` (id int) {KEY}")
    named = str(two).replace("'", "''")
    report = pyhudi.sql(f"create table trips (id int) {KEY} location '{named}'")
    assert (report.name, report.path) == ("trips", str(two))
    assert pyhudi.open_table(one).config.name == "one"
    pyhudi.sql(f"create table other (id int) {KEY}", tables={"other": tmp_path / "three"})
    assert pyhudi.open_table(tmp_path / "three").config.name == "other"
    with pytest.raises(pyhudi.UserError, match="has no place"):
        pyhudi.sql(f"create table t (id int) {KEY}")
    with pytest.raises(pyhudi.UserError, match="another place"):
        pyhudi.sql(f"create table hudi.`{tmp_path}/x` (id int) {KEY} location '{tmp_path}/y'")
    pyhudi.sql(f"drop table hudi.`{one}`")
    with pytest.raises(pyhudi.TableNotFoundError):
        pyhudi.open_table(one)


def test_a_location_in_the_folder_is_that_of_the_name(tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    lake.sql(f"create table t (id int) location '{tmp_path}/t/' {KEY}")
    assert lake.tables == ["t"]


def test_a_location_with_other_files_is_refused(tmp_path: Path) -> None:
    (tmp_path / "t").mkdir()
    (tmp_path / "t" / FILE).write_text("mine")
    lake = pyhudi.connect(tmp_path)
    with pytest.raises(pyhudi.UserError, match="holds other files"):
        lake.sql(f"create table t (id int) {KEY}")
    assert lake.tables == [] and (tmp_path / "t" / FILE).read_text() == "mine"


def test_no_table_is_created_in_a_table(tmp_path: Path) -> None:
    created(pyhudi.connect(tmp_path))
    with pytest.raises(pyhudi.UserError, match="the folder is a table"):
        pyhudi.connect(tmp_path / "trips").sql(f"create table t (id int) {KEY}")


def test_of_concurrent_statements_one_creates_the_table(tmp_path: Path) -> None:
    outcomes: list[str] = []
    start = threading.Barrier(4)

    def create() -> None:
        lake = pyhudi.connect(tmp_path)
        start.wait()
        try:
            outcomes.append(str(created(lake).created))
        except pyhudi.UserError as error:
            outcomes.append(error.what)

    threads = [threading.Thread(target=create) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("True") == 1 and len(outcomes) == 4
    assert all("already exists" in one for one in outcomes if one != "True")
    assert rows(pyhudi.connect(tmp_path), "select count(*) from trips") == [(0,)]


@pytest.mark.parametrize("version", VERSIONS)
def test_drop_table_deletes_only_files_of_the_table(version: int, tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    created(lake, more=f", hoodie.table.version = {version}")
    lake.sql("insert into trips values (1, 'sf', 2)")
    (tmp_path / "trips" / FILE).write_text("mine")
    (tmp_path / FILE).write_text("mine")
    report = lake.sql("drop table if exists Trips purge")
    assert report.files > 1 and report.other_files == 1
    assert lake.tables == []
    left = [path for path in tmp_path.rglob("*") if path.is_file() and ".hoodie" not in path.parts]
    assert [path.name for path in left] == [FILE, FILE]
    assert lake.sql("drop table if exists trips").files == 0


@pytest.mark.parametrize("version", VERSIONS)
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_truncate_empties_the_table_or_one_partition(
    kind: str, version: int, tmp_path: Path
) -> None:
    lake = pyhudi.connect(tmp_path)
    lake.sql(
        "create table t (id int, city string, n int) partitioned by (city, n) tblproperties "
        f"(primaryKey = 'id', type = '{kind}', hoodie.table.version = {version})"
    )
    values = "(1, 'sf', 1), (2, 'sf', 2), (3, 'la', 1)"
    lake.sql(f"insert into t values {values}")
    lake.sql("truncate table t partition (N = 1, city = 'sf')")
    assert rows(lake, "select id from t order by id") == [(2,), (3,)]
    for wrong, error in (
        ("city = 'sf'", "a value for each"), ("city = 'sf', n = 9", "no such partition"),
        ("city = 'sf', n = 2, id = 2", "no other column"), ("city = '*', n = 2", r"with \*"),
        ("city = 'sf', n = 'x'", ""), ("city = 'sf', city = 'la'", "named twice"),
    ):  # fmt: skip
        with pytest.raises(pyhudi.UserError, match=error or None):
            lake.sql(f"truncate table t partition ({wrong})")
    assert rows(lake, "select count(*) from t") == [(2,)]
    lake.sql("truncate table t")
    assert rows(lake, "select count(*) from t") == [(0,)]
    lake.sql("insert into t values (7, 'sf', 1)")
    assert rows(lake, "select id from t") == [(7,)]


@pytest.mark.parametrize("version", VERSIONS)
def test_an_overwrite_of_a_partition_by_no_rows_empties_it(version: int, tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    lake.sql(
        "create table t (id int, city string) partitioned by (city) tblproperties "
        f"(primaryKey = 'id', hoodie.table.version = {version})"
    )
    lake.sql("insert into t values (1, 'sf'), (2, 'la')")
    lake.sql("insert overwrite t partition (city = 'sf') select id from t where id > 9")
    assert rows(lake, "select id from t") == [(2,)]
    lake.sql("insert overwrite t partition (city) select id, city from t where id > 9")
    assert rows(lake, "select id from t") == [(2,)]
    lake.sql("insert overwrite t partition (city = 'la') select 5")
    assert rows(lake, "select id, city from t") == [(5, "la")]


def test_a_parameter_is_a_value_of_a_partition(tmp_path: Path) -> None:
    lake = pyhudi.connect(tmp_path)
    lake.sql(f"create table t (id int, city string) partitioned by (city) {KEY}")
    lake.sql("insert into t values (1, 'a/b'), (2, 'c')")
    lake.sql("truncate table t partition (city = ?)", parameters=["c"])
    assert rows(lake, "select id from t") == [(1,)]

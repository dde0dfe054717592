"""ALTER TABLE and statements about indexes, on one machine."""

from __future__ import annotations

import contextlib
import random
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.sql.descriptions import column_comments
from pyhudi.sql.parse import parse
from tests.sql.test_tables import REFUSED as TABLES

KINDS = ("cow", "mor")
VERSIONS = (6, 8, 9)


def lake_of(folder: Path, *, version: int = 9, kind: str = "cow") -> Any:
    lake = pyhudi.connect(folder)
    lake.sql(
        "create table t (id int, fare float comment 'in dollars', d decimal(5, 2), "
        "s struct<a: int>, l array<struct<x: int>>, city string) partitioned by (city) "
        f"tblproperties (primaryKey = 'id', type = '{kind}', hoodie.table.version = {version})"
    )
    lake.sql(
        "insert into t values (1, 1.5, 1.5, struct(1 as a), array(struct(2 as x)), 'sf'), "
        "(2, 2.5, 2.5, null, null, 'la')"
    )
    return lake


def table_in(folder: Path) -> pyhudi.Table:
    return pyhudi.open_table(folder / "t")


def names(folder: Path) -> list[str]:
    return [name for name in table_in(folder).schema.names if not name.startswith("_hoodie")]


def rows(lake: Any, text: str) -> list[tuple[Any, ...]]:
    return [tuple(row.values()) for row in lake.sql(text).to_pylist()]


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("version", VERSIONS)
def test_added_columns_are_null_in_older_rows_and_written_in_new_ones(
    version: int, kind: str, tmp_path: Path
) -> None:
    lake = lake_of(tmp_path, version=version, kind=kind)
    report = lake.sql("alter table t add columns (n bigint comment 'new ☃', m map<string, int>)")
    assert report.operation == "alter_schema" and report.added_columns == ("n", "m")
    assert (report.inserted, report.files) == (0, 0)
    assert names(tmp_path) == ["id", "fare", "d", "s", "l", "n", "m", "city"]
    lake.sql("update t set n = 7 where id = 1")
    lake.sql("insert into t (id, n, city) values (3, 9, 'sf')")
    assert rows(lake, "select id, n from t order by id") == [(1, 7), (2, None), (3, 9)]
    first = table_in(tmp_path).timeline.commits.instants[0].time
    assert rows(lake, f"select * from t version as of '{first}' where id = 2") == [
        (2, 2.5, pytest.approx(2.5), None, None, "la")
    ]


def test_fields_and_places_of_added_columns(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    lake.sql(
        "alter table t add columns (S.b string comment 'in s', l.element.y int, z int first, "
        "y2 int after ID, s.c int first)"
    )
    assert names(tmp_path) == ["z", "id", "y2", "fare", "d", "s", "l", "city"]
    assert rows(lake, "select s, l from t where id = 1") == [
        ({"c": None, "a": 1, "b": None}, [{"x": 2, "y": None}])
    ]
    assert column_comments(table_in(tmp_path)) == {"fare": "in dollars", "s.b": "in s"}


@pytest.mark.parametrize("version", VERSIONS)
def test_a_type_becomes_wider(version: int, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, version=version)
    lake.sql("alter table t alter column FARE type double")
    lake.sql("alter table t change column d d decimal(10, 2) comment 'more'")
    schema = table_in(tmp_path).schema
    assert schema.field("fare").type == pa.float64()
    assert schema.field("d").type == pa.decimal128(10, 2)
    lake.sql("insert into t (id, fare, d, city) values (3, 1e300, 12345678.25, 'sf')")
    found = rows(lake, "select fare, cast(d as string) from t order by id")
    assert found == [(1.5, "1.50"), (2.5, "2.50"), (1e300, "12345678.25")]
    assert column_comments(table_in(tmp_path)) == {"fare": "in dollars", "d": "more"}


def test_a_change_to_the_same_type_writes_nothing(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    assert lake.sql("alter table t alter column fare type float").instant is None


def test_a_type_stays_while_logs_have_the_older_one(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, kind="mor")
    lake.sql("update t set fare = 2")
    with pytest.raises(pyhudi.SchemaError, match="log files have the older type"):
        lake.sql("alter table t alter column fare type double")
    lake.sql("call run_compaction('scheduleAndExecute', 't')")
    lake.sql("alter table t alter column fare type double")
    assert rows(lake, "select distinct fare from t") == [(2.0,)]


def test_comments_of_columns_and_fields_change_and_go(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    lake.sql("alter table t alter column s.A comment 'a of \"s\" ☃'")
    lake.sql("alter table t alter column id comment 'it''s'")
    lake.sql("alter table t alter column fare comment ''")
    expected = {"s.a": 'a of "s" ☃', "id": "it's"}
    assert column_comments(table_in(tmp_path)) == expected
    lake.sql("alter table t add columns (n int)")
    lake.sql("insert into t (id, city) values (3, 'sf')")
    assert column_comments(table_in(tmp_path)) == expected


def test_properties_are_set_and_unset(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    lake.sql("alter table t set tblproperties ('owner' = 'ana ☃', a.b = 'c', comment = 'x', n = 1)")
    known = table_in(tmp_path).config.properties
    assert [known[name] for name in ("owner", "a.b", "comment", "n")] == ["ana ☃", "c", "x", "1"]
    lake.sql("alter table t unset tblproperties ('owner', a.b)")
    lake.sql("alter table t unset tblproperties if exists (owner, 'comment')")
    known = table_in(tmp_path).config.properties
    assert not {"owner", "a.b", "comment"} & set(known) and known["n"] == "1"


@pytest.mark.parametrize("version", VERSIONS)
def test_partitions_are_added_and_dropped(version: int, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, version=version)
    assert rows(lake, "alter table t add partition (city = 'ny')") == [("city=ny",)]
    with pytest.raises(pyhudi.UserError, match="already exists"):
        lake.sql("alter table t add partition (city = 'ny')")
    several = "alter table t add if not exists partition (city = 'sf') partition (city = 'rome')"
    assert rows(lake, several) == [("city=rome",)]
    assert (tmp_path / "t" / "city=rome").is_dir()
    lake.sql("insert into t (id, city) values (3, 'rome')")
    report = lake.sql("alter table t drop partition (city = 'sf'), partition (CITY = 'rome')")
    assert report.deleted == 2 and rows(lake, "select id from t") == [(2,)]
    assert rows(lake, "alter table t drop if exists partition (city = 'sf') purge") == []
    assert table_in(tmp_path).doctor().findings == ()


def test_a_table_is_renamed_with_its_folder(tmp_path: Path) -> None:
    lake = lake_of(tmp_path)
    lake.sql("alter table t rename to rides")
    assert lake.tables == ["rides"]
    assert pyhudi.open_table(tmp_path / "rides").config.name == "rides"
    lake.sql("insert into rides (id, city) values (3, 'sf')")
    assert rows(lake, "select count(*) from rides") == [(3,)]


@pytest.mark.parametrize("version", [8, 9])
def test_indexes_are_created_used_refreshed_and_dropped(version: int, tmp_path: Path) -> None:
    lake = lake_of(tmp_path, version=version)
    lake.sql("create index if not exists by_city on t using secondary_index (CITY)")
    lake.sql(
        "create index day on t using column_stats (id) "
        "options (expr = 'from_unixtime', format = 'yyyy-MM-dd')"
    )
    lake.sql("create index low on table t using bloom_filters(city) options(expr = 'lower')")
    listed = {name: columns for name, columns, _ in rows(lake, "show indexes from t")}
    assert listed["secondary_index_by_city"] == ["city"] and listed["expr_index_day"] == ["id"]
    assert listed["expr_index_low"] == ["city"]
    before = table_in(tmp_path).index.list()
    for name in ("by_city", "day", "low", "record_index"):
        lake.sql(f"refresh index {name} on t")
    assert table_in(tmp_path).index.list().equals(before)
    assert rows(lake, "create index if not exists by_city on t (city)") == [
        ("secondary_index_by_city",)
    ]
    assert rows(lake, "drop index by_city on t") == [("secondary_index_by_city",)]
    assert rows(lake, "drop index if exists by_city on t") == []
    lake.sql("drop index record_index on t")
    lake.sql("create index record_index on t (id)")
    assert table_in(tmp_path).lookup(["1"])["found"].to_pylist() == [True]


REFUSED = [
    ("alter table t add columns (FARE int)", "already exists"),
    ("alter table t add columns (n int, N int)", "already exists"),
    ("alter table t add columns (q int after nothing)", "no such column"),
    ("alter table t add columns (q int after)", "AFTER needs a column"),
    ("alter table t add columns (nothing.q int)", "no such column"),
    ("alter table t add columns (id.q int)", "only be added to a struct"),
    ("alter table t add columns (l.element int)", "only be added to a struct|already exists"),
    ("alter table t add columns (x int not null)", "NOT NULL"),
    ("alter table t add columns (x varchar(3))", "type of a column"),
    ("alter table t add columns (x int default 3)", "constraint"),
    ("alter table t add columns (`a b` int)", "invalid in Avro"),
    ("alter table t add columns (_hoodie_record_key int)", "meta column"),
    ("alter table t add columns ()", "needs a column"),
    ("alter table if exists t add columns (x int)", "not supported"),
    ("alter table t alter column nothing type int", "no such column"),
    ("alter table t alter column id type bigint", "type of the column is fixed"),
    ("alter table t alter column city type int", "type of the column is fixed"),
    ("alter table t alter column s.a type bigint", "type of a field cannot change"),
    ("alter table t alter column d type decimal(4, 2)", "without a rewrite"),
    ("alter table t alter column d type double", "without a rewrite"),
    ("alter table t alter column fare type int", "without a rewrite"),
    ("alter table t alter column fare first", "not supported"),
    ("alter table t alter column fare drop not null", "NULL constraints"),
    ("alter table t change column fare price double", "changes no name"),
    ("alter table t rename column id to key", "cannot be renamed or dropped"),
    ("alter table t drop columns (fare, city)", "cannot be renamed or dropped"),
    ("alter table t set tblproperties (hoodie.table.type = 'x')", "cannot be changed"),
    ("alter table t set tblproperties ('a' = 'b', 'a' = 'c')", "given twice"),
    ("alter table t unset tblproperties ('owner')", "no such property"),
    ("alter table t unset tblproperties", "no properties|not supported"),
    ("alter table t unset tblproperties ('a' = 'b')", "name of a property"),
    ("alter table t unset tblproperties ('a') from x", "not supported"),
    ("alter table t set serdeproperties (a = 'b')", "not supported|expected"),
    ("alter table t set location 'x'", "not supported"),
    ("alter table t add partition (city = 'sf')", "already exists"),
    ("alter table t add partition (city = 'x') location 'y'", "no location"),
    ("alter table t add partition (fare = 1)", "PARTITION needs"),
    ("alter table t add partition (city)", "stated by the values"),
    ("alter table t drop partition (city = 'nope')", "no such partition"),
    ("alter table t drop partition (city = '*')", r"with \*"),
    ("alter table t drop partition (city > 'a')", "stated by the values|not supported|valid"),
    ("alter table t recover partitions", "not supported"),
    ("alter table t rename to t", "already exists"),
    ("alter table t rename to `../t`", "cannot be that of a table"),
    ("alter table nothing rename to u", "no table has this name"),
    ("alter view t rename to u", "VIEW is not supported"),
    ("create index record_index on t (id)", "already exists"),
    ("create index i on t using record_index (fare)", "of the record key"),
    ("create index i on t using nonsense (fare)", "no index of this kind"),
    ("create index i on t (fare, d)", "one column"),
    ("create index i on t (nothing)", ""),
    ("create index i on t (lower(city))", "index is of columns"),
    ("create index i on t (fare desc)", "no order"),
    ("create index i on t using secondary_index (d) options (a = 'b')", "no options"),
    ("create index i on t using column_stats (d options (a = 'b'))", "index is of columns"),
    ("create index i on t using column_stats (id) options (expr = 'nonsense')", ""),
    ("create unique index i on t (d)", "not supported"),
    ("drop index nothing on t", "no such index"),
    ("drop index record_index", "needs a table"),
    ("refresh index nothing on t", "no such index"),
    ("refresh index record_index", ""),
    ("refresh table t", "not supported"),
]  # fmt: skip


def facts(folder: Path) -> Any:
    table = table_in(folder)
    names = sorted(path.name for path in folder.iterdir())
    return dict(table.config.properties), len(table.timeline), table.to_arrow(), names


@pytest.fixture(scope="module")
def unchanged(tmp_path_factory: pytest.TempPathFactory) -> tuple[Any, Path, Any]:
    """A folder of one table, which no test changes, and the facts of the table."""
    folder = tmp_path_factory.mktemp("unchanged")
    return lake_of(folder), folder, facts(folder)


@pytest.mark.parametrize(("text", "error"), REFUSED, ids=[text[:70] for text, _ in REFUSED])
def test_a_change_that_cannot_be_is_refused_and_changes_nothing(
    text: str, error: str, unchanged: tuple[Any, Path, Any]
) -> None:
    lake, folder, before = unchanged
    with pytest.raises(pyhudi.PyhudiError, match=error or None):
        lake.sql(text)
    assert facts(folder) == before


def test_a_table_outside_the_folder_is_not_renamed(tmp_path: Path) -> None:
    lake_of(tmp_path)
    with pytest.raises(pyhudi.UserError, match="only tables in a connected folder"):
        pyhudi.sql("alter table t rename to u", tables={"t": tmp_path / "t"})


def test_version_6_has_no_secondary_index(tmp_path: Path) -> None:
    lake = lake_of(tmp_path, version=6)
    with pytest.raises(pyhudi.UnsupportedTableError, match="no secondary indexes"):
        lake.sql("create index i on t (d)")


WORDS = (
    "(", ")", ",", "'x'", "`a`", "1", "null", "table", "if", "exists", "partition", "options",
    "using", ";", "--", "<", ">", ".", "=", ":x", "?", "☃", "\\", "'", "`", "first", "after",
    "select 1",
)  # fmt: skip


def test_statements_with_words_that_are_lost_moved_or_added_end_in_typed_errors() -> None:
    rng = random.Random(31)
    statements = [text for text, _ in (*REFUSED, *TABLES)]
    for _ in range(1000):
        words = re.findall(r"\w+|'[^']*'|`[^`]*`|\S", rng.choice(statements))
        for _ in range(rng.randint(1, 3)):
            at = rng.randrange(len(words) + 1)
            words[at : at + rng.randint(0, 1)] = rng.choice([[], [rng.choice(WORDS)]])
        with contextlib.suppress(pyhudi.PyhudiError):
            parse(" ".join(words))

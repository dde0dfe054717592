"""A query of a database as a source: SQLite by ADBC and by SQLAlchemy."""

from __future__ import annotations

import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import OptionError, SchemaError, StorageError, UserError
from pyhudi.ingest import QuerySource, SourceLimits, Stream
from pyhudi.ingest.source_registry import source_from
from tests.ingest.contract import (
    NO_COLUMNS,
    SCHEMA,
    UNLIMITED,
    SourceContract,
    SourceHarness,
)

DRIVERS = ("adbc", "sqlalchemy")


class Rides:
    """A SQLite file with a table `rides`."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "rides.db"
        self.run("CREATE TABLE rides (seq INTEGER, id TEXT, ts INTEGER, city TEXT, at TEXT)")

    @property
    def url(self) -> str:
        return f"sqlite:///{self.path}"

    def run(self, text: str, rows: list[tuple[Any, ...]] | None = None) -> None:
        with closing(sqlite3.connect(self.path)) as connection, connection:
            connection.executemany(text, rows) if rows is not None else connection.execute(text)

    def put(self, *rows: tuple[Any, ...]) -> None:
        """seq, id, ts, city, at"""
        self.run("INSERT INTO rides VALUES (?, ?, ?, ?, ?)", list(rows))


class QueryHarness(SourceHarness):
    loses = StorageError

    def __init__(self, folder: Path, driver: str) -> None:
        self.rides, self.driver, self.units = Rides(folder), driver, 0

    def source(self) -> QuerySource:
        return QuerySource(self.rides.url, "rides", incremental="seq", driver=self.driver)

    def add(self, rows: pa.Table) -> None:
        self.units += 1
        names = ["seq", *rows.column_names]
        if "extra" in names:
            self.rides.run("ALTER TABLE rides ADD COLUMN extra INTEGER")
        places = ", ".join("?" * len(names))
        values = [(self.units, *row.values()) for row in rows.to_pylist()]
        self.rides.run(f"INSERT INTO rides ({', '.join(names)}) VALUES ({places})", values)

    def lose(self) -> None:
        self.rides.run("DROP TABLE rides")


class TestQuerySource(SourceContract):
    @pytest.fixture(params=DRIVERS)
    def harness(self, tmp_path: Path, request: pytest.FixtureRequest) -> QueryHarness:
        return QueryHarness(tmp_path, request.param)


@pytest.fixture
def rides(tmp_path: Path) -> Rides:
    return Rides(tmp_path)


@pytest.fixture(params=DRIVERS)
def driver(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def rows_of(
    source: QuerySource, checkpoint: str | None = None, limits: SourceLimits = UNLIMITED,
    schema: pa.Schema = NO_COLUMNS,
) -> tuple[list[dict[str, Any]], str]:  # fmt: skip
    batch = source.read(checkpoint, limits, schema)
    assert batch is not None
    return batch.rows.read_all().to_pylist(), batch.checkpoint


def test_rows_with_the_value_of_the_last_one_belong_to_the_batch(rides: Rides, driver: str) -> None:
    rides.put(*((n // 3, f"k{n}", n, "sf", "") for n in range(9)))
    source = QuerySource(rides.url, "rides", incremental="seq", driver=driver)
    rows, checkpoint = rows_of(source, None, SourceLimits(4, None))
    assert [row["id"] for row in rows] == [f"k{n}" for n in range(6)]
    assert checkpoint == "1"
    assert [row["id"] for row in rows_of(source, checkpoint)[0]] == ["k6", "k7", "k8"]


def test_a_checkpoint_is_text_of_the_column_and_never_sql(rides: Rides, driver: str) -> None:
    rides.put((1, "k1", 1, "sf", "2026-01-01 10:00:00"), (2, "k2", 2, "la", "it's"))
    source = QuerySource(rides.url, "rides", incremental="at", driver=driver)
    rows, checkpoint = rows_of(source)
    assert checkpoint == "it's" and len(rows) == 2
    assert source.read("x' OR '1'='1", UNLIMITED, NO_COLUMNS) is None
    quoted = QuerySource(
        rides.url, 'SELECT seq AS "a ""b", id FROM rides', incremental='a "b', driver=driver
    )
    assert [row["id"] for row in rows_of(quoted, "1")[0]] == ["k2"]


def test_an_overlap_reads_rows_that_were_committed_late(rides: Rides, driver: str) -> None:
    rides.put((10, "k10", 1, "sf", ""))
    source = QuerySource(rides.url, "rides", incremental="seq", overlap=5, driver=driver)
    _, checkpoint = rows_of(source)
    rides.put((7, "late", 1, "sf", ""), (3, "too late", 1, "sf", ""))
    assert source.read(checkpoint, UNLIMITED, NO_COLUMNS) is None
    rides.put((11, "k11", 1, "sf", ""))
    assert [row["id"] for row in rows_of(source, checkpoint)[0]] == ["late", "k10", "k11"]


def test_values_get_the_types_of_the_table(rides: Rides, driver: str) -> None:
    rides.put((1, "k1", 1, "sf", "2026-01-01 10:00:00"), (2, "k2", 2, None, None))
    schema = pa.schema([("id", pa.string()), ("ts", pa.int32()), ("at", pa.timestamp("us"))])
    source = QuerySource(rides.url, "SELECT id, ts, at FROM rides", driver=driver)
    batch = source.read(None, UNLIMITED, schema)
    assert batch is not None
    assert batch.rows.schema == schema
    assert batch.rows.read_all()["at"].cast(pa.string()).to_pylist()[0] == (
        "2026-01-01 10:00:00.000000"
    )


def test_values_that_do_not_fit_the_table_are_refused(rides: Rides, driver: str) -> None:
    rides.put((1, "k1", 1, "sf", "yesterday"))
    source = QuerySource(rides.url, "SELECT id, at FROM rides", driver=driver)
    with pytest.raises(SchemaError, match="at"):
        rows_of(source, schema=pa.schema([("id", pa.string()), ("at", pa.timestamp("us"))]))


MANY = 16_384
"""Rows that are fetched at once."""


@pytest.mark.parametrize(
    ("first", "later", "kind", "expected"),
    [
        (1, 2.5, None, None), (1, "x", None, None), (1, 2.5, pa.int64(), None),
        (None, 5, pa.int64(), 5), (1.5, 2, pa.float64(), 2.0), (1, 2.5, pa.float64(), 2.5),
    ],
)  # fmt: skip
def test_later_values_of_another_type_are_read_or_refused(
    rides: Rides, driver: str, first: Any, later: Any, kind: pa.DataType | None, expected: Any
) -> None:
    rides.run("CREATE TABLE mixed (id INTEGER, v)")
    values = [(n, first) for n in range(MANY)] + [(MANY, later)]
    rides.run("INSERT INTO mixed VALUES (?, ?)", values)
    source = QuerySource(rides.url, "mixed", driver=driver)
    known = NO_COLUMNS if kind is None else pa.schema([("id", pa.int64()), ("v", kind)])
    if expected is None or (driver == "adbc" and first == 1):  # one type a column
        with pytest.raises(SchemaError, match="cast the column in the query"):
            rows_of(source, schema=known)
    else:
        assert rows_of(source, schema=known)[0][-1] == {"id": MANY, "v": expected}


def test_a_whole_query_is_read_again_after_its_time(rides: Rides, driver: str) -> None:
    rides.put((1, "k1", 1, "sf", ""))
    source = QuerySource(rides.url, "rides", driver=driver)
    _, checkpoint = rows_of(source)
    assert source.read(checkpoint, UNLIMITED, NO_COLUMNS) is None
    again = QuerySource(rides.url, "rides", refresh_seconds=0, driver=driver)
    assert len(rows_of(again, checkpoint)[0]) == 1
    with pytest.raises(UserError, match="not one of this query"):
        source.read("17", UNLIMITED, NO_COLUMNS)


def test_a_stream_follows_a_query_into_a_table(tmp_path: Path, rides: Rides, driver: str) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", ordering="ts")
    query = "SELECT id, ts, city, seq FROM rides"
    source = QuerySource(rides.url, query, incremental="seq", driver=driver)
    stream = Stream(source, table, max_rows=10)
    rides.put(*((n, f"k{n:02}", n, "sf", "") for n in range(25)))
    assert [report.inserted for report in stream.available()] == [10, 10, 5]
    rides.put((100, "k00", 100, "la", ""))
    assert [report.updated for report in stream.available()] == [1]
    assert len(pyhudi.open_table(table.path).scan().to_arrow()) == 25


def test_errors_of_the_database_are_typed_and_hide_the_password(tmp_path: Path) -> None:
    source = QuerySource("postgresql://u:secret@127.0.0.1:1/d", "rides", incremental="seq")
    with pytest.raises(StorageError, match="did not answer") as caught:
        source.read(None, UNLIMITED, NO_COLUMNS)
    assert "secret" not in str(source) and caught.value.facts["database"].count("secret") == 0


@pytest.mark.parametrize(
    ("url", "how"),
    [
        ("rides.db", {}), ("sqlite:///a.db", {"driver": "odbc"}),
        ("mysql://h/d", {"driver": "adbc"}),
        ("sqlite:///a.db", {"overlap": timedelta(1)}), ("sqlite:///a.db", {"query": " "}),
    ],
)  # fmt: skip
def test_wrong_arguments_of_a_query_source_are_refused(url: str, how: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        QuerySource(url, **{"query": "rides", **how})


def test_a_query_source_is_made_from_the_properties_of_the_streamer(rides: Rides) -> None:
    rides.put((1, "k1", 1, "sf", ""))
    properties = {
        "jdbc.url": f"jdbc:{rides.url}", "jdbc.table.name": "rides", "jdbc.incr.pull": "true",
        "jdbc.table.incr.column.name": "seq",
    }  # fmt: skip
    batch = source_from("query", properties).read(None, UNLIMITED, NO_COLUMNS)
    assert batch is not None and batch.checkpoint == "1"


@pytest.mark.parametrize(
    ("kind", "values"),
    [
        ("TEXT COLLATE NOCASE", ["a", "B", "c", "Z"]), ("NUMERIC", [9, 9.5, 10, 10.25, 11]),
        ("DECIMAL(10, 2)", [-1.5, 9, 10, 100.25]), ("REAL", [0.5, 9.0, 10.0, 1e20]),
        ("INTEGER", [-10, 9, 10, 2**62]), ("TEXT", ["10", "9", "B", "a"]),
    ],
)  # fmt: skip
def test_an_incremental_column_is_ordered_as_the_database_orders_it(
    rides: Rides, driver: str, kind: str, values: list[Any]
) -> None:
    rides.run(f"CREATE TABLE busy (id TEXT, at {kind})")
    source = QuerySource(rides.url, "busy", incremental="at", driver=driver)
    checkpoint = None
    for value in values:
        rides.run("INSERT INTO busy VALUES (?, ?)", [(str(value), value)])
        rows, checkpoint = rows_of(source, checkpoint)
        assert [row["id"] for row in rows] == [str(value)]
        assert source.read(checkpoint, UNLIMITED, NO_COLUMNS) is None


def test_an_overlap_of_a_column_of_text_is_refused(rides: Rides, driver: str) -> None:
    rides.put((1, "k1", 1, "sf", "2026"))
    source = QuerySource(rides.url, "rides", incremental="at", overlap=5, driver=driver)
    with pytest.raises(OptionError, match="overlap") as refused:
        source.read("2025", UNLIMITED, NO_COLUMNS)
    assert refused.value.facts["column"] == "at"

"""DuckDB reads snapshots: by its own reader of files, and by pyhudi where that would be wrong."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from datetime import date
from pathlib import Path
from typing import Any

import duckdb
import pyarrow as pa
import pytest

import pyhudi
import pyhudi.duckdb
from bench.lineitem import QUERIES, Made, supplier
from pyhudi.errors import UserError
from pyhudi.read.scan import Scan
from tests.engines.answers import LONG_ROWS, SHAPES, TABLES, expected, text

SCHEMA = pa.schema({"id": pa.string(), "city": pa.string(), "v": pa.int64()})


@pytest.fixture
def con() -> Iterator[duckdb.DuckDBPyConnection]:
    with duckdb.connect() as connection:
        connection.register("supplier", supplier())
        yield connection


@pytest.fixture
def trips(tmp_path: Path) -> pyhudi.Table:
    table = pyhudi.create_table(
        tmp_path / "trips", SCHEMA, record_key="id", partition_by="city", table_type="mor"
    )
    table.upsert(rows(("a", "p", 1), ("b", "p", 2), ("c", "q", 3)))
    return table


def rows(*given: tuple[str, str, int]) -> pa.Table:
    ids, cities, values = zip(*given, strict=True)
    return pa.table([ids, cities, values], schema=SCHEMA)


def answers(con: duckdb.DuckDBPyConnection, view: str) -> dict[str, list[tuple[Any, ...]]]:
    return {name: con.sql(text(name, view)).fetchall() for name in QUERIES}


def values(con: duckdb.DuckDBPyConnection, query: str) -> list[tuple[Any, ...]]:
    return sorted(pyhudi.duckdb.sql(con, query).fetchall())


@SHAPES
@pytest.mark.parametrize("reader", ["auto", "arrow"])
def test_queries_return_what_the_source_rows_give(
    made: Callable[..., Made], con: duckdb.DuckDBPyConnection, kind: str, version: int, reader: str
) -> None:
    source = made(kind, version)
    attached = pyhudi.duckdb.attach(con, source.table, reader=reader)
    files = len(source.table.file_slices())
    assert attached.native_files == (files if reader == "auto" else 0)
    assert answers(con, "lineitem") == expected(source)
    assert con.sql("select count(*) from lineitem").fetchall() == [(source.rows.num_rows,)]


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "version"), TABLES)
def test_queries_of_four_million_rows(
    made: Callable[..., Made], con: duckdb.DuckDBPyConnection, kind: str, version: int
) -> None:
    source = made(kind, version, LONG_ROWS)
    pyhudi.duckdb.attach(con, source.table)
    assert answers(con, "lineitem") == expected(source)


def test_a_view_is_the_snapshot_of_its_call(
    trips: pyhudi.Table, con: duckdb.DuckDBPyConnection
) -> None:
    first = trips.timeline.commits.last
    assert first is not None
    pyhudi.duckdb.attach(con, trips.path)
    trips.upsert(rows(("b", "p", 20), ("d", "q", 4)))
    trips.delete(keys=["c"])
    assert values(con, "select id, v from trips") == [("a", 1), ("b", 2), ("c", 3)]
    pyhudi.duckdb.attach(con, trips)
    assert values(con, "select id, v from trips") == [("a", 1), ("b", 20), ("d", 4)]
    pyhudi.duckdb.attach(con, trips, "before", as_of=first.time)
    assert values(con, "select v from before") == [(1,), (2,), (3,)]
    pyhudi.duckdb.attach(con, trips, "base", mode="read_optimized")
    assert values(con, "select v from base where id = 'b'") == [(2,)]


def test_rows_that_are_only_in_logs_or_hidden_by_them(
    trips: pyhudi.Table, con: duckdb.DuckDBPyConnection
) -> None:
    trips.delete(keys=["a", "b"])
    trips.upsert(rows(("c", "q", 30)))
    attached = pyhudi.duckdb.attach(con, trips, "We \"quote\" 'names'")
    found = values(con, """select id, city, v from "We ""quote"" 'names'" """)
    assert found == [("c", "q", 30)]
    assert attached.native_files == len(trips.file_slices())


def test_pyhudi_reads_what_the_files_do_not_state(
    tmp_path: Path, con: duckdb.DuckDBPyConnection
) -> None:
    path = tmp_path / "t[1]"
    table = pyhudi.create_table(path, SCHEMA, record_key="id")
    table.insert(rows(("a", "p", 1)))
    assert pyhudi.duckdb.attach(con, table, "globs").native_files == 0
    assert values(con, "select v from globs") == [(1,)]
    stored = pyhudi.create_table("memory://engines_duckdb", SCHEMA, record_key="id")
    stored.insert(rows(("a", "p", 1)))
    assert pyhudi.duckdb.attach(con, stored, "stored").native_files == 0
    assert values(con, "select v from stored") == [(1,)]
    wider = pa.schema([*SCHEMA, pa.field("new", pa.int32())])
    evolved = pyhudi.create_table(
        tmp_path / "evolved", SCHEMA, record_key="id", partition_by="city"
    )
    evolved.insert(rows(("a", "p", 1)))
    evolved.insert(pa.table([["b"], ["q"], [2], [5]], schema=wider), schema_mode="widen")
    attached = pyhudi.duckdb.attach(con, evolved)
    assert (attached.native_files, attached.other_slices) == (1, 1)
    assert values(con, "select id, city, new from evolved") == [("a", "p", None), ("b", "q", 5)]


def test_partition_values_come_from_the_path(
    tmp_path: Path, con: duckdb.DuckDBPyConnection
) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", partition_by="city")
    cities = ["p", None, "x y/z", ""]  # an empty text is in the default partition, as a null is
    table.insert(pa.table([["a", "b", "c", "d"], cities, [1, 2, 3, 4]], schema=SCHEMA))
    assert pyhudi.duckdb.attach(con, table).other_slices == 1
    found = con.sql("select id, city from t order by id").fetchall()
    assert found == [(row["id"], row["city"]) for row in table.to_arrow().sort_by("id").to_pylist()]


def test_columns_of_many_types_read_as_arrow_reads_them(
    tmp_path: Path, con: duckdb.DuckDBPyConnection
) -> None:
    moment = pa.array([1_700_000_000_123_456, None], pa.timestamp("us", "UTC"))
    given = pa.table(
        {
            "id": ["a", "b"],
            "at": moment,
            "local": pa.array([1_700_000_000_123_456, None], pa.timestamp("us")),
            "day": pa.array([date(2026, 11, 23), None]),
            "price": pa.array(["1.25", None]).cast(pa.decimal128(12, 2)),
            "raw": pa.array([b"\x00\xff", None]),
            "tags": pa.array([["x", None], []]),
            "at_home": pa.array([{"street": "s", "no": 1}, None]),
            "ratio": pa.array([float("nan"), None], pa.float32()),
        }
    )
    table = pyhudi.create_table(tmp_path / "t", given.schema, record_key="id")
    table.insert(given)
    assert pyhudi.duckdb.attach(con, table).native_files == 1
    pyhudi.duckdb.attach(con, table, "by_arrow", reader="arrow")
    assert con.sql("describe t").fetchall() == con.sql("describe by_arrow").fetchall()
    difference = "(from t except all from by_arrow) union all (from by_arrow except all from t)"
    assert con.sql(difference).fetchall() == []
    assert con.sql("select count(*) from t where ratio > 1").fetchall() == [(1,)]  # NaN is greatest


def test_columns_and_filters_reach_the_rows_that_pyhudi_reads(
    trips: pyhudi.Table, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    trips.upsert(rows(("b", "p", 20), ("c", "q", 30)))
    pyhudi.duckdb.attach(con, trips)
    seen: list[tuple[Any, str]] = []
    plain = Scan.narrowed

    def watched(scan: Scan, columns: Any, where: Any) -> Scan:
        seen.append((columns, str(where)))
        return plain(scan, columns, where)

    monkeypatch.setattr(Scan, "narrowed", watched)
    assert con.sql("select v from trips where city = 'q'").fetchall() == [(30,)]
    columns, where = seen[-1]
    assert "id" not in columns and "v" in columns and "city" in where


def test_table_functions_read_other_snapshots_changes_and_keys(
    trips: pyhudi.Table, con: duckdb.DuckDBPyConnection
) -> None:
    first = trips.timeline.commits.last
    assert first is not None
    trips.upsert(rows(("b", "p", 20), ("d", "q", 4)))
    path = trips.path
    query = f"select id, v from pyhudi_scan('{path}', as_of := '{first.time}') s where v > 1"
    assert values(con, query) == [("b", 2), ("c", 3)]
    newer = f"select id from pyhudi_changes('{path}', '{first.time}') -- pyhudi_changes('x')"
    assert values(con, newer) == [("b",), ("d",)]
    keys = f"select 'pyhudi_scan(1)', v from pyhudi_lookup('{path}', keys => ['b', 'nobody', 'd'])"
    assert values(con, keys) == [("pyhudi_scan(1)", 4), ("pyhudi_scan(1)", 20)]
    named = pyhudi.duckdb.sql(
        con, "select v from PYHUDI_LOOKUP('trips', 'b') where v > ?", parameters=[1],
        tables={"trips": trips},
    )  # fmt: skip
    assert named.fetchall() == [(20,)]
    trips.upsert(rows(("b", "p", 21)))
    assert values(con, f"select v from pyhudi_lookup('{path}', 'b')") == [(21,)]


def test_a_look_up_reads_one_file_group(
    trips: pyhudi.Table, con: duckdb.DuckDBPyConnection, monkeypatch: pytest.MonkeyPatch
) -> None:
    fetched: list[Any] = []
    plain = pyhudi.Table.fetch

    def watched(table: pyhudi.Table, keys: Any, columns: Any = None) -> pa.Table:
        fetched.append(table.lookup(keys)["partition_path"].to_pylist())
        return plain(table, keys, columns)

    monkeypatch.setattr(pyhudi.Table, "fetch", watched)
    assert values(con, f"select v from pyhudi_lookup('{trips.path}', ['c'])") == [(3,)]
    assert fetched == [["q"]]


@pytest.mark.parametrize(
    "call",
    [
        "pyhudi_scan()",
        "pyhudi_scan('t', as_of := now())",
        "pyhudi_scan('t', version := 1)",
        "pyhudi_scan('t', '1', as_of := '1')",
        "pyhudi_scan('t', '1', '2', true, 5)",
        "pyhudi_changes('t')",
        "pyhudi_lookup('t', (select 1))",
        "pyhudi_lookup('t', ['a', x])",
        "pyhudi_lookup('t', 'a'",
        "pyhudi_lookup('t', 'a)",
    ],
)
def test_wrong_arguments_are_named(con: duckdb.DuckDBPyConnection, call: str) -> None:
    with pytest.raises(UserError):
        pyhudi.duckdb.sql(con, f"select * from {call}")


def test_an_unknown_reader_is_rejected(trips: pyhudi.Table, con: duckdb.DuckDBPyConnection) -> None:
    with pytest.raises(UserError, match="unknown reader"):
        pyhudi.duckdb.attach(con, trips, reader="native")


def test_a_connection_without_external_access_reads_by_pyhudi(trips: pyhudi.Table) -> None:
    with duckdb.connect(config={"enable_external_access": False}) as con:
        assert pyhudi.duckdb.attach(con, trips).native_files == 0
        assert values(con, "select v from trips") == [(1,), (2,), (3,)]

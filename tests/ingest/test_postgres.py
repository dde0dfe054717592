"""A real PostgreSQL as a source: queries, and changes by logical replication."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import OptionError, SnapshotExpiredError, StorageError, UserError
from pyhudi.ingest import PostgresChanges, QuerySource, SourceLimits, Stream
from pyhudi.ingest.retries import Retries
from pyhudi.ingest.streamer.settings import IngestSettings
from tests.ingest.contract import (
    NO_COLUMNS,
    SCHEMA,
    UNLIMITED,
    SourceContract,
    SourceHarness,
    some_rows,
)
from tests.support.postgres import postgres_url, start_postgres, stop_postgres

pytestmark = [pytest.mark.slow, pytest.mark.postgres]


class Server:
    """A table `rides` with a publication and, once it is read, a slot."""

    def __init__(self) -> None:
        self.url = postgres_url()
        self.connection = psycopg.connect(self.url, autocommit=True)
        self.drop()
        self.run("CREATE TABLE rides (id text, ts bigint, city text, seq bigint DEFAULT 0, "
                 "at timestamptz DEFAULT now(), PRIMARY KEY (id))")  # fmt: skip
        self.run("CREATE PUBLICATION changes FOR TABLE rides")

    def run(self, text: str, *values: Any) -> Any:
        return self.connection.execute(text, values or None)

    def drop(self) -> None:
        self.run("SET lock_timeout = '20s'")
        slots = self.run("SELECT slot_name FROM pg_replication_slots").fetchall()
        for (slot,) in slots:
            self.run("SELECT pg_drop_replication_slot(%s)", slot)
        self.run("DROP PUBLICATION IF EXISTS changes")
        self.run("DROP TABLE IF EXISTS rides")

    def insert(self, rows: pa.Table, seq: int = 0) -> None:
        """One transaction."""
        names = [*rows.column_names, "seq"]
        if "extra" in names:
            self.run("ALTER TABLE rides ADD COLUMN IF NOT EXISTS extra bigint")
        text = f"INSERT INTO rides ({', '.join(names)}) VALUES ({', '.join(['%s'] * len(names))})"
        with self.connection.transaction(), self.connection.cursor() as cursor:
            cursor.executemany(text, [(*row.values(), seq) for row in rows.to_pylist()])

    def changes(self, **how: Any) -> PostgresChanges:
        return PostgresChanges(self.url, "rides", publication="changes", slot="ingest", **how)


@pytest.fixture
def server() -> Iterator[Server]:
    server = Server()
    yield server
    server.drop()
    server.connection.close()


class QueryOfPostgres(SourceHarness):
    loses = StorageError

    def __init__(self, server: Server) -> None:
        self.server, self.units = server, 0

    def source(self) -> QuerySource:
        return QuerySource(self.server.url, "rides", incremental="seq")

    def add(self, rows: pa.Table) -> None:
        self.units += 1
        self.server.insert(rows, self.units)

    def lose(self) -> None:
        """Also ends the connections of queries, whose locks the statement would wait for."""
        self.server.run("SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE "
                        "datname = current_database() AND pid <> pg_backend_pid()")  # fmt: skip
        self.server.run("DROP TABLE rides CASCADE")


class ChangesOfPostgres(SourceHarness):
    loses = SnapshotExpiredError

    def __init__(self, server: Server) -> None:
        self.server = server
        self.source().read(None, UNLIMITED, SCHEMA)  # creates the slot

    def source(self) -> PostgresChanges:
        return self.server.changes(snapshot=False)

    def add(self, rows: pa.Table) -> None:
        self.server.insert(rows)

    def lose(self) -> None:
        self.server.run("SELECT pg_drop_replication_slot('ingest')")


class TestQueryOfPostgres(SourceContract):
    @pytest.fixture
    def harness(self, server: Server) -> QueryOfPostgres:
        return QueryOfPostgres(server)


class TestChangesOfPostgres(SourceContract):
    @pytest.fixture
    def harness(self, server: Server) -> ChangesOfPostgres:
        return ChangesOfPostgres(server)


@pytest.mark.parametrize("driver", ["adbc", "sqlalchemy"])
def test_a_query_is_incremental_by_time(server: Server, driver: str) -> None:
    url = server.url if driver == "adbc" else server.url.replace("://", "+psycopg://")
    source = QuerySource(
        url, "rides", incremental="at", driver=driver, overlap=timedelta(minutes=1)
    )
    server.insert(some_rows(0, 3))
    first = source.read(None, UNLIMITED, NO_COLUMNS)
    assert first is not None and first.rows.read_all().num_rows == 3
    assert source.read(first.checkpoint, UNLIMITED, NO_COLUMNS) is None
    server.insert(some_rows(3, 1))
    second = source.read(first.checkpoint, UNLIMITED, NO_COLUMNS)
    assert second is not None and second.rows.read_all().num_rows == 4  # with the overlap


def rows_of(batch: Any) -> dict[str, dict[str, Any]]:
    assert batch is not None
    return {row["id"]: row for row in batch.rows.read_all().to_pylist()}


def test_updates_deletes_and_changes_of_keys_are_rows(server: Server) -> None:
    source = server.changes(snapshot=False)
    assert source.read(None, UNLIMITED, SCHEMA) is None
    server.insert(some_rows(0, 4))
    server.run("UPDATE rides SET ts = 7 WHERE id = 'k0001'")
    server.run("UPDATE rides SET id = 'k0009' WHERE id = 'k0002'")
    server.run("DELETE FROM rides WHERE id = 'k0003'")
    found = rows_of(source.read(None, UNLIMITED, SCHEMA))
    assert {key: row["_hoodie_is_deleted"] for key, row in found.items()} == {
        "k0000": False, "k0001": False, "k0002": True, "k0003": True, "k0009": False
    }  # fmt: skip
    assert found["k0001"]["ts"] == 7 and found["k0009"]["ts"] == 0


@pytest.mark.parametrize("identity", ["DEFAULT", "FULL"])
def test_large_values_that_an_update_did_not_change_are_complete(
    server: Server, identity: str
) -> None:
    server.run(f"ALTER TABLE rides REPLICA IDENTITY {identity}")
    server.run("ALTER TABLE rides ALTER city SET STORAGE EXTERNAL")
    large = "x" * 10_000
    server.run("INSERT INTO rides VALUES ('a\"b,\\', 1, %s)", large)
    source = server.changes(snapshot=False)
    source.read(None, UNLIMITED, SCHEMA)
    server.run("UPDATE rides SET ts = 2")
    found = rows_of(source.read(None, UNLIMITED, SCHEMA))
    assert found['a"b,\\']["city"] == large and found['a"b,\\']["ts"] == 2


def test_a_truncated_table_is_reported(server: Server) -> None:
    source = server.changes(snapshot=False)
    source.read(None, UNLIMITED, SCHEMA)
    server.insert(some_rows(0, 2))
    server.run("TRUNCATE rides")
    with pytest.raises(UserError, match="truncated"):
        source.read(None, UNLIMITED, SCHEMA)
    ignoring = server.changes(snapshot=False, truncate="ignore")
    assert len(rows_of(ignoring.read(None, UNLIMITED, SCHEMA))) == 2
    with pytest.raises(OptionError):
        server.changes(truncate="maybe")


def test_the_slot_is_advanced_by_a_commit_only(server: Server) -> None:
    source = server.changes(snapshot=False)
    source.read(None, UNLIMITED, SCHEMA)
    server.insert(some_rows(0, 2))
    batch = source.read(None, UNLIMITED, SCHEMA)
    assert batch is not None
    confirmed = "SELECT confirmed_flush_lsn::text FROM pg_replication_slots"
    assert server.run(confirmed).fetchone()[0] != batch.checkpoint
    batch.committed()
    assert server.run(confirmed).fetchone()[0] == batch.checkpoint
    with pytest.raises(SnapshotExpiredError, match="no longer has"):
        source.read("0/1", UNLIMITED, SCHEMA)


def test_a_stream_follows_a_table_from_its_snapshot(tmp_path: Path, server: Server) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")
    server.insert(some_rows(0, 50))
    stream = Stream(server.changes(), table, max_rows=20)
    list(stream.available())
    server.run("UPDATE rides SET ts = 5 WHERE id < 'k0010'")
    server.run("DELETE FROM rides WHERE id > 'k0039'")
    server.insert(some_rows(90, 5, ts=1))
    list(stream.available())
    query = "SELECT id, ts, city FROM rides ORDER BY id"
    found = pyhudi.open_table(table.path).scan(["id", "ts", "city"]).to_arrow().sort_by("id")
    assert [tuple(row.values()) for row in found.to_pylist()] == server.run(query).fetchall()


def test_properties_follow_a_table(tmp_path: Path, server: Server) -> None:
    server.insert(some_rows(0, 5))
    stated = {
        "hoodie.streamer.jdbc.url": f"jdbc:{server.url}",
        "hoodie.streamer.jdbc.table.name": "rides",
        "pyhudi.ingest.postgres.publication": "changes",
        "pyhudi.ingest.postgres.slot": "ingest",
        "hoodie.datasource.write.recordkey.field": "id",
    }
    path = str(tmp_path / "t")
    settings = IngestSettings(stated, source_class="PostgresChanges", target_base_path=path)
    settings.stream().run()
    server.run("DELETE FROM rides WHERE id = 'k0001'")
    settings.stream().run()
    assert pyhudi.open_table(path).count() == 4


def confirmed(server: Server) -> int:
    query = "SELECT confirmed_flush_lsn - '0/0'::pg_lsn FROM pg_replication_slots"
    return int(server.run(query).fetchone()[0])


def test_changes_of_other_tables_move_the_slot(tmp_path: Path, server: Server) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")
    server.insert(some_rows(0, 3))
    stream = Stream(server.changes(), table)
    stream.run()
    server.run("CREATE TABLE busy (id int, t text)")
    try:
        for _ in range(3):
            before = confirmed(server)
            server.run(
                "INSERT INTO busy SELECT g, repeat('x', 500) FROM generate_series(1, 20000) g"
            )
            stream.run()
            assert confirmed(server) - before > 8 << 20
        commits = len(pyhudi.open_table(table.path).timeline.commits)
        server.run("INSERT INTO busy VALUES (1, 'a')")
        stream.run()
        assert len(pyhudi.open_table(table.path).timeline.commits) == commits
        server.insert(some_rows(3, 1))
        stream.run()
        assert pyhudi.open_table(table.path).count() == 4
    finally:
        server.run("DROP TABLE busy")


def test_changes_of_another_table_of_the_publication_are_left_out(
    tmp_path: Path, server: Server
) -> None:
    server.run("CREATE TABLE busy (id int PRIMARY KEY)")
    try:
        server.run("ALTER PUBLICATION changes ADD TABLE busy")
        table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")
        server.insert(some_rows(0, 3))
        stream = Stream(server.changes(), table, max_rows=5)
        stream.run()
        for number in range(20):
            server.run("INSERT INTO busy VALUES (%s)", number)
        stream.run()
        server.insert(some_rows(3, 1))
        stream.run()
        assert pyhudi.open_table(table.path).count() == 4
    finally:
        server.run("DROP TABLE busy")


def test_a_continuous_ingest_outlives_a_restart_of_the_server(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")
    server.insert(some_rows(0, 3))
    Stream(server.changes(), table).run()
    rounds = iter(range(100))

    def stop() -> bool:
        number = next(rounds)
        if number == 1:
            stop_postgres()
        elif number == 12:
            start_postgres()
            server.connection = psycopg.connect(server.url, autocommit=True)
            server.insert(some_rows(3, 2))
        return pyhudi.open_table(table.path).count() == 5 or number > 90

    Stream(server.changes(), table).run(
        continuous=True, stop=stop, retries=Retries(first_seconds=0.2, max_seconds=1.0)
    )
    assert pyhudi.open_table(table.path).count() == 5
    assert any("is repeated" in record.getMessage() for record in caplog.records)


def test_a_continuous_ingest_waits_for_a_slot_that_is_active_elsewhere(
    tmp_path: Path, server: Server, caplog: pytest.LogCaptureFixture
) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id")
    server.insert(some_rows(0, 3))
    Stream(server.changes(), table).run()
    other = psycopg.pq.PGconn.connect(f"{server.url}?replication=database".encode())
    options = b"proto_version '1', publication_names 'changes'"
    other.send_query(b"START_REPLICATION SLOT ingest LOGICAL 0/0 (" + options + b")")
    while not server.run("SELECT active FROM pg_replication_slots").fetchone()[0]:
        pass
    server.insert(some_rows(3, 2))
    with pytest.raises(StorageError, match="is active") as refused:
        Stream(server.changes(), table).run()
    assert refused.value.retryable
    assert pyhudi.open_table(table.path).count() == 3
    rounds, freed = iter(range(100)), []

    def warnings() -> list[str]:
        return [r.getMessage() for r in caplog.records if r.levelname == "WARNING"]

    def stop() -> bool:
        if not freed and sum("is active" in text for text in warnings()) >= 2:
            other.finish()
            freed.append(True)
        return pyhudi.open_table(table.path).count() == 5 or next(rounds) > 90

    caplog.clear()
    Stream(server.changes(), table).run(
        continuous=True, stop=stop, retries=Retries(first_seconds=0.1, max_seconds=0.5)
    )
    assert freed and all("is repeated" in text for text in warnings() if "is active" in text)
    assert pyhudi.open_table(table.path).count() == 5


def test_what_a_person_must_change_is_not_retried(server: Server) -> None:
    absent = PostgresChanges(server.url, "nowhere", publication="changes", slot="other")
    with pytest.raises(UserError, match="not a table of the database"):
        absent.read(None, UNLIMITED, SCHEMA)
    absent = PostgresChanges(server.url, "rides", publication="none", slot="other")
    with pytest.raises(UserError, match="publication does not exist"):
        absent.read(None, UNLIMITED, SCHEMA)
    server.run("CREATE TABLE busy (id int PRIMARY KEY)")
    try:
        absent = PostgresChanges(server.url, "busy", publication="changes", slot="other")
        with pytest.raises(UserError, match="does not contain the table"):
            absent.read(None, UNLIMITED, SCHEMA)
        assert server.run("SELECT count(*) FROM pg_replication_slots").fetchone()[0] == 0
        with pytest.raises(StorageError) as caught:
            list(QuerySource(server.url, "nowhere").read(None, UNLIMITED, NO_COLUMNS).rows)  # type: ignore[union-attr]
        assert not caught.value.retryable
        source = QuerySource(server.url.replace("test@", "nobody@"), "rides")
        with pytest.raises(StorageError) as caught:
            source.read(None, UNLIMITED, NO_COLUMNS)
        assert not caught.value.retryable
    finally:
        server.run("DROP TABLE busy")


@pytest.mark.parametrize("driver", ["adbc", "sqlalchemy"])
def test_values_of_a_query_have_their_types(server: Server, driver: str) -> None:
    url = server.url if driver == "adbc" else server.url.replace("://", "+psycopg://")
    server.run("DROP TABLE IF EXISTS busy")
    server.run("DROP TYPE IF EXISTS mood")
    server.run("CREATE TYPE mood AS ENUM ('glad')")
    server.run("CREATE TABLE busy (id uuid PRIMARY KEY, n numeric(10, 2), at timestamptz, "
               "list int[], raw bytea, m mood, j jsonb, i inet)")  # fmt: skip
    first = "00000000-0000-0000-0000-000000000001"
    server.run("INSERT INTO busy VALUES (%s, 1.5, '2026-01-01 12:00+05:30', '{1,NULL}', "
               "'\\x00ff', 'glad', '{\"a\": 1}', '1.2.3.4')", first)  # fmt: skip
    for number, (column, value) in enumerate(
        [("n", "NaN"), ("at", "infinity"), ("list", "{{1},{2}}")], 2
    ):
        key = first[:-1] + str(number)
        server.run(f"INSERT INTO busy (id, {column}) VALUES (%s, %s)", key, value)
    server.run("ALTER ROLE test SET bytea_output = 'escape'")
    server.run("ALTER ROLE test SET datestyle = 'SQL, DMY'")
    known = pa.schema({
        "id": pa.string(), "n": pa.decimal128(10, 2), "at": pa.timestamp("us", "UTC"),
        "list": pa.list_(pa.int32()), "raw": pa.binary(), "m": pa.string(), "j": pa.string(),
        "i": pa.string(),
    })  # fmt: skip
    try:
        batch = QuerySource(url, "busy", driver=driver).read(None, UNLIMITED, known)
        assert batch is not None and batch.rows.schema.equals(known)
        assert batch.rows.read_all().to_pylist() == [{
            "id": first, "n": Decimal("1.50"), "at": datetime(2026, 1, 1, 6, 30, tzinfo=UTC),
            "list": [1, None], "raw": b"\0\xff", "m": "glad", "j": '{"a": 1}', "i": "1.2.3.4",
        }]  # fmt: skip
        reasons = batch.rejected.take()["reason"].to_pylist()
        assert [reason.split(":")[0] for reason in reasons] == [
            "column n", "column at", "column list"
        ]  # fmt: skip
        source = QuerySource(url, "busy", incremental="at", driver=driver)
        batch = source.read(None, UNLIMITED, known)
        assert batch is not None and batch.checkpoint.startswith("2026-01-01")
        assert batch.rows.read_all().num_rows == 1
    finally:
        server.run("ALTER ROLE test RESET ALL")
        server.run("DROP TABLE busy")
        server.run("DROP TYPE mood")


@pytest.mark.parametrize("driver", ["adbc", "sqlalchemy"])
def test_arrays_of_a_query_have_the_types_of_their_elements(server: Server, driver: str) -> None:
    url = server.url if driver == "adbc" else server.url.replace("://", "+psycopg://")
    arrays = {
        "n": ("numeric(6, 2)", "{1.10,NULL}", [Decimal("1.10"), None]),
        "u": ("uuid", "{00000000-0000-0000-0000-000000000001}",
              ["00000000-0000-0000-0000-000000000001"]),
        "j": ("jsonb", '{"{\\"a\\": 1}"}', ['{"a": 1}']),
        "t": ("text", '{"a,b","NULL",NULL}', ["a,b", "NULL", None]),
        "at": ("timestamptz", '{"2026-01-01 00:00+02"}', [datetime(2025, 12, 31, 22, tzinfo=UTC)]),
    }  # fmt: skip
    values = ", ".join(f"'{text}'::{kind}[] AS {name}" for name, (kind, text, _) in arrays.items())
    known = pa.schema([("n", pa.list_(pa.decimal128(6, 2)))])
    batch = QuerySource(url, f"SELECT {values}", driver=driver).read(None, UNLIMITED, known)
    assert batch is not None
    expected = {name: value for name, (_, _, value) in arrays.items()}
    assert batch.rows.read_all().to_pylist() == [expected]


ORDERED = {
    "smallint": ("9", "10", "-3"), "int": ("9", "10", "100"), "bigint": ("9", "10", "-10"),
    "numeric": ("9", "10", "9.5", "1e30", "-20", "100000.25"),
    "numeric(10, 2)": ("9.5", "10", "-20.25"), "numeric(3, -2)": ("900", "10000"),
    "real": ("9.5", "10", "1e20"), "double precision": ("9", "10", "0.1", "1e300", "-1e-7"),
    "date": ("2026-01-09", "2026-01-10", "9999-12-31", "10000-01-01", "0001-01-01 BC"),
    "timestamp": ("2026-01-09 10:00", "2026-01-10", "2026-01-10 00:00:00.000001"),
    "timestamptz": ("2026-01-09 10:00+05:30", "2026-01-09 10:00+00", "2026-01-09 04:00-02"),
    'text COLLATE "en-x-icu"': ("a", "B", "b", "é", "Z"), 'text COLLATE "C"': ("a", "B", "9", "10"),
    "varchar(5)": ("a", "b", "10", "9"), "char(3)": ("a", "b", "10"),
    "uuid": ("00000000-0000-0000-0000-00000000000a", "f0000000-0000-0000-0000-000000000000",
             "10000000-0000-0000-0000-000000000000"),
    "interval": ("9 days", "10 days", "1 year"), "time": ("09:00", "10:00"),
    "pg_lsn": ("0/9", "0/10", "A/0"), "mood": ("sad", "glad"), "positive": ("9", "10"),
    "bytea": ("\\x09", "\\xff00", "\\x41"), "inet": ("9.0.0.1", "10.0.0.1"),
    "boolean": ("f", "t"),
}  # fmt: skip
UNREAD = {
    "numeric": "NaN", "numeric(10, 2)": "NaN", "real": "Infinity", "double precision": "NaN",
    "date": "infinity", "timestamp": "infinity", "timestamptz": "-infinity", "int": None,
}  # fmt: skip


@pytest.fixture
def ordered(server: Server) -> Iterator[Server]:
    server.run("CREATE TYPE mood AS ENUM ('sad', 'glad')")
    server.run("CREATE DOMAIN positive AS numeric CHECK (VALUE > 0)")
    yield server
    server.run("DROP TABLE IF EXISTS busy")
    server.run("DROP TYPE mood")
    server.run("DROP DOMAIN positive")


@pytest.mark.parametrize("driver", ["adbc", "sqlalchemy"])
@pytest.mark.parametrize("kind", ORDERED)
def test_an_incremental_column_is_ordered_as_the_database_orders_it(
    ordered: Server, kind: str, driver: str
) -> None:
    url = ordered.url if driver == "adbc" else ordered.url.replace("://", "+psycopg://")
    ordered.run(f"CREATE TABLE busy (id text, at {kind})")
    for value in ORDERED[kind]:
        ordered.run("INSERT INTO busy VALUES (%s, %s)", value, value)
    found = ordered.run("SELECT id FROM busy ORDER BY at").fetchall()
    expected = [key for (key,) in found]
    ordered.run("TRUNCATE busy")
    source = QuerySource(url, "busy", incremental="at", driver=driver)
    known, checkpoint = pa.schema([("id", pa.string()), ("at", pa.string())]), None
    if kind in UNREAD:
        ordered.run("INSERT INTO busy VALUES ('none', %s)", UNREAD[kind])
    assert source.read(checkpoint, UNLIMITED, known) is None
    for value in expected:  # one by one
        ordered.run("INSERT INTO busy VALUES (%s, %s)", value, value)
        batch = source.read(checkpoint, UNLIMITED, known)
        assert batch is not None
        assert batch.rows.read_all()["id"].to_pylist() == [value]
        checkpoint = batch.checkpoint
        assert source.read(checkpoint, UNLIMITED, known) is None
    checkpoint, read = None, []
    while (batch := source.read(checkpoint, SourceLimits(1, None), known)) is not None:
        read += batch.rows.read_all()["id"].to_pylist()
        checkpoint = batch.checkpoint
    assert read == expected


@pytest.mark.parametrize("driver", ["adbc", "sqlalchemy"])
def test_what_has_no_order_or_no_difference_is_refused_by_name(
    ordered: Server, driver: str
) -> None:
    url = ordered.url if driver == "adbc" else ordered.url.replace("://", "+psycopg://")
    ordered.run("CREATE TABLE busy (id text, doc json, place point, list int[], at numeric)")
    ordered.run("INSERT INTO busy VALUES ('a', '{}', '(1,2)', '{1}', 10)")
    for column, match in [
        ("doc", "no order"), ("place", "no order"), ("list", "no order"), ("none", "no such column")
    ]:  # fmt: skip
        source = QuerySource(url, "busy", incremental=column, driver=driver)
        with pytest.raises(UserError, match=match) as refused:
            source.read(None, UNLIMITED, NO_COLUMNS)
        assert refused.value.facts["column"] == column
    for column, overlap in [("id", 5), ("at", timedelta(1))]:
        source = QuerySource(url, "busy", incremental=column, overlap=overlap, driver=driver)
        with pytest.raises(OptionError, match="overlap"):
            source.read(None, UNLIMITED, NO_COLUMNS)
    source = QuerySource(url, "busy", incremental="at", driver=driver)
    with pytest.raises(UserError, match="not one of this query"):
        source.read("x' OR '1'='1", UNLIMITED, NO_COLUMNS)


@pytest.mark.parametrize("driver", ["adbc", "sqlalchemy"])
def test_the_overlap_of_a_numeric_column_is_a_difference(ordered: Server, driver: str) -> None:
    url = ordered.url if driver == "adbc" else ordered.url.replace("://", "+psycopg://")
    ordered.run("CREATE TABLE busy (id text, at numeric(10, 2))")
    ordered.run("INSERT INTO busy VALUES ('a', 10), ('b', 9.25), ('c', 8)")
    source = QuerySource(url, "busy", incremental="at", overlap=1.5, driver=driver)
    assert source.read("10.00", UNLIMITED, NO_COLUMNS) is None
    ordered.run("INSERT INTO busy VALUES ('d', 11)")
    batch = source.read("10.00", UNLIMITED, NO_COLUMNS)
    assert batch is not None
    assert batch.rows.read_all()["id"].to_pylist() == ["b", "a", "d"]

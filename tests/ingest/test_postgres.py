"""A real PostgreSQL as a source: queries, and changes by logical replication."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import OptionError, SnapshotExpiredError, StorageError, UserError
from pyhudi.ingest import PostgresChanges, QuerySource, Stream
from pyhudi.ingest.streamer.settings import IngestSettings
from tests.ingest.contract import (
    NO_COLUMNS,
    SCHEMA,
    UNLIMITED,
    SourceContract,
    SourceHarness,
    some_rows,
)  # fmt: skip
from tests.support.postgres import postgres_url

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
        "pyhudi.ingest.postgres.publication": "changes", "pyhudi.ingest.postgres.slot": "ingest",
        "hoodie.datasource.write.recordkey.field": "id",
    }  # fmt: skip
    path = str(tmp_path / "t")
    settings = IngestSettings(stated, source_class="PostgresChanges", target_base_path=path)
    settings.stream().run()
    server.run("DELETE FROM rides WHERE id = 'k0001'")
    settings.stream().run()
    assert pyhudi.open_table(path).count() == 4

"""Random tables, transactions and settings of a real PostgreSQL reach a table as they are."""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from contextlib import suppress
from decimal import Decimal
from pathlib import Path
from typing import Any

import psycopg
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.ingest import PostgresChanges, Stream
from pyhudi.ingest.streamer.target import IngestTarget
from tests.support.postgres import postgres_url

pytestmark = [pytest.mark.slow, pytest.mark.postgres]
ROUNDS = int(os.environ.get("PYHUDI_POSTGRES_ROUNDS", "10"))

SETTINGS = {
    "datestyle": ["ISO, MDY", "SQL, DMY", "German", "Postgres, MDY"],
    "bytea_output": ["hex", "escape"], "timezone": ["UTC", "Asia/Kolkata", "America/St_Johns"],
    "intervalstyle": ["postgres", "iso_8601", "sql_standard", "postgres_verbose"],
    "extra_float_digits": ["-15", "0", "3"], "lc_monetary": ["C"],
    "default_transaction_isolation": ["read committed", "repeatable read"],
}  # fmt: skip
AS_TEXT = {"uuid", "jsonb", "json", "mood", "interval", "inet", "int4range", "numeric", "char(5)"}
VALUES: dict[str, list[str]] = {
    "int": ["1", "-2147483648", "7"], "bigint": ["9223372036854775807", "0"],
    "smallint": ["-5", "32767"], "boolean": ["t", "f"], "real": ["0.1", "NaN", "-1e30"],
    "double precision": ["0.1", "1e300", "Infinity", "0.30000000000000004"],
    "numeric(10,2)": ["1.50", "-99999999.99", "0"], "numeric": ["1.230", "NaN", "1e40"],
    "numeric(3,-2)": ["12300", "0"], "date": ["2026-02-01", "0001-01-01", "9999-12-31"],
    "time": ["10:00", "23:59:59.123456"], "timestamp": ["2026-02-01 03:04:05.6", "0001-01-01"],
    "timestamptz": ["2026-02-01 12:00+05:30", "1969-12-31 23:59:59.999999+00"],
    "bytea": ["\\xdeadbeef", "\\x", "\\x5c7841"], "text": ["", "a,b\"'\\ é☃", "NULL", "{1}"],
    "uuid": ["7bdf9a46-2104-4768-96d6-2983457d9fe1", "00000000-0000-0000-0000-000000000001"],
    "jsonb": ['{"a": [1, null]}', "null"], "json": ['{"a" : 1}'], "mood": ["glad", "a b"],
    "interval": ["1 year 2 days 03:04:05.5", "-1 day"], "inet": ["1.2.3.4", "10.0.0.0/8"],
    "int4range": ["[1,5)", "empty"], "char(5)": ["ab", ""], "positive": ["3", "4"],
    "money_of": ["1.25", "7.00"],
    "int[]": ["{1,NULL,3}", "{}", "[0:1]={5,6}"], "text[]": ['{a,"b c","NULL",NULL,"q\\"\\\\"}'],
    "numeric(10,2)[]": ["{1.50,NULL}"], "timestamptz[]": ['{"2026-02-01 12:00+05:30"}'],
    "bytea[]": ['{"\\\\x00ff",NULL}'], "boolean[]": ["{t,f}"], "mood[]": ['{glad,"a b"}'],
}  # fmt: skip
SPECIAL = {
    "date": "infinity", "timestamp": "-infinity", "timestamptz": "infinity",
    "numeric(10,2)": "NaN", "int[]": "{{1,2},{3,4}}", "time": "24:00",
}  # fmt: skip
KEYS: dict[str, Any] = {
    "text": lambda r: f"k{r.randrange(15)}\"',\\",
    "bigint": lambda r: r.randrange(15),
    "uuid": lambda r: f"00000000-0000-0000-0000-{r.randrange(15):012}",
    "date": lambda r: f"2026-01-{r.randrange(1, 16):02}",
}


class Round:
    """One random table and its ingest."""

    def __init__(self, seed: int, connection: psycopg.Connection, path: Path) -> None:
        self.random, self.connection, self.seed = random.Random(seed), connection, seed
        kinds = self.random.sample(list(KEYS), self.random.choice([1, 1, 2]))
        self.key = {f"k{n}": kind for n, kind in enumerate(kinds)}
        chosen = self.random.sample(list(VALUES), self.random.randint(3, 9))
        self.columns = {f"c{n}": kind for n, kind in enumerate(chosen)} | {"big": "text"}
        self.identity = self.random.choice(["primary", "primary", "full", "index", "none"])
        self.is_partitioned = self.random.random() < 0.4
        self.specials = self.random.random() < 0.3
        self.special_keys: set[tuple[Any, ...]] = set()
        self.checks = 0
        self._create()
        options = {"hoodie.datasource.write.recordkey.field": ",".join(self.key)}
        kind = self.random.choice(["COPY_ON_WRITE", "MERGE_ON_READ"])
        self.target = IngestTarget(str(path / f"t{seed}"), options, name="t", table_type=kind)

    def run(self, text: str, *values: Any) -> Any:
        return self.connection.execute(text, values or None)

    def _create(self) -> None:
        names = {**self.key, **self.columns}
        stated = ", ".join(f"{name} {kind}" for name, kind in names.items())
        keys = ", ".join(self.key)
        if self.identity in ("primary", "full"):
            stated += f", PRIMARY KEY ({keys})"
        by = f" PARTITION BY HASH ({next(iter(self.key))})" if self.is_partitioned else ""
        self.run(f"CREATE TABLE r ({stated}){by}")
        parts = ["r"]
        if self.is_partitioned:
            for n in range(2):
                self.run(
                    f"CREATE TABLE r_{n} PARTITION OF r FOR VALUES WITH (MODULUS 2, REMAINDER {n})"
                )
                parts.append(f"r_{n}")
        for part in parts:
            self.run(f"ALTER TABLE {part} ALTER big SET STORAGE EXTERNAL")
            if self.identity == "full":
                self.run(f"ALTER TABLE {part} REPLICA IDENTITY FULL")
        if self.identity == "index":
            for name in self.key:
                self.run(f"ALTER TABLE r ALTER {name} SET NOT NULL")
            self.run(f"CREATE UNIQUE INDEX r_key ON r ({keys})")
            for n, part in enumerate(parts):
                index = (
                    "r_key"
                    if n == 0
                    else self.run(
                        "SELECT indexrelid::regclass::text FROM pg_index "
                        "WHERE indrelid = %s::regclass",
                        part,
                    ).fetchone()[0]
                )
                self.run(f"ALTER TABLE {part} REPLICA IDENTITY USING INDEX {index}")
        root = self.random.choice(["true", "false"])
        self.run(
            f"CREATE PUBLICATION p FOR TABLE r, other WITH (publish_via_partition_root = {root})"
        )

    def settings(self) -> None:
        for name, values in SETTINGS.items():
            self.run(f"ALTER ROLE test SET {name} = '{self.random.choice(values)}'")

    def _new_key(self) -> tuple[Any, ...]:
        return tuple(KEYS[kind](self.random) for kind in self.key.values())

    def _value(self, name: str, key: tuple[Any, ...]) -> str | None:
        if name == "big":
            return self.random.choice(["x" * 5000, "y" * 9000, "short", None])
        kind = self.columns[name]
        if self.random.random() < 0.15:
            return None
        if self.specials and kind in SPECIAL and self.random.random() < 0.05:
            self.special_keys.add(key)
            return SPECIAL[kind]
        return self.random.choice(VALUES[kind])

    def _where(self) -> str:
        return " AND ".join(f"{name} = %s::{kind}" for name, kind in self.key.items())

    def change(self) -> None:
        act, key = self.random.random(), self._new_key()
        if act < 0.1:
            self.run("INSERT INTO other VALUES (1, repeat('x', 100))")
        elif self.identity == "none" or act < 0.5:
            names = [*self.key, *self.columns]
            values = [*key, *(self._value(name, key) for name in self.columns)]
            marks = ", ".join("%s" for _ in names)
            clash = "" if self.identity == "none" else " ON CONFLICT DO NOTHING"
            self.run(f"INSERT INTO r ({', '.join(names)}) VALUES ({marks}){clash}", *values)
        elif act < 0.75:
            name = self.random.choice(list(self.columns))
            self.run(
                f"UPDATE r SET {name} = %s WHERE {self._where()}", self._value(name, key), *key
            )
        elif act < 0.87:
            other = self._new_key()
            if self.special_keys & {key, other}:
                self.special_keys |= {key, other}
            sets = ", ".join(f"{name} = %s::{kind}" for name, kind in self.key.items())
            absent = f"NOT EXISTS (SELECT FROM r WHERE {self._where()})"
            self.run(
                f"UPDATE r SET {sets} WHERE {self._where()} AND {absent}", *other, *key, *other
            )
        else:
            self.run(f"DELETE FROM r WHERE {self._where()}", *key)

    def transactions(self) -> None:
        for _ in range(self.random.randint(1, 6)):
            with self.connection.transaction(force_rollback=self.random.random() < 0.1):
                for _ in range(self.random.randint(1, 8)):
                    with self.connection.transaction(force_rollback=self.random.random() < 0.1):
                        self.change()
            if self.random.random() < 0.1:
                self.change_columns()

    def change_columns(self) -> None:
        choice = self.random.randrange(3)
        ints = [name for name, kind in self.columns.items() if kind == "int"]
        others = [name for name in self.columns if name != "big"]
        if choice == 0:
            name, kind = f"n{len(self.columns)}_{self.random.randrange(99)}", "boolean"
            self.run(f"ALTER TABLE r ADD COLUMN {name} {kind}")
            self.columns[name] = kind
        elif choice == 1 and ints:
            self.run(f"ALTER TABLE r ALTER {ints[0]} TYPE bigint")
            self.columns[ints[0]] = "bigint"
        elif len(others) > 1:
            self.run(f"ALTER TABLE r DROP COLUMN {others[-1]}")
            del self.columns[others[-1]]

    def ingest(self) -> None:
        source = PostgresChanges(postgres_url(), "r", publication="p", slot="s")
        limit = self.random.choice([None, 3, 20])
        Stream(source, self.target, bad_rows="skip", max_rows=limit).run()

    def check(self) -> None:
        names = {**self.key, **self.columns}
        select = ", ".join(
            f"CASE WHEN {n} IS DISTINCT FROM NULL THEN concat({n}) END"
            if k in AS_TEXT
            else (f"{n}::text[]" if k == "mood[]" else n)
            for n, k in names.items()
        )
        rows = (
            self.run(f"SELECT {select} FROM r").fetchall()
            if not self.specials
            else self._plain(select)
        )
        found = []
        if self.target.table is not None:
            table = pyhudi.open_table(self.target.path)
            have = [n for n in names if n in table.schema.names]
            rows_of = table.scan(have).to_arrow().to_pylist()
            found = [tuple(row.get(name) for name in names) for row in rows_of]
        size = len(self.key)
        skip = {tuple(map(str, key)) for key in self.special_keys}
        if self.identity == "none":  # several rows of a key, the last of which counts
            first, second = (
                {tuple(map(str, row[:size])) for row in each} for each in (rows, found)
            )
            assert first - skip == second - skip
            return
        expected = {row[:size]: _plain(row) for row in rows}
        actual = {row[:size]: _plain(row) for row in found}
        expected = {k: v for k, v in expected.items() if tuple(map(str, k)) not in skip}
        actual = {k: v for k, v in actual.items() if tuple(map(str, k)) not in skip}
        assert actual == expected, (self.seed, names, self.identity, self.is_partitioned)
        assert len(found) == len({row[:size] for row in found})
        self.checks += len(expected)

    def _plain(self, select: str) -> list[tuple[Any, ...]]:
        """Rows that psycopg has values for: without those of special keys."""
        found = []
        keys = self.run(
            "SELECT " + ", ".join(f"{n}::text" for n in self.key) + " FROM r"
        ).fetchall()
        where = " AND ".join(f"{n}::text = %s" for n in self.key)
        skip = {tuple(map(str, key)) for key in self.special_keys}
        for key in keys:
            if key not in skip:
                found += self.run(f"SELECT {select} FROM r WHERE {where}", *key).fetchall()
        return found

    def drop(self) -> None:
        self.run("ALTER ROLE test RESET ALL")
        for text in (
            "SELECT pg_drop_replication_slot('s')",
            "DROP PUBLICATION IF EXISTS p",
            "DROP TABLE IF EXISTS r CASCADE",
        ):
            with suppress(psycopg.Error):
                self.run(text)


def _plain(row: tuple[Any, ...]) -> tuple[Any, ...]:
    return tuple(map(_value, row))


def _value(value: Any) -> Any:
    if isinstance(value, list):
        return tuple(map(_value, value))
    if isinstance(value, float):
        return repr(pa.scalar(value, pa.float32()).as_py()) if abs(value) < 1e38 else repr(value)
    if isinstance(value, Decimal):
        return value.normalize()
    if isinstance(value, bytes | memoryview):
        return bytes(value)
    return value


@pytest.fixture(scope="module")
def connection() -> Iterator[psycopg.Connection]:
    with psycopg.connect(postgres_url(), autocommit=True) as connection:
        connection.execute("SET timezone = 'UTC'")
        connection.execute("CREATE TYPE mood AS ENUM ('glad', 'a b')")
        connection.execute("CREATE DOMAIN positive AS int CHECK (value > 0)")
        connection.execute("CREATE DOMAIN money_of AS numeric(12, 2)")
        connection.execute("CREATE TABLE other (id int, t text)")
        connection.execute("ALTER TABLE other REPLICA IDENTITY FULL")
        yield connection
        connection.execute("DROP TABLE other")
        connection.execute("DROP DOMAIN positive")
        connection.execute("DROP DOMAIN money_of")
        connection.execute("DROP TYPE mood")


@pytest.mark.parametrize("seed", range(ROUNDS))
def test_a_random_table_is_followed(
    tmp_path: Path, connection: psycopg.Connection, seed: int
) -> None:
    each = Round(seed, connection, tmp_path)
    try:
        for _ in range(3):
            each.settings()
            each.transactions()
            each.ingest()
            each.check()
    finally:
        each.drop()

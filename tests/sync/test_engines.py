"""Query engines find tables in a catalog and return their rows (`make long-engines`)."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.sync.catalog_entry import CatalogTable
from pyhudi.sync.hive_metastore import HiveMetastore
from tests.support import query_engines
from tests.support.apache_hudi import ApacheHudi
from tests.sync.engine_tables import COLUMNS, as_text, build, expected

pytestmark = [pytest.mark.engines, pytest.mark.slow]
SELECT = ", ".join(COLUMNS)
TABLES = {
    "cow": ("cow", 6, True), "mor": ("mor", 6, True), "cow_plain": ("cow", 6, False),
    "mor_plain": ("mor", 6, False), "cow8": ("cow", 8, True), "mor8": ("mor", 8, True),
    "cow9": ("cow", 9, True), "mor9": ("mor", 9, True),
}  # fmt: skip
VERSION_6 = [name for name in TABLES if not name[-1].isdigit()]


def register(folder: Path, uri: str) -> dict[str, pyhudi.Table]:
    tables = {}
    for name, (kind, version, partitioned) in TABLES.items():
        tables[name] = build(folder / name, kind, version, partitioned=partitioned)
        tables[name].sync("hive", uri=uri, database="lake", table=name)
    return tables


@pytest.fixture(scope="module")
def lake(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[str, dict[str, Any]]]:
    with query_engines.hive_metastore("3") as uri:
        yield uri, register(tmp_path_factory.mktemp("lake"), uri)


def trino_rows(port: int, name: str) -> list[tuple[str, ...]]:
    from trino.dbapi import connect

    connection = connect(host="127.0.0.1", port=port, user="test", catalog="hudi", schema="lake")
    cursor = connection.cursor()
    try:
        return as_text(cursor.execute(f"select {SELECT} from {name}").fetchall())
    finally:
        connection.close()


def test_trino_reads_what_it_finds(lake: tuple[str, dict[str, pyhudi.Table]]) -> None:
    """Its connector reads base files only: merge-on-read tables equal the read-optimized query."""
    uri, tables = lake
    with query_engines.trino(uri) as port:
        for name in TABLES:
            mode = "read_optimized" if name.startswith("mor") else "snapshot"
            for entry, _ in entries_of(name):
                assert trino_rows(port, entry) == expected(tables[name], mode), entry


def hive_rows(cursor: Any, name: str) -> list[tuple[str, ...]]:
    cursor.execute(f"select {SELECT} from lake.{name}")
    return as_text(cursor.fetchall())


def test_hive_reads_what_it_finds(tmp_path: Path) -> None:
    """The read-optimized entry has base files only, the others the merged snapshot."""
    from impala.dbapi import connect

    with query_engines.hive(lambda uri: register(tmp_path / "lake", uri)) as (port, tables):
        connection = connect(host="127.0.0.1", port=port, auth_mechanism="NOSASL", user="root")
        cursor = connection.cursor()
        for name in TABLES:
            for entry, mode in entries_of(name):
                assert hive_rows(cursor, entry) == expected(tables[name], mode), entry
        connection.close()


def flink_table(entry: CatalogTable, kind: str) -> str:
    """The statement by which Flink reads an entry of a metastore."""
    keys = entry.partition_keys
    columns = ", ".join(f"`{c.name}` {c.type}" for c in (*entry.columns, *keys))
    by = f"partitioned by ({', '.join(f'`{key.name}`' for key in keys)})" if keys else ""
    path = entry.location.removeprefix("file:")
    return (
        f"create table {entry.name} ({columns}, primary key (id) not enforced) {by} with ("
        f"'connector' = 'hudi', 'path' = 'file://{path}', 'table.type' = '{kind}')"
    )


def test_flink_reads_what_the_catalog_names(lake: tuple[str, dict[str, pyhudi.Table]]) -> None:
    """Columns, partition columns and locations of the entries; its release reads version 6."""
    uri, tables = lake
    catalog, statements = HiveMetastore(uri), []
    quoted = ", ".join(f"`{column}`" for column in COLUMNS)
    for name in VERSION_6:
        entry = catalog.table("lake", name)
        assert entry is not None
        statements.append(flink_table(entry, tables[name].config.table_type.value))
        statements.append(f"select '{name}', {quoted} from {name}")
    catalog.close()
    rows = query_engines.flink(statements)
    for name in VERSION_6:
        found = as_text(row[1:] for row in rows if row[0] == name)
        assert found == expected(tables[name]), name


def test_spark_sql_with_apache_hudi_reads_what_it_finds(
    lake: tuple[str, dict[str, pyhudi.Table]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    uri, tables = lake
    monkeypatch.setenv("HUDI_ORACLE_METASTORE", uri)
    hudi = ApacheHudi("1.2.0")
    for name in TABLES:
        for entry, mode in entries_of(name):
            out = tmp_path / f"{entry}.parquet"
            hudi.call("query", text=f"select {SELECT} from lake.{entry}", out=str(out))
            rows = (tuple(row.values()) for row in pq.read_table(out).to_pylist())
            assert as_text(rows) == expected(tables[name], mode), entry
    hudi.close()


def entries_of(name: str) -> list[tuple[str, str]]:
    """The entries of a table, and the query that each gives."""
    if name.startswith("cow"):
        return [(name, "snapshot")]
    return [(name + "_ro", "read_optimized"), (name + "_rt", "snapshot"), (name, "snapshot")]

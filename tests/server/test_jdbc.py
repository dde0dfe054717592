"""The JDBC driver of Flight SQL queries tables; `make long-engines-local` fetches the driver."""

from __future__ import annotations

import subprocess
from datetime import date
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.server.sql_server import SqlServer

pytestmark = [pytest.mark.slow, pytest.mark.engines_local]
PROGRAM = Path(__file__).parent / "jdbc" / "Query.java"
DRIVERS = Path(__file__).parents[2] / "build" / "jdbc"
TOKEN = "a-token-of-the-tests"


def lines(server: SqlServer, token: str) -> list[str]:
    """What the program prints."""
    (driver,) = DRIVERS.glob("flight-sql-jdbc-driver-*.jar")
    ran = subprocess.run(
        ["java", "--add-opens=java.base/java.nio=ALL-UNNAMED", "-cp", str(driver), str(PROGRAM),
         f"127.0.0.1:{server.port}", token],
        capture_output=True, text=True, timeout=120,
    )  # fmt: skip
    return ran.stdout.splitlines()


def test_queries_parameters_and_metadata_by_jdbc(tmp_path: Path) -> None:
    day = pa.array([date(2026, 11, 23)] * 3)
    rows = pa.table({"id": ["a", "b", "c"], "city": ["sf", "sf", "la"], "v": [1, 2, 3], "day": day})
    table = pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id", table_type="mor")
    table.insert(rows)
    table.upsert(pa.table({"id": ["c"], "city": ["la"], "v": [30], "day": day.slice(2)}))
    with SqlServer({"trips": table}, tokens=[TOKEN]) as server:
        assert lines(server, TOKEN) == [
            "b,2,2026-11-23", "c,30,2026-11-23",
            "at least 1: 2", "at least 2: 1", "at least 3: 0",
            "table trips", "column id", "column city", "column v", "column day",
            "refused",
        ]  # fmt: skip
        assert lines(server, "another-token-of-16") == []

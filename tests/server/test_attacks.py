"""Clients that try to take a server's memory, time or places, or to learn about its machine."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import pyhudi
from pyhudi.errors import UserError
from pyhudi.server import sql_server
from pyhudi.server.catalog import is_like
from pyhudi.server.messages import message_bytes, message_of
from pyhudi.server.queries import QueryLimits
from pyhudi.server.query_pool import QueryPool
from pyhudi.server.sql_server import SqlServer

flight = pytest.importorskip("pyarrow.flight")
TOKEN = "a-token-of-the-tests"
LIMITS = QueryLimits(
    seconds=3, result_rows=5000, result_bytes=10_000_000, queries=1, memory="300MB"
)
REFUSED = (pa.ArrowException, flight.FlightError, OSError)


class Client:
    """A client of Flight SQL that sends any message."""

    def __init__(self, url: str, token: str | None = TOKEN) -> None:
        self.connection = flight.connect(url)
        headers = [] if token is None else [(b"authorization", f"Bearer {token}".encode())]
        self.options = flight.FlightCallOptions(headers=headers, timeout=60)

    def reader(self, query: str) -> Any:
        return self.read("TicketStatementQuery", {1: query.encode()})

    def read(self, name: str, fields: dict[int, bytes]) -> Any:
        ticket = flight.Ticket(message_bytes(name, fields))
        return self.connection.do_get(ticket, self.options)

    def rows(self, query: str) -> list[Any]:
        return [tuple(row.values()) for row in self.reader(query).read_all().to_pylist()]

    def refusal(self, query: str) -> str:
        with pytest.raises(REFUSED) as found:
            self.rows(query)
        return str(found.value)

    def prepare(self, query: str) -> bytes:
        body = message_bytes("ActionCreatePreparedStatementRequest", {1: query.encode()})
        action = flight.Action("CreatePreparedStatement", body)
        (result,) = self.connection.do_action(action, self.options)
        return message_of(result.body.to_pybytes()).data(1) or b""


@pytest.fixture(scope="module")
def table(tmp_path_factory: pytest.TempPathFactory) -> pyhudi.Table:
    rows = pa.table({"id": [f"k{i}" for i in range(1000)], "n": range(1000)})
    made = pyhudi.create_table(
        tmp_path_factory.mktemp("tables") / "t", rows.schema, record_key="id"
    )
    made.insert(rows)
    return made


@pytest.fixture(scope="module")
def served(table: pyhudi.Table) -> Iterator[SqlServer]:
    with SqlServer({"trips": table}, tokens=[TOKEN], limits=LIMITS) as server:
        yield server


@pytest.fixture
def client(served: SqlServer) -> Iterator[Client]:
    found = Client(served.url)
    yield found
    assert found.rows("select count(*) from trips") == [(1000,)]  # the server still answers


@pytest.mark.parametrize(
    "query",
    [
        "select range(100000) s from range(10000)",
        "select repeat('x', 1000000) s from range(1000)",
        "select length(repeat('a', 2000000000))",
        "select list_sum(range(100000000))",
        "select * from range(100000) a, range(100000) b order by 1",
        "select list(a.range) from range(1000000) a, range(100) b",
    ],
)
def test_a_query_does_not_exceed_its_memory(table: pyhudi.Table, query: str) -> None:
    """On a server whose time a busy machine does not reach first."""
    limits = replace(LIMITS, seconds=60)
    with SqlServer({"trips": table}, tokens=[TOKEN], limits=limits) as server:
        client = Client(server.url)
        assert "more memory than the server allows" in client.refusal(query)
        assert client.rows("select count(*) from trips") == [(1000,)]


@pytest.fixture(scope="module")
def served_briefly(table: pyhudi.Table) -> Iterator[SqlServer]:
    limits = replace(LIMITS, seconds=1)
    with SqlServer({"trips": table}, tokens=[TOKEN], limits=limits) as server:
        yield server


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from range(1000000000000)",
        "select levenshtein(repeat('a', 60000), repeat('b', 60000))",
        "with recursive t(n) as (select 1 union all select n + 1 from t) select count(*) from t",
    ],
)
def test_a_query_ends_at_its_time(served_briefly: SqlServer, query: str) -> None:
    """And its place is free for another."""
    client, start = Client(served_briefly.url), time.monotonic()
    assert "took longer than the server allows" in client.refusal(query)
    assert time.monotonic() - start < 1 + 5
    assert client.rows("select 1") == [(1,)]


def test_a_signal_ends_the_server_and_what_it_runs(table: pyhudi.Table) -> None:
    with subprocess.Popen(
        [sys.executable, "-m", "pyhudi", "serve", table.path, "--json", "--stop-after", "60"],
        stdout=subprocess.PIPE, text=True,
    ) as server, ThreadPoolExecutor(1) as pool:  # fmt: skip
        assert server.stdout is not None
        facts = json.loads(server.stdout.readline())
        client = Client(facts["url"], facts["token"])
        refused = pool.submit(client.refusal, "select count(*) from range(1000000000000)")
        time.sleep(1)
        server.send_signal(signal.SIGTERM)
        assert server.wait(timeout=20) == 0
        assert refused.result()


def test_a_result_has_at_most_its_bytes(client: Client) -> None:
    few = "select repeat('x', 10000) from range(900)"
    assert len(client.rows(few)) == 900
    assert "larger than the server allows" in client.refusal(few.replace("900", "1100"))


def test_a_client_that_does_not_read_loses_its_place(client: Client, served: SqlServer) -> None:
    query = "select range r, repeat('x', 1900) s from range(5000)"  # more than fits on the way
    unread = client.reader(query)
    assert unread.read_chunk().data.num_rows > 0
    time.sleep(LIMITS.seconds + 0.5)
    assert Client(served.url).rows("select 1") == [(1,)]
    del unread


def test_one_query_runs_at_a_time_where_one_is_allowed(client: Client) -> None:
    spans = []

    def run() -> None:
        start = time.monotonic()
        client.rows("select pg_sleep(0.5)")
        spans.append(time.monotonic() - start)

    with ThreadPoolExecutor(2) as pool:
        for done in [pool.submit(run), pool.submit(run)]:
            done.result()
    assert max(spans) >= 1.0


def test_a_query_that_finds_no_place_in_its_time_is_refused(table: pyhudi.Table) -> None:
    pool = QueryPool({"trips": table}, replace(LIMITS, seconds=0.2))
    try:
        pool.take()
        with pytest.raises(UserError, match="runs too many queries"):
            pool.schema("select 1")
    finally:
        pool.close()


def test_a_pattern_of_many_wildcards_is_answered_at_once(client: Client) -> None:
    start = time.monotonic()
    found = client.read("CommandGetTables", {3: b"%" * 900 + b"z"}).read_all()
    assert (found.num_rows, time.monotonic() - start < 5) == (0, True)
    with pytest.raises(REFUSED, match="pattern is too long"):
        client.read("CommandGetDbSchemas", {2: b"%" * 2000}).read_all()


@given(st.text("ab%_", max_size=9), st.text("ab\n", max_size=9))
def test_patterns_match_as_regular_expressions_do(pattern: str, name: str) -> None:
    parts = (".*" if c == "%" else "." if c == "_" else c for c in pattern)
    assert is_like(name, pattern) == bool(re.fullmatch("".join(parts), name, re.DOTALL))


def test_long_messages_are_refused_before_they_are_read(served: SqlServer) -> None:
    long = b"x" * (64 << 20)
    descriptor = flight.FlightDescriptor.for_command(long)
    with pytest.raises(flight.FlightUnauthenticatedError):
        known = Client(served.url, None)
        known.connection.get_flight_info(descriptor, known.options)
    with pytest.raises(REFUSED, match="larger than max"):
        known = Client(served.url)
        known.connection.get_flight_info(descriptor, known.options)


def test_prepared_statements_have_a_bounded_size(
    client: Client, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sql_server, "_PREPARED_BYTES_MAX", 100_000)
    first = client.prepare("select 1")
    others = [client.prepare("select 2 /*" + "x" * 2000 + "*/") for _ in range(20)]
    newest = client.read("CommandPreparedStatementQuery", {1: others[-1]}).read_all()
    assert newest.to_pydict() == {"2": [2]}
    with pytest.raises(REFUSED, match="unknown prepared statement"):
        client.read("CommandPreparedStatementQuery", {1: first}).read_all()


@pytest.mark.parametrize(
    "query",
    [
        "select * from pyhudi_scan('trips', mode := 'x')",
        "select * from pyhudi_scan('trips', as_of := '1999-01-01')",
        "select * from pyhudi_scan(" + "(" * 3000 + "'trips'" + ")" * 3000 + ")",
        "select " + "(" * 3000 + "1" + ")" * 3000,
        "select " + "+".join(["1"] * 5000),
        "select * from pyhudi_changes('trips', 'xx')",
        "select * from read_text('/etc/hostname')",
        "select error('x')",
        "select 'unclosed",
    ],
)
def test_errors_name_no_files_of_the_server(
    client: Client, query: str, table: pyhudi.Table
) -> None:
    text = client.refusal(query)
    for hidden in (
        "Traceback",
        ".py",
        str(Path.home()),
        str(table.path),
        str(Path(pyhudi.__file__)),
    ):
        assert hidden not in text


def test_a_table_that_is_not_served_is_not_found_by_its_path(
    client: Client, tmp_path: Path
) -> None:
    rows = pa.table({"id": ["secret"]})
    pyhudi.create_table(tmp_path / "o", rows.schema, record_key="id").insert(rows)
    for query in (f"select * from pyhudi_scan('{tmp_path}/o')",
                  f"select * from pyhudi_lookup('{tmp_path}/o', ['secret'])"):  # fmt: skip
        assert "no such table" in client.refusal(query)


def test_a_server_that_ends_leaves_no_query_behind(table: pyhudi.Table) -> None:
    limits = QueryLimits(seconds=3600, queries=2)
    server = SqlServer({"t": table}, tokens=[TOKEN], limits=limits)
    client = Client(server.url)
    ended = threading.Event()

    def run() -> None:
        with pytest.raises(REFUSED):
            client.rows("select count(*) from range(1000000000000)")
        ended.set()

    thread = threading.Thread(target=run)
    thread.start()
    time.sleep(0.5)
    server.shutdown()
    assert ended.wait(10)
    thread.join()

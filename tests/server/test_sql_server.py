"""Clients of Flight SQL query tables: with a token and TLS, and nothing else on the server."""

from __future__ import annotations

import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from bench.lineitem import QUERIES, make, supplier
from pyhudi.errors import UserError
from pyhudi.server.messages import message_bytes, message_of
from pyhudi.server.queries import Queries, QueryLimits
from pyhudi.server.sql_server import SqlServer, Tls
from tests.engines.answers import expected, text
from tests.engines.opened_files import opened_data

flight = pytest.importorskip("pyarrow.flight")
dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
TOKEN = "a token of the tests"
AUTHORIZATION = "adbc.flight.sql.authorization_header"
ROOTS = "adbc.flight.sql.client_option.tls_root_certs"


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Any:
    return make(tmp_path_factory.mktemp("served") / "lineitem", 3000, "mor")


@pytest.fixture(scope="module")
def suppliers(tmp_path_factory: pytest.TempPathFactory) -> pyhudi.Table:
    rows = supplier()
    path = tmp_path_factory.mktemp("served") / "s"
    table = pyhudi.create_table(path, rows.schema, record_key="s_suppkey")
    table.insert(rows)
    return table


@pytest.fixture(scope="module")
def server(made: Any, suppliers: pyhudi.Table) -> Iterator[SqlServer]:
    limits = QueryLimits(seconds=20, result_rows=2000)
    tables = {"lineitem": made.table, "supplier": suppliers}
    served = SqlServer(tables, tokens=[TOKEN], limits=limits)
    yield served
    served.shutdown()


@pytest.fixture
def cursor(server: SqlServer) -> Iterator[Any]:
    options = {AUTHORIZATION: f"Bearer {TOKEN}"}
    with dbapi.connect(server.url, db_kwargs=options) as con, con.cursor() as found:
        yield found


def test_queries_return_what_the_source_rows_give(cursor: Any, made: Any) -> None:
    for name, rows in expected(made).items():
        cursor.execute(text(name, "lineitem"))
        assert cursor.fetchall() == rows, name
    assert len(QUERIES) == 3


def test_rows_are_looked_up_by_key(cursor: Any, made: Any) -> None:
    key = "l_orderkey:5,l_linenumber:1"
    cursor.execute(f"select l_orderkey, l_linenumber from pyhudi_lookup('lineitem', ['{key}'])")
    assert cursor.fetchall() == [(5, 1)]


@pytest.mark.parametrize(
    "query",
    [
        "select l_orderkey from pyhudi_lookup('lineitem', ['l_orderkey:5,l_linenumber:1'])",
        "select l_orderkey from pyhudi_scan('lineitem', with_meta := true)"
        " where _hoodie_record_key = 'l_orderkey:5,l_linenumber:1'",
    ],
)
def test_a_look_up_reads_the_file_group_of_the_key(
    query: str, made: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    queries = Queries({"lineitem": made.table}, QueryLimits())
    with opened_data(monkeypatch) as groups, queries.batches(query) as (_, batches):
        assert pa.Table.from_batches(batches).to_pydict() == {"l_orderkey": [5]}
    queries.close()
    assert len(groups) == 1 < len(made.table.file_slices())


def test_prepared_statements_have_parameters(cursor: Any, made: Any) -> None:
    query = "select count(*) from lineitem where l_quantity > ? and l_returnflag = ?"
    found = made.rows.to_pandas()
    for quantity, flag in [(10, "A"), (30, "R")]:
        cursor.execute(query, parameters=(quantity, flag))
        matching = found[(found.l_quantity > quantity) & (found.l_returnflag == flag)]
        assert cursor.fetchall() == [(len(matching),)]


def test_new_commits_are_seen(cursor: Any, suppliers: pyhudi.Table) -> None:
    cursor.execute("select count(*) from supplier")
    before = cursor.fetchone()[0]
    suppliers.insert(pa.table({"s_suppkey": [1000], "s_nation": ["nation 0"]}))
    cursor.execute("select count(*) from SUPPLIER")
    assert cursor.fetchone()[0] == before + 1


def test_a_client_finds_tables_and_columns(cursor: Any, server: SqlServer) -> None:
    connection = cursor.connection
    objects = connection.adbc_get_objects(depth="all").read_all().to_pylist()
    (found,) = objects
    assert found["catalog_name"] == "pyhudi"
    (schema,) = found["catalog_db_schemas"]
    tables = {table["table_name"]: table for table in schema["db_schema_tables"]}
    assert sorted(tables) == ["lineitem", "supplier"]
    columns = [column["column_name"] for column in tables["supplier"]["table_columns"]]
    assert columns == ["s_suppkey", "s_nation"]
    assert connection.adbc_get_table_types() == ["TABLE"]
    assert connection.adbc_get_info()["vendor_name"] == "pyhudi"
    assert connection.adbc_get_table_schema("supplier").names == ["s_suppkey", "s_nation"]


@pytest.mark.parametrize(
    "query",
    [
        "copy lineitem to 'stolen.csv'",
        "select * from read_csv('stolen.csv')",
        "select * from read_text('/etc/hostname')",
        "select * from glob('*')",
        "select * from '/etc/hostname'",
        "attach 'other.db'",
        "install httpfs",
        "load json",
        "set enable_external_access = true",
        "reset lock_configuration",
        "create table x (a int)",
        "delete from lineitem",
        "select 1; select 2",
        "pragma database_list",
        "select * from pyhudi_scan('/srv/other')",
        "select * from pyhudi_lookup('other', ['a'])",
        "select * from TOKEN",
        "select * from made",
        "select * from unknown",
        "",
    ],
)
def test_a_query_reaches_only_the_served_tables(
    cursor: Any, query: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    with pytest.raises(dbapi.Error):
        cursor.execute(query)
        cursor.fetchall()
    assert not list(tmp_path.iterdir())
    cursor.execute("select 1")  # the server still answers
    assert cursor.fetchall() == [(1,)]


def test_results_and_times_are_limited(cursor: Any, made: Any) -> None:
    with pytest.raises(dbapi.Error, match="larger than the server allows"):
        cursor.execute("select * from lineitem")
        cursor.fetchall()
    slow = SqlServer({"t": made.table}, tokens=[TOKEN], limits=QueryLimits(seconds=0.5))
    with (
        dbapi.connect(slow.url, db_kwargs={AUTHORIZATION: f"Bearer {TOKEN}"}) as con,
        con.cursor() as one,
        pytest.raises(dbapi.Error, match="longer than the server allows"),
    ):
        one.execute("select sum(a.i * b.i) from range(1000000) a(i), range(1000000) b(i)")
        one.fetchall()
    slow.shutdown()


ENDLESS = "select count(*) from range(1000000000000)"


@pytest.mark.parametrize("way", ["cancel", pytest.param("close", marks=pytest.mark.slow)])
def test_a_cancelled_query_leaves_its_place_to_another(made: Any, way: str) -> None:
    """The server has one place; the query would hold it for an hour."""
    limits = QueryLimits(seconds=3600, queries=1)
    with SqlServer({"t": made.table}, tokens=[TOKEN], limits=limits) as server:
        options = flight.FlightCallOptions(
            headers=[(b"authorization", f"Bearer {TOKEN}".encode())], timeout=60
        )
        ticket = flight.Ticket(message_bytes("TicketStatementQuery", {1: ENDLESS.encode()}))
        with flight.connect(server.url) as client:
            reader = client.do_get(ticket, options)
            if way == "cancel":
                threading.Timer(0.5, reader.cancel).start()
                with pytest.raises((flight.FlightCancelledError, pa.ArrowCancelled)):
                    reader.read_chunk()
            del reader
        with dbapi.connect(server.url, db_kwargs={AUTHORIZATION: f"Bearer {TOKEN}"}) as con:
            cursor = con.cursor()
            cursor.execute("select count(*) from t")
            assert cursor.fetchall() == [(made.rows.num_rows,)]
            cursor.close()


@pytest.mark.parametrize("given", [None, "Bearer", "Bearer ", "Bearer another token", TOKEN])
def test_a_request_without_the_token_is_rejected(server: SqlServer, given: str | None) -> None:
    headers = [] if given is None else [(b"authorization", given.encode())]
    client = flight.connect(server.url)
    command = message_bytes("CommandStatementQuery", {1: b"select 1"})
    options = flight.FlightCallOptions(headers=headers)
    descriptor = flight.FlightDescriptor.for_command(command)
    for call in (
        lambda: client.get_flight_info(descriptor, options),
        lambda: client.do_get(flight.Ticket(command), options).read_all(),
        lambda: list(client.do_action(("CreatePreparedStatement", command), options)),
        lambda: list(client.list_flights(options=options)),
    ):
        with pytest.raises(flight.FlightUnauthenticatedError):
            call()
    client.close()


@pytest.mark.parametrize(
    "command",
    [
        b"",
        b"\xff" * 40,
        b"\x0a\xff\xff\xff\xff\x0f",
        b"\x0a\x05abc",
        message_bytes("CommandUnknown", {}),
        message_bytes("CommandStatementUpdate", {1: b"delete from lineitem"}),
        message_bytes("CommandStatementQuery", {1: b"\xff\xfe"}),
        message_bytes("CommandPreparedStatementQuery", {1: b"unknown"}),
        message_bytes("CommandStatementQuery", {1: b"x" * (2 << 20)}),
    ],
)
def test_damaged_messages_are_errors_of_the_call(server: SqlServer, command: bytes) -> None:
    client = flight.connect(server.url)
    options = flight.FlightCallOptions(headers=[(b"authorization", f"Bearer {TOKEN}".encode())])
    with pytest.raises((pa.ArrowInvalid, flight.FlightError)):
        client.get_flight_info(flight.FlightDescriptor.for_command(command), options)
    with pytest.raises((pa.ArrowInvalid, flight.FlightError)):
        client.do_get(flight.Ticket(command), options).read_all()
    client.close()


def test_a_message_is_read_as_it_was_written() -> None:
    made = message_of(message_bytes("CommandGetTables", {1: b"c", 3: b"x" * 300}))
    assert (made.name, made.text(1), made.text(2), made.text(3)) == (
        "CommandGetTables", "c", None, "x" * 300,
    )  # fmt: skip


def test_tls_encrypts_the_connection(made: Any, tmp_path: Path) -> None:
    key, certificate = tmp_path / "key.pem", tmp_path / "certificate.pem"
    subprocess.run(
        ["openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "2", "-subj",
         "/CN=localhost", "-addext", "subjectAltName=DNS:localhost,IP:127.0.0.1",
         "-keyout", str(key), "-out", str(certificate)],
        check=True, capture_output=True,
    )  # fmt: skip
    tls = Tls(certificate.read_bytes(), key.read_bytes())
    with SqlServer({"t": made.table}, tokens=[TOKEN], host="0.0.0.0", tls=tls) as server:
        url = f"grpc+tls://localhost:{server.port}"
        options = {AUTHORIZATION: f"Bearer {TOKEN}", ROOTS: certificate.read_text()}
        with dbapi.connect(url, db_kwargs=options) as con, con.cursor() as cursor:
            cursor.execute("select count(*) from t")
            assert cursor.fetchall() == [(made.rows.num_rows,)]
        with pytest.raises(dbapi.Error):
            dbapi.connect(url, db_kwargs={AUTHORIZATION: f"Bearer {TOKEN}"}).cursor().execute("x")


@pytest.mark.parametrize(
    "given",
    [
        {"tokens": []},
        {"tokens": ["short"]},
        {"tokens": "a token of the tests"},
        {"tokens": [TOKEN], "host": "0.0.0.0"},
        {"tokens": [TOKEN], "host": "example.org"},
        {"tokens": [TOKEN], "tls": Tls(b"no", b"pem")},
    ],
)
def test_a_server_that_is_not_safe_does_not_start(made: Any, given: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        SqlServer({"t": made.table}, **given)


def test_limits_are_positive() -> None:
    for name in ("seconds", "result_rows", "result_bytes", "queries"):
        with pytest.raises(UserError, match="must be positive"):
            QueryLimits(**{name: 0})
    for memory in ("0MB", "lots", "1", "-1GB", "1GB; set threads=9"):
        with pytest.raises(UserError):
            QueryLimits(memory=memory)

"""Clients of Flight SQL write: with tokens of writers, to named tables, one audit line each."""

from __future__ import annotations

import json
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import pyhudi
from pyhudi.cli.app import commands
from pyhudi.errors import UserError
from pyhudi.server.messages import fields_bytes, message_bytes, message_of
from pyhudi.server.sql_server import SqlServer
from pyhudi.server.writers import Writers, is_write
from pyhudi.server.writes import WriteLimits

flight = pytest.importorskip("pyarrow.flight")
dbapi = pytest.importorskip("adbc_driver_flightsql.dbapi")
READER, ETL, APP = "a-token-of-readers", "a-token-of-the-etl", "a-token-of-the-app"
REFUSED = (pa.ArrowException, flight.FlightError)
ROWS = pa.table({"id": ["a", "b", "c"], "city": ["x", "y", "x"], "fare": [1.0, 2.0, 3.0]})
BEFORE = list(zip(*ROWS.to_pydict().values(), strict=True))


class Served:
    """A server of `trips`, which is writable, and `rides`, which is not; its audit lines."""

    def __init__(self, folder: Path) -> None:
        self.audit: list[str] = []
        self.tables = {
            name: pyhudi.create_table(folder / name, ROWS.schema, record_key="id")
            for name in ("trips", "rides")
        }
        for table in self.tables.values():
            table.insert(ROWS)
        self.trips = self.tables["trips"]
        limits = WriteLimits(seconds=60, rows=50, statement_chars=5000, memory="500MB")
        writers = Writers(["Trips"], {"etl": ETL, "app": APP}, limits, self.audit.append)
        self.server = SqlServer(self.tables, tokens=[READER], writers=writers)

    def reset(self) -> None:
        if self.rows() != BEFORE:
            self.trips.insert_overwrite_table(ROWS)
        self.audit.clear()

    def rows(self) -> list[tuple[Any, ...]]:
        found = self.trips.to_arrow().select(["id", "city", "fare"]).to_pylist()
        return sorted(tuple(row.values()) for row in found)

    def lines(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.audit]


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Served]:
    found = Served(tmp_path_factory.mktemp("served"))
    yield found
    found.server.shutdown()


@pytest.fixture
def served(made: Served) -> Served:
    made.reset()
    return made


class Client:
    """A client of Flight SQL that sends any message."""

    def __init__(self, server: SqlServer | str, token: str = ETL) -> None:
        self.connection = flight.connect(server if isinstance(server, str) else server.url)
        headers = [(b"authorization", f"Bearer {token}".encode())]
        self.options = flight.FlightCallOptions(headers=headers, timeout=60)

    def put(self, name: str, fields: dict[int, bytes], rows: pa.Table | None = None) -> int:
        """The number of rows of an update."""
        descriptor = flight.FlightDescriptor.for_command(message_bytes(name, fields))
        schema = pa.schema([]) if rows is None else rows.schema
        writer, answers = self.connection.do_put(descriptor, schema, self.options)
        if rows is not None:
            writer.write_table(rows)
        writer.done_writing()
        found = answers.read()
        writer.close()
        assert found is not None
        # DoPutUpdateResult: 1: int64
        (count,) = message_of(
            message_bytes("DoPutUpdateResult", {}) if not found else _any(found.to_pybytes())
        ).numbers(1)
        return count

    def update(self, text: str) -> int:
        return self.put("CommandStatementUpdate", {1: text.encode()})

    def refusal(self, text: str) -> str:
        with pytest.raises(REFUSED) as found:
            self.update(text)
        return str(found.value)

    def act(self, kind: str, body: bytes) -> list[Any]:
        return list(self.connection.do_action(flight.Action(kind, body), self.options))

    def prepare(self, text: str) -> bytes:
        body = message_bytes("ActionCreatePreparedStatementRequest", {1: text.encode()})
        (result,) = self.act("CreatePreparedStatement", body)
        return message_of(result.body.to_pybytes()).data(1) or b""

    def info(self, name: str, fields: dict[int, bytes]) -> Any:
        descriptor = flight.FlightDescriptor.for_command(message_bytes(name, fields))
        return self.connection.get_flight_info(descriptor, self.options)


def _any(content: bytes) -> bytes:
    """A message as `message_of` reads it."""
    url = b"type.googleapis.com/arrow.flight.protocol.sql.DoPutUpdateResult"
    return fields_bytes({1: url, 2: content})


@pytest.fixture
def client(served: Served) -> Client:
    return Client(served.server)


@pytest.fixture
def cursor(served: Served) -> Iterator[Any]:
    login = {"adbc.flight.sql.authorization_header": f"Bearer {ETL}"}
    with (
        dbapi.connect(served.server.url, db_kwargs=login, autocommit=True) as con,
        con.cursor() as found,
    ):
        yield found


@pytest.mark.parametrize(
    ("text", "count", "after"),
    [
        ("insert into trips values ('d', 'z', 4.0)", 1, ("d", "z", 4.0)),
        ("update TRIPS set fare = fare + 10 where city = 'x'", 2, ("a", "x", 11.0)),
        ("-- of Apache Hudi\ndelete from trips where id <> 'a'", 2, ("a", "x", 1.0)),
        (
            "merge into trips t using (select id, city, 9.0 as fare from rides) s on t.id = s.id"
            " when matched and s.id = 'b' then update set fare = s.fare",
            1,
            ("b", "y", 9.0),
        ),
    ],
)
def test_a_writer_changes_rows(
    client: Client, served: Served, text: str, count: int, after: tuple[Any, ...]
) -> None:
    assert client.update(text) == count
    assert after in served.rows()
    (line,) = served.lines()
    extra = pyhudi.sql(
        "call show_commit_extra_metadata(table => 't', instant_time => :i)",
        tables={"t": served.trips}, parameters={"i": line["instant"]},
    )  # fmt: skip
    found = dict(zip(*(extra[f"metadata_{c}"].to_pylist() for c in ("key", "value")), strict=True))
    assert (found["_pyhudi_statement"], found["_pyhudi_writer"]) == (line["id"], "etl")


def test_adbc_writes_with_bound_parameters(cursor: Any, served: Served) -> None:
    cursor.execute("update trips set fare = ? where id = ?", parameters=(7.5, "b"))
    assert (cursor.rowcount, ("b", "y", 7.5) in served.rows()) == (1, True)
    cursor.execute("delete from trips where id = 'c'")
    assert cursor.rowcount == 1
    commits = len(served.trips.timeline)
    cursor.executemany(
        "insert into trips values (?, upper(?), ?)", [("e", "v", 5.0), ("f", "w", 6.0)]
    )
    assert (cursor.rowcount, len(served.trips.timeline) - commits) == (2, 1)
    cursor.execute("select id, city from trips where fare > 4 order by id")
    assert cursor.fetchall() == [("b", "y"), ("e", "V"), ("f", "W")]
    assert [line["outcome"] for line in served.lines()] == ["committed"] * 3


def test_a_prepared_write_is_run_with_new_values(client: Client, served: Served) -> None:
    handle = client.prepare("update trips set city = ? where id = ?")
    for number, key in enumerate("ab"):
        values = pa.table({"1": [f"new {number}"], "2": [key]})
        assert client.put("CommandPreparedStatementUpdate", {1: handle}, values) == 1
    assert [row[:2] for row in served.rows()] == [("a", "new 0"), ("b", "new 1"), ("c", "x")]
    some = pa.table({"1": ["p", "q"], "2": ["a", "b"]})
    with pytest.raises(REFUSED, match="several rows of parameters"):
        client.put("CommandPreparedStatementUpdate", {1: handle}, some)


def test_the_schema_of_a_write_is_given_without_running_it(client: Client, served: Served) -> None:
    command = message_bytes("CommandStatementQuery", {1: b"delete from trips"})
    descriptor = flight.FlightDescriptor.for_command(command)
    assert client.connection.get_schema(descriptor, client.options).schema.names == []
    assert len(served.rows()) == 3
    with pytest.raises(REFUSED, match="not a single SELECT"):
        client.connection.do_get(flight.Ticket(command), client.options).read_all()
    assert len(served.rows()) == 3


def test_the_token_of_a_reader_never_writes(served: Served) -> None:
    reader, writer = Client(served.server, READER), Client(served.server)
    text, before = b"delete from trips", served.rows()
    handle = writer.prepare(text.decode())
    with pytest.raises(flight.FlightUnauthorizedError, match="queries only"):
        reader.update(text.decode())
    with pytest.raises(flight.FlightUnauthorizedError):
        reader.info("CommandStatementQuery", {1: text})
    with pytest.raises(flight.FlightUnauthorizedError):
        reader.prepare(text.decode())
    for name in ("CommandPreparedStatementUpdate", "CommandPreparedStatementQuery"):
        with pytest.raises(REFUSED, match="unknown prepared statement"):
            reader.put(name, {1: handle}, pa.table({"1": ["x"]}))
        with pytest.raises(REFUSED, match="unknown prepared statement"):
            Client(served.server, APP).put(name, {1: handle}, pa.table({"1": ["x"]}))
    assert served.rows() == before
    assert {(line["who"], line["outcome"]) for line in served.lines()} == {(None, "refused")}
    assert len(served.lines()) == 3
    assert Client(served.server, READER).info("CommandStatementQuery", {1: b"select 1"}).schema


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("delete from rides", "read only here"),
        ("merge into rides r using trips t on r.id = t.id when matched then delete", "read only"),
        ("delete from hudi.`{folder}/rides`", "no such table"),
        ("insert into trips select * from hudi.`{folder}/rides`", "no such table"),
        ("insert into trips select id, city, fare from hudi_table_changes('{folder}/rides',"
         " 'latest_state', 'earliest')", "no such table"),
        ("insert into trips select content, 'x', 1.0 from read_text('{folder}/secret')",
         "table function"),
        ("insert into trips select column0, 'x', 1.0 from read_csv('{folder}/secret')", ""),
        ("insert into trips select column0, 'x', 1.0 from `{folder}/secret`", "no such table"),
        ("insert into trips select id, city, fare from parquet.`secret`", ""),
        ("update trips set city = (select content from read_text('{folder}/secret'))", ""),
        ("update trips set city = getenv('HOME')", ""),
        ("insert into trips select name, 'x', 1.0 from duckdb_settings()", ""),
        ("insert into trips select table_name, 'x', 1.0 from information_schema.tables", ""),
        ("insert into trips select 'd', 'x', 1.0 from READER", "no such table"),
        ("delete from trips; delete from trips", "one statement"),
        ("delete from trips where id = 'a' /* ; */ ; drop table trips", "one statement"),
        ("drop table trips", "no such statement"),
        ("truncate table trips", "no such statement"),
        ("create table other (id string) using hudi location '{folder}/x'", "no such statement"),
        ("alter table trips add columns (x int)", "no such statement"),
        ("call run_clean(table => 'trips')", "no such statement"),
        ("copy trips to '{folder}/out'", ""),
        ("attach '{folder}/other.db'", ""),
        ("set memory_limit = '100GB'", ""),
        ("begin", ""),
        ("select 1", "no such statement"),
        ("explain delete from trips", "no such statement"),
        ("delete from tr\u0131ps", "no such table"),
        ("delete from trips where city = :p", "have names"),
        ("delete from trips where city = ?", "do not match"),
        ("insert into trips select cast(n as string), 'x', 1.0"
         " from (select explode(sequence(1, 51)) as n)", "more than the server"),
        ("delete from trips where id = '" + "x" * 5000 + "'", "too long"),
        ("delete from trips where " + "(" * 2000 + "true" + ")" * 2000, ""),
        ("delete from trips where id in (select repeat('x', 2000000000) || id from rides)", ""),
        ("", ""),
        ("\x00", ""),
    ],
)  # fmt: skip
def test_a_write_reaches_named_tables_and_nothing_else(
    client: Client, served: Served, text: str, reason: str
) -> None:
    """And its refusal states no place on the server; it has its line."""
    folder = Path(served.trips.path).parent
    (folder / "secret").write_text("secret\n")
    before, files = served.rows(), sorted(folder.iterdir())
    found = client.refusal(text.replace("{folder}", str(folder)))
    assert reason in found
    assert "secret\n" not in found and str(folder.parent) not in found
    assert (served.rows(), sorted(folder.iterdir())) == (before, files)
    (line,) = served.lines()
    assert (line["who"], line["outcome"], line["instant"]) == ("etl", "refused", None)
    assert line["characters"] == len(text.replace("{folder}", str(folder)))


def test_a_server_still_writes_after_refusals(client: Client, served: Served) -> None:
    assert all(client.refusal("delete from rides") for _ in range(3))
    assert client.update("update trips set fare = 0 where id = 'a'") == 1


def test_a_line_of_the_audit_is_one_line_of_ascii(client: Client, served: Served) -> None:
    city = 'x\n{"who": "root", "outcome": "committed"}\r\u2028\u202e\x1b[2J'
    handle = client.prepare(f"insert into trips values ('d', '{city}', 4.0) -- \n" + " " * 2000)
    assert client.put("CommandPreparedStatementUpdate", {1: handle}) == 1
    assert ("d", city, 4.0) in served.rows()
    (text,) = served.audit
    assert text.isascii() and text.isprintable()
    line = json.loads(text)
    facts = ("who", "table", "operation", "inserted", "updated", "deleted", "outcome", "error")
    assert [line[name] for name in facts] == [
        "etl", "trips", "insert", 1, 0, 0, "committed", None,
    ]  # fmt: skip
    assert line["instant"] == [str(one.time) for one in served.trips.timeline.commits][-1]
    assert len(line["statement"]) == 1000 < line["characters"]
    assert 0 < line["seconds"] < 60 and line["from"].startswith("ipv4:127.0.0.1:")


def test_transactions_are_refused_with_the_reason(client: Client, served: Served) -> None:
    for action in ("BeginTransaction", "EndTransaction", "BeginSavepoint"):
        with pytest.raises(REFUSED, match="no transactions"):
            client.act(action, message_bytes(f"Action{action}Request", {}))
    with pytest.raises(REFUSED, match="no transactions"):
        client.put("CommandStatementUpdate", {1: b"delete from trips", 2: b"t"})
    with pytest.raises(REFUSED, match="command is not supported"):
        client.put("CommandStatementIngest", {2: b"trips"}, ROWS)
    assert len(served.rows()) == 3


def test_clients_that_write_at_once_lose_nothing(served: Served) -> None:
    text = "update trips set fare = fare + 1 where id = 'a'"

    def run(token: str) -> list[int]:
        client = Client(served.server, token)
        return [client.update(text) for _ in range(4)]

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(run, (ETL, APP))) == [[1] * 4, [1] * 4]
    assert served.rows()[0] == ("a", "x", 9.0)
    assert sorted(line["who"] for line in served.lines()) == ["app"] * 4 + ["etl"] * 4


def test_the_outcome_of_a_write_that_is_ended_is_stated(served: Served, tmp_path: Path) -> None:
    """One is ended while it computes, the other while it calls back after its commit."""
    lines: list[str] = []
    writers = Writers(["trips", "called"], {"etl": ETL}, WriteLimits(seconds=4), lines.append)
    many = "(select explode(sequence(1, 1000000)) as n)"
    texts = (
        f"update trips set fare = (select sum(a.n * b.n) from {many} a, {many} b)",
        "insert into called values ('d', 'z', 4.0)",
    )
    with socket.create_server(("127.0.0.1", 0)) as deaf:
        options = {
            "hoodie.write.commit.callback.on": "true",
            "hoodie.write.commit.callback.http.url": f"http://127.0.0.1:{deaf.getsockname()[1]}/",
            "hoodie.write.commit.callback.http.timeout.seconds": "60",
        }
        path = tmp_path / "called"
        called = pyhudi.create_table(path, ROWS.schema, record_key="id", options=options)
        tables = {**served.tables, "called": called}
        with SqlServer(tables, tokens=[], writers=writers) as server, ThreadPoolExecutor(2) as pool:
            slow, done = pool.map(Client(server).refusal, texts)
    assert "longer than the server allows, before its commit" in slow
    assert "longer than the server allows, after its commit" in done
    found = {line["table"]: line for line in map(json.loads, lines)}
    assert (found["trips"]["outcome"], found["trips"]["instant"]) == ("ended", None)
    (commit,) = called.timeline
    assert (found["called"]["outcome"], found["called"]["instant"]) == (
        "committed",
        str(commit.time),
    )
    assert f"instant={commit.time}" in done
    assert pyhudi.open_table(path).count() == 1
    assert served.trips.update({"fare": 0.0}, where="id = 'a'").updated == 1
    assert served.rows() == [("a", "x", 0.0), ("b", "y", 2.0), ("c", "x", 3.0)]


def test_the_command_serves_writers_and_writes_their_audit(tmp_path: Path) -> None:
    pyhudi.create_table(tmp_path / "t", ROWS.schema, record_key="id", name="t").insert(ROWS)
    (tmp_path / "writers").write_text(f"etl {ETL}\n\napp {APP}\n")
    command = "serve t --writable t --writers writers --audit audit.jsonl --json"
    server = subprocess.Popen(
        [sys.executable, "-m", "pyhudi", *command.split()], cwd=tmp_path, stdout=subprocess.PIPE,
        text=True,
    )  # fmt: skip
    try:
        assert server.stdout is not None
        facts = json.loads(server.stdout.readline())
        assert (facts["writable"], facts["write_token"]) == (["t"], None)
        client = Client(facts["url"], APP)
        assert client.update("delete from t where id = 'a'") == 1
        with pytest.raises(flight.FlightUnauthorizedError):
            Client(facts["url"], facts["token"]).update("delete from t")
    finally:
        server.terminate()
        server.wait()
    found = [json.loads(line) for line in (tmp_path / "audit.jsonl").read_text().splitlines()]
    assert [(one["who"], one["outcome"]) for one in found] == [
        ("app", "committed"), (None, "refused"),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("arguments", "reason"),
    [
        ("--writers writers", "no table is writable"),
        ("--writable t --writers twice", "each name once"),
        ("--writable t --writers writers --audit missing/audit", "cannot be written"),
        ("--writable u --writers writers", "none is writable"),
    ],
)
def test_the_command_refuses_writers_that_are_not_clear(
    arguments: str, reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    pyhudi.create_table(tmp_path / "t", ROWS.schema, record_key="id", name="t")
    (tmp_path / "writers").write_text("etl 0123456789abcdef\n")
    (tmp_path / "twice").write_text("etl 0123456789abcdef\netl 0123456789abcdeg\n")
    monkeypatch.chdir(tmp_path)
    found = CliRunner().invoke(commands, ["serve", "t", *arguments.split()])
    assert found.exit_code != 0
    assert reason in str(found.exception)


@pytest.mark.parametrize(
    "given",
    [
        {"writers": Writers([], {"etl": ETL})},
        {"writers": Writers(["trips"], {})},
        {"writers": Writers(["unknown"], {"etl": ETL})},
        {"writers": Writers(["trips"], {"etl": "short"})},
        {"writers": Writers(["trips"], {"etl": READER})},
        {"writers": Writers(["trips"], {"etl": ETL, "app": ETL})},
        {"writers": Writers(["trips"], {'a"\n': ETL})},
    ],
)
def test_writers_that_are_not_safe_are_refused(served: Served, given: dict[str, Any]) -> None:
    with pytest.raises(UserError):
        SqlServer(served.tables, tokens=[READER], **given)


@pytest.mark.parametrize(
    ("text", "is_so"),
    [
        ("insert into t values (1)", True),
        (" /* a */ -- b\n MERGE into", True),
        ("select 'delete'", False),
        ("/* delete", False),
        ("with x as (select 1) delete from t", False),
        ("/*" * 200_000, False),
        ("-" * 400_000, False),
    ],
)
def test_writes_are_known_by_their_first_word(text: str, is_so: bool) -> None:
    assert is_write(text) == is_so

"""The shell of `pyhudi sql`: typed keys in, text out."""

from __future__ import annotations

import os
import signal
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("prompt_toolkit")

from prompt_toolkit.application import create_app_session
from prompt_toolkit.input import create_pipe_input
from prompt_toolkit.output import DummyOutput

import pyhudi
from pyhudi.cli.command import print_answer
from pyhudi.cli.shell import Shell, completions, is_complete, run_shell
from pyhudi.sql import duckdb_engine

ROWS = pa.table({"id": ["a", "b"], "city": ["x", "y"], "fare": [1.5, 2.5]})


@pytest.fixture
def lake(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("XDG_STATE_HOME", str(tmp_path / "state"))
    pyhudi.create_table(tmp_path / "lake" / "trips", ROWS.schema, record_key="id").upsert(ROWS)
    yield tmp_path / "lake"


class Interrupting:
    """Rows; a second after a statement has begun to read them, the user types Ctrl-C."""

    def __arrow_c_stream__(self, requested: Any = None) -> Any:
        threading.Timer(1, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        return pa.table({"n": list(range(400_000))}).__arrow_c_stream__(requested)


def typed(lake: Path, keys: str, **tables: Any) -> None:
    """Run the shell on keys; then the input ends."""
    connection = pyhudi.connect(lake, tables={"news": pa.table({"headline": ["n"]}), **tables})
    with create_pipe_input() as pipe, create_app_session(input=pipe, output=DummyOutput()):
        pipe.send_text(keys + "\x04")
        run_shell(connection, print_answer)


def test_statements_of_several_lines_run_and_show_rows_and_seconds(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(lake, "select city\rfrom trips\rwhere fare > 2;\rupdate trips set fare = 7; \r")
    shown = capsys.readouterr().out
    assert "│ y " in shown and "1 rows, " in shown and "│ updated" in shown
    assert pyhudi.open_table(lake / "trips").to_arrow()["fare"].to_pylist() == [7.0, 7.0]


def test_an_error_is_shown_and_the_shell_goes_on(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(lake, "select nosuch from trips; delete from trips;\rselect 'still' as s;\r")
    found = capsys.readouterr()
    assert "nosuch" in found.err and "still" in found.out
    assert pyhudi.open_table(lake / "trips").count() == 2


def test_commands_list_tables_and_their_statements(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(lake, ".tables\r.schema trips\r.nonsense\r.help\r.quit\rdelete from trips;\r")
    found = capsys.readouterr()
    assert "news\ntrips" in found.out and "CREATE TABLE" in found.out.upper()
    assert "no such command: .nonsense" in found.err and ".schema [NAME]" in found.out
    assert pyhudi.open_table(lake / "trips").count() == 2  # after .quit


def test_tables_and_columns_of_tables_that_are_named_are_completed(lake: Path) -> None:
    connection = pyhudi.connect(lake, tables={"news": pa.table({"headline": ["n"]})})
    shell = Shell(connection, print_answer)
    for text, typed, found in (
        ("delete from TRI", "TRI", ["trips"]),
        ("select ci from trips", "ci", ["city"]),
        ("select t.fare from trips where trips.f", "trips.f", ["trips.fare"]),
        ("select h from trips", "h", ["having"]),
        ("select * from news where h", "h", ["headline", "having"]),
        (".ta", ".ta", [".tables"]),
        ("select * from trips where nosuch.c", "nosuch.c", ["nosuch.city"]),
        ("zz", "zz", []),
    ):
        assert completions(shell, text, typed) == found, text


def test_what_is_typed_is_in_a_history_of_the_user_alone(lake: Path, tmp_path: Path) -> None:
    typed(lake, "delete from trips where id = 'a';\r")
    path = tmp_path / "state" / "pyhudi" / "sql_history"
    assert "where id = 'a'" in path.read_text() and stat.S_IMODE(path.stat().st_mode) == 0o600
    assert pyhudi.open_table(lake / "trips").count() == 1
    pyhudi.open_table(lake / "trips").upsert(ROWS)
    typed(lake, "\x1b[A\r")  # the arrow up
    assert pyhudi.open_table(lake / "trips").count() == 1


class Counted:
    """A connection that counts the interrupts."""

    interrupts = 0

    def interrupt(self) -> None:
        self.interrupts += 1


def test_ctrl_c_ends_queries_that_begin_while_it_is_handled() -> None:
    """As if DuckDB did not return: it forgets an interrupt when the next query begins."""
    found = Counted()
    duckdb_engine._open.add(found)
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        with duckdb_engine.ended_by_ctrl_c():
            os.kill(os.getpid(), signal.SIGINT)
            time.sleep(0.5)
    finally:
        signal.signal(signal.SIGINT, before)
        duckdb_engine._open.discard(found)
    assert found.interrupts > 2


@pytest.fixture
def handles_ctrl_c() -> Iterator[None]:
    """As in a terminal: a process that a shell starts in the background ignores it."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before)


@pytest.mark.usefixtures("handles_ctrl_c")
def test_ctrl_c_drops_what_is_typed_and_ends_a_statement_that_runs(
    lake: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    typed(lake, "delete from trips\x03select 'after' as a;\r")
    assert "after" in capsys.readouterr().out
    typed(lake, "select count(*) from pairs a join pairs b on a.n < b.n;\r"
                "select 'next' as n;\r", pairs=Interrupting())  # fmt: skip
    found = capsys.readouterr()
    assert "cancelled" in found.err and "next" in found.out
    assert pyhudi.open_table(lake / "trips").count() == 2


@pytest.mark.parametrize(
    ("text", "complete"),
    [("", True), (".tables", True), ("select 1", False), ("select 1;", True), ("select ';", False),
     ("select 1 -- ;", False), ("select 1; -- x", True), ("select ';' as a", False),
     ("select 1; select 2", False), ("select 1 /* ;", False)],
)  # fmt: skip
def test_a_semicolon_ends_a_statement_outside_of_quotes_and_comments(
    text: str, complete: bool
) -> None:
    assert is_complete(text) is complete

"""The shell of `pyhudi sql`: statements that are typed, completed and timed.

A statement ends with `;` and may have many lines.  Ctrl-C at the prompt drops what is typed, and
ends a statement that runs: a write that was not committed leaves the table as it was.
"""

from __future__ import annotations

import os
import re
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Final

import click
import pyarrow as pa

from pyhudi.cli.output import explain
from pyhudi.errors import PyhudiError
from pyhudi.libraries import load_library
from pyhudi.sql.duckdb_engine import ended_by_ctrl_c
from pyhudi.sql.session import Connection, script_lines

_HELP: Final = """\
.tables         the names of the tables
.schema [NAME]  the statement that creates a table, or all of them
.help           this text
.quit           end; so does Ctrl-D
Any other line is SQL, which ; ends."""
_WORDS: Final = (
    "alter", "and", "as", "asc", "between", "by", "call", "case", "cast", "create", "delete",
    "desc", "describe", "distinct", "drop", "else", "end", "exists", "explain", "from", "full",
    "group", "having", "in", "index", "inner", "insert", "into", "is", "join", "left", "like",
    "limit", "matched", "merge", "not", "null", "on", "or", "order", "overwrite", "partition",
    "partitioned", "right", "select", "set", "show", "table", "tables", "tblproperties", "then",
    "truncate", "union", "update", "using", "values", "when", "where", "with",
)  # fmt: skip
"""Keywords that are completed."""
_NAME: Final = re.compile(r"[\w.]+")


def run_shell(connection: Connection, show: Callable[[Any], None]) -> None:
    """Read and run statements until the input ends.  show: prints the result of one.

    Raises UserError if the library of the extra `shell` is missing.
    """
    prompts = load_library("prompt_toolkit", extra="shell", needed_for="the shell of pyhudi sql")
    shell = Shell(connection, show)
    session = _session(prompts, shell)
    click.echo("pyhudi SQL; .help lists commands")
    while not shell.is_ended:
        try:
            text = session.prompt("pyhudi> ", prompt_continuation="   ...> ")
        except KeyboardInterrupt:
            continue
        except EOFError:
            return
        shell.run(text)


def is_complete(text: str) -> bool:
    """Whether a text is to be run: `;` ends it outside quotes and comments, or it is a command."""
    if not text.strip() or text.lstrip().startswith("."):
        return True
    try:
        found = list(script_lines(f"{text}\n;select 1"))
        return len(found) == len(list(script_lines(f"{text}\nselect 1")))
    except PyhudiError:  # a quote is open
        return False


class Shell:
    """Runs what is typed.  show: prints the result of a statement."""

    def __init__(self, connection: Connection, show: Callable[[Any], None]) -> None:
        self.is_ended = False
        self._connection = connection
        self._show = show
        self._columns: dict[str, list[str]] = {}

    def run(self, text: str) -> None:
        """Run a command, or statements up to the first error, which is printed."""
        try:
            if text.lstrip().startswith("."):
                self._command(*text.strip().rstrip(";").split())
                return
            for _, statement in script_lines(text):
                self._timed(statement)
        except PyhudiError as error:
            explain(error)
        except KeyboardInterrupt:
            click.echo("cancelled", err=True)

    def names(self) -> list[str]:
        """The names of tables."""
        found: list[str] = self._connection.sql("show tables")["tableName"].to_pylist()
        return found

    def columns(self, table: str) -> list[str]:
        """The columns of a table or of rows; those of the last statement's start."""
        if table not in self._columns:
            found = self._connection.sql(f"select * from {_quoted(table)} limit 0")
            self._columns[table] = found.column_names
        return self._columns[table]

    def _timed(self, statement: str) -> None:
        start = time.perf_counter()
        try:
            with ended_by_ctrl_c():
                found = self._connection.sql(statement)
            self._show(found)
        finally:
            self._columns.clear()
        rows = f"{found.num_rows:,} rows, " if isinstance(found, pa.Table) else ""
        click.echo(f"{rows}{time.perf_counter() - start:.2f} s")

    def _command(self, name: str, *given: str) -> None:
        if name in (".quit", ".exit") and not given:
            self.is_ended = True
        elif name == ".tables" and not given:
            click.echo("\n".join(self.names()))
        elif name == ".schema" and len(given) < 2:
            for table in given or self.names():
                found = self._connection.sql(f"show create table {_quoted(table)}")
                click.echo(f"{found[0][0].as_py()};")
        elif name == ".help":
            click.echo(_HELP)
        else:
            click.echo(f"no such command: {' '.join((name, *given))}\n{_HELP}", err=True)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _session(prompts: Any, shell: Shell) -> Any:
    """A prompt with history and completion, in which Enter ends a statement that is complete."""
    from prompt_toolkit.completion import Completer, Completion
    from prompt_toolkit.history import FileHistory
    from prompt_toolkit.key_binding import KeyBindings

    class Names(Completer):
        def get_completions(self, document: Any, event: Any) -> Iterator[Completion]:
            typed = document.get_word_before_cursor(pattern=_NAME)
            for word in completions(shell, document.text, typed):
                yield Completion(word, start_position=-len(typed))

    keys = KeyBindings()

    @keys.add("enter")
    def enter(event: Any) -> None:
        buffer = event.current_buffer
        if is_complete(buffer.text):
            buffer.validate_and_handle()
        else:
            buffer.insert_text("\n")

    return prompts.PromptSession(
        history=FileHistory(_history()),
        completer=Names(),
        complete_while_typing=False,
        key_bindings=keys,
        multiline=True,
    )


def completions(shell: Shell, text: str, typed: str) -> list[str]:
    """Names of tables, columns of the tables that the text names, commands and keywords that begin
    with what is typed."""
    if typed.startswith("."):
        return [word for word in (".tables", ".schema", ".help", ".quit") if word.startswith(typed)]
    table, dot, start = typed.rpartition(".")
    try:
        names = shell.names()
        named = {word.lower() for word in _NAME.findall(text)}
        read = [name for name in names if name.lower() in named | {table.lower()}]
        columns = [column for name in read for column in shell.columns(name)]
    except PyhudiError:  # a table that cannot be read has no columns to complete
        columns = []
    words = columns if dot else [*names, *columns, *_WORDS]
    found = dict.fromkeys(word for word in words if word.lower().startswith(start.lower()))
    return [f"{table}{dot}{word}" for word in found]


def _history() -> str:
    """The file of statements that were typed, which only its user reads."""
    state = os.environ.get("XDG_STATE_HOME") or Path.home() / ".local" / "state"
    path = Path(state) / "pyhudi" / "sql_history"
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch(mode=0o600)
    return str(path)

"""`pyhudi show`, `diff`, `history`, `changes`, `sql`: rows of tables."""

from __future__ import annotations

import os
import re
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
import pyarrow as pa

from pyhudi.api.input_conversion import ScanModeName
from pyhudi.cli.command import Answer, Call, Target, command, print_answer
from pyhudi.cli.row_output import FORMATS, uniquely_named, write_rows
from pyhudi.cli.values import COUNT, name_of, setting
from pyhudi.errors import PyhudiError
from pyhudi.read.scan import Scan

if TYPE_CHECKING:
    from pyhudi.sql.session import Connection

_ROWS_SHOWN = 20
_NAMED = re.compile(r"\w+=")
_URL = re.compile(r"\w[\w+.-]*://\S+")

_columns = click.option(
    "--columns",
    "selected",
    multiple=True,
    type=name_of,
    metavar="COLUMN",
    help="A column to show; may be repeated; default: all.",
)
_where = click.option("--where", help="Only rows that match this SQL condition.")
_limit = click.option(
    "--limit", type=COUNT, help="Rows to show; default: 20 on standard output, all in a file."
)
_format = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    default="table",
    show_default=True,
    help="Format of the rows; json has one object per line.",
)
_output = click.option(
    "--output",
    "-o",
    type=click.Path(dir_okay=False),
    metavar="FILE",
    help="Write the rows to a new file instead of standard output.",
)
_meta = click.option("--meta", is_flag=True, help="Include the _hoodie_* columns.")


@command("show", prints_rows=True, example="show trips --where \"city = 'sf'\" --limit 5")
@_columns
@_where
@click.option("--as-of", help="An instant or a time: show the snapshot at that time.")
@click.option(
    "--mode",
    type=click.Choice(["snapshot", "read_optimized"]),
    default="snapshot",
    show_default=True,
    help="Whether logs are merged.",
)
@_meta
@_limit
@_format
@_output
def show(
    call: Call,
    selected: tuple[str, ...],
    where: str | None,
    as_of: str | None,
    mode: ScanModeName,
    meta: bool,
    **printing: Any,
) -> Any:
    """Show rows of a snapshot, in no defined order."""
    scan = call.table.scan(selected or None, where=where, as_of=as_of, mode=mode, with_meta=meta)
    return _printed(call, scan, **printing)


@command("changes", prints_rows=True, example="changes trips 20261122101500000")
@click.argument("since")
@click.option("--until", help="The last instant; default: the newest commit.")
@click.option(
    "--before-after",
    is_flag=True,
    help="Every change with the rows before and after, of a table that logs changes.",
)
@_columns
@_where
@_meta
@_limit
@_format
@_output
def changes(
    call: Call,
    since: str,
    until: str | None,
    before_after: bool,
    selected: tuple[str, ...],
    where: str | None,
    meta: bool,
    **printing: Any,
) -> Any:
    """Show rows that commits after the instant SINCE have written; 000 precedes all commits."""
    if before_after:
        if selected or where or meta:
            raise click.UsageError("--before-after accepts no --columns, --where or --meta.")
        return _printed(call, call.table.capture(since, until), **printing)
    scan = call.table.changes(since, until, columns=selected or None, where=where, with_meta=meta)
    return _printed(call, scan, **printing)


@command("diff", prints_rows=True, example="diff trips 20261122101500000 20261122113000000")
@click.argument("a")
@click.argument("b", required=False)
@_columns
@_where
@_limit
@_format
@_output
def diff(
    call: Call,
    a: str,
    b: str | None,
    selected: tuple[str, ...],
    where: str | None,
    **printing: Any,
) -> Any:
    """Show how rows differ between the snapshots at the instants A and B (default: now)."""
    found = call.table.diff(a, b, columns=selected or None, where=where)
    return _printed(call, found, **printing)


@command("history", prints_rows=True, example="history trips trip-17")
@click.argument("key")
@_limit
@_format
@_output
def history(call: Call, key: str, **printing: Any) -> Any:
    """Show all versions of the record KEY whose files still exist, oldest first."""
    return _printed(call, call.table.history(key), **printing)


@command(
    "sql",
    prints_rows=True,
    target=Target.NOTHING,
    example='sql trips "select city, sum(fare) from trips group by city"',
)
@click.argument("words", nargs=-1, metavar="[PATH|NAME=PATH]... [TEXT]")
@click.option(
    "-f",
    "--file",
    "script_file",
    type=click.Path(exists=True, dir_okay=False),
    help="Run the statements of a file, which ; ends, up to the first error; the last "
    "one's rows are shown.",
)
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    type=setting,
    metavar="NAME=TEXT",
    help="The value of :NAME as text; may be repeated.",
)
@click.option(
    "--option",
    "options",
    multiple=True,
    type=setting,
    metavar="NAME=VALUE",
    help="A hoodie.* option; may be repeated.",
)
@click.option(
    "--storage",
    multiple=True,
    type=setting,
    metavar="KEY=VALUE",
    help="An option of the store, such as endpoint=URL; may be repeated.",
)
@_limit
@_format
@_output
def sql(
    call: Call,
    words: tuple[str, ...],
    script_file: str | None,
    parameters: tuple[tuple[str, str], ...],
    options: tuple[tuple[str, str], ...],
    storage: tuple[tuple[str, str], ...],
    **printing: Any,
) -> Any:
    """Run an SQL statement on tables: queries, INSERT, UPDATE, DELETE, MERGE INTO and EXPLAIN;
    CREATE, DROP, ALTER and TRUNCATE TABLE, CREATE and DROP INDEX; CALL, SHOW and DESCRIBE.

    PATH is a table, named like the last part of its path or as NAME, or a folder of tables.
    Without a statement, a shell on a terminal; else the statements of standard input.
    """
    from pyhudi.sql.duckdb_engine import ended_by_ctrl_c
    from pyhudi.sql.session import script_lines, tables_at

    places = words if script_file or _is_place(words[-1:]) else words[:-1]
    script = None if script_file is None else Path(script_file).read_text("utf-8")
    is_shell = script is None and places == words and sys.stdin.isatty()
    if script is None and places == words and not is_shell:
        script = sys.stdin.read() if words else ""
        if not script.strip():
            raise click.UsageError("Give a statement, or a file with -f.")
    given = [place if "=" in place else (None, place) for place in places]
    named = [setting(one) if isinstance(one, str) else one for one in given]
    connection = tables_at(named, dict(options) or None, dict(storage) or None)
    if is_shell:
        if parameters or printing["output"] or call.as_json:
            raise click.UsageError("A shell takes no --parameter, --output and --json.")
        return _shell(call, connection, **printing)
    found: Any = None
    for line, text in [(1, words[-1])] if script is None else script_lines(script):
        try:
            with ended_by_ctrl_c():
                found = connection.sql(text, parameters=dict(parameters) or None)
        except PyhudiError as error:
            if script is not None:
                error.facts["line"] = line
            raise
    return _printed(call, found, **printing) if isinstance(found, pa.Table) else Answer(found)


def _is_place(words: tuple[str, ...]) -> bool:
    """Whether the last word is a path, not a statement; True for none."""
    word = words[0] if words else ""
    path = word.partition("=")[2] if _NAMED.match(word) else word
    return not words or _URL.fullmatch(path) is not None or os.path.isdir(path)


def _shell(call: Call, connection: Connection, **printing: Any) -> None:
    from pyhudi.cli.shell import run_shell

    def show_result(found: Any) -> None:
        answer = _printed(call, found, **printing) if isinstance(found, pa.Table) else found
        if answer is not None:
            print_answer(answer)

    call.engine.pause()
    run_shell(connection, show_result)


def _printed(
    call: Call, rows: Scan | pa.Table, *, limit: int | None, form: str, output: str | None
) -> Answer | None:
    """Print rows, or write them to a file.  None: they have been printed."""
    if isinstance(rows, pa.Table):
        rows = uniquely_named(rows)
    if output is None and (form == "table" or call.as_json):
        if call.as_json and form != "table":
            raise click.UsageError("--json and --format are alternatives.")
        return Answer(_first(rows, limit or _ROWS_SHOWN))
    if output is None and limit is None:
        limit = _ROWS_SHOWN
    written = write_rows(rows, form, output, limit)
    return None if output is None else Answer({"rows": written, "file": output})


def _first(rows: Scan | pa.Table, limit: int) -> pa.Table:
    return rows.slice(0, limit) if isinstance(rows, pa.Table) else rows.head(limit)

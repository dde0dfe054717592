"""Output: formatted tables, one JSON document with `--json`, and errors in two lines."""

from __future__ import annotations

import json
import math
import os
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final

import click
import pyarrow as pa
from rich.console import Console
from rich.table import Table
from rich.text import Text

from pyhudi.errors import (
    CorruptFileError,
    IndexNotReadyError,
    LockError,
    PyhudiError,
    SnapshotExpiredError,
    StorageError,
    TableNotFoundError,
    UnsupportedTableError,
    UserError,
    WriteConflictError,
)
from pyhudi.formats.nan_statistics import has_floats

_WIDE: Final = 1 << 14  # columns of output that is not a terminal: lines are never wrapped

_REMEDIES: Final[tuple[tuple[type[PyhudiError], str], ...]] = (
    (TableNotFoundError, "check the path; `pyhudi table create` creates a table"),
    (WriteConflictError, "run the command again"),
    (LockError, "run the command again when the other writer has finished"),
    (SnapshotExpiredError, "use a later instant; `pyhudi timeline show PATH` lists them"),
    (IndexNotReadyError, "`pyhudi index rebuild PATH` builds a record index"),
    (CorruptFileError, "`pyhudi doctor PATH` lists the damage and possible repairs"),
    (UnsupportedTableError, "docs/compatibility.md lists what is supported"),
    (StorageError, "check the path, the permissions and the --storage options"),
    (UserError, "`--help` describes the arguments of a command"),
)
"""What to do about errors that do not say so themselves, by class; the first match counts."""


_IN_A_COMMAND: Final = {
    "pyhudi.create_table": "`pyhudi table create`",
    'schema_mode="widen"': "--schema-mode widen",
    "table.cluster()": "`pyhudi clustering run`",
    "table.compact()": "`pyhudi compaction run`",
    "table.timeline.commits lists": "`pyhudi commits list` lists",
    "table.upgrade(to=9)": "`pyhudi table upgrade`",
}
"""What the hints of the Python API are in a command."""


def explain(error: PyhudiError) -> None:
    """Print an error in two lines on standard error: what is wrong, and what to do."""
    facts = ", ".join(f"{name}={value}" for name, value in error.facts.items())
    what = "; ".join(filter(None, (error.what, facts)))
    hint = error.hint or _remedy(error)
    for call, option in _IN_A_COMMAND.items():
        hint = hint.replace(call, option)
    print_error(error.code, what, hint)


def print_error(code: str, what: str, remedy: str) -> None:
    """Print `error [code]: what`, and below it the remedy."""
    click.echo(f"error [{code}]: {one_line(what)}\n{one_line(remedy)}", err=True)


def _remedy(error: PyhudiError) -> str:
    found = (text for kind, text in _REMEDIES if isinstance(error, kind))
    return next(found, "add --debug for the traceback")


def one_line(value: str) -> str:
    return " ".join(value.split())


def show(value: Any, *, as_json: bool, title: str = "", are_rows: bool = False) -> None:
    """Print a mapping, or a list of mappings with the same keys.

    are_rows: the keys are names of columns, which are printed as they are.
    """
    if as_json:
        print_json(value)
        return
    console = output_console()
    if isinstance(value, Mapping):
        console.print(_facts(value, title))
    else:
        console.print(_rows(list(value), title, str if are_rows else spaced))


def output_console() -> Console:
    """Standard output.  Colours depend on the terminal and on NO_COLOR."""
    is_wide = not sys.stdout.isatty() and "COLUMNS" not in os.environ
    return Console(highlight=False, width=_WIDE if is_wide else None)


def print_json(value: Any) -> None:
    """Print one JSON document."""
    click.echo(json_text(value, indent=2))


def json_text(value: Any, *, indent: int | None = None) -> str:
    """A JSON document; numbers that JSON does not have become null."""
    return json.dumps(
        finite(value), default=plain, ensure_ascii=False, indent=indent, allow_nan=False
    )


def row_values(rows: pa.Table | pa.RecordBatch) -> list[dict[str, Any]]:
    """Rows for `json_text`.  Floating values that JSON does not have become the texts "NaN",
    "Infinity" and "-Infinity", as Spark writes them and `pyhudi write` reads them.

    Raises UserError for a date or time that Python does not have, as of the year 10000.
    """
    try:
        values: list[dict[str, Any]] = rows.to_pylist()
    except (OverflowError, ValueError) as error:
        raise UserError(
            "a date or time of the rows cannot be shown",
            why=str(error),
            hint="use --format parquet -o FILE, or cast the column to a text",
        ) from error
    return _named(values) if has_floats(pa.struct(rows.schema)) else values


def _named(value: Any) -> Any:
    if isinstance(value, float) and not math.isfinite(value):
        return "NaN" if math.isnan(value) else "Infinity" if value > 0 else "-Infinity"
    if isinstance(value, dict):
        return {name: _named(item) for name, item in value.items()}
    return [*map(_named, value)] if isinstance(value, list | tuple) else value


def finite(value: Any) -> Any:
    """The value without NaN and infinite numbers, which JSON does not have: None instead."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, Mapping):
        return {str(name): finite(item) for name, item in value.items()}
    if isinstance(value, list | tuple):
        return [finite(item) for item in value]
    return value


def _facts(facts: Mapping[str, Any], title: str) -> Table:
    table = Table(title=Text(title) if title else None, show_header=False)
    for name, value in facts.items():
        table.add_row(Text(spaced(name)), Text(text(value)))
    return table


def _rows(rows: Sequence[Mapping[str, Any]], title: str, heading: Callable[[str], str]) -> Table:
    table = Table(title=Text(title) if title else None)
    for name in rows[0] if rows else ("no entries",):
        table.add_column(Text(heading(name)), overflow="fold")
    for row in rows:
        table.add_row(*(Text(text(value)) for value in row.values()))
    return table


def spaced(name: str) -> str:
    """A name of a JSON field as the heading of a table."""
    return str(name).replace("_", " ")


def text(value: Any) -> str:
    """A value as the text of a table cell."""
    if value is None:
        return "-"
    if isinstance(value, bytes):
        return plain(value)
    if isinstance(value, Mapping):
        return ", ".join(f"{name}={text(item)}" for name, item in value.items())
    if isinstance(value, Iterable) and not isinstance(value, str):
        return ", ".join(text(item) for item in value)
    return str(value)


def plain(value: Any) -> str:
    """Values without a JSON type as text; bytes as UTF-8 if they are valid, else as hex."""
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            return value.hex()
    return str(value)

"""Output: formatted tables, or one JSON document with `--json`."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import click
from rich.console import Console
from rich.table import Table

from pyhudi.errors import PyhudiError

as_json = click.option("--json", "as_json", is_flag=True, help="Print one JSON document.")


def explain(error: PyhudiError) -> None:
    """Print an error as one line on standard error."""
    click.echo(f"error [{error.code}]: {error}", err=True)


def show(value: Any, *, as_json: bool, title: str = "") -> None:
    """Print a mapping, or a list of mappings with the same keys."""
    if as_json:
        click.echo(json.dumps(value, default=plain, ensure_ascii=False, indent=2))
        return
    console = Console(highlight=False)
    if isinstance(value, Mapping):
        console.print(_facts(value, title))
    else:
        console.print(_rows(list(value), title))


def _facts(facts: Mapping[str, Any], title: str) -> Table:
    table = Table(title=title or None, show_header=False)
    for name, value in facts.items():
        table.add_row(str(name), text(value))
    return table


def _rows(rows: Sequence[Mapping[str, Any]], title: str) -> Table:
    table = Table(title=title or None)
    for name in rows[0] if rows else ("no entries",):
        table.add_column(str(name))
    for row in rows:
        table.add_row(*(text(value) for value in row.values()))
    return table


def text(value: Any) -> str:
    """A value as the text of a table cell."""
    if value is None:
        return "-"
    if isinstance(value, bytes):
        return plain(value)
    if isinstance(value, Iterable) and not isinstance(value, str | Mapping):
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

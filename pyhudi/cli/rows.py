"""`pyhudi show`, `diff`, `history`, `changes`: rows of a table."""

from __future__ import annotations

from typing import Any

import click
import pyarrow as pa

from pyhudi.api.input_conversion import ScanModeName
from pyhudi.cli.command import Answer, Call, command
from pyhudi.cli.row_output import FORMATS, write_rows
from pyhudi.cli.values import COUNT, name_of
from pyhudi.read.scan import Scan

_ROWS_SHOWN = 20

_columns = click.option(
    "--columns", "selected", multiple=True, type=name_of, metavar="COLUMN",
    help="A column to show; may be repeated; default: all.",
)  # fmt: skip
_where = click.option("--where", help="Only rows that match this SQL condition.")
_limit = click.option(
    "--limit", type=COUNT, help="Rows to show; default: 20 on standard output, all in a file."
)
_format = click.option(
    "--format", "form", type=click.Choice(FORMATS), default="table", show_default=True,
    help="Format of the rows; json has one object per line.",
)  # fmt: skip
_output = click.option(
    "--output", "-o", type=click.Path(dir_okay=False), metavar="FILE",
    help="Write the rows to a new file instead of standard output.",
)  # fmt: skip
_meta = click.option("--meta", is_flag=True, help="Include the _hoodie_* columns.")


@command("show", prints_rows=True, example="show trips --where \"city = 'sf'\" --limit 5")
@_columns
@_where
@click.option("--as-of", help="An instant or a time: show the snapshot at that time.")
@click.option("--mode", type=click.Choice(["snapshot", "read_optimized"]), default="snapshot",
              show_default=True, help="Whether logs are merged.")  # fmt: skip
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
    "--before-after", is_flag=True,
    help="Every change with the rows before and after, of a table that logs changes.",
)  # fmt: skip
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


def _printed(
    call: Call, rows: Scan | pa.Table, *, limit: int | None, form: str, output: str | None
) -> Answer | None:
    """Print rows, or write them to a file.  None: they have been printed."""
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

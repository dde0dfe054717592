"""`pyhudi write`, `pyhudi delete`: changes of rows."""

from __future__ import annotations

from typing import Any, Final

import click
import pyarrow as pa

from pyhudi.cli.command import Answer, Call, command
from pyhudi.cli.values import name_of
from pyhudi.errors import UserError
from pyhudi.ingest.files.formats import FORMATS, FileFormat, read_rows

_OPERATIONS: Final = (
    "upsert", "insert", "bulk_insert", "insert_overwrite", "insert_overwrite_table", "delete",
)  # fmt: skip


@command(
    "write",
    changes=True,
    is_dangerous=True,
    example="write trips today.parquet --operation upsert",
)
@click.argument("source", type=click.Path(exists=True, dir_okay=False), metavar="FILE")
@click.option(
    "--operation",
    type=click.Choice(_OPERATIONS),
    default="upsert",
    show_default=True,
    help="What is done with the rows.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Format of the file; default: by its suffix.",
)
@click.option(
    "--schema-mode",
    type=click.Choice(["strict", "add", "widen"]),
    help="Which changes of the table's columns are allowed.",
)
def write(
    call: Call, source: str, operation: str, form: str | None, schema_mode: str | None
) -> Any:
    """Write the rows of FILE (Parquet, Arrow, Avro, ORC, CSV or JSON lines) to the table.

    CSV and JSON values take the types of the table's columns. Overwrites and deletes need a
    confirmation.
    """
    table = call.table
    rows = read_rows(lambda: pa.OSFile(source), source, FileFormat(form), table.schema)
    if operation == "delete":
        call.confirm(f"delete the records of {source} from {call.path}?")
        return Answer(table.delete(rows.read_all(), dry_run=call.dry_run))
    if operation.startswith("insert_overwrite"):
        call.confirm(f"replace rows of {call.path} by those of {source}?")
    method = getattr(table, operation)
    return Answer(method(rows, dry_run=call.dry_run, schema_mode=schema_mode))


@command(
    "delete",
    changes=True,
    is_dangerous=True,
    example="delete trips --where \"city = 'sf'\" --dry-run",
)
@click.option(
    "--key", "record_keys", multiple=True, type=name_of, help="A record key; may be repeated."
)
@click.option("--where", help="All rows that match this SQL condition.")
@click.option(
    "--partition",
    "whole_partitions",
    multiple=True,
    type=name_of,
    metavar="PATH",
    help="A whole partition; * matches any characters; may be repeated.",
)
def delete(
    call: Call, record_keys: tuple[str, ...], where: str | None, whole_partitions: tuple[str, ...]
) -> Any:
    """Delete records by key or by condition, or whole partitions."""
    table = call.table
    if sum(given not in ((), None) for given in (record_keys, where, whole_partitions)) != 1:
        raise UserError("state what to delete in one way", hint="use --key, --where or --partition")

    def run(*, dry_run: bool) -> Any:
        if whole_partitions:
            return table.delete_partitions(whole_partitions, dry_run=dry_run)
        if where is not None:
            return table.delete(where=where, dry_run=dry_run)
        return table.delete(keys=list(record_keys), dry_run=dry_run)

    planned = run(dry_run=True)
    if call.dry_run:
        return planned
    call.confirm(f"delete {planned.deleted} records of {call.path}?")
    return run(dry_run=False)

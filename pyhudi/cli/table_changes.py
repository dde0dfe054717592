"""`pyhudi table create`, `set`, `upgrade`, `downgrade` and `drop`."""

from __future__ import annotations

from typing import Any, Final
from uuid import uuid4

import click
import pyarrow as pa

import pyhudi
from pyhudi.cli.command import Answer, Call, command
from pyhudi.cli.values import COUNT, Settings, columns_option, name_of, setting
from pyhudi.errors import UserError
from pyhudi.filenames import PROPERTIES
from pyhudi.ingest.files.formats import FORMATS, FileFormat, file_facts
from pyhudi.operations.create import check_empty
from pyhudi.operations.drop_table import drop_table
from pyhudi.operations.table_properties import set_properties
from pyhudi.options import DEFAULT_TABLE_VERSION
from pyhudi.records import META_COLUMNS


@command(
    "create",
    changes=True,
    example="table create trips --like trips.parquet --record-key id --partition-by city",
)
@click.option(
    "--like",
    required=True,
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="A file with the columns of the table, read as by `write`; its rows are not written.",
)
@click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="Format of that file; default: by its suffix.",
)
@columns_option("--record-key", "A column of the record key")
@columns_option("--partition-by", "A partition column")
@columns_option("--ordering", "A column whose greater value wins")
@click.option(
    "--type",
    "table_type",
    type=click.Choice(["cow", "mor"]),
    default="cow",
    show_default=True,
    help="Copy-on-write or merge-on-read.",
)
@click.option("--index", default="record", show_default=True, help="How writes find a key.")
@click.option(
    "--name",
    "table_name",
    type=name_of,
    help="Name of the table; default: the last component of the path.",
)
@click.option(
    "--version",
    type=COUNT,
    help=f"Version of the table's format: 6, 8 or 9; default: {DEFAULT_TABLE_VERSION}.",
)
@click.option(
    "--other-files", is_flag=True, help="Create it although its folder holds other files."
)
def table_create(
    call: Call, like: str, form: str | None, table_name: str | None, **definition: Any
) -> Any:
    """Create an empty table."""
    source = FileFormat(form)
    known = file_facts(lambda: pa.OSFile(like), like, source, pa.schema([]), count=False)
    columns = [each for each in known.schema if each.name not in META_COLUMNS]
    definition |= {"schema": pa.schema(columns), "options": call.options, "name": table_name}
    if call.dry_run:
        made = _trial(call, definition)
    else:
        made = pyhudi.create_table(call.path, **definition, storage_options=call.storage)
    config = made.config
    facts = {
        "name": config.name,
        "path": call.path,
        "type": config.table_type.value,
        "version": config.version,
        "merge_mode": config.merge_mode.value,
        "dry_run": call.dry_run,
    }
    return Answer(facts, config.name)


def _trial(call: Call, definition: dict[str, Any]) -> pyhudi.Table:
    """The table in the memory of this process: checks the definition, changes nothing."""
    if call.store.exists(PROPERTIES):
        raise UserError("a table already exists here", path=call.path)
    if not definition["other_files"]:
        check_empty(call.store)
    name = call.path.rstrip("/").rsplit("/", 1)[-1] or "table"
    return pyhudi.create_table(f"memory://dry-run-{uuid4()}/{name}", **definition)


@command("set", changes=True, example="table set trips owner=ana hoodie.database.name=dev")
@click.argument("properties", nargs=-1, type=setting, metavar="[NAME=VALUE]...")
@click.option(
    "--unset",
    multiple=True,
    type=name_of,
    metavar="NAME",
    help="A property to remove; may be repeated.",
)
def table_set(call: Call, properties: Settings, unset: tuple[str, ...]) -> Any:
    """Set properties of the table: its name, its database, and names without `hoodie.`.

    Other properties describe files that exist, or the format; they cannot be changed.
    """
    changes: dict[str, str | None] = {**dict.fromkeys(unset), **dict(properties)}
    return set_properties(call.store, call.parsed, changes, dry_run=call.dry_run)


@command("upgrade", changes=True, is_dangerous=True, example="table upgrade trips --yes")
@click.option(
    "--to",
    type=COUNT,
    default=DEFAULT_TABLE_VERSION,
    show_default=True,
    help="The version to upgrade to.",
)
@columns_option("--record-key", "A column of the record key, if the table does not state it")
@columns_option("--partition-by", "A partition column, if the table does not state it")
@columns_option("--ordering", "An ordering column, if the table does not state it")
def table_upgrade(call: Call, to: int, **columns: Any) -> Any:
    """Upgrade a table to version 6, 8 or 9."""
    planned = call.table.upgrade(to, **columns, dry_run=True)
    if call.dry_run:
        return planned
    end = " This cannot be undone." if planned.from_version < 6 else ""
    call.confirm(f"upgrade from version {planned.from_version} to {to}?{end}")
    return call.table.upgrade(to, **columns)


@command(
    "downgrade",
    changes=True,
    is_dangerous=True,
    example="table downgrade trips --to 6 --dry-run",
)
@click.option("--to", type=COUNT, required=True, help="The version to downgrade to: 8 or 6.")
def table_downgrade(call: Call, to: int) -> Any:
    """Downgrade a table to version 8 or 6."""
    planned = call.table.downgrade(to, dry_run=True)
    if call.dry_run:
        return planned
    dropped = f" It drops {', '.join(planned.dropped)}." if planned.dropped else ""
    call.confirm(f"downgrade from version {planned.from_version} to {to}?{dropped}")
    return call.table.downgrade(to)


@command("drop", changes=True, is_dangerous=True, example="table drop trips --dry-run")
def table_drop(call: Call) -> Any:
    """Delete the table: its data files and its .hoodie folder.

    Files that are not of the table, and other tables below its path, are not deleted.
    """
    planned = drop_table(call.store, call.parsed, dry_run=True)
    if call.dry_run:
        return planned
    call.confirm(f"delete {planned.files} files of the table at {call.path} permanently?")
    return drop_table(call.store, call.parsed)


COMMANDS: Final = (table_create, table_set, table_upgrade, table_downgrade, table_drop)
"""The commands of the group `table` that change a table."""

"""`pyhudi table`, `pyhudi timeline`: commands for a table and its timeline."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

import click
import pyarrow as pa

import pyhudi
from pyhudi.cli.output import as_json, show
from pyhudi.cli.values import COUNT, Settings, name_of, option
from pyhudi.errors import CorruptFileError
from pyhudi.records import META_COLUMNS
from pyhudi.table.new_table import DEFAULT_TABLE_VERSION

Command = Callable[..., Any]


@click.group()
def table() -> None:
    """Creation, properties, schema and upgrade of a table."""


@table.command("info")
@click.argument("path")
@as_json
def table_info(path: str, as_json: bool) -> None:
    """Show type, keys, size and last commit."""
    opened = pyhudi.open_table(path)
    config = opened.config
    slices = opened.file_slices()
    commits = opened.timeline.commits
    show(
        {
            "name": config.name,
            "path": path,
            "type": config.table_type.value,
            "version": config.version,
            "record key": list(config.record_key_fields),
            "partitioned by": list(config.partition_fields),
            "ordering": list(config.ordering_fields),
            "merge mode": config.merge_mode.value,
            "metadata partitions": sorted(config.metadata_partitions),
            "partitions": len({s.partition for s in slices}),
            "file groups": len(slices),
            "log files": sum(len(s.logs) for s in slices),
            "bytes": sum(s.size_bytes for s in slices),
            "commits on the active timeline": len(commits),
            "last commit": commits.last.time if commits.last else None,
            "pending": [str(i) for i in opened.timeline.pending],
        },
        as_json=as_json,
        title=config.name,
    )


@table.command("schema")
@click.argument("path")
@as_json
def table_schema(path: str, as_json: bool) -> None:
    """Show columns and types of the newest snapshot."""
    schema = pyhudi.open_table(path).schema
    show([{"column": f.name, "type": str(f.type)} for f in schema], as_json=as_json)


def _columns(flag: str, what: str) -> Callable[[Command], Command]:
    return click.option(
        flag, multiple=True, type=name_of, metavar="COLUMN", help=f"{what}; may be repeated."
    )


@table.command("create")
@click.argument("path")
@click.option(
    "--like", required=True, type=click.Path(exists=True, dir_okay=False), metavar="FILE",
    help="A Parquet file with the columns of the table; its rows are not written.",
)  # fmt: skip
@_columns("--record-key", "A column of the record key")
@_columns("--partition-by", "A partition column")
@_columns("--ordering", "A column whose greater value wins")
@click.option("--type", "table_type", type=click.Choice(["cow", "mor"]), default="cow")
@click.option("--index", default="record", show_default=True, help="How writes find a key.")
@click.option(
    "--version", type=COUNT, default=DEFAULT_TABLE_VERSION, show_default=True,
    help="Version of the table's format: 6, 8 or 9.",
)  # fmt: skip
@option
@as_json
def table_create(
    path: str,
    like: str,
    record_key: tuple[str, ...],
    partition_by: tuple[str, ...],
    ordering: tuple[str, ...],
    table_type: str,
    index: str,
    version: int,
    options: Settings,
    as_json: bool,
) -> None:
    """Create an empty table."""
    columns = [each for each in _schema_of(like) if each.name not in META_COLUMNS]
    made = pyhudi.create_table(
        path, pa.schema(columns), record_key=record_key, partition_by=partition_by,
        ordering=ordering, table_type=table_type, index=index, version=version,
        options=dict(options),
    )  # fmt: skip
    config = made.config
    facts = {"name": config.name, "path": path, "version": config.version}
    show({**facts, "merge mode": config.merge_mode.value}, as_json=as_json, title=config.name)


def _schema_of(path: str) -> pa.Schema:
    import pyarrow.parquet as pq

    try:
        return pq.read_schema(path)
    except (pa.ArrowInvalid, OSError) as error:
        raise CorruptFileError("not a Parquet file", path=path, reason=str(error)) from error


@table.command("upgrade")
@click.argument("path")
@click.option("--to", type=COUNT, default=6, show_default=True, help="The version to upgrade to.")
@_columns("--record-key", "A column of the record key, if the table does not state it")
@_columns("--partition-by", "A partition column, if the table does not state it")
@_columns("--ordering", "An ordering column, if the table does not state it")
@click.option("--dry-run", is_flag=True, help="Report what would change; change nothing.")
@click.option("--yes", is_flag=True, help="Do not prompt before the upgrade.")
@as_json
def table_upgrade(
    path: str,
    to: int,
    record_key: tuple[str, ...],
    partition_by: tuple[str, ...],
    ordering: tuple[str, ...],
    dry_run: bool,
    yes: bool,
    as_json: bool,
) -> None:
    """Upgrade a table to version 6, 8 or 9."""
    opened = pyhudi.open_table(path)
    run = partial(
        opened.upgrade, to, record_key=record_key, partition_by=partition_by, ordering=ordering
    )
    if not (dry_run or yes):
        planned = run(dry_run=True)
        end = " This cannot be undone." if planned.from_version < 6 else ""
        question = f"upgrade from version {planned.from_version} to {to}?{end}"
        click.confirm(question, abort=True)
    show(run(dry_run=dry_run).to_dict(), as_json=as_json)


@table.command("downgrade")
@click.argument("path")
@click.option("--to", type=COUNT, required=True, help="The version to downgrade to: 8 or 6.")
@click.option("--dry-run", is_flag=True, help="Report what would change; change nothing.")
@click.option("--yes", is_flag=True, help="Do not prompt before the downgrade.")
@as_json
def table_downgrade(path: str, to: int, dry_run: bool, yes: bool, as_json: bool) -> None:
    """Downgrade a table to version 8 or 6."""
    opened = pyhudi.open_table(path)
    if not (dry_run or yes):
        planned = opened.downgrade(to, dry_run=True)
        dropped = f" It drops {', '.join(planned.dropped)}." if planned.dropped else ""
        click.confirm(
            f"downgrade from version {planned.from_version} to {to}?{dropped}", abort=True
        )
    show(opened.downgrade(to, dry_run=dry_run).to_dict(), as_json=as_json)


@click.group()
def timeline() -> None:
    """The timeline of a table."""


@timeline.command("show")
@click.argument("path")
@click.option("--limit", type=COUNT, default=50, show_default=True, help="Newest instants to show.")
@click.option("--archived", is_flag=True, help="Show archived instants instead.")
@as_json
def timeline_show(path: str, limit: int, archived: bool, as_json: bool) -> None:
    """Show instants of the active timeline, oldest first."""
    table = pyhudi.open_table(path)
    instants = (table.archived_timeline if archived else table.timeline).instants[-limit:]
    rows = [
        {"time": i.time, "action": i.action.value, "state": i.state.name.lower()} for i in instants
    ]
    show(rows, as_json=as_json)

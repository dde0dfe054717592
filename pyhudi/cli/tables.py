"""`pyhudi table`, `pyhudi timeline`."""

from __future__ import annotations

import click

import pyhudi
from pyhudi.cli.output import as_json, show
from pyhudi.cli.values import COUNT


@click.group()
def table() -> None:
    """What a table is and holds."""


@table.command("info")
@click.argument("path")
@as_json
def table_info(path: str, as_json: bool) -> None:
    """Type, keys, size and last commit."""
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
    """Columns and types of the newest snapshot."""
    schema = pyhudi.open_table(path).schema
    show([{"column": f.name, "type": str(f.type)} for f in schema], as_json=as_json)


@click.group()
def timeline() -> None:
    """What happened to a table."""


@timeline.command("show")
@click.argument("path")
@click.option("--limit", type=COUNT, default=50, show_default=True, help="Newest instants to show.")
@click.option("--archived", is_flag=True, help="Those of the archive instead.")
@as_json
def timeline_show(path: str, limit: int, archived: bool, as_json: bool) -> None:
    """Instants of the active timeline, oldest first."""
    table = pyhudi.open_table(path)
    instants = (table.archived_timeline if archived else table.timeline).instants[-limit:]
    rows = [
        {"time": i.time, "action": i.action.value, "state": i.state.name.lower()} for i in instants
    ]
    show(rows, as_json=as_json)

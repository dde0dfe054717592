"""`pyhudi table`: properties, schema, files and sizes of a table."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import asdict
from typing import Any

import click

from pyhudi.cli.command import Answer, Call, command
from pyhudi.cli.values import Settings, limit_option, setting
from pyhudi.observe.gauge import gauge_text
from pyhudi.table.file_group_view import FileSlice


@click.group()
def table() -> None:
    """Creation, properties, schema, files and upgrade of a table."""


@command("info", table, example="table info trips")
def table_info(call: Call) -> Any:
    """Show type, keys, size and last commit."""
    opened = call.table
    config = opened.config
    slices = opened.file_slices()
    commits = opened.timeline.commits
    facts = {
        "name": config.name,
        "path": call.path,
        "type": config.table_type.value,
        "version": config.version,
        "record_key": list(config.record_key_fields),
        "partitioned_by": list(config.partition_fields),
        "ordering": list(config.ordering_fields),
        "merge_mode": config.merge_mode.value,
        "metadata_partitions": sorted(config.metadata_partitions),
        "partitions": len({s.partition for s in slices}),
        "file_groups": len(slices),
        "log_files": sum(len(s.logs) for s in slices),
        "bytes": sum(s.size_bytes for s in slices),
        "active_commits": len(commits),
        "last_commit": commits.last.time if commits.last else None,
        "pending": [str(i) for i in opened.timeline.pending],
    }
    return Answer(facts, config.name)


@command("gauges", table, example="table gauges trips > /var/lib/node_exporter/trips.prom")
def table_gauges(call: Call) -> Any:
    """Show age, pending instants, logs, small files and due services, as text for Prometheus."""
    found = call.table.gauges()
    return Answer([asdict(gauge) for gauge in found], text=gauge_text(found).rstrip("\n"))


@command("copy", table, example="table copy trips s3://backup/trips", changes=True)
@click.argument("target")
@click.option("--as-of", help="An instant or a time: copy the snapshot at that time.")
@click.option(
    "--to-storage",
    multiple=True,
    type=setting,
    metavar="KEY=VALUE",
    help="An option of the store of TARGET; may be repeated.",
)
def table_copy(call: Call, target: str, as_of: str | None, to_storage: Settings) -> Any:
    """Copy a snapshot with its timeline to the empty place TARGET, and verify the copy.

    Writers go on. The same command continues a copy that was stopped.
    """
    return call.table.copy(
        target, as_of=as_of, dry_run=call.dry_run, storage_options=dict(to_storage)
    )


@command("schema", table, example="table schema trips")
def table_schema(call: Call) -> Any:
    """Show columns and types of the newest snapshot."""
    return [
        {"column": field.name, "type": str(field.type), "nullable": field.nullable}
        for field in call.table.schema
    ]


@command("properties", table, example="table properties trips")
def table_properties(call: Call) -> Any:
    """Show the properties of the table (hoodie.properties)."""
    return dict(sorted(call.table.config.properties.items()))


@command("files", table, example="table files trips --partition city=sf")
@click.option(
    "--partition",
    "partitions",
    multiple=True,
    metavar="PATH",
    help="Only this partition; may be repeated.",
)
@limit_option(1000, "File slices to show.")
def table_files(call: Call, partitions: tuple[str, ...], limit: int) -> Any:
    """Show the newest file slice of every file group."""
    return [_slice_facts(each) for each in _slices(call, partitions)[:limit]]


def _slices(call: Call, partitions: Iterable[str]) -> list[FileSlice]:
    """File slices of some partitions, of all if none is named, by partition and file id."""
    named = list(dict.fromkeys(partitions))
    found = (
        [s for partition in named for s in call.table.file_slices(partition)]
        if named
        else call.table.file_slices()
    )
    return sorted(found, key=lambda each: (each.partition, each.file_id))


def _slice_facts(each: FileSlice) -> dict[str, Any]:
    return {
        "partition": each.partition,
        "file_id": each.file_id,
        "instant": each.instant,
        "base_file": str(each.base.name) if each.base else None,
        "base_bytes": each.base.size_bytes if each.base else 0,
        "log_files": [str(log.name) for log in each.logs],
        "log_bytes": each.log_bytes,
    }


@command("sizes", table, example="table sizes trips")
@limit_option(1000, "Partitions to show.")
def table_sizes(call: Call, limit: int) -> Any:
    """Show file groups, files and bytes of each partition, and how many files are small.

    A base file is small if it is below `hoodie.parquet.small.file.limit`: later inserts are added
    to it.
    """
    small = call.parsed.write.sizing.small_file_bytes
    by_partition: dict[str, list[FileSlice]] = {}
    for each in _slices(call, ()):
        by_partition.setdefault(each.partition, []).append(each)
    return [
        {"partition": partition, **_sizes(slices, small)}
        for partition, slices in list(by_partition.items())[:limit]
    ]


def _sizes(slices: list[FileSlice], small_bytes: int) -> dict[str, Any]:
    bases = list(_base_sizes(slices))
    return {
        "file_groups": len(slices),
        "base_files": len(bases),
        "small_files": sum(size < small_bytes for size in bases),
        "base_bytes": sum(bases),
        "base_bytes_min": min(bases, default=0),
        "base_bytes_max": max(bases, default=0),
        "log_files": sum(len(each.logs) for each in slices),
        "log_bytes": sum(each.log_bytes for each in slices),
    }


def _base_sizes(slices: Iterable[FileSlice]) -> Iterator[int]:
    return (each.base.size_bytes for each in slices if each.base)

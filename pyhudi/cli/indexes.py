"""`pyhudi index`: commands for the indexes of a table."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from pyhudi._native.hfile.costs import store_costs
from pyhudi.api.index_methods import INDEX_KINDS
from pyhudi.cli.command import Answer, Call, ExitCode, Target, command
from pyhudi.cli.output import show
from pyhudi.cli.values import COUNT, Settings, setting
from pyhudi.index.maintenance.rebuild import Progress
from pyhudi.index.maintenance.reports import IndexCheck
from pyhudi.metadata.record_index.lookup_calibration import measure_costs


@click.group()
def index() -> None:
    """The indexes of a table: lookup, statistics, verification, creation and repair."""


@command("lookup", index, example="index lookup trips trip-17 trip-18")
@click.argument("keys", nargs=-1, required=True)
@click.option("--as-of", help="An instant: show the locations at that time.")
def index_lookup(call: Call, keys: tuple[str, ...], as_of: str | None) -> Any:
    """Show the location of each record KEY."""
    return call.table.index.lookup(list(keys), as_of=as_of)


@command("explain", index, example="index explain trips trip-17")
@click.argument("keys", nargs=-1, required=True)
def index_explain(call: Call, keys: tuple[str, ...]) -> Any:
    """Look up each record KEY and show how the files of the index were read."""
    return call.table.index.explain(list(keys))


@command("list", index, example="index list trips")
def index_list(call: Call) -> Any:
    """Show the indexes in the metadata table."""
    return call.table.index.list()


@command("create", index, changes=True, example="index create trips secondary --column driver")
@click.argument("index_kind", metavar="KIND", type=click.Choice(INDEX_KINDS))
@click.option("--column", "columns", multiple=True, help="The indexed column.")
@click.option("--name", help="Name of a secondary or expression index.")
@click.option("--expression", help="Function of the column, such as lower or from_unixtime.")
@click.option(
    "--using",
    type=click.Choice(["column_stats", "bloom_filters"]),
    help="What an expression index has of each file: ranges or bloom filters.",
)
@click.option(
    "--argument",
    "arguments",
    multiple=True,
    type=setting,
    metavar="NAME=VALUE",
    help="An argument of the function, such as format=yyyy-MM-dd.",
)
def index_create(
    call: Call, index_kind: str, columns: tuple[str, ...], arguments: Settings, **definition: Any
) -> Any:
    """Create an index of KIND in the metadata table."""
    return call.table.index.create(
        index_kind,
        columns or None,
        **definition,
        options=dict(arguments) or None,
        dry_run=call.dry_run,
    )


@command("drop", index, changes=True, example="index drop trips column_stats")
@click.argument("index_name", metavar="NAME")
def index_drop(call: Call, index_name: str) -> Any:
    """Remove the index NAME of the metadata table."""
    dropped = call.table.index.drop(index_name, dry_run=call.dry_run)
    return {"dropped": dropped, "dry_run": call.dry_run}


@command("stats", index, example="index stats trips")
def index_stats(call: Call) -> Any:
    """Show entries, load and skew of the index by bucket."""
    stats = call.table.index.stats().to_dict()
    if call.as_json:
        return stats
    buckets = stats.pop("buckets")
    show(stats, as_json=False)
    return buckets


@command("verify", index, example="index verify trips --sample 10000")
@click.option("--sample", type=COUNT, help="Check a random sample of this size, not all keys.")
def index_verify(call: Call, sample: int | None) -> Any:
    """Verify the index against the table; exit code 3 if they differ."""
    return _checked(call.table.index.verify(sample=sample))


@command("compare", index, example="index compare trips 20261122101500000")
@click.argument("since")
@click.option("--until", help="The last instant whose changes are verified; default: the newest.")
def index_compare(call: Call, since: str, until: str | None) -> Any:
    """Verify the index against the changes after the instant SINCE; exit code 3 if they differ."""
    return _checked(call.table.index.compare(since, until))


def _checked(check: IndexCheck) -> Answer:
    return Answer(check, code=ExitCode.SUCCESS if check.is_exact else ExitCode.PROBLEMS)


@command("repair", index, changes=True, example="index repair trips --dry-run")
def index_repair(call: Call) -> Any:
    """Check the whole index and repair wrong entries."""
    return call.table.index.repair(dry_run=call.dry_run)


@command("rebuild", index, changes=True, example="index rebuild trips --buckets 40")
@click.option("--buckets", type=COUNT, help="Number of buckets; default: the current number.")
@click.option(
    "--kind",
    help="record, partitioned_record, elastic, rocksdb or hbase; default: the kind of the table.",
)
def index_rebuild(call: Call, buckets: int | None, kind: str | None) -> Any:
    """Build the index from the table's keys, next to the existing one, and replace that."""

    def report(progress: Progress) -> None:
        call.engine.report(progress.phase, progress.done, progress.total)

    return call.table.index.rebuild(buckets, kind=kind, dry_run=call.dry_run, progress=report)


@command("calibrate", index, target=Target.NOTHING, example="index calibrate")
def index_calibrate(call: Call) -> Any:
    """Measure lookup costs on this machine and store them for the choice between seek and scan.

    If the machine is busy and measurements differ too much, the command fails and stores nothing.
    """
    found = measure_costs()
    facts = {**asdict(found.costs), "spread": round(found.spread, 3)}
    return {**facts, "stored_in": str(store_costs(found.costs))}

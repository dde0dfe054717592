"""`pyhudi index`: commands for the index of a table."""

from __future__ import annotations

import sys
from dataclasses import asdict

import click

import pyhudi
from pyhudi._native.hfile.costs import store_costs
from pyhudi.api.index_methods import INDEX_KINDS
from pyhudi.cli.output import as_json, show
from pyhudi.cli.services import dry_run
from pyhudi.cli.values import COUNT, Settings, option, setting
from pyhudi.index.maintenance.rebuild import Progress
from pyhudi.lookup_calibration import measure_costs

_PROBLEMS = 3


@click.group()
def index() -> None:
    """The indexes of a table: lookup, statistics, verification, creation and repair."""


def _opened(path: str, options: Settings) -> pyhudi.Table:
    return pyhudi.open_table(path, options=dict(options))


@index.command("lookup")
@click.argument("path")
@click.argument("keys", nargs=-1, required=True)
@click.option("--as-of", help="An instant: show the locations at that time.")
@option
@as_json
def index_lookup(
    path: str, keys: tuple[str, ...], as_of: str | None, options: Settings, as_json: bool
) -> None:
    """Show the location of each record KEY."""
    found = _opened(path, options).index.lookup(list(keys), as_of=as_of)
    show(found.to_pylist(), as_json=as_json)


@index.command("stats")
@click.argument("path")
@option
@as_json
def index_stats(path: str, options: Settings, as_json: bool) -> None:
    """Show entries, load and skew of the index by bucket."""
    stats = _opened(path, options).index.stats().to_dict()
    if as_json:
        show(stats, as_json=True)
        return
    buckets = stats.pop("buckets")
    show(stats, as_json=False)
    show(buckets, as_json=False)


@index.command("verify")
@click.argument("path")
@click.option("--sample", type=COUNT, help="Check a random sample of this size, not all keys.")
@option
@as_json
def index_verify(path: str, sample: int | None, options: Settings, as_json: bool) -> None:
    """Verify the index against the table; exit code 3 if they differ."""
    check = _opened(path, options).index.verify(sample=sample)
    show(check.to_dict(), as_json=as_json)
    if not check.is_exact:
        sys.exit(_PROBLEMS)


@index.command("repair")
@click.argument("path")
@dry_run
@option
@as_json
def index_repair(path: str, dry_run: bool, options: Settings, as_json: bool) -> None:
    """Check the whole index and repair wrong entries."""
    show(_opened(path, options).index.repair(dry_run=dry_run).to_dict(), as_json=as_json)


@index.command("rebuild")
@click.argument("path")
@click.option("--buckets", type=COUNT, help="Number of buckets; default: the current number.")
@click.option("--kind", help="record, elastic, rocksdb or hbase; default: the kind of the table.")
@dry_run
@option
@as_json
def index_rebuild(
    path: str,
    buckets: int | None,
    kind: str | None,
    dry_run: bool,
    options: Settings,
    as_json: bool,
) -> None:
    """Build the index from the table's keys, next to the existing one, and replace that."""
    opened = _opened(path, options).index
    done = opened.rebuild(buckets, kind=kind, dry_run=dry_run, progress=_show_progress)
    show(done.to_dict(), as_json=as_json)


def _show_progress(progress: Progress) -> None:
    """Print a line on standard error that overwrites the previous one."""
    end = progress.done == progress.total
    line = f"\r{progress.phase}: {progress.done} of {progress.total}, {progress.seconds:.1f} s"
    click.echo(line, nl=end, err=True)


@index.command("create")
@click.argument("path")
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
@dry_run
@option
@as_json
def index_create(
    path: str,
    index_kind: str,
    columns: tuple[str, ...],
    name: str | None,
    expression: str | None,
    using: str | None,
    arguments: Settings,
    dry_run: bool,
    options: Settings,
    as_json: bool,
) -> None:
    """Create an index of the metadata table; several --column for column statistics."""
    done = _opened(path, options).index.create(
        index_kind, columns or None, name=name, expression=expression, using=using,
        options=dict(arguments) or None, dry_run=dry_run,
    )  # fmt: skip
    show(done.to_dict(), as_json=as_json)


@index.command("drop")
@click.argument("path")
@click.argument("index_name", metavar="NAME")
@dry_run
@option
@as_json
def index_drop(path: str, index_name: str, dry_run: bool, options: Settings, as_json: bool) -> None:
    """Remove an index of the metadata table by its name."""
    dropped = _opened(path, options).index.drop(index_name, dry_run=dry_run)
    show({"dropped": dropped, "dry_run": dry_run}, as_json=as_json)


@index.command("list")
@click.argument("path")
@option
@as_json
def index_list(path: str, options: Settings, as_json: bool) -> None:
    """Show the indexes in the metadata table."""
    show(_opened(path, options).index.list().to_pylist(), as_json=as_json)


@index.command("calibrate")
@as_json
def index_calibrate(as_json: bool) -> None:
    """Measure lookup costs on this machine and store them for the choice between seek and scan.

    If the machine is busy and measurements differ too much, the command fails and stores nothing.
    """
    found = measure_costs()
    facts = {**asdict(found.costs), "spread": round(found.spread, 3)}
    show({**facts, "stored in": str(store_costs(found.costs))}, as_json=as_json)

"""Commands `pyhudi compaction`, `clustering`, `ttl`, `clean`, `rollback`, `savepoint`, `restore`
and `timeline archive`."""

from __future__ import annotations

import click

import pyhudi
from pyhudi.cli.output import as_json, show
from pyhudi.cli.tables import timeline
from pyhudi.cli.values import Settings, name_of, option
from pyhudi.reports import Report

dry_run = click.option("--dry-run", is_flag=True, help="Report what would be done; change nothing.")


def _opened(path: str, options: Settings) -> pyhudi.Table:
    return pyhudi.open_table(path, options=dict(options))


def _show_planned(planned: str | Report | None, *, as_json: bool) -> None:
    """Print the instant of a plan, or the report of a dry run."""
    facts = planned.to_dict() if isinstance(planned, Report) else {"instant": planned}
    show(facts, as_json=as_json)


@click.group()
def compaction() -> None:
    """Merge the logs of a merge-on-read table into base files."""


@compaction.command("run")
@click.argument("path")
@dry_run
@option
@as_json
def compaction_run(path: str, dry_run: bool, options: Settings, as_json: bool) -> None:
    """Run the pending compaction, or plan one and run it."""
    show(_opened(path, options).compact(dry_run=dry_run).to_dict(), as_json=as_json)


@compaction.command("logs")
@click.argument("path")
@dry_run
@option
@as_json
def compaction_logs(path: str, dry_run: bool, options: Settings, as_json: bool) -> None:
    """Merge the logs of each file slice that has many into one; base files are not rewritten."""
    show(_opened(path, options).compact_logs(dry_run=dry_run).to_dict(), as_json=as_json)


@compaction.command("schedule")
@click.argument("path")
@dry_run
@option
@as_json
def compaction_schedule(path: str, dry_run: bool, options: Settings, as_json: bool) -> None:
    """Plan a compaction to be run by `run` or by Apache Hudi."""
    _show_planned(_opened(path, options).schedule_compaction(dry_run=dry_run), as_json=as_json)


@compaction.command("unschedule")
@click.argument("path")
@click.argument("instant")
@dry_run
@option
@as_json
def compaction_unschedule(
    path: str, instant: str, dry_run: bool, options: Settings, as_json: bool
) -> None:
    """Cancel a pending compaction, if no later logs depend on it."""
    done = _opened(path, options).unschedule_compaction(instant, dry_run=dry_run)
    show(done.to_dict(), as_json=as_json)


@click.group()
def clustering() -> None:
    """Rewrite small file groups with their rows sorted by columns."""


sort_by = click.option(
    "--sort-by",
    multiple=True,
    type=name_of,
    metavar="COLUMN",
    help="A column to sort by; may be repeated.",
)
layout = click.option(
    "--layout", type=click.Choice(["linear", "zorder", "hilbert"]), help="How rows are ordered."
)
partition = click.option(
    "--partition", "partitions", multiple=True, metavar="PATH", help="Only this partition."
)


@clustering.command("run")
@click.argument("path")
@sort_by
@layout
@partition
@dry_run
@option
@as_json
def clustering_run(
    path: str,
    sort_by: tuple[str, ...],
    layout: str | None,
    partitions: tuple[str, ...],
    dry_run: bool,
    options: Settings,
    as_json: bool,
) -> None:
    """Run the pending clustering, or plan one and run it."""
    table = _opened(path, options)
    report = table.cluster(
        sort_by or None, layout=layout, partitions=partitions or None, dry_run=dry_run
    )
    show(report.to_dict(), as_json=as_json)


@clustering.command("schedule")
@click.argument("path")
@sort_by
@layout
@partition
@dry_run
@option
@as_json
def clustering_schedule(
    path: str,
    sort_by: tuple[str, ...],
    layout: str | None,
    partitions: tuple[str, ...],
    dry_run: bool,
    options: Settings,
    as_json: bool,
) -> None:
    """Plan a clustering to be run by `run` or by Apache Hudi."""
    table = _opened(path, options)
    planned = table.schedule_clustering(
        sort_by or None, layout=layout, partitions=partitions or None, dry_run=dry_run
    )
    _show_planned(planned, as_json=as_json)


@clustering.command("unschedule")
@click.argument("path")
@click.argument("instant")
@dry_run
@option
@as_json
def clustering_unschedule(
    path: str, instant: str, dry_run: bool, options: Settings, as_json: bool
) -> None:
    """Cancel a pending clustering."""
    done = _opened(path, options).unschedule_clustering(instant, dry_run=dry_run)
    show(done.to_dict(), as_json=as_json)


@click.group()
def ttl() -> None:
    """Delete expired partitions."""


@ttl.command("run")
@click.argument("path")
@dry_run
@option
@as_json
def ttl_run(path: str, dry_run: bool, options: Settings, as_json: bool) -> None:
    """Delete partitions that have expired according to `hoodie.partition.ttl.*`."""
    show(_opened(path, options).expire_partitions(dry_run=dry_run).to_dict(), as_json=as_json)


@click.group()
def clean() -> None:
    """Delete files that no reader needs any more."""


@clean.command("run")
@click.argument("path")
@dry_run
@option
@as_json
def clean_run(path: str, dry_run: bool, options: Settings, as_json: bool) -> None:
    """Run pending cleans, then plan one and run it."""
    show(_opened(path, options).clean(dry_run=dry_run).to_dict(), as_json=as_json)


@clean.command("pins")
@click.argument("path")
@as_json
def clean_pins(path: str, as_json: bool) -> None:
    """Show snapshots that readers have pinned against cleaning."""
    show([pinned.to_dict() for pinned in _opened(path, ()).pinned_snapshots()], as_json=as_json)


@click.group()
def rollback() -> None:
    """Undo the newest commit."""


@rollback.command("run")
@click.argument("path")
@click.argument("instant")
@dry_run
@option
@as_json
def rollback_run(path: str, instant: str, dry_run: bool, options: Settings, as_json: bool) -> None:
    """Undo the commit at INSTANT, which must be the newest."""
    report = _opened(path, options).rollback(instant, dry_run=dry_run)
    show(report.to_dict(), as_json=as_json)


@click.group()
def savepoint() -> None:
    """Protect snapshots from cleaning and archival."""


@savepoint.command("create")
@click.argument("path")
@click.argument("instant", required=False)
@click.option("--comment", default="", help="Why it is protected.")
@dry_run
@option
@as_json
def savepoint_create(
    path: str,
    instant: str | None,
    comment: str,
    dry_run: bool,
    options: Settings,
    as_json: bool,
) -> None:
    """Protect the snapshot at INSTANT, or the newest."""
    saved = _opened(path, options).savepoint(comment, instant, dry_run=dry_run)
    show(saved.to_dict(), as_json=as_json)


@savepoint.command("show")
@click.argument("path")
@as_json
def savepoint_show(path: str, as_json: bool) -> None:
    """Show savepoints, oldest first."""
    show([each.to_dict() for each in _opened(path, ()).savepoints()], as_json=as_json)


@savepoint.command("delete")
@click.argument("path")
@click.argument("instant")
@dry_run
@option
@as_json
def savepoint_delete(
    path: str, instant: str, dry_run: bool, options: Settings, as_json: bool
) -> None:
    """Delete the savepoint at INSTANT."""
    released = _opened(path, options).delete_savepoint(instant, dry_run=dry_run)
    show({"deleted": instant} | released.to_dict(), as_json=as_json)


@click.group()
def restore() -> None:
    """Restore the table to its state at a commit."""


@restore.command("run")
@click.argument("path")
@click.argument("instant")
@dry_run
@option
@as_json
def restore_run(path: str, instant: str, dry_run: bool, options: Settings, as_json: bool) -> None:
    """Undo everything that was written after the commit at INSTANT."""
    show(_opened(path, options).restore(instant, dry_run=dry_run).to_dict(), as_json=as_json)


@timeline.command("archive")
@click.argument("path")
@dry_run
@option
@as_json
def timeline_archive(path: str, dry_run: bool, options: Settings, as_json: bool) -> None:
    """Move old instants to the archive; `timeline show --archived` lists them there."""
    show(_opened(path, options).archive(dry_run=dry_run).to_dict(), as_json=as_json)

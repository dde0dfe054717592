"""Commands `pyhudi compaction`, `clustering`, `ttl`, `clean`, `rollback`, `savepoint` and
`restore`."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import click

from pyhudi.cli.command import Answer, Call, command
from pyhudi.cli.values import Decorator, columns_option
from pyhudi.reports import Report
from pyhudi.table.plan_facts import PlanFacts, PlanKind, service_plan, service_plans


def _planned(planned: str | Report | None) -> Any:
    """The instant of a plan, or the report of a dry run."""
    return planned.to_dict() if isinstance(planned, Report) else {"instant": planned}


def _shown(call: Call, plan: PlanFacts) -> Answer:
    slices = [asdict(planned) for planned in plan.slices]
    title = f"{plan.instant} {plan.action}, {plan.state}"
    return Answer({**plan.to_dict(), "slices": slices} if call.as_json else slices, title)


@click.group()
def compaction() -> None:
    """Merge the logs of a merge-on-read table into base files."""


@command("run", compaction, example="compaction run trips --dry-run", changes=True)
def compaction_run(call: Call) -> Any:
    """Run the pending compaction, or plan one and run it."""
    return call.table.compact(dry_run=call.dry_run)


@command("logs", compaction, example="compaction logs trips", changes=True)
def compaction_logs(call: Call) -> Any:
    """Merge the logs of each file slice that has many into one; base files are not rewritten."""
    return call.table.compact_logs(dry_run=call.dry_run)


@command("schedule", compaction, example="compaction schedule trips", changes=True)
def compaction_schedule(call: Call) -> Any:
    """Plan a compaction to be run by `run` or by Apache Hudi."""
    return _planned(call.table.schedule_compaction(dry_run=call.dry_run))


@command(
    "unschedule", compaction, example="compaction unschedule trips 20261122101500000", changes=True
)
@click.argument("instant")
def compaction_unschedule(call: Call, instant: str) -> Any:
    """Cancel a pending compaction, if no later logs depend on it."""
    return call.table.unschedule_compaction(instant, dry_run=call.dry_run)


@command("list", compaction, example="compaction list trips")
def compaction_list(call: Call) -> Any:
    """Show the compactions and log compactions of the active timeline, pending ones included.

    The counts are those of the plan: what it rewrites.
    """
    return [plan.to_dict() for plan in service_plans(call.store, PlanKind.COMPACTION)]


@command("show", compaction, example="compaction show trips 20261122101500000")
@click.argument("instant")
def compaction_show(call: Call, instant: str) -> Any:
    """Show the file slices that the compaction at INSTANT merges."""
    return _shown(call, service_plan(call.store, PlanKind.COMPACTION, instant))


@click.group()
def clustering() -> None:
    """Rewrite small file groups with their rows sorted by columns."""


def _clustering_options() -> Decorator:
    options = (
        columns_option("--sort-by", "A column to sort by"),
        click.option(
            "--layout",
            type=click.Choice(["linear", "zorder", "hilbert"]),
            help="How rows are ordered.",
        ),
        click.option(
            "--partition",
            "partitions",
            multiple=True,
            metavar="PATH",
            help="Only this partition; may be repeated.",
        ),
    )

    def decorate(function: Any) -> Any:
        for option in reversed(options):
            function = option(function)
        return function

    return decorate


def _selection(
    sort_by: tuple[str, ...], layout: str | None, partitions: tuple[str, ...]
) -> dict[str, Any]:
    return {"sort_by": sort_by or None, "layout": layout, "partitions": partitions or None}


@command("run", clustering, example="clustering run trips --sort-by city", changes=True)
@_clustering_options()
def clustering_run(call: Call, **selection: Any) -> Any:
    """Run the pending clustering, or plan one and run it."""
    return call.table.cluster(**_selection(**selection), dry_run=call.dry_run)


@command("schedule", clustering, example="clustering schedule trips --sort-by city", changes=True)
@_clustering_options()
def clustering_schedule(call: Call, **selection: Any) -> Any:
    """Plan a clustering to be run by `run` or by Apache Hudi."""
    planned = call.table.schedule_clustering(**_selection(**selection), dry_run=call.dry_run)
    return _planned(planned)


@command(
    "unschedule", clustering, example="clustering unschedule trips 20261122101500000", changes=True
)
@click.argument("instant")
def clustering_unschedule(call: Call, instant: str) -> Any:
    """Cancel a pending clustering."""
    return call.table.unschedule_clustering(instant, dry_run=call.dry_run)


@command("list", clustering, example="clustering list trips")
def clustering_list(call: Call) -> Any:
    """Show the clusterings of the active timeline, pending ones included.

    The counts are those of the plan: what it rewrites.
    """
    return [plan.to_dict() for plan in service_plans(call.store, PlanKind.CLUSTERING)]


@command("show", clustering, example="clustering show trips 20261122101500000")
@click.argument("instant")
def clustering_show(call: Call, instant: str) -> Any:
    """Show the file slices that the clustering at INSTANT rewrites.

    Slices with the same output number are rewritten together.
    """
    return _shown(call, service_plan(call.store, PlanKind.CLUSTERING, instant))


@click.group()
def ttl() -> None:
    """Delete expired partitions."""


@command(
    "run",
    ttl,
    changes=True,
    example="ttl run trips --option hoodie.partition.ttl.strategy.days.retain=30",
)
def ttl_run(call: Call) -> Any:
    """Delete partitions that have expired according to `hoodie.partition.ttl.*`."""
    return call.table.expire_partitions(dry_run=call.dry_run)


@click.group()
def clean() -> None:
    """Delete files that no reader needs any more."""


@command("run", clean, example="clean run trips --dry-run", changes=True)
def clean_run(call: Call) -> Any:
    """Run pending cleans, then plan one and run it."""
    return call.table.clean(dry_run=call.dry_run)


@command("pins", clean, example="clean pins trips")
def clean_pins(call: Call) -> Any:
    """Show snapshots that readers have pinned against cleaning."""
    return call.table.pinned_snapshots()


@click.group()
def rollback() -> None:
    """Undo the newest commit."""


@command(
    "run",
    rollback,
    changes=True,
    is_dangerous=True,
    example="rollback run trips 20261122101500000 --dry-run",
)
@click.argument("instant")
def rollback_run(call: Call, instant: str) -> Any:
    """Undo the commit at INSTANT, which must be the newest."""
    planned = call.table.rollback(instant, dry_run=True)
    if call.dry_run:
        return planned
    call.confirm(f"undo the commit at {instant} permanently?")
    return call.table.rollback(instant)


@click.group()
def savepoint() -> None:
    """Protect snapshots from cleaning and archival."""


@command("create", savepoint, example="savepoint create trips --comment release", changes=True)
@click.argument("instant", required=False)
@click.option("--comment", default="", help="Why it is protected.")
def savepoint_create(call: Call, instant: str | None, comment: str) -> Any:
    """Protect the snapshot at INSTANT, or the newest."""
    return call.table.savepoint(comment, instant, dry_run=call.dry_run)


@command("show", savepoint, example="savepoint show trips")
def savepoint_show(call: Call) -> Any:
    """Show savepoints, oldest first."""
    return call.table.savepoints()


@command("delete", savepoint, example="savepoint delete trips 20261122101500000", changes=True)
@click.argument("instant")
def savepoint_delete(call: Call, instant: str) -> Any:
    """Delete the savepoint at INSTANT."""
    released = call.table.delete_savepoint(instant, dry_run=call.dry_run)
    return {"deleted": instant} | released.to_dict()


@click.group()
def restore() -> None:
    """Restore the table to its state at a commit."""


@command(
    "run",
    restore,
    changes=True,
    is_dangerous=True,
    example="restore run trips 20261122101500000 --dry-run",
)
@click.argument("instant")
def restore_run(call: Call, instant: str) -> Any:
    """Undo everything that was written after the commit at INSTANT."""
    planned = call.table.restore(instant, dry_run=True)
    if call.dry_run:
        return planned
    call.confirm(f"undo everything that was written after {instant} permanently?")
    return call.table.restore(instant)

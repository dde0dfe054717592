"""`pyhudi doctor`, `pyhudi repair`, `pyhudi metadata`, `pyhudi services`."""

from __future__ import annotations

import sys
import time

import click

import pyhudi
from pyhudi.cli.output import as_json, show
from pyhudi.cli.values import Settings, option, seconds
from pyhudi.health.findings import Diagnosis

PROBLEMS = 3


@click.command()
@click.argument("path")
@click.option("--quick", is_flag=True, help="Leave out the record index against the keys.")
@click.option("--html", "as_html", is_flag=True, help="Print an HTML fragment.")
@as_json
def doctor(path: str, quick: bool, as_html: bool, as_json: bool) -> None:
    """What is wrong with a table, and what to do; exit code 3 if something is."""
    _tell(pyhudi.doctor(path, quick=quick), as_json, as_html)


def _tell(found: Diagnosis, as_json: bool, as_html: bool = False) -> None:
    if as_html:
        click.echo(found._repr_html_())
    elif as_json:
        show(found.to_dict(), as_json=True)
    else:
        click.echo(str(found))
    if not found.is_healthy:
        sys.exit(PROBLEMS)


@click.command()
@click.argument("path")
@click.option("--dry-run", is_flag=True, help="Tell what would happen; change nothing.")
@click.option("--allow-loss", is_flag=True, help="Also what costs rows or history.")
@click.option("--yes", is_flag=True, help="Do not ask before --allow-loss.")
@as_json
def repair(path: str, dry_run: bool, allow_loss: bool, yes: bool, as_json: bool) -> None:
    """Mend what the doctor finds; exit code 3 if something is left."""
    if allow_loss and not (dry_run or yes):
        click.confirm("rows or history may be given up; go on?", abort=True)
    report = pyhudi.repair(path, dry_run=dry_run, allow_loss=allow_loss)
    if as_json:
        show(report.to_dict(), as_json=True)
    else:
        steps = [step.to_dict() for step in report.steps]
        show(steps, as_json=False, title="would be done" if dry_run else "done")
        for note in report.notes:
            click.echo(note)
        if not dry_run:
            click.echo(str(Diagnosis(path, report.left)))
    if not report.is_healthy:
        sys.exit(PROBLEMS)


@click.group()
def services() -> None:
    """Everything that keeps a table in shape."""


@services.command("run")
@click.argument("path")
@click.option("--dry-run", is_flag=True, help="Tell what is due; change nothing.")
@click.option("--every", type=seconds, help="Go on, looking every so many seconds, until stopped.")
@option
@as_json
def services_run(
    path: str, dry_run: bool, every: float | None, options: Settings, as_json: bool
) -> None:
    """Run what is due: rollback, partition TTL, compaction, log compaction, clustering, cleaning,
    archival, leftovers."""
    table = pyhudi.open_table(path, options=dict(options))
    while True:
        report = table.services.run(dry_run=dry_run)
        if as_json:
            show(report.to_dict(), as_json=True)
        else:
            click.echo(str(report))
        if every is None:
            break
        time.sleep(every)
    if report.errors:
        sys.exit(1)


@click.group()
def metadata() -> None:
    """The metadata table: file listing, record index, statistics."""


@metadata.command("verify")
@click.argument("path")
@click.option("--keys/--no-keys", default=True, help="Hold the record index against the keys.")
@as_json
def metadata_verify(path: str, keys: bool, as_json: bool) -> None:
    """Hold it against the table; exit code 3 if it is wrong."""
    _tell(pyhudi.open_table(path).metadata.verify(keys=keys), as_json)


@metadata.command("rebuild")
@click.argument("path")
@click.option("--dry-run", is_flag=True, help="Check that it could be built; change nothing.")
@as_json
def metadata_rebuild(path: str, dry_run: bool, as_json: bool) -> None:
    """Build it again, then swap."""
    _tell(pyhudi.open_table(path).metadata.rebuild(dry_run=dry_run), as_json)

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
@click.option("--quick", is_flag=True, help="Skip the check of the record index.")
@click.option("--html", "as_html", is_flag=True, help="Print an HTML fragment.")
@as_json
def doctor(path: str, quick: bool, as_html: bool, as_json: bool) -> None:
    """Report problems of a table and their remedies; exit code 3 if there are any."""
    _report(pyhudi.doctor(path, quick=quick), as_json, as_html)


def _report(found: Diagnosis, as_json: bool, as_html: bool = False) -> None:
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
@click.option("--dry-run", is_flag=True, help="Report what would be done; change nothing.")
@click.option("--allow-loss", is_flag=True, help="Include repairs that lose rows or history.")
@click.option("--yes", is_flag=True, help="Do not prompt before --allow-loss.")
@as_json
def repair(path: str, dry_run: bool, allow_loss: bool, yes: bool, as_json: bool) -> None:
    """Repair the problems that doctor finds; exit code 3 if any remain."""
    if allow_loss and not (dry_run or yes):
        click.confirm("rows or history may be lost; continue?", abort=True)
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
    """All table services."""


@services.command("run")
@click.argument("path")
@click.option("--dry-run", is_flag=True, help="Report what is due; change nothing.")
@click.option("--every", type=seconds, help="Repeat every so many seconds, until stopped.")
@option
@as_json
def services_run(
    path: str, dry_run: bool, every: float | None, options: Settings, as_json: bool
) -> None:
    """Run the services that are due; report what ran and why others were skipped: rollback,
    partition TTL, compaction, log compaction, clustering, cleaning, archival, leftover files."""
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
@click.option("--keys/--no-keys", default=True, help="Verify the record index.")
@as_json
def metadata_verify(path: str, keys: bool, as_json: bool) -> None:
    """Verify the metadata table against the table; exit code 3 if it has errors."""
    _report(pyhudi.open_table(path).metadata.verify(keys=keys), as_json)


@metadata.command("rebuild")
@click.argument("path")
@click.option("--dry-run", is_flag=True, help="Check that a rebuild is possible; change nothing.")
@as_json
def metadata_rebuild(path: str, dry_run: bool, as_json: bool) -> None:
    """Rebuild the metadata table and replace the old one."""
    _report(pyhudi.open_table(path).metadata.rebuild(dry_run=dry_run), as_json)

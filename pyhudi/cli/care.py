"""`pyhudi doctor`, `repair`, `metadata`, `services` and `locks`."""

from __future__ import annotations

import sys
from typing import Any

import click

from pyhudi.cli.command import Answer, Call, ExitCode, command, stopping
from pyhudi.cli.output import json_text, show
from pyhudi.cli.values import seconds
from pyhudi.health.doctor import examine
from pyhudi.health.findings import Diagnosis
from pyhudi.health.repair import RepairReport, execute_repair
from pyhudi.recovery.liveness import running_instants
from pyhudi.storage.locks.table_lock import is_locked_by_another, lock_signature


@command("doctor", example="doctor trips")
@click.option("--quick", is_flag=True, help="Skip the checks that read rows.")
@click.option("--html", "as_html", is_flag=True, help="Print an HTML fragment.")
def doctor(call: Call, quick: bool, as_html: bool) -> Any:
    """Report problems of a table and their remedies; exit code 3 if there are any."""
    found = examine(call.store, quick=quick, engine=call.engine)
    return _diagnosis(found, found._repr_html_() if as_html else str(found))


def _diagnosis(found: Diagnosis, text: str | None = None) -> Answer:
    code = ExitCode.SUCCESS if found.is_healthy else ExitCode.PROBLEMS
    return Answer(found, text=str(found) if text is None else text, code=code)


@command("repair", example="repair trips --dry-run", changes=True, is_dangerous=True)
@click.option("--allow-loss", is_flag=True, help="Include repairs that lose rows or history.")
def repair(call: Call, allow_loss: bool) -> Any:
    """Repair the problems that doctor finds; exit code 3 if any remain."""
    if allow_loss:
        call.confirm("rows or history may be lost; continue?")
    report = execute_repair(
        call.store,
        options=call.parsed,
        engine=call.engine,
        dry_run=call.dry_run,
        allow_loss=allow_loss,
    )
    code = ExitCode.SUCCESS if report.is_healthy else ExitCode.PROBLEMS
    if call.as_json:
        return Answer(report, code=code)
    _show_steps(call, report)
    sys.exit(code)


def _show_steps(call: Call, report: RepairReport) -> None:
    steps = [step.to_dict() for step in report.steps]
    show(steps, as_json=False, title="would be done" if call.dry_run else "done")
    for note in report.notes:
        click.echo(note)
    planned = {step.path for step in report.steps} if call.dry_run else set()
    left = tuple(finding for finding in report.left if finding.path not in planned)
    if left or not call.dry_run:
        click.echo(str(Diagnosis(call.path, left)))


@click.group()
def services() -> None:
    """All table services."""


@command("run", services, example="services run trips --every 60", changes=True, prints_rows=True)
@click.option(
    "--every", type=seconds, help="Repeat every so many seconds, until SIGTERM or SIGINT."
)
def services_run(call: Call, every: float | None) -> Any:
    """Run the services that are due; report what ran and why others were skipped: rollback,
    partition TTL, compaction, log compaction, clustering, cleaning, archival, leftover files.

    With --every, --json prints one document per line and run, and SIGTERM and SIGINT end the
    command after the service in flight.
    """
    if every is None:
        report = call.table.services.run(dry_run=call.dry_run)
        code = ExitCode.FAILURE if report.errors else ExitCode.SUCCESS
        return Answer(report, text=str(report), code=code)
    with stopping() as stop:
        while not stop.is_set():
            report = call.table.services.run(dry_run=call.dry_run, stop=stop.is_set)
            click.echo(json_text(report.to_dict()) if call.as_json else str(report))
            stop.wait(every)
    return None


@click.group()
def metadata() -> None:
    """The metadata table: file listing, record index, statistics."""


@command("verify", metadata, example="metadata verify trips")
@click.option("--keys/--no-keys", default=True, help="Verify the record index.")
def metadata_verify(call: Call, keys: bool) -> Any:
    """Verify the metadata table against the table; exit code 3 if it has errors."""
    return _diagnosis(call.table.metadata.verify(keys=keys))


@command("rebuild", metadata, example="metadata rebuild trips --dry-run", changes=True)
def metadata_rebuild(call: Call) -> Any:
    """Rebuild the metadata table and replace the old one."""
    return _diagnosis(call.table.metadata.rebuild(dry_run=call.dry_run))


@command("locks", example="locks trips")
def locks(call: Call) -> Any:
    """Show who holds the table's lock, running writers, pinned snapshots and deferred writes.

    `last_holder` is the signature of the lock's last holder, which stays after a crash.
    """
    fs, rules = call.store, call.parsed.write.concurrency.heartbeats
    table = call.table
    timeline = table.timeline
    running = running_instants(table._state().log, timeline, rules)
    signature = lock_signature(fs)
    return {
        "holder": signature if is_locked_by_another(fs) else None,
        "last_holder": signature,
        "running": sorted(running),
        "pending": [
            {"instant": i.time, "action": i.action.value, "is_running": i.time in running}
            for i in timeline.pending
        ],
        "pinned": [pinned.to_dict() for pinned in table.pinned_snapshots()],
        "unpublished": table.unpublished(),
    }

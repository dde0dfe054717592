"""`pyhudi ingest run|once|status|reset`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import asdict
from pathlib import Path
from typing import Any, Final

import click

from pyhudi.cli.command import Answer, Call, ExitCode, Target, command, stopping
from pyhudi.cli.ingest.display import print_line, reported_as
from pyhudi.cli.ingest.flags import StreamerCommand, settings_of, stream_flags
from pyhudi.cli.values import COUNT, Settings, limit_option, name_of, seconds, setting
from pyhudi.errors import OptionError
from pyhudi.ingest.health_server import HealthServer, address_of
from pyhudi.ingest.many_tables import read_tables, run_tables
from pyhudi.ingest.retries import Retries
from pyhudi.ingest.source import lag_of
from pyhudi.ingest.status import IngestStatus, StatusReceiver, health_file
from pyhudi.ingest.streamer.properties import read_properties, sorted_properties
from pyhudi.ingest.streamer.settings import IngestSettings
from pyhudi.table.commit_facts import completed_commits

_EXAMPLE: Final = (
    "--source-class ParquetDFSSource --target-base-path trips --props ingest.properties"
)

_log_format: Final = click.option(
    "--log-format",
    type=click.Choice(["text", "json"]),
    default="text",
    help="json: the log as lines of JSON on standard error, instead of the progress.",
)


@click.group()
def ingest() -> None:
    """Rows of a source into a table, exactly once, with the flags of Apache Hudi's streamer."""


@command(
    "once", ingest, target=Target.NOTHING, kind=StreamerCommand, example=f"ingest once {_EXAMPLE}"
)
@stream_flags
def once(call: Call, **flags: Any) -> Any:
    """Write the next batch of a source and its checkpoint as one commit.

    The first batch creates the table if there is none.
    """
    report = settings_of(flags).stream(call.engine).run_once()
    if report is None:
        return Answer({"batches": 0}, text="no new rows")
    return Answer({"batches": 1, "report": report.to_dict()}, text=repr(report))


@command(
    "run",
    ingest,
    target=Target.NOTHING,
    kind=StreamerCommand,
    example=f"ingest run {_EXAMPLE} --continuous",
)
@stream_flags
@click.option("--continuous", is_flag=True, help="Follow the source until SIGTERM or SIGINT.")
@click.option(
    "--min-sync-interval-seconds",
    type=click.FloatRange(min=0),
    default=0.0,
    metavar="SECONDS",
    help="Least time from one batch to the next.",
)
@click.option(
    "--max-retry-count",
    type=COUNT,
    help="Retries of a batch; default: no limit if continuous, else none.",
)
@click.option(
    "--retry-interval-seconds",
    type=seconds,
    default="1",
    show_default=True,
    help="First pause before a retry; it doubles up to five minutes.",
)
@click.option(
    "--health-file", type=name_of, metavar="FILE", help="Write the state as JSON to this file."
)
@click.option(
    "--http",
    "http",
    type=name_of,
    metavar="[ADDRESS:]PORT",
    help="Serve /health and /metrics; the address defaults to 127.0.0.1.",
)
@_log_format
def run(
    call: Call,
    continuous: bool,
    min_sync_interval_seconds: float,
    max_retry_count: int | None,
    retry_interval_seconds: float,
    health_file: str | None,
    http: str | None,
    log_format: str,
    **flags: Any,
) -> Any:
    """Write batches until the source has no new rows, or follow it.

    A continuous run also runs the table services, while batches are written. SIGTERM and SIGINT end
    the run after the batch and the service in flight.
    """
    settings = settings_of(flags)
    stream = settings.stream(call.engine)
    count = max_retry_count if max_retry_count is not None or continuous else 0
    retries = Retries(count, retry_interval_seconds, max(300.0, retry_interval_seconds))
    last: list[IngestStatus] = []
    with ExitStack() as stack, stopping() as stop:
        receivers = [
            *watched(stack, health_file, http),
            reported_as(log_format, call, stack),
            lambda status: last.__setitem__(slice(None), [status]),
        ]
        stream.run(
            continuous=continuous,
            interval_seconds=min_sync_interval_seconds,
            stop=stop.is_set,
            on_status=receivers,
            retries=retries,
            services=settings.services() if continuous else None,
        )
    status = last[0]
    text = f"{status.batches} batches, {status.rows} rows, checkpoint {status.checkpoint}"
    return Answer(status.to_dict(), text=text)


def watched(stack: ExitStack, file: str | None, http: str | None) -> Iterator[StatusReceiver]:
    """Receivers of the state: a health file and an HTTP server, which ends with the stack."""
    if file is not None:
        if not Path(file).parent.is_dir() or Path(file).is_dir():
            raise OptionError("the health file cannot be written", path=file)
        yield health_file(file)
    if http is not None:
        yield stack.enter_context(HealthServer(*address_of(http))).receive


@command("tables", ingest, target=Target.NOTHING, example="ingest tables lake.toml --http 8080")
@click.argument("tables_file", metavar="FILE", type=name_of)
@click.option(
    "--health-file",
    type=name_of,
    metavar="FILE",
    help="Write the state of all tables as JSON to this file.",
)
@click.option(
    "--http",
    "http",
    type=name_of,
    metavar="[ADDRESS:]PORT",
    help="Serve /health and /metrics of all tables.",
)
@_log_format
def tables(
    call: Call, tables_file: str, health_file: str | None, http: str | None, log_format: str
) -> Any:
    """Ingest many tables in one process, described by a TOML FILE.

    Each table runs by itself: one that fails does not end the others. SIGTERM and SIGINT end all
    after the batches in flight. The exit code is 3 if a table failed.
    """
    ingests = read_tables(tables_file)
    shown: list[StatusReceiver] = [] if call.as_json else [print_line]
    with ExitStack() as stack, stopping() as stop:
        if log_format == "json":
            shown = [reported_as(log_format, call, stack)]
        receivers = [*watched(stack, health_file, http), *shown]
        last = run_tables(ingests, stop=stop.is_set, on_status=receivers)
    failed = [name for name, state in last.items() if state.error is not None]
    rows = [{"name": name, **state.to_dict()} for name, state in last.items()]
    lines = [
        f"{name}: {state.state.value}, {state.batches} batches, {state.rows} rows"
        + (f": {state.error}" if state.error else "")
        for name, state in last.items()
    ]
    code = ExitCode.PROBLEMS if failed else ExitCode.SUCCESS
    return Answer(rows, text="\n".join(lines), code=code)


@command("status", ingest, example="ingest status trips")
@click.option("--source-class", type=name_of, metavar="CLASS", help="The source, for its lag.")
@click.option("--source-props", type=name_of, metavar="FILE", help="Properties of the source.")
@click.option(
    "--hoodie-conf",
    multiple=True,
    type=setting,
    metavar="NAME=VALUE",
    help="One property of the source; may be repeated.",
)
@limit_option(5, "Commits to show.")
def status(
    call: Call,
    source_class: str | None,
    source_props: str | None,
    hoodie_conf: Settings,
    limit: int,
) -> Any:
    """Show the checkpoint of a table, what its source has after it, and the newest commits."""
    position, _ = call.table.source_position()
    checkpoint = None if position is None else position.checkpoint
    lag = None
    stated = {**(read_properties(source_props) if source_props else {}), **dict(hoodie_conf)}
    sorted_properties(stated)
    if source_class is not None:
        source = IngestSettings(stated, source_class=source_class).source()
        found = lag_of(source, checkpoint)
        lag = None if found is None else asdict(found)
    return {
        "table": call.table.config.name,
        "checkpoint": checkpoint,
        "instant": None if position is None else str(position.instant),
        "reset_key": None if position is None else position.reset_key,
        "lag": lag,
        "commits": [
            {
                "instant": commit.instant,
                "operation": commit.operation.lower(),
                "changed_rows": commit.changed_rows,
            }
            for commit in reversed(completed_commits(call.store, limit))
        ],
    }


@command(
    "reset", ingest, changes=True, is_dangerous=True, example="ingest reset trips trips,0:0,1:0"
)
@click.argument("checkpoint", type=name_of)
def reset(call: Call, checkpoint: str) -> Any:
    """Let the next ingest begin at CHECKPOINT, by a commit without rows.

    CHECKPOINT is a text of the source: `TOPIC,PARTITION:OFFSET,...`, milliseconds for files, an
    instant for tables. Rows that are read again are upserted, or inserted twice by inserts.
    """
    table = call.table
    call.confirm(f"move the checkpoint of {call.path} to {checkpoint}?")
    return Answer(table.reset_checkpoint(checkpoint, dry_run=call.dry_run))

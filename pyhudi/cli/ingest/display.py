"""The progress of an ingest: a live view on a terminal, a line for each batch elsewhere."""

from __future__ import annotations

import logging
import sys
import time
from contextlib import ExitStack
from dataclasses import asdict
from typing import Final

import click
from rich.console import Console
from rich.live import Live
from rich.table import Table
from rich.text import Text

import pyhudi
from pyhudi.cli.command import Call
from pyhudi.errors import PyhudiError
from pyhudi.ingest.concurrent_services import ServicesStatus
from pyhudi.ingest.source import SourceLag
from pyhudi.ingest.status import IngestState, IngestStatus, StatusReceiver
from pyhudi.markup import bytes_text, count_text
from pyhudi.observe.events import FACTS_KEY
from pyhudi.observe.json_lines import json_logs

_LOG: Final = logging.getLogger("pyhudi.ingest")
_SIZE_SECONDS: Final = 30.0
"""How often the size of the table is listed."""


def display(call: Call, stack: ExitStack) -> StatusReceiver:
    """A receiver that shows each state on standard error; nothing with --json."""
    if call.as_json:
        return lambda status: None
    console = Console(stderr=True, highlight=False)
    if not console.is_terminal:
        return print_line
    call.engine.pause()
    live = stack.enter_context(Live(console=console, auto_refresh=False, transient=True))
    sizes = _Sizes()
    return lambda status: live.update(view(status, sizes.of(status)), refresh=True)


def reported_as(log_format: str, call: Call, stack: ExitStack) -> StatusReceiver:
    """A receiver for a value of `--log-format`; with "json" the log of the run is lines of JSON on
    standard error until the stack ends."""
    if log_format == "text":
        return display(call, stack)
    call.engine.pause()
    stack.enter_context(json_logs(sys.stderr))
    return log_state


def log_state(status: IngestStatus) -> None:
    """Log retries, waits and the end; batches and services are events."""
    if status.state in (IngestState.RETRYING, IngestState.WAITING, IngestState.FAILED):
        _LOG.warning("%s", line(status), extra={FACTS_KEY: status.to_dict()})
    elif status.state is not IngestState.WRITING:
        _LOG.info("%s: %s", status.state.value, line(status), extra={FACTS_KEY: status.to_dict()})


def print_line(status: IngestStatus) -> None:
    """Batches and errors; not each change of the state."""
    if status.state in (IngestState.WRITING, IngestState.RETRYING):
        click.echo(line(status), err=True)


def line(status: IngestStatus) -> str:
    """One state as text: `batch 3: 1,000 rows, 2,500 rows/s, commit 0.4 s, lag 20 rows`."""
    if status.error is not None:
        return f"attempt {status.failures} failed: {status.error}"
    return (
        f"batch {status.batches}: {count_text(status.rows)} rows so far, "
        f"{status.rows_per_second:,.0f} rows/s, commit {status.commit_seconds:.2f} s, "
        f"lag {lag_text(status.lag)}, checkpoint {status.checkpoint}"
        + (f", services {services_text(status.services)}" if status.services else "")
    )


def lag_text(lag: SourceLag | None) -> str:
    """A lag as text: `20 rows, 3.5 seconds`; `unknown` if the source cannot say."""
    facts = {} if lag is None else {n: v for n, v in asdict(lag).items() if v is not None}
    return ", ".join(f"{value:,} {name}" for name, value in facts.items()) or "unknown"


def services_text(services: ServicesStatus) -> str:
    """Concurrent services as text: `3 compaction, 7 cleaning`, and the newest failure."""
    runs = ", ".join(f"{count} {name}" for name, count in services.runs.items())
    if services.error is None:
        return runs or "none yet"
    return f"{runs}; " * bool(runs) + f"attempt {services.failures} failed: {services.error}"


def view(status: IngestStatus, size_bytes: int | None) -> Table:
    """The state as a table of a terminal."""
    facts = {
        "source": status.source,
        "state": status.state.value,
        "checkpoint": status.checkpoint or "none",
        "lag": lag_text(status.lag),
        "batches": count_text(status.batches),
        "rows": f"{count_text(status.rows)}, {status.rows_per_second:,.0f}/s",
        "bad rows": count_text(status.rejected),
        "commit time": f"{status.commit_seconds:.2f} s",
        "table size": "unknown" if size_bytes is None else bytes_text(size_bytes),
    }
    if status.services is not None:
        facts["services"] = services_text(status.services)
    if status.error is not None:
        facts["error"] = status.error
    shown = Table(title=status.table, title_justify="left", show_header=False)
    for name, text in facts.items():
        shown.add_row(name, Text(text))
    return shown


class _Sizes:
    """The size of the newest file slices of a table, listed from time to time."""

    def __init__(self) -> None:
        self._bytes: int | None = None
        self._listed = -_SIZE_SECONDS

    def of(self, status: IngestStatus) -> int | None:
        now = time.monotonic()
        if now - self._listed >= _SIZE_SECONDS and status.batches:
            self._listed = now
            try:
                slices = pyhudi.open_table(status.table).file_slices()
                self._bytes = sum(each.size_bytes for each in slices)
            except PyhudiError:  # a display must not end the ingest
                self._bytes = None
        return self._bytes

"""`pyhudi top`: a live view of a table in the terminal."""

from __future__ import annotations

import sys
import time
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any, Final

import click
from rich.console import Group
from rich.live import Live
from rich.table import Table
from rich.text import Text

from pyhudi.cli.command import Call, command
from pyhudi.cli.output import json_text, output_console
from pyhudi.cli.values import COUNT, seconds
from pyhudi.markup import bytes_text, count_text, moment_text
from pyhudi.table.commit_facts import completed_commits

_COMMITS: Final = 8
"""Newest commits of a view."""


@command("top", example="top trips --interval 5", prints_rows=True)
@click.option(
    "--interval", type=seconds, default="2", show_default=True, help="Seconds between two views."
)
@click.option("--count", type=COUNT, help="Number of views; without it, until stopped.")
def top(call: Call, interval: float, count: int | None) -> Any:
    """Follow a table: its size, logs, pending instants and newest commits.

    On a terminal the view is refreshed in place; otherwise each view is one line. --json prints one
    document per line and view. Each view lists the timeline and the files once, and reads the
    newest commits.
    """
    if call.as_json or not sys.stdout.isatty():
        for view in _views(call, interval, count):
            click.echo(json_text(view) if call.as_json else _line(view))
        return
    call.engine.pause()
    with Live(console=output_console(), auto_refresh=False, screen=count is None) as live:
        for view in _views(call, interval, count):
            live.update(_screen(view), refresh=True)


def _views(call: Call, interval: float, count: int | None) -> Iterator[dict[str, Any]]:
    """One view after another; the first at once."""
    number = 0
    while True:
        yield _view(call)
        number += 1
        if count is not None and number >= count:
            return
        time.sleep(interval)


def _view(call: Call) -> dict[str, Any]:
    table = call.table
    slices, timeline = table.file_slices(), table.timeline
    commits = completed_commits(call.store, _COMMITS)
    return {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "table": table.config.name,
        "instants": len(timeline),
        "last_instant": timeline.last.time if timeline.last else None,
        "pending": [{"instant": i.time, "action": i.action.value} for i in timeline.pending],
        "partitions": len({s.partition for s in slices}),
        "file_groups": len(slices),
        "bytes": sum(s.size_bytes for s in slices),
        "log_files": sum(len(s.logs) for s in slices),
        "log_bytes": sum(s.log_bytes for s in slices),
        "commits": [
            {
                "instant": commit.instant,
                "operation": commit.operation.lower(),
                "changed_rows": commit.changed_rows,
                "written_rows": commit.written_rows,
                "bytes_written": sum(stat.write_bytes for stat in commit.stats),
            }
            for commit in commits
        ],
    }


def _summary(view: dict[str, Any]) -> str:
    return (
        f"{count_text(view['file_groups'])} file groups, {bytes_text(view['bytes'])}, "
        f"logs {bytes_text(view['log_bytes'])} in {count_text(view['log_files'])} files, "
        f"{count_text(view['instants'])} instants, {count_text(len(view['pending']))} pending"
    )


def _line(view: dict[str, Any]) -> str:
    newest = view["commits"][-1] if view["commits"] else None
    last = (
        f"last {newest['operation']} {moment_text(newest['instant'])}, "
        f"{count_text(newest['changed_rows'])} rows changed"
        if newest
        else "no commits"
    )
    return f"{view['at']} {_summary(view)}; {last}"


def _screen(view: dict[str, Any]) -> Group:
    """The view of a terminal."""
    commits = Table(title="newest commits", title_justify="left", expand=True)
    for name in ("instant", "operation"):
        commits.add_column(name)
    for name in ("changed rows", "written rows", "bytes written"):
        commits.add_column(name, justify="right")
    for row in reversed(view["commits"]):
        commits.add_row(
            moment_text(row["instant"]),
            Text(row["operation"]),
            count_text(row["changed_rows"]),
            count_text(row["written_rows"]),
            bytes_text(row["bytes_written"]),
        )
    waiting = ", ".join(f"{i['action']} {moment_text(i['instant'])}" for i in view["pending"][:8])
    return Group(
        Text(f"{view['table']}   {view['at']}", style="bold"),
        Text(_summary(view)),
        Text(f"pending: {waiting or 'none'}"),
        commits,
    )

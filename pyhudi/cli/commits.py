"""`pyhudi timeline`, `pyhudi commits`: instants, and what each commit wrote."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import click

from pyhudi.cli.command import Answer, Call, command
from pyhudi.cli.values import limit_option
from pyhudi.storage.url_resolver import locate_all
from pyhudi.table.commit_facts import (
    CommitFacts,
    compare_timelines,
    completed_commit,
    completed_commits,
)
from pyhudi.timeline.instant import Instant


@click.group()
def timeline() -> None:
    """The timeline of a table."""


@command("show", timeline, example="timeline show trips --limit 10")
@limit_option(50, "Newest instants to show.")
@click.option("--archived", is_flag=True, help="Show archived instants instead.")
def timeline_show(call: Call, limit: int, archived: bool) -> Any:
    """Show instants of the active timeline, oldest first."""
    table = call.table
    instants = (table.archived_timeline if archived else table.timeline).instants
    return [_instant_facts(instant) for instant in instants[-limit:]]


def _instant_facts(instant: Instant) -> dict[str, Any]:
    return {
        "time": instant.time,
        "action": instant.action.value,
        "state": instant.state.name.lower(),
        "completed_at": instant.completed_at,
    }


@command("archive", timeline, changes=True, example="timeline archive trips --dry-run")
def timeline_archive(call: Call) -> Any:
    """Move old instants to the archive; `timeline show --archived` lists them there."""
    return call.table.archive(dry_run=call.dry_run)


@click.group()
def commits() -> None:
    """The completed commits of a table."""


@command("list", commits, example="commits list trips --limit 10")
@limit_option(20, "Newest commits to show.")
@click.option("--archived", is_flag=True, help="Show archived commits instead.")
def commits_list(call: Call, limit: int, archived: bool) -> Any:
    """Show commits of the active timeline with rows and bytes written, oldest first."""
    return [found.to_dict() for found in completed_commits(call.store, limit, archived=archived)]


@command("show", commits, example="commits show trips 20261122101500000")
@click.argument("instant")
def commits_show(call: Call, instant: str) -> Any:
    """Show what the commit at INSTANT wrote, by partition."""
    found = completed_commit(call.store, instant)
    partitions = [{"partition": p, **facts} for p, facts in found.by_partition().items()]
    whole = {**found.to_dict(), "extra": found.extra, "by_partition": partitions}
    return Answer(whole if call.as_json else partitions, _title(found))


def _title(found: CommitFacts) -> str:
    return f"{found.instant} {found.operation.lower()}"


@command("files", commits, example="commits files trips 20261122101500000")
@click.argument("instant")
def commits_files(call: Call, instant: str) -> Any:
    """Show the files that the commit at INSTANT wrote."""
    found = completed_commit(call.store, instant)
    return Answer(list(_files(found)), _title(found))


def _files(found: CommitFacts) -> Iterator[dict[str, Any]]:
    for stat in found.stats:
        yield {
            "partition": stat.partition,
            "file_id": stat.file_id,
            "file": stat.file_name,
            "previous_instant": stat.previous_instant,
            "rows": stat.write_count,
            "inserted": stat.insert_count,
            "updated": stat.update_count,
            "deleted": stat.delete_count,
            "bytes_written": stat.write_bytes,
            "file_bytes": stat.size_bytes,
        }


@command("compare", commits, example="commits compare trips trips_copy")
@click.argument("other")
def commits_compare(call: Call, other: str) -> Any:
    """Compare the commits of the table with those of the table at the path OTHER.

    Shows the newest commit of each, and the commits that only one of them has.
    """
    return compare_timelines(*locate_all(call.path, other, storage_options=call.storage))

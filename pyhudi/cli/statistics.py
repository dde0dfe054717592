"""`pyhudi stats`: file sizes, write amplification and keys of a table."""

from __future__ import annotations

from typing import Any

import click
import numpy as np

from pyhudi.cli.command import Call, command
from pyhudi.cli.measurement.key_statistics import key_statistics
from pyhudi.cli.values import limit_option
from pyhudi.records import PARTITION_PATH, RECORD_KEY
from pyhudi.table.commit_facts import completed_commits


@click.group()
def stats() -> None:
    """Statistics of a table: file sizes, write amplification, keys."""


@command("sizes", stats, example="stats sizes trips")
@limit_option(1000, "Commits to show.")
def stats_sizes(call: Call, limit: int) -> Any:
    """Show the distribution of the sizes of the files that each commit wrote, in bytes.

    The last row is that of all commits shown.
    """
    commits = completed_commits(call.store, limit)
    sizes = {found.instant: [stat.size_bytes for stat in found.stats] for found in commits}
    every = [size for found in sizes.values() for size in found]
    return [_distribution(name, found) for name, found in (*sizes.items(), ("all", every))]


def _distribution(name: str, sizes: list[int]) -> dict[str, Any]:
    values = np.array(sizes or [0], np.float64)
    low, p10, half, p95, high = np.percentile(values, [0, 10, 50, 95, 100])
    return {
        "commit": name,
        "files": len(sizes),
        "min": int(low),
        "p10": int(p10),
        "median": int(half),
        "mean": int(values.mean()),
        "p95": int(p95),
        "max": int(high),
    }


@command("amplification", stats, example="stats amplification trips")
@limit_option(1000, "Commits to show.")
def stats_amplification(call: Call, limit: int) -> Any:
    """Show how many rows each commit wrote for each row that it changed.

    amplification: rows written divided by rows inserted, updated or deleted; null for table
    services, which change no rows. The last row is that of all commits shown.
    """
    commits = completed_commits(call.store, limit)
    rows = [
        _amplification(c.instant, c.operation.lower(), c.changed_rows, c.written_rows)
        for c in commits
    ]
    changed = sum(c.changed_rows for c in commits)
    written = sum(c.written_rows for c in commits)
    return [*rows, _amplification("all", "", changed, written)]


def _amplification(commit: str, operation: str, changed: int, written: int) -> dict[str, Any]:
    return {
        "commit": commit,
        "operation": operation,
        "changed_rows": changed,
        "written_rows": written,
        "amplification": round(written / changed, 3) if changed else None,
    }


@command("keys", stats, example="stats keys trips")
def stats_keys(call: Call) -> Any:
    """Show rows and distinct record keys, and keys that are stored more than once.

    Cost: reads the key column; disk for all record keys, memory for a 64th of them.
    """
    return key_statistics(call.table.scan([RECORD_KEY, PARTITION_PATH]).to_batches())

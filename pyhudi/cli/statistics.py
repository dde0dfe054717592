"""`pyhudi stats`: file sizes, write amplification and keys of a table."""

from __future__ import annotations

from typing import Any

import click
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.cli.command import Call, command
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

    Cost: reads the key column; memory for all record keys.
    """
    rows = call.table.scan([RECORD_KEY, PARTITION_PATH]).to_arrow()
    by_key = rows.group_by(RECORD_KEY).aggregate(
        [([], "count_all"), (PARTITION_PATH, "count_distinct")]
    )
    counts, places = by_key["count_all"], by_key[f"{PARTITION_PATH}_count_distinct"]
    return {
        "rows": rows.num_rows,
        "keys": by_key.num_rows,
        "repeated_keys": _true_count(pc.greater(counts, 1)),
        "keys_in_several_partitions": _true_count(pc.greater(places, 1)),
        "partitions": pc.count_distinct(rows[PARTITION_PATH]).as_py(),
        "key_bytes": pc.sum(pc.binary_length(rows[RECORD_KEY])).as_py() or 0,
    }


def _true_count(flags: pa.ChunkedArray) -> int:
    return pc.sum(flags).as_py() or 0

"""What services cost on a given table, and how much of an upsert the inline defaults take.

    python -m bench.services_share [--rows 500000] [--warm 32] [--upserts 20] [--smoke]

First each service once, on a table that has work for it: wall time, CPU time of all threads, and
what it did.  Then two tables of each type get the same upserts by turns: one with default settings,
which clean and archive after each write that makes it due, the other with both off; it is
cleaned and archived between the upserts, untimed, so that its timeline and files are as many.  The
share is what the defaults take of an upsert, once their work is steady (after `--warm` upserts).
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import pyhudi
from bench.results import state

PARTITIONS = 8
OFF = {"hoodie.clean.automatic": "false", "hoodie.archive.automatic": "false"}
FEW_RETAINED = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.parquet.small.file.limit": "0",
}


def rows_of(numbers: np.ndarray[Any, Any], version: int) -> pa.Table:
    rng = np.random.default_rng(version)
    names = pa.array([f"p{n}" for n in range(PARTITIONS)])
    return pa.table(
        {
            "id": pa.array([f"k{n:09d}" for n in numbers.tolist()]),
            "part": names.take(pa.array(numbers % PARTITIONS)),
            "ts": pa.array(np.full(len(numbers), version)),
            "fare": pa.array(rng.random(len(numbers))),
            "count": pa.array(rng.integers(0, 1000, len(numbers))),
            "note": pa.array([f"note {v}" for v in rng.integers(0, 10**6, len(numbers)).tolist()]),
        }
    )


def created(path: Path, kind: str, rows: int, options: dict[str, str]) -> Any:
    first = rows_of(np.arange(rows), 0)
    table = pyhudi.create_table(
        path,
        first.schema,
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type=kind,
        options=options,
    )
    table.bulk_insert(first)
    return table


def batch(rows: int, size: int, version: int) -> pa.Table:
    chosen = np.random.default_rng(1000 + version).choice(rows, size, replace=False)
    return rows_of(np.sort(chosen), version)


# ---- each service once -------------------------------------------------------------------------


def services(folder: Path, rows: int) -> None:
    print("| service | table | wall s | CPU s | what it did |")
    print("|---|---|---|---|---|")
    written = _written(folder / "mor", "mor", rows)
    _report(
        "compaction",
        "MOR",
        written.compact,
        lambda r: f"{r.file_groups} file groups, {r.log_files} logs into {rows:,} rows",
    )
    written = _written(folder / "cow", "cow", rows)
    _report("clean", "COW", written.clean, lambda r: f"{r.files} files deleted")
    _report("archive", "COW", written.archive, lambda r: f"{len(r.instants)} instants archived")
    _report(
        "clustering",
        "COW",
        written.cluster,
        lambda r: f"{r.file_groups} file groups as {r.new_file_groups}",
    )


def _written(path: Path, kind: str, rows: int) -> Any:
    """A bulk insert and ten upserts of a fiftieth of the rows, a tenth of them new, no services."""
    table = created(path, kind, rows, OFF | FEW_RETAINED)
    size = rows // 50
    for version in range(1, 11):
        updates = batch(rows, size * 9 // 10, version)
        fresh = np.arange(size // 10) + rows + version * size
        table.upsert(pa.concat_tables([updates, rows_of(fresh, version)]))
    return table


def _report(name: str, kind: str, act: Callable[[], Any], did: Callable[[Any], str]) -> None:
    cpu, wall = time.process_time(), time.perf_counter()
    report = act()
    cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
    print(f"| {name} | {kind} | {wall:.2f} | {cpu:.2f} | {did(report)} |", flush=True)


# ---- the share of an upsert --------------------------------------------------------------------


def share(folder: Path, kind: str, rows: int, warm: int, upserts: int) -> None:
    inline = created(folder / f"{kind}-inline", kind, rows, {})
    plain = created(folder / f"{kind}-plain", kind, rows, OFF)
    spent = {"inline": [0.0, 0.0], "plain": [0.0, 0.0]}
    notes = 0
    for version in range(1, warm + upserts + 1):
        some = batch(rows, max(1, rows // 100), version)
        for name, table in (("inline", inline), ("plain", plain)):
            cpu, wall = time.process_time(), time.perf_counter()
            report = table.upsert(some)
            cpu, wall = time.process_time() - cpu, time.perf_counter() - wall
            if version > warm:
                notes += len(report.notes)
                spent[name][0] += cpu
                spent[name][1] += wall
        plain.clean()
        if version % 10 == 0:
            plain.archive()
    ends = [len(table.timeline.instants) for table in (inline, plain)]
    parts = [1 - spent["plain"][n] / spent["inline"][n] for n in (0, 1)]
    each = [spent["inline"][n] / upserts for n in (0, 1)]
    print(
        f"| {kind.upper()} | {each[1] * 1e3:.0f} | {parts[1]:.0%} | {each[0] * 1e3:.0f} | "
        f"{parts[0]:.0%} | {notes} | {ends[0]} and {ends[1]} |",
        flush=True,
    )
    state(
        f"part of services of an upsert {kind.upper()}, {rows // 100:,} into {rows:,}",
        f"{parts[1]:.0%} of {each[1] * 1e3:.0f} ms",
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=500_000)
    parser.add_argument("--warm", type=int, default=32)
    parser.add_argument("--upserts", type=int, default=20)
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    if arguments.smoke:
        arguments.rows, arguments.warm, arguments.upserts = 4_000, 1, 1
    with tempfile.TemporaryDirectory() as name:
        services(Path(name), arguments.rows)
        print()
        print(
            f"upserts of {arguments.rows // 100:,} of {arguments.rows:,} rows, "
            f"{arguments.upserts} after {arguments.warm}, default settings and none"
        )
        print(
            "| table | upsert ms | share of services | CPU ms | share of CPU | services run | "
            "instants at the end |"
        )
        print("|" + "---|" * 7)
        for kind in ("cow", "mor"):
            share(Path(name), kind, arguments.rows, arguments.warm, arguments.upserts)


if __name__ == "__main__":
    main()

"""What queries of a merge-on-read table cost on Spark, beside copy-on-write.

    python -m bench.merged_logs [--rows 1500000] [--shares 5,27,60] [--repeat 3] [--smoke]

Tables of the same rows, of which the share (in percent) is in logs of the merge-on-read table, in
three commits.  Ways: copy-on-write; merge-on-read with logs merged by each query (`each query`,
`spark.pyhudi.read.logs.maxBytes` is 0); merge-on-read with stored merged logs.  One Spark
application runs the ways in turns.  Each round of a way reads a new copy of its table: the first
query finds nothing of it in memory or in scratch.  The second may find merge decisions that workers
have cached, and stores logs for a query of few columns or rows; later ones find what that left.
Prints median CPU seconds of the driver and its workers, and ratios to copy-on-write; the last
column has those of stored logs to merges by each query.  The sums of all ways must be equal.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import pyhudi
from bench.point_query import session
from bench.process_tree import spent
from bench.spark_rows import ALL_COLUMNS, FILTER, SNAPSHOT, rows_of

COMMITS = 3
LATER = 3
"""Queries after the first."""

BYTES_MIN = "spark.pyhudi.read.logs.minBytes"
BYTES_MAX = "spark.pyhudi.read.logs.maxBytes"
WAYS = ("copy-on-write", "each query", "stored")
QUERIES: dict[str, tuple[tuple[str, ...], Callable[[Any], Any]]] = {
    "two columns of scan()": (SNAPSHOT, lambda table: table.scan()),
    "two columns, named": (SNAPSHOT, lambda table: table.scan(["a", "s2"])),
    "all columns": (ALL_COLUMNS, lambda table: table.scan()),
    "filter": (SNAPSHOT, lambda table: table.scan(where=FILTER)),
}


def build(folder: Path, rows: int, share: int) -> None:
    """`cow` and `mor`, with equal rows."""
    names = np.arange(rows)
    changed = np.random.default_rng(share).choice(rows, rows * share // 100, replace=False)
    for kind in ("cow", "mor"):
        base = rows_of(names, 0, 0)
        table = pyhudi.create_table(
            folder / kind,
            base.schema,
            record_key="id",
            partition_by=["part"],
            ordering="ts",
            table_type=kind,
            index="simple",
            options={"hoodie.compact.inline": "false"},
        )
        table.bulk_insert(base)
        for number, chosen in enumerate(np.array_split(changed, COMMITS)):
            table.upsert(rows_of(np.sort(chosen), number + 1, number + 1))


def measure(spark: Any, folder: Path, way: str, query: str) -> tuple[list[float], list[Any]]:
    """(CPU seconds of the first query and of later ones, its sums)."""
    import pyhudi.spark as hudi

    columns, frame = QUERIES[query]
    spark.conf.set(BYTES_MAX, "0" if way == "each query" else str(4 << 30))
    source = folder / ("cow" if way == "copy-on-write" else "mor")
    seconds, found = [], []
    with tempfile.TemporaryDirectory(dir=folder) as copied:
        path = shutil.copytree(source, Path(copied) / "t")
        for _ in range(1 + LATER):
            began = spent()
            found = frame(hudi.open_table(spark, path)).selectExpr(*columns).collect()
            seconds.append(spent() - began)
    return seconds, [list(row) for row in found]


def compare(
    spark: Any, folder: Path, query: str, repeat: int, *, is_warm: bool
) -> dict[str, list[float]]:
    """Median CPU seconds of the first, the second and later queries, by way.  is_warm: a round
    before the others is not counted."""
    seconds: dict[str, list[list[float]]] = {way: [] for way in WAYS}
    for number in range(0 if is_warm else 1, repeat + 1):
        sums = []
        for way in WAYS if number % 2 else WAYS[::-1]:
            measured, found = measure(spark, folder, way, query)
            sums.append(found)
            if number:
                seconds[way].append(measured)
        assert sums[0] == sums[1] == sums[2], (query, sums)
    return {way: [median(of) for of in _in_order(rounds)] for way, rounds in seconds.items()}


def _in_order(rounds: list[list[float]]) -> list[list[float]]:
    """The seconds of all first queries, of all second ones, and of all others."""
    later = [seconds for measured in rounds for seconds in measured[2:]]
    return [[measured[0] for measured in rounds], [measured[1] for measured in rounds], later]


def row(share: int, query: str, found: dict[str, list[float]]) -> str:
    """A line of the table: seconds, of merge-on-read with their ratios to copy-on-write."""
    base, each, stored = (found[way] for way in WAYS)
    cells = [", ".join(f"{seconds:.2f}" for seconds in base)]
    cells += [
        ", ".join(f"{a:.2f} ({a / b:.2f}x)" for a, b in zip(own, base, strict=True))
        for own in (each, stored)
    ]
    cells.append(", ".join(f"{a / b:.2f}x" for a, b in zip(stored, each, strict=True)))
    return f"| {share} % | {query} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_500_000)
    parser.add_argument("--shares", default="5,27,60")
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    rows, repeat = (20_000, 1) if given.smoke else (given.rows, given.repeat)
    spark = session(is_short=given.smoke, memory="4g")
    if given.smoke:
        spark.conf.set(BYTES_MIN, "0")  # else Spark's reader reads no slice with logs
    print("| in logs | query: first, second, later | " + " | ".join(WAYS) + " | ratio |")
    print("|---|---|" + "---|" * (len(WAYS) + 1))
    for share in [27] if given.smoke else map(int, given.shares.split(",")):
        with tempfile.TemporaryDirectory() as folder:
            build(Path(folder), rows, share)
            for query in ("two columns, named", "filter") if given.smoke else QUERIES:
                found = compare(spark, Path(folder), query, repeat, is_warm=not given.smoke)
                print(row(share, query, found), flush=True)
    spark.stop()


if __name__ == "__main__":
    main()

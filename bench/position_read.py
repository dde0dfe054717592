"""What record positions save the first read of a merge-on-read table, and what they cost a write.

    python -m bench.position_read [--rows 2000000] [--repeat 5] [--smoke]

Tables of version 6, of version 9 and of version 9 without positions, of the same rows in eight
partitions, with the simple index; one row in ten is updated in logs, in three commits.  Prints the
median CPU seconds of an upsert, and of a read by a process that has not merged the table before,
for three projections; the ratios are to version 6.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from pathlib import Path

import numpy as np

import pyhudi
from bench.snapshot_read import PROJECTIONS, SEED, rows_of
from pyhudi.merge.merge_cache import OUTCOMES

COMMITS = 3
TABLES = {
    "version 6": (6, {}),
    "version 9": (9, {}),
    "version 9, no positions": (9, {"hoodie.write.record.positions": "false"}),
}
ORDERINGS = {"event time": "ts", "commit time": None}


def build(path: Path, count: int, name: str, ordering: str | None) -> tuple[pyhudi.Table, float]:
    """(the table, median CPU seconds of its upserts)."""
    version, options = TABLES[name]
    table = pyhudi.create_table(
        path,
        rows_of(np.arange(1), 0).schema,
        record_key="id",
        partition_by=["part"],
        ordering=ordering,
        table_type="mor",
        index="simple",
        version=version,
        options=options,
    )
    table.bulk_insert(rows_of(np.arange(count), 0))
    chance = np.random.default_rng(SEED)
    seconds = []
    for number in range(COMMITS):
        chosen = np.sort(chance.choice(count, count // 10 // COMMITS, replace=False))
        batch = rows_of(chosen, number + 1)
        began = time.process_time()
        table.upsert(batch)
        seconds.append(time.process_time() - began)
    return pyhudi.open_table(path), statistics.median(seconds)


def first_read(table: pyhudi.Table, columns: list[str] | None) -> float:
    OUTCOMES.clear()
    began = time.process_time()
    table.scan(columns).to_arrow()
    return time.process_time() - began


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    count, repeat = (20_000, 1) if given.smoke else (given.rows, given.repeat)
    print(
        "| order | table | upsert CPU s | "
        + " | ".join(f"{name} CPU s" for name in PROJECTIONS)
        + " |"
    )
    print("|---|---|---|" + "---|" * len(PROJECTIONS))
    for order, ordering in ORDERINGS.items():
        with tempfile.TemporaryDirectory() as folder:
            made = {n: build(Path(folder) / n, count, n, ordering) for n in TABLES}
            reads: dict[tuple[str, str], list[float]] = {}
            for _ in range(repeat + 1):  # the first is a warm-up
                for name, (table, _) in made.items():
                    for wide, columns in PROJECTIONS.items():
                        reads.setdefault((name, wide), []).append(first_read(table, columns))
        base = None
        for name, (_, upsert) in made.items():
            found = [upsert]
            found += [statistics.median(reads[name, wide][-repeat:]) for wide in PROJECTIONS]
            base = base or found
            cells = [f"{a:.3f} ({a / b:.2f}x)" for a, b in zip(found, base, strict=True)]
            print(f"| {order} | {name} | " + " | ".join(cells) + " |")


if __name__ == "__main__":
    main()

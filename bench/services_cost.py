"""What cleaning, archival, rollback and restore cost: what they remove, or the table?

The same commits, to two partitions, are made to a table of 20 partitions and to one of 20 times
as many; then each service removes the same from both.  Prints CPU seconds, small and
large, and their ratio: 1 is what a cost that follows the removal gives.

    python -m bench.services_cost [--smoke]
"""

from __future__ import annotations

import argparse
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import pyhudi

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
OPTIONS = {
    "hoodie.keep.min.commits": "12",
    "hoodie.keep.max.commits": "14",
    "hoodie.clean.commits.retained": "2",
}
COMMITS = 40


def batch(partitions: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"{p}/{k}", "ts": ts, "part": f"p{p:04d}"} for p in partitions for k in range(10)],
        SCHEMA,
    )


def built(path: Path, partitions: int) -> pyhudi.Table:
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", options=OPTIONS
    )
    table.bulk_insert(batch(range(partitions), 0))
    for ts in range(1, 5):
        table.upsert(batch(range(2), ts))
    table.clean()  # the first one looks everywhere
    for ts in range(5, COMMITS):
        table.upsert(batch(range(2), ts))
        if ts == COMMITS // 2:
            table.archive()  # the commit that made every partition is as large as the table
    return table


def newest(table: pyhudi.Table) -> str:
    last = table.timeline.commits.last
    assert last is not None
    return last.time


ACTS: dict[str, Callable[[pyhudi.Table], object]] = {
    "rollback of 2 files": lambda table: table.rollback(newest(table)),
    "clean": lambda table: table.clean(),
    "archive": lambda table: table.archive(),
    "restore over 1 commit": lambda table: table.restore(table.timeline.commits.instants[-2].time),
}


def measured(folder: Path, partitions: int) -> tuple[dict[str, float], dict[str, int]]:
    """Seconds of each service, and what it removed."""
    table = built(folder / str(partitions), partitions)
    seconds: dict[str, float] = {}
    removed: dict[str, int] = {}
    for name, act in ACTS.items():
        began = time.process_time()
        report = act(table)
        seconds[name] = time.process_time() - began
        files = getattr(report, "deleted", None)
        removed[name] = len(files) if files is not None else 0
        if name == "clean":
            removed[name] = getattr(report, "files", 0)
        if name == "archive":
            removed[name] = len(getattr(report, "instants", ()))
    return seconds, removed


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    small = 4 if parser.parse_args().smoke else 20
    with tempfile.TemporaryDirectory() as name:
        few, gone = measured(Path(name), small)
        many, same = measured(Path(name), 20 * small)
    assert gone == same, (gone, same)
    print(f"{'service':24} {'removed':>8} {'small s':>9} {'x20 s':>9} {'ratio':>6}")
    for act in ACTS:
        ratio = many[act] / few[act]
        print(f"{act:24} {gone[act]:8} {few[act]:9.3f} {many[act]:9.3f} {ratio:6.2f}")


if __name__ == "__main__":
    main()

"""Does reading one commit's changes cost the same in a large table as in a small one?

    python -m bench.incremental_read [--commits 100] [--repeat 7] [--smoke]

Copy-on-write tables of 20, 100 and 500 partitions (a file group of 4000 rows each) get as many
small upserts; each touches two partitions.  Then one commit in the middle is read by
`table.changes`.  Prints seconds (median of the repetitions, table open) and the data files that
were opened against those the commit wrote; the peer is the same question put to a whole scan
with a filter on the commit time.  At the end a hash of what was read.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.api.table import Table, create_table
from pyhudi.engine import LocalEngine
from pyhudi.options import parse_options
from pyhudi.storage.local import LocalFileSystem

GROUP_ROWS = 4000
OPTIONS = {"hoodie.metadata.record.index.min.filegroup.count": 1}


class CountingFileSystem(LocalFileSystem):
    """The local disk, with the data files that are opened."""

    def __init__(self, root: str | Path, opened: set[str]) -> None:
        super().__init__(root)
        self.opened = opened

    def sub(self, folder: str) -> CountingFileSystem:
        return CountingFileSystem(f"{self.root}/{folder}", self.opened)

    def arrow_file(self, path: str) -> Any:
        if path.endswith(".parquet"):
            self.opened.add(path)
        return super().arrow_file(path)


def rows_of(numbers: np.ndarray, version: int) -> pa.Table:
    return pa.table(
        {
            "id": pa.array([f"k{n:09d}" for n in numbers.tolist()]),
            "part": pa.array([f"p{n // GROUP_ROWS:04d}" for n in numbers.tolist()]),
            "v": pa.array(numbers * 7 + version),
        }
    )


def build(folder: Path, partitions: int, commits: int) -> list[str]:
    """A table and the instants of its upserts."""
    count = partitions * GROUP_ROWS
    first = rows_of(np.arange(count), 0)
    table = create_table(
        folder, first.schema, record_key="id", partition_by="part", options=OPTIONS
    )
    table.bulk_insert(first)
    rng = np.random.default_rng(20_261_121)
    times = []
    for number in range(commits):
        chosen = rng.choice(partitions, 2, replace=False)
        keys = np.concatenate([p * GROUP_ROWS + np.arange(10) for p in chosen])
        times.append(str(table.upsert(rows_of(np.sort(keys), number + 1)).instant))
    return times


def measure(read: Callable[[], pa.Table], repeat: int) -> tuple[float, pa.Table]:
    spent = []
    for _ in range(repeat + 1):  # the first is a warm-up
        began = time.perf_counter()
        table = read()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent[1:]), table


def digest(table: pa.Table) -> str:
    total = pc.sum(table.column("v")).as_py()
    return hashlib.sha256(f"{table.num_rows} {total}".encode()).hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--commits", type=int, default=100)
    parser.add_argument("--repeat", type=int, default=7)
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    sizes, commits = ((4, 8), 6) if arguments.smoke else ((20, 100, 500), arguments.commits)
    base = None
    for partitions in sizes:
        with tempfile.TemporaryDirectory() as folder:
            times = build(Path(folder), partitions, commits)
            since, until = times[commits // 2 - 1], times[commits // 2]
            opened: set[str] = set()
            table = Table(
                CountingFileSystem(folder, opened),
                options=parse_options(OPTIONS),
                engine=LocalEngine(),
            )
            spent, found = measure(
                lambda t=table, a=since, b=until: t.changes(a, b).to_arrow(), arguments.repeat
            )
            data = set(opened)
            wrote = list(Path(folder).rglob(f"*_{until}.parquet"))
            where = pc.field("_hoodie_commit_time") == until
            slow, same = measure(
                lambda t=table, a=until, w=where: t.scan(where=w, as_of=a).to_arrow(), 2
            )
            assert same.num_rows == found.num_rows
            base = base or spent
            assert data == {str(p.relative_to(folder)) for p in wrote}
            print(
                f"{partitions:4} partitions  changes {spent * 1000:7.1f} ms"
                f"  {spent / base:4.2f}x of the smallest"
                f"  opened {len(data)} files, all of {len(wrote)} written"
                f"  scan with filter {slow * 1000:7.1f} ms  {digest(found)}",
                flush=True,
            )


if __name__ == "__main__":
    main()

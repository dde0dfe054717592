"""Does the memory of an upsert follow the batch and the file group, whatever the table holds?

    python -m bench.upsert_memory [--rows 1000000 20000000] [--batch 100000] [--smoke]

Loads tables of each size a million rows at a time, then upserts one batch in a process of its own,
copy-on-write and merge-on-read.  Prints the peak of that process (VmHWM), what it held before the
upsert, and the bytes of the largest file group in memory, as Arrow.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq

import pyhudi
from bench.local_upsert import batches, rows_of

LOAD_ROWS = 1_000_000
ALLOWED_MIB = 512

CHILD = """
import sys, pyarrow.parquet as pq, pyhudi
def peak():
    lines = dict(line.split(":") for line in open("/proc/self/status"))
    return int(lines["VmHWM"].split()[0]) // 1024
batch = pq.read_table(sys.argv[2])
table = pyhudi.open_table(sys.argv[1])
before = peak()
table.upsert(batch)
print(before, peak())
"""


def measure(folder: Path, rows: int, batch_rows: int) -> None:
    """One size: two tables, one batch each."""
    batch = folder / "batch.parquet"
    pq.write_table(batches(rows, batch_rows)[0], batch)
    for kind in ("cow", "mor"):
        path = folder / kind
        first = rows_of(np.arange(min(rows, LOAD_ROWS)), 0, 0)
        table = pyhudi.create_table(
            path,
            first.schema,
            record_key="id",
            partition_by="part",
            ordering="ts",
            table_type=kind,
        )
        table.bulk_insert(first)
        for start in range(LOAD_ROWS, rows, LOAD_ROWS):
            ids = np.arange(start, min(start + LOAD_ROWS, rows))
            table.bulk_insert(rows_of(ids, 0, start))
        slices = [s for s in table.file_slices() if s.base]
        group = max(pq.read_table(f"{path}/{s.base.path}").nbytes for s in slices if s.base) >> 20
        done = subprocess.run(
            [sys.executable, "-c", CHILD, str(path), str(batch)],
            capture_output=True, text=True, check=True,
        )  # fmt: skip
        before, peak = map(int, done.stdout.split())
        allowed = ALLOWED_MIB + 3 * group
        print(
            f"{rows:,} rows, {kind}: peak {peak} MiB, {before} MiB before it; largest of "
            f"{len(slices)} groups {group} MiB as Arrow; allowed {allowed} MiB"
            + ("" if peak <= allowed else "  MISSED"),
            flush=True,
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, nargs="+", default=[1_000_000, 20_000_000])
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    for size in [20_000] if given.smoke else given.rows:
        with tempfile.TemporaryDirectory() as folder:
            measure(Path(folder), size, 2_000 if given.smoke else given.batch)

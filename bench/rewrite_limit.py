"""What does a copy-on-write upsert cost beyond a rewrite of the same files with no table at all?

    python -m bench.rewrite_limit [--rows 1000000] [--batch 100000] [--turns 3] [--smoke]

Rows, partitions and batches of bench.local_upsert; each batch touches every file.  Before each
upsert the base files that it will replace are read and written by pyarrow alone, a file a thread,
and synced, in two ways: as users write zstd files, and with the encodings that pyhudi chooses.
Prints the medians of CPU and wall seconds, the upsert beside each rewrite, and a result to compare.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import pyhudi
from bench.local_upsert import batches, rows_of
from bench.results import state
from pyhudi.formats.column_encoding import writer_options
from pyhudi.records import COMMIT_TIME

Options = Callable[[pa.Table], Mapping[str, Any]]
GOAL = 1.3


def zstd(rows: pa.Table) -> Mapping[str, Any]:
    return {"compression": "zstd", "compression_level": 1}


REWRITES: dict[str, Options] = {"pyarrow, zstd": zstd, "pyarrow, same encodings": writer_options}


def rewrite(files: Sequence[Path], folder: Path, options: Options) -> None:
    """Read and write each file; every column of strings that repeats stays a dictionary."""

    def one(path: Path) -> None:
        few = [COMMIT_TIME, "_hoodie_partition_path", "_hoodie_file_name", "part"]
        rows = pq.ParquetFile(path, read_dictionary=few).read()
        with (folder / path.name).open("wb") as file:
            with pq.ParquetWriter(file, rows.schema, **options(rows)) as writer:
                writer.write_table(rows)
            file.flush()
            os.fsync(file.fileno())

    with ThreadPoolExecutor(os.cpu_count()) as pool:
        for _ in pool.map(one, files):
            continue


def measured(spent: list[tuple[float, float]], act: Callable[[], object]) -> None:
    began, cpu = time.perf_counter(), time.process_time()
    act()
    spent.append((time.process_time() - cpu, time.perf_counter() - began))


def run(rows: int, size: int, turns: int) -> None:
    base, changes = rows_of(np.arange(rows), 0, 0), batches(rows, size)
    spent: dict[str, list[tuple[float, float]]] = {}
    for _ in range(turns):
        with tempfile.TemporaryDirectory() as folder:
            table = pyhudi.create_table(
                f"{folder}/table", base.schema, record_key="id", partition_by="part", ordering="ts"
            )
            table.bulk_insert(base)
            for batch in changes:
                table = pyhudi.open_table(f"{folder}/table")
                files = [Path(folder, "table", s.base.path) for s in table.file_slices() if s.base]
                for name, options in REWRITES.items():
                    with tempfile.TemporaryDirectory(dir=folder) as scratch:
                        measured(
                            spent.setdefault(name, []),
                            lambda f=files, s=scratch, o=options: rewrite(f, Path(s), o),
                        )
                measured(spent.setdefault("upsert", []), lambda t=table, b=batch: t.upsert(b))
            found = pyhudi.open_table(f"{folder}/table").scan(columns=["a", "ts"]).to_arrow()
    cpu, wall = (
        {name: statistics.median(pair[at] for pair in pairs) for name, pairs in spent.items()}
        for at in (0, 1)
    )
    for name, pairs in spent.items():
        ratios = [own[0] / peer[0] for own, peer in zip(spent["upsert"], pairs, strict=True)]
        by_cpu, by_wall = cpu["upsert"] / cpu[name], wall["upsert"] / wall[name]
        print(
            f"{name:24} CPU {cpu[name]:.3f} s, wall {wall[name]:.3f} s; upsert {by_cpu:.2f}x of it"
            f" by CPU (pairs {min(ratios):.2f} to {max(ratios):.2f}), {by_wall:.2f}x by wall,"
            f" goal {GOAL}x"
        )
        if name != "upsert":
            state(
                f"upsert COW, {size:,} into {rows:,}: at most {GOAL:g}x of a rewrite, {name}, CPU",
                f"{cpu['upsert']:.2f} s and {cpu[name]:.2f} s",
                f"{by_cpu:.2f}x",
                is_held=by_cpu <= GOAL,
            )
    print(f"result {found.num_rows}/{pc.sum(found['a'])}/{pc.sum(found['ts'])}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=3)
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    run(20_000, 2_000, 1) if given.smoke else run(given.rows, given.batch, given.turns)

"""How fast is a snapshot read?  Peer: pyarrow.dataset over the same base files.

    python -m bench.snapshot_read [--rows 2000000] [--repeat 5]

A copy-on-write table and merge-on-read tables (Parquet and Avro logs) of the same rows in eight
partitions; one row in ten of the latter is updated in logs.  For three projections, prints
seconds (median of the repetitions), CPU seconds, and the ratio to the peer and to copy-on-write;
at the end a hash of what was read.
"""

from __future__ import annotations

import argparse
import hashlib
import statistics
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as ds

import pyhudi
from bench.results import state

SEED = 20_261_121
PARTITIONS = 8
PROJECTIONS = {
    "all": None,
    "five": ["id", "ts", "a", "b", "s1"],
    "two": ["a", "b"],
}


def rows_of(numbers: np.ndarray, version: int) -> pa.Table:
    rng = np.random.default_rng(SEED + version)
    count = len(numbers)
    ids = numbers.astype(np.uint64)
    mixed = (ids * np.uint64(0x9E3779B97F4A7C15)).tolist()
    return pa.table(
        {
            "id": pa.array([f"{a:016x}-{b:08d}" for a, b in zip(mixed, ids.tolist(), strict=True)]),
            "ts": pa.array(np.full(count, version)),
            "part": pa.array([f"p{i % PARTITIONS}" for i in ids.tolist()]),
            "a": rng.integers(0, 1 << 40, count),
            "b": rng.random(count),
            "c": rng.random(count),
            "d": rng.integers(0, 1000, count),
            "s1": pa.array([f"name-{x}" for x in rng.integers(0, 100_000, count).tolist()]),
            "s2": pa.array([f"some longer text {x}" for x in rng.integers(0, 1 << 30, count)]),
        }
    )


def build(folder: Path, count: int) -> dict[str, Path]:
    """The tables by name."""
    first = rows_of(np.arange(count), 0)
    chosen = np.random.default_rng(SEED).choice(count, count // 10, replace=False)
    update = rows_of(np.sort(chosen), 1)
    found = {}
    for name, kind, log in (
        ("cow", "cow", "parquet"),
        ("mor, parquet logs", "mor", "parquet"),
        ("mor, avro logs", "mor", "avro"),
    ):
        path = folder / f"{kind}_{log}"
        table = pyhudi.create_table(
            path,
            first.schema,
            record_key="id",
            partition_by=["part"],
            ordering="ts",
            table_type=kind,
            options={"hoodie.logfile.data.block.format": log},
        )
        table.bulk_insert(first)
        if kind == "mor":
            table.upsert(update)
        found[name] = path
    return found


@dataclass(frozen=True)
class Spent:
    wall: float
    cpu: float
    read: pa.Table


def measure(read: Callable[[], pa.Table], repeat: int) -> Spent:
    wall, cpu = [], []
    for _ in range(repeat + 1):  # the first is a warm-up
        began, began_cpu = time.perf_counter(), time.process_time()
        table = read()
        wall.append(time.perf_counter() - began)
        cpu.append(time.process_time() - began_cpu)
    return Spent(statistics.median(wall[1:]), min(cpu[1:]), table)


def digest(table: pa.Table) -> str:
    total = pc.sum(table.column("a")).as_py()
    return hashlib.sha256(f"{table.num_rows} {total}".encode()).hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--repeat", type=int, default=5)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        tables = build(Path(folder), arguments.rows)
        files = [str(p) for p in tables["cow"].glob("p*/*.parquet")]
        for projection, columns in PROJECTIONS.items():
            peer = measure(
                lambda columns=columns: ds.dataset(files).to_table(columns=columns),
                arguments.repeat,
            )
            print(f"{projection:5} pyarrow.dataset    {peer.wall:7.3f} s  cpu {peer.cpu:7.3f} s")
            base = None
            for name, path in tables.items():
                spent = measure(
                    lambda path=path, columns=columns: (
                        pyhudi.open_table(path).scan(columns=columns).to_arrow()
                    ),
                    arguments.repeat,
                )
                base = base or spent
                goal, other, theirs = (
                    (0.8, "pyarrow.dataset", peer) if name == "cow" else (0.5, "COW", base)
                )
                state(
                    f"snapshot {name}, {projection} columns, {arguments.rows:,} rows: "
                    f"{goal:g}x as fast as {other}",
                    f"{spent.wall:.3f} s and {theirs.wall:.3f} s",
                    f"{theirs.wall / spent.wall:.2f}x",
                    is_held=theirs.wall / spent.wall >= goal,
                )
                print(
                    f"{projection:5} {name:18} {spent.wall:7.3f} s  cpu {spent.cpu:7.3f} s"
                    f"  speed {peer.wall / spent.wall:4.2f}x of pyarrow.dataset"
                    f"  time {spent.wall / base.wall:4.2f}x of cow  {digest(spent.read)}",
                    flush=True,
                )


if __name__ == "__main__":
    main()

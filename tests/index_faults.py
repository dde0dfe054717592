"""Faults planted among many random keys: a check finds exactly them, a repair mends exactly them.

    python -m tests.index_faults [--keys 1000000] [--faults 500] [--seed 1] [--kind mor]

Prints a line of totals; exit code 3 if anything was found that was not planted, or not found that
was.  50 M keys take some 5 GB of disk.
"""

from __future__ import annotations

import argparse
import random
import resource
import sys
import tempfile
import time
from collections.abc import Iterator

import numpy as np
import pyarrow as pa

import pyhudi
from pyhudi.storage.local import LocalFileSystem
from tests.support.planted import Place, plant

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int32())])
BATCH = 500_000


def key_of(number: int, seed: int) -> str:
    """A key that looks random; numbers give different keys."""
    return f"{(number * 0x9E3779B97F4A7C15 + seed) % (1 << 64):016x}"


def batches(count: int, seed: int) -> Iterator[pa.RecordBatch]:
    for start in range(0, count, BATCH):
        numbers = range(start, min(count, start + BATCH))
        parts = pa.array([f"p{n % 16}" for n in numbers])
        ids = pa.array([key_of(n, seed) for n in numbers])
        values = pa.array(np.zeros(len(numbers), np.int32))
        yield pa.RecordBatch.from_arrays([ids, parts, values], schema=SCHEMA)


def deleted_step(keys: int) -> int:
    """Keys whose numbers are multiples of it are deleted before faults are planted."""
    return 1 + keys // 99


def planted(table: pyhudi.Table, path: str, args: argparse.Namespace) -> dict[str, int]:
    """Plant faults of every kind; how many of each."""
    draw = random.Random(args.seed)
    some = draw.sample(range(args.keys), args.faults + 99)
    chosen = [key_of(n, args.seed) for n in some if n % deleted_step(args.keys)][: args.faults]
    found = table.lookup(chosen).to_pylist()
    true: dict[str, Place] = {r["record_key"]: (r["partition_path"], r["file_id"]) for r in found}
    third = args.faults // 3
    gone, moved, strayed = chosen[:third], chosen[third : 2 * third], chosen[2 * third :]
    puts: dict[str, Place] = {key: (true[key][0], "nowhere-0") for key in moved}
    puts |= {key: ("elsewhere", true[key][1]) for key in strayed}
    puts |= {f"nobody-{n}": draw.choice(list(true.values())) for n in range(third)}
    plant(LocalFileSystem(path), puts, gone)
    return {
        "missing": len(gone), "orphaned": third, "wrong_file_group": len(moved),
        "stale_partition": len(strayed),
    }  # fmt: skip


def main() -> int:
    words = argparse.ArgumentParser()
    words.add_argument("--keys", type=int, default=1_000_000)
    words.add_argument("--faults", type=int, default=500)
    words.add_argument("--seed", type=int, default=1)
    words.add_argument("--kind", choices=["cow", "mor"], default="mor")
    args = words.parse_args()
    wrong = 0
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/t"
        table = pyhudi.create_table(
            path, SCHEMA, record_key="id", partition_by="part", table_type=args.kind
        )
        table.bulk_insert(pa.RecordBatchReader.from_batches(SCHEMA, batches(args.keys, args.seed)))
        deleted = range(0, args.keys, deleted_step(args.keys))
        table.delete(keys=[key_of(n, args.seed) for n in deleted])
        table.upsert(next(batches(min(args.keys, 10_000), args.seed)))
        clean = table.index.verify()
        wrong += not clean.is_exact
        want = planted(table, path, args)
        dirty = table.index.verify()
        wrong += dict(dirty.faults) != want
        began = time.monotonic()
        done = table.index.repair()
        repair_seconds = time.monotonic() - began
        wrong += (done.put, done.ended) != (args.faults, want["orphaned"])
        wrong += not table.index.verify().is_exact
    print(
        f"seed {args.seed}: {clean.keys} keys, {sum(want.values())} faults planted, "
        f"{dirty.fault_count} found, check {clean.seconds:.1f} s, repair {repair_seconds:.1f} s, "
        f"peak {resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB, {wrong} problems"
    )
    return 3 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())

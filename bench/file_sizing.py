"""Do many small batches end in well-sized files?  A histogram of base files, and what it cost.

    python -m bench.file_sizing [--batches 200] [--rows 20000] [--table cow|mor] [--verb upsert]

Batches of new records (and, with --updates, one tenth as many updates of old ones) go one after
the other into a table of four partitions; file sizes are set so that the whole would fill about
ten files a partition.  Prints seconds, bytes written over bytes kept (write amplification) and,
for base files and for logs, how many fall into each tenth of the largest size.
"""

from __future__ import annotations

import argparse
import tempfile
import time

import numpy as np
import pyarrow as pa

import pyhudi

SEED = 20_261_121
SCHEMA = pa.schema(
    [("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("amount", pa.float64())]
)
ROW_BYTES = 24
FILES_A_PARTITION = 10


def batch(numbers: np.ndarray, ts: int) -> pa.Table:
    rng = np.random.default_rng(SEED + ts)
    ids = pa.array([f"{n * 2654435761 % (1 << 32):08x}-{n:09d}" for n in numbers.tolist()])
    parts = pa.array(["p0", "p1", "p2", "p3"]).take(pa.array(numbers % 4))
    times, amounts = np.full(len(numbers), ts), rng.random(len(numbers))
    return pa.table([ids, parts, times, amounts], schema=SCHEMA)


def histogram(sizes: list[int], largest: int) -> str:
    """Counts per tenth of the largest size; what is larger still in the last."""
    tenths = [0] * 11
    for size in sizes:
        tenths[min(10, size * 10 // largest)] += 1
    labels = [f"{10 * n}-{10 * n + 10} %" for n in range(10)] + ["over 100 %"]
    width = max(1, *tenths)
    lines = [
        f"  {label:>10} {count:5d} {'#' * (50 * count // width)}"
        for label, count in zip(labels, tenths, strict=True)
    ]
    return "\n".join(lines)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--batches", type=int, default=200)
    parser.add_argument("--rows", type=int, default=20_000)
    parser.add_argument("--table", choices=["cow", "mor"], default="cow")
    parser.add_argument("--verb", choices=["insert", "upsert", "bulk_insert"], default="upsert")
    parser.add_argument("--updates", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    batches, rows = (12, 500) if given.smoke else (given.batches, given.rows)
    largest = max(20_000, batches * rows * ROW_BYTES // (4 * FILES_A_PARTITION))
    rng = np.random.default_rng(SEED)
    with tempfile.TemporaryDirectory() as folder:
        table = pyhudi.create_table(
            f"{folder}/t",
            SCHEMA,
            record_key="id",
            partition_by="part",
            ordering="ts",
            table_type=given.table,
            options={
                "hoodie.parquet.max.file.size": str(largest),
                "hoodie.parquet.small.file.limit": str(largest * 5 // 6),
                "hoodie.index.bloom.num_entries": str(rows),
            },
        )
        written = 0
        began = time.monotonic()
        for number in range(batches):
            numbers = np.arange(number * rows, number * rows + rows)
            if given.updates and number:
                numbers = np.append(numbers, rng.choice(number * rows, rows // 10, replace=False))
            written += getattr(table, given.verb)(batch(numbers, number)).bytes_written
        seconds = time.monotonic() - began
        slices = table.file_slices()
        bases = [file_slice.base.size_bytes for file_slice in slices if file_slice.base]
        logs = [log.size_bytes for file_slice in slices for log in file_slice.logs]
        print(f"{batches} batches of {rows:,} by {given.verb} into {given.table}: {seconds:.1f} s")
        print(f"written over kept: {written / (sum(bases) + sum(logs)):.1f}")
        print(f"{len(bases)} base files, largest allowed {largest:,} bytes")
        print(histogram(bases, largest))
        if logs:
            print(f"{len(logs)} logs")
            print(histogram(logs, largest))
        assert table.scan().count() == batches * rows


if __name__ == "__main__":
    main()

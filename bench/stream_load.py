"""How much memory does a bulk insert of a stream take?

    python -m bench.stream_load [--gigabytes 2] [--sort GLOBAL_SORT]

A stream of Arrow batches, made as they are read (rows of about 200 bytes, every value random),
goes into a new copy-on-write table of four partitions with a record index.  Prints seconds, the
peak of resident memory of the process (files mapped count too) over what it was before the write,
and files; at the end the row count and a sum that are read back.
"""

from __future__ import annotations

import argparse
import tempfile
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi

SEED = 20_261_121
BATCH_ROWS = 50_000
ROW_BYTES = 200
SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("ts", pa.int64()),
        ("amount", pa.float64()),
        ("score", pa.float64()),
        ("note", pa.string()),
    ]
)


def texts(rng: np.random.Generator, count: int, width: int) -> pa.Array:
    """Random ASCII strings of one width, without an object a row."""
    data = rng.integers(97, 123, count * width, dtype=np.uint8).tobytes()
    offsets = np.arange(0, (count + 1) * width, width, dtype=np.int32)
    return pa.Array.from_buffers(
        pa.string(), count, [None, pa.py_buffer(offsets), pa.py_buffer(data)]
    )


def stream(rows: int, sums: list[int]) -> Iterator[pa.RecordBatch]:
    rng = np.random.default_rng(SEED)
    for start in range(0, rows, BATCH_ROWS):
        number = np.arange(start, min(rows, start + BATCH_ROWS))
        count = len(number)
        ids = pc.binary_join_element_wise("key", pa.array(number).cast(pa.string()), "-")
        part = pa.array(["p0", "p1", "p2", "p3"]).take(pa.array(rng.integers(0, 4, count)))
        sums[0] += int(number.sum())
        yield pa.record_batch(
            [ids, part, number, rng.random(count), rng.random(count), texts(rng, count, 136)],
            schema=SCHEMA,
        )


def resident_bytes() -> int:
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS"):
            return int(line.split()[1]) << 10
    return 0


@contextmanager
def watched(peak: list[int]) -> Iterator[None]:
    """Keeps the greatest resident size seen while the block runs."""
    done = threading.Event()

    def watch() -> None:
        while not done.wait(0.01):
            peak[0] = max(peak[0], resident_bytes())

    thread = threading.Thread(target=watch)
    thread.start()
    try:
        yield
    finally:
        done.set()
        thread.join()


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--gigabytes", type=float, default=2.0)
    parser.add_argument("--sort", default="NONE")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    rows = int((0.03 if given.smoke else given.gigabytes) * (1 << 30)) // ROW_BYTES
    with tempfile.TemporaryDirectory() as folder:
        table = pyhudi.create_table(
            f"{folder}/t",
            SCHEMA,
            record_key="id",
            partition_by="part",
            ordering="ts",
            options={"hoodie.bulkinsert.sort.mode": given.sort},
        )
        peak, sums = [0], [0]
        before, began = resident_bytes(), time.monotonic()
        with watched(peak):
            reader = pa.RecordBatchReader.from_batches(SCHEMA, stream(rows, sums))
            report = table.bulk_insert(reader)
        seconds = time.monotonic() - began
        print(f"{rows:,} rows, {given.sort}: {seconds:.1f} s, {report.seconds}")
        print(
            f"peak {peak[0] >> 20} MiB resident, {(peak[0] - before) >> 20} MiB more than before; "
            f"{report.files} files of {report.bytes_written // max(1, report.files) >> 20} MiB"
        )
        total = sum(int(pc.sum(b["ts"]).as_py() or 0) for b in table.scan(["ts"]).to_batches())
        assert (total, report.inserted) == (sums[0], rows)
        print(f"read back: {report.inserted} rows, sum {total}")


if __name__ == "__main__":
    main()

"""The record index of a table, from its first build to look-ups, beside rocksdict on the same keys.

    python -m bench.record_index [--smoke] [--rows N] [--buckets N]

A table written by another index gets a record index (progress on standard error); then batches of
10 to 1 M keys that change in every run, warm, and cold in a new process image of the index (opened
files forgotten, page cache warm); an upsert of new keys; bytes an entry; the whole index verified.
Targets: 10,000 keys over 10 buckets and 1 M rows in 40 ms warm; 42 bytes an entry with GZ.
Peers in the same run: rocksdict (raw, compacted, sorted multi_get, open) and a scan of the key
column with pyarrow and `index_in`, which is what a table without an index has to do.
"""

from __future__ import annotations

import resource
import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi
from pyhudi._native.hfile.block_cache import SHARED
from pyhudi.index.maintenance.rebuild import Progress

SEED = 20_261_121
COUNTS = (1, 10, 1_000, 10_000, 100_000, 1_000_000)
BATCH = 500_000
SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])


def key_of(number: int) -> str:
    """Random to look at, 36 characters, another for each number."""
    return str(uuid.UUID(int=number * 0x9E3779B97F4A7C15F39CC0605CEDC835 % (1 << 128)))


def rows(start: int, stop: int) -> Iterator[pa.RecordBatch]:
    for low in range(start, stop, BATCH):
        numbers = range(low, min(stop, low + BATCH))
        columns = [
            pa.array([key_of(n) for n in numbers]),
            pa.array([f"p{n % 8}" for n in numbers]),
            pa.array(numbers, pa.int64()),
        ]
        yield pa.RecordBatch.from_arrays(columns, schema=SCHEMA)


def median_ms(act: Callable[[], object], times: int) -> float:
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent) * 1000


def reported(progress: Progress) -> None:
    print(f"\r{progress.phase} {progress.done}/{progress.total} ", end="", file=sys.stderr)


def built(path: str, count: int, buckets: int) -> pyhudi.Table:
    table = pyhudi.create_table(path, SCHEMA, record_key="id", partition_by="part", index="bloom")
    table.bulk_insert(pa.RecordBatchReader.from_batches(SCHEMA, rows(0, count)))
    report = table.index.rebuild(buckets, progress=reported)
    print(
        f"\nindex of {report.entries:,} keys built in {report.seconds:.1f} s, "
        f"{report.seconds / count * 1e6:.2f} us a key"
    )
    return pyhudi.open_table(path, options={"hoodie.index.type": "RECORD_INDEX"})


def rocks_of(folder: str, count: int) -> Any:
    import rocksdict

    database = rocksdict.Rdict(folder, rocksdict.Options(raw_mode=True))
    for batch in rows(0, count):
        write = rocksdict.WriteBatch(raw_mode=True)
        for key in batch.column(0).to_pylist():
            write.put(key.encode(), b"x" * 60)
        database.write(write)
    database.flush()
    database.compact_range(None, None)
    return database


def look_ups(table: pyhudi.Table, path: str, rocks: Any, count: int) -> None:
    rng = np.random.default_rng(SEED)
    for size in (n for n in COUNTS if n <= count):
        times = 5 if size >= 100_000 else 9

        def batch(size: int = size) -> list[str]:
            return [key_of(int(n)) for n in rng.integers(0, count, size)]

        requested = iter([pa.array(batch()) for _ in range(times + 3)])
        index = pyhudi.open_index(path)
        SHARED.clear()
        cold = median_ms(lambda: index.locations(next(requested)), 1)  # noqa: B023
        for _ in range(2):
            assert pc.all(table.lookup(next(requested))["found"]).as_py()
        warm = median_ms(lambda: table.lookup(next(requested)), times)  # noqa: B023
        peers = iter([sorted(key.encode() for key in batch()) for _ in range(times)])
        rocksdict = median_ms(lambda: rocks.get(next(peers)), times)  # noqa: B023
        print(
            f"{size:>9,} keys: cold {cold:9.2f} ms, warm {warm:9.2f} ms, rocksdict "
            f"{rocksdict:9.2f} ms, {rocksdict / warm:6.2f} x",
            flush=True,
        )


def run(count: int, buckets: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        table = built(f"{folder}/t", count, buckets)
        look_ups(table, f"{folder}/t", rocks_of(f"{folder}/rocks", count), count)
        expected = pa.array([key_of(n) for n in range(0, count, max(1, count // 10_000))])
        column = table.scan(["_hoodie_record_key"])
        peer = median_ms(lambda: pc.index_in(expected, column.to_arrow().column(0)), 3)
        print(f"peer, scan of the key column for {len(expected):,} keys: {peer:.1f} ms")
        fresh = min(count, 1_000_000)
        report = table.upsert(pa.RecordBatchReader.from_batches(SCHEMA, rows(count, count + fresh)))
        print(f"upsert of {fresh:,} new keys: {report.seconds}")
        stats = table.index.stats()
        check = table.index.verify()
        print(f"{stats.bytes_per_entry} bytes an entry, skew {stats.skew}, {stats.advice}")
        print(
            f"verified {check.keys:,} keys in {check.seconds:.1f} s: "
            f"{'exact' if check.is_exact else dict(check.faults)}; peak of this process "
            f"{resource.getrusage(resource.RUSAGE_SELF).ru_maxrss >> 10} MiB"
        )


def number(name: str, default: int) -> int:
    words = sys.argv[1:]
    return int(words[words.index(name) + 1]) if name in words else default


if __name__ == "__main__":
    row_count = number("--rows", 20_000 if "--smoke" in sys.argv[1:] else 1_000_000)
    run(row_count, number("--buckets", 10))

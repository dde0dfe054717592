"""A record index of a hundred million keys: built from a table, looked up, held against it.

    python -m bench.large_index --path DIR [--keys 80000000] [--steps table index ...] [--spark]
        [--smoke]

Steps, each in a time of its own, so that a machine that is wanted back can do them in several runs
over the same --path (which is kept; --smoke takes a folder that is not):

    table     a copy-on-write table of random 36-character keys, another column, 16 partitions
    index     its record index built, progress on standard error; bytes an entry
    rocks     the same keys in rocksdict (values of 60 bytes, compacted)
    lookups   batches of 10 to 1 M keys, other keys each time: cold (files not open, nothing
              decoded, page cache warm), warm, rocksdict; the peak of a process that only looks up
    verify    the index held against the table, both ways: --sample N keys, or all

--spark: the index is built, asked and verified on Spark, local[2].
"""

from __future__ import annotations

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi
from bench.record_index import reported
from pyhudi._native.hfile.block_cache import SHARED
from pyhudi.engine import Engine, LocalEngine

SEED = 20_261_121
BATCH = 500_000
SIZES = (10, 1_000, 10_000, 100_000, 1_000_000)
SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int32())])
_HEX = np.array([list(f"{n:02x}".encode()) for n in range(256)], np.uint8)
_DASHES = (8, 13, 18, 23)
_DIGITS = np.array([at for at in range(36) if at not in _DASHES])


def mixed(numbers: np.ndarray[Any, Any], seed: int) -> np.ndarray[Any, Any]:
    """64 random-looking bits of each number: splitmix64."""
    with np.errstate(over="ignore"):
        bits = (numbers.astype(np.uint64) + np.uint64(seed)) * np.uint64(0x9E3779B97F4A7C15)
        bits = (bits ^ (bits >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        bits = (bits ^ (bits >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    return bits ^ (bits >> np.uint64(31))


def keys_of(numbers: np.ndarray[Any, Any]) -> pa.Array:
    """Keys like UUIDs, another for each number; without an object a key."""
    count = len(numbers)
    bits = np.stack([mixed(numbers, 1), mixed(numbers, 2)], axis=1).astype(">u8")
    digits = _HEX[bits.view(np.uint8).reshape(count, 16)].reshape(count, 32)
    text = np.full((count, 36), ord("-"), np.uint8)
    text[:, _DIGITS] = digits
    offsets = np.arange(0, (count + 1) * 36, 36, dtype=np.int32)
    buffers = [None, pa.py_buffer(offsets), pa.py_buffer(text)]
    return pa.Array.from_buffers(pa.string(), count, buffers)


def rows(count: int) -> Iterator[pa.RecordBatch]:
    parts = pa.array([f"p{n:02}" for n in range(16)])
    for low in range(0, count, BATCH):
        numbers = np.arange(low, min(count, low + BATCH))
        part = parts.take(pa.array(numbers // (BATCH // 16) % 16))
        yield pa.RecordBatch.from_arrays(
            [keys_of(numbers), part, pa.array(numbers % 1000, pa.int32())], schema=SCHEMA
        )


def peak_mib() -> int:
    """Of this process, not of the one that began it, which `getrusage` counts too."""
    words = Path("/proc/self/status").read_text().split()
    return int(words[words.index("VmHWM:") + 1]) >> 10


def make_table(path: Path, count: int) -> None:
    began = time.perf_counter()
    table = pyhudi.create_table(
        path / "t", SCHEMA, record_key="id", partition_by="part", index="simple"
    )
    table.bulk_insert(pa.RecordBatchReader.from_batches(SCHEMA, rows(count)))
    print(f"table of {count:,} keys: {time.perf_counter() - began:.0f} s, peak {peak_mib()} MiB")


def engine_of(on_spark: bool) -> Engine:
    if not on_spark:
        return LocalEngine()
    from bench.point_query import session
    from pyhudi.spark import SparkEngine

    return SparkEngine(session())


def make_index(path: Path, count: int, engine: Engine) -> None:
    table = pyhudi.open_table(path / "t", engine=engine)
    report = table.index.rebuild(progress=reported)
    assert report.entries == count, report
    print(
        f"\nindex of {report.entries:,} keys in {report.buckets} buckets: {report.seconds:.0f} s "
        f"({report.seconds / count * 1e6:.2f} us a key), peak {peak_mib()} MiB"
    )
    stats = pyhudi.open_table(path / "t").index.stats()
    print(f"{stats.bytes_per_entry} bytes an entry, skew {stats.skew}, {stats.advice}")


def make_rocks(path: Path, count: int) -> None:
    import rocksdict

    began = time.perf_counter()
    options = rocksdict.Options(raw_mode=True)
    options.prepare_for_bulk_load()
    database = rocksdict.Rdict(str(path / "rocks"), options)
    value = bytes(range(60))
    for batch in rows(count):
        write = rocksdict.WriteBatch(raw_mode=True)
        for key in batch.column(0).cast(pa.binary()).to_pylist():
            write.put(key, value)
        database.write(write)
    database.flush()
    database.compact_range(None, None)
    database.close()
    print(f"rocksdict of {count:,} keys: {time.perf_counter() - began:.0f} s")


def batches(count: int, size: int, times: int, seed: int) -> Iterator[pa.Array]:
    draw = np.random.default_rng(SEED + seed)
    return (keys_of(draw.integers(0, count, size)) for _ in range(times))


def look_ups(path: Path, count: int, engine: Engine) -> None:
    import rocksdict

    rocks = None
    if (path / "rocks").exists():
        options = rocksdict.Options(raw_mode=True)
        rocks = rocksdict.Rdict(str(path / "rocks"), options)
    for size in (n for n in SIZES if n <= count):
        times = 3 if size >= 100_000 else 7
        spent: dict[str, list[float]] = {"cold": [], "warm": [], "rocksdict": []}
        index = pyhudi.open_index(path / "t", engine=engine)
        for arguments in batches(count, size, 3, 1):
            SHARED.clear()
            index = pyhudi.open_index(path / "t", engine=engine)
            spent["cold"].append(_timed(index, arguments))
        for arguments in batches(count, size, times, 2):
            spent["warm"].append(_timed(index, arguments))
        for arguments in batches(count, size, times, 3) if rocks is not None else ():
            keys = sorted(arguments.cast(pa.binary()).to_pylist())
            began = time.perf_counter()
            rocks.get(keys)
            spent["rocksdict"].append(time.perf_counter() - began)
        shown = ", ".join(
            f"{name} {statistics.median(found) * 1000:,.1f} ms (least {min(found) * 1000:,.1f})"
            for name, found in spent.items()
            if found
        )
        print(f"{size:>9,} keys of {count:,}: {shown}", flush=True)
    for size in (n for n in (10, 10_000, 1_000_000) if n <= count):
        print(f"{size:>9,} keys: peak of a process {_peak_of(path, count, size)} MiB", flush=True)


def _timed(index: pyhudi.OpenIndex, arguments: pa.Array) -> float:
    began = time.perf_counter()
    found = index.locations(arguments).column("found")
    spent = time.perf_counter() - began
    assert pc.all(found).as_py()
    return spent


def _peak_of(path: Path, count: int, size: int) -> int:
    """Resident MiB at most of a process that looks five batches up."""
    words = ["--path", str(path), "--keys", str(count), "--peak-of", str(size)]
    command = [sys.executable, "-m", "bench.large_index", *words]
    return int(subprocess.run(command, check=True, capture_output=True, text=True).stdout)


def verify(path: Path, sample: int | None, engine: Engine) -> bool:
    check = pyhudi.open_table(path / "t", engine=engine).index.verify(sample)
    print(f"verified {check.to_dict()}, peak {peak_mib()} MiB")
    return check.is_exact


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--path", type=Path)
    parser.add_argument("--keys", type=int, default=80_000_000)
    steps = ("table", "index", "rocks", "lookups", "verify")
    parser.add_argument("--steps", nargs="+", default=steps, choices=steps)
    parser.add_argument("--sample", type=int)
    parser.add_argument("--peak-of", type=int, help="only look batches of this size up")
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    count = 20_000 if arguments.smoke else arguments.keys
    if arguments.peak_of:
        for keys in batches(count, arguments.peak_of, 5, 4):
            pyhudi.open_index(arguments.path / "t").locations(keys)
        print(peak_mib())
        return 0
    is_exact, engine = True, engine_of(arguments.spark)
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.path or Path(folder)
        for step in arguments.steps:
            match step:
                case "table":
                    make_table(path, count)
                case "index":
                    make_index(path, count, engine)
                case "rocks":
                    make_rocks(path, count)
                case "lookups":
                    look_ups(path, count, engine)
                case "verify":
                    is_exact = verify(path, arguments.sample, engine)
            print(f"({step}; load {os.getloadavg()[0]:.1f})", flush=True)
    return 0 if is_exact else 3


if __name__ == "__main__":
    sys.exit(main())

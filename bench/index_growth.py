"""What is best when the record index outgrows its buckets: the RFC's two options, or other ways.

    python -m bench.index_growth [--smoke] [--buckets 10] [--entries 50000] [--cpu]
    python -m bench.index_growth --buckets 1 --entries 1000000

A table whose index is planned for so many buckets and entries is filled to 1, 2 and 5 times that,
in commits of a fifth of it, four ways:

    seal      index="elastic", SEAL: a full bucket gets another file group
    groups    index="elastic", GROUPS: a full index gets another group of buckets
    overfull  index="record": the buckets there are hold more
    rebucket   index="record", built anew with as many buckets as it takes

At each size (wall time; --cpu: CPU time of all threads, for a machine that has other work): 10,000
keys looked up, half of them in the table, cold (opened files forgotten, page cache warm) and warm;
files that were opened for it; an upsert of 10,000 new keys, tag and all; commits on the way,
growing and all; skew, the fullest bucket against the mean of its group.
"""

from __future__ import annotations

import argparse
import gc
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

import pyhudi
from bench.results import state
from pyhudi._native.hfile.block_cache import SHARED
from pyhudi.metadata import hfile_slices

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
WAYS = ("seal", "groups", "overfull", "rebucket")
SIZES = (1, 2, 5)
KEYS = 10_000


def keys_of(numbers: Any) -> pa.Array:
    """Keys of 36 characters as UUIDs have them, random to look at, another for each number."""
    spread = np.asarray(numbers, np.uint64) * np.uint64(0x9E3779B97F4A7C15)
    both = np.stack([spread, spread ^ np.uint64(0xF39CC0605CEDC835)], axis=1).byteswap()
    digits = np.frombuffer(both.tobytes().hex().encode(), np.uint8).reshape(-1, 32)
    texts = np.full((len(digits), 36), ord("-"), np.uint8)
    for begin, end, place in ((0, 8, 0), (8, 12, 9), (12, 16, 14), (16, 20, 19), (20, 32, 24)):
        texts[:, place : place + end - begin] = digits[:, begin:end]
    offsets = np.arange(len(texts) + 1, dtype=np.int32) * 36
    return pa.StringArray.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(texts))


def rows(start: int, stop: int) -> pa.Table:
    numbers = np.arange(start, stop)
    names = pa.array([f"p{n}" for n in range(4)])
    columns = [keys_of(numbers), names.take(pa.array(numbers % 4)), pa.array(numbers)]
    return pa.Table.from_arrays(columns, schema=SCHEMA)


@dataclass(frozen=True, slots=True)
class Row:
    """One way at one size."""

    times: int
    way: str
    buckets: int
    file_groups: int
    files: int
    opened: int
    cold_ms: float
    warm_ms: float
    upsert_ms: float
    grow_s: float
    skew: float
    megabytes: float


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--smoke", action="store_true")
    parser.add_argument("--cpu", action="store_true")
    parser.add_argument("--buckets", type=int, default=10)
    parser.add_argument("--entries", type=int, default=50_000)
    arguments = parser.parse_args()
    gc.collect()
    gc.freeze()  # each measurement collects garbage before, which shall pass over modules
    buckets, entries, queried = arguments.buckets, arguments.entries, KEYS
    if arguments.smoke:
        buckets, entries, queried = 2, 500, 2000
    print(f"{buckets} buckets planned for {entries:,} entries each; {queried:,} keys queried")
    print(
        "| size | way | buckets | file groups | files | opened | cold ms | warm ms | "
        "upsert ms | filling s | skew | MB |"
    )
    print("|" + "---|" * 12)
    for way in WAYS:
        for row in measured(way, buckets, entries, queried):
            print(
                f"| {row.times}x | {row.way} | {row.buckets} | {row.file_groups} | {row.files} | "
                f"{row.opened} | {row.cold_ms:.0f} | {row.warm_ms:.0f} | {row.upsert_ms:.0f} | "
                f"{row.grow_s:.1f} | {row.skew:.2f} | {row.megabytes:.1f} |",
                flush=True,
            )
            state(
                f"record index grown to {row.times}x of {buckets} x {entries:,} entries, {row.way}",
                f"{queried:,} keys cold {row.cold_ms:.0f} ms, warm {row.warm_ms:.0f} ms, "
                f"upsert {row.upsert_ms:.0f} ms",
            )


def measured(way: str, buckets: int, entries: int, queried: int) -> list[Row]:
    """One table, filled and looked at."""
    planned, found = buckets * entries, []
    with tempfile.TemporaryDirectory() as folder:
        table = created(folder, way, buckets, entries)
        count, spent = 0, 0.0
        for times in SIZES:
            while count < times * planned:
                more = min(planned // 5, times * planned - count)
                batch = rows(count, count + more)
                spent += timed(lambda batch=batch: table.insert(batch)) / 1000
                count += more
            if way == "rebucket" and times > 1:
                spent += timed(lambda: table.index.rebuild(buckets * times)) / 1000  # noqa: B023
            found.append(looked_at(table, way, times, count, queried, spent))
            count += queried  # of the upsert that was measured
    return found


def created(folder: str, way: str, buckets: int, entries: int) -> Any:
    options: dict[str, Any] = {"hoodie.metadata.record.index.min.filegroup.count": buckets}
    kind = "record"
    if way in ("seal", "groups"):
        kind = "elastic"
        options["pyhudi.index.elastic.growth"] = way
        options["pyhudi.index.elastic.bucket.entries"] = entries
    return pyhudi.create_table(
        f"{folder}/t", SCHEMA, record_key="id", partition_by="part", index=kind, options=options
    )


def looked_at(table: Any, way: str, times: int, count: int, queried: int, spent: float) -> Row:
    random = np.random.default_rng(times)
    arguments = [keys_of(random.integers(0, 2 * count, queried)) for _ in range(5)]
    stats = table.index.stats()
    cold = [timed(lambda keys=keys: looked_up_cold(table, keys)) for keys in arguments[:3]]
    warm = [timed(lambda keys=keys: table.index.lookup(keys)) for keys in arguments]
    opened = len(set(table.index.explain(arguments[0])["file"].to_pylist()))
    fresh = rows(count, count + queried)
    upsert = timed(lambda: table.upsert(fresh))
    return Row(
        times,
        way,
        stats.bucket_count,
        stats.file_groups,
        stats.files,
        opened,
        statistics.median(cold),
        statistics.median(warm),
        upsert,
        spent,
        stats.skew,
        stats.bytes / 1e6,
    )


def looked_up_cold(table: Any, keys: pa.Array) -> None:
    forget_opened()
    table.index.lookup(keys)


def forget_opened() -> None:
    """Close the files of indexes that this process has open, and drop their decoded blocks."""
    hfile_slices._OPENED.clear()
    SHARED.clear()


def timed(act: Callable[[], object]) -> float:
    """Milliseconds."""
    clock = time.process_time if "--cpu" in sys.argv else time.perf_counter
    gc.collect()
    began = clock()
    act()
    return (clock() - began) * 1000


if __name__ == "__main__":
    main()

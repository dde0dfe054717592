"""What does the table layer add to look-ups in bare HFiles?

    python -m bench.table_lookup [--rows 1000000] [--buckets 1 10] [--smoke]

`table.lookup` (record index, state of the table included) beside the native HFile reader on the
same files and keys, by turns, other keys in each turn; CPU time of all threads, so that other work
on the machine matters little, and wall time.

  bare    the reader of each file is given its keys, which were sorted by file before: value bytes
  routed  the same from keys in any order: hashed, sorted by file, values put back in their order
  table   table.lookup: partition, file id and instant as columns of text

  cold    files are opened for the batch, nothing is decoded (page cache warm)
  warm    readers have seen several batches of that size

Loss is what the table takes more than bare; target 20 %.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

import pyhudi
from bench.index_growth import SCHEMA, forget_opened, keys_of, rows
from bench.results import state
from pyhudi import HFileReader
from pyhudi._native.hashing import bucket_of

COUNTS = (10, 1_000, 10_000, 100_000, 1_000_000)
CACHE_BYTES = 256 << 20
TARGET = 0.20
SEED = 20_261_122
BATCH = 500_000
INDEX = ".hoodie/metadata/record_index"


class Bare:
    """The base files of a record index, in the order of its file groups, as bare HFiles."""

    def __init__(self, table: Path) -> None:
        self._paths = sorted((table / INDEX).glob("*.hfile"))
        self.open()

    def open(self) -> None:
        self.readers = [HFileReader(path, cache_bytes=CACHE_BYTES) for path in self._paths]

    def split(self, keys: pa.Array) -> list[tuple[int, pa.Array, np.ndarray[Any, Any]]]:
        """(file, its keys, their positions)."""
        homes = bucket_of(keys, len(self.readers))
        order = np.argsort(homes.astype(np.uint16), kind="stable")
        ends = np.searchsorted(homes[order], np.arange(len(self.readers) + 1))
        parts = [order[ends[n] : ends[n + 1]] for n in range(len(self.readers))]
        return [(n, keys.take(pa.array(at)), at) for n, at in enumerate(parts) if len(at)]

    def get(self, parts: list[tuple[int, pa.Array, Any]]) -> list[pa.Array]:
        return [self.readers[number].get_many(keys) for number, keys, _ in parts]

    def routed(self, keys: pa.Array) -> pa.Array:
        parts = self.split(keys)
        back = np.argsort(np.concatenate([at for _, _, at in parts]))
        return pa.concat_arrays(self.get(parts)).take(pa.array(back))


def built(path: Path, count: int, buckets: int) -> None:
    """A table whose record index has one base file a bucket and no logs."""
    table = pyhudi.create_table(path, SCHEMA, record_key="id", partition_by="part", index="bloom")
    parts = [rows(low, min(count, low + BATCH)) for low in range(0, count, BATCH)]
    table.bulk_insert(pa.concat_tables(parts))
    table.index.rebuild(buckets)


Times = tuple[float, float]  # CPU and wall seconds


def timed(act: Callable[[Any], object], given: Any) -> Times:
    cpu, wall = time.process_time(), time.perf_counter()
    act(given)
    return time.process_time() - cpu, time.perf_counter() - wall


def compared(path: Path, count: int, rows_there: int, cold: bool) -> dict[str, Times]:
    """Medians of each way; the ways take turns."""
    table = pyhudi.open_table(path, options={"hoodie.index.type": "RECORD_INDEX"})
    bare = Bare(path)
    rng = np.random.default_rng(SEED)
    turns = 15 if count <= 10_000 else 5 if count <= 100_000 else 3
    found: dict[str, list[Times]] = {"bare": [], "routed": [], "table": []}
    warming = 0 if cold else 4
    for turn in range(turns + warming):
        keys = keys_of(rng.integers(0, rows_there, count))
        parts = bare.split(keys)
        ways: dict[str, tuple[Callable[[Any], Any], Any]] = {
            "bare": (bare.get, parts),
            "routed": (bare.routed, keys),
            "table": (table.lookup, keys),
        }
        for name, (act, given) in ways.items():
            if cold:
                forget_opened()
                act = reopened(bare, act) if name != "table" else act
            spent = timed(act, given)
            if turn >= warming:
                found[name].append(spent)
        assert table.lookup(keys).column("found").combine_chunks().false_count == 0
    return {
        name: (statistics.median(t[0] for t in times), statistics.median(t[1] for t in times))
        for name, times in found.items()
    }


def reopened(bare: Bare, act: Callable[[Any], Any]) -> Callable[[Any], Any]:
    def work(given: Any) -> Any:
        bare.open()
        return act(given)

    return work


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--buckets", type=int, nargs="+", default=[1, 10])
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    count = 20_000 if arguments.smoke else arguments.rows
    print(f"{count:,} rows; CPU ms (wall ms); loss of CPU time against bare, target {TARGET:.0%}")
    print("| buckets | state | keys | bare | routed | table | loss | loss against routed |")
    print("|" + "---|" * 8)
    for buckets in arguments.buckets:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "t")
            built(path, count, buckets)
            for cold in (True, False):
                for size in (n for n in COUNTS if n <= count):
                    found = compared(path, size, count, cold)
                    print(line(buckets, size, cold, found), flush=True)
                    claim(buckets, size, cold, found)


def claim(buckets: int, size: int, cold: bool, found: dict[str, Times]) -> None:
    ours, bare = found["table"][0], found["bare"][0]
    state(
        f"look-up of {size:,} keys, {'cold' if cold else 'warm'}, {buckets} buckets: "
        f"at most {1 + TARGET:g}x of bare HFiles, CPU",
        f"{ours * 1e3:.2f} ms and {bare * 1e3:.2f} ms",
        f"{ours / bare:.2f}x",
        is_held=ours <= (1 + TARGET) * bare,
    )


def line(buckets: int, size: int, cold: bool, found: dict[str, Times]) -> str:
    cells = [f"{cpu * 1e3:.2f} ({wall * 1e3:.2f})" for cpu, wall in found.values()]
    loss, routed = (found["table"][0] / found[name][0] - 1 for name in ("bare", "routed"))
    missed = " **missed**" if loss > TARGET else ""
    return (
        f"| {buckets} | {'cold' if cold else 'warm'} | {size:,} | {' | '.join(cells)} | "
        f"{loss:+.0%}{missed} | {routed:+.0%} |"
    )


if __name__ == "__main__":
    main()

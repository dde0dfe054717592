"""What does it cost to rewrite a base file, and how large is it?  Peer: pyarrow's own defaults.

    python -m bench.base_file [--rows 650000] [--repeat 5] [--codecs zstd,snappy,lz4]

One file group of a table like that of the upsert checks: five meta columns and nine of the user's.
A rewrite reads the file, drops one row in ten, adds as many, and writes.  The peers are a plain
`write_table` with Snappy (what Delta Lake writes) and with zstd.  Prints the least CPU time of the
repetitions for each step, which other load on the machine disturbs least, the size, and a hash.
"""

from __future__ import annotations

import argparse
import hashlib
import time
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from pyhudi.formats.base_file import read_base, write_base
from pyhudi.storage.memory import MemoryFileSystem

SEED = 20_261_121
INSTANTS = ("20261121093000123", "20261121094500456", "20261121101500789")
FILE_NAME = "a079bdb3-731c-4894-b855-abfcd6921007-0_3-182-253_20261121101500789.parquet"

FEW_VALUED = ("_hoodie_commit_time", "_hoodie_partition_path", "_hoodie_file_name", "part")
NAME = "f.parquet"

Write = Callable[[MemoryFileSystem, pa.Table], None]
Read = Callable[[MemoryFileSystem], pa.Table]


def group(rows: int) -> pa.Table:
    rng = np.random.default_rng(SEED)
    ids = np.arange(rows, dtype=np.uint64) * np.uint64(8) + np.uint64(2)
    mixed = ids * np.uint64(0x9E3779B97F4A7C15)
    keys = pa.array(
        [f"{a:016x}-{b:08d}" for a, b in zip(mixed.tolist(), ids.tolist(), strict=True)]
    )
    commits = pa.array(INSTANTS).take(pa.array(rng.choice(3, rows, p=[0.8, 0.1, 0.1])))
    seqno = pc.binary_join_element_wise(commits, pa.array(np.arange(rows)).cast(pa.string()), "_3_")
    return pa.table(
        {
            "_hoodie_commit_time": commits,
            "_hoodie_commit_seqno": seqno,
            "_hoodie_record_key": keys,
            "_hoodie_partition_path": constant("part=p2", rows),
            "_hoodie_file_name": constant(FILE_NAME, rows),
            "id": keys,
            "ts": rng.integers(0, 3, rows),
            "part": pa.array(["p2"] * rows),
            "a": rng.integers(0, 1 << 40, rows),
            "b": rng.random(rows),
            "c": rng.random(rows),
            "d": rng.integers(0, 1000, rows),
            "s1": pa.array([f"name-{x}" for x in rng.integers(0, 100_000, rows).tolist()]),
            "s2": pa.array(
                [f"some longer text value {x}" for x in rng.integers(0, 1 << 30, rows).tolist()]
            ),
        }
    )


def constant(value: str, rows: int) -> pa.DictionaryArray:
    return pa.DictionaryArray.from_arrays(pa.array(np.zeros(rows, np.int32)), [value])


def rewritten(stored: pa.Table, keep: pa.Array) -> pa.Table:
    """A tenth of the rows replaced, file names set anew."""
    fresh = stored.filter(pc.invert(keep))
    rows = pa.concat_tables([stored.filter(keep), fresh])
    at = rows.schema.get_field_index("_hoodie_file_name")
    return rows.set_column(at, "_hoodie_file_name", constant(FILE_NAME, rows.num_rows))


def ours(codec: str) -> Write:
    def write(fs: MemoryFileSystem, rows: pa.Table) -> None:
        with fs.open_sink(NAME) as sink:
            write_base(sink, rows, avro_schema="{}", bloom=None, compression=codec)

    return write


def plain(codec: str) -> Write:
    def write(fs: MemoryFileSystem, rows: pa.Table) -> None:
        with fs.open_sink(NAME) as sink:
            pq.write_table(rows, pa.PythonFile(sink, "w"), compression=codec, store_schema=False)

    return write


def read_plain(fs: MemoryFileSystem) -> pa.Table:
    return pq.ParquetFile(fs.arrow_file(NAME)).read()


def read_strings(fs: MemoryFileSystem) -> pa.Table:
    return read_base(fs, NAME)


def read_dictionaries(fs: MemoryFileSystem) -> pa.Table:
    return read_base(fs, NAME, dictionaries=FEW_VALUED)


def measure(name: str, first: pa.Table, write: Write, read: Read, repeat: int) -> None:
    keep = pa.array(np.random.default_rng(SEED).random(first.num_rows) < 0.9)
    spent: dict[str, list[float]] = {"read": [], "merge": [], "write": []}
    fs = MemoryFileSystem()
    write(fs, first)
    for _ in range(repeat):
        began = time.process_time()
        stored = read(fs)
        spent["read"].append(time.process_time() - began)
        began = time.process_time()
        rows = rewritten(stored, keep)
        spent["merge"].append(time.process_time() - began)
        fs = MemoryFileSystem()
        began = time.process_time()
        write(fs, rows)
        spent["write"].append(time.process_time() - began)
        del rows
    best = {step: min(values) * 1000 for step, values in spent.items()}
    print(
        f"{name:34} read {best['read']:6.0f}  merge {best['merge']:6.0f}"
        f"  write {best['write']:6.0f}  all {sum(best.values()):6.0f} ms"
        f"  {fs.size(NAME) / 1e6:6.1f} MB  {digest(stored)}",
        flush=True,
    )


def digest(rows: pa.Table) -> str:
    keys = rows.column("_hoodie_commit_seqno").combine_chunks()
    return hashlib.sha256(keys.buffers()[2] or b"").hexdigest()[:12]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=650_000)
    parser.add_argument("--repeat", type=int, default=5)
    parser.add_argument("--codecs", default="zstd,snappy,lz4")
    options = parser.parse_args()
    rows = group(options.rows)
    for codec in ("snappy", "zstd"):
        measure(f"pyarrow defaults, {codec}", rows, plain(codec), read_plain, options.repeat)
    for codec in options.codecs.split(","):
        measure(f"chosen encodings, {codec}", rows, ours(codec), read_strings, options.repeat)
        name = f"chosen encodings, {codec}, dictionaries"
        measure(name, rows, ours(codec), read_dictionaries, options.repeat)


if __name__ == "__main__":
    main()

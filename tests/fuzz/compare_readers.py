"""Compare how pyhudi and hudi-rs read tables in which bits of a file were flipped.

    python -m tests.fuzz.compare_readers [--seed 0] [--count 60]

The table is merge-on-read with base files and logs, read with its metadata table.  Prints a row a
kind of file: reads that gave the same rows, an error, other rows without one, or a panic.
"""

from __future__ import annotations

import argparse
import random
import shutil
import sys
import tempfile
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pyarrow as pa

import pyhudi

SCHEMA = pa.schema([("id", pa.string()), ("n", pa.int64()), ("text", pa.string())])
KINDS = {
    "base file": "*.parquet",
    "log": ".*.log.*",
    "commit": ".hoodie/*.deltacommit",
    "hoodie.properties": ".hoodie/hoodie.properties",
    "metadata: files, base": ".hoodie/metadata/files/*.hfile",
    "metadata: files, logs": ".hoodie/metadata/files/.*.log.*",
}
Rows = set[tuple[object, ...]]


def rows(count: int, number: int) -> pa.Table:
    texts = [f"text {i} of {number}" * 3 for i in range(count)]
    return pa.table([[f"k{i}" for i in range(count)], [number] * count, texts], SCHEMA)


def by_pyhudi(path: Path) -> Rows:
    found = pyhudi.open_table(path).scan(SCHEMA.names).to_arrow()
    return {tuple(row.values()) for row in found.to_pylist()}


def by_hudi_rs(path: Path) -> Rows:
    from hudi import HudiTableBuilder

    found = pa.Table.from_batches(HudiTableBuilder.from_base_uri(str(path)).build().read())
    return {tuple(row.values()) for row in found.select(SCHEMA.names).to_pylist()}


def outcome(read: Callable[[Path], Rows], path: Path, want: Rows) -> str:
    try:
        return "same" if read(path) == want else "silent"
    except Exception:  # whatever it is, it is said
        return "error"
    except BaseException as panic:  # a panic of Rust is no Exception
        if isinstance(panic, (KeyboardInterrupt, SystemExit)):
            raise
        return "panic"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=60)
    arguments = parser.parse_args()
    rnd = random.Random(arguments.seed)
    with tempfile.TemporaryDirectory(prefix="pyhudi-flips-") as folder:
        path = Path(folder) / "t"
        table = pyhudi.create_table(
            path, SCHEMA, record_key="id", table_type="mor",
            options={"hoodie.logfile.data.block.format": "avro"},
        )  # fmt: skip
        table.bulk_insert(rows(200, 1))
        table.upsert(rows(80, 2))
        table.delete(keys=["k1", "k2"])
        readers = {"pyhudi": by_pyhudi, "hudi-rs": by_hudi_rs}
        want = by_pyhudi(path)
        print("| flipped bits in | reader | same rows | error | other rows | panic |")
        for kind, pattern in KINDS.items():
            files = sorted(path.glob(pattern))
            found = {name: Counter[str]() for name in readers}
            for number in range(arguments.count):
                hurt = Path(folder) / f"hurt-{kind.replace('/', '-')}-{number}"
                shutil.copytree(path, hurt)
                file = hurt / rnd.choice(files).relative_to(path)
                data = bytearray(file.read_bytes())
                data[rnd.randrange(len(data))] ^= 1 << rnd.randrange(8)
                file.write_bytes(data)
                for name, read in readers.items():
                    found[name][outcome(read, hurt, want)] += 1
                shutil.rmtree(hurt)
            for name, reported in found.items():
                cells = " | ".join(str(reported[c]) for c in ("same", "error", "silent", "panic"))
                print(f"| {kind} | {name} | {cells} |", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())

"""Keys looked up through a table's record index: 10 buckets, 1 M rows, no Spark, no JVM.

    python -m bench.record_index [--smoke]

Targets: 10,000 keys in 40 ms warm, 1 key in 5 ms.  Peer in the same run: a scan of the key column
with pyarrow and `index_in`, which is what a table without an index has to do.
"""

from __future__ import annotations

import statistics
import sys
import tempfile
import time
import uuid
from collections.abc import Callable

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi

SEED = 20_261_121


def median_ms(act: Callable[[], object], times: int = 9) -> float:
    spent = []
    for _ in range(times):
        began = time.perf_counter()
        act()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent) * 1000


def run(rows: int) -> None:
    rng = np.random.default_rng(SEED)
    raw = rng.integers(0, 1 << 63, (rows, 2), dtype=np.int64)
    keys = [str(uuid.UUID(int=(int(a) << 64 | int(b)))) for a, b in raw]
    table = pa.table({"id": keys, "part": [f"p{i % 8}" for i in range(rows)]})
    with tempfile.TemporaryDirectory() as folder:
        made = pyhudi.create_table(
            f"{folder}/t", table.schema, record_key="id", partition_by="part"
        )
        made.bulk_insert(table)
        for count in (1, 10, 1_000, min(10_000, rows), min(100_000, rows)):
            asked = iter([pa.array(rng.choice(keys, count).tolist()) for _ in range(12)])
            opened = pyhudi.open_table(f"{folder}/t")
            began = time.perf_counter()
            assert pc.all(opened.lookup(next(asked))["found"]).as_py()
            cold = (time.perf_counter() - began) * 1000
            opened.lookup(next(asked))
            warm = median_ms(lambda o=opened, a=asked: o.lookup(next(a)))
            print(f"lookup of {count:>7,} keys: first {cold:8.2f} ms, warm {warm:8.2f} ms")
        wanted = pa.array(rng.choice(keys, min(10_000, rows)).tolist())
        opened = pyhudi.open_table(f"{folder}/t")

        def scan() -> object:
            column = opened.scan(["_hoodie_record_key"]).to_arrow().column(0)
            return pc.index_in(wanted, column)

        print(f"peer, scan of the key column: {median_ms(scan, 3):.1f} ms")


if __name__ == "__main__":
    run(20_000 if "--smoke" in sys.argv[1:] else 1_000_000)

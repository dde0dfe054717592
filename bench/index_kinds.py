"""The same batches by every kind of index: what tagging costs, what a write costs, what is kept.

    python -m bench.index_kinds [--smoke] [--rows N] [--batch N] [--kinds a,b] [--hbase HOST:PORT]

A table of N rows, then upserts of batches with random keys, a tenth of them new.  HBase joins in
where its Thrift gateway is named (`python -m tests.support.hbase` starts one).  Median of three
batches, warm; the result is the same for all.  Look-ups of 10,000 keys for kinds that keep
entries.
"""

from __future__ import annotations

import argparse
import os
import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi
from bench.local_upsert import rows_of
from pyhudi.options import IndexKind

KINDS = "record,rocksdb,simple,global_simple,bloom,global_bloom"


def batches(rows: int, size: int) -> list[pa.Table]:
    """Random keys of the table, and as many new ones as a tenth of the batch."""
    random, new = np.random.default_rng(1), size // 10
    return [
        rows_of(
            np.concatenate(
                [
                    random.choice(rows, size - new, replace=False),
                    np.arange(rows + turn * new, rows + (turn + 1) * new),
                ]
            ),
            turn,
            turn,
        )
        for turn in range(1, 4)
    ]


def hbase_table(gateway: str) -> dict[str, Any]:
    """Options that lead to a new table of an HBase."""
    import happybase

    host, _, port = gateway.partition(":")
    name = f"bench_{os.getpid()}"
    connection = happybase.Connection(host, int(port), timeout=60_000)
    connection.create_table(name, {"_s": {}})
    connection.close()
    return {
        "pyhudi.index.hbase.gateway": gateway, "hoodie.index.hbase.table": name,
        "hoodie.index.hbase.get.batch.size": 1_000, "hoodie.index.hbase.put.batch.size": 1_000,
    }  # fmt: skip


def run(rows: int, size: int, kind: str, options: dict[str, Any]) -> None:
    base = rows_of(np.arange(rows), 0, 0)
    with tempfile.TemporaryDirectory() as folder:
        options = {**options, "pyhudi.index.rocksdb.folder": f"{folder}/stores"}
        table = pyhudi.create_table(
            f"{folder}/t",
            base.schema,
            record_key="id",
            partition_by="part",
            ordering="ts",
            index=kind,
            options=options,
        )
        began = time.perf_counter()
        table.bulk_insert(base)
        loaded = time.perf_counter() - began
        spent, tagging = [], []
        for batch in batches(rows, size):
            began = time.perf_counter()
            report = table.upsert(batch)
            spent.append(time.perf_counter() - began)
            tagging.append(report.seconds["tag"])
        figures = ""
        if IndexKind(kind).stores_entries:
            keys = base["id"].take(pa.array(np.random.default_rng(2).integers(0, rows, 10_000)))
            figures = f", look-up of 10,000 keys {median_ms(table, keys):.0f} ms"
        stored = sum(f.stat().st_size for f in Path(folder, "t/.hoodie").rglob("*.sst"))
        if stored:
            figures += f", {stored / 1e6:.1f} MB of checkpoints"
        found = table.scan(columns=["a", "ts"]).to_arrow()
        print(
            f"{kind}: load {loaded:.2f} s, upsert {statistics.median(spent):.2f} s, of it tagging "
            f"{statistics.median(tagging):.2f} s{figures}; "
            f"result {found.num_rows}/{pc.sum(found['ts'])}",
            flush=True,
        )


def median_ms(table: pyhudi.Table, keys: pa.ChunkedArray) -> float:
    spent = []
    for _ in range(5):
        began = time.perf_counter()
        assert pc.all(table.lookup(keys)["found"]).as_py()
        spent.append(time.perf_counter() - began)
    return statistics.median(spent) * 1000


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=1_000_000)
    parser.add_argument("--batch", type=int, default=10_000)
    parser.add_argument("--kinds", default=KINDS)
    parser.add_argument("--hbase", metavar="HOST:PORT")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    count, some = (20_000, 2_000) if given.smoke else (given.rows, given.batch)
    for each in given.kinds.split(","):
        run(count, some, each, {})
    if given.hbase:
        run(count, some, "hbase", hbase_table(given.hbase))

"""Upsert on one machine by each index, on the same rows, in one run.

    python -m bench.bloom_upsert [--rows 5000000] [--batch 500000] [--kinds bloom,simple] [--smoke]

The rows of bench.local_upsert: keys in random order, so every file's key range holds every key and
the blooms decide; three batches of 90 % updates.  Prints the seconds of each phase, median of the
batches; `tag` is the look-up.  With --sorted keys rise with their numbers, and ranges decide.
"""

from __future__ import annotations

import argparse
import statistics
import tempfile
import time

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi
from bench.local_upsert import batches, rows_of


def rising(table: pa.Table) -> pa.Table:
    """The same rows with keys that rise with their numbers."""
    ids = pc.utf8_slice_codeunits(table["id"], 17)
    return table.set_column(0, "id", ids)


def run(rows: int, size: int, kinds: list[str], *, in_order: bool) -> None:
    base, updates = rows_of(np.arange(rows), 0, 0), batches(rows, size)
    if in_order:
        base, updates = rising(base), [rising(batch) for batch in updates]
    for kind in kinds:
        with tempfile.TemporaryDirectory() as folder:
            options = {"hoodie.bucket.index.num.buckets": 4}
            table = pyhudi.create_table(
                f"{folder}/t",
                base.schema,
                record_key="id",
                partition_by="part",
                ordering="ts",
                index=kind,
                options=options,
            )
            table.bulk_insert(base)
            spent, phases = [], {}
            for batch in updates:
                began = time.perf_counter()
                report = table.upsert(batch)
                spent.append(time.perf_counter() - began)
                for name, seconds in report.seconds.items():
                    phases.setdefault(name, []).append(seconds)
            shown = ", ".join(f"{n} {statistics.median(t):.2f}" for n, t in phases.items())
            found = table.scan(columns=["a", "ts"]).to_arrow()
            print(
                f"{kind} upsert {statistics.median(spent):.2f} s ({shown}); "
                f"result {found.num_rows}/{pc.sum(found['a'])}/{pc.sum(found['ts'])}",
                flush=True,
            )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=500_000)
    parser.add_argument("--kinds", default="bloom,global_bloom,simple,bucket,record")
    parser.add_argument("--sorted", action="store_true", dest="in_order")
    parser.add_argument("--smoke", action="store_true")
    given = parser.parse_args()
    count, some = (20_000, 2_000) if given.smoke else (given.rows, given.batch)
    run(count, some, given.kinds.split(","), in_order=given.in_order)

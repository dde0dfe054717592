"""One row into a table of 10 M: what an upsert costs that hardly writes anything.

    python -m bench.empty_touch [--rows 10000000] [--path DIR] [--spark] [--repeat 9] [--smoke]

The rows of bench.stream_load in a merge-on-read table with a record index, bulk-inserted by this
process (a table that is at --path already is taken as it is, and written to).  Then one row of it
is updated, again and again, so that each upsert writes one small log.  Prints the seconds of the
first upsert, the median and the greatest of the others, and the phases of the last report.
Targets: half a second on one machine, one and a half on Spark.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi
from bench.point_query import build, key_of, session
from bench.stream_load import SCHEMA, stream

TARGET_SECONDS = {"one machine": 0.5, "Spark": 1.5}


def touches(path: Path, spark: Any) -> Callable[[int, int], Callable[[], Any]]:
    """An upsert, to be called, of the row of a number, as it is but for its `ts`."""
    stored = {int(row["ts"]): row for row in next(iter(stream(1000, [0]))).to_pylist()}
    if spark is None:
        table = pyhudi.open_table(path)

        def touch(number: int, ts: int) -> Callable[[], Any]:
            rows = pa.Table.from_pylist([{**stored[number], "ts": ts}], SCHEMA)
            return lambda: table.upsert(rows)

        return touch
    import pyhudi.spark as hudi

    remote = hudi.open_table(spark, path)
    assert stored[0]["id"] == key_of(0)

    def far_touch(number: int, ts: int) -> Callable[[], Any]:
        rows = spark.createDataFrame([{**stored[number], "ts": ts}]).select(*SCHEMA.names)
        return lambda: remote.upsert(rows)

    return far_touch


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--path", type=Path)
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.path or Path(folder) / "t"
        rows = 20_000 if arguments.smoke else arguments.rows
        build(path, rows, ordering="ts", table_type="mor")
        spark = session() if arguments.spark else None
        touch = touches(path, spark)
        spent, used = [], []
        base = int(time.time())
        for turn in range(arguments.repeat + 1):
            upsert = touch(7, base + turn)
            began, cpu = time.perf_counter(), time.process_time()
            report = upsert()
            spent.append(time.perf_counter() - began)
            used.append(time.process_time() - cpu)
            assert (report.updated, report.file_groups) == (1, 1), report
        where = "Spark" if arguments.spark else "one machine"
        median = statistics.median(spent[1:])
        print(
            f"{where}: first {spent[0]:.3f} s, then median {median:.3f} s "
            f"({statistics.median(used[1:]) * 1000:.0f} ms CPU of this process), "
            f"at most {max(spent[1:]):.3f} s; phases {dict(report.seconds)}",
            flush=True,
        )
        if spark is not None:
            spark.stop()
    return 3 if median > TARGET_SECONDS[where] and not arguments.smoke else 0


if __name__ == "__main__":
    sys.exit(main())

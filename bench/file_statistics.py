"""Statistics of many new files in one commit: all indexes of files, against none.

    python -m bench.file_statistics [--files 2000] [--turns 3] [--only cow,mor] [--spark] [--smoke]

A table with one partition for each file, loaded once; then a commit that writes a base file (cow)
or a log (mor) of 40 rows in each partition.  "none" has no indexes but `files`; "all" has column
and partition statistics, bloom filters, and an expression index of ranges (and one of filters for
cow).  Each runs in a process of its own, in turns; prints the median of the CPU seconds of the
process that commits and the wall seconds.  With --spark the tasks run on a session of `local[2]`:
CPU is then that of the driver's Python alone.  Rows read back with a filter that the statistics
answer must be those of the table without them.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
import tempfile
import time
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi
from bench import machine
from bench.many_partitions import rows_of
from bench.results import state

KINDS = ("cow", "mor")
INDEXES = ("none", "all")
_ROWS_PER_FILE = 40
_LIMIT_SECONDS = 900.0
_PLAIN = {"hoodie.clean.automatic": "false", "hoodie.compact.inline": "false"}


def create(path: str, kind: str, indexes: str, files: int) -> Any:
    """A table with a file in each partition, and its indexes."""
    table = pyhudi.create_table(
        path,
        rows_of(np.arange(1), 1, 0).schema,
        record_key="id",
        partition_by="part",
        ordering="ts",
        table_type="mor" if kind == "mor" else "cow",
        index="bloom",
        options=_PLAIN,
    )
    table.bulk_insert(rows_of(np.arange(files * _ROWS_PER_FILE), files, 0))
    if indexes == "all":
        for name in ("column_stats", "partition_stats", "bloom_filters"):
            table.index.create(name)
        format_ = {"format": "yyyy-MM-dd"}
        table.index.create("expression", "ts", expression="from_unixtime", options=format_)
        if kind == "cow":
            table.index.create("expression", "s1", expression="lower", using="bloom_filters")
    return table


def opened(path: str) -> Any:
    return pyhudi.open_table(path, options={**_PLAIN, "hoodie.index.type": "BLOOM"})


def on_spark(path: str, changes: pa.Table) -> tuple[Any, Any]:
    """The table and the rows in a session that has answered a query of the table."""
    import pyarrow.parquet as pq

    import pyhudi.spark as hudi
    from bench.spark_engine import session

    pq.write_table(changes, f"{path}.parquet")
    spark = session("pyhudi-cow", "")
    options = {**_PLAIN, "hoodie.index.type": "BLOOM"}
    table = hudi.open_table(spark, path, options=options)
    table.scan(["id"]).count()
    return table, spark.read.parquet(f"{path}.parquet")


def run(kind: str, indexes: str, files: int, *, spark: bool) -> None:
    """One commit; prints a line of JSON."""
    changes = rows_of(np.arange(files * _ROWS_PER_FILE), files, 1)
    with tempfile.TemporaryDirectory() as folder:
        path = f"{folder}/table"
        create(path, kind, indexes, files)
        table, rows = on_spark(path, changes) if spark else (opened(path), changes)
        cpu, began = time.process_time(), time.perf_counter()
        report = table.upsert(rows)
        wall, used = time.perf_counter() - began, time.process_time() - cpu
        one = pc.field("a") == changes["a"][7].as_py()
        found = pyhudi.open_table(path).scan(columns=["id"], where=one).to_arrow()
        if found.num_rows != 1 or report.file_groups != files:
            raise SystemExit(f"wrong result: {found.num_rows} rows, {report.file_groups} groups")
        print(json.dumps({"wall": wall, "cpu": used, "phases": report.seconds}), flush=True)


def measure(kinds: list[str], files: int, turns: int, *, spark: bool) -> None:
    found: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for _ in range(turns):
        for kind in kinds:
            for indexes in INDEXES:
                lines: list[str] = []
                program = [sys.executable, "-m", "bench.file_statistics", "--files", str(files)]
                program += ["--run", kind, indexes, *(["--spark"] if spark else [])]
                ended = machine.run(program, on_line=lines.append, limit_seconds=_LIMIT_SECONDS)
                if ended.verdict:
                    raise SystemExit(f"{kind} {indexes} {ended.verdict}: {ended.error}")
                result = next(json.loads(text) for text in lines if text.startswith("{"))
                print(f"{kind}, {indexes}: {result}", flush=True)
                found.setdefault((kind, indexes), []).append(result)
    where = "Spark, CPU of the driver's Python" if spark else "one machine, CPU"
    for kind in kinds:
        plain, full = (
            {
                name: statistics.median(r[name] for r in found[kind, each])
                for name in ("cpu", "wall")
            }
            for each in INDEXES
        )
        added = full["cpu"] - plain["cpu"]
        print(
            f"{kind}: wall {full['wall']:.2f} s with all indexes, {plain['wall']:.2f} s with none"
        )
        state(
            f"{where}: commit of {files:,} new files, {kind}, all indexes of files and none",
            f"{full['cpu']:.2f} s and {plain['cpu']:.2f} s; {1000 * added / files:.2f} ms a file",
            f"{full['cpu'] / plain['cpu']:.2f}x",
        )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--files", type=int, default=2_000)
    parser.add_argument("--smoke", dest="files", action="store_const", const=6)
    parser.add_argument("--turns", type=int, default=1)
    parser.add_argument("--only", default=",".join(KINDS))
    parser.add_argument("--spark", action="store_true")
    parser.add_argument("--run", nargs=2, help=argparse.SUPPRESS)
    given = parser.parse_args()
    if given.run:
        kind, indexes = given.run
        run(kind, indexes, given.files, spark=given.spark)
    else:
        measure(given.only.split(","), given.files, given.turns, spark=given.spark)

"""One row by its key through Spark: seconds of a query in a session that has started.

    python -m bench.point_query [--rows 10000000] [--path DIR] [--repeat 9] [--smoke]

The rows of bench.stream_load in a copy-on-write table with a record index, bulk-inserted by this
process (a table that is at --path already is taken as it is).  A session that has answered one
other question is then asked for keys here and there, each by a DataFrame of its own:

    source     spark.read.format("pyhudi").load(path).where("id = '...'"), filters handed down
    read       hudi.read(spark, path, where=pc.field("id") == ...)
    fetch      hudi.open_table(spark, path).fetch([...])
    absent     as source, of a key that is not there

Prints the seconds of the first query and the median and the greatest of the others, and a hash of
the rows.  Target: one second at 10 M rows.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

import pyhudi
from bench.stream_load import SCHEMA, SEED, stream

TARGET_SECONDS = 1.0


def build(path: Path, rows: int, **made: Any) -> None:
    """The table at a path, unless there is one.  made: what else `create_table` is told."""
    if (path / ".hoodie").exists():
        return
    began = time.perf_counter()
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", name="t", **made
    )
    table.bulk_insert(pa.RecordBatchReader.from_batches(SCHEMA, stream(rows, [0])))
    print(f"{rows} rows bulk-inserted in {time.perf_counter() - began:.1f} s", flush=True)


def key_of(number: int) -> str:
    return f"key-{number}"


def session(*, is_short: bool = False, memory: str = "1g") -> Any:
    """is_short: its JVM ends before its best compiler is worth its time."""
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    root = str(Path(__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join([root, os.environ.get("PYTHONPATH", "")])
    options = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC" if is_short else ""
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.memory", memory)
        .config("spark.driver.extraJavaOptions", options)
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.sql.python.filterPushdown.enabled", "true")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(10).count()
    return spark


def queries(spark: Any, path: Path) -> dict[str, Callable[[str], int]]:
    """Ways to ask for a key: the `ts` of its row, -1 for none."""
    import pyhudi.spark as hudi

    def one(rows: Any) -> int:
        found = [row["ts"] for row in rows]
        return found[0] if found else -1

    def source(key: str) -> int:
        frame = spark.read.format("pyhudi").load(str(path)).where(f"id = '{key}'")
        return one(frame.select("id", "ts", "amount").collect())

    def read(key: str) -> int:
        frame = hudi.read(spark, path, columns=["id", "ts", "amount"], where=pc.field("id") == key)
        return one(frame.collect())

    def fetch(key: str) -> int:
        found = hudi.open_table(spark, path).fetch([key], columns=["id", "ts", "amount"])
        return one(found.collect() if hasattr(found, "collect") else found.to_pylist())

    def absent(key: str) -> int:
        return source(key + "-not-there")

    return {"source": source, "read": read, "fetch": fetch, "absent": absent}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--path", type=Path)
    parser.add_argument("--repeat", type=int, default=9)
    parser.add_argument("--smoke", action="store_true")
    arguments = parser.parse_args()
    rows, repeat = (20_000, 2) if arguments.smoke else (arguments.rows, arguments.repeat)
    slow = 0
    with tempfile.TemporaryDirectory() as folder:
        path = arguments.path or Path(folder) / "t"
        build(path, rows, table_type="cow")
        spark = session(is_short=arguments.smoke)
        numbers = np.random.default_rng(SEED + 1).integers(0, rows, repeat + 1).tolist()
        for name, query in queries(spark, path).items():
            spent, found = [], []
            for number in numbers:
                began = time.perf_counter()
                found.append(query(key_of(number)))
                spent.append(time.perf_counter() - began)
            expected = [-1] * len(numbers) if name == "absent" else numbers
            assert found == expected, (name, found[:3], expected[:3])
            median, most = statistics.median(spent[1:]), max(spent[1:])
            slow += median > TARGET_SECONDS
            digest = hashlib.sha256(repr(found).encode()).hexdigest()[:12]
            print(
                f"{name:8} first {spent[0]:.2f} s, then median {median:.3f} s, at most {most:.3f} s"
                f"  {digest}",
                flush=True,
            )
        spark.stop()
    return 3 if slow and not arguments.smoke else 0


if __name__ == "__main__":
    sys.exit(main())

"""Writes and reads of a Spark session whose Python tasks die and stall.

    python -m tests.spark.failing_session FOLDER MASTER

Creates a copy-on-write and a merge-on-read table in the folder, and prints a line of JSON for each
read: the table, the arguments of the scan, and the rows as sorted texts.  The folder `events`
contains Spark's event log.
"""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

import pyhudi.spark as hudi

SCANS: list[dict[str, Any]] = [
    {},
    {"columns": ["id", "n"], "where": "n > 40"},
    {"where": "part = 'p1'"},
]


def session(master: str, events: Path) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.ui.enabled": "false",
        "spark.driver.memory": "512m",
        "spark.driver.host": "127.0.0.1",
        "spark.executor.memory": "512m",
        "spark.sql.shuffle.partitions": "3",
        "spark.default.parallelism": "3",
        "spark.task.maxFailures": "20",
        "spark.speculation": "true",
        "spark.speculation.interval": "50ms",
        "spark.speculation.multiplier": "1.01",
        "spark.speculation.quantile": "0.2",
        "spark.speculation.minTaskRuntime": "10ms",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.compress": "false",
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
        "spark.python.daemon.module": "tests.spark.failing_daemon",
        "spark.pyhudi.read.logs.minBytes": "0",
    }
    builder = SparkSession.builder.master(master)
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("OFF")
    return spark


def written(spark: Any, path: Path, kind: str) -> None:
    """A load, an upsert of half of the rows with new ones, and deletes."""
    rows = spark.range(60).selectExpr(
        "concat('k', id) id", "concat('p', id % 3) part", "cast(id as int) n", "1L ts"
    )
    table = hudi.create_table(
        spark, path, rows.schema, record_key="id", partition_by="part", ordering="ts",
        table_type=kind,
    )  # fmt: skip
    table.bulk_insert(rows)
    changed = spark.range(30, 70).selectExpr(
        "concat('k', id) id", "concat('p', id % 3) part", "cast(id + 100 as int) n", "2L ts"
    )
    table.upsert(changed)
    table.delete(keys=rows.where("n % 10 = 0").select("id"))


def main(folder: str, master: str, *kinds: str) -> None:
    events = Path(folder) / "events"
    events.mkdir()
    spark = session(master, events)
    for kind in kinds:
        path = Path(folder) / kind
        written(spark, path, kind)
        table = hudi.open_table(spark, path)
        for scan in SCANS:
            report(kind, "scan", scan, table.scan(with_meta=False, **scan))
        since = table.timeline.commits.instants[0].time
        report(kind, "changes", {}, table.changes(since, with_meta=False))
    spark.stop()


def report(kind: str, method: str, scan: dict[str, Any], frame: Any) -> None:
    rows = sorted(repr(tuple(row)) for row in frame.collect())
    print("READ", json.dumps([kind, method, scan, rows]), flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])

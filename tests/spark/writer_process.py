"""One writer of a table, with a Spark session of its own.

    python -m tests.spark.writer_process TABLE WRITER TURNS

Says `ready` once the session is there, and begins when it is told a line.  Each turn updates the
keys that all writers share, and keys of its own in the same partitions, to a value that no other
turn of any writer has; a line `<instant> <value>` follows each.
"""

from __future__ import annotations

import sys

import pyhudi.spark as hudi

SCHEMA = "id string, n int, part string"
SHARED = tuple(f"shared-{number}" for number in range(4))
OPTIMISTIC = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}


def value(writer: int, turn: int) -> int:
    return 1000 * (writer + 1) + turn


def rows(writer: int, number: int) -> list[tuple[str, int, str]]:
    own = [f"own-{writer}-{n}" for n in range(4)]
    return [(key, number, f"p{n % 2}") for keys in (SHARED, own) for n, key in enumerate(keys)]


def main(path: str, writer: int, turns: int) -> None:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[1]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    print("ready", flush=True)
    sys.stdin.readline()
    for turn in range(turns):
        frame = spark.createDataFrame(rows(writer, value(writer, turn)), SCHEMA)
        done = hudi.open_table(spark, path, options=OPTIMISTIC).upsert(frame)
        print(done.instant, value(writer, turn), flush=True)
    spark.stop()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))

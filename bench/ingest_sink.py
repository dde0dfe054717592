"""The same topic written by Spark Structured Streaming with Apache Hudi's sink; for bench.ingest.

    python -m bench.ingest sink --servers 127.0.0.1:9092 [--rows 2000000]

Runs in an environment with PySpark 3.5 (`tests/interop/apache_hudi`), Apache Hudi's bundle and the
Kafka connector of Spark, which Maven fetches into the cache of that environment.  Prints a line of
JSON: seconds from the start of the query until it has ended, without the start of the session.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path

HUDI = "1.2.0"
JARS = (
    "org.apache.spark:spark-sql-kafka-0-10_2.12:3.5.0",
    "org.apache.spark:spark-token-provider-kafka-0-10_2.12:3.5.0",
    "org.apache.kafka:kafka-clients:3.4.1",
    "org.apache.commons:commons-pool2:2.11.1",
)
"""The connector for PySpark 3.5, and what it needs."""
COLUMNS = "id string, ts long, city string, rider string, fare double, note string"
TABLE = {
    "hoodie.table.name": "events",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
    "hoodie.datasource.write.operation": "upsert",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.partitionpath.field": "",
    "hoodie.datasource.write.keygenerator.class": (
        "org.apache.hudi.keygen.NonpartitionedKeyGenerator"
    ),
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.record.index.enable": "true",
    "hoodie.metadata.enable": "true",
    "hoodie.write.table.version": "6",
    "hoodie.write.auto.upgrade": "false",
    "hoodie.datasource.compaction.async.enable": "false",
    "hoodie.compact.inline": "false",
    "hoodie.upsert.shuffle.parallelism": "4",
}


def sink(servers: str, topic: str, rows: int, batch: int, folder: str, jars: str) -> None:
    """Write the topic to a new table below the folder; prints the result."""
    import pyspark
    from pyspark.sql.functions import col, from_json

    spark = (
        pyspark.sql.SparkSession.builder.master("local[2]")
        .config("spark.jars", jars)
        .config("spark.driver.memory", os.environ.get("HUDI_ORACLE_MEMORY", "3g"))
        .config("spark.serializer", "org.apache.spark.serializer.KryoSerializer")
        .config("spark.sql.extensions", "org.apache.spark.sql.hudi.HoodieSparkSessionExtension")
        .config("spark.sql.shuffle.partitions", "4")
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    spark.range(1000).count()  # the session has started
    began = time.perf_counter()
    messages = (
        spark.readStream.format("kafka")
        .option("kafka.bootstrap.servers", servers)
        .option("subscribe", topic)
        .option("startingOffsets", "earliest")
        .option("maxOffsetsPerTrigger", batch)
        .load()
    )
    parsed = messages.select(from_json(col("value").cast("string"), COLUMNS).alias("r")).select(
        "r.*"
    )
    query = (
        parsed.writeStream.format("hudi")
        .options(**TABLE)
        .option("checkpointLocation", f"{folder}/checkpoint")
        .outputMode("append")
        .trigger(availableNow=True)
        .start(f"{folder}/sink")
    )
    query.awaitTermination()
    seconds = time.perf_counter() - began
    found = spark.read.format("hudi").load(f"{folder}/sink").count()
    batches = len([p for p in query.recentProgress if p["numInputRows"]])
    print(
        json.dumps(
            {"seconds": round(seconds, 2), "rows_per_s": int(rows / seconds), "batches": batches,
             "rows_in_table": found}
        )
    )  # fmt: skip
    spark.stop()


def fetched_jars() -> str:
    """The jars as a list for `spark.jars`."""
    import shutil
    import subprocess
    import tempfile

    from tests.interop.apache_hudi import install

    install.setup(HUDI)
    paths = [install.bundle(HUDI)]
    for artifact in JARS:
        _, name, version = artifact.split(":")
        path = install.cache() / "jars" / f"{name}-{version}.jar"
        if not path.exists():
            with tempfile.TemporaryDirectory(dir=install.cache()) as folder:
                command = ["mvn", "-q", "-B", install.COPY, f"-Dartifact={artifact}"]
                subprocess.run([*command, f"-DoutputDirectory={folder}"], check=True)
                shutil.move(Path(folder) / path.name, path)
        paths.append(path)
    return ",".join(map(str, paths))


if __name__ == "__main__":
    servers, topic, rows, batch, folder, jars = sys.argv[1:]
    sink(servers, topic, int(rows), int(batch), folder, jars)

"""One JVM with one version of Apache Hudi, and the Spark session in it."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from functools import cached_property
from pathlib import Path
from typing import Any

from tests.interop.apache_hudi.install import CommandFailed, bundle, compiled

MEMORY = os.environ.get("HUDI_ORACLE_MEMORY", "3g")

SHORT_LIVED = (
    f"-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms{MEMORY} -XX:NewRatio=1 -XX:MetaspaceSize=256m"
)
"""Half the CPU time of the defaults: small queries end before the optimizing compiler pays.

Hudi allocates 16 MB for each log that it opens.  With a heap that grows from its default size the
collector takes a third of the time of a turn, with the whole heap from the start a thirtieth.
"""

OPENS = "--add-opens=java.base/java.util.concurrent.locks=ALL-UNNAMED"
"""Without it Java 17 cannot serialize the metadata reader of bloom look-ups."""

JVM_OPTIONS = os.environ.get("HUDI_ORACLE_JVM", SHORT_LIVED)

SETTINGS = {
    "spark.master": "local[2]",
    "spark.app.name": "apache-hudi",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.shuffle.partitions": "4",
    "spark.default.parallelism": "4",
    "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
    "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
    "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
    "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    "spark.sql.session.timeZone": "UTC",
    "spark.driver.extraJavaOptions": f"-Duser.timezone=UTC {OPENS} {JVM_OPTIONS}",
    "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
}


def _catalog(metastore: str | None) -> list[tuple[str, str]]:
    """Settings of a session whose tables are those of a Hive Metastore, if one is stated."""
    if metastore is None:
        return []
    return [
        ("spark.sql.catalogImplementation", "hive"),
        ("spark.hadoop.hive.metastore.uris", metastore),
    ]


class Session:
    """The JVM starts at the first command, Spark at the first command that needs it."""

    def __init__(self, version: str) -> None:
        self.version = version
        self.scratch = Path(tempfile.mkdtemp(prefix="apache-hudi-"))

    @property
    def is_0_x(self) -> bool:
        return self.version.startswith("0.")

    @cached_property
    def _settings(self) -> Any:
        from pyspark import SparkConf

        jars = os.pathsep.join(map(str, [bundle(self.version), compiled(self.version)]))
        return SparkConf().setAll(
            [
                *SETTINGS.items(),
                ("spark.driver.memory", MEMORY),
                ("spark.driver.extraClassPath", jars),
                ("spark.sql.warehouse.dir", str(self.scratch / "warehouse")),
                ("spark.local.dir", str(self.scratch / "local")),
                *_catalog(os.environ.get("HUDI_ORACLE_METASTORE")),
            ]
        )

    @cached_property
    def jvm(self) -> Any:
        from pyspark import SparkContext
        from pyspark.java_gateway import launch_gateway

        gateway = launch_gateway(conf=self._settings)
        SparkContext._ensure_initialized(gateway=gateway)
        log4j = gateway.jvm.org.apache.logging.log4j
        log4j.core.config.Configurator.setRootLevel(log4j.Level.ERROR)
        return gateway.jvm

    @cached_property
    def spark(self) -> Any:
        from pyspark.sql import SparkSession

        assert self.jvm
        session = SparkSession.builder.config(conf=self._settings).getOrCreate()
        session.sparkContext.setLogLevel(os.environ.get("HUDI_ORACLE_LOG", "OFF"))
        return session

    def call(self, operation: str, **arguments: Any) -> dict[str, Any]:
        """The answer of one operation of Commands.java."""
        answer = json.loads(self.jvm.interop.Commands.call(operation, json.dumps(arguments)))
        if "error" in answer:
            raise CommandFailed(answer.pop("error"), **answer)
        return answer

    def save(self, rows: Any, out: str) -> int:
        """Write a data frame into one Parquet file; the number of rows."""
        import pyarrow.parquet as pq

        folder = tempfile.mkdtemp(prefix="rows-", dir=self.scratch)
        try:
            rows.coalesce(1).write.mode("overwrite").parquet(folder)
            files = sorted(Path(folder).glob("part-*.parquet"))
            if not files:
                raise CommandFailed("Spark wrote no file")
            shutil.move(files[0], out)
        finally:
            shutil.rmtree(folder, ignore_errors=True)
        return pq.ParquetFile(out).metadata.num_rows

    def close(self) -> None:
        if "spark" in vars(self):
            self.spark.stop()
        shutil.rmtree(self.scratch, ignore_errors=True)

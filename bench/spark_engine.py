"""One engine of bench.spark_upsert in a process of its own: it writes, or reads what was written.

    python -m bench.spark_engine ENGINE write|scan|source|enabled --data DIR --table DIR
        [--store FILE]

write: the bulk load, then the batches.  scan, source and enabled: a new session that has answered
one other query reads the table, so that its first read finds nothing in memory.  scan is
`hudi.open_table` of pyhudi, source is `spark.read.format(...)`, enabled is the same after
`hudi.enable`.  Queries: two columns of all rows (snapshot; again with the columns named in the
scan: columns), all columns, two columns of one row in a hundred (filter), and the rows of the last
commit (incremental).  FILE: JSON with the `storage_options` of a table whose DIR is a URL, and the
`properties` with which the session opens its store.  Prints a line of JSON for each measurement
after the word BENCH; the caller compares the rows of the reads.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from types import MappingProxyType
from typing import Any

from bench.spark_rows import ALL_COLUMNS, FILTER, SNAPSHOT, checks_of

PYHUDI = ("pyhudi-cow", "pyhudi-mor", "pyhudi-cow-jvm", "pyhudi-mor-jvm",
          "pyhudi-cow-bloom", "pyhudi-mor-bloom", "pyhudi-cow-9", "pyhudi-mor-9")  # fmt: skip
PEERS = ("hudi-cow", "hudi-mor", "hudi-cow-bloom", "hudi-mor-bloom", "hudi-cow-9", "hudi-mor-9",
         "delta")  # fmt: skip
READS = 4  # the first is reported beside the median of the others
WAYS = ("write", "scan", "source", "enabled")
CHANGES = ("count(*)", "sum(a)")
SUMS = {"all columns": ALL_COLUMNS, "incremental": CHANGES}
"""What queries return that do not return SNAPSHOT."""


def ways_of(engine: str) -> tuple[str, ...]:
    """The sessions of an engine, in order.  Transformed frames change only how rows are written."""
    return ("write", "source") if engine in PEERS or engine.endswith("jvm") else WAYS


@dataclass(frozen=True)
class Run:
    """What one process works on."""

    engine: str
    spark: Any
    data: Path
    table: str
    batches: int
    storage_options: dict[str, Any] | None = None

    @contextmanager
    def measure(self, what: str, **facts: Any) -> Iterator[dict[str, Any]]:
        began = time.monotonic()
        yield facts
        self.report(what, round(time.monotonic() - began, 3), **facts)

    def report(self, what: str, value: float, **facts: Any) -> None:
        line = {"what": what, "value": value, **facts}
        print("BENCH " + json.dumps(line, default=str), flush=True)

    def frame(self, name: str) -> Any:
        rows = self.spark.read.parquet(str(self.data / f"{name}.parquet"))
        if not self.engine.endswith("jvm"):
            return rows
        return rows.withColumn("d", _expression("d + ts - ts")).where("ts >= 0")


# ---- writing -----------------------------------------------------------------------------------


def write_pyhudi(run: Run) -> None:
    import pyhudi.spark as hudi

    base = run.frame("base")
    kind = run.engine.split("-")[1]
    index = "bloom" if run.engine.endswith("bloom") else "record"
    version = 9 if run.engine.endswith("-9") else 6
    with run.measure("load") as facts:
        table = hudi.create_table(
            run.spark,
            run.table,
            base.schema,
            record_key="id",
            partition_by=["part"],
            ordering="ts",
            table_type=kind,
            name="t",
            index=index,
            version=version,
            storage_options=run.storage_options,
        )
        facts["phases"] = table.bulk_insert(base).seconds
    for number in range(run.batches):
        with run.measure("upsert", number=number) as facts:
            batch = run.frame(f"up{number}")
            table = hudi.open_table(run.spark, run.table, storage_options=run.storage_options)
            report = table.upsert(batch)
            facts |= {"updated": report.updated, "phases": report.seconds}


def write_hudi(run: Run) -> None:
    kind = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[run.engine.split("-")[1]]
    blooms = run.engine.endswith("bloom")
    options = {
        "hoodie.table.name": "t",
        "hoodie.datasource.write.recordkey.field": "id",
        "hoodie.datasource.write.precombine.field": "ts",
        "hoodie.datasource.write.partitionpath.field": "part",
        "hoodie.datasource.write.table.type": kind,
        "hoodie.metadata.enable": "true",
        "hoodie.metadata.record.index.enable": str(not blooms).lower(),
        "hoodie.index.type": "BLOOM" if blooms else "RECORD_INDEX",
        "hoodie.bulkinsert.shuffle.parallelism": "8",
        "hoodie.upsert.shuffle.parallelism": "8",
        "hoodie.compact.inline": "false",
    }
    if run.engine.endswith("-9"):
        options["hoodie.write.table.version"] = "9"

    def save(name: str, operation: str, mode: str) -> None:
        writer = run.frame(name).write.format("hudi").options(**options)
        writer.option("hoodie.datasource.write.operation", operation).mode(mode).save(run.table)

    with run.measure("load"):
        save("base", "bulk_insert", "overwrite")
    for number in range(run.batches):
        with run.measure("upsert", number=number):
            save(f"up{number}", "upsert", "append")


def write_delta(run: Run) -> None:
    from delta.tables import DeltaTable

    with run.measure("load"):
        base = run.frame("base").repartition(8, "part").write.format("delta")
        base.partitionBy("part").option("delta.enableChangeDataFeed", "false").save(run.table)
    for number in range(run.batches):
        batch = run.frame(f"up{number}")
        with run.measure("upsert", number=number):
            table = DeltaTable.forPath(run.spark, run.table).alias("t")
            merge = table.merge(batch.alias("s"), "t.part = s.part and t.id = s.id")
            merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()


# ---- reading -----------------------------------------------------------------------------------


def last_but_one(run: Run) -> str:
    """The bound of incremental reads of the last commit: the instant of the commit before it, or
    its completion time from table version 8 on."""
    if run.storage_options is None:
        folder = Path(run.table) / ".hoodie"
        newer = folder / "timeline"
        files = [file.name for file in (newer if newer.is_dir() else folder).iterdir()]
    else:
        from pyhudi.storage.url_resolver import locate

        files = locate(run.table, storage_options=run.storage_options).names(".hoodie")
    names = sorted(name for name in files if name.endswith("commit"))
    return names[-2].split(".")[0].split("_")[-1]


Queries = dict[str, Callable[[], Any]]
"""Frames of new reads, by query."""


def reads_of(run: Run, way: str) -> Queries:
    if run.engine == "delta":
        return _queries(lambda: run.spark.read.format("delta").load(run.table))
    since = last_but_one(run)
    if way == "scan":
        return _scans(run, since)
    name = "pyhudi" if run.engine in PYHUDI else "hudi"

    def source(**options: str) -> Any:
        return run.spark.read.format(name).options(**options).load(run.table)

    incremental = {
        "hoodie.datasource.query.type": "incremental",
        "hoodie.datasource.read.begin.instanttime": since,
    }
    found = {**_queries(source), "incremental": lambda: source(**incremental)}
    return {**found, "columns": lambda: source(columns="a,s2")} if name == "pyhudi" else found


def _queries(frame: Callable[[], Any]) -> Queries:
    """Queries that state their columns and filter to Spark alone."""
    return {
        "snapshot": frame,
        "all columns": frame,
        "filter": lambda: frame().where(FILTER),
    }


def _scans(run: Run, since: str) -> Queries:
    import pyhudi.spark as hudi

    def opened() -> Any:
        return hudi.open_table(run.spark, run.table, storage_options=run.storage_options)

    return {
        **_queries(lambda: opened().scan()),
        "filter": lambda: opened().scan(where=FILTER),
        "columns": lambda: opened().scan(["a", "s2"]),
        "incremental": lambda: opened().changes(since),
    }


def read(run: Run, way: str) -> None:
    if way == "enabled":
        import pyhudi.spark as hudi

        hudi.enable(run.spark)
    reads = reads_of(run, way)
    measured = {} if run.engine.endswith("jvm") else reads
    for what, frame in measured.items():
        columns = SUMS.get(what, SNAPSHOT)
        for number in range(READS):
            with run.measure(what, number=number) as facts:
                facts["rows"] = [list(row) for row in frame().selectExpr(*columns).collect()]
    run.report("table", 0, rows=checks_of(reads["snapshot"]()))
    if way == "source" and run.storage_options is None:
        run.report("disk MB", _megabytes(Path(run.table)))


def _expression(text: str) -> Any:
    from pyspark.sql.functions import expr

    return expr(text)


def _megabytes(folder: Path) -> int:
    return round(sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6)


# ---- the session -------------------------------------------------------------------------------


def session(engine: str, jars: str, properties: Mapping[str, str] = MappingProxyType({})) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": "6g" if engine in PYHUDI else "10g",
        "spark.sql.shuffle.partitions": "8",
        "spark.default.parallelism": "8",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if engine in PEERS:
        settings |= {
            "spark.jars": jars,
            "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
            "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
        }
    if engine.startswith("hudi"):
        settings |= {
            "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
            "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
            "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        }
    builder = SparkSession.builder.master("local[2]")
    for name, value in {**settings, **properties}.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


WRITERS = {"pyhudi": write_pyhudi, "hudi": write_hudi, "delta": write_delta}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("engine", choices=(*PYHUDI, *PEERS))
    parser.add_argument("way", choices=WAYS)
    parser.add_argument("--data", type=Path, required=True)
    parser.add_argument("--table", required=True)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--batches", type=int, required=True)
    parser.add_argument("--jars", default="")
    given = parser.parse_args()
    store = json.loads(given.store.read_text()) if given.store else {}
    spark = session(given.engine, given.jars, store.get("properties", {}))
    spark.range(10).count()
    options = store.get("storage_options")
    run = Run(given.engine, spark, given.data, given.table, given.batches, options)
    try:
        if given.way == "write":
            WRITERS[given.engine.split("-")[0]](run)
        else:
            read(run, given.way)
    finally:
        spark.stop()


if __name__ == "__main__":
    main()

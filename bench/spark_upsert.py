"""Upserts on Spark beside Apache Hudi and Delta Lake, on the same rows, in one run.

    python bench/spark_upsert.py [--rows 5000000] [--batch 500000] [--data DIR]
        [--engines pyhudi-cow,hudi-cow,delta,...] [--peer-python PYTHON --jars A.jar,B.jar,...]

A bulk load of `rows` rows of 9 columns into 8 partitions, then three batches of `batch` rows of
which 90 % are updates, then a snapshot read and an incremental one.  Each engine runs in a process
of its own with a session of `local[2]`; the peers under `--peer-python` (PySpark 3.5 and the
published jars).  Without `--peer-python` only pyhudi runs.

`pyhudi-cow-jvm` and `pyhudi-mor-jvm` are given filtered frames, whose rows come out of the JVM;
the others are given frames as `spark.read.parquet` returns them, whose files workers read.
`-bloom` engines find keys by the bloom index (`pyhudi-cow-bloom,hudi-cow-bloom`), the others by
the record index.

Prints seconds as they come, and ratios of the medians of the batches after the first.
"""

from __future__ import annotations

import argparse
import json
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

BATCHES = 3
PYHUDI = ("pyhudi-cow", "pyhudi-mor", "pyhudi-cow-jvm", "pyhudi-mor-jvm",
          "pyhudi-cow-bloom", "pyhudi-mor-bloom")  # fmt: skip
PEERS = ("hudi-cow", "hudi-mor", "hudi-cow-bloom", "hudi-mor-bloom", "delta")
COLUMNS = ("load", "upsert", "snapshot", "incremental", "disk MB")
TARGETS = (
    ("upsert", "pyhudi-cow", "hudi-cow", 7.0),
    ("upsert", "pyhudi-cow", "delta", 2.5),
    ("upsert", "pyhudi-mor", "hudi-mor", 6.0),
    ("upsert", "pyhudi-cow-bloom", "hudi-cow-bloom", 5.0),
    ("upsert", "pyhudi-mor-bloom", "hudi-mor-bloom", 5.0),
    ("load", "pyhudi-cow", "hudi-cow", 8.0),
    ("load", "pyhudi-mor", "hudi-mor", 8.0),
)


# ---- rows --------------------------------------------------------------------------------------


def make(folder: Path, rows: int, batch: int) -> None:
    """base.parquet and up0..2.parquet; nothing if they are there."""
    import numpy as np
    import pyarrow.parquet as pq

    if (folder / f"up{BATCHES - 1}.parquet").exists():
        return
    folder.mkdir(parents=True, exist_ok=True)
    pq.write_table(_rows(np.arange(rows), 0, 0), folder / "base.parquet", row_group_size=1 << 18)
    for number in range(BATCHES):
        dice = np.random.default_rng(100 + number)
        old = dice.choice(rows, batch * 9 // 10, replace=False)
        new = np.arange(rows + number * batch // 10, rows + (number + 1) * batch // 10)
        table = _rows(np.concatenate([old, new]), number + 1, 10 + number)
        pq.write_table(table, folder / f"up{number}.parquet", row_group_size=1 << 16)


def _rows(numbers: Any, version: int, seed: int) -> Any:
    import numpy as np
    import pyarrow as pa

    dice = np.random.default_rng(seed)
    count = len(numbers)
    numbers = np.asarray(numbers, np.uint64)
    spread = (numbers * np.uint64(0x9E3779B97F4A7C15)).tolist()
    return pa.table(
        {
            "id": [f"{a:016x}-{b:08d}" for a, b in zip(spread, numbers.tolist(), strict=True)],
            "ts": np.full(count, version, np.int64),
            "part": [f"p{number % 8}" for number in numbers.tolist()],
            "a": dice.integers(0, 1 << 40, count),
            "b": dice.random(count),
            "c": dice.random(count),
            "d": dice.integers(0, 1000, count),
            "s1": [f"name-{x}" for x in dice.integers(0, 100_000, count).tolist()],
            "s2": [
                f"some longer text value {x}" for x in dice.integers(0, 1 << 30, count).tolist()
            ],
        }
    )


# ---- one engine, in its own process ------------------------------------------------------------


class Clock:
    """Prints one JSON line a measurement."""

    def __init__(self, engine: str) -> None:
        self.engine = engine

    @contextmanager
    def measure(self, what: str, **facts: Any) -> Iterator[dict[str, Any]]:
        began = time.monotonic()
        yield facts
        self.say(what, round(time.monotonic() - began, 2), **facts)

    def say(self, what: str, value: float, **facts: Any) -> None:
        line = {"engine": self.engine, "what": what, "value": value, **facts}
        print("BENCH " + json.dumps(line, default=str), flush=True)


def run_engine(engine: str, data: Path, jars: str) -> None:
    clock = Clock(engine)
    with clock.measure("session"):
        spark = _session(engine, jars)
        spark.range(10).count()
    folder = Path(tempfile.mkdtemp(prefix="spark-upsert-"))
    steps: dict[str, Callable[..., None]] = {"pyhudi": _pyhudi, "hudi": _hudi, "delta": _delta}
    try:
        steps[engine.split("-")[0]](clock, spark, data, folder / "t")
        clock.say("disk MB", _megabytes(folder))
    finally:
        spark.stop()
        shutil.rmtree(folder)


def _session(engine: str, jars: str) -> Any:
    from pyspark.sql import SparkSession

    settings = {
        "spark.driver.memory": "6g" if engine in PYHUDI else "10g",
        "spark.sql.shuffle.partitions": "8",
        "spark.default.parallelism": "8",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if engine in PEERS:
        settings["spark.jars"] = jars
        settings["spark.serializer"] = "org.apache.spark.serializer.KryoSerializer"
        settings |= {
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
    for name, value in settings.items():
        builder = builder.config(name, value)
    spark = builder.getOrCreate()
    spark.sparkContext.setLogLevel("ERROR")
    return spark


def _megabytes(folder: Path) -> int:
    return round(sum(f.stat().st_size for f in folder.rglob("*") if f.is_file()) / 1e6)


def _reads(clock: Clock, snapshot: Callable[[], Any], changes: Callable[[], Any] | None) -> None:
    for _ in range(2):
        with clock.measure("snapshot") as facts:
            facts["rows"] = list(
                snapshot().selectExpr("count(*)", "sum(a)", "sum(length(s2))").first()
            )
    if changes is not None:
        with clock.measure("incremental") as facts:
            facts["rows"] = list(changes().selectExpr("count(*)", "sum(a)").first())


def _pyhudi(clock: Clock, spark: Any, data: Path, path: Path) -> None:
    import pyhudi.spark as hudi

    def frame(name: str) -> Any:
        read = spark.read.parquet(str(data / name))
        return read.where("ts >= 0") if clock.engine.endswith("jvm") else read

    base = frame("base.parquet")
    kind = clock.engine.split("-")[1]
    index = "bloom" if clock.engine.endswith("bloom") else "record"
    with clock.measure("load") as facts:
        table = hudi.create_table(
            spark, path, base.schema, record_key="id", partition_by=["part"], ordering="ts",
            table_type=kind, name="t", index=index,
        )  # fmt: skip
        facts["phases"] = table.bulk_insert(base).seconds
    for number in range(BATCHES):
        with clock.measure("upsert", number=number) as facts:
            report = hudi.open_table(spark, path).upsert(frame(f"up{number}.parquet"))
            facts |= {"updated": report.updated, "phases": report.seconds}
    table = hudi.open_table(spark, path)
    since = [instant.time for instant in table.timeline.commits][-2]
    _reads(clock, table.scan, lambda: table.changes(since))


def _hudi(clock: Clock, spark: Any, data: Path, path: Path) -> None:
    kind = {"cow": "COPY_ON_WRITE", "mor": "MERGE_ON_READ"}[clock.engine.split("-")[1]]
    blooms = clock.engine.endswith("bloom")
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

    def save(name: str, operation: str, mode: str) -> None:
        writer = spark.read.parquet(str(data / name)).write.format("hudi").options(**options)
        writer.option("hoodie.datasource.write.operation", operation).mode(mode).save(str(path))

    with clock.measure("load"):
        save("base.parquet", "bulk_insert", "overwrite")
    for number in range(BATCHES):
        with clock.measure("upsert", number=number):
            save(f"up{number}.parquet", "upsert", "append")
    commits = sorted(f.name for f in (path / ".hoodie").iterdir() if f.name.endswith("commit"))
    reader = spark.read.format("hudi").option("hoodie.datasource.query.type", "incremental")
    reader = reader.option("hoodie.datasource.read.begin.instanttime", commits[-2].split(".")[0])
    _reads(clock, lambda: spark.read.format("hudi").load(str(path)), lambda: reader.load(str(path)))


def _delta(clock: Clock, spark: Any, data: Path, path: Path) -> None:
    from delta.tables import DeltaTable

    with clock.measure("load"):
        base = spark.read.parquet(str(data / "base.parquet"))
        base.repartition(8, "part").write.format("delta").partitionBy("part").save(str(path))
    for number in range(BATCHES):
        batch = spark.read.parquet(str(data / f"up{number}.parquet"))
        with clock.measure("upsert", number=number):
            table = DeltaTable.forPath(spark, str(path)).alias("t")
            merge = table.merge(batch.alias("s"), "t.part = s.part and t.id = s.id")
            merge.whenMatchedUpdateAll().whenNotMatchedInsertAll().execute()
    _reads(clock, lambda: spark.read.format("delta").load(str(path)), None)


# ---- all of them -------------------------------------------------------------------------------


def run_all(engines: list[str], data: Path, *, peer_python: str | None, jars: str) -> None:
    found: dict[tuple[str, str], list[float]] = {}
    for engine in engines:
        python = sys.executable if engine in PYHUDI else peer_python
        if python is None:
            print(f"{engine}: left out, it needs --peer-python and --jars")
            continue
        for line in _lines(engine, python, data, jars):
            facts = json.loads(line)
            found.setdefault((engine, facts["what"]), []).append(facts["value"])
            shown = {k: v for k, v in facts.items() if k not in ("engine", "what", "value")}
            print(f"{engine:15} {facts['what']:12} {facts['value']:9} {shown or ''}", flush=True)
    print(*_summary(engines, found), sep="\n")


def _lines(engine: str, python: str, data: Path, jars: str) -> Iterator[str]:
    root = str(Path(__file__).parents[1])
    paths = os.pathsep.join(filter(None, [root, os.environ.get("PYTHONPATH")]))
    command = [python, __file__, "--one", engine, "--data", str(data), "--jars", jars]
    environment = {**os.environ, "PYSPARK_PYTHON": python}
    if engine in PYHUDI:
        environment["PYTHONPATH"] = paths
    elif engine == "delta":  # its Python part lies in the jar
        environment["PYTHONPATH"] = os.pathsep.join(jars.split(","))
    with (
        tempfile.TemporaryFile("w+") as said,
        subprocess.Popen(
            command, env=environment, stdout=subprocess.PIPE, stderr=said, text=True
        ) as process,
    ):
        assert process.stdout is not None
        for line in process.stdout:
            if line.startswith("BENCH "):
                yield line.removeprefix("BENCH ")
        if process.wait():
            said.seek(0)
            print(f"{engine} failed with status {process.returncode}:\n{said.read()[-2000:]}")


def _summary(engines: list[str], found: dict[tuple[str, str], list[float]]) -> Iterator[str]:
    def warm(engine: str, what: str) -> float | None:
        values = found.get((engine, what))
        return statistics.median(values[1:] or values) if values else None

    yield "upsert: median of the batches after the first; snapshot: the second of two"
    yield "| engine | load s | upsert s | snapshot s | incremental s | disk MB |"
    yield "|---|---|---|---|---|---|"
    for engine in engines:
        cells = [
            warm(engine, what) for what in ("load", "upsert", "snapshot", "incremental", "disk MB")
        ]
        yield f"| {engine} | " + " | ".join("" if c is None else f"{c:.4g}" for c in cells) + " |"
    for what, ours, theirs, target in TARGETS:
        mine, other = warm(ours, what), warm(theirs, what)
        if mine and other:
            yield f"{what}: {ours} is {other / mine:.1f}x as fast as {theirs} (target {target}x)"
    mine, other = warm("pyhudi-cow", "disk MB"), warm("delta", "disk MB")
    if mine and other:
        yield f"disk after {BATCHES} batches: {mine / other:.2f} of Delta's (target 1)"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("--rows", type=int, default=5_000_000)
    parser.add_argument("--batch", type=int, default=500_000)
    parser.add_argument("--data", type=Path)
    parser.add_argument("--engines", default=",".join([*PYHUDI[:2], *PEERS]))
    parser.add_argument("--peer-python")
    parser.add_argument("--jars", default="", help="a comma list of local jars of the peers")
    parser.add_argument("--one", help=argparse.SUPPRESS)
    given = parser.parse_args()
    data = given.data or Path(tempfile.gettempdir()) / f"pyhudi-bench-{given.rows}-{given.batch}"
    if given.one:
        run_engine(given.one, data, given.jars)
        return
    make(data, given.rows, given.batch)
    run_all(given.engines.split(","), data, peer_python=given.peer_python, jars=given.jars)


if __name__ == "__main__":
    main()

"""`pyhudi demo`: upserts into tables that Apache Hudi wrote, with a summary of the changes.

The tables (demo_tables.zip) were written by Apache Hudi 0.15.0: one copy-on-write, one
merge-on-read, each with a record index and a failed write that was rolled back.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib import resources
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
from rich.console import Console
from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

import pyhudi
from pyhudi.cli.command import Answer, Call, ExitCode, Target, command
from pyhudi.errors import UserError

_TABLES = ("cow_rolled_back", "mor_rolled_back")


@dataclass(frozen=True)
class DemoResult:
    """Result of the demo for one table."""

    table: str
    engine: str
    rows_before: int
    updated: int
    inserted: int
    deleted: int
    rows_after: int
    index_agrees: bool
    seconds: float


@command("demo", target=Target.NOTHING, example="demo --engine local")
@click.option("--keep", type=click.Path(file_okay=False), help="Keep the tables in this folder.")
@click.option(
    "--engine",
    type=click.Choice(["auto", "spark", "local"]),
    default="auto",
    show_default=True,
    help="Where the upserts run.",
)
def demo(call: Call, keep: str | None, engine: str) -> Any:
    """Upsert into tables that Apache Hudi wrote: on Spark, or in this process without Java."""
    call.engine.pause()
    console = Console(stderr=True, highlight=False)
    with _folder(keep) as folder, _session(engine, console, folder) as spark:
        unpack(folder)
        results = []
        for name in _TABLES:
            with _progress(console, f"{name}: upsert and delete"):
                results.append(_run(folder / name, spark))
    found = [vars(r) for r in results]
    if keep:
        console.print(f"The tables are in {keep}; their rows, read by pyhudi, in <table>.parquet.")
    agrees = all(r.index_agrees for r in results)
    return Answer(
        found if call.as_json else _sideways(found),
        "pyhudi demo",
        code=ExitCode.SUCCESS if agrees else ExitCode.PROBLEMS,
    )


def _sideways(results: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The results transposed, one row per fact and one column per table, to fit a terminal."""
    names = [name for name in results[0] if name != "table"]
    return [
        {"": name.replace("_", " "), **{r["table"]: r[name] for r in results}} for name in names
    ]


def unpack(folder: Path) -> None:
    """Extract the demo tables and restore file modification times, which Apache Hudi 1.x reads as
    completion times."""
    packed = resources.files("pyhudi.cli") / "demo_tables.zip"
    with packed.open("rb") as file, zipfile.ZipFile(file) as archive:
        archive.extractall(folder)
        for info in archive.infolist():
            when = time.mktime((*info.date_time, 0, 0, -1))
            os.utime(folder / info.filename, (when, when))


def _run(path: Path, spark: Any) -> DemoResult:
    began = time.monotonic()
    table = pyhudi.open_table(path)
    columns = [n for n in table.schema.names if not n.startswith("_hoodie_")]
    before = table.scan(columns).to_arrow()
    batch = changed_rows(before)
    gone = before["id"].slice(5, 3).to_pylist()
    if spark is None:
        report = table.upsert(batch)
        deleted = table.delete(keys=gone).deleted
    else:
        import pyhudi.spark as hudi

        incoming = path.parent / f"{path.name}-batch.parquet"
        pq.write_table(batch, incoming)
        spark_table = hudi.open_table(spark, str(path))
        report = spark_table.upsert(spark.read.parquet(str(incoming)))
        deleted = spark_table.delete(keys=gone).deleted
    after = table.scan(columns).to_arrow()
    found = table.lookup(after["id"])["found"]
    missing = table.lookup(gone)["found"]
    pq.write_table(after, path.with_suffix(".parquet"))
    return DemoResult(
        path.name,
        "one machine" if spark is None else f"PySpark {spark.version}",
        before.num_rows,
        report.updated,
        report.inserted,
        deleted,
        after.num_rows,
        bool(pc.all(found).as_py()) and not pc.any(missing).as_py(),
        round(time.monotonic() - began, 2),
    )


def changed_rows(rows: pa.Table) -> pa.Table:
    """The batch of the demo: five changed rows and five new ones."""
    some = rows.slice(0, 5)
    newer = pc.add(pc.max(rows["ts"]), 1)
    stamped = pa.repeat(newer, 5)
    changed = _with(
        _with(some, "ts", stamped), "name", pa.array([f"changed-{i}" for i in range(5)])
    )
    fresh = _with(changed, "id", pa.array([f"new-{i}" for i in range(5)]))
    return pa.concat_tables([changed, fresh])


def _with(rows: pa.Table, name: str, values: pa.Array) -> pa.Table:
    return rows.set_column(rows.schema.get_field_index(name), name, values)


@contextmanager
def _folder(keep: str | None) -> Iterator[Path]:
    if keep:
        yield _new_folder(Path(keep))
        return
    folder = tempfile.mkdtemp(prefix="pyhudi-demo-")
    try:
        yield Path(folder)
    finally:
        shutil.rmtree(folder)


def _new_folder(folder: Path) -> Path:
    """Create an empty folder at the path.  Raises UserError."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        is_empty = not any(folder.iterdir())
    except OSError as refused:
        raise UserError("cannot create the folder", path=folder, why=refused.strerror) from None
    if not is_empty:
        raise UserError("the folder is not empty", path=folder, hint="use a new folder")
    return folder.absolute()


@contextmanager
def _session(engine: str, console: Console, folder: Path) -> Iterator[Any]:
    """A small Spark session, or None if Spark or Java is missing or the engine is "local".  What
    Spark logs goes to a file in the folder."""
    lacking = [
        what
        for what, there in (
            ("PySpark", find_spec("pyspark") is not None),
            ("Java", bool(os.environ.get("JAVA_HOME") or shutil.which("java"))),
        )
        if not there
    ]
    if engine == "local" or lacking:
        if lacking:
            console.print(f"{' and '.join(lacking)} not found: the demo runs without Spark.")
            if engine == "spark":
                sys.exit(1)
        yield None
        return
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession

    console.print("Starting Spark.")
    with _error_output_to(folder / "spark.log"):
        session = (
            SparkSession.builder.master("local[2]")
            .appName("pyhudi demo")
            .config("spark.ui.enabled", "false")
            .config("spark.sql.session.timeZone", "UTC")
            .config("spark.sql.shuffle.partitions", "2")
            .config("spark.log.level", "ERROR")
            .getOrCreate()
        )
    try:
        yield session
    finally:
        session.stop()


@contextmanager
def _error_output_to(file: Path) -> Iterator[None]:
    """Processes that start in the block, as Spark's JVM, write standard error to the file."""
    before = os.dup(2)
    try:
        with file.open("ab") as opened:
            os.dup2(opened.fileno(), 2)
        yield
    finally:
        os.dup2(before, 2)
        os.close(before)


@contextmanager
def _progress(console: Console, what: str) -> Iterator[None]:
    columns = (SpinnerColumn(), TextColumn("{task.description}"), TimeElapsedColumn())
    with Progress(*columns, console=console, transient=True) as progress:
        progress.add_task(what)
        yield

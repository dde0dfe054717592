"""A stream from one table into another, killed at random: every row arrives once.

    python -m tests.spark.streaming_kill --seed 7 --kills 50

The source table has more commits than the runs can read, one a batch; each run is a Spark driver
of its own that gets SIGKILL some time after it has started its query or made a commit or two, its
workers left to die by themselves.  The last run is left alone and reads the rest.  Rows are
bulk-inserted, so one that is written twice is there twice; the check is a count and a checksum of
all columns.
"""

from __future__ import annotations

import argparse
import contextlib
import hashlib
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

ROWS = 40
RUN_SECONDS_MAX = 240


def drive(folder: Path, commits: int) -> None:
    """One run: the stream until nothing is left, at most `commits` a batch."""
    from pyspark.sql import SparkSession

    threading.Thread(target=end_with, args=(os.getppid(),), daemon=True).start()
    spark = (
        SparkSession.builder.master("local[2]")
        .config("spark.ui.enabled", "false")
        .config("spark.driver.memory", "512m")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("ERROR")
    rows = (
        spark.readStream.format("pyhudi")
        .option("columns", "id,part,value")
        .option("maxCommitsPerTrigger", commits)
        .load(str(folder / "from"))
    )
    query = (
        rows.writeStream.format("pyhudi")
        .option("checkpointLocation", str(folder / "checkpoint"))
        .option("hoodie.table.name", "to")
        .option("hoodie.datasource.write.recordkey.field", "id")
        .option("hoodie.datasource.write.partitionpath.field", "part")
        .option("hoodie.datasource.write.table.type", "MERGE_ON_READ")
        .option("hoodie.datasource.write.operation", "bulk_insert")
        .trigger(availableNow=True)
        .start(str(folder / "to"))
    )
    (folder / "started").touch()
    query.awaitTermination()
    spark.stop()


def end_with(parent: int) -> None:
    """Kill this run once its parent is gone: it is in a session of its own."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(0, signal.SIGKILL)


@dataclass(frozen=True)
class Outcome:
    """What was found in the end.  kills: how many runs were killed in the middle."""

    kills: int
    commits: int
    count: int
    checksum: str


def fill(path: Path, commits: int) -> Outcome:
    """The source table, and what is to arrive."""
    import pyhudi

    schema = pa.schema([("id", pa.string()), ("part", pa.string()), ("value", pa.int64())])
    table = pyhudi.create_table(path, schema, record_key="id", partition_by="part")
    rows = []
    for number in range(commits):
        ids = [f"{number}-{n}" for n in range(ROWS)]
        values = [number * ROWS + n for n in range(ROWS)]
        batch = pa.table([ids, ["ab"[n % 2] for n in range(ROWS)], values], schema=schema)
        table.bulk_insert(batch)
        rows.append(batch)
    return Outcome(0, commits, commits * ROWS, checksum(pa.concat_tables(rows)))


def checksum(rows: pa.Table) -> str:
    ordered = rows.sort_by([("id", "ascending"), ("value", "ascending")]).to_pylist()
    return hashlib.sha256(repr(ordered).encode()).hexdigest()[:16]


def arrived(path: Path, kills: int) -> Outcome:
    import pyhudi

    table = pyhudi.open_table(path)
    rows = table.scan(["id", "part", "value"]).to_arrow()
    return Outcome(kills, len(table.timeline.commits), rows.num_rows, checksum(rows))


def run(folder: Path, *, seed: int, kills: int, commits: int) -> tuple[Outcome, Outcome]:
    """(wanted, found) after runs that were killed and one that was not."""
    dice = random.Random(seed)
    expected = fill(folder / "from", commits)
    done = 0
    while done < kills and not is_through(folder):
        doom = Doom(dice.randrange(3), dice.uniform(0.0, 2.0))
        done += one_run(folder, commits=1, doom=doom)
    one_run(folder, commits=commits, doom=None)
    return expected, arrived(folder / "to", done)


@dataclass(frozen=True)
class Doom:
    """When a run is killed: so many seconds after so many commits of its own."""

    commits: int
    seconds: float


def committed(folder: Path) -> int:
    kinds = ("commit", "deltacommit", "replacecommit")
    timeline = (folder / "to" / ".hoodie" / "timeline").glob("*.*")
    return sum(1 for file in timeline if file.name.split(".", 1)[1] in kinds)


def is_through(folder: Path) -> bool:
    """Whether too few commits are left for a run to be killed in the middle."""
    there = sum(1 for _ in (folder / "from" / ".hoodie" / "timeline").glob("*.commit"))
    return committed(folder) >= there - 4


def one_run(folder: Path, *, commits: int, doom: Doom | None) -> int:
    """A run; 1 if it was killed, 0 if it came to its end."""
    (folder / "started").unlink(missing_ok=True)
    goal = committed(folder) + (doom.commits if doom else 0)
    command = [sys.executable, "-m", "tests.spark.streaming_kill", "--drive", str(folder)]
    with open(folder / "log", "ab") as log:
        child = subprocess.Popen(
            [*command, "--commits", str(commits)], stdout=log, stderr=log,
            env={**os.environ, "PYSPARK_PYTHON": sys.executable}, start_new_session=True,
        )  # fmt: skip
    end = time.monotonic() + RUN_SECONDS_MAX
    try:
        while doom and not ((folder / "started").exists() and committed(folder) >= goal):
            if child.poll() is not None or time.monotonic() > end:
                raise RuntimeError(f"the run did not get going: {tail(folder)}")
            time.sleep(0.05)
        child.wait(doom.seconds if doom else RUN_SECONDS_MAX)
    except subprocess.TimeoutExpired:
        if doom is None:
            raise
        return 1
    finally:
        kill(child)
    if child.returncode:
        raise RuntimeError(f"the run failed: {tail(folder)}")
    return 0


def kill(child: subprocess.Popen[Any]) -> None:
    """SIGKILL to the driver and its JVM."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(child.pid, signal.SIGKILL)
    child.wait()


def tail(folder: Path) -> str:
    return (folder / "log").read_text("utf-8", "replace")[-4000:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--kills", type=int, default=50)
    parser.add_argument("--commits", type=int, default=0)
    parser.add_argument("--drive", type=Path)
    arguments = parser.parse_args()
    if arguments.drive:
        drive(arguments.drive, arguments.commits)
        return 0
    began = time.monotonic()
    with tempfile.TemporaryDirectory() as folder:
        commits = arguments.commits or 6 * arguments.kills
        expected, found = run(
            Path(folder), seed=arguments.seed, kills=arguments.kills, commits=commits
        )
    print(f"seed {arguments.seed}, {time.monotonic() - began:.0f} s: {found}")
    same = (expected.count, expected.checksum) == (found.count, found.checksum)
    print("every row arrived once" if same else f"wanted {expected}")
    return 0 if same else 1


if __name__ == "__main__":
    sys.exit(main())

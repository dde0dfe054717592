"""Processes that follow a source into a table, and are killed by a test.

    python -m tests.ingest.killed_process spark files TABLE PLACE - upsert 20000

is such a process: engine, kind of source, table, place and topic of the source, operation, rows of
a batch.
"""

from __future__ import annotations

import contextlib
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Protocol

_DAEMON = b"pyspark.daemon"
_INTERVAL_SECONDS = 0.05
_WORKERS_SECONDS = 120
_OFTEN_SERVED = {
    "hoodie.compact.inline.max.delta.commits": "2",
    "hoodie.clean.commits.retained": "3",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
}


class KilledProcess(Protocol):
    """A running stream.  The kills return what they ended."""

    @property
    def is_running(self) -> bool: ...

    def check(self) -> None:
        """Raises AssertionError if it ended by itself."""

    def kill(self) -> str: ...

    def kill_workers(self) -> str: ...


class LocalProcess:
    """`Stream.run` in one process, which is in its own process group.  options: of `follow`."""

    engine = "local"

    def __init__(self, options: Sequence[str]) -> None:
        command = [sys.executable, "-m", "tests.ingest.killed_process", self.engine, *options]
        environment = {**os.environ, "PYSPARK_PYTHON": sys.executable}
        self._process = subprocess.Popen(command, env=environment, start_new_session=True)

    @property
    def is_running(self) -> bool:
        return self._process.poll() is None

    def check(self) -> None:
        assert self.is_running, "the stream ended by itself"

    def kill(self) -> str:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()
        return "process"

    def kill_workers(self) -> str:
        raise AssertionError("a stream in one process has no workers")


class ServedProcess(LocalProcess):
    """The same, with table services that are often due and run concurrently."""

    engine = "served"


class SparkDriver(LocalProcess):
    """`pyhudi.spark.ingest` in a driver with a session of two task slots."""

    engine = "spark"

    def kill(self) -> str:
        super().kill()
        return "driver"

    def kill_workers(self) -> str:
        """SIGKILL to all Python workers, as soon as there are any."""
        end = time.monotonic() + _WORKERS_SECONDS
        while not (workers := _python_workers(self._process.pid)):
            self.check()
            assert time.monotonic() < end, "the driver starts no Python worker"
            time.sleep(0.02)
        for pid in workers:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return "workers"


def _python_workers(driver: int) -> list[int]:
    """Processes that Spark's Python daemon has forked; the daemon itself survives."""
    found, waiting = [], [(driver, False)]
    while waiting:
        pid, is_daemon = waiting.pop()
        for child in _children(pid):
            is_python = _DAEMON in _command(child)
            if is_python and is_daemon:
                found.append(child)
            waiting.append((child, is_python))
    return found


def _children(pid: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{pid}/task").glob("*/children"):
        with contextlib.suppress(OSError):
            found += [int(text) for text in task.read_text().split()]
    return found


def _command(pid: int) -> bytes:
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def follow(
    engine: str, kind: str, path: str, place: str, topic: str, operation: str, rows: str
) -> None:
    """Write what arrives to the table at `path` until the process is killed."""
    import pyhudi
    from pyhudi.ingest import ConcurrentServices, FileSource, KafkaSource, Stream

    threading.Thread(target=_end_with, args=(os.getppid(),), daemon=True).start()
    source: Any
    source = KafkaSource(place, topic) if kind == "kafka" else FileSource(place, quiet_seconds=0.5)
    if engine != "spark":
        is_served = engine == "served"
        table = pyhudi.open_table(path, options=_OFTEN_SERVED if is_served else {})
        services = ConcurrentServices(interval_seconds=_INTERVAL_SECONDS) if is_served else None
        stream = Stream(source, table, operation, max_rows=int(rows))
        stream.run(continuous=True, interval_seconds=_INTERVAL_SECONDS, services=services)
        return
    import pyhudi.spark as hudi

    hudi.ingest(
        _session(), source, path, operation=operation, max_rows=int(rows),
        continuous=True, interval_seconds=_INTERVAL_SECONDS,
    )  # fmt: skip


def _session() -> Any:
    from pyspark.sql import SparkSession

    spark = (
        SparkSession.builder.master("local[2,20]")  # a task is killed more than four times
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.driver.memory", "1g")
        .config("spark.driver.extraJavaOptions", "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC")
        .config("spark.sql.shuffle.partitions", "2")
        .getOrCreate()
    )
    spark.sparkContext.setLogLevel("OFF")
    return spark


def _end_with(parent: int) -> None:
    """End this process group once its parent is gone."""
    while os.getppid() == parent:
        time.sleep(0.5)
    os.killpg(0, signal.SIGKILL)


if __name__ == "__main__":
    follow(*sys.argv[1:])

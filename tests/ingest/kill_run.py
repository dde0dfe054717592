"""A stream that is killed at random while messages or files arrive: nothing is lost, none twice.

    python -m tests.ingest.kill_run kafka --servers 127.0.0.1:9092 --minutes 10 --kills 100
    python -m tests.ingest.kill_run files --minutes 10 --kills 100
    python -m tests.ingest.kill_run kafka --engine spark --driver-kills 20 --hudi

A process follows the source into a merge-on-read table.  It is killed and started again, while
this process produces events: each has a different number, one of a few entities, and a value.  At
the end the table has each number once, with its value, and the newest value of each entity.

On Spark the process is a driver with its own session.  A driver needs about ten seconds to start,
so some kills end the driver and its JVM, and the others end all Python workers of its tasks.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import tempfile
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import pyhudi
from tests.ingest.killed_process import KilledProcess, LocalProcess, SparkDriver
from tests.support.apache_hudi import VERSIONS, ApacheHudi

SCHEMA = pa.schema(
    {"number": pa.int64(), "id": pa.string(), "entity": pa.string(), "value": pa.int64()}
)
ENTITIES = 500


class Feed(Protocol):
    """Where events are produced.  kind, place, topic: as the program takes them."""

    kind: str
    place: str
    topic: str

    def put(self, events: pa.Table) -> None: ...


class TopicFeed:
    """A topic; an entity is in one partition."""

    kind = "kafka"

    def __init__(self, servers: str, topic: str, partitions: int) -> None:
        import confluent_kafka

        self.place, self.topic, self._partitions = servers, topic, partitions
        self._producer = confluent_kafka.Producer({"bootstrap.servers": servers, "linger.ms": 5})

    def put(self, events: pa.Table) -> None:
        for event in events.to_pylist():
            partition = event["number"] % ENTITIES % self._partitions
            self._producer.produce(self.topic, json.dumps(event).encode(), partition=partition)
        assert self._producer.flush(60) == 0


class FolderFeed:
    """Parquet files of a folder, with ascending modification times."""

    kind, topic = "files", "-"

    def __init__(self, folder: Path) -> None:
        self.place, self._folder = str(folder), folder
        folder.mkdir(parents=True)

    def put(self, events: pa.Table) -> None:
        name = f"{events['number'][0].as_py():012}.parquet"
        pq.write_table(events, self._folder / f".{name}")
        time.sleep(0.002)  # times in milliseconds differ
        os.utime(self._folder / f".{name}")
        (self._folder / f".{name}").rename(self._folder / name)


def events(first: int, count: int) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        [
            list(numbers),
            [f"n{n:09}" for n in numbers],
            [f"e{n % ENTITIES:04}" for n in numbers],
            [n * 7919 % 1_000_003 for n in numbers],
        ],
        schema=SCHEMA,
    )


@dataclass
class KillRun:
    """seconds: of producing, at least.  kills: at random times.  rate: events a second.

    worker_kills: how many of the kills end the Python workers of a driver of Spark.
    puts: how often a second events are produced.
    """

    feed: Feed
    table: Path
    seconds: float
    kills: int
    rate: int
    operation: str = "upsert"
    max_rows: int = 20_000
    seed: int = 0
    started: Callable[[Sequence[str]], KilledProcess] = LocalProcess
    worker_kills: int = 0
    puts: int = 10
    produced: int = field(default=0, init=False)
    killed: Counter[str] = field(default_factory=Counter, init=False)
    _reached: str | None = field(default=None, init=False)

    def __post_init__(self) -> None:
        self._rng = random.Random(self.seed)

    def run(self) -> dict[str, Any]:
        done = threading.Event()
        producing = threading.Thread(target=self._produce, args=(done,))
        producing.start()
        process = self._start()
        try:
            for is_whole, pause in self._schedule():
                time.sleep(pause)
                if self.worker_kills and is_whole:
                    self._await_commit(process)
                process.check()
                self.killed[process.kill() if is_whole else process.kill_workers()] += 1
                if not process.is_running:
                    process = self._start()
            done.set()
            producing.join()
            self._await_all(process)
        finally:
            done.set()
            process.kill()
        return self._result()

    def _schedule(self) -> Iterator[tuple[bool, float]]:
        """Whether each kill ends the whole process, and the seconds before it."""
        kinds = [True] * (self.kills - self.worker_kills) + [False] * self.worker_kills
        self._rng.shuffle(kinds)
        for is_whole in kinds:
            yield is_whole, self._rng.uniform(0.3, 1.7) * self.seconds / self.kills

    def _produce(self, done: threading.Event) -> None:
        """Until the time is over and all kills are done."""
        end, step = time.monotonic() + self.seconds, max(1, self.rate // self.puts)
        while time.monotonic() < end or not done.is_set():
            began = time.monotonic()
            self.feed.put(events(self.produced, step))
            self.produced += step
            time.sleep(max(0.0, began + 1 / self.puts - time.monotonic()))

    def _start(self) -> KilledProcess:
        self._reached = self._checkpoint()
        feed = self.feed
        options = (feed.kind, str(self.table), feed.place, feed.topic, self.operation)
        return self.started((*options, str(self.max_rows)))

    def _await_commit(self, process: KilledProcess) -> None:
        """Two of three drivers are killed only after a commit: a slow start must not end all."""
        deadline = time.monotonic() + 300
        if self._rng.random() * 3 > 1:
            while self._checkpoint() == self._reached:
                process.check()
                assert time.monotonic() < deadline, "the stream writes nothing"
                time.sleep(self._rng.uniform(0.1, 1.0))

    def _checkpoint(self) -> str | None:
        return pyhudi.open_table(self.table).checkpoint()

    def _await_all(self, process: KilledProcess) -> None:
        deadline = time.monotonic() + 900
        while pyhudi.open_table(self.table).count() < self.produced:
            process.check()
            assert time.monotonic() < deadline, "the stream does not reach the end of its source"
            time.sleep(1)

    def _result(self) -> dict[str, Any]:
        table = pyhudi.open_table(self.table)
        check(table.scan(SCHEMA.names).to_arrow(), self.produced)
        commits = len(table.timeline.commits)
        kills = sum(self.killed.values())
        return {
            "events": self.produced, "kills": kills, "killed": dict(self.killed),
            "active commits": commits, "checkpoint": table.checkpoint(),
        }  # fmt: skip


def check(found: pa.Table, produced: int) -> None:
    """Each event once, with its value; the newest value of each entity.  Raises AssertionError."""
    assert found.num_rows == produced, f"{found.num_rows} rows of {produced} events"
    expected = events(0, produced)
    assert pc.count_distinct(found["number"]).as_py() == produced
    assert pc.sum(found["value"]).as_py() == pc.sum(expected["value"]).as_py()
    assert found.sort_by("number").select(SCHEMA.names).equals(expected)
    assert _newest(found).equals(_newest(expected))


def versions_of(version: int) -> tuple[str, ...]:
    """The releases of Apache Hudi that read tables of a version."""
    return VERSIONS if version == 6 else VERSIONS[-1:]


def check_by(apache: ApacheHudi, path: Path, produced: int) -> None:
    """The same for the rows that Apache Hudi reads, by its metadata table and by listing.

    It also verifies the metadata table and the record index against the files.
    """
    for metadata in ("on", "off"):
        check(apache.read(path, mdt=metadata).select(SCHEMA.names), produced)
    assert not apache.call("validate", path=str(path)).get("problems")


def _newest(rows: pa.Table) -> pa.Table:
    last = rows.group_by("entity").aggregate([("number", "max")])
    joined = last.join(rows, ["entity", "number_max"], ["entity", "number"])
    return joined.select(["entity", "value"]).sort_by("entity")


def new_table(path: Path, **how: Any) -> None:
    pyhudi.create_table(path, SCHEMA, record_key="id", ordering="number", table_type="mor", **how)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("kafka", "files"))
    parser.add_argument("--engine", choices=("local", "spark"), default="local")
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--driver-kills", type=int, default=20, help="of the kills, on Spark")
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--version", type=int, default=9)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--hudi", action="store_true", help="read the table by Apache Hudi too")
    parser.add_argument("--table")
    given = parser.parse_args()
    folder = Path(given.table or tempfile.mkdtemp(prefix="kill_run_"))
    new_table(folder / "table", version=given.version)
    feeds: dict[str, Callable[[], Feed]] = {
        "kafka": lambda: real_topic(given.servers),
        "files": lambda: FolderFeed(folder / "landing"),
    }
    run = KillRun(
        feeds[given.kind](), folder / "table", given.minutes * 60, given.kills, given.rate,
        seed=given.seed,
    )  # fmt: skip
    if given.engine == "spark":
        run.started, run.puts = SparkDriver, 1
        run.worker_kills = max(0, given.kills - given.driver_kills)
    print(json.dumps({**run.run(), "table": str(run.table)}), flush=True)
    if given.hudi:
        for hudi in versions_of(given.version):
            with closing(ApacheHudi(hudi)) as apache:
                check_by(apache, run.table, run.produced)
            print(f"Apache Hudi {hudi} reads the same rows", flush=True)


def real_topic(servers: str, partitions: int = 4) -> Feed:
    """A new topic of a broker."""
    from tests.ingest.kafka.topics import Broker

    return TopicFeed(servers, Broker(servers, is_real=True).topic(partitions), partitions)


if __name__ == "__main__":
    main()

"""A stream that is killed at random while messages or files arrive: nothing is lost, none twice.

    python -m tests.ingest.kill_run kafka --servers 127.0.0.1:9092 --minutes 10 --kills 100
    python -m tests.ingest.kill_run files --minutes 10 --kills 100

A process follows the source into a merge-on-read table.  It is killed and started again, while
this process produces events: each has a different number, one of a few entities, and a value.  At
the end the table has each number once, with its value, and the newest value of each entity.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Protocol

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

import pyhudi

SCHEMA = pa.schema(
    {"number": pa.int64(), "id": pa.string(), "entity": pa.string(), "value": pa.int64()}
)
ENTITIES = 500
_PROGRAM = """
import sys, pyhudi
from pyhudi.ingest import FileSource, KafkaSource, Stream
kind, path, place, topic, operation, rows = sys.argv[1:]
if kind == "kafka":
    source = KafkaSource(place, topic)
else:
    source = FileSource(place, quiet_seconds=0.5)
stream = Stream(source, pyhudi.open_table(path), operation, max_rows=int(rows))
stream.run(continuous=True, interval_seconds=0.05)
"""


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
    """seconds: of producing.  kills: at random times in them.  rate: events a second."""

    feed: Feed
    table: Path
    seconds: float
    kills: int
    rate: int
    operation: str = "upsert"
    max_rows: int = 20_000
    seed: int = 0
    command: Sequence[str] = (sys.executable, "-c", _PROGRAM)
    produced: int = field(default=0, init=False)
    killed: int = field(default=0, init=False)

    def run(self) -> dict[str, Any]:
        producing = threading.Thread(target=self._produce)
        producing.start()
        rng = random.Random(self.seed)
        pause = self.seconds / self.kills
        while self.killed < self.kills:
            process = self._started()
            time.sleep(rng.uniform(0.3, 1.7) * pause)
            assert process.poll() is None, "the stream ended by itself"
            process.send_signal(signal.SIGKILL)
            process.wait()
            self.killed += 1
        producing.join()
        return self._finished()

    def _produce(self) -> None:
        end, step = time.monotonic() + self.seconds, max(1, self.rate // 10)
        while time.monotonic() < end:
            began = time.monotonic()
            self.feed.put(events(self.produced, step))
            self.produced += step
            time.sleep(max(0.0, began + 0.1 - time.monotonic()))

    def _started(self) -> subprocess.Popen[bytes]:
        feed = self.feed
        options = (feed.kind, str(self.table), feed.place, feed.topic, self.operation)
        return subprocess.Popen([*self.command, *options, str(self.max_rows)])

    def _finished(self) -> dict[str, Any]:
        """One more stream until all events are there; then the comparison."""
        process = self._started()
        deadline = time.monotonic() + 600
        while self._count() < self.produced and time.monotonic() < deadline:
            assert process.poll() is None, "the stream ended by itself"
            time.sleep(1)
        process.send_signal(signal.SIGKILL)
        process.wait()
        check(pyhudi.open_table(self.table).scan(SCHEMA.names).to_arrow(), self.produced)
        table = pyhudi.open_table(self.table)
        return {"events": self.produced, "kills": self.killed, "checkpoint": table.checkpoint()}

    def _count(self) -> int:
        return int(pyhudi.open_table(self.table).count())


def check(found: pa.Table, produced: int) -> None:
    """Each event once, with its value; the newest value of each entity.  Raises AssertionError."""
    assert found.num_rows == produced, f"{found.num_rows} rows of {produced} events"
    expected = events(0, produced)
    assert pc.count_distinct(found["number"]).as_py() == produced
    assert pc.sum(found["value"]).as_py() == pc.sum(expected["value"]).as_py()
    assert found.sort_by("number").select(SCHEMA.names).equals(expected)
    assert _newest(found).equals(_newest(expected))


def _newest(rows: pa.Table) -> pa.Table:
    last = rows.group_by("entity").aggregate([("number", "max")])
    joined = last.join(rows, ["entity", "number_max"], ["entity", "number"])
    return joined.select(["entity", "value"]).sort_by("entity")


def new_table(path: Path, **how: Any) -> None:
    pyhudi.create_table(path, SCHEMA, record_key="id", ordering="number", table_type="mor", **how)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kind", choices=("kafka", "files"))
    parser.add_argument("--servers", default="127.0.0.1:9092")
    parser.add_argument("--minutes", type=float, default=10)
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--rate", type=int, default=1000)
    parser.add_argument("--version", type=int, default=6)
    parser.add_argument("--table")
    given = parser.parse_args()
    folder = Path(given.table or tempfile.mkdtemp(prefix="kill_run_"))
    new_table(folder / "table", version=given.version)
    feeds: dict[str, Callable[[], Feed]] = {
        "kafka": lambda: real_topic(given.servers),
        "files": lambda: FolderFeed(folder / "landing"),
    }
    feed = feeds[given.kind]()
    run = KillRun(feed, folder / "table", given.minutes * 60, given.kills, given.rate)
    print(json.dumps({**run.run(), "table": str(folder / "table")}), flush=True)


def real_topic(servers: str, partitions: int = 4) -> Feed:
    """A new topic of a broker."""
    from tests.ingest.kafka.topics import Broker

    return TopicFeed(servers, Broker(servers, is_real=True).topic(partitions), partitions)


if __name__ == "__main__":
    main()

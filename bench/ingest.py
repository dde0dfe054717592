"""How fast does a stream write a Kafka topic to a table, and how late are its rows?

    python -m bench.ingest [--smoke]
    python -m bench.ingest load --servers 127.0.0.1:9092 [--rows 2000000]
    python -m bench.ingest sink --servers 127.0.0.1:9092 [--rows 2000000]
    python -m bench.ingest files [--gigabytes 20]
    python -m bench.ingest latency --servers 127.0.0.1:9092 [--seconds 600]

load: JSON of 200 bytes in 4 partitions, upserted into a merge-on-read table with a record index, in
batches of 250,000; keys are updated 4 times each.  Beside it a loop that only consumes and takes
the values, the limit of this client.  latency: another process produces 5,000 messages a second; a
commit each second, table services concurrently; from the time at which a message was produced until
the commit of its batch is complete.
sink: load, and the same topic written by Spark Structured Streaming with Apache Hudi's sink.
files: Parquet files by a stream with the operation bulk_insert, against bulk_insert of the same.
Without --servers, 20,000 messages in brokers that the client simulates in this process, which
retain few messages; the figures mean little.
Each part in a process of its own, so that the peaks of memory are its own.
"""

from __future__ import annotations

import argparse
import json
import os
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka as kafka
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.dataset as dataset
import pyarrow.parquet as pq
from confluent_kafka.admin import AdminClient, NewTopic

import pyhudi
from bench import ingest_sink, machine
from bench.spark_peers import session_environment
from pyhudi.ingest import (
    ConcurrentServices,
    FileSource,
    IngestState,
    IngestStatus,
    KafkaSource,
    Stream,
)
from pyhudi.timeline.instant import Action, State
from tests.interop.apache_hudi import install

PARTITIONS = 4
UPDATES = 4
FILE_ROWS = 1_000_000
SCHEMA = pa.schema(
    {
        "id": pa.string(), "ts": pa.int64(), "city": pa.string(), "rider": pa.string(),
        "fare": pa.float64(), "note": pa.string(),
    }
)  # fmt: skip


def message(number: int, keys: int, ts: int) -> bytes:
    """About 200 bytes."""
    key = number * 7919 % keys
    return (
        f'{{"id":"key-{key:012d}","ts":{ts},"city":"city-{key % 20}",'
        f'"rider":"rider-{number % 10000:05d}","fare":{number % 10000 / 100},"note":"{"x" * 90}"}}'
    ).encode()


def new_topic(servers: str) -> str:
    """A topic with PARTITIONS partitions.  Simulated brokers create it when it is mentioned."""
    name = f"bench-{time.time_ns()}"
    admin = AdminClient({"bootstrap.servers": servers})
    if str(admin.list_topics(timeout=30).cluster_id).startswith("mockCluster"):
        assert len(admin.list_topics(name, timeout=30).topics[name].partitions) == PARTITIONS
    else:
        admin.create_topics([NewTopic(name, PARTITIONS, 1)])[name].result(30)
    return name


@contextmanager
def brokers(servers: str | None) -> Iterator[str]:
    """`host:port` of the brokers; None: of simulated ones, which end with the block."""
    if servers is not None:
        yield servers
        return
    owner = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 3})
    yield ",".join(f"{b.host}:{b.port}" for b in owner.list_topics(timeout=10).brokers.values())
    owner.flush(1)


def producer(servers: str, **settings: Any) -> Any:
    return kafka.Producer(
        {"bootstrap.servers": servers, "queue.buffering.max.messages": 2_000_000, **settings}
    )


def fill(servers: str, topic: str, rows: int) -> int:
    """The mean size of a message in bytes."""
    writer = producer(servers, **{"linger.ms": 50, "compression.type": "lz4"})
    keys, size = rows // UPDATES, 0
    for number in range(rows):
        value = message(number, keys, number)
        size += len(value)
        writer.produce(topic, value, partition=number % keys % PARTITIONS)
        if number % 50_000 == 0:
            writer.flush()
    assert writer.flush(120) == 0
    return size // rows


def consumed(servers: str, topic: str, rows: int) -> float:
    """Seconds of a loop that takes the values of all messages."""
    reader = kafka.Consumer(
        {"bootstrap.servers": servers, "group.id": "bench", "enable.auto.commit": False}
    )
    began, found = time.perf_counter(), 0
    reader.assign([kafka.TopicPartition(topic, p, 0) for p in range(PARTITIONS)])
    while found < rows:
        found += len([m.value() for m in reader.consume(10_000, 1.0) if m.error() is None])
    return time.perf_counter() - began


def new_table(folder: str, **options: str) -> Any:
    return pyhudi.create_table(
        Path(folder) / "table",
        SCHEMA,
        record_key="id",
        ordering="ts",
        table_type="mor",
        index="record",
        version=6,
        options=options,
    )


def written(servers: str, topic: str, rows: int, batch: int) -> dict[str, Any]:
    with tempfile.TemporaryDirectory() as folder:
        table = new_table(folder)
        stream = Stream(KafkaSource(servers, topic), table, max_rows=batch)
        began, processor = time.perf_counter(), time.process_time()
        peaks = [_peak_mb() for _ in stream.available()]
        seconds = time.perf_counter() - began
        found = table.count()
    assert found == rows // UPDATES, found
    return {
        "seconds": round(seconds, 2), "rows_per_s": int(rows / seconds),
        "processor_s": round(time.process_time() - processor, 2), "peaks_mb": peaks,
    }  # fmt: skip


def latency(servers: str, seconds: float, rate: int) -> dict[str, Any]:
    """From the production of a message until the commit of its batch is complete, while another
    process produces `rate` messages a second and the table services run concurrently."""
    topic, keys = new_topic(servers), max(1, int(seconds * rate) // UPDATES)
    producing = started("pace", servers, topic, seconds, rate, keys)
    found = _Delays()
    with tempfile.TemporaryDirectory() as folder:
        stream = Stream(KafkaSource(servers, topic), new_table(folder), transform=found.remember)
        stream.run(
            continuous=True,
            interval_seconds=1.0,
            stop=lambda: producing.poll() is not None and found.is_idle,
            on_batch=found.committed,
            on_status=found.receive,
            services=ConcurrentServices(),
        )
        rows = stream.table.count()
        completed = stream.table.timeline.where({Action.COMMIT}, State.COMPLETED)
    produced = answer_of(producing)
    assert produced["messages"] == len(found.rows), (produced, len(found.rows))
    assert rows == min(keys, produced["messages"]), (rows, keys)
    return {**produced, **found.summary(), "compactions_on_timeline": len(completed)}


class _Delays:
    """Seconds from production to commit of each row, and what ran meanwhile."""

    def __init__(self) -> None:
        self.rows: list[float] = []
        self._minutes: list[tuple[float, int]] = []
        self._newest: list[np.ndarray] = []
        self._batches = 0
        self._status: IngestStatus | None = None

    def remember(self, rows: pa.RecordBatchReader) -> pa.RecordBatchReader:
        table_of_batch = rows.read_all()
        self._newest.append(table_of_batch["ts"].to_numpy())
        return table_of_batch.to_reader()

    def committed(self, report: Any) -> None:
        self.rows.extend(time.time() - self._newest.pop() / 1e6)
        self._batches += 1
        if self._batches % 60 == 0:
            recent = self.rows[-300_000:]
            self._minutes.append((round(statistics.median(recent), 2), _peak_mb()))
            print(json.dumps(self.summary()), file=sys.stderr, flush=True)

    def receive(self, status: IngestStatus) -> None:
        self._status = status

    @property
    def is_idle(self) -> bool:
        return self._status is not None and self._status.state is IngestState.IDLE

    def summary(self) -> dict[str, Any]:
        p50, p95, p99 = (round(float(np.quantile(self.rows, q)), 2) for q in (0.5, 0.95, 0.99))
        assert self._status is not None and self._status.services is not None
        return {
            "commits": self._batches, "p50_s": p50, "p95_s": p95, "p99_s": p99,
            "p50_and_peak_mb_each_60_commits": self._minutes, "peak_mb": _peak_mb(),
            "services": self._status.services.to_dict(), "load": os.getloadavg(),
        }  # fmt: skip


def _peak_mb() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024


def pace(servers: str, topic: str, seconds: float, rate: int, keys: int) -> dict[str, Any]:
    """Produce messages at a rate, each at its time since the start, so that a pause is made up for.
    Their ts is the time of their production, in microseconds."""
    writer, number = producer(servers, **{"linger.ms": 5}), 0
    began, messages = time.monotonic(), int(seconds * rate)
    while number < messages:
        due = min(messages, int((time.monotonic() - began) * rate))
        for each in range(number, due):
            value = message(each, keys, time.time_ns() // 1000)
            writer.produce(topic, value, partition=each % keys % PARTITIONS)
        number = due
        writer.poll(0)
        time.sleep(0.01)
    took = time.monotonic() - began
    assert writer.flush(60) == 0
    return {"messages": messages, "produced_per_s": round(messages / took)}


def started(function: str, *arguments: object) -> subprocess.Popen[str]:
    """A function of this module in a new process."""
    call = f"import json, bench.ingest as b; print(json.dumps(b.{function}(*{arguments!r})))"
    command = [sys.executable, "-c", call]
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True)


def answer_of(process: subprocess.Popen[str]) -> Any:
    """The result of `started`, when it has ended."""
    output, _ = process.communicate()
    assert process.returncode == 0, process.args
    return json.loads(output.splitlines()[-1])


def in_process(function: str, *arguments: object) -> Any:
    """The result of a function of this module in a new process."""
    return answer_of(started(function, *arguments))


def load(servers: str, rows: int, batch: int) -> str:
    """The topic."""
    topic = new_topic(servers)
    size = fill(servers, topic, rows)
    bare = [in_process("consumed", servers, topic, rows) for _ in range(2)]
    found = in_process("written", servers, topic, rows, batch)
    alone = rows / statistics.median(bare)
    print(json.dumps({"rows": rows, "bytes": size, "consumer_rows_per_s": int(alone), **found}))
    return topic


def against_sink(servers: str, rows: int, batch: int) -> None:
    """`load`, and Apache Hudi's sink for the same topic."""
    jars = ingest_sink.fetched_jars()
    topic = load(servers, rows, batch)
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as folder:
        command = [str(install.python()), "-m", "bench.ingest_sink", servers, topic, str(rows)]
        outcome = machine.run(
            [*command, str(batch), folder, jars], on_line=lines.append, limit_seconds=3600,
            environment=session_environment(str(install.python())),
        )  # fmt: skip
    assert not outcome.status, outcome.error
    found = json.loads(next(line for line in reversed(lines) if line.startswith("{")))
    assert found["rows_in_table"] == rows // UPDATES, found
    print(json.dumps({"sink": found, "load": os.getloadavg()}))


def make_files(folder: str, gigabytes: float) -> int:
    """Parquet files of about 100 MB; the number of rows."""
    count = max(1, round(gigabytes * 10))
    for number in range(count):
        rows = np.random.default_rng(number)
        first = number * FILE_ROWS
        columns = {f"f{n}": rows.random(FILE_ROWS) for n in range(12)}
        keys = pc.cast(pa.array(np.arange(first, first + FILE_ROWS)), pa.string())
        pq.write_table(
            pa.table({"id": keys, "ts": np.arange(first, first + FILE_ROWS), **columns}),
            f"{folder}/{number:05}.parquet",
            compression="zstd",
            row_group_size=1 << 17,
        )
    return count * FILE_ROWS


def files_table(source: str, folder: str) -> Any:
    schema = pq.read_schema(next(Path(source).glob("*.parquet")))
    return pyhudi.create_table(
        Path(folder) / "table", schema, record_key="id", ordering="ts", version=6
    )


def files_ingested(source: str, folder: str) -> dict[str, Any]:
    table = files_table(source, folder)
    began, processor = time.perf_counter(), time.process_time()
    batches = len(list(Stream(FileSource(source), table, "bulk_insert").available()))
    return {"batches": batches, **_used(table, began, processor)}


def files_inserted(source: str, folder: str) -> dict[str, Any]:
    table = files_table(source, folder)
    began, processor = time.perf_counter(), time.process_time()
    rows = dataset.dataset(sorted(map(str, Path(source).glob("*.parquet")))).scanner().to_reader()
    table.bulk_insert(rows)
    return _used(table, began, processor)


def _used(table: Any, began: float, processor: float) -> dict[str, Any]:
    seconds = time.perf_counter() - began
    return {
        "seconds": round(seconds, 2), "processor_s": round(time.process_time() - processor, 2),
        "peak_mb": _peak_mb(), "rows": table.count(),
    }  # fmt: skip


def files(gigabytes: float) -> None:
    """A stream of files with the operation bulk_insert, against `bulk_insert` of the same files."""
    with tempfile.TemporaryDirectory() as source:
        rows = make_files(source, gigabytes)
        size = sum(path.stat().st_size for path in Path(source).iterdir())
        print(json.dumps({"rows": rows, "bytes": size}), flush=True)
        time.sleep(3)  # files of the last seconds wait for a later batch
        ratios = []
        for _ in range(2):
            found = {}
            for function in ("files_inserted", "files_ingested"):
                with tempfile.TemporaryDirectory() as folder:
                    found[function] = in_process(function, source, folder)
                print(json.dumps({function: found[function], "load": os.getloadavg()}), flush=True)
                assert found[function]["rows"] == rows, found
            inserted, ingested = found["files_inserted"], found["files_ingested"]
            ratios.append(round(inserted["seconds"] / ingested["seconds"], 2))
        print(json.dumps({"speed of the stream, bulk_insert = 1": ratios}))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument(
        "part", nargs="?", choices=("load", "latency", "sink", "files"), default="load"
    )
    parser.add_argument("--servers")
    parser.add_argument("--smoke", action="store_true", help="20,000 messages")
    parser.add_argument("--rows", type=int, default=2_000_000)
    parser.add_argument("--batch", type=int, default=250_000)
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--rate", type=int, default=5_000)
    parser.add_argument("--gigabytes", type=float, default=20)
    given = parser.parse_args()
    if given.part == "files":
        files(given.gigabytes)
        return
    if given.part in ("latency", "sink") and given.servers is None:
        parser.error("this part needs --servers")
    is_small = given.smoke or given.servers is None
    rows, batch = (20_000, 5_000) if is_small else (given.rows, given.batch)
    with brokers(given.servers) as servers:
        if given.part == "load":
            load(servers, rows, batch)
        elif given.part == "sink":
            against_sink(servers, rows, batch)
        else:
            print(json.dumps(in_process("latency", servers, given.seconds, given.rate)))


if __name__ == "__main__":
    main()

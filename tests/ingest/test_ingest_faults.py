"""Faults around an ingest: each is reported in one line, retried or not as stated, and no row is
lost or written twice.

A registry that is down: tests/ingest/kafka/test_registry_formats.py.
"""

from __future__ import annotations

import signal
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import confluent_kafka as kafka
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import LockError, StorageError
from pyhudi.ingest import IngestStatus, KafkaSource, Retries, Stream
from tests.crash.disk import run_with_shim
from tests.ingest.kafka.topics import Broker, messages, mock_brokers
from tests.support.row_sources import Counting

ROOT = Path(__file__).parents[2]
SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string()})
FAST = Retries(20, first_seconds=0.05, max_seconds=0.1)
BROKER = """
from tests.ingest.kafka.topics import mock_brokers
with mock_brokers() as broker:
    print(broker.servers, flush=True)
    input()
"""
HOLDER = """
import sys
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.locks.table_lock import TableLock
with TableLock(LocalFileSystem(sys.argv[1]), purpose="upsert"):
    print("held", flush=True)
    input()
"""


@contextmanager
def program(text: str, *arguments: str) -> Iterator[tuple[Any, str]]:
    """A Python program in another process, and the first line that it prints; it ends with its
    input."""
    command = [sys.executable, "-c", text, *arguments]
    pipe = subprocess.PIPE
    with subprocess.Popen(command, stdin=pipe, stdout=pipe, text=True, cwd=ROOT) as running:
        assert running.stdout is not None
        try:
            yield running, running.stdout.readline().strip()
        finally:
            running.send_signal(signal.SIGCONT)
            running.kill()


def made(folder: Path, **options: str) -> Any:
    path = folder / "t"
    pyhudi.create_table(path, SCHEMA, record_key="id")
    return pyhudi.open_table(path, options=options)


def ids(table: Any) -> list[str]:
    return sorted(pyhudi.open_table(table.path).scan(["id"]).to_arrow()["id"].to_pylist())


def expected(count: int) -> list[str]:
    return [f"k{number:06}" for number in range(count)]


def errors_of(states: list[IngestStatus]) -> list[str]:
    found = [state.error for state in states if state.error]
    assert not any("\n" in error for error in found)
    return found


def test_a_broker_that_stops_answering_is_waited_for(tmp_path: Path) -> None:
    """A process that is stopped between two batches, and goes on while the stream retries."""
    table, states = made(tmp_path), list[IngestStatus]()
    with program(BROKER) as (process, servers):
        broker = Broker(servers)
        topic = broker.topic()
        broker.put(topic, messages(0, 400))
        source = KafkaSource(servers, topic, timeout_seconds=0.5)
        stream = Stream(source, table, max_rows=100)
        assert stream.run_once() is not None
        checkpoint = table.checkpoint()
        process.send_signal(signal.SIGSTOP)
        with pytest.raises(StorageError, match=r"Kafka (did not answer|sent no messages)"):
            for _ in range(4):
                stream.run_once()
        assert table.checkpoint() == checkpoint

        def on_status(state: IngestStatus) -> None:
            states.append(state)
            if state.failures == 2:
                process.send_signal(signal.SIGCONT)

        stream.run(retries=FAST, on_status=on_status)
        assert ids(table) == expected(400)
    assert len(errors_of(states)) >= 2


def test_a_broker_that_is_gone_ends_a_run_with_limited_retries(tmp_path: Path) -> None:
    table, states = made(tmp_path), list[IngestStatus]()
    with program(BROKER) as (process, servers):
        broker = Broker(servers)
        topic = broker.topic()
        broker.put(topic, messages(0, 100))
        stream = Stream(KafkaSource(servers, topic, timeout_seconds=0.5), table, max_rows=50)
        assert stream.run_once() is not None
        checkpoint = table.checkpoint()
        process.kill()
        process.wait()
        stream = Stream(KafkaSource(servers, topic, timeout_seconds=0.5), table, max_rows=50)
        with pytest.raises(StorageError, match="Kafka did not answer"):
            stream.run(retries=Retries(2, first_seconds=0.01), on_status=states.append)
    assert [state.failures for state in states if state.error][:2] == [1, 2]
    assert len(errors_of(states)) == 3
    assert (table.checkpoint(), len(ids(table))) == (checkpoint, 50)


def test_a_member_of_the_same_group_does_not_take_partitions_from_a_stream(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A stream assigns its partitions itself: a consumer that joins and leaves its group meanwhile
    gets the partitions of the group, and the stream its messages.  Only the report to the group is
    refused as long as it has a member."""
    table = made(tmp_path)
    with mock_brokers() as broker:
        topic = broker.topic()
        stream = Stream(KafkaSource(broker.servers, topic, group="rides"), table, max_rows=40)
        broker.put(topic, messages(0, 100))
        assert stream.run_once() is not None
        assert "not reported" not in caplog.text
        member = kafka.Consumer({"bootstrap.servers": broker.servers, "group.id": "rides"})
        member.subscribe([topic])
        while not member.assignment():
            member.consume(1, 0.05)
        assert stream.run_once() is not None
        assert "not reported to the group rides" in caplog.text
        member.close()
        assert stream.run_once() is not None
        assert ids(table) == expected(100)


def test_a_full_disk_ends_the_run_and_the_next_run_completes_it() -> None:
    done = run_with_shim("5", module="tests.ingest.disk_run")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "no space left on device" in done.stdout


def test_a_table_that_is_locked_is_waited_for(tmp_path: Path) -> None:
    """Another process has the table's lock for longer than a write waits."""
    schema = pa.schema({"id": pa.string(), "n": pa.int64()})
    pyhudi.create_table(tmp_path / "t", schema, record_key="id")
    table = pyhudi.open_table(tmp_path / "t", options={"hoodie.write.lock.wait_time_ms": "50"})
    stream, states = Stream(Counting(4, 2), table), list[IngestStatus]()
    with program(HOLDER, str(tmp_path / "t")) as (process, line):
        assert line == "held"
        with pytest.raises(LockError, match="another writer holds the table's lock") as caught:
            stream.run()
        assert f"pid={process.pid}" in str(caught.value)
        assert (table.count(), table.checkpoint()) == (0, None)

        def on_status(state: IngestStatus) -> None:
            states.append(state)
            if state.failures == 2:
                process.kill()
                process.wait()

        stream.run(retries=FAST, on_status=on_status)
    assert all("another writer holds" in error for error in errors_of(states))
    assert len(errors_of(states)) >= 2
    assert sorted(table.scan(["n"]).to_arrow()["n"].to_pylist()) == [0, 1, 2, 3]

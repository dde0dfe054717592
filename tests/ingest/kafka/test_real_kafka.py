"""What only a real broker does: transactions, expiry, compaction, times, topics created again.

$PYHUDI_KAFKA: its `host:port`; `make long-kafka` states it.
"""

from __future__ import annotations

import os
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import confluent_kafka as kafka
import pyarrow as pa
import pytest
from confluent_kafka.admin import AdminClient

import pyhudi
from pyhudi.errors import SourceDataLostError, StorageError, UserError
from pyhudi.ingest import KafkaSource, RejectedRows, SourceLimits, Stream
from tests.ingest.kafka.topics import Broker, messages
from tests.ingest.kill_run import KillRun, TopicFeed, new_table

pytestmark = [pytest.mark.slow, pytest.mark.kafka]
SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string()})
ALL = SourceLimits(None, None)


@pytest.fixture(scope="module")
def real() -> Broker:
    return Broker(os.environ["PYHUDI_KAFKA"], is_real=True)


@pytest.fixture
def admin(real: Broker) -> Any:
    return AdminClient({"bootstrap.servers": real.servers})


def ids(batch: Any) -> list[str]:
    assert batch is not None
    return sorted(batch.rows.read_all()["id"].to_pylist())


def test_aborted_transactions_are_not_read_and_do_not_block(real: Broker) -> None:
    topic = real.topic(1)
    source = KafkaSource(real.servers, topic, timeout_seconds=20)
    writer = kafka.Producer({"bootstrap.servers": real.servers, "transactional.id": topic})
    writer.init_transactions(60)
    checkpoint, found = None, []
    for number, ends in enumerate(["commit", "abort", "commit", "abort", "abort"]):
        writer.begin_transaction()
        for value in messages(number * 10, 3):
            writer.produce(topic, value, partition=0)
        writer.flush(30)
        (writer.commit_transaction if ends == "commit" else writer.abort_transaction)(30)
        batch = source.read(checkpoint, ALL, SCHEMA)
        if batch is not None:
            found += ids(batch)
            checkpoint = batch.checkpoint
        assert source.read(checkpoint, ALL, SCHEMA) is None
    assert found == [f"k{n:06}" for n in (0, 1, 2, 20, 21, 22)]
    again = KafkaSource(real.servers, topic).read(None, ALL, SCHEMA)
    assert again is not None
    assert ids(again) == found
    rejected = RejectedRows()
    split = [r for part in again.splits for rows in part.read(rejected) for r in rows.to_pylist()]
    assert sorted(row["id"] for row in split) == found
    dirty = KafkaSource(real.servers, topic, isolation="read_uncommitted")
    assert len(ids(dirty.read(None, ALL, SCHEMA))) == 15


@pytest.mark.parametrize("rows", [1, 7, 11, 100])
def test_limits_of_rows_pass_the_markers_of_transactions(real: Broker, rows: int) -> None:
    topic = real.topic(2)
    writer = kafka.Producer({"bootstrap.servers": real.servers, "transactional.id": topic})
    writer.init_transactions(60)
    expected = []
    for number in range(12):
        writer.begin_transaction()
        for value in messages(number * 100, 60 if number % 3 == 1 else 5):
            writer.produce(topic, value, partition=number % 2)
        writer.flush(30)
        if number % 3 == 1:
            writer.abort_transaction(30)
        else:
            writer.commit_transaction(30)
            expected += [f"k{number * 100 + n:06}" for n in range(5)]
    assert read_all(KafkaSource(real.servers, topic, timeout_seconds=10), rows) == expected


def test_limits_of_rows_pass_what_compaction_has_removed(real: Broker, admin: Any) -> None:
    config = {
        "cleanup.policy": "compact", "segment.ms": "500", "min.cleanable.dirty.ratio": "0.01",
        "delete.retention.ms": "100", "max.compaction.lag.ms": "500",
    }  # fmt: skip
    topic = f"compacted-{os.getpid()}-{time.time_ns()}"
    admin.create_topics([kafka.admin.NewTopic(topic, 1, 1, config=config)])[topic].result(30)
    for _ in range(3):
        for number, value in enumerate(messages(0, 10) * 60):
            real.producer.produce(topic, value, partition=0, key=str(number % 10))
        assert real.producer.flush(30) == 0
        time.sleep(0.7)
    real.put(topic, messages(50, 5), partition=0, key="new")
    end = time.monotonic() + 120
    while len(read_all(KafkaSource(real.servers, topic), 10_000)) > 700:
        assert time.monotonic() < end, "the broker does not compact the topic"
        time.sleep(2)
    source = KafkaSource(real.servers, topic, timeout_seconds=10)
    found = read_all(source, 20)
    assert {f"k{n:06}" for n in (*range(10), 54)} <= set(found)


def read_all(source: KafkaSource, rows: int) -> list[str]:
    """The keys of all messages, in batches of at most some rows."""
    checkpoint, found = None, list[str]()
    while (batch := source.read(checkpoint, SourceLimits(rows, None), SCHEMA)) is not None:
        some = ids(batch)
        assert 0 < len(some) <= rows
        found += some
        checkpoint = batch.checkpoint
    return sorted(found)


def test_an_open_transaction_ends_the_batch_before_it(real: Broker) -> None:
    topic = real.topic(1)
    real.put(topic, messages(0, 2), partition=0)
    writer = kafka.Producer({"bootstrap.servers": real.servers, "transactional.id": topic})
    writer.init_transactions(60)
    writer.begin_transaction()
    writer.produce(topic, messages(2, 1)[0], partition=0)
    writer.flush(30)
    real.put(topic, messages(3, 1), partition=0)
    source = KafkaSource(real.servers, topic, timeout_seconds=20)
    batch = source.read(None, ALL, SCHEMA)
    assert batch is not None
    assert (ids(batch), batch.checkpoint) == (["k000000", "k000001"], f"{topic},0:2")
    writer.commit_transaction(30)
    assert ids(source.read(batch.checkpoint, ALL, SCHEMA)) == ["k000002", "k000003"]


def test_expired_messages_are_an_error_or_skipped(real: Broker, admin: Any) -> None:
    topic = real.topic(1)
    real.put(topic, messages(0, 10), partition=0)
    place = kafka.TopicPartition(topic, 0, 6)
    admin.delete_records([place])[kafka.TopicPartition(topic, 0)].result(30)
    assert ids(KafkaSource(real.servers, topic).read(None, ALL, SCHEMA)) == [
        f"k{n:06}" for n in range(6, 10)
    ]
    with pytest.raises(SourceDataLostError, match=r"3 of 6\.\.10"):
        KafkaSource(real.servers, topic).read(f"{topic},0:3", ALL, SCHEMA)
    again = KafkaSource(real.servers, topic, on_data_loss="earliest")
    assert len(ids(again.read(f"{topic},0:3", ALL, SCHEMA))) == 4
    latest = KafkaSource(real.servers, topic, on_data_loss="latest")
    assert latest.read(f"{topic},0:3", ALL, SCHEMA) is None


def test_a_topic_that_was_deleted_and_created_again(
    real: Broker, admin: Any, tmp_path: Path
) -> None:
    topic = real.topic(2)
    real.put(topic, messages(0, 10), partition=0)
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", ordering="ts")
    source = KafkaSource(real.servers, topic)
    assert Stream(source, table).run_once() is not None
    admin.delete_topics([topic])[topic].result(30)
    time.sleep(2)
    with pytest.raises(UserError, match="does not exist"):
        KafkaSource(real.servers, topic).read(table.checkpoint(), ALL, SCHEMA)
    real.create(topic, 1)
    time.sleep(2)
    real.put(topic, messages(100, 3), partition=0)
    with pytest.raises(SourceDataLostError):
        Stream(KafkaSource(real.servers, topic), table).run_once()
    again = KafkaSource(real.servers, topic, on_data_loss="earliest")
    assert Stream(again, table).run_once() is not None
    assert table.checkpoint() == f"{topic},0:3"
    assert table.count() == 13


def test_a_start_by_time(real: Broker) -> None:
    topic = real.topic(2)
    for number in range(4):
        stamp = 1_700_000_000_000 + number * 1000
        real.put(topic, messages(number, 1), partition=0, timestamp=stamp)
    start = datetime.fromtimestamp(1_700_000_001.5, UTC)
    source = KafkaSource(real.servers, topic, start=start)
    assert ids(source.read(None, ALL, SCHEMA)) == ["k000002", "k000003"]
    later = KafkaSource(real.servers, topic, start=datetime(2040, 1, 1, tzinfo=UTC))
    assert later.read(None, ALL, SCHEMA) is None


def test_partitions_that_are_added_while_a_stream_runs(real: Broker, admin: Any) -> None:
    topic = real.topic(1)
    real.put(topic, messages(0, 2), partition=0)
    source = KafkaSource(real.servers, topic)
    batch = source.read(None, ALL, SCHEMA)
    assert batch is not None
    admin.create_partitions([kafka.admin.NewPartitions(topic, 3)])[topic].result(30)
    time.sleep(2)
    Broker(real.servers, is_real=True).put(topic, messages(2, 1), partition=2)
    following = source.read(batch.checkpoint, ALL, SCHEMA)
    assert ids(following) == ["k000002"]
    assert following is not None and following.checkpoint == f"{topic},0:2,1:0,2:1"


def test_wrong_credentials_are_not_retried(real: Broker) -> None:
    config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
              "sasl.username": "a", "sasl.password": "b"}  # fmt: skip
    source = KafkaSource(real.servers, "any", config=config, timeout_seconds=3)
    with pytest.raises(StorageError, match="Kafka refused the connection") as caught:
        source.read(None, ALL, SCHEMA)
    assert not caught.value.retryable


def test_ten_kills_lose_and_double_nothing(real: Broker, tmp_path: Path) -> None:
    new_table(tmp_path / "t")
    feed = TopicFeed(real.servers, real.topic(4), 4)
    found = KillRun(feed, tmp_path / "t", 30, 10, 1000, "insert", max_rows=2000).run()
    assert found["kills"] == 10


def test_a_checkpoint_that_is_a_time_or_one_offset(real: Broker) -> None:
    topic = real.topic(1)
    for number in range(4):
        real.put(topic, messages(number, 1), partition=0, timestamp=1_700_000_000_000 + number)
    timed = KafkaSource(real.servers, topic, checkpoint_type="timestamp")
    batch = timed.read("1700000000002", ALL, SCHEMA)
    assert ids(batch) == ["k000002", "k000003"]
    assert batch is not None and batch.checkpoint == f"{topic},0:4"
    assert timed.read("1900000000000", ALL, SCHEMA) is None
    single = KafkaSource(real.servers, topic, checkpoint_type="single_offset")
    assert ids(single.read("3", ALL, SCHEMA)) == ["k000003"]

"""`KafkaSource` reads a topic from a checkpoint on, whatever the topic is like."""

from __future__ import annotations

import json
import pickle
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import OptionError, SchemaError, SourceDataLostError, StorageError, UserError
from pyhudi.ingest import ErrorTable, KafkaSource, RejectedRows, SourceLimits, Stream
from pyhudi.ingest.source import SourceLag
from tests.ingest.kafka.topics import Broker, messages

SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string()})
ALL = SourceLimits(None, None)
TEN = SourceLimits(10, None)


def made(folder: Path, **how: Any) -> Any:
    how = {"record_key": "id", "partition_by": "city", "ordering": "ts", **how}
    return pyhudi.create_table(folder, SCHEMA, **how)


def ids(table: Any) -> list[str]:
    return sorted(pyhudi.open_table(table.path).scan(["id"]).to_arrow()["id"].to_pylist())


def rows_of(source: KafkaSource, checkpoint: str | None = None, limits: Any = ALL) -> Any:
    batch = source.read(checkpoint, limits, SCHEMA)
    assert batch is not None
    return batch.rows.read_all(), batch.checkpoint, batch.rejected.take()


@pytest.mark.parametrize("version", [6, 9])
def test_a_stream_writes_each_message_once(tmp_path: Path, broker: Broker, version: int) -> None:
    topic = broker.topic()
    broker.put(topic, messages(0, 100))
    table = made(tmp_path / "t", table_type="mor", version=version)
    stream = Stream(KafkaSource(broker.servers, topic, format="json"), table, max_rows=30)
    assert [report.inserted for report in stream.available()] == [30, 30, 30, 10]
    assert stream.run_once() is None
    broker.put(topic, messages(100, 10))
    again = Stream(KafkaSource(broker.servers, topic), pyhudi.open_table(tmp_path / "t"))
    assert [report.inserted for report in again.available()] == [10]
    assert ids(table) == [f"k{n:06}" for n in range(110)]
    assert table.checkpoint() == f"{topic},0:28,1:28,2:27,3:27"


def test_a_batch_ends_when_its_time_has_passed(tmp_path: Path, broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, messages(0, 25_000))
    table = made(tmp_path / "t", table_type="mor")
    stream = Stream(KafkaSource(broker.servers, topic), table, max_seconds=1e-6)
    found = [report.inserted for report in stream.available()]
    assert sum(found) == 25_000 == table.count()
    assert max(found) <= 10_000


def test_the_checkpoint_is_the_text_of_the_streamer(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, messages(0, 6))
    _, checkpoint, _ = rows_of(KafkaSource(broker.servers, topic))
    assert checkpoint == f"{topic},0:2,1:2,2:1,3:1"
    rows, _, _ = rows_of(KafkaSource(broker.servers, topic), f"{topic},3:0,0:2,2:1,1:1")
    assert sorted(rows["id"].to_pylist()) == ["k000003", "k000005"]


@pytest.mark.parametrize(
    ("checkpoint", "problem"),
    [
        ("1700000000000", "not one of a Kafka topic"),
        ("t,0", "not one of a Kafka topic"),
        ("other,0:1", "of another topic"),
    ],
)
def test_a_checkpoint_of_something_else_is_refused(
    broker: Broker, checkpoint: str, problem: str
) -> None:
    with pytest.raises(UserError, match=problem):
        KafkaSource(broker.servers, broker.topic()).read(checkpoint, ALL, SCHEMA)


def test_the_same_checkpoint_gives_the_same_rows_again(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, messages(0, 40))
    source = KafkaSource(broker.servers, topic)
    first, checkpoint, _ = rows_of(source)
    second, same, _ = rows_of(source)
    assert same == checkpoint
    assert first.sort_by("id").equals(second.sort_by("id"))


def test_partitions_that_are_added_are_read_from_their_first_message(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, messages(0, 4))
    rows, checkpoint, _ = rows_of(KafkaSource(broker.servers, topic), f"{topic},0:1,1:1")
    assert sorted(rows["id"].to_pylist()) == ["k000002", "k000003"]
    assert checkpoint == f"{topic},0:1,1:1,2:1,3:1"


@pytest.mark.parametrize(
    ("at", "left"), [("earliest", ["k000000", "k000001", "k000002", "k000003"]), ("latest", None)]
)
def test_lost_messages_are_an_error_or_skipped(broker: Broker, at: str, left: Any) -> None:
    """The topic is shorter than the checkpoint: it was created again."""
    topic = broker.topic()
    broker.put(topic, messages(0, 4))
    checkpoint = f"{topic},0:7,1:7,2:7,3:7"
    with pytest.raises(SourceDataLostError, match="no longer in the topic"):
        KafkaSource(broker.servers, topic).read(checkpoint, ALL, SCHEMA)
    batch = KafkaSource(broker.servers, topic, on_data_loss=at).read(checkpoint, ALL, SCHEMA)
    found = None if batch is None else sorted(batch.rows.read_all()["id"].to_pylist())
    assert found == left


def test_the_start_can_be_latest_or_offsets(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, messages(0, 8))
    source = KafkaSource(broker.servers, topic, start="latest")
    assert source.read(None, ALL, SCHEMA) is None
    broker.put(topic, messages(8, 1))
    assert rows_of(source)[0]["id"].to_pylist() == ["k000008"]
    rows, _, _ = rows_of(KafkaSource(broker.servers, topic, start={0: 2, 1: 2, 2: 2}))
    assert sorted(rows["id"].to_pylist()) == ["k000003", "k000007", "k000008"]


def test_bad_messages_are_rejected_and_their_neighbours_are_read(broker: Broker) -> None:
    topic = broker.topic()
    good = messages(0, 5)
    bad = [b"", b"no json", b'{"id": "x"', b"[1]", b'{"id": "\xff"}', b'{"id":"a"}{"id":"b"}']
    wrong = [b'{"id": "w", "ts": "text"}']
    broker.put(topic, [*good[:2], *bad, *good[2:], *wrong], partition=0)
    rows, checkpoint, rejected = rows_of(KafkaSource(broker.servers, topic))
    assert rows["id"].to_pylist() == [f"k{n:06}" for n in range(5)]
    assert rejected["raw"].to_pylist() == [*bad, *wrong]
    assert rejected["position"].to_pylist() == [f"{topic},0:{n}" for n in (2, 3, 4, 5, 6, 7, 11)]
    assert all(rejected["reason"].to_pylist())
    assert checkpoint == f"{topic},0:12,1:0,2:0,3:0"


def test_a_message_that_does_not_fit_the_table_is_rejected_with_its_position(
    tmp_path: Path, broker: Broker
) -> None:
    """After messages that are no rows, and in a batch of another size too."""
    topic = broker.topic()
    keyless = b'{"id": null, "ts": 1, "city": "sf"}'
    broker.put(topic, [b"no json", *messages(0, 2), keyless], partition=1)
    broker.put(topic, [*messages(5, 1), keyless, keyless], partition=2)
    for name, rows in (("a", None), ("b", 2)):
        errors = ErrorTable(str(tmp_path / f"errors {name}"))
        table = made(tmp_path / name)
        Stream(KafkaSource(broker.servers, topic), table, bad_rows=errors, max_rows=rows).run()
        found = pyhudi.open_table(errors.path).scan(["position"]).to_arrow()["position"]
        assert sorted(found.to_pylist()) == [f"{topic},{p}" for p in ("1:0", "1:3", "2:1", "2:2")]


def test_messages_with_line_breaks_are_one_row(broker: Broker) -> None:
    topic = broker.topic()
    pretty = json.dumps({"id": "a", "ts": 1, "city": "x\ny"}, indent=2).encode()
    broker.put(topic, [pretty, *messages(0, 1), b'\n {"id": "b"}\r\n'], partition=0)
    rows, _, rejected = rows_of(KafkaSource(broker.servers, topic))
    assert rows["id"].to_pylist() == ["a", "k000000", "b"]
    assert rows["city"].to_pylist() == ["x\ny", "c0", None]
    assert rejected.num_rows == 0


def test_null_values_delete_the_row_of_the_key(tmp_path: Path, broker: Broker) -> None:
    topic = broker.topic()
    table = made(tmp_path / "t", partition_by=None)
    source = KafkaSource(broker.servers, topic, key_columns=["id"])
    broker.put(topic, messages(0, 6))
    Stream(source, table).run_once()
    broker.put(topic, [None], key="k000002", partition=0)
    broker.put(topic, messages(6, 1), partition=0)
    Stream(source, table).run_once()
    assert ids(table) == [f"k{n:06}" for n in (0, 1, 3, 4, 5, 6)]


def test_a_null_value_deletes_the_row_of_an_earlier_message_of_the_same_batch(
    tmp_path: Path, broker: Broker
) -> None:
    topic = broker.topic()
    table = made(tmp_path / "t", partition_by=None)
    broker.put(topic, messages(1, 3), partition=0)
    broker.put(topic, [None], key="k000002", partition=0)
    broker.put(topic, [None], key="k000003", partition=0)
    broker.put(topic, messages(3, 1), partition=0)
    Stream(KafkaSource(broker.servers, topic, key_columns=["id"]), table).run_once()
    assert ids(table) == ["k000001", "k000003"]


def test_null_values_are_rejected_or_skipped(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, [None, *messages(0, 1)], partition=0)
    rows, _, rejected = rows_of(KafkaSource(broker.servers, topic))
    assert (rows.num_rows, rejected["reason"].to_pylist()) == (
        1,
        ["the value is null; state null_values"],
    )
    rows, _, rejected = rows_of(KafkaSource(broker.servers, topic, null_values="skip"))
    assert (rows.num_rows, rejected.num_rows) == (1, 0)


def test_columns_of_the_message_are_added(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, [b"bad"], partition=1)
    broker.put(
        topic, messages(0, 1), partition=1, key=b"the key", timestamp=1_700_000_000_000,
        headers=[("trace", b"\x01"), ("trace", None)],
    )  # fmt: skip
    columns = ["offset", "partition", "timestamp", "key", "headers"]
    rows, _, _ = rows_of(KafkaSource(broker.servers, topic, columns=columns))
    assert rows.drop_columns(["id", "ts", "city"]).to_pylist() == [
        {
            "_hoodie_kafka_source_offset": 1,
            "_hoodie_kafka_source_partition": 1,
            "_hoodie_kafka_source_timestamp": 1_700_000_000_000,
            "_hoodie_kafka_source_key": "the key",
            "_hoodie_kafka_source_headers": [
                {"key": "trace", "value": b"\x01"},
                {"key": "trace", "value": None},
            ],
        }
    ]


def test_splits_give_the_same_rows_elsewhere(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, [*messages(0, 40), b"bad"])
    source = KafkaSource(broker.servers, topic)
    batch = source.read(None, SourceLimits(30, None), SCHEMA)
    assert batch is not None
    broker.put(topic, messages(50, 10))  # after the ends of the splits
    rejected = RejectedRows()
    parts = [
        row
        for split in pickle.loads(pickle.dumps(batch.splits))
        for part in split.read(rejected)
        for row in part.to_pylist()
    ]
    expected = batch.rows.read_all().to_pylist()
    assert sorted(parts, key=lambda row: row["id"]) == sorted(expected, key=lambda row: row["id"])


@pytest.mark.parametrize("schema", [SCHEMA, pa.schema([])], ids=["table", "no table"])
def test_splits_reject_the_rows_that_the_batch_rejects(broker: Broker, schema: pa.Schema) -> None:
    topic = broker.topic()
    broker.put(topic, [b'{"id": "a", "new": 1}'], partition=0)
    broker.put(topic, [b'{"id": "b", "new": "x"}', b'{"id": "c", "new": 2}'], partition=1)
    batch = KafkaSource(broker.servers, topic).read(None, SourceLimits(None, None), schema)
    assert batch is not None
    rows, rejected = batch.rows.read_all().to_pylist(), RejectedRows()
    parts = [
        row for split in batch.splits for part in split.read(rejected) for row in part.to_pylist()
    ]
    assert sorted(parts, key=str) == sorted(rows, key=str)
    positions = sorted(rejected.take()["position"].to_pylist())
    assert positions == sorted(batch.rejected.take()["position"].to_pylist())
    # A broker may send either partition first, and the first value decides the column's type.
    assert positions in ([f"{topic},1:0"], [f"{topic},0:0", f"{topic},1:1"])


def test_a_plan_has_the_same_share_of_each_partition(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, messages(0, 3), partition=0)
    broker.put(topic, messages(3, 30), partition=1)
    batch = KafkaSource(broker.servers, topic).plan(None, SourceLimits(10, None), SCHEMA)
    assert batch is not None
    assert batch.checkpoint == f"{topic},0:3,1:7,2:0,3:0"
    rows = [row for split in batch.splits for part in split.read(RejectedRows()) for row in part]
    assert sum(len(split_rows) for split_rows in rows) > 0
    found = [
        key
        for split in batch.splits
        for part in split.read(RejectedRows())
        for key in part["id"].to_pylist()
    ]
    assert found == [f"k{n:06}" for n in range(10)]


def test_a_limit_of_rows_takes_the_same_messages_again(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, messages(0, 200), partition=1)
    broker.put(topic, messages(200, 200))
    found = set()
    for _ in range(3):
        rows, checkpoint, _ = rows_of(KafkaSource(broker.servers, topic), None, TEN)
        found.add((tuple(sorted(rows["id"].to_pylist())), checkpoint))
    assert len(found) == 1


def test_messages_that_were_read_ahead_are_given_once(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, messages(0, 200), partition=1)
    broker.put(topic, messages(200, 40))
    source, checkpoint, found = KafkaSource(broker.servers, topic), None, []
    while (batch := source.read(checkpoint, TEN, SCHEMA)) is not None:
        found += batch.rows.read_all()["id"].to_pylist()
        checkpoint = batch.checkpoint
        broker.put(topic, messages(240 + len(found), 1) if len(found) < 50 else [])
    assert len(found) == len(set(found))
    assert {f"k{n:06}" for n in range(240)} < set(found)


def test_limits_of_bytes_end_a_batch(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, messages(0, 12, note="x" * 1000))
    source, checkpoint, sizes = KafkaSource(broker.servers, topic), None, []
    while (batch := source.read(checkpoint, SourceLimits(None, 1), SCHEMA)) is not None:
        sizes.append(batch.rows.read_all().num_rows)
        checkpoint = batch.checkpoint
    assert sizes == [1] * 12


def test_the_position_is_reported_to_the_group(tmp_path: Path, broker: Broker) -> None:
    import confluent_kafka as kafka

    topic = broker.topic()
    broker.put(topic, messages(0, 8))
    source = KafkaSource(broker.servers, topic, group="watchers")
    assert source.lag_by_partition(None) == {0: 2, 1: 2, 2: 2, 3: 2}
    assert source.lag(None) == SourceLag(rows=8)
    table = made(tmp_path / "t")
    Stream(source, table).run_once()
    assert source.lag(table.checkpoint()) == SourceLag(rows=0)
    watcher = kafka.Consumer({"bootstrap.servers": broker.servers, "group.id": "watchers"})
    committed = watcher.committed([kafka.TopicPartition(topic, p) for p in range(4)], timeout=10)
    assert [entry.offset for entry in committed] == [2, 2, 2, 2]
    watcher.close()


def test_a_broker_that_does_not_answer_is_an_error_that_may_pass() -> None:
    source = KafkaSource("127.0.0.1:9", "trips", timeout_seconds=0.5)
    with pytest.raises(StorageError, match="Kafka did not answer") as caught:
        source.read(None, ALL, SCHEMA)
    assert caught.value.retryable


@pytest.mark.parametrize(
    "wrong",
    [
        {"start": "yesterday"},
        {"on_data_loss": "ignore"},
        {"null_values": "drop"},
        {"null_values": "delete"},
        {"columns": ["offsets"]},
        {"format": "xml"},
        {"key_columns": ["a", "b"]},
    ],
)
def test_wrong_values_of_arguments_are_refused(wrong: dict[str, Any]) -> None:
    with pytest.raises(OptionError):
        KafkaSource("127.0.0.1:9", "trips", **wrong)


def test_a_plan_refuses_a_field_that_its_columns_lack(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, [b'{"id": "a", "extra": {"n": 1, "new": 2}}'], partition=0)
    schema = pa.schema({"id": pa.string(), "extra": pa.struct({"n": pa.int64()})})
    batch = KafkaSource(broker.servers, topic).plan(None, ALL, schema)
    assert batch is not None
    with pytest.raises(SchemaError, match=r"extra\.new"):
        [list(split.read(RejectedRows())) for split in batch.splits]


def test_key_columns_that_the_table_lacks_are_refused(broker: Broker) -> None:
    source = KafkaSource(broker.servers, broker.topic(), key_columns=["uuid"])
    with pytest.raises(SchemaError, match="no such key columns"):
        source.read(None, ALL, SCHEMA)


def test_new_fields_become_columns(tmp_path: Path, broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, messages(0, 2))
    broker.put(topic, messages(2, 2, at="2024-01-01", extra={"n": 1}))
    table = made(tmp_path / "t")
    Stream(KafkaSource(broker.servers, topic), table).run_once()
    found = pyhudi.open_table(tmp_path / "t").scan(["id", "at", "extra"]).to_arrow().sort_by("id")
    assert found["at"].to_pylist() == [None, None, "2024-01-01", "2024-01-01"]
    assert found["extra"].to_pylist() == [None, None, {"n": 1}, {"n": 1}]


def test_a_start_by_time_is_refused_or_found(broker: Broker) -> None:
    source = KafkaSource(broker.servers, broker.topic(), start=datetime(2020, 1, 1, tzinfo=UTC))
    assert source.read(None, ALL, SCHEMA) is None

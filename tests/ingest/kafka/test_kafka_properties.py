"""A Kafka source made from properties of Apache Hudi's streamer."""

from __future__ import annotations

import confluent_kafka as kafka
import pyarrow as pa
import pytest

from pyhudi.errors import OptionError, SourceDataLostError, UserError
from pyhudi.ingest import SourceLimits
from pyhudi.ingest.source_registry import source_from
from tests.ingest.kafka.topics import Broker, messages

SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string()})
ALL = SourceLimits(None, None)


def test_the_properties_of_a_streamer_make_the_source(broker: Broker) -> None:
    topic = broker.topic()
    broker.put(topic, messages(0, 4))
    properties = {
        "bootstrap.servers": broker.servers, "source.kafka.topic": topic, "format": "json",
        "auto.offset.reset": "earliest", "group.id": "streamer", "client.id": "test",
    }  # fmt: skip
    batch = source_from("kafka", properties).read(None, ALL, SCHEMA)
    assert batch is not None
    assert batch.rows.read_all().num_rows == 4
    latest = {name: properties[name] for name in ("bootstrap.servers", "source.kafka.topic")}
    assert source_from("kafka", latest).read(None, ALL, SCHEMA) is None
    placed = {**properties, "source.kafka.append.offsets": "true"}
    batch = source_from("kafka", placed).read(None, ALL, SCHEMA)
    assert batch is not None
    columns = [f"_hoodie_kafka_source_{name}" for name in ("offset", "partition", "timestamp")]
    assert [name for name in batch.rows.schema.names if name not in SCHEMA.names] == columns
    lost = f"{topic},0:9"
    with pytest.raises(SourceDataLostError):
        source_from("kafka", properties).read(lost, ALL, SCHEMA)
    source = source_from("kafka", {**properties, "source.kafka.enable.failOnDataLoss": "false"})
    assert source.read(lost, ALL, SCHEMA) is not None


@pytest.mark.parametrize(
    "wrong",
    [
        {"bootstrap.servers": "127.0.0.1:9"},
        {"source.kafka.topic": "trips"},
        {
            "bootstrap.servers": "127.0.0.1:9",
            "source.kafka.topic": "trips",
            "source.kafka.enable.failOnDataLoss": "perhaps",
        },
        {
            "bootstrap.servers": "127.0.0.1:9",
            "source.kafka.topic": "trips",
            "source.kafka.checkpoint.type": "number",
        },
        {
            "bootstrap.servers": "127.0.0.1:9",
            "source.kafka.topic": "trips",
            "source.kafka.enable.commit.offset": "true",
        },
    ],
)
def test_missing_and_wrong_properties_are_refused(wrong: dict[str, str]) -> None:
    with pytest.raises(OptionError):
        source_from("kafka", wrong)


def test_a_checkpoint_can_be_a_time_or_the_offset_of_the_only_partition(broker: Broker) -> None:
    topic = broker.topic()
    for number in range(4):
        broker.put(topic, messages(number, 1), partition=0, timestamp=1000 * (number + 1))
    properties = {"bootstrap.servers": broker.servers, "source.kafka.topic": topic}
    timed = source_from("kafka", {**properties, "source.kafka.checkpoint.type": "timestamp"})
    single = source_from("kafka", {**properties, "source.kafka.checkpoint.type": "single_offset"})
    for source in (timed, single):
        batch = source.read(f"{topic},0:3", ALL, SCHEMA)
        assert batch is not None and batch.checkpoint == f"{topic},0:4,1:0,2:0,3:0"
        assert batch.rows.read_all()["ts"].to_pylist() == [3]
    with pytest.raises(UserError, match="several partitions"):
        single.read("3", ALL, SCHEMA)
    with pytest.raises(UserError, match="not one of a Kafka topic"):
        source_from("kafka", properties).read("3", ALL, SCHEMA)


def test_offsets_are_committed_to_the_group_unless_that_is_off(broker: Broker) -> None:
    def committed(**stated: str) -> int:
        topic = broker.topic()
        broker.put(topic, messages(0, 3), partition=0)
        properties = {
            "bootstrap.servers": broker.servers, "source.kafka.topic": topic,
            "auto.offset.reset": "earliest", "group.id": f"group-{topic}",
            **{f"source.kafka.{name}": value for name, value in stated.items()},
        }  # fmt: skip
        batch = source_from("kafka", properties).read(None, ALL, SCHEMA)
        assert batch is not None
        batch.committed()
        reader = kafka.Consumer(
            {"bootstrap.servers": broker.servers, "group.id": properties["group.id"]}
        )
        try:
            return int(reader.committed([kafka.TopicPartition(topic, 0)], timeout=30)[0].offset)
        finally:
            reader.close()

    assert committed() == 3
    assert committed(**{"enable.commit.offset": "true"}) == 3
    assert committed(**{"enable.commit.offset": "false"}) == kafka.OFFSET_INVALID

"""Brokers for tests: the brokers that librdkafka simulates, reachable from other processes too."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import count
from typing import Any

import confluent_kafka as kafka
from confluent_kafka.admin import AdminClient, NewTopic

PARTITIONS = 4
_numbers = count()


@dataclass
class Broker:
    """servers: `host:port` of the brokers.  is_real: of Kafka; others create topics when they
    are first mentioned, with PARTITIONS partitions, and nothing else."""

    servers: str
    is_real: bool = False
    producer: Any = field(init=False)

    def __post_init__(self) -> None:
        self.producer = kafka.Producer({"bootstrap.servers": self.servers, "linger.ms": 5})

    def topic(self, partitions: int = PARTITIONS) -> str:
        """A new topic."""
        name = f"topic-{os.getpid()}-{next(_numbers)}"
        self.create(name, partitions)
        return name

    def create(self, name: str, partitions: int = PARTITIONS) -> None:
        if not self.is_real:
            assert self.producer.list_topics(name, timeout=30).topics[name].error is None
            return
        admin = AdminClient({"bootstrap.servers": self.servers})
        admin.create_topics([NewTopic(name, partitions, 1)])[name].result(30)

    def count(self, topic: str, partition: int) -> int:
        """The offset of the next message."""
        place = kafka.TopicPartition(topic, partition, -1)
        reader = kafka.Consumer({"bootstrap.servers": self.servers, "group.id": "count"})
        try:
            return int(reader.offsets_for_times([place], timeout=30)[0].offset)
        finally:
            reader.close()

    def put(
        self, topic: str, values: Iterable[bytes | None], partition: int | None = None, **how: Any
    ) -> None:
        """Values in turn over the partitions, or in one."""
        for number, value in enumerate(values):
            target = number % PARTITIONS if partition is None else partition
            self.producer.produce(topic, value, partition=target, **how)
        assert self.producer.flush(30) == 0


@contextmanager
def mock_brokers() -> Iterator[Broker]:
    owner = kafka.Producer({"test.mock.num.brokers": 1, "log_level": 3})
    found = owner.list_topics(timeout=10).brokers.values()
    yield Broker(",".join(f"{broker.host}:{broker.port}" for broker in found))
    owner.flush(1)


def messages(first: int, number: int, **more: Any) -> list[bytes]:
    """JSON objects with the keys k0001 and so on."""
    return [
        json.dumps({"id": f"k{n:06}", "ts": n, "city": f"c{n % 3}", **more}).encode()
        for n in range(first, first + number)
    ]

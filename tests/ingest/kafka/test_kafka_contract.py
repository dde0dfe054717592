"""KafkaSource satisfies the contract of all sources."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import ExitStack

import pyarrow as pa
import pytest

from pyhudi.errors import SourceDataLostError
from pyhudi.ingest import KafkaSource, RowSource
from tests.ingest.contract import SourceContract, SourceHarness
from tests.ingest.kafka.topics import Broker, mock_brokers


class _TopicHarness(SourceHarness):
    """Messages of a topic.  Data are lost when the topic is created again, on other brokers."""

    foreign_checkpoint = "1700000000000"
    loses = SourceDataLostError
    has_undecodable_rows = True

    def __init__(self, broker: Broker, others: ExitStack) -> None:
        self._broker, self._others, self._topic = broker, others, broker.topic()

    def source(self) -> RowSource:
        return KafkaSource(self._broker.servers, self._topic)

    def add(self, rows: pa.Table) -> None:
        self._broker.put(self._topic, [json.dumps(row).encode() for row in rows.to_pylist()])

    def lose(self) -> None:
        self._broker = self._others.enter_context(mock_brokers())
        self._broker.create(self._topic)

    def add_undecodable(self) -> tuple[bytes, str]:
        before = self._broker.count(self._topic, 2)
        self._broker.put(self._topic, [b"no json"], partition=2)
        return b"no json", f"{self._topic},2:{before}"


class TestKafkaSource(SourceContract):
    @pytest.fixture
    def harness(self, broker: Broker) -> Iterator[SourceHarness]:
        with ExitStack() as others:
            yield _TopicHarness(broker, others)

"""Brokers that tests read: those inside librdkafka, or a real one of $PYHUDI_KAFKA."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.ingest.kafka.topics import Broker, mock_brokers


@pytest.fixture(scope="session")
def mock_broker() -> Iterator[Broker]:
    with mock_brokers() as broker:
        yield broker


@pytest.fixture
def broker(mock_broker: Broker) -> Broker:
    return mock_broker

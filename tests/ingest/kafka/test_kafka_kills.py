"""A stream of a topic that is killed at random loses and doubles nothing."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

from tests.ingest.kafka.topics import Broker
from tests.ingest.kill_run import KillRun, TopicFeed, check, events, new_table


def test_ten_kills_lose_and_double_nothing(tmp_path: Path, broker: Broker) -> None:
    """The messages are inserted, so one that is written twice is two rows."""
    new_table(tmp_path / "t")
    feed = TopicFeed(broker.servers, broker.topic(), 4)
    run = KillRun(feed, tmp_path / "t", 9, 10, 200, "insert", max_rows=200)
    found = run.run()
    assert found["kills"] == 10
    assert found["events"] >= 200


def test_events_that_are_missing_or_doubled_are_noticed() -> None:
    whole = events(0, 1000)
    check(whole, 1000)
    for wrong in (whole.slice(1), pa.concat_tables([whole.slice(1), whole.slice(5, 1)])):
        with pytest.raises(AssertionError):
            check(wrong, 1000)

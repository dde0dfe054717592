"""Offsets without messages: every message that can be read arrives once, in order, and a read
always goes on, whatever transactions, compaction, expiry and limits leave between two messages.

Generated topics are compared with the list of what was written to them.  PYHUDI_TOPICS: how many.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.errors import SourceDataLostError, StorageError, UserError
from pyhudi.ingest import KafkaSource, RejectedRows, SourceLimits
from tests.ingest.kafka.log_broker import (
    FETCH,
    LEADER_MISSING,
    LIST_OFFSETS,
    METADATA,
    NOT_LEADER,
    SASL,
    SASL_MECHANISM,
    TOPIC_DENIED,
    UNKNOWN_TOPIC,
    Log,
    LogBroker,
    log_broker,
)
from tests.ingest.kafka.topics import messages

SCHEMA = pa.schema({"id": pa.string(), "ts": pa.int64(), "city": pa.string()})
PLACE = ["_hoodie_kafka_source_partition", "_hoodie_kafka_source_offset"]
ALL = SourceLimits(None, None)
CASES = int(os.environ.get("PYHUDI_TOPICS", "4"))


@pytest.fixture(scope="module")
def logs() -> Iterator[LogBroker]:
    with log_broker() as broker:
        yield broker


@pytest.fixture
def broker(logs: LogBroker) -> Iterator[LogBroker]:
    yield logs
    logs.fault, logs.fetch_bytes, logs.pause_seconds = (lambda kind: None), 1 << 20, 0.0


def source_of(broker: LogBroker, topic: str, **how: Any) -> KafkaSource:
    config = {"fetch.wait.max.ms": 5}  # a connection answers one request at a time
    how = {"timeout_seconds": 10, "columns": ["partition", "offset"], "config": config, **how}
    return KafkaSource(broker.servers, topic, **how)


def read_all(
    source: KafkaSource, limits: SourceLimits, checkpoint: str | None = None
) -> tuple[list[tuple[int, int]], str | None]:
    """The places of all messages, batch by batch, and the last checkpoint."""
    found: list[tuple[int, int]] = []
    while (batch := source.read(checkpoint, limits, SCHEMA)) is not None:
        found += places(batch)
        checkpoint = batch.checkpoint
    return found, checkpoint


def places(batch: Any) -> list[tuple[int, int]]:
    """Of the rows and the rejected messages."""
    rows = batch.rows.read_all().select(PLACE).to_pydict()
    found = list(zip(*rows.values(), strict=True))
    for position in batch.rejected.take()["position"].to_pylist():
        partition, offset = position.rsplit(",", 1)[1].split(":")
        found.append((int(partition), int(offset)))
    return sorted(found)


@pytest.mark.parametrize("rows", [1, 11, None])
@pytest.mark.parametrize("hole", [1, 500, 1_200_000])
def test_a_limit_of_rows_passes_offsets_without_messages(
    broker: LogBroker, rows: int | None, hole: int
) -> None:
    """As compaction leaves them."""
    (log,) = broker.topic(f"hole-{rows}-{hole}", 1)
    log.put(messages(0, 10))
    log.end += hole
    log.put(messages(10, 20))
    found, checkpoint = read_all(source_of(broker, f"hole-{rows}-{hole}"), SourceLimits(rows, None))
    assert [offset for _, offset in found] == [*range(10), *range(10 + hole, 30 + hole)]
    assert checkpoint == f"hole-{rows}-{hole},0:{hole + 30}"


def test_a_batch_is_filled_over_offsets_without_messages(broker: LogBroker) -> None:
    (log,) = broker.topic("filled", 1)
    for number in range(40):
        log.put(messages(number, 1))
        log.end += 100
    log.put(messages(40, 1))
    source, checkpoint, sizes = source_of(broker, "filled"), None, []
    while (batch := source.read(checkpoint, SourceLimits(20, None), SCHEMA)) is not None:
        sizes.append(batch.rows.read_all().num_rows)
        checkpoint = batch.checkpoint
    assert sizes == [20, 20, 1]


def test_a_partition_that_sends_nothing_does_not_hold_back_the_others(broker: LogBroker) -> None:
    """Nothing is readable between the last message and the one of an open transaction."""
    topic = broker.topic("silent", 2)
    for log in topic:
        log.put(messages(0, 5))
    topic[0].end += 100
    topic[0].put(messages(5, 1), writer=1)
    source = source_of(broker, "silent", timeout_seconds=0.5)
    batch = source.read(None, ALL, SCHEMA)
    assert batch is not None and len(places(batch)) == 10
    assert batch.checkpoint == "silent,0:5,1:5"
    with pytest.raises(StorageError, match="sent no messages") as caught:
        source.read(batch.checkpoint, ALL, SCHEMA)
    assert caught.value.retryable
    topic[0].finish(1, "commit")
    assert read_all(source, ALL, batch.checkpoint)[0] == [(0, 105)]


def test_aborted_messages_for_longer_than_the_timeout_are_waited_for(broker: LogBroker) -> None:
    """The client fetches them all the time and gives none of them."""
    topic = broker.topic("aborted", 2)
    for number in range(30):
        topic[0].put(messages(number, 20), writer=1)
        topic[0].finish(1, "abort")
    topic[0].put(messages(1, 1))
    topic[1].put(messages(2, 30))
    broker.fetch_bytes, broker.pause_seconds = 1, 0.05
    source = source_of(broker, "aborted", timeout_seconds=0.6)
    found, _ = read_all(source, SourceLimits(40, None))
    assert sorted(found) == [(0, 630), *((1, n) for n in range(30))]


def test_messages_after_the_limit_are_not_collected_while_another_partition_lags(
    broker: LogBroker, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Their partition is paused, and read again in the next batch."""
    monkeypatch.setattr("pyhudi.ingest.kafka.client._AHEAD_MAX", 100)
    topic = broker.topic("lagging", 2)
    for number in range(40):
        topic[0].put(messages(number, 2), writer=1)
        topic[0].finish(1, "abort")
    topic[0].put(messages(1, 1))
    topic[1].put(messages(0, 2000))
    broker.fetch_bytes, broker.pause_seconds = 1, 0.01
    source = source_of(broker, "lagging")
    first = source.read(None, SourceLimits(20, None), SCHEMA)
    assert first is not None and len(places(first)) <= 20
    broker.pause_seconds = 0.0
    broker.fetch_bytes = 1 << 20
    found, _ = read_all(source_of(broker, "lagging"), SourceLimits(500, None))
    assert sorted(found) == [(0, 120), *((1, n) for n in range(2000))]
    rest, _ = read_all(source, SourceLimits(500, None), first.checkpoint)
    assert sorted([*rest, *places_again(source, first.checkpoint, broker)]) == sorted(found)


def places_again(source: KafkaSource, checkpoint: str, broker: LogBroker) -> list[tuple[int, int]]:
    """The messages before a checkpoint."""
    ends = dict(map(int, pair.split(":")) for pair in checkpoint.split(",")[1:])  # type: ignore[misc]
    log = broker.topics[checkpoint.split(",")[0]]
    return [
        (number, record.offset)
        for number, end in ends.items()
        for chunk in log[number].chunks
        for record in chunk.records
        if record.offset < end and (chunk.writer < 0)
    ]


def test_messages_that_expired_before_they_were_read_are_an_error(broker: LogBroker) -> None:
    (log,) = broker.topic("expired", 1)
    log.put(messages(0, 10))
    log.expire(6)
    assert [offset for _, offset in read_all(source_of(broker, "expired"), ALL)[0]] == [6, 7, 8, 9]
    with pytest.raises(SourceDataLostError, match=r"3 of 6\.\.10"):
        source_of(broker, "expired").read("expired,0:3", ALL, SCHEMA)
    again = source_of(broker, "expired", on_data_loss="earliest")
    assert len(read_all(again, ALL, "expired,0:3")[0]) == 4
    latest = source_of(broker, "expired", on_data_loss="latest")
    assert latest.read("expired,0:3", ALL, SCHEMA) is None
    log.put(messages(10, 1))
    assert read_all(latest, ALL, "expired,0:3")[0] == [(0, 10)]


@pytest.mark.parametrize(
    ("how", "checkpoint"), [({}, None), ({"on_data_loss": "earliest"}, "first,0:0")]
)
def test_messages_that_expire_between_two_requests_are_passed_over_if_that_is_allowed(
    broker: LogBroker, how: dict[str, Any], checkpoint: str | None
) -> None:
    (log,) = broker.topic("first", 1)
    log.put(messages(0, 5))
    log.put(messages(5, 5))

    def expire(kind: int) -> None:
        if kind == FETCH:
            log.expire(7)

    broker.fault = expire
    found, _ = read_all(source_of(broker, "first", **how), ALL, checkpoint)
    assert [offset for _, offset in found] == [7, 8, 9]
    log.expire(0)


def test_expired_messages_between_two_requests_are_an_error_otherwise(broker: LogBroker) -> None:
    (log,) = broker.topic("second", 1)
    log.put(messages(0, 5))
    log.put(messages(5, 5))
    broker.fault = lambda kind: log.expire(7) if kind == FETCH else None
    with pytest.raises(SourceDataLostError):
        source_of(broker, "second").read("second,0:0", ALL, SCHEMA)


def test_aborted_messages_that_expire_after_a_poll_are_not_lost(broker: LogBroker) -> None:
    (log,) = broker.topic("nothing", 1)
    log.put(messages(0, 3))
    source = source_of(broker, "nothing")
    _, checkpoint = read_all(source, ALL)
    log.put(messages(3, 5), writer=1)
    log.finish(1, "abort")
    assert source.read(checkpoint, ALL, SCHEMA) is None
    assert source.lag(checkpoint).rows == 0
    log.expire(9)
    log.put(messages(8, 1))
    assert read_all(source, ALL, checkpoint)[0] == [(0, 9)]


@dataclass
class Topic:
    """A topic that grows at random.  sent: readable messages by place; gone: removed or expired
    ones, which may have been read before."""

    broker: LogBroker
    name: str
    rng: random.Random
    sent: dict[tuple[int, int], bool] = field(default_factory=dict)
    waiting: dict[tuple[int, int], list[int]] = field(default_factory=dict)
    gone: set[tuple[int, int]] = field(default_factory=set)
    count: int = 0
    logs: list[Log] = field(init=False)

    def __post_init__(self) -> None:
        self.logs = self.broker.topic(self.name, self.rng.randint(1, 4))

    def step(self, reached: dict[int, int]) -> None:
        """One change.  reached: offsets up to which messages were read for good."""
        rng = self.rng
        number = rng.randrange(len(self.logs))
        with self.broker.lock:
            log, kind = self.logs[number], rng.random()
            if kind < 0.35:
                self._sent(number, log.put(self._values()))
            elif kind < 0.65:
                self._transact(number, log)
            elif kind < 0.75 and not log.open:
                log.end += rng.choice((1, 9, 300, 1_500_000))
                self._sent(number, log.put(self._values()))
            elif kind < 0.85:
                self._compact(number, log)
            elif kind < 0.95:
                self._expire(number, log, reached.get(number, 0))
            elif len(self.logs) < 6:
                self.logs.append(Log())

    def finish(self) -> None:
        """End all open transactions."""
        for number, log in enumerate(self.logs):
            for writer in list(log.open):
                self._end(number, log, writer)

    def _values(self) -> list[bytes | None]:
        found: list[bytes | None] = []
        for _ in range(self.rng.choice((1, 3, 20))):
            self.count += 1
            bad = self.rng.random() < 0.1
            found.append(b"no json %d" % self.count if bad else messages(self.count, 1)[0])
        return found

    def _sent(self, number: int, offsets: list[int]) -> None:
        self.sent |= {(number, offset): True for offset in offsets}

    def _transact(self, number: int, log: Log) -> None:
        writer = self.rng.randrange(2)
        if writer in log.open and self.rng.random() < 0.6:
            self._end(number, log, writer)
            return
        offsets = log.put(self._values(), writer=writer)
        self.waiting.setdefault((number, writer), []).extend(offsets)

    def _end(self, number: int, log: Log, writer: int) -> None:
        offsets = self.waiting.pop((number, writer), [])
        ends = self.rng.choice(("commit", "abort"))
        log.finish(writer, ends)
        if ends == "commit":
            self._sent(number, offsets)

    def _compact(self, number: int, log: Log) -> None:
        """Not the newest records that can be read, and none of open transactions."""
        bound = max((c.first for c in log.chunks if c.last < log.stable), default=0)
        share = self.rng.random()
        removed = {c.first + n for c in log.chunks for n in range(len(c.records))
                   if self.rng.random() < share and c.last < bound}  # fmt: skip
        log.compact(lambda record: record.offset not in removed, self.rng)
        self._lose(number, removed)

    def _expire(self, number: int, log: Log, reached: int) -> None:
        log.expire(self.rng.randint(log.start, max(log.start, reached)))
        self._lose(number, {o for p, o in self.sent if p == number and o < log.start})

    def _lose(self, number: int, offsets: set[int]) -> None:
        for offset in offsets:
            self.gone.add((number, offset))


@dataclass
class Reading:
    """Reads a topic as a stream does, and is killed at random."""

    topic: Topic
    rng: random.Random
    checkpoint: str | None = None
    found: list[tuple[int, int]] = field(default_factory=list)
    kills: int = 0
    failures: int = 0
    source: KafkaSource = field(init=False)

    def __post_init__(self) -> None:
        self._start()

    def _start(self) -> None:
        how = {"group": self.topic.name, "timeout_seconds": 3}
        self.source = source_of(self.topic.broker, self.topic.name, **how)

    @property
    def reached(self) -> dict[int, int]:
        if self.checkpoint is None:
            return {}
        pairs = (pair.split(":") for pair in self.checkpoint.split(",")[1:])
        return {int(partition): int(offset) for partition, offset in pairs}

    def batch(self) -> bool:
        """Read one batch, commit it or die; whether there was one."""
        rng = self.rng
        limits = SourceLimits(
            rng.choice((1, 3, 10, 50, None)),
            rng.choice((None, None, 1, 200, 5000)),
            rng.choice((None, None, 1e-6)),
        )
        try:
            batch = self.source.read(self.checkpoint, limits, SCHEMA)
        except StorageError as error:
            assert error.retryable, error
            self.failures += 1
            return True
        if batch is None:
            return False
        found = places(batch)
        assert 0 < len(found) <= (limits.rows or 1 << 30)
        self._check_splits(batch, found)
        if rng.random() < 0.15:
            self.kills += 1
            if rng.random() < 0.5:
                self._start()
            return True
        self.found += found
        self.checkpoint = batch.checkpoint
        batch.committed()
        if rng.random() < 0.1:
            self.kills += 1
            self._start()
        return True

    def _check_splits(self, batch: Any, found: list[tuple[int, int]]) -> None:
        """The same messages, if a task reads them."""
        if self.rng.random() > 0.1 or self.topic.gone:
            return
        rejected = RejectedRows()
        rows = [rows for split in batch.splits for rows in split.read(rejected)]
        count = sum(part.num_rows for part in rows) + rejected.take().num_rows
        assert count == len(found)


def flaky(rng: random.Random) -> Any:
    """Faults of a broker that pass."""

    def fault(kind: int) -> int | None:
        if rng.random() > 0.02:
            return None
        if kind in (FETCH, LIST_OFFSETS):
            return rng.choice((NOT_LEADER, -1))
        return rng.choice((LEADER_MISSING, -1)) if kind == METADATA else None

    return fault


@pytest.mark.parametrize("seed", range(CASES))
def test_every_message_of_a_generated_topic_arrives_once_and_in_order(
    broker: LogBroker, seed: int
) -> None:
    rng = random.Random(seed)
    topic = Topic(broker, f"random-{seed}", rng)
    reading = Reading(topic, rng)
    broker.fetch_bytes = rng.choice((1, 500, 1 << 20))
    if seed % 3 == 0:
        broker.fault = flaky(rng)
    for _ in range(rng.randint(5, 40)):
        for _ in range(rng.randint(1, 8)):
            topic.step(reading.reached)
        reading.batch()
    topic.finish()
    broker.fault = lambda kind: None
    left = 20 + 2 * len(topic.sent)
    while reading.batch():
        left -= 1
        assert left, "the reading makes no progress"
    check(topic, reading)


def check(topic: Topic, reading: Reading) -> None:
    found = reading.found
    assert len(found) == len(set(found)), "messages were read twice"
    unknown = set(found) - topic.sent.keys()
    assert not unknown, f"messages that were never readable: {sorted(unknown)[:5]}"
    missing = topic.sent.keys() - set(found) - topic.gone
    assert not missing, f"messages that were not read: {sorted(missing)[:5]}"
    for partition in range(len(topic.logs)):
        offsets = [offset for number, offset in found if number == partition]
        assert offsets == sorted(offsets), "messages of a partition are not in order"
    lag = reading.source.lag_by_partition(reading.checkpoint)
    assert set(lag.values()) <= {0}
    committed = {p: o for (_, name, p), o in topic.broker.commits.items() if name == topic.name}
    for partition, offset in committed.items():
        assert offset <= reading.reached[partition]
    if reading.checkpoint is not None:
        again = KafkaSource(topic.broker.servers, topic.name)
        assert again.read(reading.checkpoint, ALL, SCHEMA) is None


def test_a_reader_states_the_position_that_it_has_committed(broker: LogBroker) -> None:
    """Not that of the start, nor of messages that were read ahead."""
    topic = broker.topic("stated", 2)
    topic[0].put(messages(0, 30))
    topic[1].put(messages(30, 5))
    source, checkpoint = source_of(broker, "stated", group="watch"), None
    while (batch := source.read(checkpoint, SourceLimits(8, None), SCHEMA)) is not None:
        batch.rows.read_all()
        before = dict(broker.commits)
        checkpoint = batch.checkpoint
        assert broker.commits == before
        batch.committed()
        stated = ",".join(
            ["stated", *(f"{p}:{broker.commits['watch', 'stated', p]}" for p in (0, 1))]
        )
        assert stated == checkpoint


@pytest.mark.parametrize("kind", [METADATA, LIST_OFFSETS, FETCH])
def test_a_refused_permission_is_an_error_that_is_not_retried(broker: LogBroker, kind: int) -> None:
    (log,) = broker.topic("refused", 1)
    log.put(messages(0, 3))
    broker.fault = lambda request: TOPIC_DENIED if request == kind else None
    with pytest.raises(StorageError, match="allow the user") as caught:
        source_of(broker, "refused", timeout_seconds=5).read(None, ALL, SCHEMA)
    assert not caught.value.retryable


@pytest.mark.parametrize(
    ("kind", "error"),
    [(METADATA, LEADER_MISSING), (LIST_OFFSETS, UNKNOWN_TOPIC), (LIST_OFFSETS, NOT_LEADER),
     (FETCH, NOT_LEADER), (FETCH, UNKNOWN_TOPIC)],
)  # fmt: skip
def test_errors_of_a_broker_that_starts_are_retried(
    broker: LogBroker, kind: int, error: int
) -> None:
    (log,) = broker.topic("starting", 1)
    log.put(messages(0, 3))
    broker.fault = lambda request: error if request == kind else None
    source = source_of(broker, "starting", timeout_seconds=0.5)
    with pytest.raises(StorageError) as caught:
        source.read(None, ALL, SCHEMA)
    assert caught.value.retryable
    broker.fault = lambda request: None
    again = source_of(broker, "starting")
    assert len(read_all(again, ALL)[0]) == 3


def test_refused_credentials_are_not_retried_unless_they_were_accepted_before(
    broker: LogBroker,
) -> None:
    (log,) = broker.topic("secret", 1)
    log.put(messages(0, 3))
    config = {"security.protocol": "SASL_PLAINTEXT", "sasl.mechanism": "PLAIN",
              "sasl.username": "a", "sasl.password": "b"}  # fmt: skip
    source = source_of(broker, "secret", config=config, timeout_seconds=1)
    broker.fault = lambda request: SASL_MECHANISM if request == SASL else None
    with pytest.raises(StorageError, match="Kafka refused the connection") as caught:
        source.read(None, ALL, SCHEMA)
    assert not caught.value.retryable and "credentials" in str(caught.value)


def test_a_topic_that_does_not_exist_is_an_error_that_is_not_retried(broker: LogBroker) -> None:
    with pytest.raises(UserError, match=r"the topic does not exist; .*create it"):
        source_of(broker, "absent").read(None, ALL, SCHEMA)

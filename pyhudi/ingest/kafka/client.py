"""A client of Kafka for one topic: its offsets, and its messages from given offsets on.

Partitions are assigned, without a consumer group, so that no rebalance interrupts a batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping
from typing import Any, Final

import numpy as np

from pyhudi.errors import PyhudiError, SourceDataLostError, StorageError, UserError
from pyhudi.libraries import load_library

_CHUNK: Final = 10_000
"""Messages of one call of the client."""
_AHEAD_MAX: Final = 200_000
"""Messages of a read that are stored for the next one."""
_POLL_SECONDS: Final = 0.1
_EARLIEST: Final = -2
_LATEST: Final = -1
"""Times that stand for the ends of a partition in a request for offsets."""
_LOG = logging.getLogger("pyhudi.ingest.kafka")
_DEFAULTS: Final = {
    "group.id": "pyhudi",  # required by the client; nothing is committed without a group
    "enable.auto.commit": False,
    "enable.auto.offset.store": False,
    "auto.offset.reset": "error",
    "enable.partition.eof": True,
    "isolation.level": "read_committed",
    "fetch.wait.max.ms": 100,
    "fetch.queue.backoff.ms": 50,
    "reconnect.backoff.max.ms": 2_000,
}


class TopicClient:
    """config: settings of librdkafka, which override the defaults.

    timeout_seconds: for one request, and for a pause between two messages that are expected.
    Errors of the broker that may pass are StorageErrors with `retryable`.
    """

    def __init__(self, topic: str, config: Mapping[str, Any], timeout_seconds: float) -> None:
        self._topic, self._timeout_seconds = topic, timeout_seconds
        self._servers = config.get("bootstrap.servers")
        self._kafka = _library()
        self._consumer = self._kafka.Consumer({**_DEFAULTS, **config}, logger=_LOG)
        self._position: dict[int, int] | None = None
        self._ahead: list[Any] = []
        self._ends_seen: dict[int, int] = {}

    def partitions(self) -> list[int]:
        """Raises UserError if the topic does not exist."""
        with self._broker("metadata"):
            found = self._consumer.list_topics(self._topic, timeout=self._timeout_seconds)
        topic = found.topics[self._topic]
        if topic.error is not None:
            raise self._error(topic.error, "metadata")
        return sorted(topic.partitions)

    def earliest(self, partitions: list[int]) -> dict[int, int]:
        return self._offsets_at(partitions, _EARLIEST)

    def latest(self, partitions: list[int]) -> dict[int, int]:
        """The offsets after the last message that this client may read."""
        return self._offsets_at(partitions, _LATEST)

    def at_time(self, partitions: list[int], millis: int) -> dict[int, int]:
        """The first offset with this time or later; the end of a partition without one."""
        found, ends = self._offsets_at(partitions, millis), self.latest(partitions)
        return {number: offset if offset >= 0 else ends[number] for number, offset in found.items()}

    def _offsets_at(self, partitions: list[int], millis: int) -> dict[int, int]:
        requests = [self._kafka.TopicPartition(self._topic, p, millis) for p in partitions]
        with self._broker("offsets"):
            found = self._consumer.offsets_for_times(requests, timeout=self._timeout_seconds)
        for entry in found:
            if entry.error is not None:
                raise self._error(entry.error, "offsets")
        return {entry.partition: entry.offset for entry in found}

    def messages(
        self, start: Mapping[int, int], ends: Mapping[int, int], *, is_exact: bool = False
    ) -> TopicRead:
        """The messages from `start` until each partition has reached `ends`.

        is_exact: without it, some later messages too.
        Continues the previous call if that ended at `start`: the client has then read ahead.
        """
        position = dict(start)
        if position != self._position:
            self._forget()
            parts = [self._kafka.TopicPartition(self._topic, p, o) for p, o in start.items()]
            self._consumer.assign(parts)
            self._position = position
        return TopicRead(self, self._position, dict(ends), is_exact)

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Report the position to the group of `group.id`."""
        parts = [self._kafka.TopicPartition(self._topic, p, o) for p, o in offsets.items()]
        with self._broker("commit"):
            self._consumer.commit(offsets=parts, asynchronous=False)

    def close(self) -> None:
        self._consumer.close()

    def _take(self, limit: int) -> list[Any]:
        if self._ahead:
            taken, self._ahead = self._ahead[:limit], self._ahead[limit:]
            return taken
        with self._broker("messages"):
            return list(self._consumer.consume(min(limit, _CHUNK), _POLL_SECONDS))

    def _forget(self) -> None:
        """The next read assigns the partitions again."""
        self._position, self._ahead, self._ends_seen = None, [], {}

    def _broker(self, what: str) -> _BrokerErrors:
        return _BrokerErrors(self, what)

    def _error(self, error: Any, what: str) -> PyhudiError:
        facts = {"servers": self._servers, "topic": self._topic, "reason": error.str()}
        codes = self._kafka.KafkaError
        if error.code() in (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC):
            return UserError(
                "the topic does not exist", hint="create it, or correct its name", **facts
            )
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            return SourceDataLostError(
                "messages after the checkpoint are no longer in the topic", **facts,
                hint="state on_data_loss, or reset the checkpoint",
            )  # fmt: skip
        denied = (
            codes._AUTHENTICATION, codes.SASL_AUTHENTICATION_FAILED, codes._SSL,
            codes.TOPIC_AUTHORIZATION_FAILED, codes.GROUP_AUTHORIZATION_FAILED,
            codes.CLUSTER_AUTHORIZATION_FAILED,
        )  # fmt: skip
        return StorageError(
            f"Kafka did not answer a request for {what}", **facts,
            retryable=error.code() not in denied,
            hint="check the servers, the topic and the credentials",
        )  # fmt: skip


class _BrokerErrors:
    """Exceptions of the client become errors of pyhudi."""

    def __init__(self, client: TopicClient, what: str) -> None:
        self._client, self._what = client, what

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self._client._kafka.KafkaException):
            raise self._client._error(error.args[0], self._what) from error


class TopicRead:
    """One pass over the messages between two positions.

    position: the offset of the next message of each partition; moves as messages are taken, and
    over offsets that have no message (of transactions and of compacted topics).
    """

    def __init__(
        self, client: TopicClient, position: dict[int, int], ends: dict[int, int], is_exact: bool
    ) -> None:
        self._client, self._ends, self._is_exact = client, ends, is_exact
        self.position = position
        self._later: list[Any] = []

    @property
    def is_complete(self) -> bool:
        return all(self.position[p] >= end for p, end in self._ends.items())

    def take(
        self, rows: int, size_bytes: int | None = None, is_over: Callable[[], bool] = lambda: False
    ) -> Iterator[list[Any]]:
        """Lists of messages, up to a limit; ends at the ends of the partitions too.

        rows: in all.  size_bytes: of the values in all; one message is given in any case.
        is_over: whether the list that was given is the last one.
        Raises StorageError with `retryable` if expected messages do not arrive.
        """
        try:
            yield from self._taken(rows, size_bytes, is_over)
        finally:
            self._keep_later()

    def _taken(
        self, rows: int, size_bytes: int | None, is_over: Callable[[], bool]
    ) -> Iterator[list[Any]]:
        last = time.monotonic()
        self._skip_to_ends()
        while rows > 0 and not self.is_complete:
            messages = self._without_events(self._client._take(rows))
            if messages and size_bytes is not None:
                size_bytes -= sum(len(message) for message in messages)
                if size_bytes <= 0:
                    yield self._within(messages, size_bytes)
                    return
            if messages:
                last, rows = time.monotonic(), rows - len(messages)
                yield messages
                if is_over():
                    return
            elif time.monotonic() - last > self._client._timeout_seconds:
                self._client._forget()
                raise StorageError(
                    "Kafka sent no messages although there are some", topic=self._client._topic,
                    position=self.position, ends=self._ends, retryable=True,
                    hint="check the brokers that lead the partitions",
                )  # fmt: skip

    def _within(self, messages: list[Any], left_bytes: int) -> list[Any]:
        """The first messages, without the last ones that exceed a limit by `-left_bytes`; these
        are the first of the next read."""
        count = len(messages)
        while count > 1 and left_bytes < 0:
            count -= 1
            left_bytes += len(messages[count])
        rest = messages[count:]
        for message in reversed(rest):
            number = message.partition()
            self._client._ends_seen.setdefault(number, self.position[number])
            self.position[number] = message.offset()
        self._later = [*rest, *self._later]
        return messages[:count]

    def _without_events(self, messages: list[Any]) -> list[Any]:
        data = [message for message in messages if message.error() is None]
        if len(data) < len(messages):
            for message in messages:
                if message.error() is not None:
                    self._event(message)
        if self._is_exact:
            ends = self._ends
            self._later += [m for m in data if m.offset() >= ends[m.partition()]]
            data = [m for m in data if m.offset() < ends[m.partition()]]
        self._advance(data)
        self._skip_to_ends()
        return data

    def _skip_to_ends(self) -> None:
        """Move over offsets without messages at the ends of partitions."""
        client = self._client
        if not client._ends_seen:
            return
        waiting = {message.partition() for message in (*self._later, *client._ahead)}
        for number in client._ends_seen.keys() - waiting:
            self.position[number] = max(self.position[number], client._ends_seen.pop(number))

    def _keep_later(self) -> None:
        """Messages after the ends are the first of the next read, unless there are many."""
        client = self._client
        if len(self._later) > _AHEAD_MAX:
            client._forget()
        elif client._position is self.position:
            client._ahead = [*self._later, *client._ahead]

    def _event(self, message: Any) -> None:
        error = message.error()
        codes = self._client._kafka.KafkaError
        if error.code() == codes._PARTITION_EOF:
            self._client._ends_seen[message.partition()] = message.offset()
        elif error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE) or error.fatal():
            self._client._forget()
            raise self._client._error(error, "messages")
        else:
            _LOG.warning("Kafka reports: %s", error.str())

    def _advance(self, messages: list[Any]) -> None:
        partitions = np.fromiter((m.partition() for m in messages), np.int64, len(messages))
        reversed_first = partitions[::-1]
        numbers, places = np.unique(reversed_first, return_index=True)
        for number, place in zip(numbers.tolist(), places.tolist(), strict=True):
            self.position[number] = messages[len(messages) - 1 - place].offset() + 1


def _library() -> Any:
    return load_library("confluent_kafka", extra="kafka", needed_for="reading Kafka")

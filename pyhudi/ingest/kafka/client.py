"""A client of Kafka for one topic: its offsets, and its messages from given offsets on.

Partitions are assigned, without a consumer group, so that no rebalance interrupts a batch.
"""

from __future__ import annotations

import json
import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, Final

import numpy as np

from pyhudi.errors import PyhudiError, SourceDataLostError, StorageError, UserError
from pyhudi.ingest.kafka.offsets import limited
from pyhudi.libraries import load_library

_CHUNK: Final = 10_000
"""Messages of one call of the client."""
_AHEAD_MAX: Final = 200_000
"""Messages of a read that are stored for the next one."""
_POLL_SECONDS: Final = 0.1
_STATISTICS_SECONDS: Final = 1.0
"""How often the client states how far it has fetched, at least twice in its timeout."""
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
    Errors of the broker that may pass are StorageErrors with `retryable`: all but a topic that does
    not exist, a refused permission, and credentials that were never accepted.
    """

    def __init__(self, topic: str, config: Mapping[str, Any], timeout_seconds: float) -> None:
        self._topic, self._timeout_seconds = topic, timeout_seconds
        self._servers = config.get("bootstrap.servers")
        self._kafka = _library()
        seconds = min(_STATISTICS_SECONDS, timeout_seconds / 2)
        callbacks = {
            "statistics.interval.ms": max(1, int(seconds * 1000)),
            "stats_cb": self._receive_statistics,
            "error_cb": self._receive_error,
        }
        self._consumer = self._kafka.Consumer({**_DEFAULTS, **callbacks, **config}, logger=_LOG)
        self._position: dict[int, int] | None = None
        self._ahead: list[Any] = []
        self._ends_seen: dict[int, int] = {}
        self._paused: list[Any] = []
        self._statistics = ""
        self._last_event: str | None = None
        self._refusal: Any = None
        self._is_known = False

    def partitions(self) -> list[int]:
        """Raises UserError if the topic does not exist."""
        with self._broker("metadata"):
            found = self._consumer.list_topics(self._topic, timeout=self._timeout_seconds)
        topic = found.topics[self._topic]
        self._is_known = True
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
        ends = self.latest(partitions)  # first: a message that arrives meanwhile has its time
        found = self._offsets_at(partitions, millis)
        return {number: offset if offset >= 0 else ends[number] for number, offset in found.items()}

    def _offsets_at(self, partitions: list[int], millis: int) -> dict[int, int]:
        requests = [self._kafka.TopicPartition(self._topic, p, millis) for p in partitions]
        with self._broker("offsets"):
            found = self._consumer.offsets_for_times(requests, timeout=self._timeout_seconds)
        for entry in found:
            if entry.error is not None:
                raise self._error(entry.error, "offsets")
        return {entry.partition: entry.offset for entry in found}

    def messages(self, start: Mapping[int, int], ends: Mapping[int, int]) -> TopicRead:
        """The messages from `start` until each partition has reached `ends`, and some later ones.

        Continues the previous call if that ended at `start`: the client has then read ahead.
        """
        position = dict(start)
        if position != self._position:
            self._assign(position)
        assert self._position is not None
        return TopicRead(self, self._position, dict(ends))

    def commit(self, offsets: Mapping[int, int]) -> None:
        """Report the position to the group of `group.id`."""
        with self._broker("commit"):
            self._consumer.commit(offsets=self._places(offsets), asynchronous=False)

    def close(self) -> None:
        self._consumer.close()

    def _take(self, limit: int) -> list[Any]:
        if self._ahead:
            taken, self._ahead = self._ahead[:limit], self._ahead[limit:]
            return taken
        with self._broker("messages"):
            return list(self._consumer.consume(min(limit, _CHUNK), _POLL_SECONDS))

    def _assign(self, position: dict[int, int]) -> None:
        """Read from here on; `position` moves with the messages."""
        self._forget()
        if self._paused:
            self._consumer.resume(self._paused)
            self._paused = []
        self._consumer.assign(self._places(position))
        self._position = position

    def _forget(self) -> None:
        """The next read assigns the partitions again."""
        self._position, self._ahead, self._ends_seen = None, [], {}

    def _pause(self, partitions: Sequence[int]) -> None:
        """Fetch no messages of these partitions until the next assignment."""
        places = self._places(dict.fromkeys(partitions, 0))
        self._paused += places
        self._consumer.pause(places)

    def _places(self, offsets: Mapping[int, int]) -> list[Any]:
        return [self._kafka.TopicPartition(self._topic, p, o) for p, o in offsets.items()]

    def _receive_statistics(self, text: str) -> None:
        self._statistics = text

    def _receive_error(self, error: Any) -> None:
        """An error of a connection, which the client itself repeats."""
        self._last_event = error.str()
        codes = self._kafka.KafkaError
        refusals = (codes._AUTHENTICATION, codes.SASL_AUTHENTICATION_FAILED, codes._SSL)
        if error.code() in refusals and not self._is_known:
            self._refusal = error

    def _fetched(self, partitions: Sequence[int]) -> list[int]:
        """How far the client has fetched these partitions; messages of aborted transactions, which
        it does not give, count."""
        if not self._statistics:
            return []
        topics = json.loads(self._statistics)["topics"]
        known = topics.get(self._topic, {}).get("partitions", {})
        return [known[str(p)]["next_offset"] for p in partitions if str(p) in known]

    def _broker(self, what: str) -> _BrokerErrors:
        return _BrokerErrors(self, what)

    def _error(self, error: Any, what: str) -> PyhudiError:
        if not self._is_known:
            self._consumer.poll(0)  # errors of connections, which a request does not give
            error = self._refusal or error
        facts = {"servers": self._servers, "topic": self._topic, "reason": error.str()}
        codes = self._kafka.KafkaError
        absent = (codes.UNKNOWN_TOPIC_OR_PART, codes._UNKNOWN_TOPIC)
        if what == "metadata" and error.code() in absent:
            return UserError(
                "the topic does not exist", hint="create it, or correct its name", **facts
            )
        if error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE):
            return SourceDataLostError(
                "messages after the checkpoint are no longer in the topic",
                **facts,
                hint="state on_data_loss, or reset the checkpoint",
            )
        if error.code() in self._denied():
            return StorageError(
                f"Kafka refused a request for {what}",
                **facts,
                hint="allow the user of the ingest to read the topic, and to commit to the group",
            )
        if error is self._refusal:
            return StorageError(
                "Kafka refused the connection",
                **facts,
                hint="correct the credentials and the settings of TLS",
            )
        return StorageError(
            f"Kafka did not answer a request for {what}",
            **facts,
            retryable=True,
            hint="check the servers, the topic and the credentials",
        )

    def _denied(self) -> tuple[int, ...]:
        codes = self._kafka.KafkaError
        return (
            codes.TOPIC_AUTHORIZATION_FAILED,
            codes.GROUP_AUTHORIZATION_FAILED,
            codes.CLUSTER_AUTHORIZATION_FAILED,
        )


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

    def __init__(self, client: TopicClient, position: dict[int, int], ends: dict[int, int]) -> None:
        self._client, self._ends, self._bounds = client, ends, ends
        self.position = position
        self._later: list[Any] = []
        self._has_dropped = False

    @property
    def is_complete(self) -> bool:
        return self._is_at(self._ends)

    def _is_at(self, ends: Mapping[int, int]) -> bool:
        return all(self.position[p] >= end for p, end in ends.items())

    def take(
        self, rows: int, size_bytes: int | None = None, is_over: Callable[[], bool] = lambda: False
    ) -> Iterator[list[Any]]:
        """Lists of messages, up to a limit; ends at the ends of the partitions too.

        rows: in all; the same share of each partition.  size_bytes: of the values in all; one
        message is given in any case.  is_over: whether the list that was given is the last one.
        If expected messages do not arrive, as of a partition without a leader, it ends with those
        that did; without any it raises StorageError with `retryable`.
        """
        try:
            yield from self._taken(rows, size_bytes, is_over)
        finally:
            self._keep_later()

    def _taken(
        self, rows: int, size_bytes: int | None, is_over: Callable[[], bool]
    ) -> Iterator[list[Any]]:
        """In rounds: offsets without messages leave rows over, which the next round shares."""
        self._skip_to_ends()
        is_any = False
        while rows > 0 and not self.is_complete:
            self._begin_round(limited(self.position, self._ends, rows))
            for messages in self._round(rows, is_any):
                is_any = True
                if size_bytes is not None:
                    size_bytes -= sum(len(message) for message in messages)
                    if size_bytes <= 0:
                        yield self._within(messages, size_bytes)
                        return
                rows -= len(messages)
                yield messages
                if is_over():
                    return
            if self._client._position is not self.position:
                return

    def _begin_round(self, bounds: dict[int, int]) -> None:
        """bounds: of the messages of this round; if they are the ends, later ones are given too."""
        self._bounds = bounds
        if self._later:
            self._client._ahead = [*self._later, *self._client._ahead]
            self._later = []
        if self._has_dropped:
            self._has_dropped = False
            self._client._assign(self.position)

    def _round(self, rows: int, is_any: bool) -> Iterator[list[Any]]:
        """Lists of messages until the bounds, which are not empty, or until none arrive; these are
        an error unless the read has given messages."""
        silence = _Silence(self._client)
        while rows > 0 and not self._is_at(self._bounds):
            messages = self._without_events(self._client._take(rows))
            if messages:
                is_any, rows = True, rows - len(messages)
                yield messages
                silence = _Silence(self._client)
            elif silence.is_too_long(self.position, self._ends):
                self._client._forget()
                if not is_any:
                    raise silence.error(self.position, self._ends)
                return

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
        if self._bounds != self._ends:
            data = self._within_bounds(data)
        self._advance(data)
        self._skip_to_ends()
        return data

    def _within_bounds(self, data: list[Any]) -> list[Any]:
        """The messages before the bounds.  A partition whose next message is after its bound has
        none before: its position moves to that message."""
        bounds, position = self._bounds, self.position
        inside: list[Any] = []
        reached = {p: offset for p, offset in position.items() if offset < bounds[p]}
        for message in data:
            number, offset = message.partition(), message.offset()
            if offset < bounds[number]:
                inside.append(message)
                reached[number] = offset + 1
                continue
            if reached.get(number, offset) < bounds[number]:
                position[number] = reached[number] = offset
            self._later.append(message)
        if len(self._later) > _AHEAD_MAX:
            self._drop_later()
        return inside

    def _drop_later(self) -> None:
        """Pause the partitions that have reached their bounds, while the others have not: their
        messages are read again."""
        client = self._client
        done = [p for p, bound in self._bounds.items() if self.position[p] >= bound]
        client._pause(done)
        for number in done:
            client._ends_seen.pop(number, None)
        self._later, self._has_dropped = [], True

    def _skip_to_ends(self) -> None:
        """Move over offsets without messages at the ends of partitions."""
        client = self._client
        if not client._ends_seen:
            return
        waiting = {message.partition() for message in (*self._later, *client._ahead)}
        for number in client._ends_seen.keys() - waiting:
            self.position[number] = max(self.position[number], client._ends_seen.pop(number))

    def _keep_later(self) -> None:
        """Messages after the bounds are the first of the next read, unless there are many."""
        client = self._client
        if self._has_dropped:
            client._forget()
        elif client._position is self.position:
            client._ahead = [*self._later, *client._ahead]

    def _event(self, message: Any) -> None:
        error = message.error()
        codes = self._client._kafka.KafkaError
        if error.code() == codes._PARTITION_EOF:
            self._client._ends_seen[message.partition()] = message.offset()
        elif (
            error.code() in (codes._AUTO_OFFSET_RESET, codes.OFFSET_OUT_OF_RANGE)
            or error.code() in self._client._denied()
            or error.fatal()
        ):
            self._client._forget()
            raise self._client._error(error, "messages")
        else:
            self._client._last_event = error.str()
            _LOG.warning("Kafka reports: %s", error.str())

    def _advance(self, messages: list[Any]) -> None:
        partitions = np.fromiter((m.partition() for m in messages), np.int64, len(messages))
        reversed_first = partitions[::-1]
        numbers, places = np.unique(reversed_first, return_index=True)
        for number, place in zip(numbers.tolist(), places.tolist(), strict=True):
            after = messages[len(messages) - 1 - place].offset() + 1
            self.position[number] = max(self.position[number], after)


class _Silence:
    """A time without messages, which must end: it begins again where the client fetches something
    that it does not give, such as messages of aborted transactions."""

    def __init__(self, client: TopicClient) -> None:
        self._client = client
        self._until = time.monotonic() + client._timeout_seconds
        self._fetched: list[int] | None = None

    def is_too_long(self, position: Mapping[int, int], ends: Mapping[int, int]) -> bool:
        is_over = time.monotonic() >= self._until
        if not is_over and self._fetched is not None:
            return False
        client = self._client
        fetched = client._fetched([p for p, end in ends.items() if position[p] < end])
        if self._fetched == fetched:
            return True
        self._fetched, self._until = fetched, time.monotonic() + client._timeout_seconds
        return False

    def error(self, position: Mapping[int, int], ends: Mapping[int, int]) -> StorageError:
        return StorageError(
            "Kafka sent no messages although there are some",
            topic=self._client._topic,
            position=dict(position),
            ends=dict(ends),
            reason=self._client._last_event,
            retryable=True,
            hint="check the brokers that lead the partitions",
        )


def _library() -> Any:
    return load_library("confluent_kafka", extra="kafka", needed_for="reading Kafka")

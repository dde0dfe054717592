"""A topic of Kafka as a source.

The checkpoint is the text of Apache Hudi's streamer, so that either program continues the other.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import OptionError, SourceDataLostError, StorageError, UserError
from pyhudi.ingest.kafka.client import TopicClient, TopicRead
from pyhudi.ingest.kafka.messages import MessageBatch, gathered
from pyhudi.ingest.kafka.offsets import TopicOffsets, limited, parsed
from pyhudi.ingest.kafka.topic_rows import (
    RowSettings,
    TopicRows,
    fitted,
    joined,
    with_message_columns,
)
from pyhudi.ingest.message_formats.choice import message_format, null_values_of
from pyhudi.ingest.message_formats.message_format import MessageFormat
from pyhudi.ingest.source import RejectedRows, RowPlaces, SourceBatch, SourceLag, SourceLimits

_LOG: Final = logging.getLogger("pyhudi.ingest.kafka")
MAX_ROWS: Final = 1_000_000
"""Messages of a batch without a limit of rows."""
_PART_MESSAGES: Final = 100_000
_PART_BYTES: Final = 32 << 20
"""Messages that are decoded at once."""
CHECKPOINT_TYPES: Final = ("string", "timestamp", "single_offset")
_ON_DATA_LOSS: Final = ("error", "earliest", "latest")

Start = str | datetime | Mapping[int, int]


@dataclass(frozen=True)
class _Connection:
    """What a reader of the topic needs on any machine; can be pickled."""

    topic: str
    config: Mapping[str, Any]
    timeout_seconds: float
    rows: RowSettings

    def client(self) -> TopicClient:
        return TopicClient(self.topic, self.config, self.timeout_seconds)


class KafkaSource:
    """The messages of one topic.

    servers: `host:port`, comma-separated.  format: `json`, `avro` with a schema registry,
    `debezium` (in Avro with a registry, else in JSON), `dms`, or a MessageFormat.  registry:
    address of the schema registry.
    start: where a table without a checkpoint begins: `earliest`, `latest`, a time, or the offset
    of each partition.  `latest` is found when the first batch is read.
    on_data_loss: what to do if messages after the checkpoint have expired, or the topic was
    created again: `error`, or continue at the `earliest` or `latest` message.
    null_values: of messages whose value is null: `reject`, `skip` (the default of `debezium`), or
    `delete` the row whose `key_columns` are the key of the message (as text, or by `key_format`).
    columns: of `offset`, `partition`, `timestamp`, `key`, `headers`: added to the rows as
    `_hoodie_kafka_source_offset` and so on.
    group: to which the position is reported after each commit, for tools that show lag.
    isolation: `read_committed` or `read_uncommitted`.
    checkpoint_type: what a checkpoint that is a number means, which a caller states to begin there:
    `timestamp`, milliseconds since 1970; `single_offset`, of the only partition.  Checkpoints in
    the table are always strings with the offset of each partition.
    config: more settings of librdkafka, such as those of security.
    timeout_seconds: for an answer of the broker.

    Partitions that are added to the topic are read from their first message.  A topic that was
    created again and has grown beyond the checkpoint since cannot be recognized.
    """

    def __init__(
        self,
        servers: str,
        topic: str,
        *,
        format: str | MessageFormat = "json",
        registry: str | None = None,
        start: Start = "earliest",
        on_data_loss: str = "error",
        null_values: str | None = None,
        key_columns: Sequence[str] = (),
        key_format: str | MessageFormat | None = None,
        columns: Sequence[str] = (),
        group: str | None = None,
        isolation: str = "read_committed",
        checkpoint_type: str = "string",
        config: Mapping[str, Any] | None = None,
        timeout_seconds: float = 30.0,
    ) -> None:
        _check_start(start)
        if on_data_loss not in _ON_DATA_LOSS:
            raise OptionError(
                "unknown treatment of lost data",
                on_data_loss=on_data_loss,
                hint="use " + ", ".join(_ON_DATA_LOSS),
            )
        if checkpoint_type not in CHECKPOINT_TYPES:
            raise OptionError(
                "unknown type of checkpoints",
                checkpoint_type=checkpoint_type,
                hint="use " + ", ".join(CHECKPOINT_TYPES),
            )
        decoded = message_format(format, registry)
        settings = RowSettings(
            decoded,
            null_values or ("delete" if key_columns else null_values_of(decoded)),
            tuple(key_columns),
            None if key_format is None else message_format(key_format, registry),
            tuple(columns),
        )
        stated = {"bootstrap.servers": servers, "isolation.level": isolation, **(config or {})}
        if group is not None:
            stated["group.id"] = group
        self._connection = _Connection(topic, stated, timeout_seconds, settings)
        self._start, self._on_data_loss, self._group = start, on_data_loss, group
        self._checkpoint_type = checkpoint_type
        self._client: TopicClient | None = None
        self._latest: TopicOffsets | None = None
        self._empty: tuple[str | None, TopicOffsets] | None = None

    def __repr__(self) -> str:
        servers = self._connection.config["bootstrap.servers"]
        return f"KafkaSource({servers!r}, {self._connection.topic!r})"

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """The messages up to the ends that the partitions have now, or up to a limit; without a
        limit of rows, MAX_ROWS.  The rows are in memory.

        Raises UserError for a checkpoint of something else or a topic that does not exist,
        SourceDataLostError for messages that have expired, StorageError with `retryable` if the
        broker does not answer, and without if it refuses the request.
        """
        while True:
            start, ends = self._range(checkpoint)
            try:
                return self._batch(checkpoint, start, ends, limits, schema)
            except SourceDataLostError:  # messages have expired since the offsets were asked for
                if not self._may_lose(checkpoint):
                    raise

    def _batch(
        self,
        checkpoint: str | None,
        start: TopicOffsets,
        ends: Mapping[int, int],
        limits: SourceLimits,
        schema: pa.Schema,
    ) -> SourceBatch | None:
        taken = self._connected().messages(start.offsets, ends)
        rows = TopicRows(self._connection.rows, schema)
        rejected, places = RejectedRows(), RowPlaces()
        parts, count = [], 0
        for messages in _parts(taken, self._connection, limits):
            part = rows.decode(messages)
            parts.append(part)
            rejected.add(part.rejected)
            places.add(part.rows.num_rows, part.positions.texts)
            count += len(messages)
        end = TopicOffsets(start.topic, dict(taken.position))
        if not count:
            self._empty = (checkpoint, end)
            return None
        table, failed, retained = joined(parts, schema)
        rejected.add(failed)
        of_rows = RowPlaces()
        of_rows.add(table.num_rows, lambda rows: places.of(retained[list(rows)].tolist()) or [])
        return SourceBatch(
            table.to_reader(),
            str(end),
            rejected,
            lambda: self._report(end),
            _splits(self._connection, start, end, table.schema),
            of_rows,
        )

    def plan(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """A batch whose rows are in its splits, one for each partition: no message is read.

        Limits of bytes and seconds have no effect.
        """
        start, ends = self._range(checkpoint)
        end = TopicOffsets(start.topic, limited(start.offsets, ends, limits.rows or MAX_ROWS))
        rows = with_message_columns(schema, self._connection.rows)
        splits = _splits(self._connection, start, end, rows)
        if not splits:
            return None
        return SourceBatch(
            rows.empty_table().to_reader(),
            str(end),
            RejectedRows(),
            lambda: self._report(end),
            splits,
        )

    def lag(self, checkpoint: str | None) -> SourceLag:
        """The number of offsets between the checkpoint and the ends of the partitions."""
        return SourceLag(rows=sum(self.lag_by_partition(checkpoint).values()))

    def lag_by_partition(self, checkpoint: str | None) -> dict[int, int]:
        """Offsets between the checkpoint and the end of each partition."""
        start, ends = self._range(checkpoint)
        return {number: max(0, ends[number] - start.offsets[number]) for number in ends}

    def _connected(self) -> TopicClient:
        if self._client is None:
            self._client = self._connection.client()
        return self._client

    def _range(self, checkpoint: str | None) -> tuple[TopicOffsets, dict[int, int]]:
        """Where reading starts, for each partition, and where the partitions end now."""
        client = self._connected()
        partitions = client.partitions()
        earliest = client.earliest(partitions)  # first: the ends are not before it then
        ends = client.latest(partitions)
        if self._empty is not None and self._empty[0] == checkpoint:
            start = self._empty[1]  # there are no messages between the two
        elif checkpoint is None:
            start = self._beginning(earliest, ends)
        else:
            start = self._stated(checkpoint, partitions)
        return self._present(start, earliest, ends), ends

    def _may_lose(self, checkpoint: str | None) -> bool:
        """Whether expired messages are passed over."""
        return self._on_data_loss != "error" or (checkpoint is None and self._start == "earliest")

    def _beginning(self, earliest: Mapping[int, int], ends: Mapping[int, int]) -> TopicOffsets:
        topic = self._connection.topic
        match self._start:
            case "earliest":
                return TopicOffsets(topic, earliest)
            case "latest":
                self._latest = self._latest or TopicOffsets(topic, ends)
                return self._latest
            case datetime() as time:
                millis = int(time.timestamp() * 1000)
                return TopicOffsets(topic, self._connected().at_time(list(ends), millis))
            case _:
                assert isinstance(self._start, Mapping)
                return TopicOffsets(topic, {**earliest, **self._start})

    def _stated(self, checkpoint: str, partitions: list[int]) -> TopicOffsets:
        topic = self._connection.topic
        if self._checkpoint_type == "string" or not checkpoint.isdecimal():
            return parsed(checkpoint, topic)
        if self._checkpoint_type == "timestamp":
            return TopicOffsets(topic, self._connected().at_time(partitions, int(checkpoint)))
        if len(partitions) != 1:
            raise UserError(
                "one offset cannot be the position in a topic with several partitions",
                topic=topic,
                partitions=len(partitions),
                checkpoint=checkpoint,
                hint="state topic,partition:offset,...",
            )
        return TopicOffsets(topic, {partitions[0]: int(checkpoint)})

    def _present(
        self, start: TopicOffsets, earliest: Mapping[int, int], ends: Mapping[int, int]
    ) -> TopicOffsets:
        """`start` for the partitions that the topic has, if their messages are still there."""
        offsets = {p: start.offsets.get(p, first) for p, first in earliest.items()}
        lost = {
            p: (offset, earliest.get(p), ends.get(p))
            for p, offset in {**start.offsets, **offsets}.items()
            if p not in earliest or not earliest[p] <= offset <= ends[p]
        }
        if not lost:
            return replace(start, offsets=offsets)
        if self._on_data_loss == "error":
            raise SourceDataLostError(
                "messages after the checkpoint are no longer in the topic",
                topic=start.topic,
                partitions={p: f"{at} of {first}..{end}" for p, (at, first, end) in lost.items()},
                hint="state on_data_loss, or reset the checkpoint",
            )
        found = earliest if self._on_data_loss == "earliest" else ends
        return replace(
            start, offsets={p: found[p] if p in lost else at for p, at in offsets.items()}
        )

    def _report(self, end: TopicOffsets) -> None:
        """The table has the position already, so an ingest goes on without a report: a group whose
        members subscribe to topics accepts none from others."""
        if self._group is None:
            return
        try:
            self._connected().commit(end.offsets)
        except StorageError as error:
            _LOG.warning("the position was not reported to the group %s: %s", self._group, error)


@dataclass(frozen=True)
class KafkaSplit:
    """The messages of a range of one partition.  columns: of the rows, type their values."""

    connection: _Connection
    partition: int
    start: int
    end: int
    columns: pa.Schema

    def read(self, rejected: RejectedRows) -> Iterator[pa.RecordBatch]:
        """Messages whose values the columns do not have go to `rejected`.  Raises StorageError with
        `retryable` if the broker does not answer, SchemaError for fields that are not in
        `columns`."""
        client = self.connection.client()
        try:
            taken = client.messages({self.partition: self.start}, {self.partition: self.end})
            rows = TopicRows(self.connection.rows, self.columns)
            for messages in _parts(taken, self.connection, SourceLimits(1 << 62, None)):
                part = rows.decode(messages.before(self.end))
                rejected.add(part.rejected)
                found, failed = fitted(part, self.columns)
                rejected.add(failed)
                yield from found.to_batches()
        finally:
            client.close()


def _splits(
    connection: _Connection,
    start: TopicOffsets,
    end: TopicOffsets,
    columns: pa.Schema,
) -> list[KafkaSplit]:
    return [
        KafkaSplit(connection, p, start.offsets[p], to, columns.remove_metadata())
        for p, to in sorted(end.offsets.items())
        if start.offsets[p] < to
    ]


def _parts(
    taken: TopicRead, connection: _Connection, limits: SourceLimits
) -> Iterator[MessageBatch]:
    """Messages in parts that are decoded at once, up to the limits."""
    columns = connection.rows.read_columns
    part: list[MessageBatch] = []
    rows = MAX_ROWS if limits.rows is None else max(1, limits.rows)
    for messages in taken.take(rows, limits.bytes, limits.timer()):
        part.append(gathered(connection.topic, messages, columns))
        if _is_full(part):
            yield MessageBatch.joined(part)
            part = []
    if part:
        yield MessageBatch.joined(part)


def _is_full(part: Sequence[MessageBatch]) -> bool:
    if sum(map(len, part)) >= _PART_MESSAGES:
        return True
    return sum(batch.size_bytes for batch in part) >= _PART_BYTES


def _check_start(start: Start) -> None:
    if isinstance(start, str) and start not in ("earliest", "latest"):
        raise OptionError(
            "unknown start",
            start=start,
            hint="use earliest, latest, a datetime, or the offset of each partition",
        )

"""Messages of Kafka as columns."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa

_OFFSET: Final = "_hoodie_kafka_source_offset"
_PARTITION: Final = "_hoodie_kafka_source_partition"
_TIMESTAMP: Final = "_hoodie_kafka_source_timestamp"
_KEY: Final = "_hoodie_kafka_source_key"
_HEADERS: Final = "_hoodie_kafka_source_headers"
_HEADERS_TYPE: Final = pa.list_(pa.struct([("key", pa.string()), ("value", pa.binary())]))
POSITION_COLUMNS: Final = {
    "offset": _OFFSET, "partition": _PARTITION, "timestamp": _TIMESTAMP, "key": _KEY,
    "headers": _HEADERS,
}  # fmt: skip
"""Names of the columns of a message; all but the headers as Apache Hudi names them.
Source: KafkaOffsetPostProcessor of Apache Hudi."""

TYPES: Final = {
    "offset": pa.int64(), "partition": pa.int32(), "timestamp": pa.int64(), "key": pa.string(),
    "headers": _HEADERS_TYPE,
}  # fmt: skip


@dataclass(frozen=True, slots=True)
class MessageBatch:
    """Messages in the order of their arrival.

    values, keys: bytes, nullable; keys is None if nobody reads them.  partitions, offsets:
    numbers, one a message.  timestamps: milliseconds since 1970.  headers: of _HEADERS_TYPE.
    """

    topic: str
    values: pa.Array
    partitions: np.ndarray
    offsets: np.ndarray
    keys: pa.Array | None
    timestamps: pa.Array | None
    headers: pa.Array | None

    def __len__(self) -> int:
        return len(self.offsets)

    @property
    def size_bytes(self) -> int:
        return int(self.values.nbytes)

    def take(self, positions: np.ndarray) -> MessageBatch:
        """The messages at these positions."""
        chosen = pa.array(positions)
        optional = (self.keys, self.timestamps, self.headers)
        keys, timestamps, headers = (c if c is None else c.take(chosen) for c in optional)
        return MessageBatch(
            self.topic,
            self.values.take(chosen),
            self.partitions[positions],
            self.offsets[positions],
            keys,
            timestamps,
            headers,
        )

    def before(self, offset: int) -> MessageBatch:
        """The messages with lower offsets, of one partition."""
        if not len(self) or self.offsets[-1] < offset:
            return self
        return self.take(np.flatnonzero(self.offsets < offset))

    @staticmethod
    def joined(parts: Sequence[MessageBatch]) -> MessageBatch:
        """Batches with the same columns, one after another; at least one."""
        if len(parts) == 1:
            return parts[0]
        return MessageBatch(
            parts[0].topic,
            pa.concat_arrays([part.values for part in parts]),
            np.concatenate([part.partitions for part in parts]),
            np.concatenate([part.offsets for part in parts]),
            _concatenated([part.keys for part in parts]),
            _concatenated([part.timestamps for part in parts]),
            _concatenated([part.headers for part in parts]),
        )

    def column(self, name: str) -> pa.Array:
        """name: a key of POSITION_COLUMNS."""
        match name:
            case "offset":
                return pa.array(self.offsets)
            case "partition":
                return pa.array(self.partitions)
            case "timestamp":
                return self.timestamps
            case "key":
                return _text(self.keys)
            case _:
                return self.headers

    def positions(self, numbers: Sequence[int] | np.ndarray) -> MessagePositions:
        """Of some of the messages."""
        chosen = np.asarray(numbers, np.int64)
        return MessagePositions(self.topic, self.partitions[chosen], self.offsets[chosen])


@dataclass(frozen=True, slots=True)
class MessagePositions:
    """Where messages are in their topic."""

    topic: str
    partitions: np.ndarray
    offsets: np.ndarray

    def texts(self, numbers: Sequence[int]) -> list[str]:
        """`topic,partition:offset` of some of them."""
        return [f"{self.topic},{self.partitions[n]}:{self.offsets[n]}" for n in numbers]


def gathered(topic: str, messages: Sequence[Any], columns: Iterable[str]) -> MessageBatch:
    """messages: of the client, without errors.  columns: keys of POSITION_COLUMNS to read."""
    names = set(columns)
    count = len(messages)
    keys = pa.array([m.key() for m in messages], pa.binary()) if "key" in names else None
    stamps = None
    if "timestamp" in names:
        stamps = pa.array([m.timestamp()[1] for m in messages], pa.int64())
    headers = None
    if "headers" in names:
        headers = pa.array([_headers(m.headers()) for m in messages], _HEADERS_TYPE)
    return MessageBatch(
        topic,
        pa.array([m.value() for m in messages], pa.binary()),
        np.fromiter((m.partition() for m in messages), np.int32, count),
        np.fromiter((m.offset() for m in messages), np.int64, count),
        keys,
        stamps,
        headers,
    )


def _concatenated(parts: Sequence[pa.Array | None]) -> pa.Array | None:
    return None if parts[0] is None else pa.concat_arrays(parts)


def _headers(pairs: Any) -> list[dict[str, Any]] | None:
    return None if pairs is None else [{"key": key, "value": value} for key, value in pairs]


def _text(keys: pa.Array) -> pa.Array:
    """Keys as text; bytes that are not UTF-8 as the replacement character, as Java reads them."""
    try:
        return keys.cast(pa.string())
    except pa.ArrowInvalid:
        texts = [
            None if key is None else key.decode("utf-8", "replace") for key in keys.to_pylist()
        ]
        return pa.array(texts, pa.string())

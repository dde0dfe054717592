"""Messages of Flight SQL: the fields that the server reads and writes.

They are protocol buffers.  The server uses some messages of at most five fields, so they are
parsed here, where each length is verified, instead of by a further library and generated code.
The messages of Flight itself are those of pyarrow, but for FlightData:

    FlightData   1: FlightDescriptor, 2: metadata of an Arrow message, 1000: its body

Sources: FlightSql.proto and Flight.proto of Apache Arrow.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import UserError

_PREFIX: Final = "type.googleapis.com/arrow.flight.protocol.sql."
_VARINT_BYTES_MAX: Final = 10
_BODY: Final = 1000
_CONTINUATION: Final = b"\xff\xff\xff\xff"
MESSAGE_BYTES_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class Message:
    """A message.  fields: values by number, in order: bytes, or an int of a varint."""

    name: str
    fields: dict[int, list[bytes | int]]

    def text(self, number: int) -> str | None:
        """A string field; None if it is absent.  Raises UserError if it is not UTF-8."""
        found = self.data(number)
        try:
            return None if found is None else found.decode()
        except UnicodeDecodeError:
            raise UserError("a text of a message is not UTF-8", message=self.name) from None

    def data(self, number: int) -> bytes | None:
        """A bytes field; None if it is absent."""
        found = self.fields.get(number, [None])[-1]
        return found if isinstance(found, bytes) else None

    def texts(self, number: int) -> list[str]:
        """A repeated string field."""
        return [
            value.decode(errors="replace")
            for value in self.fields.get(number, [])
            if isinstance(value, bytes)
        ]

    def flag(self, number: int) -> bool:
        """A bool field; False if it is absent."""
        return self.fields.get(number, [0])[-1] == 1

    def numbers(self, number: int) -> list[int]:
        """A repeated field of unsigned integers, packed or not."""
        found: list[int] = []
        for value in self.fields.get(number, []):
            if isinstance(value, int):
                found.append(value)
                continue
            place = 0
            while place < len(value):
                one, place = _varint(value, place)
                found.append(one)
        return found


def message_of(data: bytes) -> Message:
    """The message in a `google.protobuf.Any`.  Raises UserError for anything else."""
    if len(data) > MESSAGE_BYTES_MAX:
        raise UserError("the message is too long", bytes=len(data))
    outer = Message("Any", _fields(data))
    url = outer.text(1)
    if url is None or not url.startswith(_PREFIX):
        raise UserError("not a message of Flight SQL", type=(url or "")[:200])
    return Message(url.removeprefix(_PREFIX), _fields(outer.data(2) or b""))


def message_bytes(name: str, fields: dict[int, bytes]) -> bytes:
    """A message of bytes fields, in a `google.protobuf.Any`."""
    return fields_bytes({1: f"{_PREFIX}{name}".encode(), 2: fields_bytes(fields)})


def fields_bytes(fields: dict[int, bytes]) -> bytes:
    """A message of bytes fields."""
    return b"".join(_field(number, value) for number, value in fields.items())


def update_result(rows: int) -> bytes:
    """A PutResult with the DoPutUpdateResult of a number of rows."""
    return fields_bytes({1: b"\x08" + _varint_bytes(rows)})


def flight_data(metadata: bytes, body: bytes) -> bytes:
    """A FlightData with a message of an Arrow stream."""
    return b"".join((_field(2, metadata), _field_head(_BODY, len(body)), body))


def flight_data_of(data: bytes) -> tuple[bytes | None, bytes]:
    """The descriptor of a FlightData, and its message in the form of an Arrow stream."""
    message = Message("FlightData", _fields(data))
    return message.data(1), stream_message(message.data(2) or b"", message.data(_BODY) or b"")


def stream_message(metadata: bytes, body: bytes = b"") -> bytes:
    """A message in the form of an Arrow stream; nothing without metadata."""
    padded = metadata + bytes(-len(metadata) % 8)
    head = _CONTINUATION + len(padded).to_bytes(4, "little") if metadata else b""
    return b"".join((head, padded, body))


def _field(number: int, value: bytes) -> bytes:
    return _field_head(number, len(value)) + value


def _field_head(number: int, length: int) -> bytes:
    return _varint_bytes(number << 3 | 2) + _varint_bytes(length)


def _fields(data: bytes) -> dict[int, list[bytes | int]]:
    found: dict[int, list[bytes | int]] = {}
    for number, value in _each(data):
        found.setdefault(number, []).append(value)
    return found


def _each(data: bytes) -> Iterator[tuple[int, bytes | int]]:
    place = 0
    while place < len(data):
        tag, place = _varint(data, place)
        kind = tag & 7
        if kind == 0:
            value, place = _varint(data, place)
            yield tag >> 3, value
            continue
        if kind == 2:
            length, place = _varint(data, place)
        elif kind in (1, 5):
            length = 8 if kind == 1 else 4
        else:
            raise UserError("a message has a field of an unknown kind", kind=kind)
        if length > len(data) - place:
            raise UserError("a message is truncated", bytes=len(data))
        if kind == 2:
            yield tag >> 3, data[place : place + length]
        place += length


def _varint(data: bytes, place: int) -> tuple[int, int]:
    """A number, and the place after it."""
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        if place + index >= len(data):
            break
        byte = data[place + index]
        value |= (byte & 127) << (7 * index)
        if byte < 128:
            return value & (1 << 64) - 1, place + index + 1
    raise UserError("a number of a message is truncated or too long", bytes=len(data))


def _varint_bytes(value: int) -> bytes:
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)

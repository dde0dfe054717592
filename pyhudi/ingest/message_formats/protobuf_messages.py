"""Protobuf messages: with the number of their schema in a registry, or of a given type.

```
0 | number of the schema: 4 bytes, big-endian | places of the message's type | message
```

places: count, then numbers, all as zigzag varints: the place of the type in its file, then in the
message around it.  One zero byte stands for the first type.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptFileError, OptionError, UserError
from pyhudi.ingest.message_formats.message_format import DecodedMessages, MessageFailure
from pyhudi.ingest.message_formats.protobuf_columns import (
    ProtobufChoices,
    ProtobufColumn,
    columns_of_message,
)
from pyhudi.ingest.message_formats.protobuf_schemas import (
    file_in,
    files_of,
    message_at,
    registered_file,
)
from pyhudi.ingest.message_formats.registered_messages import assembled, by_number, failed
from pyhudi.ingest.message_formats.schema_registry import SchemaKind, SchemaRegistry

_PLACES_MAX: Final = 32
_FIRST_TYPE: Final = (0,)


@dataclass(frozen=True)
class ProtobufFormat:
    """registry: its address; each message names its schema.  descriptors: path of a descriptor set
    (`protoc --include_imports --descriptor_set_out`), of messages without a header; message: the
    full name of their type, or of its Java class.  State a registry, or descriptors and message.

    Rows have the columns of the type that their message was written with, as described in
    docs/guides/kafka.md; columns that it lacks are null.  Needs the extra `protobuf`.
    """

    registry: str | None = None
    descriptors: str | None = None
    message: str | None = None
    wrappers_as_records: bool = False
    timestamps_as_records: bool = False
    recursion_max: int = 5

    def __post_init__(self) -> None:
        is_given = self.descriptors is not None and self.message is not None
        if (self.registry is not None) == is_given:
            raise OptionError(
                "Protobuf messages need the address of a registry, or descriptors and a message",
                registry=self.registry,
                descriptors=self.descriptors,
                message=self.message,
            )
        if not 1 <= self.recursion_max <= _PLACES_MAX:
            raise OptionError(
                "invalid depth of recursion",
                recursion_max=self.recursion_max,
                hint=f"use 1 to {_PLACES_MAX}",
            )

    def decoder(self, schema: pa.Schema) -> ProtobufDecoder:
        return ProtobufDecoder(self)


class _Type:
    """A type of messages: parses them and makes columns of them."""

    def __init__(self, descriptor: Any, choices: ProtobufChoices) -> None:
        from google.protobuf.message_factory import GetMessageClass

        self._parse = GetMessageClass(descriptor).FromString
        self._columns: list[ProtobufColumn] = columns_of_message(descriptor, choices)

    def decode(
        self, bodies: Sequence[bytes], places: np.ndarray, failures: list[MessageFailure]
    ) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """Rows and their places; messages that cannot be decoded are added to `failures`."""
        from google.protobuf.message import DecodeError

        messages, good = [], np.ones(len(bodies), np.bool_)
        for number, body in enumerate(bodies):
            try:
                messages.append(self._parse(body))
            except DecodeError as error:
                good[number] = False
                failures.append(MessageFailure(int(places[number]), f"not Protobuf: {error}"))
        yield from self._rows(messages, places[good], failures)

    def _rows(
        self, messages: Sequence[Any], places: np.ndarray, failures: list[MessageFailure]
    ) -> Iterator[tuple[pa.Table, np.ndarray]]:
        if not messages:
            return
        try:
            columns = [column.read(messages) for column in self._columns]
        except (ValueError, OverflowError) as error:
            if len(messages) == 1:
                failures.append(MessageFailure(int(places[0]), str(error)))
                return
            half = len(messages) // 2
            yield from self._rows(messages[:half], places[:half], failures)
            yield from self._rows(messages[half:], places[half:], failures)
        else:
            yield pa.table(columns, [column.name for column in self._columns]), places


class ProtobufDecoder:
    """Raises the errors of the registry other than those of one schema, with which its messages
    fail."""

    def __init__(self, form: ProtobufFormat) -> None:
        self._choices = ProtobufChoices(
            form.wrappers_as_records, form.timestamps_as_records, form.recursion_max
        )
        self._registry = None if form.registry is None else SchemaRegistry(form.registry)
        self._given: _Type | None = None
        if form.descriptors is not None and form.message is not None:
            self._given = _Type(_named(form.descriptors, form.message), self._choices)
        self._files: dict[int, Any] = {}
        self._types: dict[tuple[int, tuple[int, ...]], _Type] = {}

    def decode(self, values: pa.Array) -> DecodedMessages:
        parts: list[tuple[pa.Table, np.ndarray]] = []
        failures: list[MessageFailure] = []
        if self._given is not None:
            places = np.arange(len(values))
            parts += self._given.decode(values.to_pylist(), places, failures)
            return assembled(parts, failures)
        groups, failures = by_number(values)
        for group in groups:
            for indexes, places, bodies in _by_type(group.bodies, group.places, failures):
                try:
                    kind = self._type(group.number, indexes)
                except CorruptFileError as error:
                    failures += failed(places, str(error))
                else:
                    parts += kind.decode(bodies, places, failures)
        return assembled(parts, failures)

    def _type(self, number: int, indexes: tuple[int, ...]) -> _Type:
        assert self._registry is not None
        if number not in self._files:
            schema = self._registry.schema(number, SchemaKind.PROTOBUF)
            self._files[number] = registered_file(schema)
        found = self._types.get((number, indexes))
        if found is None:
            found = _Type(message_at(self._files[number], indexes), self._choices)
            self._types[number, indexes] = found
        return found


def _by_type(
    bodies: pa.Array, places: np.ndarray, failures: list[MessageFailure]
) -> Iterator[tuple[tuple[int, ...], np.ndarray, list[bytes]]]:
    """Messages with the same places of their type, without them."""
    is_first = pc.starts_with(bodies, b"\0").to_numpy(zero_copy_only=False)
    if is_first.any():
        chosen = bodies if is_first.all() else bodies.filter(pa.array(is_first))
        yield _FIRST_TYPE, places[is_first], [body[1:] for body in chosen.to_pylist()]
    found: dict[tuple[int, ...], tuple[list[int], list[bytes]]] = {}
    others = np.flatnonzero(~is_first)
    for place, body in zip(places[others], bodies.take(pa.array(others)).to_pylist(), strict=True):
        try:
            indexes, length = _indexes(body)
        except ValueError as error:
            failures.append(MessageFailure(int(place), str(error)))
            continue
        group = found.setdefault(indexes, ([], []))
        group[0].append(int(place))
        group[1].append(body[length:])
    for indexes, (where, rest) in found.items():
        yield indexes, np.array(where, np.int64), rest


def _indexes(body: bytes) -> tuple[tuple[int, ...], int]:
    """The places of a type, and the number of their bytes.  Raises ValueError."""
    count, at = _zigzag(body, 0)
    if not 0 < count <= _PLACES_MAX:
        raise ValueError("the place of the message's type is invalid")
    indexes = []
    for _ in range(count):
        index, at = _zigzag(body, at)
        indexes.append(index)
    return tuple(indexes), at


def _zigzag(body: bytes, at: int) -> tuple[int, int]:
    value = 0
    for shift in range(0, 35, 7):
        if at + shift // 7 >= len(body):
            break
        byte = body[at + shift // 7]
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return (value >> 1) ^ -(value & 1), at + shift // 7 + 1
    raise ValueError("the place of the message's type is cut off")


def _named(path: str, name: str) -> Any:
    """The Descriptor of a message by its full name, or by that of its Java class."""
    files = files_of(path)
    known: list[str] = []
    for file in files:
        descriptor = file_in(files, file.name)
        package = file.options.java_package or file.package
        for message in descriptor.message_types_by_name.values():
            known.append(message.full_name)
            classes = (f"{package}.{message.name}", message.full_name)
            is_inner = name.startswith(f"{package}.") and name.endswith(f"${message.name}")
            if name in classes or is_inner:
                return message
    raise UserError(
        "the set of descriptors has no such message", path=path, message=name, messages=known[:10]
    )

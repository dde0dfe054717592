"""Avro messages: with the number of their schema in a registry, or with a given schema."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi._native import AvroCodec
from pyhudi.errors import CorruptFileError, OptionError, UnsupportedTableError, UserError
from pyhudi.ingest.message_formats.message_format import DecodedMessages, MessageFailure
from pyhudi.ingest.message_formats.registered_messages import assembled, by_number, failed
from pyhudi.ingest.message_formats.schema_registry import SchemaKind, SchemaRegistry

_UNREADABLE: Final = (CorruptFileError, UnsupportedTableError, UserError)
"""Errors of a schema, with which its messages fail."""


@dataclass(frozen=True)
class AvroFormat:
    """registry: its address; each message names its schema.  schema: JSON text, of messages without
    a header.  State one of them.

    Rows have the columns of the schema that their message was written with; columns that it lacks
    are null, and types of several schemas are widened.
    """

    registry: str | None = None
    schema: str | None = None

    def __post_init__(self) -> None:
        if (self.registry is None) == (self.schema is None):
            raise OptionError(
                "Avro messages need the address of a registry or a schema",
                hint="state one of registry and schema",
            )

    def decoder(self, schema: pa.Schema) -> AvroDecoder:
        return AvroDecoder(self)


class AvroDecoder:
    """Raises the errors of the registry other than that of an unknown number.

    prepared: changes the text of a schema before it is used.
    """

    def __init__(self, form: AvroFormat, prepared: Callable[[str], str] = str) -> None:
        self._prepared = prepared
        self._registry = None if form.registry is None else SchemaRegistry(form.registry)
        self._given = None if form.schema is None else AvroCodec(prepared(form.schema))
        self._codecs: dict[int, AvroCodec] = {}

    def decode(self, values: pa.Array) -> DecodedMessages:
        parts: list[tuple[pa.Table, np.ndarray]] = []
        failures: list[MessageFailure] = []
        if self._given is not None:
            parts += _decoded(self._given, values, np.arange(len(values)), failures)
            return assembled(parts, failures)
        groups, failures = by_number(values)
        for group in groups:
            try:
                codec = self._by_number(group.number)
            except _UNREADABLE as error:
                failures += failed(group.places, str(error))
            else:
                parts += _decoded(codec, group.bodies, group.places, failures)
        return assembled(parts, failures)

    def _by_number(self, number: int) -> AvroCodec:
        assert self._registry is not None
        if number not in self._codecs:
            self._codecs[number] = AvroCodec(
                self._prepared(self._registry.schema(number, SchemaKind.AVRO).text)
            )
        return self._codecs[number]


def _decoded(
    codec: AvroCodec, datums: pa.Array, where: np.ndarray, failures: list[MessageFailure]
) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Rows and their places; messages that cannot be decoded are added to `failures`."""
    if not len(datums):
        return
    try:
        found = codec.decode_column(datums.cast(pa.large_binary()), path="message")
        yield pa.Table.from_struct_array(found), where
    except CorruptFileError as error:
        if len(datums) == 1:
            failures.append(MessageFailure(int(where[0]), str(error)))
            return
        half = len(datums) // 2
        yield from _decoded(codec, datums.slice(0, half), where[:half], failures)
        yield from _decoded(codec, datums.slice(half), where[half:], failures)

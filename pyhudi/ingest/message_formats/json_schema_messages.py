"""Messages of Confluent's serializer for JSON Schema: a number of a schema, then a JSON object."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.errors import CorruptFileError, OptionError
from pyhudi.ingest.message_formats.json_messages import JsonDecoder
from pyhudi.ingest.message_formats.json_schema_types import columns_of_json_schema, fitted
from pyhudi.ingest.message_formats.message_format import DecodedMessages, MessageFailure
from pyhudi.ingest.message_formats.registered_messages import assembled, by_number, failed
from pyhudi.ingest.message_formats.schema_registry import SchemaKind, SchemaRegistry


@dataclass(frozen=True)
class JsonSchemaFormat:
    """registry: its address; each message names its schema.

    Rows have the columns of the schema that their message was written with; columns that it lacks
    are null, and fields of a message that its schema lacks are dropped.  Values are read as the
    types of the schema, or of the table where JSON has no such type (times, dates, decimals).
    Messages are not validated: `required`, `pattern` and other restrictions are not read.
    """

    registry: str | None = None

    def __post_init__(self) -> None:
        if self.registry is None:
            raise OptionError(
                "messages in JSON Schema need the address of a registry", hint="state registry"
            )

    def decoder(self, schema: pa.Schema) -> JsonSchemaDecoder:
        assert self.registry is not None
        return JsonSchemaDecoder(SchemaRegistry(self.registry), schema)


class JsonSchemaDecoder:
    """Raises the errors of the registry other than those of one schema, with which its messages
    fail."""

    def __init__(self, registry: SchemaRegistry, table: pa.Schema) -> None:
        self._registry, self._table = registry, table
        self._decoders: dict[int, JsonDecoder] = {}

    def decode(self, values: pa.Array) -> DecodedMessages:
        groups, failures = by_number(values)
        parts: list[tuple[pa.Table, np.ndarray]] = []
        for group in groups:
            try:
                decoder = self._decoder(group.number)
            except CorruptFileError as error:
                failures += failed(group.places, str(error))
                continue
            found = decoder.decode(group.bodies)
            if len(found.places):
                parts.append((found.rows, group.places[found.places]))
            failures += [
                MessageFailure(int(group.places[f.place]), f.reason) for f in found.failures
            ]
        return assembled(parts, failures)

    def _decoder(self, number: int) -> JsonDecoder:
        if number not in self._decoders:
            columns = columns_of_json_schema(self._registry.schema(number, SchemaKind.JSON))
            self._decoders[number] = JsonDecoder(fitted(columns, self._table), is_closed=True)
        return self._decoders[number]

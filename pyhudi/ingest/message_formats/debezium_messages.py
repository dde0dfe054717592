"""Messages of Debezium, in JSON or Avro: changes of rows in a database."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.ingest.message_formats.avro_messages import AvroDecoder, AvroFormat
from pyhudi.ingest.message_formats.connect_wrapper import payloads
from pyhudi.ingest.message_formats.debezium_images import envelope_schema, rows_of_changes
from pyhudi.ingest.message_formats.json_messages import JsonDecoder, JsonFormat
from pyhudi.ingest.message_formats.message_format import (
    DecodedMessages,
    MessageDecoder,
    MessageFailure,
)

_DATE: Final = "io.debezium.time.Date"


@dataclass(frozen=True)
class DebeziumFormat:
    """Changes that Debezium read from PostgreSQL, MySQL or MariaDB.

    values: JsonFormat, with or without the schema of Kafka Connect in each message, or AvroFormat.

    A row has the columns of the changed row (`before` of a delete, else `after`) and those that
    Apache Hudi's PostgresDebeziumSource and MysqlDebeziumSource add, such as
    `_change_operation_type` and `_event_lsn`.  The payload classes PostgresDebeziumAvroPayload and
    MySqlDebeziumAvroPayload merge them; other tables store deletes as rows.  Messages of other
    operations (truncate) and without the image of the row are rejected.
    """

    values: JsonFormat | AvroFormat = field(default_factory=JsonFormat)

    def decoder(self, schema: pa.Schema) -> MessageDecoder:
        if isinstance(self.values, AvroFormat):
            return _Changes(AvroDecoder(self.values, with_dates))
        columns = self.values.schema
        form = envelope_schema(schema if columns is None else columns)
        return _JsonChanges(_Changes(JsonDecoder(form, is_closed=columns is not None)))


class _Changes:
    """Flattens decoded envelopes."""

    def __init__(self, envelopes: MessageDecoder) -> None:
        self._envelopes = envelopes

    def decode(self, values: pa.Array) -> DecodedMessages:
        found = self._envelopes.decode(values)
        changes = rows_of_changes(found.rows, found.places)
        failures = sorted([*found.failures, *changes.failures], key=lambda f: f.place)
        return DecodedMessages(changes.rows, changes.places, failures)


class _JsonChanges:
    """Reads the payload of wrapped messages; a payload that is null is a tombstone."""

    def __init__(self, changes: MessageDecoder) -> None:
        self._changes = changes

    def decode(self, values: pa.Array) -> DecodedMessages:
        texts = payloads(values)
        tombstones = pc.equal(texts, b"null")
        if not pc.any(tombstones).as_py():
            return self._changes.decode(texts)
        live = np.flatnonzero(~tombstones.to_numpy(zero_copy_only=False))
        found = self._changes.decode(texts.take(pa.array(live)))
        failures = [MessageFailure(int(live[f.place]), f.reason) for f in found.failures]
        return DecodedMessages(found.rows, live[found.places], failures)


def with_dates(schema: str) -> str:
    """An Avro schema whose days since 1970 of Debezium are dates, as in Apache Hudi."""
    if _DATE not in schema:
        return schema
    return json.dumps(_with_dates(json.loads(schema)))


def _with_dates(node: Any) -> Any:
    if isinstance(node, list):
        return [_with_dates(child) for child in node]
    if not isinstance(node, dict):
        return node
    if node.get("connect.name") == _DATE and node.get("type") == "int":
        return {**node, "logicalType": "date"}
    nested = {name: _with_dates(node[name]) for name in ("type", "fields", "items", "values")
              if isinstance(node.get(name), dict | list)}  # fmt: skip
    return {**node, **nested}

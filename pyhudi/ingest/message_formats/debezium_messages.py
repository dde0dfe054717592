"""Messages of Debezium, in JSON or Avro: changes of rows in a database."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.ingest.message_formats.avro_messages import AvroDecoder, AvroFormat
from pyhudi.ingest.message_formats.debezium_images import envelope_schema, rows_of_changes
from pyhudi.ingest.message_formats.json_messages import JsonDecoder, JsonFormat
from pyhudi.ingest.message_formats.message_format import (
    DecodedMessages,
    MessageDecoder,
    MessageFailure,
)

_DATE: Final = "io.debezium.time.Date"
_START: Final = b'{"schema":'
_NEXT: Final = ',"payload":'
_END: Final = b"}"
_NAME: Final = b'"payload"'
_NAMES: Final = frozenset({"schema", "payload"})
_TRIED: Final = 8
"""Messages whose schema is looked for before all are parsed one by one."""


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
        texts = _payloads(values)
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


def _payloads(values: pa.Array) -> pa.Array:
    """The payloads of JSON messages of Kafka Connect with `schemas.enable`:
    `{"schema":{...},"payload":...}`.

    values: binary, without nulls.  The text of each payload, `null` too; messages without the
    wrapper unchanged.  Messages of one version of a table have the same schema, so its text is
    parsed once.
    """
    wrapped = pc.match_substring(values, _NAME).to_numpy(zero_copy_only=False)
    if not wrapped.any():
        return values
    rest = np.flatnonzero(wrapped)
    parts, places = [values.filter(pa.array(~wrapped))], [np.flatnonzero(~wrapped)]
    while len(rest):
        left = values.take(pa.array(rest))
        prefix = _common_prefix(left)
        if prefix is None:
            texts = [_payload(value) for value in left.to_pylist()]
            parts.append(pa.array(texts, pa.binary()))
            places.append(rest)
            break
        whole = pc.and_(pc.starts_with(left, prefix), pc.ends_with(left, _END))
        parts.append(pc.binary_slice(left.filter(whole), len(prefix), -1))
        chosen = whole.to_numpy(zero_copy_only=False)
        places.append(rest[chosen])
        rest = rest[~chosen]
    order = np.argsort(np.concatenate(places))
    return pa.concat_arrays(parts).take(pa.array(order))


def _common_prefix(values: pa.Array) -> bytes | None:
    """That of one of the first messages; None if they have another form."""
    first = values.slice(0, _TRIED).to_pylist()
    return next((found for value in first if (found := _prefix(value)) is not None), None)


def _prefix(value: bytes) -> bytes | None:
    """The text before the payload; None for a message in another form."""
    if not value.startswith(_START):
        return None
    try:
        text = value.decode()
        _, end = json.JSONDecoder().raw_decode(text, len(_START))
    except ValueError:
        return None
    if not text.startswith(_NEXT, end) or not value.endswith(_END):
        return None
    return text[: end + len(_NEXT)].encode()


def _payload(value: bytes) -> bytes:
    """Of a message in any form."""
    try:
        found = json.loads(value)
    except ValueError:
        return value
    if not isinstance(found, dict) or "payload" not in found or not found.keys() <= _NAMES:
        return value
    return json.dumps(found["payload"]).encode()

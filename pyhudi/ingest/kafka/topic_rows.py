"""Messages as rows of a table: decoded values, deletes of null values, columns of the position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import OptionError, SchemaError
from pyhudi.ingest.kafka.messages import POSITION_COLUMNS, TYPES, MessageBatch
from pyhudi.ingest.message_formats.message_format import (
    DecodedMessages,
    MessageDecoder,
    MessageFailure,
    MessageFormat,
)
from pyhudi.ingest.source import REJECTED
from pyhudi.records import IS_DELETED

NULL_VALUES: Final = ("reject", "skip", "delete")


@dataclass(frozen=True)
class RowSettings:
    """How messages become rows; can be pickled.

    null_values: of NULL_VALUES.  key_columns: of the table, filled from the message's key where
    the value is null.  key_format: decodes keys; None: text, for one column.  columns: keys of
    POSITION_COLUMNS.
    """

    format: MessageFormat
    null_values: str = "reject"
    key_columns: Sequence[str] = ()
    key_format: MessageFormat | None = None
    columns: Sequence[str] = ()

    def __post_init__(self) -> None:
        unknown = set(self.columns) - POSITION_COLUMNS.keys()
        if unknown:
            raise OptionError(
                "unknown columns of a message", columns=sorted(unknown),
                hint="use " + ", ".join(POSITION_COLUMNS),
            )  # fmt: skip
        if self.null_values not in NULL_VALUES:
            raise OptionError(
                "unknown treatment of null values", null_values=self.null_values,
                hint="use " + ", ".join(NULL_VALUES),
            )  # fmt: skip
        if (self.null_values == "delete") != bool(self.key_columns):
            raise OptionError(
                "deletes by null values need the columns of the key", key_columns=self.key_columns,
                hint='state null_values="delete" and key_columns together',
            )  # fmt: skip
        if self.key_format is None and len(self.key_columns) > 1:
            raise OptionError(
                "text cannot fill several columns", key_columns=self.key_columns,
                hint='state key_format="json"',
            )  # fmt: skip

    @property
    def read_columns(self) -> set[str]:
        """What the client reads of a message besides its value."""
        return {*self.columns, *(["key"] if self.key_columns else [])}


class TopicRows:
    """Decodes the messages of one batch, in parts; schema: of the table, may be empty."""

    def __init__(self, settings: RowSettings, schema: pa.Schema) -> None:
        self._settings = settings
        self._decoder = settings.format.decoder(schema)
        self._keys = _key_decoder(settings, schema) if settings.key_columns else None

    def decode(self, messages: MessageBatch) -> tuple[pa.Table, pa.RecordBatch]:
        """The rows in the order of the messages, and the rejected messages (REJECTED)."""
        null = messages.values.is_null().to_numpy(zero_copy_only=False)
        if not null.any():
            decoded = self._decoder.decode(messages.values)
        else:
            decoded = self._with_nulls(messages, null)
        return self._placed(decoded, messages), _rejected(decoded.failures, messages)

    def _with_nulls(self, messages: MessageBatch, null: np.ndarray) -> DecodedMessages:
        live, empty = np.flatnonzero(~null), np.flatnonzero(null)
        parts = [_moved(self._decoder.decode(messages.values.take(pa.array(live))), live)]
        match self._settings.null_values:
            case "delete":
                parts.append(self._deletes(messages, empty))
            case "reject":
                reason = "the value is null; state null_values"
                failures = [MessageFailure(int(place), reason) for place in empty]
                parts.append(DecodedMessages(pa.table({}), np.empty(0, np.int64), failures))
        return _in_order(parts)

    def _deletes(self, messages: MessageBatch, places: np.ndarray) -> DecodedMessages:
        assert messages.keys is not None and self._keys is not None
        keys = messages.keys.take(pa.array(places))
        keyless = keys.is_null().to_numpy(zero_copy_only=False)
        named = np.flatnonzero(~keyless)
        decoded = _moved(self._keys.decode(keys.take(pa.array(named))), places[named])
        rows = decoded.rows.select(list(self._settings.key_columns))
        rows = rows.append_column(IS_DELETED, pa.repeat(pa.scalar(True), rows.num_rows))
        failures = [MessageFailure(int(p), "key and value are null") for p in places[keyless]]
        return DecodedMessages(rows, decoded.places, [*decoded.failures, *failures])

    def _placed(self, decoded: DecodedMessages, messages: MessageBatch) -> pa.Table:
        rows = decoded.rows
        for name in self._settings.columns:
            values = messages.column(name)
            if len(decoded.places) < len(messages):
                values = values.take(pa.array(decoded.places))
            rows = rows.append_column(POSITION_COLUMNS[name], values)
        return rows


class _TextKeys:
    """Keys as the text of one column."""

    def __init__(self, name: str, kind: pa.DataType) -> None:
        self._name, self._kind = name, kind

    def decode(self, values: pa.Array) -> DecodedMessages:
        try:
            column = values.cast(pa.string()).cast(self._kind)
            return DecodedMessages(pa.table({self._name: column}), np.arange(len(values)))
        except pa.ArrowInvalid as error:
            if len(values) == 1:
                failure = MessageFailure(0, f"the key is not of the column's type: {error}")
                return DecodedMessages(self._none(), np.empty(0, np.int64), [failure])
        half = len(values) // 2
        first, second = self.decode(values.slice(0, half)), self.decode(values.slice(half))
        return _in_order([first, _moved(second, np.arange(half, len(values)))])

    def _none(self) -> pa.Table:
        return pa.schema([(self._name, self._kind)]).empty_table()


def _key_decoder(settings: RowSettings, schema: pa.Schema) -> MessageDecoder:
    missing = [name for name in settings.key_columns if name not in schema.names]
    if missing and len(schema):
        raise SchemaError(
            "the table has no such key columns", missing=missing, columns=schema.names,
            hint="state the columns of the record key",
        )  # fmt: skip
    fields = [schema.field(name) for name in settings.key_columns if name not in missing]
    if settings.key_format is not None:
        return settings.key_format.decoder(pa.schema(fields))
    return _TextKeys(settings.key_columns[0], fields[0].type if fields else pa.string())


def _moved(decoded: DecodedMessages, to: np.ndarray) -> DecodedMessages:
    """With the places of the messages among all."""
    failures = [MessageFailure(int(to[f.place]), f.reason) for f in decoded.failures]
    return DecodedMessages(decoded.rows, to[decoded.places], failures)


def _in_order(parts: Sequence[DecodedMessages]) -> DecodedMessages:
    failures = sorted((f for part in parts for f in part.failures), key=lambda f: f.place)
    filled = [part for part in parts if len(part.places)]
    if not filled:
        return DecodedMessages(parts[0].rows, parts[0].places, failures)
    rows = pa.concat_tables([part.rows for part in filled], promote_options="permissive")
    if IS_DELETED in rows.schema.names:
        position = rows.schema.get_field_index(IS_DELETED)
        rows = rows.set_column(position, IS_DELETED, pc.fill_null(rows.column(position), False))
    places = np.concatenate([part.places for part in filled])
    order = np.argsort(places, kind="stable")
    return DecodedMessages(rows.take(pa.array(order)), places[order], failures)


def _rejected(failures: Sequence[MessageFailure], messages: MessageBatch) -> pa.RecordBatch:
    places = [failure.place for failure in failures]
    raw = messages.values.take(pa.array(places, pa.int64()))
    reasons = pa.array([failure.reason for failure in failures], pa.string())
    positions = pa.array(messages.places(places), pa.string())
    return pa.record_batch([raw.cast(pa.binary()), reasons, positions], schema=REJECTED)


def joined(tables: Sequence[pa.Table], schema: pa.Schema) -> pa.Table:
    """Parts of a batch as one table; columns that a part or all lack are null.

    schema: of the table.  Raises SchemaError for types without a common one.
    """
    filled = [table for table in tables if table.num_rows]
    try:
        rows = pa.concat_tables(filled or tables[:1], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(
            "the messages of a batch have different columns", reason=str(error),
            hint="state the schema in the format",
        ) from error  # fmt: skip
    for field in schema:
        if field.name not in rows.schema.names:
            rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type))
    return rows


def with_message_columns(schema: pa.Schema, settings: RowSettings) -> pa.Schema:
    """`schema` with the columns that the settings add to the rows."""
    added = [pa.field(POSITION_COLUMNS[name], TYPES[name]) for name in settings.columns]
    if settings.key_columns:
        added.append(pa.field(IS_DELETED, pa.bool_()))
    return pa.schema([*schema, *(field for field in added if field.name not in schema.names)])


def check_columns(found: pa.Schema, columns: pa.Schema) -> None:
    """Raises SchemaError for a column that is not in `columns`."""
    extra = [name for name in found.names if name not in columns.names]
    if extra:
        raise SchemaError("the messages have fields that are not in the plan", fields=extra)

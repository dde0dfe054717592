"""Messages as rows of a table: decoded values, deletes of null values, columns of the position."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import OptionError, SchemaError
from pyhudi.ingest.kafka.messages import (
    POSITION_COLUMNS,
    TYPES,
    MessageBatch,
    MessagePositions,
)
from pyhudi.ingest.message_formats.message_format import (
    DecodedMessages,
    MessageDecoder,
    MessageFailure,
    MessageFormat,
)
from pyhudi.ingest.row_fit import fitting, lacking_fields, shaped, unified, with_fields
from pyhudi.ingest.source import REJECTED, rejected_batch, texts_of_rows
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
                "unknown columns of a message",
                columns=sorted(unknown),
                hint="use " + ", ".join(POSITION_COLUMNS),
            )
        if self.null_values not in NULL_VALUES:
            raise OptionError(
                "unknown treatment of null values",
                null_values=self.null_values,
                hint="use " + ", ".join(NULL_VALUES),
            )
        if (self.null_values == "delete") != bool(self.key_columns):
            raise OptionError(
                "deletes by null values need the columns of the key",
                key_columns=self.key_columns,
                hint='state null_values="delete" and key_columns together',
            )
        if self.key_format is None and len(self.key_columns) > 1:
            raise OptionError(
                "text cannot fill several columns",
                key_columns=self.key_columns,
                hint='state key_format="json"',
            )

    @property
    def read_columns(self) -> set[str]:
        """What the client reads of a message besides its value."""
        return {*self.columns, *(["key"] if self.key_columns else [])}


class TopicPart(NamedTuple):
    """rows: of messages.  rejected: messages that cannot be decoded (REJECTED).  positions: of the
    messages of the rows."""

    rows: pa.Table
    rejected: pa.RecordBatch
    positions: MessagePositions


class TopicRows:
    """Decodes the messages of one batch, in parts; schema: of the table, may be empty."""

    def __init__(self, settings: RowSettings, schema: pa.Schema) -> None:
        self._settings = settings
        self._decoder = settings.format.decoder(schema)
        self._keys = _key_decoder(settings, schema) if settings.key_columns else None

    def decode(self, messages: MessageBatch) -> TopicPart:
        """The rows are in the order of the messages."""
        null = messages.values.is_null().to_numpy(zero_copy_only=False)
        if not null.any():
            decoded = self._decoder.decode(messages.values)
        else:
            decoded = self._with_nulls(messages, null)
        return TopicPart(
            self._placed(decoded, messages),
            _rejected(decoded.failures, messages),
            messages.positions(decoded.places),
        )

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
        rows = decoded.rows
        rows = pa.table(
            {
                name: rows.column(name) if name in rows.column_names else pa.nulls(rows.num_rows)
                for name in self._settings.key_columns
            }
        )
        rows = rows.append_column(IS_DELETED, pa.repeat(pa.scalar(True), rows.num_rows))
        failures = [MessageFailure(int(p), "key and value are null") for p in places[keyless]]
        return DecodedMessages(rows, decoded.places, [*decoded.failures, *failures])

    def _placed(self, decoded: DecodedMessages, messages: MessageBatch) -> pa.Table:
        rows = decoded.rows
        for name in self._settings.columns:
            values = messages.column(name)
            if len(decoded.places) < len(messages):
                values = values.take(pa.array(decoded.places))
            column = POSITION_COLUMNS[name]
            if column in rows.column_names:  # a field of the message; the position counts
                rows = rows.drop_columns([column])
            rows = rows.append_column(column, values)
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
            "the table has no such key columns",
            missing=missing,
            columns=schema.names,
            hint="state the columns of the record key",
        )
    fields = [schema.field(name) for name in settings.key_columns if name not in missing]
    if settings.key_format is not None:
        return settings.key_format.decoder(pa.schema(fields))
    return _TextKeys(settings.key_columns[0], fields[0].type if fields else pa.string())


def _moved(decoded: DecodedMessages, to: np.ndarray) -> DecodedMessages:
    """With the places of the messages among all."""
    failures = [MessageFailure(int(to[f.place]), f.reason) for f in decoded.failures]
    return DecodedMessages(decoded.rows, to[decoded.places], failures)


def _in_order(parts: Sequence[DecodedMessages]) -> DecodedMessages:
    failures = [failure for part in parts for failure in part.failures]
    filled = [(part.rows, part.places) for part in parts if len(part.places)]
    if not filled:
        rows, places = parts[0].rows, parts[0].places
    else:
        rows, places, faults = unified(filled, pa.schema([]))
        failures += [MessageFailure(place, reason) for place, reason in faults.items()]
    failures.sort(key=lambda failure: failure.place)
    if IS_DELETED in rows.schema.names and len(filled) > 1:
        position = rows.schema.get_field_index(IS_DELETED)
        rows = rows.set_column(position, IS_DELETED, pc.fill_null(rows.column(position), False))
    return DecodedMessages(rows, places, failures)


def _rejected(failures: Sequence[MessageFailure], messages: MessageBatch) -> pa.RecordBatch:
    places = [failure.place for failure in failures]
    raw = messages.values.take(pa.array(places, pa.int64()))
    reasons = pa.array([failure.reason for failure in failures], pa.string())
    positions = pa.array(messages.positions(places).texts(range(len(places))), pa.string())
    return pa.record_batch([raw.cast(pa.binary()), reasons, positions], schema=REJECTED)


def joined(
    parts: Sequence[TopicPart], schema: pa.Schema
) -> tuple[pa.Table, pa.RecordBatch, np.ndarray]:
    """Parts of a batch as one table, the rejected rows (REJECTED), and the numbers of the other
    ones among all.  Columns, and fields of structs, that a part or all lack are null; rows whose
    values do not have the type of their column in the other parts are rejected.

    schema: of the table.
    """
    filled = [part for part in parts if part.rows.num_rows] or list(parts[:1])
    ends = np.cumsum([part.rows.num_rows for part in filled])
    numbered = [
        (part.rows, np.arange(end - part.rows.num_rows, end))
        for part, end in zip(filled, ends, strict=True)
    ]
    rows, retained, faults = unified(numbered, schema)
    raws: list[bytes] = []
    positions: list[str] = []
    for place in sorted(faults):
        number = int(np.searchsorted(ends, place, side="right"))
        part = filled[number]
        at = place - int(ends[number]) + part.rows.num_rows
        raws += texts_of_rows(part.rows.slice(at, 1))
        positions += part.positions.texts([at])
    for field in schema:
        at = rows.schema.get_field_index(field.name)
        if at < 0:
            rows = rows.append_column(field.name, pa.nulls(rows.num_rows, field.type))
            continue
        whole = with_fields(rows.schema.field(at).type, field.type)
        if whole != rows.schema.field(at).type:
            rows = rows.set_column(at, field.name, shaped(rows.column(at), whole, field.name))
    rejected = rejected_batch(raws, [faults[place] for place in sorted(faults)], positions)
    return rows, rejected, retained


def fitted(part: TopicPart, columns: pa.Schema) -> tuple[pa.Table, pa.RecordBatch]:
    """The rows with these columns, and those that do not fit them (REJECTED).  Raises SchemaError
    for a column, or field of a struct, that is not in `columns`."""
    given = pa.struct(list(part.rows.schema))
    extra = list(lacking_fields(pa.struct(list(columns)), [given]))
    if extra:
        raise SchemaError("the messages have fields that are not in the plan", fields=extra)
    rows, bad = fitting(part.rows, columns)
    places = sorted(bad)
    texts = texts_of_rows(part.rows.take(places)) if bad else []
    reasons = [bad[place] for place in places]
    return rows, rejected_batch(texts, reasons, part.positions.texts(places))


def with_message_columns(schema: pa.Schema, settings: RowSettings) -> pa.Schema:
    """`schema` with the columns that the settings add to the rows."""
    added = [pa.field(POSITION_COLUMNS[name], TYPES[name]) for name in settings.columns]
    if settings.key_columns:
        added.append(pa.field(IS_DELETED, pa.bool_()))
    return pa.schema([*schema, *(field for field in added if field.name not in schema.names)])

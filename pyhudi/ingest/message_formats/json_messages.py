"""JSON objects, one a message, parsed many at a time.

A part of the messages that does not parse is halved until the messages that fail are alone, so the
cost of valid messages is that of one parse of all.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.json as pj
import pyarrow.types as pt

from pyhudi.errors import SchemaError
from pyhudi.ingest.message_formats.json_values import converted, parse_type
from pyhudi.ingest.message_formats.message_format import DecodedMessages, MessageFailure

_LEAST_BLOCK: Final = 1 << 20
_SPACE: Final = b" \t\r\n"


@dataclass(frozen=True)
class JsonFormat:
    """Columns that the table has are read as its types: times from text or from numbers in the
    unit of the column, dates from text or days, decimals from text or numbers.  Other fields get
    the type of their values; text stays text.

    schema: columns, in place of those of the table; fields that it lacks are dropped.
    """

    schema: pa.Schema | None = None

    def decoder(self, schema: pa.Schema) -> JsonDecoder:
        if self.schema is not None:
            return JsonDecoder(self.schema, is_closed=True)
        return JsonDecoder(schema)


class JsonDecoder:
    """schema: a column of the type null gets the type of its values.  is_closed: fields that the
    schema lacks are dropped.

    A new field has the type of its first value in the batch; messages with values of no common
    type fail.
    """

    def __init__(self, schema: pa.Schema, *, is_closed: bool = False) -> None:
        self._schema, self._is_closed = schema, is_closed
        fields = (pa.field(field.name, parse_type(field)) for field in schema)
        self._explicit = {f.name: f.type for f in fields if not pt.is_null(f.type)}
        # a field without a type of the parser is read only if new fields are
        self._ignores_new = is_closed and len(self._explicit) == len(schema)
        self._new = pa.schema([])

    def decode(self, values: pa.Array) -> DecodedMessages:
        tables: list[pa.Table] = []
        places: list[np.ndarray] = []
        failures: list[MessageFailure] = []
        for part, first, error in self._parts(values, 0):
            if part is None:
                failures.append(MessageFailure(first, str(error)))
            else:
                tables.append(part)
                places.append(np.arange(first, first + part.num_rows))
        rows = pa.concat_tables(tables, promote_options="permissive") if tables else self._none()
        found = np.concatenate(places) if places else np.empty(0, np.int64)
        return DecodedMessages(rows, found, failures)

    def _none(self) -> pa.Table:
        return self._schema.empty_table()

    def _parts(
        self, values: pa.Array, first: int
    ) -> Iterator[tuple[pa.Table | None, int, Exception | None]]:
        """Tables of messages that follow each other, or the error of one message."""
        if not len(values):
            return
        try:
            yield self._table(values), first, None
        except (pa.ArrowException, SchemaError) as error:
            if len(values) == 1:
                yield None, first, error
                return
            half = len(values) // 2
            yield from self._parts(values.slice(0, half), first)
            yield from self._parts(values.slice(half), first + half)

    def _table(self, values: pa.Array) -> pa.Table:
        """Raises ArrowInvalid or SchemaError if one of the messages is not an object that fits."""
        lines = _lines(values)
        rows = self._parsed(lines)
        if rows.num_rows != len(values):
            raise pa.ArrowInvalid("not one JSON object")
        columns = [
            converted(rows.column(field.name), self._target(field), field.name)
            for field in rows.schema
        ]
        rows = pa.table(columns, rows.schema.names)
        self._learn(rows.schema)
        return rows

    def _target(self, field: pa.Field) -> pa.DataType:
        return self._known(field.name) or field.type

    def _parsed(self, lines: _Lines) -> pa.Table:
        rows = self._read(lines)
        times = [
            pa.field(field.name, text)
            for field in rows.schema
            if (text := _text_of_times(field.type, self._known(field.name))) is not None
        ]
        if not times:
            return rows
        # the parser takes text that looks like a time for one
        both = [pa.schema(list(self._explicit.items())), pa.schema(times)]
        merged = pa.unify_schemas(both, promote_options="permissive")
        self._explicit = {field.name: field.type for field in merged}
        return self._read(lines)

    def _read(self, lines: _Lines) -> pa.Table:
        rows = lines.read(self._explicit, ignores_new=self._ignores_new)
        if not self._is_closed:
            return rows
        return rows.select([n for n in rows.schema.names if n in self._schema.names])

    def _known(self, name: str) -> pa.DataType | None:
        """The type of a column; None: that of its values."""
        kind = _field_type(self._schema, name)
        return None if kind is None or pt.is_null(kind) else kind

    def _learn(self, schema: pa.Schema) -> None:
        """Raises SchemaError for a new field whose type does not fit its earlier values."""
        fields = [
            field
            for field in schema
            if (known := self._known(field.name)) is None
            or (pt.is_struct(known) and known != field.type)
        ]
        if not fields:
            return
        try:
            self._new = pa.unify_schemas(
                [self._new, pa.schema(fields)], promote_options="permissive"
            )
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SchemaError(
                "a new field has values of another type than before", reason=str(error)
            ) from error


class _Lines:
    """Messages as lines of one buffer."""

    def __init__(self, buffer: pa.Buffer, longest_bytes: int) -> None:
        self._buffer = buffer
        self._block_bytes = max(_LEAST_BLOCK, 2 * longest_bytes)

    def read(self, explicit: dict[str, pa.DataType], *, ignores_new: bool) -> pa.Table:
        options = pj.ParseOptions(
            explicit_schema=pa.schema(list(explicit.items())),
            unexpected_field_behavior="ignore" if ignores_new else "infer",
        )
        read = pj.ReadOptions(block_size=self._block_bytes)
        return pj.read_json(pa.BufferReader(self._buffer), read_options=read, parse_options=options)


def _lines(values: pa.Array) -> _Lines:
    """Raises ArrowInvalid for a message that is not UTF-8 or not an object."""
    texts = values.cast(pa.string())  # checks that the bytes are UTF-8
    lengths = pc.binary_length(values).to_numpy()
    _check_objects(values, lengths)
    if pc.any(pc.match_substring(texts, "\n")).as_py():
        texts = pc.replace_substring(texts, "\n", " ")  # a line break between tokens
    offsets = pa.array([0, len(texts)], pa.int32())
    joined = pc.binary_join(pa.ListArray.from_arrays(offsets, texts), "\n")
    return _Lines(joined[0].as_buffer(), int(lengths.max()))


def _check_objects(values: pa.Array, lengths: np.ndarray) -> None:
    """Each message begins with a brace, so none is empty and none continues another."""
    if lengths.min() == 0:
        raise pa.ArrowInvalid("an empty message")
    start = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values)]
    first = np.frombuffer(values.buffers()[2], np.uint8)[start]
    for place in np.flatnonzero(first != ord("{")):
        if not values[int(place)].as_py().lstrip(_SPACE).startswith(b"{"):
            raise pa.ArrowInvalid("not a JSON object")


def _text_of_times(found: pa.DataType, known: pa.DataType | None) -> pa.DataType | None:
    """The type of the times in values without a type of the table, as text; None: no times.

    Of a struct only its fields with times are in the type: the others get that of their values.
    """
    if pt.is_struct(found) and (known is None or pt.is_struct(known)):
        fields = [(field.name, field.type, _field_type(known, field.name)) for field in found]
        texts = [(name, _text_of_times(kind, old)) for name, kind, old in fields]
        times = [pair for pair in texts if pair[1] is not None]
        return pa.struct(times) if times else None
    if known is not None:
        return None
    if pt.is_timestamp(found):
        return pa.string()
    if pt.is_list(found):
        item = _text_of_times(found.value_type, None)
        return None if item is None else pa.list_(item)
    return None


def _field_type(struct: pa.DataType | pa.Schema | None, name: str) -> pa.DataType | None:
    if struct is None or struct.get_field_index(name) < 0:
        return None
    return struct.field(name).type

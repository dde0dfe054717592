"""JSON objects, one a message, taken apart many at a time."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi._native.json_values import JsonRows
from pyhudi.ingest.message_formats.json_values import JsonReader
from pyhudi.ingest.message_formats.message_format import DecodedMessages, MessageFailure


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

    A new field has the kind of its first value in the batch, integers become float64 if one has a
    fraction; messages with other values fail.  Fields without any value have no column.
    """

    def __init__(self, schema: pa.Schema, *, is_closed: bool = False) -> None:
        self._reader = JsonReader(schema, is_closed=is_closed)

    def decode(self, values: pa.Array) -> DecodedMessages:
        rows, places, faults = self._reader.read(objects_of(values))
        failures = [MessageFailure(place, faults[place]) for place in sorted(faults)]
        return DecodedMessages(rows, places, failures)


def objects_of(values: pa.Array) -> JsonRows:
    """The values of messages.  values: binary, without nulls."""
    ends = np.frombuffer(values.buffers()[1] or b"", np.int32)[values.offset :][: len(values) + 1]
    offsets = ends.astype(np.int64)
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    return JsonRows(data, offsets[:-1], offsets[1:])

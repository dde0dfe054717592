"""Messages of AWS DMS: rows of a first load and changes.

```
{"data": {...}, "metadata": {"record-type": "data", "operation": "insert", ...}}
```
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.ingest.message_formats.envelopes import nested_values, texts_of
from pyhudi.ingest.message_formats.json_messages import JsonDecoder
from pyhudi.ingest.message_formats.message_format import (
    DecodedMessages,
    MessageDecoder,
    MessageFailure,
)

_OP: Final = "Op"
_CODES: Final[Mapping[str, str]] = {"load": "", "insert": "I", "update": "U", "delete": "D"}
"""Values of Op in files of AWS DMS, by the operation of a message; a first load has none, for which
AWSDmsTransformer of Apache Hudi writes an empty text."""
_METADATA: Final = ("record-type", "operation")


@dataclass(frozen=True)
class DmsFormat:
    """Rows and changes that AWS DMS writes to Kafka, in JSON.

    A row has the columns of `data`, and the column Op: `I`, `U`, `D`, or an empty text for a row of
    the first load.  The payload class AWSDmsAvroPayload merges them; other tables store deletes as
    rows.  Control messages (a table was created) have no row.
    """

    def decoder(self, schema: pa.Schema) -> MessageDecoder:
        data = pa.struct([field for field in schema if field.name != _OP])
        metadata = pa.struct([(name, pa.string()) for name in _METADATA])
        return _Rows(JsonDecoder(pa.schema([("data", data), ("metadata", metadata)])))


class _Rows:
    def __init__(self, envelopes: MessageDecoder) -> None:
        self._envelopes = envelopes

    def decode(self, values: pa.Array) -> DecodedMessages:
        found = self._envelopes.decode(values)
        data = nested_values(found.rows, ("data",))
        operations = texts_of(nested_values(found.rows, ("metadata", "operation")))
        kinds = texts_of(nested_values(found.rows, ("metadata", "record-type")))
        codes = pc.index_in(operations, value_set=pa.array(list(_CODES)))
        has_code = np.asarray(codes.is_valid())
        has_data = np.asarray(data.is_valid()) & np.full(len(data), pt.is_struct(data.type))
        is_row = has_code & has_data
        wrong = ~is_row & np.asarray(pc.not_equal(kinds, "control"))
        named = is_row & np.asarray(nested_values(found.rows, ("data", _OP)).is_valid())
        is_row &= ~named
        failures = [
            MessageFailure(int(found.places[n]), _reason(operations[int(n)].as_py(), has_code[n]))
            for n in np.flatnonzero(wrong)
        ] + [
            MessageFailure(int(found.places[n]), f"data has a field {_OP}")
            for n in np.flatnonzero(named)
        ]
        rows = _flat(data.filter(pa.array(is_row)), codes.filter(pa.array(is_row)))
        failures = sorted([*found.failures, *failures], key=lambda failure: failure.place)
        return DecodedMessages(rows, found.places[is_row], failures)


def _flat(data: pa.Array, codes: pa.Array) -> pa.Table:
    if not pt.is_struct(data.type) or not len(data):
        return pa.table({})
    rows = pa.Table.from_struct_array(data)
    rows = rows.select([name for name in rows.column_names if name != _OP])
    return rows.append_column(_OP, pa.array(list(_CODES.values())).take(codes))


def _reason(operation: str, is_known: bool) -> str:
    if not is_known:
        return f"metadata.operation is {operation!r}, not one of " + ", ".join(_CODES)
    return "the message has no data"

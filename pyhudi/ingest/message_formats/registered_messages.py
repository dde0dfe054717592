"""Messages with the number of their schema in a registry, as Confluent's serializers write them.

```
0 | number of the schema: 4 bytes, big-endian | body
```

Messages with the same schema are decoded at once.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.ingest.message_formats.message_format import DecodedMessages, MessageFailure
from pyhudi.ingest.row_fit import unified

_HEADER_BYTES: Final = 5


@dataclass(frozen=True, slots=True)
class NumberedMessages:
    """Messages with the same schema.  places: ascending.  bodies: without the header."""

    number: int
    places: np.ndarray
    bodies: pa.Array


def by_number(values: pa.Array) -> tuple[list[NumberedMessages], list[MessageFailure]]:
    """values: binary, without nulls.  The messages by their schema, and those without one."""
    lengths = pc.binary_length(values).to_numpy()
    starts = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values)]
    data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
    long = np.flatnonzero(lengths >= _HEADER_BYTES)
    marked = long[data[starts[long]] == 0]
    unmarked = np.setdiff1d(np.arange(len(values)), marked)
    failures = failed(unmarked, "the message has no number of a schema")
    numbers = np.zeros(len(marked), np.int64)
    for byte in range(1, _HEADER_BYTES):
        numbers = numbers * 256 + data[starts[marked] + byte]
    groups = []
    for number in np.unique(numbers).tolist():
        places = marked[numbers == number]
        whole = values if len(places) == len(values) else values.take(pa.array(places))
        bodies = pc.binary_slice(whole, _HEADER_BYTES, int(lengths[places].max()))
        groups.append(NumberedMessages(number, places, bodies))
    return groups, failures


def failed(places: np.ndarray, reason: str) -> list[MessageFailure]:
    """The same failure of several messages."""
    return [MessageFailure(int(place), reason) for place in places]


def assembled(
    parts: Sequence[tuple[pa.Table, np.ndarray]], failures: Sequence[MessageFailure]
) -> DecodedMessages:
    """Rows of several schemas in the order of their messages; columns that a part lacks are null.

    parts: rows and the places of their messages.  Where types have none in common, messages whose
    values the type of the first schema does not have fail.
    """
    if not parts:
        ordered = sorted(failures, key=lambda failure: failure.place)
        return DecodedMessages(pa.table({}), np.empty(0, np.int64), ordered)
    rows, places, faults = unified(parts, pa.schema([]))
    found = [*failures, *(MessageFailure(place, reason) for place, reason in faults.items())]
    return DecodedMessages(rows, places, sorted(found, key=lambda failure: failure.place))

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

from pyhudi.errors import SchemaError
from pyhudi.ingest.message_formats.message_format import DecodedMessages, MessageFailure

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

    parts: rows and the places of their messages.  Raises SchemaError for columns whose types have
    no common one.
    """
    ordered = sorted(failures, key=lambda failure: failure.place)
    if not parts:
        return DecodedMessages(pa.table({}), np.empty(0, np.int64), ordered)
    if len(parts) == 1:
        return DecodedMessages(parts[0][0], parts[0][1], ordered)
    try:
        rows = pa.concat_tables([rows for rows, _ in parts], promote_options="permissive")
    except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
        raise SchemaError(
            "the schemas of the messages have columns without a common type", reason=str(error),
            hint="register only schemas that are compatible with earlier ones",
        ) from error  # fmt: skip
    found = np.concatenate([places for _, places in parts])
    order = np.argsort(found, kind="stable")
    return DecodedMessages(rows.take(pa.array(order)), found[order], ordered)

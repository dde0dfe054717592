"""Messages in a form that a function reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.errors import SchemaError
from pyhudi.ingest.message_formats.message_format import DecodedMessages, MessageFailure
from pyhudi.ingest.row_fit import unified

BytesFunction = Callable[[pa.Array], pa.Table]


@dataclass(frozen=True)
class BytesFormat:
    """function: takes many messages at once, a binary array without nulls, and returns a table
    with one row for each, in their order.  It raises ValueError if one of them cannot be read; it
    is then called with fewer, until the messages that fail are alone.  On Spark it must be
    importable by the tasks.
    """

    function: BytesFunction

    def decoder(self, schema: pa.Schema) -> BytesDecoder:
        return BytesDecoder(self.function, schema)


class BytesDecoder:
    """Messages whose values do not have the common type of their columns fail.  Raises SchemaError
    if the function returns another number of rows than messages."""

    def __init__(self, function: BytesFunction, schema: pa.Schema) -> None:
        self._function, self._schema = function, schema

    def decode(self, values: pa.Array) -> DecodedMessages:
        failures: list[MessageFailure] = []
        parts = list(self._parts(values, 0, failures))
        if not parts:
            return DecodedMessages(pa.table({}), np.empty(0, np.int64), failures)
        rows, places, faults = unified(parts, self._schema)
        failures += [MessageFailure(place, reason) for place, reason in faults.items()]
        failures.sort(key=lambda failure: failure.place)
        return DecodedMessages(rows, places, failures)

    def _parts(
        self, values: pa.Array, first: int, failures: list[MessageFailure]
    ) -> Iterator[tuple[pa.Table, np.ndarray]]:
        """Tables and the places of their messages; messages that fail go to `failures`."""
        if not len(values):
            return
        try:
            rows = self._function(values)
        except ValueError as error:
            if len(values) == 1:
                failures.append(MessageFailure(first, str(error)))
                return
            half = len(values) // 2
            yield from self._parts(values.slice(0, half), first, failures)
            yield from self._parts(values.slice(half), first + half, failures)
            return
        if rows.num_rows != len(values):
            raise SchemaError(
                "the function returned another number of rows than messages",
                rows=rows.num_rows,
                messages=len(values),
                hint="return one row for each message, in their order",
            )
        yield rows, np.arange(first, first + rows.num_rows)

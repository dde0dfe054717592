"""Messages in a form that a function reads."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import pyarrow as pa

from pyhudi.errors import SchemaError
from pyhudi.ingest.message_formats.message_format import DecodedMessages, MessageFailure

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
        return BytesDecoder(self.function)


class BytesDecoder:
    """Raises SchemaError if the function returns another number of rows than messages, or columns
    without a common type."""

    def __init__(self, function: BytesFunction) -> None:
        self._function = function

    def decode(self, values: pa.Array) -> DecodedMessages:
        failures: list[MessageFailure] = []
        parts = list(self._parts(values, 0, failures))
        if not parts:
            return DecodedMessages(pa.table({}), np.empty(0, np.int64), failures)
        try:
            rows = pa.concat_tables([rows for rows, _ in parts], promote_options="permissive")
        except (pa.ArrowInvalid, pa.ArrowTypeError) as error:
            raise SchemaError(
                "the function returned columns without a common type", reason=str(error),
                hint="return the same types for all messages",
            ) from error  # fmt: skip
        places = [np.arange(first, first + rows.num_rows) for rows, first in parts]
        return DecodedMessages(rows, np.concatenate(places), failures)

    def _parts(
        self, values: pa.Array, first: int, failures: list[MessageFailure]
    ) -> Iterator[tuple[pa.Table, int]]:
        """Tables and the place of their first message; messages that fail go to `failures`."""
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
                "the function returned another number of rows than messages", rows=rows.num_rows,
                messages=len(values), hint="return one row for each message, in their order",
            )  # fmt: skip
        yield rows, first

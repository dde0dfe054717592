"""Avro messages: with the schema's number in a registry before the value, or with a given schema.

```
0 | number of the schema: 4 bytes, big-endian | Avro value        with a registry
```

Messages with the same schema are decoded at once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi._native import AvroCodec
from pyhudi.errors import CorruptFileError, OptionError
from pyhudi.ingest.message_formats.message_format import DecodedMessages, MessageFailure
from pyhudi.ingest.message_formats.schema_registry import SchemaRegistry

_HEADER_BYTES: Final = 5


@dataclass(frozen=True)
class AvroFormat:
    """registry: its address; each message names its schema.  schema: JSON text, of messages without
    a header.  State one of them.

    Rows have the columns of the schema that their message was written with; columns that it lacks
    are null, and types of several schemas are widened.
    """

    registry: str | None = None
    schema: str | None = None

    def __post_init__(self) -> None:
        if (self.registry is None) == (self.schema is None):
            raise OptionError(
                "Avro messages need the address of a registry or a schema",
                hint="state one of registry and schema",
            )

    def decoder(self, schema: pa.Schema) -> AvroDecoder:
        return AvroDecoder(self)


class AvroDecoder:
    """Raises the errors of the registry other than that of an unknown number.

    prepared: changes the text of a schema before it is used.
    """

    def __init__(self, form: AvroFormat, prepared: Callable[[str], str] = str) -> None:
        self._prepared = prepared
        self._registry = None if form.registry is None else SchemaRegistry(form.registry)
        self._given = None if form.schema is None else AvroCodec(prepared(form.schema))
        self._codecs: dict[int, AvroCodec] = {}

    def decode(self, values: pa.Array) -> DecodedMessages:
        tables: list[pa.Table] = []
        places: list[np.ndarray] = []
        failures: list[MessageFailure] = []
        for where, codec, reason in self._groups(values):
            if codec is None:
                failures += [MessageFailure(int(place), reason) for place in where]
                continue
            datums = values.take(pa.array(where))
            if self._given is None:
                longest = pc.max(pc.binary_length(datums)).as_py()
                datums = pc.binary_slice(datums, _HEADER_BYTES, longest)
            for rows, part in _decoded(codec, datums, where, failures):
                tables.append(rows)
                places.append(part)
        if not tables:
            return DecodedMessages(pa.table({}), np.empty(0, np.int64), failures)
        found = np.concatenate(places)
        order = np.argsort(found, kind="stable")
        rows = pa.concat_tables(tables, promote_options="permissive").take(pa.array(order))
        return DecodedMessages(rows, found[order], sorted(failures, key=lambda f: f.place))

    def _groups(self, values: pa.Array) -> Iterator[tuple[np.ndarray, AvroCodec | None, str]]:
        """Places of messages with the same schema; without a codec, why they have none."""
        if self._given is not None:
            yield np.arange(len(values)), self._given, ""
            return
        lengths = pc.binary_length(values).to_numpy()
        starts = np.frombuffer(values.buffers()[1], np.int32)[values.offset :][: len(values)]
        data = np.frombuffer(values.buffers()[2] or b"", np.uint8)
        long = np.flatnonzero(lengths >= _HEADER_BYTES)
        marked = long[data[starts[long]] == 0]
        unmarked = np.setdiff1d(np.arange(len(values)), marked)
        if len(unmarked):
            yield unmarked, None, "the message has no number of a schema"
        numbers = np.zeros(len(marked), np.int64)
        for byte in range(1, _HEADER_BYTES):
            numbers = numbers * 256 + data[starts[marked] + byte]
        for number in np.unique(numbers).tolist():
            where = marked[numbers == number]
            try:
                yield where, self._by_number(number), ""
            except CorruptFileError as error:
                yield where, None, str(error)

    def _by_number(self, number: int) -> AvroCodec:
        assert self._registry is not None
        if number not in self._codecs:
            self._codecs[number] = AvroCodec(self._prepared(self._registry.schema(number)))
        return self._codecs[number]


def _decoded(
    codec: AvroCodec, datums: pa.Array, where: np.ndarray, failures: list[MessageFailure]
) -> Iterator[tuple[pa.Table, np.ndarray]]:
    """Rows and their places; messages that cannot be decoded are added to `failures`."""
    if not len(datums):
        return
    try:
        found = codec.decode_column(datums.cast(pa.large_binary()), path="message")
        yield pa.Table.from_struct_array(found), where
    except CorruptFileError as error:
        if len(datums) == 1:
            failures.append(MessageFailure(int(where[0]), str(error)))
            return
        half = len(datums) // 2
        yield from _decoded(codec, datums.slice(0, half), where[:half], failures)
        yield from _decoded(codec, datums.slice(half), where[half:], failures)

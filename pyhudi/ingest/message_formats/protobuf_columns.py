"""Protobuf messages as columns.

| Protobuf | column |
|---|---|
| `string`, `bytes`, `bool`, `float`, `double` | the same |
| `int32`, `sint32`, `fixed32`, `sfixed32` | int32 |
| `uint32`, 64-bit integers | int64 |
| `uint64` | decimal(21, 0) |
| `enum` | string, its name |
| message, `oneof` member, `optional` field | nullable; null if it is not set |
| other fields | the default value if they are not set |
| `repeated` | list |
| `map` | list of structs (key, value), sorted by key |
| `google.protobuf.Timestamp` | timestamp(us, UTC); optionally a struct |
| `google.protobuf.Int64Value` and the other wrappers | the nullable value; optionally a struct |
| a message within itself, five deep | struct of `descriptor_full_name` and `proto_bytes` |

A message without fields has no column.
Source: ProtoConversionUtil of Apache Hudi; `fixed32` and `fixed64` are unsigned but stored like
signed numbers there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from typing import Any, Final

import numpy as np
import pyarrow as pa

from pyhudi.errors import CorruptFileError

Read = Callable[[Sequence[Any]], pa.Array]

_COLUMNS_MAX: Final = 10_000
_OVERFLOW: Final = pa.struct([("descriptor_full_name", pa.string()), ("proto_bytes", pa.binary())])
_TIMES: Final = "google.protobuf.Timestamp"
_SECONDS_MIN, _SECONDS_MAX = -62_135_596_800, 253_402_300_799
"""The years 1 to 9999."""
_WRAPPERS: Final = frozenset(
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
)
_UINT64: Final = pa.decimal128(21, 0)


@dataclass(frozen=True)
class ProtobufChoices:
    """As `hoodie.streamer.schemaprovider.proto.*` name them."""

    wrappers_as_records: bool = False
    timestamps_as_records: bool = False
    recursion_max: int = 5


@dataclass(frozen=True, slots=True)
class ProtobufColumn:
    """read: the values of messages, or of values of a field; raises ValueError for values that
    the type does not have."""

    name: str
    type: pa.DataType
    read: Read


def columns_of_message(descriptor: Any, choices: ProtobufChoices) -> list[ProtobufColumn]:
    """The columns of a message's fields, in the order of the file.

    Raises CorruptFileError for a type with too many columns.
    """
    return _Columns(choices).of(descriptor, {descriptor.full_name: 1})


class _Columns:
    """Counts the columns that it makes."""

    def __init__(self, choices: ProtobufChoices) -> None:
        self._choices, self._count = choices, 0

    def of(self, descriptor: Any, depths: dict[str, int]) -> list[ProtobufColumn]:
        """depths: how often each type is around this message."""
        found = [self._column(field, depths) for field in descriptor.fields]
        return [column for column in found if column is not None]

    def _column(self, field: Any, depths: dict[str, int]) -> ProtobufColumn | None:
        self._count += 1
        if self._count > _COLUMNS_MAX:
            raise CorruptFileError("the schema has too many columns", limit=_COLUMNS_MAX)
        if field.message_type is not None and field.message_type.GetOptions().map_entry:
            return self._map(field, depths)
        value = self._value(field, depths)
        if value is None:
            return None
        if field.is_repeated:
            return _list(field.name, value)
        if field.has_presence:
            return _nullable(field.name, value)
        get = attrgetter(field.name)
        return ProtobufColumn(
            field.name, value.type, lambda messages: value.read(list(map(get, messages)))
        )

    def _map(self, field: Any, depths: dict[str, int]) -> ProtobufColumn | None:
        by_name = field.message_type.fields_by_name
        key = self._value(by_name["key"], depths)
        value = self._value(by_name["value"], depths)
        assert key is not None
        if value is None:
            return None
        get = attrgetter(field.name)
        fields = [pa.field("key", key.type), pa.field("value", value.type)]

        def read(messages: Sequence[Any]) -> pa.Array:
            entries = [sorted(get(message).items(), key=_first) for message in messages]
            flat = list(chain.from_iterable(entries))
            columns = [key.read([pair[0] for pair in flat]), value.read([pair[1] for pair in flat])]
            items = pa.StructArray.from_arrays(columns, fields=fields)
            return pa.ListArray.from_arrays(_offsets(entries), items)

        return ProtobufColumn(field.name, pa.list_(pa.struct(fields)), read)

    def _value(self, field: Any, depths: dict[str, int]) -> ProtobufColumn | None:
        """One value of a field; None for a message without fields."""
        if field.message_type is not None:
            return self._message(field.name, field.message_type, depths)
        if field.enum_type is not None:
            return _enum(field.name, field.enum_type)
        kind = _scalar(field)
        if pa.types.is_decimal(kind):
            return ProtobufColumn(field.name, kind, lambda values: _uint64(values))
        if field.type in (field.TYPE_FIXED32, field.TYPE_FIXED64):
            return ProtobufColumn(field.name, kind, lambda values: _signed(values, kind))
        return ProtobufColumn(field.name, kind, lambda values: pa.array(values, kind))

    def _message(self, name: str, descriptor: Any, depths: dict[str, int]) -> ProtobufColumn | None:
        full = descriptor.full_name
        if full == _TIMES and not self._choices.timestamps_as_records:
            return ProtobufColumn(name, pa.timestamp("us", "UTC"), _timestamps)
        if full in _WRAPPERS and not self._choices.wrappers_as_records:
            inner = self._value(descriptor.fields_by_name["value"], depths)
            assert inner is not None
            value = inner
            get = attrgetter("value")
            return ProtobufColumn(name, value.type, lambda found: value.read(list(map(get, found))))
        depth = depths.get(full, 0)
        if depth >= self._choices.recursion_max:
            return ProtobufColumn(name, _OVERFLOW, _overflow)
        columns = self.of(descriptor, {**depths, full: depth + 1})
        if not columns:
            return None
        fields = [pa.field(column.name, column.type) for column in columns]

        def read(messages: Sequence[Any]) -> pa.Array:
            return pa.StructArray.from_arrays(
                [column.read(messages) for column in columns], fields=fields
            )

        return ProtobufColumn(name, pa.struct(fields), read)


def _scalar(field: Any) -> pa.DataType:
    match field.type:
        case field.TYPE_STRING:
            return pa.string()
        case field.TYPE_BYTES:
            return pa.binary()
        case field.TYPE_BOOL:
            return pa.bool_()
        case field.TYPE_FLOAT:
            return pa.float32()
        case field.TYPE_DOUBLE:
            return pa.float64()
        case field.TYPE_INT32 | field.TYPE_SINT32 | field.TYPE_FIXED32 | field.TYPE_SFIXED32:
            return pa.int32()
        case field.TYPE_UINT64:
            return _UINT64
        case _:
            return pa.int64()


def _nullable(name: str, value: ProtobufColumn) -> ProtobufColumn:
    """A field that knows whether it is set."""
    get = attrgetter(name)

    def read(messages: Sequence[Any]) -> pa.Array:
        is_set = np.fromiter((m.HasField(name) for m in messages), np.bool_, len(messages))
        if is_set.all():
            return value.read(list(map(get, messages)))
        places = np.cumsum(is_set) - 1
        found = value.read([get(message) for message in messages if message.HasField(name)])
        return found.take(pa.array(places, mask=~is_set))

    return ProtobufColumn(name, value.type, read)


def _list(name: str, value: ProtobufColumn) -> ProtobufColumn:
    get = attrgetter(name)

    def read(messages: Sequence[Any]) -> pa.Array:
        lists = list(map(get, messages))
        items = value.read(list(chain.from_iterable(lists)))
        return pa.ListArray.from_arrays(_offsets(lists), items)

    return ProtobufColumn(name, pa.list_(value.type), read)


def _offsets(lists: Sequence[Any]) -> pa.Array:
    offsets = np.zeros(len(lists) + 1, np.int32)
    np.cumsum(np.fromiter(map(len, lists), np.int64, len(lists)), out=offsets[1:])
    return pa.array(offsets)


def _enum(name: str, descriptor: Any) -> ProtobufColumn:
    """Names; of unknown numbers the text that Java has for them."""
    names = {number: value.name for number, value in descriptor.values_by_number.items()}
    unknown = f"UNKNOWN_ENUM_VALUE_{descriptor.name}_"

    def read(values: Sequence[Any]) -> pa.Array:
        texts = [names.get(value) or f"{unknown}{value}" for value in values]
        return pa.array(texts, pa.string())

    return ProtobufColumn(name, pa.string(), read)


def _timestamps(values: Sequence[Any]) -> pa.Array:
    seconds = np.fromiter((value.seconds for value in values), np.int64, len(values))
    nanos = np.fromiter((value.nanos for value in values), np.int64, len(values))
    is_valid = (seconds >= _SECONDS_MIN) & (seconds <= _SECONDS_MAX) & (nanos >= 0)
    if not (is_valid & (nanos < 1_000_000_000)).all():
        raise ValueError("a timestamp is not in the years 1 to 9999")
    return pa.array(seconds * 1_000_000 + nanos // 1_000).cast(pa.timestamp("us", "UTC"))


def _uint64(values: Sequence[Any]) -> pa.Array:
    texts = pa.array(np.array(values, np.uint64)).cast(pa.string())
    return texts.cast(_UINT64)


def _signed(values: Sequence[Any], kind: pa.DataType) -> pa.Array:
    """Numbers without a sign as those with the same bits."""
    size = kind.bit_width // 8
    return pa.array(np.array(values, np.dtype(f"u{size}")).view(np.dtype(f"i{size}")))


def _overflow(values: Sequence[Any]) -> pa.Array:
    names = pa.array([value.DESCRIPTOR.full_name for value in values], pa.string())
    texts = pa.array([value.SerializeToString(deterministic=True) for value in values], pa.binary())
    return pa.StructArray.from_arrays([names, texts], fields=list(_OVERFLOW))


def _first(pair: tuple[Any, Any]) -> Any:
    return pair[0]

"""Parquet statistics that do not hide NaN.

Arrow leaves NaN out of the minimum and maximum of a column chunk.  DuckDB, DataFusion, Arrow and
Spark take the bounds for those of all values, and skip row groups whose only matching rows are
NaN.  So a file states no bounds of a floating column that contains NaN, neither in the statistics
of its chunks nor in column indexes; their counts of nulls stay.  This is what parquet-java leaves
of the bounds of chunks with NaN when it reads them.  It holds for all row groups of the file:
DataFusion takes the bounds of some for those of the file.

Arrow decides on statistics before the first row, so its footer is edited: a Thrift struct in the
compact protocol, of which all other bytes stay as they are.

    FileMetaData    4: row_groups
    RowGroup        1: columns
    ColumnChunk     3: meta_data  6, 7: offset and length of the column index
    ColumnMetaData  12: statistics
    Statistics      1: max  2: min  5: max_value  6: min_value  7, 8: whether they are exact

A footer entry tells readers that bounds cover all values of the file; without it, bounds of
floating columns in files of Arrow may hide NaN.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Collection, Iterator, Mapping
from functools import lru_cache
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pyarrow.types as pt

from pyhudi.errors import CorruptFileError

_ENTRY: Final = "pyhudi.nan.statistics"
_NO_BOUNDS: Final = "no-bounds"
_JAVA: Final = "parquet-mr"
_MAGIC: Final = b"PAR1"
_TAIL: Final = struct.Struct("<I4s")  # length of the footer, magic
_BOUNDS: Final = (1, 2, 5, 6, 7, 8)
_COLUMN_INDEX: Final = (6, 7)
_STRUCT: Final = 12
_FIXED: Final = {1: 0, 2: 0, 3: 1, 7: 8}  # bytes of a value by Thrift type; bools are in the type


def has_floats(kind: pa.DataType) -> bool:
    """Whether a type has floating values, at any depth."""
    return any(pt.is_floating(leaf) for leaf in _leaf_types(kind))


def nan_entries(schema: pa.Schema) -> dict[str, str]:
    """The footer entry of a file with these columns whose bounds hide no NaN."""
    return {_ENTRY: _NO_BOUNDS} if _float_columns(schema) else {}


def bounds_cover_nan(metadata: pq.FileMetaData) -> bool:
    """Whether the bounds of floating columns in a footer cover NaN, unless NaN is one of them.

    So it is in files with the entry of this package, and in those of parquet-java, which takes NaN
    for the greatest value.
    """
    if (metadata.metadata or {}).get(_ENTRY.encode()) == _NO_BOUNDS.encode():
        return True
    return str(metadata.created_by or "").startswith(_JAVA)


class NanColumns:
    """The Parquet columns with NaN of a file, by number, as its tables are seen."""

    def __init__(self, schema: pa.Schema) -> None:
        self._floats = _float_columns(schema)
        self.found: set[int] = set()

    def see(self, table: pa.Table) -> None:
        for position, leaves in self._floats:
            if not self.found.issuperset(leaf for leaf in leaves if leaf >= 0):
                self.found.update(_with_nan(table.column(position), leaves))


def without_bounds(end: bytes, columns: Collection[int]) -> bytes:
    """The end of a Parquet file, with the footer, less the bounds of some columns.

    columns: by number.  Raises CorruptFileError if the footer is not as Arrow writes it.
    """
    length, magic = _TAIL.unpack(end[-_TAIL.size :])
    start = len(end) - _TAIL.size - length
    if magic != _MAGIC or start < 0:
        raise CorruptFileError("a Parquet file was written without a footer")
    stored = end[start : len(end) - _TAIL.size]
    try:
        footer = _edited(stored, 0, {4: _elements(_group_editor(columns))})[0]
        tail = footer + _TAIL.pack(len(footer), _MAGIC)
        is_same = _is_same(stored + _TAIL.pack(length, _MAGIC), tail, columns)
    except (IndexError, OSError, pa.ArrowException):
        raise CorruptFileError("a Parquet footer was written that cannot be edited") from None
    if not is_same:
        raise CorruptFileError("an edit of a Parquet footer changed more than statistics")
    return end[:start] + tail


def _is_same(before: bytes, after: bytes, columns: Collection[int]) -> bool:
    """Whether an edited footer is as before, less the bounds of the columns."""
    old, new = (pq.read_metadata(pa.BufferReader(_MAGIC + tail)) for tail in (before, after))
    for group in range(new.num_row_groups):
        for number in columns:
            chunk = new.row_group(group).column(number)
            stated = chunk.statistics
            if chunk.has_column_index or (stated is not None and stated.has_min_max):
                return False
    return bool(
        (old.num_rows, old.num_row_groups, old.schema, old.metadata)
        == (new.num_rows, new.num_row_groups, new.schema, new.metadata)
    )


# ---- values -------------------------------------------------------------------------------------


def _leaf_types(kind: pa.DataType) -> Iterator[pa.DataType]:
    """The types of the Parquet columns of an Arrow type, in their order."""
    if pt.is_dictionary(kind):
        kind = kind.value_type
    if not pt.is_nested(kind):
        yield kind
    elif pt.is_struct(kind):
        for field in kind:
            yield from _leaf_types(field.type)
    elif pt.is_map(kind):
        yield from _leaf_types(kind.key_type)
        yield from _leaf_types(kind.item_type)
    else:
        yield from _leaf_types(kind.value_type)


@lru_cache(maxsize=64)
def _float_columns(schema: pa.Schema) -> tuple[tuple[int, tuple[int, ...]], ...]:
    """The columns with floating values: (position, the numbers of its Parquet columns, -1 for one
    of another type)."""
    found = []
    first = 0
    for position, field in enumerate(schema):
        kinds = list(_leaf_types(field.type))
        leaves = tuple(first + n if pt.is_floating(k) else -1 for n, k in enumerate(kinds))
        if max(leaves, default=-1) >= 0:
            found.append((position, leaves))
        first += len(kinds)
    return tuple(found)


def _with_nan(column: pa.ChunkedArray, leaves: tuple[int, ...]) -> Iterator[int]:
    """The numbers of the floating Parquet columns that contain NaN."""
    for chunk in column.chunks:
        for leaf, values in zip(leaves, _leaf_values(chunk), strict=True):
            if leaf >= 0 and _any_nan(values):
                yield leaf


def _leaf_values(values: pa.Array) -> Iterator[pa.Array]:
    """The values of the Parquet columns of an array, in their order; values below a null may be
    included."""
    kind = values.type
    if pt.is_dictionary(kind):
        yield values.dictionary
    elif not pt.is_nested(kind):
        yield values
    elif pt.is_struct(kind):
        for number in range(kind.num_fields):
            yield from _leaf_values(values.field(number))
    elif pt.is_map(kind):
        begin, end = values.offsets[0].as_py(), values.offsets[-1].as_py()
        yield from _leaf_values(values.keys.slice(begin, end - begin))
        yield from _leaf_values(values.items.slice(begin, end - begin))
    else:
        yield from _leaf_values(values.flatten())


def _any_nan(values: pa.Array) -> bool:
    """Whether a value that is not null is NaN."""
    buffer = values.buffers()[1]
    if buffer is None or not len(values):
        return False
    plain = np.frombuffer(buffer, values.type.to_pandas_dtype(), len(values) + values.offset)
    if not np.isnan(plain[values.offset :]).any():
        return False
    return not values.null_count or bool(pc.any(pc.is_nan(values)).as_py())


# ---- the compact protocol of Thrift -------------------------------------------------------------

_Edit = Callable[[bytes, int], bytes]
"""The new bytes of the value that begins at a place."""


def _edited(data: bytes, start: int, edits: Mapping[int, _Edit | None]) -> tuple[bytes, int]:
    """A struct with some fields replaced, or removed (None), and its end."""
    out = bytearray()
    last, end = 0, start
    for number, kind, begin, end in _fields(data, start):
        edit = edits.get(number)
        if edit is None and number in edits:
            continue
        step = number - last
        out += bytes([step << 4 | kind]) if 0 < step < 16 else bytes([kind]) + _zigzag(number)
        out += data[begin:end] if edit is None else edit(data, begin)
        last = number
    return bytes(out) + b"\0", end + 1


def _elements(edit: Callable[[int, bytes, int], tuple[bytes, int]]) -> _Edit:
    """The edit of a list of structs.  edit: (number, data, start) -> (new bytes, end)."""

    def edited(data: bytes, start: int) -> bytes:
        count, _, place = _list_head(data, start)
        out = bytearray(data[start:place])
        for number in range(count):
            content, place = edit(number, data, place)
            out += content
        return bytes(out)

    return edited


def _group_editor(
    columns: Collection[int],
) -> Callable[[int, bytes, int], tuple[bytes, int]]:
    """The edit of row groups that removes the bounds of some columns."""

    def statistics(data: bytes, start: int) -> bytes:
        return _edited(data, start, dict.fromkeys(_BOUNDS))[0]

    def column_metadata(data: bytes, start: int) -> bytes:
        return _edited(data, start, {12: statistics})[0]

    edits: dict[int, _Edit | None] = {3: column_metadata, **dict.fromkeys(_COLUMN_INDEX)}

    def column(number: int, data: bytes, start: int) -> tuple[bytes, int]:
        if number in columns:
            return _edited(data, start, edits)
        end = _end(data, start, _STRUCT)
        return data[start:end], end

    return lambda _, data, start: _edited(data, start, {1: _elements(column)})


def _fields(data: bytes, start: int) -> Iterator[tuple[int, int, int, int]]:
    """(number, type, begin and end of the value) of each field of a struct."""
    number, place = 0, start
    while data[place]:
        step, kind = data[place] >> 4, data[place] & 15
        place += 1
        if step:
            number += step
        else:
            coded, place = _varint(data, place)
            number = coded >> 1 ^ -(coded & 1)
        end = _end(data, place, kind)
        yield number, kind, place, end
        place = end


def _end(data: bytes, start: int, kind: int) -> int:
    """The end of a value of a Thrift type."""
    if kind in _FIXED:
        return start + _FIXED[kind]
    if kind in (4, 5, 6):
        return _varint(data, start)[1]
    if kind == 8:
        length, place = _varint(data, start)
        return place + length
    if kind in (9, 10):
        count, element, place = _list_head(data, start)
        for _ in range(count):
            place = place + 1 if element in (1, 2) else _end(data, place, element)
        return place
    if kind == _STRUCT:
        place = start
        for *_, place in _fields(data, start):  # noqa: B007
            pass
        return place + 1
    raise CorruptFileError("a Parquet footer has a value of unknown type", type=kind)


def _list_head(data: bytes, start: int) -> tuple[int, int, int]:
    """(count, type of the elements, place of the first one) of a list."""
    count, place = data[start] >> 4, start + 1
    if count == 15:
        count, place = _varint(data, place)
    return count, data[start] & 15, place


def _varint(data: bytes, start: int) -> tuple[int, int]:
    value = shift = 0
    place = start
    while True:
        byte = data[place]
        place += 1
        value |= (byte & 127) << shift
        if byte < 128:
            return value, place
        shift += 7


def _zigzag(number: int) -> bytes:
    value = number << 1 ^ number >> 63
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])

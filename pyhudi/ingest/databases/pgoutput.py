"""Messages of PostgreSQL's logical replication (`pgoutput`, protocol 1), decoded by column.

B  begin                 C  commit: flags, LSN, end LSN, time
R  relation: id, schema, name, replica identity, columns (flags, name, type, modifier)
I  relation, N, row      U  relation, [K or O, old row], N, row      D  relation, K or O, old row
T  truncate: relations   row: columns, each n (null), u (unchanged) or t (length, text)

Rows of one relation message are decoded together: the position in each row is an array.
Source: PostgreSQL 15 manual, "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import CorruptFileError

Positions = npt.NDArray[np.int64]

_LENGTH_AT: Final = 1  # of a value, after its kind
_TYPES: Final[dict[int, pa.DataType]] = {
    16: pa.bool_(), 20: pa.int64(), 21: pa.int16(), 23: pa.int32(), 26: pa.int64(),
    700: pa.float32(), 701: pa.float64(), 1082: pa.date32(),
    1114: pa.timestamp("us"), 1184: pa.timestamp("us", "UTC"), 17: pa.binary(),
}  # fmt: skip
_NUMERIC: Final = 1700
_DIGITS_MAX: Final = 38


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as of a message.  keys: names of the columns of the replica identity."""

    id: int
    name: str  # with its schema
    columns: pa.Schema
    keys: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Changes of one relation, in the order of the log.

    index: of the message, and 0 or 1 for the old and the new row of one.  deleted: whether the row
    is the key of a deleted or renamed one.  rows: text columns.  unchanged: for each column, which
    rows have a large value that the update did not change and the log does not contain.
    """

    relation: Relation
    index: pa.Array
    deleted: pa.Array
    rows: pa.RecordBatch
    unchanged: dict[str, pa.Array]


class MessageLog:
    """Messages as one column of bytes."""

    def __init__(self, data: pa.Array) -> None:
        data = data.cast(pa.large_binary())
        _, offsets, values = data.buffers()
        at = np.frombuffer(offsets, np.int64)[data.offset : data.offset + len(data) + 1]
        self.bytes = np.frombuffer(values or b"", np.uint8)
        self.starts: Positions = at[:-1]
        self.kinds = self.bytes[self.starts].view("S1") if len(data) else np.empty(0, "S1")

    def commits(self) -> list[tuple[int, int]]:
        """Index of the message and end LSN of each transaction."""
        found = np.flatnonzero(self.kinds == b"C")
        return [(int(i), self._number(">Q", int(self.starts[i]) + 10)) for i in found]

    def relations(self) -> list[tuple[int, Relation]]:
        """Index of the message and the relation that it describes."""
        found = np.flatnonzero(self.kinds == b"R")
        return [(int(i), self._relation(int(self.starts[i]) + 1)) for i in found]

    def truncated(self, relation: int) -> list[int]:
        """Indices of messages that truncate a relation."""
        found = []
        for index in np.flatnonzero(self.kinds == b"T"):
            at = int(self.starts[index]) + 1
            count = self._number(">i", at)
            ids = [self._number(">I", at + 5 + 4 * n) for n in range(count)]
            found += [int(index)] if relation in ids else []
        return found

    def changes(self, relation: Relation, first: int, end: int) -> ChangedRows:
        """The rows of a relation in messages from `first` to before `end`."""
        kinds = self.kinds[first:end]
        rows = np.flatnonzero((kinds == b"I") | (kinds == b"U") | (kinds == b"D")) + first
        rows = rows[self._numbers(self.starts[rows] + 1) == relation.id]
        position = self.starts[rows] + 5
        has_old = np.isin(self.bytes[position].view("S1"), [b"K", b"O"])
        old = self._tuples(position[has_old] + 1, len(relation.columns))
        position = position.copy()
        position[has_old] = old.end
        has_new = self.kinds[rows] != b"D"
        new = self._tuples(position[has_new] + 1, len(relation.columns))
        return self._joined(relation, rows, has_old, has_new, old, new)

    def _joined(
        self, relation: Relation, rows: Positions, has_old: npt.NDArray[np.bool_],
        has_new: npt.NDArray[np.bool_], old: _Tuples, new: _Tuples,
    ) -> ChangedRows:  # fmt: skip
        index = np.concatenate([rows[has_old] * 2, rows[has_new] * 2 + 1])
        deleted = np.concatenate([np.ones(has_old.sum(), bool), np.zeros(has_new.sum(), bool)])
        new = new.filled_from(old, rows[has_new], rows[has_old])
        columns, unchanged = [], {}
        for number, name in enumerate(relation.columns.names):
            kinds = np.concatenate([old.kinds[number], new.kinds[number]])
            starts = np.concatenate([old.starts[number], new.starts[number]])
            sizes = np.concatenate([old.sizes[number], new.sizes[number]])
            columns.append(self._texts(starts, sizes, kinds == b"t"))
            unchanged[name] = pa.array(kinds == b"u")
        batch = pa.RecordBatch.from_arrays(columns, names=relation.columns.names)
        return ChangedRows(relation, pa.array(index), pa.array(deleted), batch, unchanged)

    def _tuples(self, at: Positions, columns: int) -> _Tuples:
        """Rows that begin at these positions, with this number of columns each."""
        if len(at) and (self._numbers(at, 2) != columns).any():
            raise CorruptFileError("a change has another number of columns than its relation")
        position = at + 2
        kinds, starts, sizes = [], [], []
        for _ in range(columns):
            kind = self.bytes[position].view("S1") if len(at) else np.empty(0, "S1")
            is_text = kind == b"t"
            size = np.zeros(len(at), np.int64)
            size[is_text] = self._numbers(position[is_text] + _LENGTH_AT)
            kinds.append(kind)
            starts.append(position + 5)
            sizes.append(size)
            position = position + np.where(is_text, 5 + size, 1)
        return _Tuples(kinds, starts, sizes, position)

    def _texts(self, starts: Positions, sizes: Positions, valid: npt.NDArray[np.bool_]) -> pa.Array:
        ends = np.cumsum(sizes)
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        places = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
        values = self.bytes[places]
        mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(values)]
        return pa.Array.from_buffers(pa.large_string(), len(starts), buffers).cast(pa.string())

    def _numbers(self, at: Positions, size: int = 4) -> Positions:
        """Big-endian numbers at these positions."""
        found = np.zeros(len(at), np.int64)
        for place in range(size):
            found = found << 8 | self.bytes[at + place]
        return found

    def _number(self, form: str, at: int) -> int:
        size = struct.calcsize(form)
        return int(struct.unpack(form, self.bytes[at : at + size].tobytes())[0])

    def _relation(self, at: int) -> Relation:
        id = self._number(">I", at)
        namespace, at = self._text(at + 4)
        name, at = self._text(at)
        count, at = self._number(">h", at + 1), at + 3
        fields, keys = [], []
        for _ in range(count):
            is_key = bool(self.bytes[at] & 1)
            column, at = self._text(at + 1)
            kind, modifier = self._number(">I", at), self._number(">i", at + 4)
            at += 8
            fields.append(pa.field(column, arrow_type(kind, modifier)))
            keys += [column] if is_key else []
        return Relation(id, f"{namespace}.{name}", pa.schema(fields), tuple(keys))

    def _text(self, at: int) -> tuple[str, int]:
        """A text that ends with a zero byte, and the position after it."""
        end = at + int(np.argmin(self.bytes[at : at + 256]))
        return self.bytes[at:end].tobytes().decode(), end + 1


@dataclass(frozen=True, slots=True)
class _Tuples:
    """Rows: for each column, kind, start and length of its text.  end: the position after each."""

    kinds: list[npt.NDArray[np.bytes_]]
    starts: list[Positions]
    sizes: list[Positions]
    end: Positions

    def filled_from(self, old: _Tuples, rows: Positions, old_rows: Positions) -> _Tuples:
        """These rows with values that an update did not change, where the old row has them."""
        if not len(old_rows):
            return self
        place = np.searchsorted(old_rows, rows).clip(max=len(old_rows) - 1)
        has_old = old_rows[place] == rows
        kinds, starts, sizes = [], [], []
        for number, kind in enumerate(self.kinds):
            taken = (kind == b"u") & has_old & (old.kinds[number][place] == b"t")
            kinds.append(np.where(taken, old.kinds[number][place], kind))
            starts.append(np.where(taken, old.starts[number][place], self.starts[number]))
            sizes.append(np.where(taken, old.sizes[number][place], self.sizes[number]))
        return _Tuples(kinds, starts, sizes, self.end)


def arrow_type(kind: int, modifier: int) -> pa.DataType:
    """The type of a column's values; text for types that Arrow has no equivalent of."""
    if kind == _NUMERIC and modifier >= 4:
        precision, scale = (modifier - 4) >> 16, (modifier - 4) & 0x7FF
        if precision <= _DIGITS_MAX and scale <= precision:
            return pa.decimal128(precision, scale)
    return _TYPES.get(kind, pa.string())


def typed_rows(rows: pa.RecordBatch, columns: pa.Schema) -> pa.RecordBatch:
    """Text columns with their types.  Raises pyarrow.ArrowInvalid for values without one, such as
    an infinite date."""
    arrays = [_typed(rows.column(number), field.type) for number, field in enumerate(columns)]
    return pa.RecordBatch.from_arrays(arrays, schema=columns)


def _typed(column: pa.Array, kind: pa.DataType) -> pa.Array:
    if pa.types.is_boolean(kind):
        return pc.equal(column, "t")
    if pa.types.is_binary(kind):
        hexed = [None if text is None else bytes.fromhex(text[2:]) for text in column.to_pylist()]
        return pa.array(hexed, pa.binary())
    return pc.cast(column, kind)

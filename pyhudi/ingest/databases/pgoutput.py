"""Messages of PostgreSQL's logical replication (`pgoutput`, protocol 1), decoded by column.

B  begin: LSN, time, transaction     C  commit: flags, LSN, end LSN, time
R  relation: id, schema, name, replica identity, columns (flags, name, type, modifier)
Y  type: id, schema, name of its base type
I  relation, N, row      U  relation, [K or O, old row], N, row      D  relation, K or O, old row
T  truncate: count, flags, relations     O  origin     M  message of an application
row: number of columns, each n (null), u (unchanged) or t (length, text)

A row is a range of the bytes: rows of one relation message are decoded together, and the position
in each row is an array.  Every message must end where its content does.
Source: PostgreSQL 15 manual, "Logical Replication Message Formats".
"""

from __future__ import annotations

import struct
from collections.abc import Collection
from dataclasses import dataclass
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from pyhudi.arrays import Mask
from pyhudi.errors import CorruptFileError

Positions = npt.NDArray[np.int64]

_LENGTH_AT: Final = 1  # of a value, after its kind
_BEGIN_SIZE: Final = 21
_COMMIT_SIZE: Final = 26
_KINDS: Final = b"BCRYIUDTOM"
_NAME_MAX: Final = 256
_COLUMN_MAX: Final = 1600
_FULL: Final = "f"


@dataclass(frozen=True, slots=True)
class RelationColumn:
    """kind: id of the type in the database.  modifier: such as precision and scale; -1: none."""

    name: str
    kind: int
    modifier: int
    is_key: bool


@dataclass(frozen=True, slots=True)
class Relation:
    """A table as of a message.  identity: d (primary key), i (an index), f (full) or n (none)."""

    id: int
    name: str  # with its schema
    columns: tuple[RelationColumn, ...]
    identity: str = "d"

    @property
    def keys(self) -> tuple[str, ...]:
        """Names of the columns of the replica identity."""
        return tuple(column.name for column in self.columns if column.is_key)

    @property
    def is_full(self) -> bool:
        """Whether old rows have all columns."""
        return self.identity == _FULL


@dataclass(frozen=True, slots=True)
class ChangedRows:
    """Changes of one relation, in the order of the log.

    index: twice the index of the message, and one more for the new row of a message, whose old
    row is without that.  deleted: whether the row is the key of a deleted or renamed one.
    inserted: whether the message is an insert.
    rows: text columns.  unchanged: for each column, which rows have a large value that the update
    did not change and the log does not contain.
    """

    relation: Relation
    index: Positions
    deleted: Mask
    inserted: Mask
    rows: pa.RecordBatch
    unchanged: dict[str, Mask]


class MessageLog:
    """Whole transactions, a message each entry of a column of bytes.

    Raises CorruptFileError for messages that are cut, have an unknown kind, or are not in a
    transaction, and for changes of relations that no message described.
    """

    def __init__(self, data: pa.Array) -> None:
        data = data.cast(pa.large_binary())
        _, offsets, values = data.buffers()
        at = np.frombuffer(offsets, np.int64)[data.offset : data.offset + len(data) + 1]
        self.bytes = np.frombuffer(values or b"", np.uint8)
        self.starts: Positions = at[:-1]
        self.ends: Positions = at[1:]
        if (self.starts == self.ends).any():
            raise _wrong("a message of logical replication is empty")
        self.kinds = self.bytes[self.starts].view("S1") if len(data) else np.empty(0, "S1")
        known = np.isin(self.bytes[self.starts], np.frombuffer(_KINDS, np.uint8))
        if not known.all():
            kind = self.kinds[np.argmin(known)].decode("latin-1")
            raise _wrong("a message of logical replication has an unknown kind", kind=kind)
        self._check_transactions()
        self._relations = [(int(i), self._relation(int(i))) for i in self._of(b"R")]
        self._check_described()

    def commits(self) -> list[tuple[int, int]]:
        """Index of the message and end LSN of each transaction."""
        return [(int(i), self._number(">Q", int(self.starts[i]) + 10)) for i in self._of(b"C")]

    def relations(self) -> list[tuple[int, Relation]]:
        """Index of the message and the relation that it describes."""
        return list(self._relations)

    def base_types(self) -> dict[int, str]:
        """Names of the base types of types that are not built in; with a schema if the base type
        is not built in either."""
        found = {}
        for index in self._of(b"Y"):
            start, end = int(self.starts[index]), int(self.ends[index])
            self._need(start + 5, end)
            schema, at = self._text(start + 5, end)
            name, at = self._text(at, end)
            _check_end(at, end)
            found[self._number(">I", start + 1)] = f"{schema}.{name}" if schema else name
        return found

    def truncated(self, relations: Collection[int]) -> list[int]:
        """Indices of messages that truncate one of these relations."""
        found = []
        for index in self._of(b"T"):
            start, end = int(self.starts[index]), int(self.ends[index])
            self._need(start + 6, end)
            count = self._number(">i", start + 1)
            _check_end(start + 6 + 4 * count, end)
            ids = [self._number(">I", start + 6 + 4 * n) for n in range(count)]
            found += [int(index)] if set(ids) & set(relations) else []
        return found

    def has_rows(self, relation: int, begin: int) -> bool:
        """Whether messages from `begin` change rows of a relation."""
        rows = self._of(b"I", b"U", b"D")
        rows = rows[rows >= begin]
        return bool((self._numbers(self.starts[rows] + 1) == relation).any())

    def position(self, index: int) -> str:
        """Where a message is: the end LSN of its transaction and its number among the changes of
        that, which is the same wherever a read begins."""
        commits = self.commits()
        end = next(lsn for commit, lsn in commits if commit >= index)
        begin = int(self._of(b"B")[np.searchsorted(self._of(b"B"), index) - 1])
        number = int(np.isin(self.kinds[begin:index], [b"I", b"U", b"D", b"T"]).sum())
        return f"{lsn_text(end)}:{number}"

    def changes(self, relation: Relation, first: int, end: int) -> ChangedRows:
        """The rows of a relation in messages from `first` to before `end`."""
        rows = self._of(b"I", b"U", b"D")
        rows = rows[(rows >= first) & (rows < end)]
        rows = rows[self._numbers(self.starts[rows] + 1) == relation.id]
        position, ends = self.starts[rows] + 5, self.ends[rows]
        kinds, tags = self.kinds[rows], self.bytes[position].view("S1")
        has_old = (tags == b"K") | (tags == b"O")
        if ((kinds == b"I") & has_old).any() or ((kinds == b"D") & ~has_old).any():
            raise _wrong("a change has an old row where it has none", relation=relation.name)
        old = self._tuples(position[has_old] + 1, ends[has_old], relation)
        position = position.copy()
        position[has_old] = old.end
        has_new = kinds != b"D"
        if (position[~has_new] != ends[~has_new]).any() or (position >= ends)[has_new].any():
            raise _wrong("a change is cut or has more than one row", relation=relation.name)
        if (self.bytes[position[has_new]] != ord("N")).any():
            raise _wrong("a change has no new row", relation=relation.name)
        new = self._tuples(position[has_new] + 1, ends[has_new], relation)
        if (new.end != ends[has_new]).any():
            raise _wrong("a change has bytes after its rows", relation=relation.name)
        return self._joined(relation, rows, has_old, has_new, old, new)

    def _of(self, *kinds: bytes) -> Positions:
        """Indices of the messages of these kinds."""
        return np.flatnonzero(np.isin(self.kinds, kinds)).astype(np.int64)

    def _check_transactions(self) -> None:
        sizes = self.ends - self.starts
        begins, commits = self._of(b"B"), self._of(b"C")
        if (sizes[begins] != _BEGIN_SIZE).any() or (sizes[commits] != _COMMIT_SIZE).any():
            raise _wrong("the begin or commit of a transaction is cut")
        inside = np.cumsum(self.kinds == b"B") - np.cumsum(self.kinds == b"C")
        inside[commits] += 1
        if len(self.kinds) and ((inside != 1).any() or len(begins) != len(commits)):
            raise _wrong("messages of logical replication are not whole transactions")

    def _check_described(self) -> None:
        """Every change has a relation that a message before it describes."""
        changes = self._of(b"I", b"U", b"D")
        if (self.ends[changes] - self.starts[changes] < 8).any():
            raise _wrong("a change is cut")
        ids = self._numbers(self.starts[changes] + 1)
        first: dict[int, int] = {}
        for index, relation in self._relations:
            first.setdefault(relation.id, index)
        for id in np.unique(ids):
            if int(changes[ids == id][0]) < first.get(int(id), len(self.starts)):
                raise _wrong("a change has a relation that no message described", relation=int(id))

    def _joined(
        self,
        relation: Relation,
        rows: Positions,
        has_old: Mask,
        has_new: Mask,
        old: _Tuples,
        new: _Tuples,
    ) -> ChangedRows:
        index = np.concatenate([rows[has_old] * 2, rows[has_new] * 2 + 1])
        order = np.argsort(index, kind="stable")
        deleted = np.concatenate([np.ones(has_old.sum(), bool), np.zeros(has_new.sum(), bool)])
        new = new.filled_from(old, rows[has_new], rows[has_old])
        columns, unchanged = [], {}
        for number, column in enumerate(relation.columns):
            kinds = np.concatenate([old.kinds[number], new.kinds[number]])[order]
            starts = np.concatenate([old.starts[number], new.starts[number]])[order]
            sizes = np.concatenate([old.sizes[number], new.sizes[number]])[order]
            columns.append(self._texts(starts, sizes, kinds == b"t"))
            unchanged[column.name] = kinds == b"u"
        batch = pa.RecordBatch.from_arrays(columns, names=[c.name for c in relation.columns])
        index = index[order]
        inserted = self.kinds[index // 2] == b"I"
        return ChangedRows(relation, index, deleted[order], inserted, batch, unchanged)

    def _tuples(self, at: Positions, ends: Positions, relation: Relation) -> _Tuples:
        """Rows that begin at these positions, in messages with these ends."""
        if (at + 2 > ends).any():
            raise _wrong("a row of a change is cut", relation=relation.name)
        if len(at) and (self._numbers(at, 2) != len(relation.columns)).any():
            raise _wrong(
                "a change has another number of columns than its relation", relation=relation.name
            )
        position = at + 2
        kinds, starts, sizes = [], [], []
        for column in relation.columns:
            if (position >= ends).any():
                raise _wrong("a row of a change is cut", relation=relation.name, column=column.name)
            kind = self.bytes[position].view("S1") if len(at) else np.empty(0, "S1")
            is_text = kind == b"t"
            if not (is_text | (kind == b"n") | (kind == b"u")).all():
                raise _wrong(
                    "a value has an unknown kind", relation=relation.name, column=column.name
                )
            if (position[is_text] + 5 > ends[is_text]).any():
                raise _wrong("a value is cut", relation=relation.name, column=column.name)
            size = np.zeros(len(at), np.int64)
            size[is_text] = self._numbers(position[is_text] + _LENGTH_AT)
            kinds.append(kind)
            starts.append(position + 5)
            sizes.append(size)
            position = position + np.where(is_text, 5 + size, 1)
            if (position > ends).any():
                raise _wrong("a value is cut", relation=relation.name, column=column.name)
        return _Tuples(kinds, starts, sizes, position)

    def _texts(self, starts: Positions, sizes: Positions, valid: Mask) -> pa.Array:
        ends = np.cumsum(sizes)
        offsets = np.concatenate([np.zeros(1, np.int64), ends])
        places = np.repeat(starts - offsets[:-1], sizes) + np.arange(offsets[-1])
        values = self.bytes[places]
        mask = pa.py_buffer(np.packbits(valid, bitorder="little"))
        buffers = [mask, pa.py_buffer(offsets), pa.py_buffer(values)]
        return pa.Array.from_buffers(pa.large_binary(), len(starts), buffers)

    def _numbers(self, at: Positions, size: int = 4) -> Positions:
        """Big-endian numbers at these positions."""
        found = np.zeros(len(at), np.int64)
        for place in range(size):
            found = found << 8 | self.bytes[at + place]
        return found

    def _number(self, form: str, at: int) -> int:
        size = struct.calcsize(form)
        return int(struct.unpack(form, self.bytes[at : at + size].tobytes())[0])

    def _need(self, at: int, end: int) -> None:
        if at > end:
            raise _wrong("a message of logical replication is cut")

    def _relation(self, index: int) -> Relation:
        start, end = int(self.starts[index]), int(self.ends[index])
        self._need(start + 5, end)
        namespace, at = self._text(start + 5, end)
        name, at = self._text(at, end)
        self._need(at + 3, end)
        identity, count, at = chr(self.bytes[at]), self._number(">h", at + 1), at + 3
        if identity not in "dnfi" or not 0 <= count <= _COLUMN_MAX:
            raise _wrong("the description of a relation has unknown values", relation=name)
        columns = []
        for _ in range(count):
            self._need(at + 1, end)
            is_key = bool(self.bytes[at] & 1)
            column, at = self._text(at + 1, end)
            self._need(at + 8, end)
            kind, modifier = self._number(">I", at), self._number(">i", at + 4)
            columns.append(RelationColumn(column, kind, modifier, is_key))
            at += 8
        _check_end(at, end)
        id = self._number(">I", start + 1)
        # names of pg_catalog are empty
        return Relation(id, f"{namespace or 'pg_catalog'}.{name}", tuple(columns), identity)

    def _text(self, at: int, end: int) -> tuple[str, int]:
        """A text that ends with a zero byte, and the position after it."""
        raw = self.bytes[at : min(end, at + _NAME_MAX)].tobytes()
        size = raw.find(b"\0")
        if size < 0:
            raise _wrong("a name in a message of logical replication is cut")
        try:
            return raw[:size].decode(), at + size + 1
        except UnicodeDecodeError:
            raise _wrong("a name in a message of logical replication is not UTF-8") from None


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


def lsn_text(number: int) -> str:
    """A position in the log, such as 16/B374D848."""
    return f"{number >> 32:X}/{number & 0xFFFFFFFF:X}"


def _check_end(at: int, end: int) -> None:
    if at != end:
        raise _wrong("a message of logical replication is cut or has bytes after its content")


def _wrong(what: str, **facts: object) -> CorruptFileError:
    return CorruptFileError(
        what, **facts, hint="supported are messages of pgoutput, protocol 1, without streaming"
    )

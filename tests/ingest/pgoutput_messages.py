"""Messages of pgoutput as bytes, by the manual of PostgreSQL, and random histories of a table.

Source: PostgreSQL 15 manual, "Logical Replication Message Formats".
"""

from __future__ import annotations

import random
import struct
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any
from uuid import UUID

UNCHANGED = object()
"""A large value that an update did not change."""
TEXT, INT, BIGINT, BOOL, BYTES, NUMERIC, TIME, INTS, UUIDS = (
    25, 23, 20, 16, 17, 1700, 1184, 1007, 2950
)  # fmt: skip
DOMAIN = 70_001
"""Of an integer."""
MONEY = ((10 << 16) | 2) + 4
"""The modifier of numeric(10, 2)."""


def name(text: str) -> bytes:
    return text.encode() + b"\0"


def begin(lsn: int) -> bytes:
    return b"B" + struct.pack(">QqI", lsn, 0, 7)


def commit(lsn: int) -> bytes:
    return b"C" + struct.pack(">BQQq", 0, lsn - 8, lsn, 0)


def relation(
    id: int, table: str, columns: Sequence[tuple[str, int, int, bool]], identity: str = "d"
) -> bytes:
    """columns: name, type, modifier, whether it is of the key."""
    schema, _, own = table.partition(".")
    head = b"R" + struct.pack(">I", id) + name(schema) + name(own) + identity.encode()
    parts = [
        bytes([is_key]) + name(column) + struct.pack(">Ii", kind, modifier)
        for column, kind, modifier, is_key in columns
    ]
    return head + struct.pack(">h", len(parts)) + b"".join(parts)


def base_type(id: int, base: str) -> bytes:
    return b"Y" + struct.pack(">I", id) + name("") + name(base)


def row(values: Sequence[Any]) -> bytes:
    """values: texts, None or UNCHANGED."""
    parts = [struct.pack(">h", len(values))]
    for value in values:
        if value is None:
            parts.append(b"n")
        elif value is UNCHANGED:
            parts.append(b"u")
        else:
            raw = value.encode()
            parts.append(b"t" + struct.pack(">i", len(raw)) + raw)
    return b"".join(parts)


def insert(id: int, new: Sequence[Any]) -> bytes:
    return b"I" + struct.pack(">I", id) + b"N" + row(new)


def update(id: int, new: Sequence[Any], old: Sequence[Any] | None = None, tag: str = "K") -> bytes:
    before = b"" if old is None else tag.encode() + row(old)
    return b"U" + struct.pack(">I", id) + before + b"N" + row(new)


def delete(id: int, old: Sequence[Any], tag: str = "K") -> bytes:
    return b"D" + struct.pack(">I", id) + tag.encode() + row(old)


def truncate(*ids: int) -> bytes:
    return b"T" + struct.pack(">iB", len(ids), 0) + struct.pack(f">{len(ids)}I", *ids)


@dataclass
class Column:
    name: str
    kind: int
    modifier: int = -1


FIRST = (
    Column("id", TEXT), Column("part", INT), Column("v", INT), Column("big", TEXT),
    Column("n", NUMERIC, MONEY), Column("at", TIME), Column("list", INTS), Column("u", UUIDS),
    Column("flag", BOOL), Column("raw", BYTES), Column("dom", DOMAIN),
)  # fmt: skip
_DAY = datetime(2026, 1, 1, tzinfo=UTC)


def value(random: random.Random, kind: int) -> Any:
    """A value of a type as Arrow returns it."""
    if kind != TEXT and random.random() < 0.1:
        return None
    match kind:
        case 25:
            size = random.choice([0, 3, 3, 50])
            return "".join(random.choice("aé,{}\"\\'\n☃ ") for _ in range(size))
        case 23 | 70_001:
            return random.randint(-(2**31), 2**31 - 1)
        case 20:
            return random.randint(-(2**63), 2**63 - 1)
        case 16:
            return random.random() < 0.5
        case 17:
            return random.randbytes(random.randrange(5))
        case 1700:
            return Decimal(random.randint(-(10**9), 10**9)).scaleb(-2)
        case 1184:
            return _DAY + timedelta(microseconds=random.randrange(10**14))
        case 1007:
            return [random.choice([None, 1, -7]) for _ in range(random.randrange(4))]
    return str(UUID(int=random.getrandbits(128)))


def text(value: Any, kind: int) -> str | None:
    """As PostgreSQL writes a value."""
    if value is None:
        return None
    match kind:
        case 16:
            return "t" if value else "f"
        case 17:
            return "\\x" + bytes(value).hex()
        case 1184:
            return str(value.replace(tzinfo=None)) + "+00"
        case 1007:
            return "{" + ",".join("NULL" if v is None else str(v) for v in value) + "}"
    return str(value)


NO_VALUES = {
    NUMERIC: ("NaN",),
    TIME: ("infinity", "-infinity", "0044-03-15 00:00:00+00 BC"),
    INTS: ("{{1,2},{3,4}}",),
}
"""Texts that a column of the type may have in PostgreSQL, and that Arrow has no value for."""


@dataclass
class History:
    """Random transactions on a table, as messages, and what a table that follows it has.

    identity: d, f or n (inserts only).  parts: ids of the relations of its partitions; the last is
    that of another table.  rows: by key, what the table should have.  bad: positions of messages
    that have no row.  large_values: whether unchanged large values are left out of messages.
    """

    random: random.Random
    key: tuple[str, ...] = ("id",)
    identity: str = "d"
    parts: tuple[int, ...] = (101,)
    large_values: bool = True
    bad_share: float = 0.0
    columns: list[Column] = field(default_factory=lambda: [replace(column) for column in FIRST])
    rows: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    source: dict[tuple[Any, ...], dict[str, Any]] = field(default_factory=dict)
    bad: list[str] = field(default_factory=list)
    known: dict[str, None] = field(default_factory=dict)
    lsn: int = 1 << 32
    _described: set[int] = field(default_factory=set)

    def batch(self) -> list[bytes]:
        """The messages of some transactions, as one read returns them."""
        self._described.clear()
        return [m for _ in range(self.random.randint(1, 6)) for m in self._transaction()]

    def _transaction(self) -> list[bytes]:
        if self.random.random() < 0.15:
            self._change_columns()
        found: list[bytes] = []
        self.lsn += 1000
        self._number = 0
        for _ in range(self.random.randint(0, 8)):
            if self.random.random() < 0.15:
                found += self._other()
            found += self._change()
        if self.random.random() < 0.1:
            found.append(b"M" + b"\0" * 20)
        return [begin(self.lsn), *found, commit(self.lsn)]

    def _other(self) -> list[bytes]:
        self._number += 1
        first = relation(900, "public.other", [("id", INT, -1, True)])
        return [first, insert(900, ["5"])]

    def _change_columns(self) -> None:
        names = {column.name for column in self.columns}
        choice = self.random.randrange(3)
        if choice == 0:
            free = [n for n in ("x1", "x2", "v", "list") if n not in names]
            kinds = {"v": INT, "list": INTS}
            self.columns += [Column(n, kinds.get(n, BOOL)) for n in free[:1]]
            for each in self.source.values():
                each |= dict.fromkeys(free[:1])
        elif choice == 1:
            gone = self.random.choice(["v", "list", "x1", "big"])
            self.columns = [column for column in self.columns if column.name != gone]
            for each in self.source.values():
                each.pop(gone, None)
        else:
            for column in self.columns:
                column.kind = BIGINT if column.name == "v" else column.kind
            self.columns = [Column(c.name, c.kind, c.modifier) for c in self.columns]
        self._described.clear()

    def _relation(self, part: int) -> tuple[list[Column], list[bytes]]:
        """The columns of a partition, which have an order of their own, and its description."""
        order = list(self.columns)
        random.Random(part).shuffle(order)
        if part in self._described:
            return order, []
        self._described.add(part)
        is_full = self.identity == "f"
        keys = self.key if self.identity == "d" else ()
        stated = [(c.name, c.kind, c.modifier, is_full or c.name in keys) for c in order]
        messages = [base_type(DOMAIN, "int4")] if self.random.random() < 0.9 else []
        table = "public.t" if len(self.parts) == 1 else f"public.t{part}"
        return order, [base_type(DOMAIN, "int4"), *messages,
                       relation(part, table, stated, self.identity)]  # fmt: skip

    def _part(self, key: tuple[Any, ...]) -> int:
        return self.parts[len(str(key)) % len(self.parts)]

    def _new_key(self) -> tuple[Any, ...]:
        return (f"k{self.random.randrange(12)}", self.random.randrange(3))[: len(self.key)]

    def _full_row(self, key: tuple[Any, ...]) -> dict[str, Any]:
        found = {c.name: value(self.random, c.kind) for c in self.columns}
        return found | dict(zip(self.key, key, strict=True))

    def _change(self) -> Iterator[bytes]:
        keys = list(self.source)
        act = self.random.choice("iiuuukd") if self.identity != "n" else "i"
        key = self._new_key()
        if act == "i" or not keys:
            if key in self.source and self.identity != "n":
                return
            self.source[key] = self._full_row(key)
            yield from self._write(key, None)
            return
        old = self.random.choice(keys)
        before = self.source.pop(old)
        if act == "d":
            yield from self._delete(old, before)
            self.rows.pop(old, None)
            return
        if act == "u" or key in self.source:
            key = old
        after = self._full_row(key)
        for column in self.columns:
            if self.random.random() < 0.5 and column.name not in self.key:
                after[column.name] = before[column.name]
        self.source[key] = after
        if self._part(key) != self._part(old):
            yield from self._delete(old, before)
            self.rows.pop(old, None)
            yield from self._write(key, None)
        else:
            yield from self._write(key, (old, before))

    def _delete(self, key: tuple[Any, ...], before: Mapping[str, Any]) -> list[bytes]:
        order, messages = self._relation(self._part(key))
        self._number += 1
        tag = "O" if self.identity == "f" else "K"
        shown = order if tag == "O" else [c for c in order if c.name in self.key]
        old = [text(before[c.name], c.kind) if c in shown else None for c in order]
        return [*messages, delete(self._part(key), old, tag)]

    def _write(
        self, key: tuple[Any, ...], before: tuple[tuple[Any, ...], Mapping[str, Any]] | None
    ) -> list[bytes]:
        part = self._part(key)
        order, messages = self._relation(part)
        row = self.source[key]
        texts: list[Any] = [text(row[c.name], c.kind) for c in order]
        wrong = [n for n, c in enumerate(order) if c.kind in NO_VALUES]
        is_bad = self.random.random() < self.bad_share
        if is_bad:
            place = self.random.choice(wrong)
            texts[place] = self.random.choice(NO_VALUES[order[place].kind])
            row[order[place].name] = None
            self.bad.append(f"{self.lsn >> 32:X}/{self.lsn & 0xFFFFFFFF:X}:{self._number}")
        else:
            if before is not None:
                self.rows.pop(before[0], None)
            self.known |= dict.fromkeys(row)
            self.rows[key] = dict(row)
        self._number += 1
        if before is None:
            return [*messages, insert(part, texts)]
        old_key, old_row = before
        if self.large_values:
            for n, column in enumerate(order):
                if column.name == "big" and row["big"] == old_row["big"]:
                    texts[n] = UNCHANGED
        if self.identity == "f":
            old = [text(old_row[c.name], c.kind) for c in order]
            return [*messages, update(part, texts, old, "O")]
        if key == old_key and self.random.random() < 0.8:
            return [*messages, update(part, texts)]
        old = [text(old_row[c.name], c.kind) if c.name in self.key else None for c in order]
        return [*messages, update(part, texts, old)]

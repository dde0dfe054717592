"""The rows of bench.shapes: for each shape a base, a batch of changes and the expected result.

Every shape has the columns `id` (record key), `ts` (ordering) and `a` (int64, summed).  All values
follow from the number of the row and its version.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cached_property
from typing import Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

Numbers = npt.NDArray[np.int64]

SHAPES: Final = ("partitions", "wide", "times", "hot", "tall")
_DAYS = 20
_DAY_ROWS: Final = 86_400
_HOT: Final = 64
_PLAIN_COLUMNS: Final = 146  # with id, ts, part and a: 150
_NESTED_COLUMNS: Final = 50
_MIX: Final = np.uint64(0x9E3779B97F4A7C15)


@dataclass(frozen=True)
class Shape:
    """rows: of the base; changed: rows of the upsert, a tenth of them new; partition: the partition
    column, or None."""

    name: str
    rows: int
    changed: int
    partition: str | None

    def __str__(self) -> str:
        columns = len(self.schema)
        return f"{self.name}: {self.rows:,} rows of {columns} columns, {self.changed:,} upserted"

    @cached_property
    def schema(self) -> pa.Schema:
        return self._rows_of(np.arange(1), 0).schema

    def base(self) -> pa.Table:
        return self._rows_of(np.arange(self.rows), 0)

    def changes(self) -> pa.Table:
        return self._rows_of(self._changed_numbers, 1)

    def sample(self) -> tuple[str, int, str | None]:
        """The key of an updated row, its `a` and its partition."""
        row = self._rows_of(self._changed_numbers[:1], 1)
        part = row[self.partition][0].as_py() if self.partition else None
        return row["id"][0].as_py(), row["a"][0].as_py(), part

    def expected(self) -> tuple[int, int]:
        """Rows and the sum of `a` after the upsert."""
        numbers = self._changed_numbers
        fresh = int((numbers >= self.rows).sum())
        total = int(_values(np.arange(self.rows), 0).sum()) + int(_values(numbers, 1).sum())
        total -= int(_values(numbers[numbers < self.rows], 0).sum())
        return self.rows + fresh, total

    @cached_property
    def _changed_numbers(self) -> Numbers:
        """Updated rows, then new ones."""
        fresh = self.changed // 10
        old = self.changed - fresh
        dice = np.random.default_rng(7)
        if self.name == "times":
            updated = self.rows - 1 - dice.choice(min(_DAY_ROWS, self.rows), old, replace=False)
        else:
            updated = dice.choice(self.rows, old, replace=False)
        return np.concatenate([np.sort(updated), self.rows + np.arange(fresh)])

    def _rows_of(self, numbers: Numbers, version: int) -> pa.Table:
        columns = {
            "id": _text("key-", numbers, 12),
            "ts": pa.array(np.full(len(numbers), version, np.int64)),
            "a": pa.array(_values(numbers, version)),
        }
        if self.partition:
            columns[self.partition] = self._partitions(numbers)
        if self.name in ("partitions", "times", "hot"):
            mixed = _mixed(numbers)
            columns["b"] = pa.array((mixed % np.uint64(1009)).astype(np.float64))
            columns["s1"] = _text("name-", (mixed % np.uint64(977)).astype(np.int64), 1)
            columns["s2"] = _text("value ", mixed.astype(np.int64), 1)
        if self.name == "wide":
            columns |= _wide(numbers, version)
        return pa.table(columns)

    def _partitions(self, numbers: Numbers) -> pa.Array:
        if self.name == "partitions":
            places = numbers % max(1, self.rows // 200)
        elif self.name == "times":
            places = numbers // _DAY_ROWS
        elif self.name == "hot":
            places = np.where(numbers % 5 < 4, 0, 1 + numbers // 5 % (_HOT - 1))
        else:
            places = numbers % 8
        return _text("p", places, 5)


def shape_of(name: str, scale: float) -> Shape:
    """A shape with `scale` times its rows."""
    rows = {
        "partitions": 400_000, "wide": 100_000, "times": _DAYS * _DAY_ROWS, "hot": 2_000_000,
        "tall": 10_000_000,
    }[name]  # fmt: skip
    rows = max(2_000, int(rows * scale))
    changed = {"partitions": rows, "times": min(_DAY_ROWS // 2, rows // 2), "tall": rows // 100}
    partition = None if name == "tall" else "part"
    return Shape(name, rows, changed.get(name, rows // 10), partition)


def _mixed(numbers: Numbers) -> npt.NDArray[np.uint64]:
    return (numbers.astype(np.uint64) * _MIX) >> np.uint64(20)


def _values(numbers: Numbers, version: int) -> Numbers:
    """Less than 2^32 and `version`, so that sums of all rows fit in 64 bits."""
    return (_mixed(numbers) & np.uint64(0xFFFF_FFFF)).astype(np.int64) + version


def _text(prefix: str, numbers: Numbers, width: int) -> pa.Array:
    padded = pc.utf8_lpad(pa.array(numbers).cast(pa.string()), width, "0")
    return pc.binary_join_element_wise(prefix, padded, "")


def _wide(numbers: Numbers, version: int) -> dict[str, pa.Array]:
    """Plain columns of four types, then structs and lists."""
    mixed = _mixed(numbers).astype(np.int64)
    columns: dict[str, pa.Array] = {}
    for at in range(_PLAIN_COLUMNS):
        value = mixed % (1_000 + 17 * at) + version
        kind = at % 4
        if kind == 0:
            columns[f"n{at}"] = pa.array(value)
        elif kind == 1:
            columns[f"d{at}"] = pa.array(value / 7)
        elif kind == 2:
            columns[f"s{at}"] = _text("text ", value, 1)
        else:
            columns[f"t{at}"] = pa.array(value * 1_000_000).cast(pa.timestamp("us", "UTC"))
    for at in range(_NESTED_COLUMNS):
        inner = pa.array(mixed % (100 + at) + version)
        if at % 2:
            fields = {"x": inner, "y": _text("y", mixed % (50 + at), 1)}
            columns[f"r{at}"] = pa.StructArray.from_arrays(list(fields.values()), list(fields))
        else:
            ends = pa.array(np.arange(0, 2 * len(numbers) + 1, 2, dtype=np.int32))
            pairs = pa.array(np.repeat(mixed % (100 + at), 2) + version)
            columns[f"l{at}"] = pa.ListArray.from_arrays(ends, pairs)
    return columns

"""Random filters as Arrow expressions: literals and lists of the column's type and of others, with
nulls, NaN and zeros, casts, calculations and functions with options."""

from __future__ import annotations

import operator
import random
from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tests.support.filter_cases import COLUMNS, FLOATS, NAN, SCHEMA

COMPARED = (operator.eq, operator.ne, operator.lt, operator.le, operator.gt, operator.ge)
WIDER = {
    pa.int32(): (pa.int64(), pa.float64(), pa.int8(), pa.decimal128(12, 2)),
    pa.int64(): (pa.int32(), pa.float64(), pa.decimal128(20, 0)),
    pa.float32(): (pa.float64(), pa.int64(), pa.float16()),
    pa.float64(): (pa.float32(), pa.int64()),
    pa.string(): (pa.large_string(), pa.binary()),
    pa.binary(): (pa.string(), pa.large_binary()),
    pa.decimal128(10, 2): (pa.decimal128(20, 2), pa.decimal128(12, 4), pa.int64(), pa.float64()),
    pa.timestamp("us", "UTC"): (pa.timestamp("ms", "UTC"), pa.timestamp("ns", "Europe/Berlin")),
    pa.timestamp("us"): (pa.timestamp("s"), pa.timestamp("ns"), pa.date32()),
    pa.date32(): (pa.date64(), pa.timestamp("us")),
}
"""Types of literals that a column of a type is compared with too."""


class ArrowGenerator:
    def __init__(self, seed: int) -> None:
        self.chance = random.Random(seed)

    def expression(self, depth: int = 0) -> pc.Expression:
        """A filter of rows of `SCHEMA`, which Arrow can bind and evaluate."""
        return self._bindable(lambda: self._node(depth))

    def unknown(self) -> pc.Expression:
        """A condition with a function that is not analyzed."""
        return self._bindable(self._unknown)

    def _bindable(self, make: Callable[[], pc.Expression]) -> pc.Expression:
        while True:
            try:
                found = make()
                SCHEMA.empty_table().filter(found)
            except (pa.ArrowException, TypeError, ValueError, OverflowError):
                continue  # types that Arrow does not compare
            return found

    def _node(self, depth: int) -> pc.Expression:
        kind = self.chance.random()
        if depth > 3 or kind < 0.45:
            return self._leaf()
        if kind < 0.6:
            return ~self._node(depth + 1)
        join = operator.and_ if kind < 0.8 else operator.or_
        found: pc.Expression = join(self._node(depth + 1), self._node(depth + 1))
        return found

    def _leaf(self) -> pc.Expression:
        name = self.chance.choice([*COLUMNS, "id", "p"])
        column, kind = pc.field(name), SCHEMA.field(name).type
        match self.chance.randrange(10):
            case 0:
                return column.is_null(nan_is_null=self.chance.random() < 0.5)
            case 1:
                return column.is_valid()
            case 2 if name in FLOATS:
                return column.is_nan()
            case 3 | 4 | 5:
                return self._among(column, name, kind)
            case 6:
                return self._function(column, name, kind)
            case 7 if pa.types.is_boolean(kind):
                return column
        sides = [column, pc.scalar(self._scalar(name, kind))]
        self.chance.shuffle(sides)
        found: pc.Expression = self.chance.choice(COMPARED)(*sides)
        return found

    def _unknown(self) -> pc.Expression:
        name = self.chance.choice(["i", "x", "s", "t", "w", "day"])
        column, kind = pc.field(name), SCHEMA.field(name).type
        match name:
            case "i" | "x":
                return pc.round(column, self.chance.choice([-1, 1])) >= self.chance.choice([0, 5])
            case "t" | "day":
                return pc.floor_temporal(column, unit="year") >= self._scalar(name, kind)
            case "w":
                zoned = pc.assume_timezone(column, "Europe/Berlin", nonexistent="latest")
                return zoned >= self._scalar("t", SCHEMA.field("t").type)
        found = pc.index_in(column, pa.array(self.chance.sample(COLUMNS["s"][1], 3)))
        return found >= self.chance.randrange(3)

    def _among(self, column: pc.Expression, name: str, kind: pa.DataType) -> pc.Expression:
        values = [self._scalar(name, kind) for _ in range(self.chance.randrange(4))]
        kinds = {value.type for value in values}
        of = kinds.pop() if len(kinds) == 1 else kind
        found = [value.as_py() for value in values]
        if self.chance.random() < 0.2:
            found.append(None)
        return pc.is_in(column, pa.array(found, of), skip_nulls=self.chance.random() < 0.3)

    def _function(self, column: pc.Expression, name: str, kind: pa.DataType) -> pc.Expression:
        scalar = pc.scalar(self._scalar(name, kind))
        other = pc.field(self.chance.choice(list(COLUMNS)))
        made = [
            pc.coalesce(column, scalar) == scalar,
            pc.if_else(pc.field("b"), column, scalar) != scalar,
            column.cast(self.chance.choice(WIDER.get(kind, (kind,))), safe=False) <= scalar,
            column >= other,
        ]
        if pa.types.is_string(kind):
            made += [
                pc.match_like(column, "a%", ignore_case=self.chance.random() < 0.5),
                pc.utf8_lower(column) == scalar, pc.utf8_trim(column, " ") == "a",
                pc.starts_with(column, "a"), pc.utf8_slice_codeunits(column, 0, 1) == "a",
            ]  # fmt: skip
        if name in ("t", "w", "day"):
            made.append(pc.year(column) >= 2024)
        if name in FLOATS:
            made.append(pc.round(column, 1) == scalar)
        return self.chance.choice(made)

    def _scalar(self, name: str, kind: pa.DataType) -> pa.Scalar:
        """A value of a column, near one of its values, or null; of its type or another."""
        known: list[Any] = COLUMNS[name][1] if name in COLUMNS else [0, 3, 17, 44, 89, "a", "x=y"]
        if self.chance.random() < 0.05:
            return pa.scalar(None, kind)
        value = self.chance.choice(known)
        if name in FLOATS and self.chance.random() < 0.3:
            value = self.chance.choice([0.1, 16777217.0, NAN, -0.0, 1e-320])
        of = kind
        if self.chance.random() < 0.4:
            of = self.chance.choice(WIDER.get(kind, (kind,)))
        try:
            return pa.scalar(value, kind).cast(of, safe=self.chance.random() < 0.7)
        except (pa.ArrowException, TypeError):
            return pa.scalar(value, of)

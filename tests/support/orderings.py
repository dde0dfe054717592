"""Ordering columns of every type, with three values in ascending order."""

from __future__ import annotations

import datetime as dt
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi


@dataclass(frozen=True)
class Ordering:
    """kinds: types of the ordering columns.  values: a value of each column, ascending."""

    kinds: tuple[pa.DataType, ...]
    values: tuple[tuple[Any, ...], ...]


def _one(kind: pa.DataType, *values: Any) -> Ordering:
    return Ordering((kind,), tuple((value,) for value in values))


def _decimals(precision: int, scale: int, *texts: str) -> Ordering:
    return _one(pa.decimal128(precision, scale), *map(Decimal, texts))


_DAYS = tuple(dt.date(2020, 1, day) for day in (1, 2, 3))
_MOMENTS = tuple(dt.datetime(2020, 1, day, 5, tzinfo=dt.UTC) for day in (1, 2, 3))

ORDERINGS = {
    "int32": _one(pa.int32(), -7, 1, 9),
    "int64": _one(pa.int64(), -7, 0, 1 << 40),
    "float": _one(pa.float32(), -1.5, 0.0, 2.5),
    "double": _one(pa.float64(), -1.5, 0.0, 1e300),
    "string": _one(pa.string(), "10", "9", "a"),
    "bool and int32": Ordering((pa.bool_(), pa.int32()), ((False, 5), (True, 0), (True, 2))),
    "date": _one(pa.date32(), *_DAYS),
    "timestamp micros": _one(pa.timestamp("us", "UTC"), *_MOMENTS),
    "timestamp millis": _one(pa.timestamp("ms", "UTC"), *_MOMENTS),
    "local timestamp": _one(pa.timestamp("us"), *(m.replace(tzinfo=None) for m in _MOMENTS)),
    "time millis": _one(pa.time32("ms"), *(dt.time(hour) for hour in (1, 2, 3))),
    "time micros": _one(pa.time64("us"), *(dt.time(hour) for hour in (1, 2, 3))),
    "decimal(10,2)": _decimals(10, 2, "-1.50", "0.00", "99999999.99"),
    "decimal(12,4)": _decimals(12, 4, "-1.5", "1.5", "2.5"),
    "decimal(18,6)": _decimals(18, 6, "-1.5", "1.5", "2.5"),
    "decimal(38,0)": _decimals(38, 0, "-1", "7", "9" * 38),
    "decimal(38,18)": _decimals(38, 18, "-1", "0.000000000000000001", "0.000000000000000002"),
    "decimal(38,30)": _decimals(38, 30, "-1.5", "1.5", "2.5"),
    "binary": _one(pa.binary(), b"\x01", b"\x7f", b"\x7f\x01"),
    "fixed": _one(pa.binary(3), b"abc", b"abd", b"b\x00\x00"),
    "int64 and string": Ordering((pa.int64(), pa.string()), ((1, "z"), (2, "a"), (2, "b"))),
    "date and decimal": Ordering(
        (pa.date32(), pa.decimal128(10, 2)),
        tuple(zip(_DAYS, map(Decimal, ("3.50", "2.50", "1.50")), strict=True)),
    ),
    "timestamp and int32": Ordering(
        (pa.timestamp("us", "UTC"), pa.int32()), tuple(zip(_MOMENTS, (3, 2, 1), strict=True))
    ),
}


def schema_of(ordering: Ordering) -> pa.Schema:
    return pa.schema(
        [
            ("id", pa.string()),
            *((f"o{n}", kind) for n, kind in enumerate(ordering.kinds)),
            ("v", pa.int64()),
            ("_hoodie_is_deleted", pa.bool_()),
        ]
    )


class OrderedTable:
    """A merge-on-read table ordered by a type, its keys indexed by their base files."""

    def __init__(
        self,
        path: Path,
        ordering: Ordering,
        log: str,
        index: str = "bloom",
        *,
        version: int | None = None,
    ) -> None:
        self.ordering, self.schema, self.path = ordering, schema_of(ordering), path
        names = [f"o{n}" for n in range(len(ordering.kinds))]
        self.table = pyhudi.create_table(
            self.path, self.schema, record_key="id", ordering=names, table_type="mor", index=index,
            version=version, options={"hoodie.logfile.data.block.format": log},
        )  # fmt: skip

    def put(self, *rows: tuple[str, int], deleted: bool = False, v: int = 0) -> Any:
        """rows: (key, which of the ordering's three values)."""
        names = [name for name in self.schema.names if name.startswith("o")]
        made = [
            {"id": key, **dict(zip(names, self.ordering.values[at], strict=True)), "v": v,
             "_hoodie_is_deleted": deleted}
            for key, at in rows
        ]  # fmt: skip
        return self.table.upsert(pa.Table.from_pylist(made, self.schema))

    def live(self) -> dict[str, int]:
        found = pyhudi.open_table(self.path).scan(["id", "v"]).to_arrow().to_pylist()
        return {row["id"]: row["v"] for row in found}

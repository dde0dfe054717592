"""Tables that query engines read, and their rows as text."""

from __future__ import annotations

from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa

import pyhudi

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("n", pa.int32()),
        ("big", pa.int64()),
        ("fare", pa.float64()),
        ("price", pa.decimal128(10, 2)),
        ("day", pa.date32()),
        ("ok", pa.bool_()),
        ("city", pa.string()),
    ]
)
COLUMNS = ("id", "n", "big", "fare", "price", "day", "ok", "city")


def row(number: int, times: int = 1) -> dict[str, Any]:
    return {
        "id": f"t{number:04}",
        "n": number * times,
        "big": number * 10**12,
        "fare": number * 0.5 * times,
        "price": Decimal(number) / 4,
        "day": date(2026, 11, 1 + number % 20),
        "ok": None if number % 5 == 0 else number % 2 == 0,
        "city": ("sf", "la", "new york")[number % 3],
    }


def build(path: Path, kind: str, version: int = 9, *, partitioned: bool = True) -> pyhudi.Table:
    """300 rows; 40 of them updated, 10 deleted, one column's values null in places."""
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="city" if partitioned else (),
        table_type=kind, version=version,
    )  # fmt: skip
    table.upsert(pa.Table.from_pylist([row(n) for n in range(300)], SCHEMA))
    table.upsert(pa.Table.from_pylist([row(n, 7) for n in range(0, 80, 2)], SCHEMA))
    table.delete(keys=[f"t{n:04}" for n in range(100, 110)])
    return table


def expected(table: pyhudi.Table, mode: str = "snapshot") -> list[tuple[str, ...]]:
    rows = table.scan(list(COLUMNS), mode=mode).to_arrow().to_pylist()
    return as_text(tuple(row[name] for name in COLUMNS) for row in rows)


def as_text(rows: Any) -> list[tuple[str, ...]]:
    """Rows in order, with the values that engines print in different ways in one form."""
    return sorted(tuple(_text(value) for value in row) for row in rows)


def _text(value: Any) -> str:
    if value is None or value == "null":
        return "null"
    text = str(value).lower()
    if text in ("true", "false", "0", "1"):
        return text
    try:
        return f"{float(text):.6g}" if "." in text else text
    except ValueError:
        return text

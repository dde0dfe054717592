"""The result of writing each type to a column of each type, as docs/schema_evolution.md shows it.

    python -m tests.write.schema_matrix

prints the table.  Every cell is computed by the code; tests write and read every pair that is
allowed.
"""

from __future__ import annotations

import datetime as dt
import sys
from collections.abc import Iterator
from decimal import Decimal
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import SchemaError
from pyhudi.write.input.schema_check import fit_schema

TYPES: Final[dict[str, pa.DataType]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "decimal(6,2)": pa.decimal128(6, 2),
    "decimal(10,4)": pa.decimal128(10, 4),
    "decimal(20,2)": pa.decimal128(20, 2),
    "string": pa.string(),
    "binary": pa.binary(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp (ms)": pa.timestamp("ms", "UTC"),
    "timestamp": pa.timestamp("us", "UTC"),
    "struct": pa.struct([("x", pa.int32())]),
    "list": pa.list_(pa.field("element", pa.int32())),
    "map": pa.map_(pa.string(), pa.int32()),
}
_AT = dt.datetime(2020, 1, 2, 3, 4, 5, 123_000, dt.UTC)
VALUES: Final[dict[str, list[Any]]] = {
    "boolean": [True],
    "int": [1, -(2**31), 16_777_217],
    "long": [1, -(2**63), 2**53 + 1],
    "float": [0.1, -1.5, 1e-30, float("inf")],
    "double": [0.1, 1e300],
    "decimal(6,2)": [Decimal("1.50"), Decimal("-9999.99")],
    "decimal(10,4)": [Decimal("1.5000"), Decimal("-99999.9999")],
    "decimal(20,2)": [Decimal("1.00"), Decimal("12345678901234567.89")],
    "string": ["a", "é", ""],
    "binary": [b"a", b"\xc3\xa9", b""],
    "date": [dt.date(2020, 1, 2), dt.date(1900, 1, 1)],
    "time": [dt.time(1, 2, 3)],
    "timestamp (ms)": [_AT],
    "timestamp": [_AT.replace(microsecond=123_456)],
    "struct": [{"x": 1}],
    "list": [[1]],
    "map": [[("k", 1)]],
}
WAYS: Final = ("same", "narrower", "widens", "refused")


def way(old: pa.DataType, new: pa.DataType) -> str:
    """What a table of `old` makes of rows of `new`: one of WAYS."""
    if old.equals(new):
        return "same"
    try:
        found = fit_schema(pa.schema([("c", new)]), pa.schema([("c", old)]))
    except SchemaError:
        return "refused"
    return "widens" if found.widened else "narrower"


def pairs(*ways: str) -> Iterator[tuple[str, str]]:
    """(old, new) by name, of those ways."""
    for old, old_type in TYPES.items():
        for new, new_type in TYPES.items():
            if way(old_type, new_type) in ways:
                yield old, new


def table() -> str:
    """Rows: type in the table.  Columns: type in the batch."""
    marks = {"same": "=", "narrower": "narrower", "widens": "**widens**", "refused": ""}
    lines = ["| | " + " | ".join(TYPES) + " |", "|---" * (len(TYPES) + 1) + "|"]
    for old, old_type in TYPES.items():
        cells = (marks[way(old_type, new_type)] for new_type in TYPES.values())
        lines.append(f"| {old} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    sys.stdout.write(table())

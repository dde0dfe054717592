"""docs/schema_evolution.md: what becomes of a column when a batch brings another type.

    python -m tests.write.schema_matrix > docs/schema_evolution.md

Every cell is asked of the code; tests write and read every pair that is allowed.
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
_HEAD: Final = """# Schema evolution

<!-- Made by `make options` from the code: tests/write/schema_matrix.py. -->

A write compares the columns of its rows with those of the table before it writes anything:

| the rows | `schema_mode="strict"` | `"add"` | `"widen"` (default) |
|---|---|---|---|
| the table's columns, in any order | written | written | written |
| a narrower type | written as the table's type | the same | the same |
| a new column, a new field in a struct, list or map | refused | added, null in older rows | added |
| a wider type | refused | refused | the column takes it |
| a column missing | refused | refused | refused |
| another type | refused | refused | refused |

Missing columns are filled with nulls by `hoodie.write.set.null.for.missing.columns=true` or
`hoodie.datasource.write.reconcile.schema=true`. `_hoodie_is_deleted` may always be missing.
What is refused is a `SchemaError` that lists every difference; the table stays as it was.
Columns of the record key, the partition path and the order of records keep their type. Older files
stay as they are; reads give their rows nulls for columns they lack and widened values.
"""
_TAIL: Final = """
*narrower*: the rows are written as the table's type. **widens**: the column takes the batch's type.
Inside structs, lists and maps fields may be added but keep their types, as Apache Hudi 1.2.0 reads
no older files otherwise. `float` widens to `double` by way of its text, as in Apache Hudi: 0.1
stays 0.1. On merge-on-read no type widens while there are log files: compact first, as Apache
Hudi 0.15.0 cannot read logs of the older type. Whole numbers that a floating-point column does not
hold exactly are refused in rows that come in. Apache Hudi also turns numbers, dates and decimals
into text, and whole numbers into floats that round them; tables that have been through it are read.
"""


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


def page() -> str:
    marks = {"same": "=", "narrower": "narrower", "widens": "**widens**", "refused": ""}
    lines = [_HEAD, "## Types", "", "Down: the table's column. Across: the column of the rows.", ""]
    lines.append("| | " + " | ".join(TYPES) + " |")
    lines.append("|---" * (len(TYPES) + 1) + "|")
    for old, old_type in TYPES.items():
        cells = (marks[way(old_type, new_type)] for new_type in TYPES.values())
        lines.append(f"| {old} | " + " | ".join(cells) + " |")
    return "\n".join(lines) + "\n" + _TAIL


if __name__ == "__main__":
    sys.stdout.write(page())

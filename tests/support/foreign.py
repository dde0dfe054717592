"""Small copies of tables of other writers and versions, with the rows Apache Hudi 1.2.0 reads.

Each archive holds the table in a folder of its own name and, where given, `expected.parquet`.
"""

from __future__ import annotations

import zipfile
from collections import Counter
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

FOLDER = Path(__file__).parents[1] / "golden" / "foreign"


def foreign_table(name: str, folder: Path) -> Path:
    """The root of a fresh copy of the table below `folder`."""
    with zipfile.ZipFile(FOLDER / f"{name}.zip") as file:
        file.extractall(folder)
    return folder / name


def expected_rows(folder: Path) -> pa.Table:
    """What Apache Hudi 1.2.0 read of the table last extracted to `folder`."""
    return pq.read_table(folder / "expected.parquet")


def row_counts(rows: pa.Table, names: list[str] | None = None) -> Counter[str]:
    """Each row as text and how often it is there; timestamps of any unit alike."""
    found = rows if names is None else rows.select(names)
    return Counter(repr(sorted(row.items())) for row in _in_micros(found).to_pylist())


def _in_micros(rows: pa.Table) -> pa.Table:
    for index, field in enumerate(rows.schema):
        if pa.types.is_timestamp(field.type):
            kind = pa.timestamp("us", field.type.tz)
            rows = rows.set_column(index, field.name, rows.column(index).cast(kind))
    return rows

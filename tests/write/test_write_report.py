"""What a write report shows of itself."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import pyhudi
from pyhudi.write.write_report import WriteReport


def test_the_repr_is_one_line_of_what_happened() -> None:
    report = WriteReport(
        "upsert", "20260101000000000", inserted=3, files=1, seconds={"tag": 0.1, "write": 0.2},
        index="record: of the table", notes=("column added to the table: x",),
    )  # fmt: skip
    assert repr(report) == (
        "WriteReport(operation='upsert', instant='20260101000000000', inserted=3, files=1, "
        "seconds=0.3, notes=('column added to the table: x',))"
    )


def test_the_repr_says_that_a_write_is_not_published(tmp_path: Path) -> None:
    rows = pa.table({"id": ["a"], "n": [1]})
    table = pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id")
    assert "published=False" in repr(table.upsert(rows, publish=False))

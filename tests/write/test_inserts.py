"""Inserts look no key up: a key that is there already is there twice, in whatever file."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi

ROWS = pa.table({"id": ["a", "b"], "ts": [5, 5], "v": [1, 2]})


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("ordering", ["ts", None])
def test_a_row_that_joins_a_small_file_leaves_the_stored_row_of_its_key(
    tmp_path: Path, kind: str, ordering: str | None
) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", ROWS.schema, record_key="id", ordering=ordering, table_type=kind
    )
    table.bulk_insert(ROWS)
    groups = len(table.file_slices())
    report = table.insert(pa.table({"id": ["a", "c"], "ts": [3, 3], "v": [10, 30]}))
    assert (report.inserted, report.updated, report.unchanged) == (2, 0, 0)
    assert len(table.file_slices()) == groups, "the rows have joined the small file"
    found = table.scan(["id", "v"]).to_arrow().to_pylist()
    assert sorted((row["id"], row["v"]) for row in found) == [
        ("a", 1), ("a", 10), ("b", 2), ("c", 30),
    ]  # fmt: skip

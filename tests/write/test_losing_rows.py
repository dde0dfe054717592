"""Rows that lose to what is stored: reported as unchanged, and no file is written for them."""

from __future__ import annotations

import pyarrow as pa
import pytest

import pyhudi

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])


@pytest.mark.parametrize("index", ["record", "bloom", "simple"])
def test_a_file_whose_rows_all_stay_is_not_written_again(index: str) -> None:
    table = pyhudi.create_table(
        f"memory://losing-{index}", SCHEMA, record_key="id", partition_by="p", ordering="ts",
        index=index,
    )  # fmt: skip
    table.upsert(pa.table({"id": ["a", "b"], "p": ["x", "y"], "ts": [5, 5], "v": [1, 1]}))
    files = {file.path for piece in table.file_slices() for file in piece.files}
    late = table.upsert(pa.table({"id": ["a", "b"], "p": ["x", "y"], "ts": [4, 4], "v": [2, 2]}))
    assert (late.unchanged, late.updated, late.files, late.bytes_written) == (2, 0, 0, 0)
    assert {file.path for piece in table.file_slices() for file in piece.files} == files
    mixed = table.upsert(pa.table({"id": ["a", "b"], "p": ["x", "y"], "ts": [4, 6], "v": [3, 3]}))
    assert (mixed.unchanged, mixed.updated, mixed.files) == (1, 1, 1)
    found = {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert found == {"a": 1, "b": 3}
    assert table.scan(where=pa.compute.field("id") == "a").count() == 1
    assert not table.doctor().findings

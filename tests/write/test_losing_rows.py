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
    files = {file.path for file_slice in table.file_slices() for file in file_slice.files}
    late = table.upsert(pa.table({"id": ["a", "b"], "p": ["x", "y"], "ts": [4, 4], "v": [2, 2]}))
    assert (late.unchanged, late.updated, late.files, late.bytes_written) == (2, 0, 0, 0)
    assert {file.path for file_slice in table.file_slices() for file in file_slice.files} == files
    mixed = table.upsert(pa.table({"id": ["a", "b"], "p": ["x", "y"], "ts": [4, 6], "v": [3, 3]}))
    assert (mixed.unchanged, mixed.updated, mixed.files) == (1, 1, 1)
    found = {row["id"]: row["v"] for row in table.scan().to_arrow().to_pylist()}
    assert found == {"a": 1, "b": 3}
    assert table.scan(where=pa.compute.field("id") == "a").count() == 1
    assert not table.doctor().findings


def test_the_report_names_how_many_rows_lost() -> None:
    table = pyhudi.create_table(
        "memory://losing-notes", SCHEMA, record_key="id", partition_by="p", ordering="ts"
    )
    first = table.upsert(pa.table({"id": ["a", "b"], "p": ["x", "y"], "ts": [5, 5], "v": [1, 1]}))
    assert not any("lost" in note for note in first.notes)
    late = pa.table({"id": ["a", "b"], "p": ["x", "y"], "ts": [4, 4], "v": [2, 2]})
    report = table.upsert(late)
    assert report.instant is not None  # as Apache Hudi, which commits too
    lost = "rows that lost to stored records with greater ordering values"
    assert f"{lost}: 2; the commit has no files" in report.notes
    mixed = pa.table({"id": ["a", "b"], "p": ["x", "y"], "ts": [4, 6], "v": [3, 3]})
    assert f"{lost}: 1" in table.upsert(mixed).notes
    equal = pa.table({"id": ["b", "c"], "p": ["y", "y"], "ts": [6, 1], "v": [3, 1]})
    notes = table.upsert(equal, skip_unchanged=True).notes
    assert "rows that lost to stored records or equal them: 1" in notes


def test_merge_on_read_logs_rows_that_lose_as_apache_hudi_does() -> None:
    """Which rows lose is decided when the logs are merged, so the write does not count them."""
    table = pyhudi.create_table(
        "memory://losing-mor", SCHEMA, record_key="id", partition_by="p", ordering="ts",
        table_type="mor",
    )  # fmt: skip
    table.upsert(pa.table({"id": ["a"], "p": ["x"], "ts": [5], "v": [1]}))
    report = table.upsert(pa.table({"id": ["a"], "p": ["x"], "ts": [4], "v": [2]}))
    assert (report.updated, report.unchanged, report.files) == (1, 0, 1)
    assert table.scan().to_arrow().column("v").to_pylist() == [1]

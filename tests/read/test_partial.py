"""Log blocks of partial updates: rows that say some columns, merged as Apache Hudi 1.2.0 does.

The tables were updated by four MERGE INTO statements, two of them late in event time, and then
compacted; the rows before the compaction are what it wrote, but for the files' names.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.errors import UnsupportedTableError
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.merge.partial_updates import partial_rules
from pyhudi.merge.payload_classes import Keeps
from tests.read.test_capture import unzipped
from tests.support.slice_parts import read_in_parts

TABLES = ["mor_partial_v8", "mor_partial_v9"]
FILE_NAME = "_hoodie_file_name"


def opened(name: str, folder: Path) -> tuple[Table, str, list[dict[str, Any]]]:
    """(the table, the moment before its compaction, the rows that Apache Hudi reads)."""
    root, expected = unzipped(name, folder)
    table = pyhudi.open_table(root)
    before = [i for i in table.timeline.commits if i.action.value == "deltacommit"][-1]
    rows = pq.read_table(expected / "rows.parquet").to_pylist()
    return table, str(before.completed_at), sorted(rows, key=lambda row: row["id"])


def by_id(found: Any) -> list[dict[str, Any]]:
    return sorted(found.to_arrow().to_pylist(), key=lambda row: row["id"])


def without(rows: list[dict[str, Any]], column: str) -> list[dict[str, Any]]:
    return [{name: row[name] for name in row if name != column} for row in rows]


@pytest.mark.parametrize("name", TABLES)
def test_columns_that_an_update_does_not_say_stay(name: str, tmp_path: Path) -> None:
    table, moment, want = opened(name, tmp_path)
    scan = table.scan(as_of=moment)
    assert sum(len(task.slice.logs) for task in scan.tasks) == 7
    assert without(by_id(scan), FILE_NAME) == without(want, FILE_NAME)
    assert without(by_id(table.scan()), FILE_NAME) == without(want, FILE_NAME)


@pytest.mark.parametrize("name", TABLES)
def test_columns_and_filters_see_merged_rows(name: str, tmp_path: Path) -> None:
    table, moment, want = opened(name, tmp_path)
    narrow = table.scan(["id", "c"], as_of=moment)
    assert by_id(narrow) == [{"id": row["id"], "c": row["c"]} for row in want]
    both = (pc.field("a") == 15) & (pc.field("b") == "new20")
    assert [row["id"] for row in by_id(table.scan(where=both, as_of=moment))] == ["k1"]
    assert table.scan(as_of=moment).count() == len(want)


@pytest.mark.parametrize("name", TABLES)
def test_remaining_base_rows_and_logged_rows_are_the_merged_rows(name: str, tmp_path: Path) -> None:
    table, moment, want = opened(name, tmp_path)
    for columns in (None, ["id", "c"], ["c"]):
        scan = table.scan(columns, as_of=moment)
        found = [read_in_parts(t.fs, t.slice, t.spec, t.partition_values) for t in scan.tasks]
        rows = pa.concat_tables(found).sort_by(scan.schema.names[-1])
        assert rows.equals(scan.to_arrow().sort_by(scan.schema.names[-1]))
    assert len(want) == rows.num_rows


@pytest.mark.parametrize("name", TABLES)
def test_changes_of_partial_updates_are_whole_rows(name: str, tmp_path: Path) -> None:
    table, moment, want = opened(name, tmp_path)
    first = table.timeline.commits.first
    assert first is not None
    found = by_id(table.changes(str(first.completed_at), moment))
    changed = [row for row in want if row["_hoodie_commit_time"] > first.time]
    assert without(found, FILE_NAME) == without(changed, FILE_NAME)


@pytest.mark.parametrize("keeps", [each for each in Keeps if each is not Keeps.NOTHING])
def test_payload_classes_that_merge_values_themselves_are_refused(keeps: Keeps) -> None:
    with pytest.raises(UnsupportedTableError, match="payload class") as refused:
        partial_rules(MergeRules("_hoodie_record_key", keeps=keeps), path="x")
    assert "read_optimized" in str(refused.value)

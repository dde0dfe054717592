"""Statements of two processes on one table: none is lost, whatever each of them reads."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from tests.sql.concurrent import run

STATEMENTS = (
    "merge into t using (select 'a' as id) s on t.id = s.id "
    "when matched then update set n = t.n + 1",
    "update t set n = n + 1 where id = 'b'",
    "merge into t using (select id, n + 1 as m from t where id = 'c') s on t.id = s.id "
    "when matched then update set n = s.m",
)
"""Each adds one to a row: by its old value, by a condition, by a source that reads the table."""

WORK = f"""
import sys
import pyhudi
for turn in range(int(sys.argv[2])):
    for text in {STATEMENTS!r}:
        pyhudi.sql(text, tables={{"t": sys.argv[1]}})
"""


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_no_merge_and_no_update_is_lost(tmp_path: Path, kind: str) -> None:
    first = pa.table({"id": ["a", "b", "c"], "n": pa.array([0, 0, 0], pa.int64())})
    path, turns = tmp_path / "t", 4
    pyhudi.create_table(path, first.schema, record_key="id", table_type=kind).insert(first)
    command = [sys.executable, "-c", WORK, str(path), str(turns)]
    writers = [subprocess.Popen(command) for _ in range(2)]
    assert [writer.wait(300) for writer in writers] == [0, 0]
    rows = pyhudi.open_table(path).to_arrow().to_pylist()
    assert {row["id"]: row["n"] for row in rows} == dict.fromkeys("abc", 2 * turns)


def test_statements_on_the_same_and_on_other_keys_leave_the_rows_of_any_order(
    tmp_path: Path,
) -> None:
    assert run(1, 29, tmp_path)["tables"] == 1

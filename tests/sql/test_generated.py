"""Random programs of MERGE, UPDATE and DELETE, against a model and DuckDB's own ones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from tests.sql.programs import INDEXES, run


def test_programs_leave_what_a_model_and_duckdb_leave(tmp_path: Path) -> None:
    assert run(5, 1, tmp_path)["programs"] == 5


@pytest.mark.parametrize("index", INDEXES)
def test_a_merge_finds_its_records_by_each_index(tmp_path: Path, index: str) -> None:
    rows = pa.table({"id": ["a", "b"], "n": [1, 2]})
    table = pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id", index=index)
    table.upsert(rows)
    text = "merge into t using s on t.id = s.id when matched then update set n = t.n + s.n"
    pyhudi.sql(text, tables={"t": table, "s": rows.slice(1)})
    assert table.to_arrow().sort_by("id")["n"].to_pylist() == [1, 4]

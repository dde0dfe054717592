"""Random programs of MERGE, UPDATE and DELETE, against a model and DuckDB's own ones."""

from __future__ import annotations

from pathlib import Path

from tests.sql.programs import run


def test_programs_leave_what_a_model_and_duckdb_leave(tmp_path: Path) -> None:
    assert run(5, 1, tmp_path)["programs"] == 5

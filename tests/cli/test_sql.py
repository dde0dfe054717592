"""`pyhudi sql` on real tables."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.cli.test_commands import answer, run

ROWS = pa.table({"id": ["a", "b"], "city": ["x", "y"], "fare": [1.5, 2.5]})


@pytest.fixture
def lake(tmp_path: Path) -> Path:
    for name in ("trips", "other"):
        pyhudi.create_table(tmp_path / name, ROWS.schema, record_key="id").upsert(ROWS)
    return tmp_path


def test_a_statement_reads_tables_by_path_name_and_folder(lake: Path) -> None:
    text = "select t.id from trips t join o on t.id = o.id where t.fare > :low"
    found = answer(
        "sql", lake / "trips", f"o={lake}/other", text, "--parameter", "low=2"
    )  # fmt: skip
    assert found == [{"id": "b"}]
    assert answer("sql", lake, "select count(*) as n from other") == [{"n": 2}]
    shown = run("sql", lake, "select city from trips")
    assert shown.returncode == 0 and "x" in shown.stdout
    done = answer("sql", lake, "select * from trips", "--format", "parquet", "-o", lake / "rows")
    assert done["rows"] == 2 and pq.read_table(lake / "rows").num_rows == 2  # type: ignore[index, call-overload]


def test_columns_of_one_name_are_all_shown(lake: Path) -> None:
    text = "select t.id, o.id, o.fare as id_1, t.id from trips t join other o on t.fare < o.fare"
    expected = {"id": "a", "id_1": "b", "id_1_1": 2.5, "id_2": "a"}
    assert answer("sql", lake, text) == [expected]
    for form in ("csv", "json", "parquet"):
        answer("sql", lake, text, "--format", form, "-o", lake / form)
    assert json.loads((lake / "json").read_text()) == expected
    assert pq.read_table(lake / "parquet").to_pylist() == [expected]
    assert (lake / "csv").read_text().split("\n")[0] == '"id","id_1","id_1_1","id_2"'


def test_a_write_prints_its_report(lake: Path) -> None:
    done = answer("sql", lake, "update trips set fare = 9 where id = 'a'")
    assert done["updated"] == 1  # type: ignore[index, call-overload]
    fares = pyhudi.open_table(lake / "trips").to_arrow()["fare"].to_pylist()
    assert sorted(fares) == [2.5, 9.0]


def test_a_script_stops_at_the_first_error_and_names_its_line(lake: Path) -> None:
    script = lake / "script.sql"
    script.write_text(
        "delete from trips where id = 'a'; -- one\n\nselect nosuch\nfrom trips;\ndelete from trips"
    )
    failed = run("sql", lake, "-f", script)
    assert failed.returncode == 2 and "line=3" in failed.stderr
    assert pyhudi.open_table(lake / "trips").count() == 1


def test_errors_of_usage_are_those_of_the_command_line(lake: Path) -> None:
    assert run("sql").returncode == 2
    assert "no table has this name" in run("sql", lake, "select * from nosuch").stderr
    assert "one name" in run("sql", f"t={lake}/trips", f"t={lake}/other", "select 1").stderr
    assert "no tables" in run("sql", lake, lake / "none", "select 1").stderr


def test_long_statements_and_statements_with_urls_are_no_paths(lake: Path) -> None:
    values = ", ".join(f"'s3://bucket/{n}'" for n in range(400))
    assert answer("sql", lake, f"select count(*) as n from trips where id in ({values})") == [
        {"n": 0}
    ]
    assert answer("sql", lake, "select count(*) as n from trips where id='s3://a'") == [{"n": 0}]
    assert "not valid SQL" in run("sql", lake, "select * from trips where id = ").stderr

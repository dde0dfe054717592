"""`pyhudi.upsert` and `pyhudi.read`, and tables that are created from rows."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import TableNotFoundError, UserError

ROWS = pa.table({"id": ["a", "b"], "n": [1, 2]})

QUERY = "select chr(96 + n::int) as id, n from range(1, 3) r(n)"


def frames() -> list[Any]:
    pl, pd = pytest.importorskip("polars"), pytest.importorskip("pandas")
    duckdb = pytest.importorskip("duckdb")
    return [
        ROWS, ROWS.to_reader(), ROWS.to_batches()[0], ROWS.to_pandas(), pl.from_arrow(ROWS),
        pl.from_arrow(ROWS).lazy(), duckdb.sql(QUERY),
        pd.DataFrame({"id": ["a", "b"], "n": [1, 2]}, index=[7, 8]),
    ]  # fmt: skip


def test_an_upsert_of_any_rows_creates_the_table_and_changes_it_after(tmp_path: Path) -> None:
    for number, rows in enumerate(frames()):
        path = tmp_path / f"t{number}"
        report = pyhudi.upsert(path, rows, record_key="id", partition_by="n")
        assert (report.inserted, report.updated) == (2, 0)
        report = pyhudi.upsert(path, ROWS, ordering="ignored, as the table exists")
        assert (report.inserted, report.updated) == (0, 2)
        found = pyhudi.read(path)
        assert found.schema.names == ["id", "n"] and found.count() == 2


def test_a_new_table_takes_the_columns_of_rows_and_none_of_them(tmp_path: Path) -> None:
    for number, rows in enumerate(frames()):
        table = pyhudi.create_table(tmp_path / f"t{number}", rows, record_key="id")
        assert table.schema.names[-2:] == ["id", "n"] and len(table) == 0
    again = pyhudi.create_table(tmp_path / "copy", table, record_key="id")
    assert again.schema.names.count("_hoodie_record_key") == 1


def test_an_upsert_into_a_table_takes_the_table(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", ROWS, record_key="id")
    assert pyhudi.upsert(table, ROWS).inserted == 2
    assert pyhudi.upsert(table, ROWS, dry_run=True).updated == 2


def test_a_path_without_a_table_needs_a_record_key(tmp_path: Path) -> None:
    with pytest.raises(
        TableNotFoundError, match=r"; upsert\(\.\.\., record_key=\.\.\.\) creates it"
    ):
        pyhudi.upsert(tmp_path / "t", ROWS)
    with pytest.raises(TableNotFoundError):
        pyhudi.upsert(tmp_path / "t", ROWS, record_key="id", dry_run=True)
    assert not (tmp_path / "t").exists()


def test_a_read_takes_the_arguments_of_a_scan(tmp_path: Path) -> None:
    pyhudi.upsert(tmp_path / "t", ROWS, record_key="id")
    assert pyhudi.read(tmp_path / "t", ["n"], "id = 'b'").to_arrow().to_pylist() == [{"n": 2}]
    assert "_hoodie_record_key" in pyhudi.read(tmp_path / "t", with_meta=True).schema.names


def test_the_package_of_this_name_stays_importable() -> None:
    code = (
        "import pyhudi.read.scan as module, pyhudi; from pyhudi.read import scan_plan;"
        "assert module.Scan is pyhudi.Scan is pyhudi.read.scan.Scan and callable(pyhudi.read)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_home_and_relative_paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    pyhudi.upsert("~/lake/t", ROWS, record_key="id")
    assert pyhudi.read("lake/t").count() == pyhudi.read(tmp_path / "lake" / "t").count() == 2
    assert pyhudi.open_table("~/lake/t").config.name == "t"


def test_a_folder_of_other_files_is_refused_unless_requested(tmp_path: Path) -> None:
    (tmp_path / "part-0.parquet").write_bytes(b"PAR1")
    for call in (pyhudi.create_table, pyhudi.upsert):
        with pytest.raises(UserError, match=r"holds other files; .*files=part-0\.parquet; choose"):
            call(tmp_path, ROWS, record_key="id")
    assert [each.name for each in tmp_path.iterdir()] == ["part-0.parquet"]
    table = pyhudi.create_table(tmp_path, ROWS, record_key="id", other_files=True)
    with pytest.raises(UserError, match="a table already exists here"):
        pyhudi.create_table(tmp_path, ROWS, record_key="id")
    table.insert(ROWS)
    (tmp_path / "inner" / ".cache").mkdir(parents=True)
    pyhudi.create_table(tmp_path / "inner", ROWS, record_key="id")


@pytest.mark.slow
def test_type_checkers_refuse_unknown_words(tmp_path: Path) -> None:
    program = tmp_path / "program.py"
    good = 'pyhudi.create_table("t", rows, record_key="id", table_type="mor", index="bloom")\n'
    good += 'frame: pandas.DataFrame = pyhudi.read("t", mode="read_optimized").to_pandas()\n'
    bad = 'pyhudi.create_table("t", rows, record_key="id", table_type="mors")\n'
    bad += 'pyhudi.open_table("t").upsert(rows, schema_mode="wide")\npyhudi.open_table("t").upsrt\n'
    program.write_text(f"import pandas, pyarrow\nimport pyhudi\nrows: pyarrow.Table\n{good}{bad}")
    mypy = [sys.executable, "-m", "mypy", "--ignore-missing-imports", "--config-file=",
            f"--cache-dir={tmp_path}"]  # fmt: skip
    done = subprocess.run([*mypy, str(program)], capture_output=True, text=True, check=False)
    found = [line for line in done.stdout.splitlines() if "program.py" in line]
    assert len(found) == 3, done.stdout + done.stderr
    assert "mors" in found[0] and "wide" in found[1] and "upsrt" in found[2]

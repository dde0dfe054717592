"""`pyhudi top` and `pyhudi report` as a user calls them."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.cli.app import run

ROWS = pa.table({"id": ["a", "b"], "v": [1, 2]})


@pytest.fixture
def table(tmp_path: Path) -> pyhudi.Table:
    made = pyhudi.create_table(tmp_path / "t", ROWS.schema, record_key="id")
    made.insert(ROWS)
    return made


def printed(words: list[str], capsys: pytest.CaptureFixture[str]) -> str:
    with pytest.raises(SystemExit) as ended:
        run(words)
    output = capsys.readouterr()
    assert ended.value.code == 0, output.err
    return output.out


def test_top_prints_a_line_for_each_view(
    table: pyhudi.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["top", str(tmp_path / "t"), "--count", "2", "--interval", "0.01"]
    lines = printed(words, capsys).splitlines()
    assert len(lines) == 2
    assert all("1 file groups" in line and "2 rows changed" in line for line in lines)


def test_top_prints_a_document_for_each_view(
    table: pyhudi.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    words = ["top", str(tmp_path / "t"), "--count", "2", "--interval", "0.01", "--json"]
    views = [json.loads(line) for line in printed(words, capsys).splitlines()]
    assert [view["instants"] for view in views] == [1, 1]
    assert views[0]["bytes"] == sum(s.size_bytes for s in table.file_slices())
    assert [commit["changed_rows"] for commit in views[0]["commits"]] == [2]


def test_report_writes_a_page(
    table: pyhudi.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / "report.html"
    printed(["report", str(tmp_path / "t"), "-o", str(target)], capsys)
    assert target.read_text("utf-8").startswith("<!DOCTYPE html>")


def test_report_of_a_table_that_cannot_be_opened_has_the_findings(
    table: pyhudi.Table, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "t/.hoodie/hoodie.properties").write_bytes(b"")
    target = tmp_path / "report.html"
    printed(["report", str(tmp_path / "t"), "-o", str(target)], capsys)
    assert "Findings, most severe first" in target.read_text("utf-8")

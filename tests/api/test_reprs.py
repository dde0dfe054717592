"""Tables and reports show themselves as small tables, in a console and in a notebook."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi

ROWS = pa.table({"id": ["a", "b"], "city": ["sf", "la"], "fare": [1.5, 2.5], "ts": [1, 1]})


def made(path: Path, kind: Any = "mor", version: int = 9) -> pyhudi.Table:
    table = pyhudi.create_table(
        path, ROWS, record_key="id", partition_by="city", ordering="ts", table_type=kind,
        version=version,
    )  # fmt: skip
    table.insert(ROWS)
    return table


def test_a_table_shows_columns_rows_and_size(tmp_path: Path) -> None:
    table = made(tmp_path / "trips")
    lines = repr(table).splitlines()
    assert lines[0] == "trips: merge-on-read, version 9"
    facts = {line[2:18].strip(): line[18:].strip() for line in lines[1:]}
    assert facts["path"] == str(tmp_path / "trips")
    assert facts["columns"] == "id string, city string, fare double, ts int64"
    assert facts["record key"] == "id" and facts["partitioned by"] == "city"
    assert facts["rows"] == "2" and facts["size"].endswith("in 2 file groups")
    html = table._repr_html_()
    assert all(text in html for text in ("fare double", "merge-on-read", "file groups"))


def test_a_table_with_logs_names_the_call_that_counts(tmp_path: Path) -> None:
    table = made(tmp_path / "trips")
    table.upsert(ROWS)
    assert "rows            table.count() counts them" in repr(table)


def test_a_table_that_is_gone_still_has_a_repr(tmp_path: Path) -> None:
    table = made(tmp_path / "trips")
    for path in sorted((tmp_path / "trips").rglob("*"), reverse=True):
        path.rmdir() if path.is_dir() else path.unlink()
    assert repr(table) == f"Table({str(tmp_path / 'trips')!r})"


REPORTS: dict[str, Callable[[pyhudi.Table], Any]] = {
    "upsert": lambda t: t.upsert(ROWS),
    "dry run": lambda t: t.upsert(ROWS, dry_run=True),
    "compact": lambda t: t.upsert(ROWS) and t.compact(),
    "cluster": lambda t: t.cluster(),
    "clean": lambda t: t.clean(),
    "archive": lambda t: t.archive(),
    "savepoint": lambda t: t.savepoint("now"),
    "rollback": lambda t: t.rollback(t.timeline.commits.last.time, dry_run=True),
    "index": lambda t: t.index.verify(),
    "stats": lambda t: t.index.stats(),
    "rebuild": lambda t: t.index.rebuild(),
    "services": lambda t: t.services.run(dry_run=True),
    "doctor": lambda t: t.doctor(),
    "repair": lambda t: t.repair(dry_run=True),
    "downgrade": lambda t: t.downgrade(to=8, dry_run=True),
}


@pytest.mark.parametrize("name", REPORTS)
def test_a_report_is_a_small_table(name: str, tmp_path: Path) -> None:
    found = REPORTS[name](made(tmp_path / "trips"))
    title, *facts = repr(found).splitlines()
    assert "(" not in title.partition(":")[0], "not the repr of a dataclass"
    assert len(facts) <= 30 and all(len(line) <= 400 for line in facts)
    html = found._repr_html_()
    assert html.startswith("<div") and "<strong>" in html

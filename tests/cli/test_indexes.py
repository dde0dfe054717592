"""Indexes from the command line."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

import pyhudi
from pyhudi.storage.local import LocalFileSystem
from tests.cli.test_commands import answer, run
from tests.support.planted import plant


def test_an_index_is_checked_and_repaired(tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": ["a", "b"], "ts": [1, 1]})
    pyhudi.create_table(path, rows.schema, record_key="id").bulk_insert(rows)
    plant(LocalFileSystem(path), {"c": ("", "nobody-0")}, ["a"])
    checked = run("index", "verify", path, "--json")
    assert checked.returncode == 3 and '"missing": 1' in checked.stdout
    preview = answer("index", "repair", path, "--dry-run")
    assert isinstance(preview, dict) and (preview["put"], preview["ended"], preview["instant"]) == (
        1,
        1,
        None,
    )
    answer("index", "repair", path)
    stats = answer("index", "stats", path)
    assert isinstance(stats, dict) and (stats["entries"], stats["bucket_count"]) == (2, 10)
    done = run("index", "rebuild", path, "--buckets", "3", "--json")
    assert done.returncode == 0 and '"buckets_before": 10' in done.stdout
    assert run("index", "verify", path).returncode == 0


def test_indexes_are_created_listed_and_dropped(tmp_path: Path) -> None:
    path = tmp_path / "t"
    rows = pa.table({"id": ["a", "b"], "ts": [1, 1], "name": ["A", "B"]})
    pyhudi.create_table(path, rows.schema, record_key="id", version=9).bulk_insert(rows)
    made = answer("index", "create", path, "column_stats", "--column", "ts", "--column", "name")
    assert isinstance(made, dict) and made["column"].endswith("_hoodie_record_key,ts,name")
    lowered = answer(
        "index", "create", path, "expression", "--column", "name", "--expression", "lower",
        "--using", "bloom_filters", "--argument", "fpp=0.01", "--name", "low",
    )  # fmt: skip
    assert isinstance(lowered, dict) and lowered["name"] == "expr_index_low"
    listed = answer("index", "list", path)
    assert isinstance(listed, list)
    expected = ["column_stats", "expr_index_low", "record_index"]
    assert [row["name"] for row in listed] == expected
    assert answer("index", "drop", path, "low", "--dry-run") == {
        "dropped": "expr_index_low", "dry_run": True,
    }  # fmt: skip
    answer("index", "drop", path, "low")
    answer("index", "drop", path, "column_stats")
    (left,) = answer("index", "list", path)
    assert left["name"] == "record_index"

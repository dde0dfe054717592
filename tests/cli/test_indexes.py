"""The record index from the command line."""

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
    assert "swap: 2 of 2" in done.stderr
    assert run("index", "verify", path).returncode == 0

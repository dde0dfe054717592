"""Tasks that die and are retried change neither rows nor files."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyhudi
from tests.spark.failing_session import SCANS

ROOT = Path(__file__).parents[2]


def test_failed_tasks_change_nothing(tmp_path: Path) -> None:
    faults = tmp_path / "faults"
    faults.mkdir()
    environment = {
        **os.environ, "PYTHONPATH": str(ROOT), "PYHUDI_TEST_FAULTS": str(faults),
        "PYSPARK_PYTHON": sys.executable,
    }  # fmt: skip
    command = [sys.executable, "-m", "tests.spark.failing_session", str(tmp_path)]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert len(list(faults.glob("killed-*"))) > 3
    lines = [line.removeprefix("READ ") for line in done.stdout.splitlines() if "READ " in line]
    assert len(lines) == 2 * (len(SCANS) + 1)
    for kind, method, scan, found in map(json.loads, lines):
        table = pyhudi.open_table(tmp_path / kind)
        if method == "changes":
            expected = table.changes(table.timeline.commits.instants[0].time, with_meta=False)
        else:
            expected = table.scan(with_meta=False, **scan)
        rows = expected.to_arrow().to_pylist()
        assert found == sorted(repr(tuple(row.values())) for row in rows)
    for kind in ("cow", "mor"):
        check_table(tmp_path / kind)


def check_table(path: Path) -> None:
    """The rows are those of the input, and the folders contain the committed files alone."""
    table = pyhudi.open_table(path)
    stored = {row["id"]: row["n"] for row in table.scan(["id", "n"]).to_arrow().to_pylist()}
    expected = {f"k{n}": n if n < 30 else n + 100 for n in range(70) if n % 10 or n >= 60}
    assert stored == expected and table.count() == len(expected)
    state = table._state()
    commits = [state.log.commit(instant) for instant in state.timeline.commits]
    published = {stat.path for commit in commits for stat in commit.stats}
    files = {
        str(file.relative_to(path))
        for file in path.glob("p*/*")
        if file.suffix != ".crc" and file.name != ".hoodie_partition_metadata"
    }
    assert files == published
    assert not table.timeline.pending and table.index.verify().is_exact
    assert not (path / ".hoodie" / ".temp").exists() or not list((path / ".hoodie/.temp").iterdir())

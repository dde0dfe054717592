"""Tasks that die, are retried, or run twice at once change neither rows nor files."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import pytest

from tests.support.inside import state_of

pytest.importorskip("pyspark")

import pyspark

import pyhudi
from tests.spark.failing_session import SCANS
from tests.support.spark_cluster import spark_cluster

ROOT = Path(__file__).parents[2]


def environment_of(folder: Path) -> dict[str, str]:
    """The environment of a session whose Python tasks die and stall, and leave files there."""
    folder.mkdir()
    return {
        **os.environ, "PYTHONPATH": str(ROOT), "PYHUDI_TEST_FAULTS": str(folder),
        "PYSPARK_PYTHON": sys.executable, "SPARK_HOME": str(Path(pyspark.__file__).parent),
    }  # fmt: skip


def test_failed_tasks_change_nothing(tmp_path: Path) -> None:
    check_session(tmp_path, "local[2,20]", environment_of(tmp_path / "faults"), "mor")
    assert not speculative_tasks(tmp_path / "events")


@pytest.mark.slow
def test_speculative_and_failed_tasks_change_nothing(tmp_path: Path) -> None:
    environment = environment_of(tmp_path / "faults")
    with spark_cluster(tmp_path, environment) as master:
        check_session(tmp_path, master, environment, "cow", "mor")
    assert speculative_tasks(tmp_path / "events") > 3


def check_session(tmp_path: Path, master: str, environment: Mapping[str, str], *kinds: str) -> None:
    """Its reads return the rows of the local engine, and its tables are exact."""
    command = [sys.executable, "-m", "tests.spark.failing_session", str(tmp_path), master, *kinds]
    done = subprocess.run(
        command, cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=600
    )
    assert done.returncode == 0, done.stderr[-4000:]
    assert len(list((tmp_path / "faults").glob("killed-*"))) > 1
    lines = [line.removeprefix("READ ") for line in done.stdout.splitlines() if "READ " in line]
    assert len(lines) == len(kinds) * (len(SCANS) + 1)
    for kind, method, scan, found in map(json.loads, lines):
        table = pyhudi.open_table(tmp_path / kind)
        if method == "changes":
            expected = table.changes(table.timeline.commits.instants[0].time, with_meta=False)
        else:
            expected = table.scan(with_meta=False, **scan)
        rows = expected.to_arrow().to_pylist()
        assert found == sorted(repr(tuple(row.values())) for row in rows)
    for kind in kinds:
        check_table(tmp_path / kind, speculative=not master.startswith("local"))


def speculative_tasks(events: Path) -> int:
    """Second attempts that Spark started while the first ones ran, by its event log."""
    logs = (file.read_text() for file in events.rglob("*") if file.is_file())
    lines = (line for log in logs for line in log.splitlines() if "SparkListenerTaskStart" in line)
    return sum(json.loads(line)["Task Info"]["Speculative"] for line in lines)


def check_table(path: Path, *, speculative: bool) -> None:
    """The rows are those of the input, and the folders contain the committed files alone.

    speculative: attempts may outlive their job.  Such an attempt may leave its marker and another
    copy of a committed file; both have the time of the commit, and change no rows.
    """
    expected = {f"k{n}": n if n < 30 else n + 100 for n in range(70) if n % 10 or n >= 60}
    for listed in ("false", "true"):
        table = pyhudi.open_table(path, options={"hoodie.metadata.enable": listed})
        stored = table.scan(["id", "n"]).to_arrow().to_pylist()
        assert sorted(stored, key=lambda row: row["id"]) == [
            {"id": key, "n": expected[key]} for key in sorted(expected)
        ]
    state = state_of(table)
    commits = [state.log.commit(instant) for instant in state.timeline.commits]
    published = {stat.path for commit in commits for stat in commit.stats}
    files = {
        str(file.relative_to(path))
        for file in path.glob("p*/*")
        if file.suffix != ".crc" and file.name != ".hoodie_partition_metadata"
    }
    assert published <= files
    assert not table.timeline.pending and table.index.verify().is_exact
    left = [file for file in (path / ".hoodie/.temp").rglob("*") if file.is_file()]
    if speculative:
        assert {without_token(name) for name in files} == {without_token(n) for n in published}
        assert all(".marker." in file.name for file in left)
    else:
        assert files == published and not left


def without_token(name: str) -> str:
    """The name of a data file without the part that differs between attempts."""
    return re.sub(r"_\d+-\d+-\d+", "", name)

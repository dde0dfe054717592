"""Apache Hudi reads tables whose ingests were killed: each event once, with a valid index."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from tests.ingest.kill_run import FolderFeed, KillRun, check_by, new_table, versions_of
from tests.ingest.killed_process import SparkDriver
from tests.support.apache_hudi import ApacheHudi

pytestmark = pytest.mark.interop
Started = Callable[[str], ApacheHudi]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_the_table_of_a_killed_process(tmp_path: Path, apache_hudi: Started, version: int) -> None:
    new_table(tmp_path / "t", version=version)
    feed = FolderFeed(tmp_path / "in")
    run = KillRun(feed, tmp_path / "t", 6, 4, 200, max_rows=200, seed=version)
    assert run.run()["kills"] == 4
    for hudi in versions_of(version):
        check_by(apache_hudi(hudi), tmp_path / "t", run.produced)


@pytest.mark.slow
@pytest.mark.parametrize("version", [6, 9])
def test_the_table_of_a_killed_spark_driver(
    tmp_path: Path, apache_hudi: Started, version: int
) -> None:
    new_table(tmp_path / "t", version=version)
    run = KillRun(
        FolderFeed(tmp_path / "in"), tmp_path / "t", 20, 4, 200,
        started=SparkDriver, worker_kills=2, puts=1,
    )  # fmt: skip
    assert run.run()["killed"] == {"driver": 2, "workers": 2}
    for hudi in versions_of(version):
        check_by(apache_hudi(hudi), tmp_path / "t", run.produced)

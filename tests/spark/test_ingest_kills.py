"""`hudi.ingest` whose driver and workers are killed loses and writes nothing twice."""

from __future__ import annotations

from pathlib import Path

import pytest

pytest.importorskip("pyspark")

from tests.ingest.kill_run import FolderFeed, KillRun, new_table
from tests.ingest.killed_process import SparkDriver


@pytest.mark.slow
def test_kills_of_the_driver_and_of_its_workers(tmp_path: Path) -> None:
    """The rows are inserted, so one that is written twice is two rows."""
    new_table(tmp_path / "t")
    run = KillRun(
        FolderFeed(tmp_path / "in"), tmp_path / "t", 12, 4, 100, "insert",
        max_rows=400, started=SparkDriver, worker_kills=2, puts=1, seed=1,
    )  # fmt: skip
    found = run.run()
    assert found["killed"] == {"driver": 2, "workers": 2}
    assert found["events"] >= 1200

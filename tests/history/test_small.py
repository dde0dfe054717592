"""The short forms of `make long-history` and `make long-chaos`."""

from __future__ import annotations

from pathlib import Path

import pytest

from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from tests.history.__main__ import chaos, round_of_threads


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_many_writers_and_services_leave_a_history_without_anomalies(
    kind: TableType, version: int
) -> None:
    verdict = round_of_threads(
        MemoryFileSystem(), kind, seed=1, ops=30, writers=3, keys=40, version=version
    )
    assert not verdict.problems, "\n".join(verdict.problems)
    assert verdict.commits > 10


def test_processes_killed_at_random_lose_nothing_that_was_acknowledged(tmp_path: Path) -> None:
    kind = TableType.MERGE_ON_READ
    verdict = chaos(tmp_path, kind, seed=1, seconds=8, writers=3, pause=2.0)
    assert not verdict.problems, "\n".join(verdict.problems)
    assert verdict.kills > 3 and verdict.commits > 0

"""The metadata table is compacted as often as asked for, whoever writes."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from pyhudi.errors import WriteConflictError
from pyhudi.filenames import HOODIE, METADATA_TABLE
from tests.recovery.test_undo import rows, table_of, values
from tests.services.test_archival import FEW

AFTER = "hoodie.metadata.compact.max.delta.commits"
OPTIMISTIC = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.cleaner.policy.failed.writes": "LAZY",
}


def metadata_instants(path: Path, action: str) -> list[str]:
    own = path / METADATA_TABLE / HOODIE
    found = (each for folder in (own, own / "timeline") for each in folder.glob(f"*.{action}"))
    return sorted(each.name.partition(".")[0] for each in found)


@pytest.mark.parametrize("mode", [{}, OPTIMISTIC], ids=["alone", "beside others"])
@pytest.mark.parametrize(("after", "compactions"), [("3", 4), ("30", 0)])
def test_compaction_waits_for_the_requested_number_of_delta_commits(
    tmp_path: Path, mode: dict[str, str], after: str, compactions: int
) -> None:
    table = table_of(tmp_path / "t", **{AFTER: after}, **mode)
    for ts in range(2, 14):
        table.upsert(rows(range(2), ts))
    assert len(metadata_instants(tmp_path / "t", "commit")) == compactions


def test_archival_leaves_the_delta_commits_that_trigger_the_next_compaction(
    tmp_path: Path,
) -> None:
    table = table_of(tmp_path / "t", **FEW, **{AFTER: "12"})
    compactions = set()
    for ts in range(2, 28):
        table.upsert(rows(range(2), ts))
        table.archive()
        compactions.update(metadata_instants(tmp_path / "t", "commit"))
    assert len(compactions) == 2


def test_the_logs_of_the_metadata_table_are_bounded_while_a_plan_is_pending(
    tmp_path: Path,
) -> None:
    table = table_of(tmp_path / "t", "mor", **{"hoodie.write.table.version": "6"})
    table.upsert(rows(range(4), 2))
    planned = table.schedule_compaction()
    assert planned is not None
    table.upsert(rows(range(4), 3))
    before = values(table)
    own = tmp_path / "t" / ".hoodie" / "metadata" / ".hoodie"
    done = next(own.glob(f"{table.timeline.commits.instants[-1].time}.deltacommit"))
    for number in range(1000):  # what as many commits would have left
        (own / f"{int(planned) + 1 + number}.deltacommit").write_bytes(done.read_bytes())
    time.sleep(1.1)  # until the clock has passed these instants
    with pytest.raises(WriteConflictError, match="stays pending") as refused:
        table.upsert(rows(range(4), 4))
    assert planned in str(refused.value)
    assert values(table) == before
    assert table.compact().instants == (planned,)
    table.upsert(rows(range(4), 5))
    assert set(list(values(table).values())[:4]) <= {1, 5}

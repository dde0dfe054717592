"""Torn writes of `torn.py`, read, named and repaired: a sample, and those around compactions."""

from __future__ import annotations

import re

import pytest

from pyhudi.errors import CorruptFileError, SnapshotExpiredError, UserError
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from tests.crash.torn import Totals, empty_table, opened, rows, run, snapshot

GONE = "a base file that a pending compaction merges is gone"


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
def test_torn_files_are_read_named_and_repaired(kind: TableType, version: int) -> None:
    totals = Totals()
    run(kind, totals, version=version, seed=1, every=150)
    assert totals.cases > 3
    assert not totals.bad, "\n".join(totals.bad)


def planned(version: int) -> tuple[MemoryFileSystem, str]:
    """A table with a planned compaction, and its instant."""
    fs = empty_table(TableType.MERGE_ON_READ, version)
    opened(fs).bulk_insert(rows(range(12), 1))
    opened(fs).upsert(rows(range(6), 2))
    instant = opened(fs).schedule_compaction()
    assert instant is not None
    return fs, instant


def paths(fs: MemoryFileSystem, pattern: str) -> list[str]:
    """The files whose paths match as a whole."""
    below = (full[len(fs.root) + 1 :] for full in fs.store.files)
    return [path for path in below if re.fullmatch(pattern, path)]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_compaction_whose_completed_file_is_lost_after_a_clean_is_completed_again(
    version: int,
) -> None:
    fs, instant = planned(version)
    opened(fs).compact()
    opened(fs).upsert(rows(range(3), 3))
    opened(fs).clean()
    sound = snapshot(fs)
    fs.delete(paths(fs, rf"\.hoodie/(timeline/)?{instant}(_\d+)?\.commit"))
    with pytest.raises(CorruptFileError, match=GONE):
        snapshot(fs)
    with pytest.raises(CorruptFileError, match=GONE):
        opened(fs).compact()
    with pytest.raises((CorruptFileError, UserError)):  # version 6: logs depend on it
        opened(fs).unschedule_compaction(instant)
    with pytest.raises(CorruptFileError, match=GONE):
        opened(fs).upsert(rows(range(3), 4))
    assert "lost-commit" in {problem.code for problem in opened(fs).doctor().problems}
    opened(fs).repair()
    assert snapshot(fs) == sound and not opened(fs).doctor().problems
    opened(fs).upsert(rows(range(12, 14), 4))
    opened(fs).schedule_compaction()
    opened(fs).compact()
    assert snapshot(fs) == {**sound, "k12": 4, "k13": 4}


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_lost_base_file_of_a_planned_compaction_is_repaired_with_loss(version: int) -> None:
    fs, _ = planned(version)
    if version == 6:
        opened(fs).upsert(rows(range(3), 3))  # into logs that name the compaction
    sound = snapshot(fs)
    fs.delete(paths(fs, r"p0/.*\.parquet"))
    with pytest.raises((CorruptFileError, SnapshotExpiredError)):
        snapshot(fs)
    assert any(finding.loses for finding in opened(fs).repair().left)
    assert opened(fs).repair(allow_loss=True).is_healthy
    left = snapshot(fs)
    assert left.items() < sound.items() and {"k1", "k11"} < left.keys()
    opened(fs).upsert(rows(range(12, 14), 4))
    opened(fs).compact()
    assert snapshot(fs) == {**left, "k12": 4, "k13": 4} and not opened(fs).doctor().problems

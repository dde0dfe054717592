"""Behaviour that only a damaged table shows, small enough to be asked for every seeded bug."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

from pyhudi.errors import CorruptFileError, PyhudiError
from pyhudi.storage.local import LocalFileSystem
from pyhudi.table.properties import TableType
from pyhudi.timeline.instant import COMMITS, State
from pyhudi.timeline.plans.rollback import RollbackPlan
from tests.crash.torn import copy_of, opened, rows, snapshot, table
from tests.mutants.seeded import MUTANTS, changed
from tests.support.inside import state_of
from tests.support.logs import kinds_of, small_block


@pytest.fixture(scope="module")
def sound():  # type: ignore[no-untyped-def]
    return table(TableType.MERGE_ON_READ)


def test_a_log_cut_between_its_blocks_is_not_read(sound) -> None:  # type: ignore[no-untyped-def]
    fs = copy_of(sound)
    log = next(file.path for s in opened(fs).file_slices() for file in s.logs)
    fs.replace(log, b"")
    with pytest.raises(CorruptFileError):
        snapshot(fs)


def test_files_and_their_folders_are_synced_before_they_count(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    synced: set[int] = set()
    real = os.fsync

    def fsync(fd: int) -> None:
        synced.add(os.fstat(fd).st_ino)
        real(fd)

    monkeypatch.setattr(os, "fsync", fsync)
    fs = LocalFileSystem(tmp_path)
    fs.create("a/new", b"1")
    assert {(tmp_path / "a").stat().st_ino, (tmp_path / "a" / "new").stat().st_ino} <= synced
    synced.clear()
    fs.replace("a/new", b"2")
    assert {(tmp_path / "a").stat().st_ino, (tmp_path / "a" / "new").stat().st_ino} <= synced


def test_an_empty_commit_is_not_an_empty_commit(sound) -> None:  # type: ignore[no-untyped-def]
    fs = copy_of(sound)
    state = state_of(opened(fs))
    newest = [i for i in state.timeline if i.action in COMMITS and i.state is State.COMPLETED][-1]
    fs.replace(state.log.path(newest), b"")
    with pytest.raises(CorruptFileError):
        state_of(opened(fs)).log.commit(newest)


def test_a_lost_commit_that_others_build_on_is_not_rolled_back(sound) -> None:  # type: ignore[no-untyped-def]
    fs = copy_of(sound)
    state = state_of(opened(fs))
    built_on = {
        stat.previous_instant
        for i in state.timeline.commits
        for stat in state.log.commit(i).stats
        if stat.previous_instant not in (None, i.time)
    }
    lost = next(i for i in reversed(state.timeline.commits.instants)
                if i.time in built_on and i.action.value == "deltacommit")  # fmt: skip
    fs.delete([state.log.path(lost)])
    files = [i.path for i in fs.children("p0")]
    with pytest.raises(PyhudiError) as caught:
        opened(fs).upsert(rows(range(2), 9))
    assert isinstance(caught.value, CorruptFileError)
    assert [i.path for i in fs.children("p0")] == files
    pending = replace(lost, state=State.INFLIGHT, completed_at=None)
    assert pending in opened(fs).timeline.pending.instants


def test_a_rollback_plan_may_name_its_own_files_only() -> None:
    other = "f00dfeed-0000-0000-0000-000000000000-0_0-0-1_20200101000000000.parquet"
    record = {
        "instantToRollback": {"commitTime": "20250101000000000", "action": "commit"},
        "RollbackRequests": [
            {"partitionPath": "p", "fileId": "f", "latestBaseInstant": "20200101000000000",
             "filesToBeDeleted": [f"/t/p/{other}"], "logBlocksToBeDeleted": {}}
        ],
    }  # fmt: skip
    with pytest.raises(CorruptFileError):
        RollbackPlan.from_record(record, path="x")


def test_a_block_whose_two_lengths_differ_is_no_block() -> None:
    data = bytearray(small_block() + small_block(instant="2"))
    data[len(small_block()) - 1] ^= 1
    assert kinds_of(bytes(data)) == ["CORRUPT", "PARQUET"]


def test_every_mutant_fits_the_source_once() -> None:
    root = Path(__file__).parents[2]
    unfit = [m.name for m in MUTANTS if changed((root / m.path).read_text(), m.old, m.new) is None]
    assert not unfit
    assert len(MUTANTS) >= 60

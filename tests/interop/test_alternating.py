"""Services of Apache Hudi on tables of pyhudi and the reverse, in turns: cleaning with its plans
and savepoints, compactions planned by Apache Hudi, rollbacks of each other's commits.

Compactions and clusterings planned here: test_compaction, test_clustering; savepoints, restores and
archives of either side: test_undo; rollbacks of failed writes: test_rollbacks.
"""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.errors import SnapshotExpiredError
from pyhudi.services.cleaning import write_clean_plan
from pyhudi.timeline.instant import Action, State
from tests.interop.test_apache_hudi import SCHEMA, Turns, rows
from tests.support.apache_hudi import ApacheHudi, newest_table_version

pytestmark = [pytest.mark.interop, pytest.mark.slow]

FEW = {
    "hoodie.clean.commits.retained": "2",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
}
RETAIN = {"clean_policy": "KEEP_LATEST_COMMITS", "retain_commits": 2}
NOT_INLINE = {"hoodie.compact.inline": "false", "hoodie.clean.automatic": "false"}


def new_table(path: Path, kind: str, hudis: list[ApacheHudi]) -> pyhudi.Table:
    return pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        version=newest_table_version(hudis), options=FEW,
    )  # fmt: skip


def ours(table: pyhudi.Table, turns: Turns, ids: range, version: int) -> None:
    table.upsert(rows(ids, version))
    turns.put(rows(ids, version))


def theirs(hudi: ApacheHudi, turns: Turns, ids: range, version: int) -> None:
    file = turns.path.with_suffix(".in")
    pq.write_table(rows(ids, version), file)
    hudi.call(
        "write", path=str(turns.path), rows=str(file), operation="upsert", conf=NOT_INLINE
    )  # fmt: skip
    turns.put(rows(ids, version))


def their_clean(hudi: ApacheHudi, path: Path) -> None:
    hudi.call("service", path=str(path), name="clean", args=RETAIN)


def cleans(table: pyhudi.Table) -> list[str]:
    assert not table.timeline.where({Action.CLEAN}, State.REQUESTED, State.INFLIGHT).instants
    return [i.time for i in table.timeline.where({Action.CLEAN}, State.COMPLETED)]


def data_files(path: Path) -> set[str]:
    return {f.name for f in path.glob("p*/*") if f.suffix != ".crc"}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_cleans_of_either_side_alternate(
    tmp_path: Path, kind: str, hudis: list[ApacheHudi]
) -> None:
    path = tmp_path / "t"
    table = new_table(path, kind, hudis)
    turns = Turns(table, path, hudis)
    ours(table, turns, range(40), 1)
    for turn, hudi in enumerate(hudis):
        version = 10 + 20 * turn
        saved = table.savepoint("ours").instant
        retained = dict(turns.expected)
        for step in range(4):
            ours(table, turns, range(step, 40), version + step)
            if kind == "mor":
                table.compact()
        old = table.timeline.commits.instants[-4].time
        before, known = data_files(path), len(cleans(table))
        their_clean(hudi, path)
        assert data_files(path) < before and len(cleans(table)) > known
        turns.agree()
        assert table.scan(as_of=saved).count() == len(retained)  # a savepoint of ours
        table.delete_savepoint(saved)

        at = table.timeline.commits.instants[-1].time
        hudi.call("service", path=str(path), name="savepoint", args={"commit_time": at})
        for step in range(4, 8):
            theirs(hudi, turns, range(step, 40), version + step)
            if kind == "mor":
                hudi.call("service", path=str(path), name="compact")
        before = data_files(path)
        assert table.clean().files and data_files(path) < before
        turns.agree()
        assert table.scan(as_of=at).count() == 40  # a savepoint of theirs
        with pytest.raises(SnapshotExpiredError):
            table.scan(as_of=old).to_arrow()
        hudi.call("service", path=str(path), name="delete_savepoint", args={"instant_time": at})

        for step in range(8, 11):
            ours(table, turns, range(step, 40), version + step)
            if kind == "mor":
                table.compact()
        planned = write_clean_plan(table._state(), table._options)
        assert planned is not None
        before = data_files(path)
        their_clean(hudi, path)  # carries our plan out
        assert planned.time in cleans(table) and data_files(path) < before
        turns.agree()
        theirs(hudi, turns, range(20), version + 15)
        turns.agree()


def test_compactions_planned_by_apache_hudi_are_carried_out_here(
    tmp_path: Path, hudis: list[ApacheHudi]
) -> None:
    path = tmp_path / "t"
    table = new_table(path, "mor", hudis)
    turns = Turns(table, path, hudis)
    ours(table, turns, range(40), 1)
    for turn, hudi in enumerate(hudis):
        version = 10 + 10 * turn
        ours(table, turns, range(30), version)
        theirs(hudi, turns, range(20, 50), version + 1)
        hudi.call("service", path=str(path), name="compact", args={"op": "schedule"})
        planned = table.timeline.where({Action.COMPACTION}, State.REQUESTED).last
        assert planned is not None
        theirs(hudi, turns, range(10), version + 2)  # logs on top of the plan
        ours(table, turns, range(5, 15), version + 3)
        turns.agree()
        assert table.compact().instants == (planned.time,)
        turns.agree()
        theirs(hudi, turns, range(45, 60), version + 4)
        turns.agree()


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_commits_of_the_other_are_rolled_back(
    tmp_path: Path, kind: str, hudis: list[ApacheHudi]
) -> None:
    """1.2.0 cannot roll back a completed commit of a version-6 table; 0.15.0 can."""
    path = tmp_path / "t"
    table = new_table(path, kind, hudis)
    turns = Turns(table, path, hudis)
    ours(table, turns, range(40), 1)
    for turn, hudi in enumerate(hudis):
        version = 10 + 10 * turn
        retained = dict(turns.expected)
        if hudi.version == "0.15.0":
            ours(table, turns, range(30, 60), version)
            newest = table.timeline.commits.instants[-1].time
            hudi.call("service", path=str(path), name="rollback", args={"instant_time": newest})
            turns.expected = dict(retained)
            turns.agree()
        theirs(hudi, turns, range(20, 70), version + 1)
        table.rollback(table.timeline.commits.instants[-1].time)
        turns.expected = dict(retained)
        turns.agree()
        ours(table, turns, range(35, 45), version + 2)
        theirs(hudi, turns, range(40, 48), version + 3)
        turns.agree()

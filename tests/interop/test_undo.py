"""Rollbacks, savepoints, restores and archives of either side, continued by the other."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.interop.test_apache_hudi import SCHEMA, Turns, rows
from tests.support.apache_hudi import ApacheHudi, newest_table_version

pytestmark = [pytest.mark.interop, pytest.mark.slow]

FEW = {
    "hoodie.keep.min.commits": "3",
    "hoodie.keep.max.commits": "4",
    "hoodie.clean.commits.retained": "1",
    "hoodie.table.services.enabled": "false",  # the tests call the verbs
    "hoodie.metadata.record.index.min.filegroup.count": "2",
}


def new_table(path: Path, kind: str, hudis: list[ApacheHudi]) -> pyhudi.Table:
    return pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        version=newest_table_version(hudis), options=FEW,
    )  # fmt: skip


def newest(table: pyhudi.Table) -> str:
    last = table.timeline.commits.last
    assert last is not None
    return last.time


def theirs(hudi: ApacheHudi, path: Path, turns: Turns, ids: range, version: int) -> None:
    batch = rows(ids, version)
    file = path.with_suffix(".in")
    pq.write_table(batch, file)
    hudi.call("write", path=str(path), rows=str(file), operation="upsert")
    turns.put(batch)


def ours(table: pyhudi.Table, turns: Turns, ids: range, version: int) -> None:
    batch = rows(ids, version)
    table.upsert(batch)
    turns.put(batch)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_undone_by_us_continued_by_them(tmp_path: Path, kind: str, hudis: list[ApacheHudi]) -> None:
    path = tmp_path / "t"
    table = new_table(path, kind, hudis)
    turns = Turns(table, path, hudis)
    ours(table, turns, range(40), 1)
    ours(table, turns, range(10), 2)
    table.upsert(rows(range(5, 50), 3))
    table.rollback(newest(table))
    turns.agree()
    for turn, hudi in enumerate(hudis):
        version = 10 + 10 * turn
        saved = table.savepoint("ours").instant
        retained = dict(turns.expected)
        ours(table, turns, range(30, 45), version)
        if kind == "mor":
            table.compact()
        theirs(hudi, path, turns, range(20, 55), version + 1)
        ours(table, turns, range(3), version + 2)
        turns.agree()
        table.restore(saved)
        turns.expected = dict(retained)
        turns.agree()
        theirs(hudi, path, turns, range(7), version + 3)
        turns.agree()
        table.delete_savepoint(saved)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_undone_by_them_continued_by_us(tmp_path: Path, kind: str, hudis: list[ApacheHudi]) -> None:
    path = tmp_path / "t"
    table = new_table(path, kind, hudis)
    turns = Turns(table, path, hudis)
    ours(table, turns, range(40), 1)
    for turn, hudi in enumerate(hudis):
        version = 10 + 10 * turn
        ours(table, turns, range(12), version)
        retained = dict(turns.expected)
        at = newest(table)
        hudi.call("service", path=str(path), name="savepoint", args={"commit_time": at})
        assert [s.instant for s in table.savepoints()] == [at]
        ours(table, turns, range(5, 20), version + 1)
        theirs(hudi, path, turns, range(30, 55), version + 2)
        hudi.call("service", path=str(path), name="restore", args={"instant_time": at})
        turns.expected = dict(retained)
        turns.agree()
        ours(table, turns, range(9), version + 3)
        turns.agree()
        retained, before = dict(turns.expected), newest(table)
        theirs(hudi, path, turns, range(60, 64), version + 4)
        if len(table.timeline.commits.after(before)) > 1:  # their write compacted inline
            table.rollback(newest(table))
            turns.agree()
        table.rollback(newest(table))
        assert newest(table) == before
        turns.expected = retained
        turns.agree()
        hudi.call("service", path=str(path), name="delete_savepoint", args={"instant_time": at})
        assert table.savepoints() == []


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_archives_of_either_side_are_read_and_continued(
    tmp_path: Path, kind: str, hudis: list[ApacheHudi]
) -> None:
    path = tmp_path / "t"
    table = new_table(path, kind, hudis)
    turns = Turns(table, path, hudis)
    for version in range(1, 13):
        ours(table, turns, range(version, version + 20), version)
        if kind == "mor" and version % 4 == 0:
            table.compact()
    gone = table.archive()
    assert len(gone.instants) >= 4 and gone.metadata_instants
    turns.agree()
    for turn, hudi in enumerate(hudis):
        version = 20 + 20 * turn
        always = {"limit": 1000, "start_ts": "20200101000000000", "end_ts": "20991231000000000"}
        shown = hudi.call("service", path=str(path), name="show_archived_commits", args=always)
        text = str(shown["results"])
        for instant in table.archived_timeline.commits:
            assert instant.time in text
        for step in range(12):
            ours(table, turns, range(step, step + 10), version + step)
        before = table.archived_timeline.times
        args = {"min_commits": 3, "max_commits": 4, "retain_commits": 1, "enable_metadata": True}
        hudi.call("service", path=str(path), name="archive", args=args)
        assert len(table.archived_timeline.times) > len(before)
        turns.agree()
        theirs(hudi, path, turns, range(8), version + 15)
        ours(table, turns, range(2, 4), version + 16)
        table.archive()
        turns.agree()
    assert table.archived_timeline.times.isdisjoint(table.timeline.commits.times)

"""Compactions by pyhudi and by Apache Hudi of each other's plans, and what both then read."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.interop.test_apache_hudi import SCHEMA, Turns, rows, shared_table
from tests.support.apache_hudi import ApacheHudi, newest_table_version

pytestmark = pytest.mark.interop


@pytest.mark.slow
def test_either_reads_and_continues_what_the_other_compacted(
    tmp_path: Path,
    hudis: list[ApacheHudi],
) -> None:
    path = tmp_path / "t"
    table = shared_table(path, "mor", hudis)
    turns = Turns(table, path, hudis)
    for number in range(3):
        batch = rows(range(number * 5, number * 5 + 40), number)
        turns.put(batch)
        (table.upsert if number else table.bulk_insert)(batch)
    gone = [key for key in turns.expected if key.endswith("3")]
    table.delete(keys=gone)
    turns.drop(gone)
    assert table.compact().log_files > 3
    turns.agree()
    turns.hudi_rs_agrees()
    for turn, hudi in enumerate(hudis):
        version = 10 + 10 * turn
        turns.put(rows(range(30), version))
        table.upsert(rows(range(30), version))
        planned = table.schedule_compaction()
        turns.put(rows(range(10, 35), version + 1))
        table.upsert(rows(range(10, 35), version + 1))
        turns.agree()
        what = {"op": "execute", "instants": planned}
        hudi.call("service", path=str(path), name="compact", args=what)
        assert planned in table.timeline.commits.times
        turns.agree()
        assert table.compact().file_groups > 0
        turns.agree()


@pytest.mark.slow
def test_both_read_and_continue_what_log_compaction_merged(
    tmp_path: Path, hudis: list[ApacheHudi]
) -> None:
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type="mor",
        version=newest_table_version(hudis),
        options={"hoodie.log.compaction.blocks.threshold": "2"},
    )  # fmt: skip
    turns = Turns(table, path, hudis)
    batch = rows(range(40), 5)
    turns.put(batch)
    table.bulk_insert(batch)
    for version in (6, 8):
        turns.put(rows(range(20), version))
        table.upsert(rows(range(20), version))
    table.upsert(rows(range(10), 7))  # too late
    gone = [key for key in turns.expected if key.endswith("3")]
    table.delete(keys=gone)
    turns.drop(gone)
    for turn, hudi in enumerate(hudis):
        version = 10 + 10 * turn
        for later in (version, version + 1):  # Apache Hudi has merged what was there before
            turns.put(rows(range(2), later))
            table.upsert(rows(range(2), later))
        assert table.compact_logs().file_groups > 0
        turns.agree()
        turns.put(rows(range(10, 23), version))  # no deleted keys: 0.15.0 forgets their entries
        file = tmp_path / f"rows{turn}.parquet"
        pq.write_table(rows(range(10, 23), version), file)
        hudi.call("write", path=str(path), rows=str(file), operation="upsert")
        turns.agree()
    assert table.compact().file_groups > 0
    turns.agree()

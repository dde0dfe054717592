"""Clusterings by pyhudi and by Apache Hudi of each other's plans, and what both then read."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

import pyhudi
from tests.interop.test_apache_hudi import SCHEMA, Turns, rows
from tests.support.apache_hudi import ApacheHudi, newest_table_version

pytestmark = pytest.mark.interop

OPTIONS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.clustering.plan.strategy.target.file.max.bytes": "15000",
}


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_either_reads_and_continues_what_the_other_laid_out(
    tmp_path: Path,
    kind: str,
    hudis: list[ApacheHudi],
) -> None:
    path = tmp_path / "t"
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        version=newest_table_version(hudis), options=OPTIONS,
    )  # fmt: skip
    turns = Turns(table, path, hudis)
    for number in range(3):
        batch = rows(range(number * 30, number * 30 + 40), number)
        turns.put(batch)
        table.upsert(batch)
    gone = [key for key in turns.expected if key.endswith("3")]
    table.delete(keys=gone)
    turns.drop(gone)
    report = table.cluster(["qty", "amount"], layout="hilbert")
    assert report.file_groups > 3 and report.new_file_groups > 3
    turns.agree()
    turns.hudi_rs_agrees()
    for turn, hudi in enumerate(hudis):
        version = 10 + 10 * turn
        turns.put(rows(range(30), version))
        table.upsert(rows(range(30), version))
        planned = table.schedule_clustering(["amount"])
        turns.put(rows(range(300 + 20 * turn, 310 + 20 * turn), version))
        table.insert(rows(range(300 + 20 * turn, 310 + 20 * turn), version))
        turns.agree()
        what = {"op": "execute", "instants": planned}
        hudi.call("service", path=str(path), name="cluster", args=what)
        assert planned in table.timeline.commits.times
        turns.agree()
        turns.put(rows(range(40), version + 1))
        table.upsert(rows(range(40), version + 1))
        turns.agree()
        what = {"op": "schedule", "order": "qty,day"}
        hudi.call("service", path=str(path), name="cluster", args=what)
        done = table.cluster()
        assert done.file_groups > 0 and done.sort_by == ("qty", "day")
        turns.agree()
        file = tmp_path / f"batch-{turn}.parquet"
        pq.write_table(rows(range(20, 50), version + 2), file)
        hudi.call("write", path=str(path), rows=str(file), operation="upsert")
        turns.put(rows(range(20, 50), version + 2))
        turns.agree()

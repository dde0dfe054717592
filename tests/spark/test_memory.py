"""The driver's share of a write does not grow with the batch."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import pyhudi.spark as hudi
from pyhudi.write.input.batch import in_bounded_batches


def test_rows_never_come_to_the_driver(
    spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Pickled values returned by the tasks of an upsert, for ten times the rows: as many bytes."""
    sizes: dict[int, int] = {}
    loads = pickle.loads

    def weighed(body: bytes) -> Any:
        sizes[count] += len(body)
        return loads(body)

    monkeypatch.setattr("pyhudi.spark.job_submission.pickle.loads", weighed)
    before = pa.total_allocated_bytes()
    for count in (2_000, 20_000):
        sizes[count] = 0
        rows = spark.range(0, count, 1, 2).selectExpr(
            "cast(id as string) as id", "id % 3 as part", "repeat('x', 100) as filler"
        )
        report = hudi.upsert(rows, tmp_path / str(count), record_key="id", partition_by="part")
        assert report.inserted == count
    assert sizes[20_000] < 1.2 * sizes[2_000] < 100_000
    assert pa.total_allocated_bytes() - before < 1 << 20


def test_what_a_task_holds_is_bounded_by_rows_and_bytes() -> None:
    batch = pa.record_batch({"x": pa.array(range(100), pa.int64())})
    tables = list(in_bounded_batches(iter([batch] * 10), rows_max=250))
    assert [table.num_rows for table in tables] == [300, 300, 300, 100]
    assert all(table.column("x").num_chunks == 1 for table in tables)
    assert len(list(in_bounded_batches(iter([batch] * 10), bytes_max=1000))) == 5
    assert list(in_bounded_batches(iter([batch.slice(0, 0)]))) == []

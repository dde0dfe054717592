"""What a new process of a Spark worker imports before it reads its first slice."""

from __future__ import annotations

import pickle
import subprocess
import sys
from importlib import import_module
from pathlib import Path

import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi

PLANNING = (
    "pyhudi.api", "pyhudi.operations", "pyhudi.services", "pyhudi.write", "pyhudi.metadata",
    "pyhudi.health", "pyhudi.read.scan_plan", "pyhudi.spark.table", "pandas", "pyarrow.dataset",
    "sqlglot",
)  # fmt: skip


@pytest.mark.parametrize(
    "module",
    [
        "spark.worker",
        "spark.slice_tasks",
        pytest.param("spark.source.partition_reads", marks=pytest.mark.pyspark("4.0")),
    ],
)
def test_workers_import_what_reads_and_not_what_plans(module: str) -> None:
    program = f"import sys, pyhudi.{module}; print(*sys.modules)"
    found = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True
    ).stdout.split()
    assert [name for name in PLANNING if name in found] == []


@pytest.mark.pyspark("4.0")
def test_names_are_loaded_on_first_use_and_stay_functions() -> None:
    import_module("pyhudi.spark.source.frame_saves")  # imports the modules of all names

    for name in dir(hudi):
        assert callable(getattr(hudi, name)), name
    with pytest.raises(AttributeError, match=r"pyhudi\.spark"):
        _ = hudi.nothing  # type: ignore[attr-defined]


@pytest.mark.pyspark("4.0")
def test_the_reader_that_workers_get_does_not_plan(tmp_path: Path) -> None:
    import pyarrow as pa
    from pyspark.sql.types import StructType

    from pyhudi.spark.source.batch_reader import TableReader
    from pyhudi.spark.source.partition_reads import PartitionReader
    from pyhudi.spark.source.source_options import read_request

    rows = pa.table({"id": ["a"], "n": [1]})
    pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id").upsert(rows)
    settings = read_request({"path": str(tmp_path / "t")})
    columns = StructType().add("id", "string")
    planner = pickle.dumps(TableReader(settings, columns, None))
    program = "import pickle, sys; pickle.loads(sys.stdin.buffer.read()); print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], input=planner, capture_output=True)
    assert [name for name in PLANNING if name in loaded.stdout.decode().split()] == []
    found = pickle.loads(planner)
    assert type(found) is PartitionReader
    (partition,) = found.partitions()
    assert [batch.to_pylist() for batch in found.read(partition)] == [[{"id": "a"}]]

"""The data source changes a table's columns as Apache Hudi does, and logs it as a warning."""

from __future__ import annotations

import logging
from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.options import Options
from pyhudi.spark.source.save_attempts import logged
from pyhudi.spark.source.save_mode import Receiver
from pyhudi.storage.local import LocalFileSystem
from pyhudi.write.input.batch import TableRows


def test_new_columns_and_wider_types_are_written_and_logged(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rows = pa.table({"id": ["a"], "n": pa.array([1], pa.int32())})
    pyhudi.create_table(tmp_path, rows, record_key="id").insert(rows)
    receiver = Receiver(LocalFileSystem(tmp_path), options=Options(), engine=LocalEngine(1))
    wider = pa.table({"id": ["a"], "n": [2**40], "m": ["x"]})
    with caplog.at_level(logging.WARNING, "pyhudi"):
        logged(receiver.upsert(TableRows(wider)), Options())
    found = [r.message.partition(";")[0] for r in caplog.records if r.name == "pyhudi"]
    assert found == ["column added to the table: m", "column type widened in the table: n"]
    assert pyhudi.read(tmp_path).to_arrow().to_pylist() == [{"id": "a", "n": 2**40, "m": "x"}]

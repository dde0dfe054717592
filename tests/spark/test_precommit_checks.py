"""Queries over the changed table stop a commit of Spark, too."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from pyhudi.errors import CheckFailedError
from tests.operations.test_precommit_checks import ROWS, checks, files


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_failed_check_stops_a_commit_of_spark(spark: Any, tmp_path: Path, kind: str) -> None:
    path = tmp_path / "t"
    pyhudi.create_table(path, ROWS.schema, record_key="id", partition_by="city", table_type=kind)
    pyhudi.open_table(path).insert(ROWS)
    given = checks("SingleResult", "SELECT COUNT(*) FROM <TABLE_NAME> WHERE fare < 0#0")
    table, before = hudi.open_table(spark, path, options=given), files(path)
    schema = "id string, city string, fare double"
    bad = spark.createDataFrame([("a", "x", -1.0), ("d", "x", 4.0)], schema)
    with pytest.raises(CheckFailedError, match=r"expected=0, found=\[\(1,\)\]"):
        table.upsert(bad)
    assert files(path) == before
    assert not pyhudi.open_table(path).timeline.pending
    assert table.upsert(bad.where("fare > 0")).inserted == 1
    assert pyhudi.open_table(path).count() == 4

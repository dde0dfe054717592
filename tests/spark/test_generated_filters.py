"""Random SQL filters on a table select what Spark selects of the same rows without one.

`FILTERS=2000 python -m pytest tests/spark/test_generated_filters.py` is the long form.
"""

from __future__ import annotations

import os
import random
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from tests.support.filter_cases import SCHEMA, Generator, random_rows

FILTERS = int(os.environ.get("FILTERS", "6"))
SEED = int(os.environ.get("SEED", "26"))
OPTIONS = {
    "hoodie.parquet.small.file.limit": "0",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.datasource.write.partitionpath.urlencode": "true",
}


PUSHED = "spark.sql.python.filterPushdown.enabled"


@pytest.fixture(autouse=True)
def pushed(spark: Any) -> Iterator[None]:
    """Spark hands the conditions down, to data sources in Python too."""
    before = spark.conf.get(PUSHED, "false")
    spark.conf.set(PUSHED, "true")
    yield
    spark.conf.set(PUSHED, before)


@pytest.mark.spark
@pytest.mark.pyspark("4.1")
def test_both_readers_select_what_spark_selects_of_the_same_rows(
    spark: Any, tmp_path: Path
) -> None:
    from pyspark.errors import AnalysisException

    chance, generator = random.Random(SEED), Generator(SEED)
    frames = []
    for kind in ("cow", "mor"):
        path = tmp_path / kind
        table = pyhudi.create_table(
            path, SCHEMA, record_key="id", partition_by="p", table_type=kind, version=9,
            options=OPTIONS,
        )  # fmt: skip
        for first in range(0, 60, 20):
            table.insert(random_rows(chance, first, 20))
        table.upsert(random_rows(chance, 10, 20))
        rows = tmp_path / f"{kind}.parquet"
        pq.write_table(table.scan(SCHEMA.names).to_arrow(), rows)
        source = spark.read.format("pyhudi").load(str(path))
        frames.append((spark.read.parquet(str(rows)), (hudi.read(spark, path), source)))
    compared = 0
    for number in range(FILTERS):
        case = generator.case()
        rows, readers = frames[number % 2]
        reader = readers[number // 2 % 2]
        try:
            expected = _ids(rows, case.text)
        except AnalysisException:  # a literal or syntax that Spark lacks
            continue
        assert _ids(reader, case.text) == expected, (number, case.text)
        compared += 1
    assert compared > FILTERS // 3


def _ids(frame: Any, text: str) -> list[int]:
    return sorted(row.id for row in frame.where(text).select("id").collect())

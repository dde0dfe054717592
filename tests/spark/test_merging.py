"""Merge rules on workers: batches folded in files, functions sent along."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyspark")

import pyhudi.spark as hudi
from pyhudi.errors import UnsupportedTableError

DDL = "id string, ts bigint, name string, price double"
KINDS = pytest.mark.parametrize("kind", ["cow", "mor"])


def rows_of(table: Any) -> list[tuple[Any, ...]]:
    frame = table.scan(["id", "ts", "name", "price"])
    return sorted(tuple(row) for row in frame.collect())


@KINDS
@pytest.mark.parametrize("version", [6, 9])
def test_partial_updates_fold_a_batch_and_fill_what_is_stored(
    spark: Any, tmp_path: Path, kind: str, version: int
) -> None:
    frame = spark.createDataFrame([("a", 1, "x", 1.0), ("b", 1, "y", 2.0)], DDL)
    options = {"hoodie.datasource.write.payload.class": "PartialUpdateAvroPayload"}
    table = hudi.create_table(
        spark, tmp_path / "t", frame, record_key="id", ordering="ts", table_type=kind,
        options=options, version=version,
    )  # fmt: skip
    assert table.config.version == version
    table.upsert(frame)
    batch = [("a", 3, "z", None), ("a", 2, None, 5.0), ("b", 0, "late", 7.0), ("c", 1, None, 1.0)]
    report = table.upsert(spark.createDataFrame(batch, DDL).repartition(3))
    assert (report.updated, report.inserted, report.duplicates) == (2, 1, 1)
    assert rows_of(table) == [("a", 3, "z", 5.0), ("b", 1, "y", 2.0), ("c", 1, None, 1.0)]
    report = table.upsert(spark.createDataFrame(batch[2:], DDL), skip_unchanged=True)
    assert (report.unchanged, report.instant) == (2, None)


@KINDS
def test_a_function_of_the_session_merges_on_workers(spark: Any, tmp_path: Path, kind: str) -> None:
    def added(old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
        at = new.schema.get_field_index("price")
        return new.set_column(at, new.schema.field(at), pc.add(old["price"], new["price"]))

    frame = spark.createDataFrame([("a", 1, "x", 1.0), ("b", 1, "y", 2.0)], DDL)
    table = hudi.create_table(
        spark, tmp_path / "t", frame, record_key="id", table_type=kind, merge=added
    )
    table.upsert(frame)
    table.upsert(spark.createDataFrame([("a", 2, "z", 10.0)], DDL))
    assert rows_of(table) == [("a", 2, "z", 11.0), ("b", 1, "y", 2.0)]
    with pytest.raises(UnsupportedTableError, match="added"):
        hudi.open_table(spark, tmp_path / "t").upsert(frame)

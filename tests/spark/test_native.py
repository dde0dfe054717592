"""What Spark's own reader reads of a table is what pyhudi reads there."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support.inside import state_of

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from pyhudi.errors import UserError
from pyhudi.spark.parquet_reader import Reader, choose_readers


def natives(table: Any, **scan: Any) -> tuple[int, int]:
    """(slices Spark reads itself, slices) of a scan of a local table."""
    found = table.scan(**scan)
    readers = choose_readers(state_of(table), found.plan, bytes_min=1 << 20).slices
    return sum(r.reader is Reader.SPARK for r in readers), len(readers)


def same_rows(spark: Any, path: Path, columns: list[str] | None = None) -> None:
    """Both readers give the same rows, meta columns included."""
    local = pyhudi.open_table(path).scan(columns).to_arrow()
    frame = hudi.read(spark, path, columns)
    assert frame.columns == local.schema.names
    mine = sorted(map(repr, (tuple(row.values()) for row in local.to_pylist())))
    theirs = sorted(map(repr, map(plain, (tuple(row) for row in frame.collect()))))
    assert theirs == mine


def plain(value: Any) -> Any:
    """A collected value as pyarrow gives it."""
    if hasattr(value, "asDict"):
        return {name: plain(v) for name, v in value.asDict().items()}
    if isinstance(value, tuple):
        return tuple(map(plain, value))
    if isinstance(value, list):
        return [plain(v) for v in value]
    if isinstance(value, dict):
        return [(k, plain(v)) for k, v in value.items()]
    return bytes(value) if isinstance(value, bytearray) else value


ROWS = pa.table(
    {
        "id": [f"k{n}" for n in range(12)],
        "city": ["sf", "n y", "a/b", None, "", "%7B"] * 2,
        "day": pa.array([datetime.date(1500 + 100 * n, 1, 2) for n in range(6)] * 2),
        "n": pa.array(range(12), pa.int32()),
        "wall": pa.array([datetime.datetime(1850, 1, 1, 0, 0, n, 7) for n in range(12)]),
        "cost": pa.array([Decimal(n) / 8 for n in range(12)], pa.decimal128(12, 3)),
        "deep": pa.array([None, {"a": [1, None], "b": {"c": "x"}}] * 6),
    }
)


@pytest.mark.parametrize("style", ["plain", "hive", "encoded"])
def test_partition_values_come_from_the_path(spark: Any, tmp_path: Path, style: str) -> None:
    options = {
        "hoodie.datasource.write.hive_style_partitioning": str(style == "hive").lower(),
        "hoodie.datasource.write.partitionpath.urlencode": str(style == "encoded").lower(),
    }
    rows = ROWS if style == "encoded" else ROWS.filter(pc.field("city") != "a/b")
    table = pyhudi.create_table(
        tmp_path / "t", rows.schema, record_key="id", partition_by=["city"], options=options
    )
    table.upsert(rows)
    slices = len(table.file_slices())
    assert natives(table) == (slices, slices)
    same_rows(spark, tmp_path / "t")
    same_rows(spark, tmp_path / "t", ["n", "city"])
    same_rows(spark, tmp_path / "t", ["city"])


def test_files_of_other_types_are_not_sparks(spark: Any, tmp_path: Path) -> None:
    old = pa.table({"id": ["a"], "part": ["x"], "v": pa.array([1], pa.int32())})
    new = pa.table({"id": ["b"], "part": ["y"], "v": pa.array([1], pa.int32()), "w": ["more"]})
    table = pyhudi.create_table(tmp_path / "t", old.schema, record_key="id", partition_by="part")
    table.upsert(old)
    table.upsert(new, schema_mode="widen")
    assert natives(table) == (2, 2)  # a column that a file lacks is null for both readers
    same_rows(spark, tmp_path / "t")


def test_small_slices_with_logs_are_not_sparks(spark: Any, tmp_path: Path) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", ROWS.schema, record_key="id", partition_by="n", table_type="mor"
    )
    table.upsert(ROWS)
    assert natives(table) == (12, 12)
    assert natives(table, where=pc.field("n") > 3) == (8, 8)
    table.upsert(ROWS.slice(0, 3))
    table.delete(keys=["k3"])
    assert natives(table) == (8, 12)
    assert natives(table, mode="read_optimized") == (12, 12)
    same_rows(spark, tmp_path / "t")
    first = table.timeline.commits.instants[0].time
    frame = hudi.open_table(spark, tmp_path / "t").scan(["id"], as_of=first)
    assert frame.count() == 12


def test_a_filter_is_a_column_or_sql_text(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    table = pyhudi.create_table(tmp_path / "t", ROWS.schema, record_key="id")
    table.upsert(ROWS)
    mine = hudi.open_table(spark, tmp_path / "t")
    for where in (F.col("n") > 3, "n > 3"):
        frame = mine.scan(["id"], where)
        assert frame.columns == ["id"]
        assert frame.count() == table.scan(where="n > 3").count() > 0
        assert "_hoodie_record_key" not in mine.scan(None, where, with_meta=False).columns


def test_updates_and_rows_of_a_table(spark: Any, tmp_path: Path) -> None:
    from pyspark.sql import functions as F

    pyhudi.create_table(tmp_path / "t", ROWS.schema, record_key="id").upsert(ROWS)
    table = hudi.open_table(spark, tmp_path / "t")
    with pytest.raises(UserError, match="cannot change record keys"):
        table.update({"id": "'x'"})
    assert table.update({"n": "n + 100"}, where="n >= 3").updated > 0
    assert table.update({"n": F.col("n") - 1000}, where="n < 3").updated > 0
    found = {row["n"] for row in table.to_arrow().to_pylist()}
    assert found == {n + 100 if n >= 3 else n - 1000 for n in ROWS["n"].to_pylist()}
    assert len(table) == ROWS.num_rows and table.head(2).num_rows == 2


def test_spark_hands_columns_and_filters_down(spark: Any, tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", ROWS.schema, record_key="id")
    table.upsert(ROWS)
    frame = hudi.read(spark, tmp_path / "t").where("n > 5").selectExpr("sum(n)")
    assert frame.first()[0] == sum(range(6, 12))
    plan = frame._jdf.queryExecution().executedPlan().toString()
    assert "ReadSchema: struct<n:int>" in plan
    assert "GreaterThan(n,5)" in plan

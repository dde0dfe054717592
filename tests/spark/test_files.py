"""Frames that are nothing but Parquet files, and everything that is more than that."""

from __future__ import annotations

import datetime
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import pyhudi.spark as hudi
from pyhudi.errors import UserError
from pyhudi.spark import row_staging as rows_module
from pyhudi.spark.parquet_frames import read_row_groups, row_groups
from pyhudi.spark.types import to_arrow

TABLE = pa.table(
    {
        "id": [f"k{n:02d}" for n in range(50)],
        "ts": pa.array(range(50), pa.int64()),
        "day": pa.array([datetime.date(2000, 1, 1 + n % 28) for n in range(50)]),
        "at": pa.array([n * 86_400_000_000 for n in range(50)], pa.timestamp("us", "UTC")),
        "cost": pa.array([n / 8 for n in range(50)]).cast(pa.decimal128(10, 3)),
    }
)


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Fifty rows in two files with a space in their path, of three row groups each."""
    folder = tmp_path_factory.mktemp("plain files")
    pq.write_table(TABLE.slice(0, 30), folder / "a.parquet", row_group_size=10)
    pq.write_table(TABLE.slice(30), folder / "b.parquet", row_group_size=10)
    return folder


def taken(frame: Any, columns: list[str] | None = None, *, rows: int = 15) -> Any:
    return row_groups(frame, to_arrow(frame.schema), columns or frame.columns, rows=rows)


def test_stretches_hold_every_row_once_in_order(spark: Any, folder: Path) -> None:
    stretches = taken(spark.read.parquet(str(folder)))
    assert [(s.groups, s.first_row) for s in stretches] == [((0, 1), 0), ((2,), 20), ((0, 1), 0)]
    batches = [batch for s in stretches for batch in read_row_groups(s, rows=8)]
    assert max(batch.num_rows for batch in batches) <= 8
    assert pa.Table.from_batches(batches) == TABLE
    narrow = taken(spark.read.parquet(str(folder)), ["ts"])
    assert next(read_row_groups(narrow[0], rows=8)).schema.names == ["ts"]


def test_anything_done_to_the_frame_is_sparks_to_do(spark: Any, folder: Path) -> None:
    frame = spark.read.parquet(str(folder))
    assert taken(frame.where("ts > 3")) is None
    assert taken(frame.limit(3)) is None
    assert taken(frame.selectExpr("id", "ts + 1 as ts")) is None
    assert taken(frame.union(frame)) is None
    assert taken(frame.repartition(2)) is None
    assert taken(spark.range(3)) is None


def test_a_cached_frame_is_what_was_cached(spark: Any, folder: Path) -> None:
    frame = spark.read.parquet(str(folder)).cache()
    try:
        assert taken(frame) is None
    finally:
        frame.unpersist(blocking=True)
    assert taken(spark.read.parquet(str(folder))) is not None


@pytest.mark.parametrize(
    "column",
    [
        pa.array([datetime.date(1582, 10, 4)]),
        pa.array([-(10**16)], pa.timestamp("us")),
        pa.array([None], pa.date32()),
        pa.array([[1]]),
        pa.array([{"a": 1}]),
        pa.array([1], pa.int8()),
        pa.array([1], pa.uint32()),
    ],
    ids=lambda column: str(column.type),
)
def test_columns_that_may_read_differently_are_sparks(
    spark: Any, tmp_path: Path, column: pa.Array
) -> None:
    pq.write_table(pa.table({"id": ["a"], "x": column}), tmp_path / "f.parquet")
    frame = spark.read.parquet(str(tmp_path))
    assert taken(frame) is None
    assert taken(frame, ["id"]) is not None


def test_files_of_other_layouts_are_sparks(spark: Any, tmp_path: Path) -> None:
    spark.range(4).selectExpr("id", "id % 2 as part").write.partitionBy("part").parquet(
        str(tmp_path / "parts")
    )
    assert taken(spark.read.parquet(str(tmp_path / "parts"))) is None
    spark.range(4).write.json(str(tmp_path / "json"))
    assert taken(spark.read.json(str(tmp_path / "json"))) is None
    spark.range(4).write.parquet(str(tmp_path / "narrow"))
    assert taken(spark.read.schema("id long, more int").parquet(str(tmp_path / "narrow"))) is None


def test_int96_timestamps_are_sparks(spark: Any, tmp_path: Path) -> None:
    spark.sql("select 'a' as id, timestamp'2020-01-01' as at").write.parquet(str(tmp_path / "f"))
    assert taken(spark.read.parquet(str(tmp_path / "f"))) is None


def test_both_ways_write_the_same_rows(
    spark: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    frame = spark.read.parquet(str(folder))
    direct = hudi.upsert(frame, tmp_path / "direct", record_key="id", ordering="ts")
    monkeypatch.setattr(rows_module, "row_groups", lambda *_, **__: None)
    through = hudi.upsert(frame, tmp_path / "through", record_key="id", ordering="ts")
    assert (direct.inserted, through.inserted) == (50, 50)
    found = [
        hudi.read(spark, tmp_path / name, with_meta=False).orderBy("id").collect()
        for name in ("direct", "through")
    ]
    assert found[0] == found[1] == frame.orderBy("id").collect()


def test_a_bad_row_is_named_by_its_place_in_the_file(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b", None, "d"], "v": [1, 2, 3, 4]})
    pq.write_table(rows, tmp_path / "f.parquet", row_group_size=2)
    with pytest.raises(UserError, match="null or empty") as caught:
        hudi.upsert(spark.read.parquet(str(tmp_path)), tmp_path / "t", record_key="id")
    assert caught.value.facts["row"] == 2

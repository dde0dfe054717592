"""Scans of tables with many partitions and small files."""

from __future__ import annotations

import pickle
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from pyhudi.spark.frames import default_parallelism
from pyhudi.spark.parquet_reader import PlaceInPath, Reader, place_in_path
from pyhudi.spark.slice_tasks import SliceWork, packed_groups, slice_groups

PARTITIONS = 40


def rows(ts: int, *, offset: int = 0) -> pa.Table:
    count = 3 * PARTITIONS
    return pa.table(
        {
            "id": [f"k{number:04d}" for number in range(count)],
            "region": [f"r{number % PARTITIONS}" for number in range(count)],
            "year": pa.array([1990 + number % 2 for number in range(count)], pa.int32()),
            "ts": pa.array([ts] * count, pa.int64()),
            "v": pa.array([number + offset for number in range(count)], pa.int64()),
        }
    )


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    folder = tmp_path_factory.mktemp("many")
    for kind in ("cow", "mor"):
        table = pyhudi.create_table(
            folder / kind, rows(1).schema, record_key="id", partition_by=["region", "year"],
            ordering="ts", table_type=kind,
        )  # fmt: skip
        table.upsert(rows(1))
        table.upsert(rows(2, offset=1000).slice(0, 60))
    return {kind: folder / kind for kind in ("cow", "mor")}


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("bytes_min", ["0", "999999999"])
def test_rows_and_partition_columns_are_those_of_the_local_engine(
    spark: Any, tables: dict[str, Path], kind: str, bytes_min: str
) -> None:
    spark.conf.set("spark.pyhudi.read.logs.minBytes", bytes_min)
    try:
        frame = hudi.read(spark, tables[kind])
        local = pyhudi.open_table(tables[kind]).scan().to_arrow()
        assert frame.columns == local.column_names
        found = sorted(tuple(row) for row in frame.collect())
        assert found == sorted(tuple(row.values()) for row in local.to_pylist())
        some = hudi.read(spark, tables[kind], where="region = 'r3' and year = 1991")
        assert some.select("v").count() == 3
    finally:
        spark.conf.unset("spark.pyhudi.read.logs.minBytes")


def test_slices_in_more_partitions_than_a_plan_lists_are_read_by_spark(
    spark: Any, tables: dict[str, Path], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.spark.parquet_reader._PARTITIONS_MAX", 5)
    plan = hudi.open_table(spark, tables["cow"]).explain()
    assert {chosen.reader for chosen in plan.readers} == {Reader.SPARK}


def test_small_slices_share_tasks_of_like_size(tables: dict[str, Path]) -> None:
    plan = pyhudi.open_table(tables["mor"]).scan().plan
    work = [SliceWork(task) for task in plan.tasks]
    assert len(work) == PARTITIONS
    groups = slice_groups(work, parallelism=4)
    assert [len(group) for group in groups] == [10] * 4
    opened = [item for part in packed_groups(groups, pickle) for item in _opened(part)]
    paths = {item.task.slice.base.path for item in opened}
    assert paths == {task.slice.base.path for task in plan.tasks if task.slice.base}
    two = slice_groups(work[:2], parallelism=4)  # the larger one first: sizes vary by some bytes
    assert two in ([work[:1], work[1:2]], [work[1:2], work[:1]])
    assert slice_groups([], parallelism=4) == []


def test_large_slices_have_more_tasks_than_run_at_once(tables: dict[str, Path]) -> None:
    task = pyhudi.open_table(tables["cow"]).scan().plan.tasks[0]
    base = task.slice.base
    assert base is not None
    large = replace(task, slice=replace(task.slice, base=replace(base, size_bytes=300 << 20)))
    assert len(slice_groups([SliceWork(large)] * 7, parallelism=2)) == 7
    assert len(slice_groups([SliceWork(large)] * 500, parallelism=2)) == 64


def _opened(part: bytes) -> list[SliceWork]:
    import zlib

    found: list[SliceWork] = pickle.loads(zlib.decompress(part))
    return found


@pytest.mark.parametrize(
    ("values", "place"),
    [
        ({"a": "a", "b c": "b c"}, PlaceInPath(None, 0, has_nulls=False)),
        ({"p=a": "a", "p=b": "b"}, PlaceInPath(None, 2, has_nulls=False)),
        ({"x/a": "a", "y/b": "b"}, PlaceInPath(1, 0, has_nulls=False)),
        ({"q=x/p=a": "a", "q=y/p=": ""}, PlaceInPath(1, 2, has_nulls=False)),
        ({"a": "a", "__HIVE_DEFAULT_PARTITION__": None}, PlaceInPath(None, 0, has_nulls=True)),
        ({"a%2Fb": "a/b"}, None),
        ({"a/b": "a/b"}, None),
        ({"a": "a", "b/c": "b/c"}, None),
    ],
)
def test_a_value_is_taken_from_where_all_paths_have_it(
    values: dict[str, str | None], place: PlaceInPath | None
) -> None:
    scalars = {path: pa.scalar(value, pa.string()) for path, value in values.items()}
    assert place_in_path("p", scalars) == place


def test_only_whole_numbers_and_strings_are_cast(spark: Any) -> None:
    assert place_in_path("p", {"007": pa.scalar(7)}) is None
    assert place_in_path("p", {"7": pa.scalar(7)}) == PlaceInPath(None, 0, has_nulls=False)
    assert place_in_path("p", {"true": pa.scalar(True)}) is None


def test_tasks_of_one_machine_are_as_many_as_its_cores(spark: Any) -> None:
    assert spark.sparkContext.master.startswith("local[")
    assert default_parallelism(spark) == int(spark.sparkContext.master[6:-1].split(",")[0])

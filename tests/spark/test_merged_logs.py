"""Merged logs that are stored for later queries of an application."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from pyhudi.errors import OptionError
from pyhudi.spark.merged_logs import BYTES_MAX, FOLDER, MergedLogs, merged_logs
from pyhudi.spark.scan import BYTES_MIN

KEYS = [f"k{number:03d}" for number in range(200)]


@pytest.fixture(autouse=True)
def every_size(spark: Any) -> Iterator[None]:
    """Spark reads base files with logs of any size."""
    spark.conf.set(BYTES_MIN, "0")
    yield
    for name in (BYTES_MIN, BYTES_MAX, FOLDER):
        spark.conf.unset(name)


def rows_of(keys: list[str], number: int) -> pa.Table:
    parts = ["even" if int(key[1:]) % 2 == 0 else "odd" for key in keys]
    return pa.table(
        {"id": keys, "part": parts, "n": [number] * len(keys), "x": [number / 3] * len(keys)}
    )


def made(path: Path) -> pyhudi.Table:
    """A table with logs in both of its file slices."""
    rows = rows_of(KEYS, 1)
    table = pyhudi.create_table(
        path, rows.schema, record_key="id", partition_by="part", table_type="mor"
    )
    table.bulk_insert(rows)
    table.upsert(rows_of(KEYS[:50], 2))
    return table


def files_of(spark: Any) -> set[str]:
    store = merged_logs(spark)
    assert store is not None
    return set(store.fs.names(""))


def total(frame: Any) -> int:
    found: int = frame.selectExpr("sum(n)").first()[0]
    return found


def plan_of(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_later_scans_read_stored_rows_with_sparks_reader(spark: Any, tmp_path: Path) -> None:
    made(tmp_path / "t")
    before = files_of(spark)
    first = hudi.read(spark, tmp_path / "t")
    new = files_of(spark) - before
    assert len(new) == 4  # rows and replaced rows of two slices
    assert total(first) == 250
    plan = plan_of(first.where("n > 1").select("n"))
    assert "MapInArrow" not in plan and "GreaterThan(n,1)" in plan
    assert "ReadSchema: struct<n:bigint" in plan and "x:double" not in plan
    assert total(hudi.read(spark, tmp_path / "t")) == 250
    assert files_of(spark) - before == new


def test_an_upsert_merges_only_the_slices_that_it_changed(spark: Any, tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    before = files_of(spark)
    old = hudi.read(spark, tmp_path / "t")
    stored = files_of(spark) - before
    table.upsert(rows_of(["k000", "k002"], 5))  # of one partition
    assert total(hudi.read(spark, tmp_path / "t")) == 250 + 3 + 3
    assert len(files_of(spark) - before - stored) == 2
    assert total(old) == 250  # of its snapshot


def test_a_snapshot_of_the_past_does_not_see_later_blocks(spark: Any, tmp_path: Path) -> None:
    table = pyhudi.create_table(
        tmp_path / "t", rows_of(KEYS, 1).schema, record_key="id", table_type="mor", version=6
    )
    sums, times = [], []
    for number in (1, 2, 3):
        table.upsert(rows_of(KEYS[:10], number))
        times.append(table.timeline.commits.instants[-1].time)
        sums.append(number * 10)
    mine = hudi.open_table(spark, tmp_path / "t")
    for _ in range(2):
        assert [total(mine.scan(as_of=time)) for time in times] == sums
        assert total(mine.scan()) == 30
    table.rollback(times[-1])
    assert total(hudi.read(spark, tmp_path / "t")) == 20


def test_scans_of_few_columns_or_rows_store_logs_the_second_time(
    spark: Any, tmp_path: Path
) -> None:
    made(tmp_path / "t")
    mine = hudi.open_table(spark, tmp_path / "t")
    before = files_of(spark)
    narrow = mine.scan(["n"], "n > 1")
    assert files_of(spark) == before and "MapInArrow" in plan_of(narrow)
    assert total(narrow) == 100
    again = mine.scan(["n"], "n > 1")
    assert "MapInArrow" not in plan_of(again)
    assert total(again) == 100
    wider = mine.scan()  # with columns that are not stored yet
    assert (wider.count(), total(wider)) == (200, 250)
    assert sorted(row["x"] for row in wider.collect())[-1] == pytest.approx(2 / 3)


def test_partition_columns_come_from_the_path_of_stored_rows(spark: Any, tmp_path: Path) -> None:
    made(tmp_path / "t")
    frame = hudi.read(spark, tmp_path / "t", ["part", "n", "x", "id"])
    counts = {row["part"]: row["count"] for row in frame.groupBy("part").count().collect()}
    assert counts == {"even": 100, "odd": 100}
    assert frame.where("part = 'odd' and n = 2").count() == 25


def test_stored_bounds_do_not_hide_nan(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": KEYS, "x": [1.0] * len(KEYS)})
    table = pyhudi.create_table(tmp_path / "t", rows.schema, record_key="id", table_type="mor")
    table.bulk_insert(rows)
    table.upsert(pa.table({"id": ["k000", "k001"], "x": [float("nan"), 2.0]}))
    frame = hudi.read(spark, tmp_path / "t")
    assert frame.where("x > 5").count() == 1


def test_files_of_no_plan_are_deleted_when_room_is_needed(spark: Any, tmp_path: Path) -> None:
    store = MergedLogs(merged_logs(spark).fs.sub("bounded"), is_removed=True)
    kept, gone = made(tmp_path / "kept"), made(tmp_path / "gone")
    third = made(tmp_path / "third")
    with_store(spark, store)
    try:
        frame = hudi.read(spark, kept.path)
        derived = frame.where("n > 1").groupBy("part").count()
        del frame
        used = set(store.fs.names(""))
        ended = hudi.read(spark, gone.path)
        assert total(ended) == 250
        both = set(store.fs.names(""))
        assert len(both) == len(used) + 4
        del ended
        wait_until(lambda: is_collected(spark, store, 1))
        room = 2 * log_bytes(third)
        spark.conf.set(BYTES_MAX, str(size_of(store, used) + room))
        new = hudi.read(spark, third.path)
        left = set(store.fs.names(""))
        assert used <= left and not (both - used) & left
        assert total(new) == 250 and "MapInArrow" not in plan_of(new)
        assert sum(row["count"] for row in derived.collect()) == 50
        spark.conf.set(BYTES_MAX, "1")  # no room, as both plans exist
        fourth = hudi.read(spark, made(tmp_path / "fourth").path)
        assert "MapInArrow" in plan_of(fourth) and total(fourth) == 250
        assert set(store.fs.names("")) == left
    finally:
        with_store(spark, None)


def log_bytes(table: pyhudi.Table) -> int:
    return sum(file_slice.log_bytes for file_slice in table.file_slices())


def size_of(store: MergedLogs, names: set[str]) -> int:
    return sum(entry.size_bytes for entry in store.fs.children("") if entry.name in names)


def is_collected(spark: Any, store: MergedLogs, plans: int) -> bool:
    """Whether all but some plans of a store are deleted.  Spark keeps the last one a while."""
    spark.range(10).count()
    gc.collect()
    spark._jvm.java.lang.System.gc()
    return sum(plan[0].get() is not None for plan in store._plans) == plans


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < deadline
        time.sleep(0.2)


def with_store(spark: Any, store: MergedLogs | None) -> None:
    """Let the application use a store of its own; None for a new one of its folder."""
    from pyhudi.spark import merged_logs as module

    name = spark.sparkContext.applicationId, None
    module._known.pop(name, None)
    if store is not None:
        module._known[name] = store


def test_logs_that_cannot_be_written_are_merged_by_the_query(spark: Any, tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    (tmp_path / "file").write_text("no folder")
    spark.conf.set(FOLDER, str(tmp_path / "file"))
    frame = hudi.read(spark, table.path)
    assert "MapInArrow" in plan_of(frame) and total(frame) == 250


def test_the_bound_zero_stores_nothing(spark: Any, tmp_path: Path) -> None:
    table = made(tmp_path / "t")
    before = files_of(spark)
    spark.conf.set(BYTES_MAX, "0")
    frame = hudi.read(spark, table.path)
    assert "MapInArrow" in plan_of(frame) and total(frame) == 250
    spark.conf.set(BYTES_MAX, "4 GB")
    with pytest.raises(OptionError, match=r"not a number of bytes.*spark\.pyhudi\.read\.logs"):
        hudi.read(spark, table.path)
    spark.conf.unset(BYTES_MAX)
    assert files_of(spark) == before


ENDING = """
import sys
from pathlib import Path
from pyspark.sql import SparkSession
import pyhudi.spark as hudi
from pyhudi.spark.merged_logs import FOLDER, merged_logs

table, folder = sys.argv[1:]

def session(stored):
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.pyhudi.read.logs.minBytes", "0").getOrCreate()
    if stored:
        spark.conf.set(FOLDER, stored)
    assert hudi.read(spark, table).selectExpr("sum(n)").first()[0] == 250
    place = Path(merged_logs(spark).fs.url)
    assert len(list(place.iterdir())) == 4, place
    return spark, place

spark, place = session(None)
spark.stop()
assert not place.exists(), place
spark, other = session(folder)
assert other.parent == Path(folder), other
print("stored in", other)
"""


def test_the_files_end_with_their_session(tmp_path: Path) -> None:
    """Those of the application's folder at `stop`, those of a configured folder with the JVM."""
    made(tmp_path / "t")
    folder = tmp_path / "shared"
    folder.mkdir()
    ended = subprocess.run(
        [sys.executable, "-c", ENDING, str(tmp_path / "t"), str(folder)],
        env={**os.environ, "PYSPARK_PYTHON": sys.executable}, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert ended.returncode == 0, ended.stderr
    assert "stored in" in ended.stdout
    wait_until(lambda: not list(folder.iterdir()))

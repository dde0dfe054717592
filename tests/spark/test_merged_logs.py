"""Merged logs that are stored for later queries of an application."""

from __future__ import annotations

import gc
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from datetime import date
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from pyhudi.errors import CorruptFileError, OptionError
from pyhudi.spark.frames import collected
from pyhudi.spark.merged_logs import BYTES_MAX, FOLDER, MergedLogs, merged_logs
from pyhudi.spark.scan import BYTES_MIN
from pyhudi.storage.local import LocalFileSystem
from tests.spark.test_native_logs import sorted_rows

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
    return stored_in(store)


def stored_in(store: MergedLogs) -> set[str]:
    """Paths of the stored files."""
    root = Path(store.fs.url)
    return {str(path.relative_to(root)) for path in root.rglob("*.parquet")}


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
    first, gone = made(tmp_path / "first"), made(tmp_path / "gone")
    third = made(tmp_path / "third")
    with_store(spark, store)
    try:
        frame = hudi.read(spark, first.path)
        derived = frame.where("n > 1").groupBy("part").count()
        del frame
        used = stored_in(store)
        ended = hudi.read(spark, gone.path)
        assert total(ended) == 250
        both = stored_in(store)
        assert len(both) == len(used) + 4
        del ended
        wait_until(lambda: is_collected(spark, store, 1))
        room = 2 * log_bytes(third)
        spark.conf.set(BYTES_MAX, str(size_of(store, used) + room))
        new = hudi.read(spark, third.path)
        left = stored_in(store)
        assert used <= left and not (both - used) & left
        assert total(new) == 250 and "MapInArrow" not in plan_of(new)
        assert sum(row["count"] for row in derived.collect()) == 50
        spark.conf.set(BYTES_MAX, "1")  # no room, as both plans exist
        fourth = hudi.read(spark, made(tmp_path / "fourth").path)
        assert "MapInArrow" in plan_of(fourth) and total(fourth) == 250
        assert stored_in(store) == left
    finally:
        with_store(spark, None)


def log_bytes(table: pyhudi.Table) -> int:
    return sum(file_slice.log_bytes for file_slice in table.file_slices())


def size_of(store: MergedLogs, names: set[str]) -> int:
    return sum(store.fs.size(name) for name in names)


def is_collected(spark: Any, store: MergedLogs, plans: int) -> bool:
    """Whether all but some plans of a store are deleted.  Spark keeps the last one a while."""
    spark.range(10).count()
    gc.collect()
    spark._jvm.java.lang.System.gc()
    return sum(plan[0].get() is not None for plan in store._plans) == plans


def wait_until(condition: Callable[[], bool]) -> None:
    deadline = time.monotonic() + 180
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


def test_logs_that_cannot_be_written_are_merged_by_the_query(
    spark: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    table = made(tmp_path / "t")
    (tmp_path / "file").write_text("no folder")
    spark.conf.set(FOLDER, str(tmp_path / "file"))
    caplog.set_level("WARNING", "pyhudi")
    for _ in range(2):
        frame = hudi.read(spark, table.path)
        assert "MapInArrow" in plan_of(frame) and total(frame) == 250
    assert caplog.text.count("merged logs are not stored") == 1


def test_the_first_rows_and_an_update_merge_no_logs_for_later(spark: Any, tmp_path: Path) -> None:
    before = files_of(spark)
    mine = hudi.open_table(spark, made(tmp_path / "t").path)
    assert mine.head(3).num_rows == 3
    assert mine.update({"n": 9}, where="id in ('k000', 'k199')").updated == 2
    assert files_of(spark) == before
    assert total(mine.scan()) == 250 + 7 + 8


def test_an_application_that_encrypts_its_files_stores_none(spark: Any, tmp_path: Path) -> None:
    before = files_of(spark)
    encrypting = spark.newSession()
    encrypting._jsparkSession.sessionState().conf().setConfString(
        "spark.io.encryption.enabled", "true"
    )
    encrypting.conf.set(BYTES_MIN, "0")
    assert merged_logs(encrypting) is None
    frame = hudi.read(encrypting, made(tmp_path / "t").path)
    assert "MapInArrow" in plan_of(frame) and total(frame) == 250
    assert files_of(spark) == before


def test_a_failed_merge_leaves_no_files(spark: Any, tmp_path: Path) -> None:
    before = files_of(spark)
    table = made(tmp_path / "t")
    (log,) = (tmp_path / "t" / "odd").glob(".*.log.*")
    log.write_bytes(log.read_bytes()[:-20])
    with pytest.raises(CorruptFileError):
        hudi.read(spark, table.path)
    assert files_of(spark) == before


def test_what_other_attempts_of_tasks_wrote_is_deleted(spark: Any, tmp_path: Path) -> None:
    store = MergedLogs(LocalFileSystem(str(tmp_path / "stored")), is_removed=True)
    table = made(tmp_path / "t")
    with_store(spark, store)
    try:
        hudi.read(spark, table.path)
        (folder,) = (tmp_path / "stored").iterdir()
        used = stored_in(store)
        (folder / "rows-of-another-attempt.parquet").write_bytes(b"")
        store._keep_only(folder.name, [entry.logs for entry in store._entries])
        assert stored_in(store) == used and len(used) == 4
    finally:
        with_store(spark, None)


def test_a_new_column_is_null_in_rows_of_logs_that_were_stored_before(
    spark: Any, tmp_path: Path
) -> None:
    table = made(tmp_path / "t")
    old = hudi.read(spark, tmp_path / "t")
    wide = rows_of(["k001"], 4).append_column("more", pa.array([7]))
    table.upsert(wide, schema_mode="widen")
    new = hudi.read(spark, tmp_path / "t")
    assert (new.where("more is null").count(), total(new)) == (199, 252)
    assert total(old) == 250 and "more" not in old.columns


def test_a_view_that_no_statement_names_merges_no_logs(spark: Any, tmp_path: Path) -> None:
    one, two = made(tmp_path / "one"), made(tmp_path / "two")
    before = files_of(spark)
    hudi.register_views(spark, {"logs_one": one.path, "logs_two": two.path}, fresh=True)
    hudi.register_views(spark, {"logs_plain": one.path})
    spark.sql("create or replace temporary view logs_over as select sum(n) s from logs_two")
    stored = files_of(spark)
    assert len(stored - before) == 4  # of the statement that names it
    assert spark.sql("select sum(n) from LOGS_ONE").first()[0] == 250
    assert len(files_of(spark) - stored) == 4
    assert "MapInArrow" not in plan_of(spark.table("logs_one"))
    both = files_of(spark)
    two.upsert(rows_of(["k000"], 5))
    one.upsert(rows_of(["k001"], 5))
    assert spark.sql("select s from logs_over").first()[0] == 253  # fresh, but merged by the query
    assert files_of(spark) == both
    assert total(spark.table("logs_two")) == 253
    assert len(files_of(spark) - both) == 2
    assert total(spark.table("logs_plain")) == 250
    for name in ("logs_one", "logs_two", "logs_plain", "logs_over"):
        spark.catalog.dropTempView(name)


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
from pyhudi.spark.frames import collected
from pyhudi.spark.merged_logs import FOLDER, merged_logs

table, folder = sys.argv[1:]

def session(stored):
    builder = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false")
    spark = builder.config("spark.pyhudi.read.logs.minBytes", "0").getOrCreate()
    if stored:
        spark.conf.set(FOLDER, stored)
    assert hudi.read(spark, table).selectExpr("sum(n)").first()[0] == 250
    place = Path(merged_logs(spark).fs.url)
    assert len(list(place.rglob("*.parquet"))) == 4, place
    assert stored or place.stat().st_mode & 0o77 == 0, place
    return spark, place

spark, place = session(None)
spark.stop()
assert not place.exists(), place
spark, other = session(folder)
assert other.parent == Path(folder), other
print("stored in", other)
"""


@pytest.mark.slow
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


# ---- generated tables ---------------------------------------------------------------------------

TYPES: dict[str, tuple[pa.DataType, list[Any]]] = {
    "tiny": (pa.int32(), [-1, 0, 1, 2**31 - 1]),
    "n": (pa.int64(), [-(2**63), 0, 5, 2**53 + 1]),
    "real": (pa.float32(), [0.5, -0.0, float("nan"), float("inf")]),
    "x": (pa.float64(), [0.1, 0.0, float("nan"), -7.25]),
    "flag": (pa.bool_(), [True, False]),
    "day": (pa.date32(), [date(1500, 1, 2), date(2026, 11, 24)]),
    "at": (pa.timestamp("us", "UTC"), [-(10**15), 1_700_000_000_000_001]),
    "wall": (pa.timestamp("us"), [-(10**16), 1_700_000_000_000_007]),
    "cost": (pa.decimal128(12, 3), [Decimal("-1.125"), Decimal("999999999.999")]),
    "raw": (pa.binary(), [b"", b"\x00\xff"]),
    "text": (pa.string(), ["", "ß", "日本"]),
    "deep": (
        pa.struct([("a", pa.list_(pa.int64())), ("b", pa.struct([("c", pa.string())]))]),
        [{"a": [1, None], "b": {"c": "x"}}, {"a": None, "b": None}],
    ),
    "pairs": (pa.map_(pa.string(), pa.int32()), [[("k", 1), ("l", None)], []]),
}
FILTERS = (
    None, None, "tiny > 0", "n = 9007199254740993", "x > 0.05", "not x < 1", "real is null", "flag",
    "day < date '2000-01-01'", "cost >= 0.5", "part = 'b c'", "id < 'k10' or flag", "deep is null",
    "tiny in (0, 1) and x <= 0.1", "ts >= 2",
)  # fmt: skip


def random_rows(chance: random.Random, keys: Sequence[int], schema: pa.Schema) -> pa.Table:
    def value(kind: str, key: int) -> Any:
        known = {"id": f"k{key:02d}", "part": ("a", "b c", "ü")[key % 3], "ts": chance.randrange(4)}
        if kind in known:
            return known[kind]
        values = TYPES[kind][1] if kind in TYPES else [1, 7]
        return chance.choice([None, *values])

    columns = {f.name: pa.array([value(f.name, k) for k in keys], f.type) for f in schema}
    return pa.table(columns, schema=schema)


def random_table(chance: random.Random, path: Path, version: int) -> pyhudi.Table:
    """Upserts, deletes and a new column in logs over a bulk insert; any ordering and log format."""
    chosen = chance.sample(sorted(TYPES), chance.randrange(4, len(TYPES)))
    needed = ["x", "tiny", "n", "real", "flag", "day", "cost", "deep"]  # by filters
    schema = pa.schema(
        [("id", pa.string()), ("part", pa.string()), ("ts", pa.int64())]
        + [(name, TYPES[name][0]) for name in dict.fromkeys((*needed, *chosen))]
    )
    log_format = chance.choice(["parquet", "avro"])
    table = pyhudi.create_table(
        path, schema, record_key="id", partition_by="part", table_type="mor", version=version,
        ordering=chance.choice([None, "ts"]),
        options={"hoodie.logfile.data.block.format": log_format},
    )  # fmt: skip
    table.bulk_insert(random_rows(chance, range(20), schema))
    for step in range(4):
        keys = chance.sample(range(24), chance.randrange(1, 12))
        if step == 2:
            table.delete(keys=[f"k{key:02d}" for key in keys[:4]])
        elif step == 3 and chance.random() < 0.5:
            wide = schema.append(pa.field("more", pa.int32()))
            table.upsert(random_rows(chance, keys, wide), schema_mode="widen")
        else:
            table.upsert(random_rows(chance, keys, schema))
    return table


@pytest.mark.covering(1, most=1)
@pytest.mark.parametrize(("version", "seed"), [(9, 4), (8, 2), (9, 3), (6, 1), (9, 5)])
def test_stored_logs_give_the_rows_of_the_local_engine(
    spark: Any, tmp_path: Path, version: int, seed: int
) -> None:
    chance = random.Random(seed)
    table = random_table(chance, tmp_path / "t", version)
    table = pyhudi.open_table(table.path)
    mine = hudi.open_table(spark, table.path)
    names = table.schema.names
    for turn in range(6):
        columns = None if turn == 0 else chance.sample(names, chance.randrange(1, len(names)))
        where = FILTERS[0] if turn == 0 else chance.choice(FILTERS)
        expected = table.scan(columns, where).to_arrow()
        if chance.random() < 0.5 or turn == 0:
            frames = [mine.scan(columns, where) for _ in range(2)]  # the second time from files
        else:
            frame = mine.scan() if where is None else mine.scan().where(where)
            frames = [frame if columns is None else frame.select([f"`{c}`" for c in columns])]
        for frame in frames:
            found = collected(frame).cast(expected.schema)
            assert sorted_rows(row.values() for row in found.to_pylist()) == sorted_rows(
                row.values() for row in expected.to_pylist()
            ), (columns, where)
        assert "MapInArrow" not in plan_of(frames[-1]), mine.explain(columns, where)


@pytest.mark.slow
def test_the_bench_of_merged_logs_runs() -> None:
    command = [sys.executable, "-m", "bench.merged_logs", "--smoke"]
    ran = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert ran.returncode == 0, ran.stderr[-2000:]

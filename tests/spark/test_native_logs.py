"""Slices with logs: base files by Spark's reader, the rows of the logs by pyhudi."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

pytest.importorskip("pyspark")

from pyspark import TaskContext

import pyhudi
import pyhudi.spark as hudi
from pyhudi.spark.merged_logs import BYTES_MAX
from pyhudi.spark.merged_reader import bitmaps, file_number, salt_for
from pyhudi.spark.parquet_reader import Reader
from pyhudi.spark.scan import BYTES_MIN
from tests.spark.test_native import ROWS, plain
from tests.support.merge_model import RULES, SCHEMA


@pytest.fixture(autouse=True)
def every_size(spark: Any) -> Iterator[None]:
    """Spark reads base files with logs of any size."""
    spark.conf.set(BYTES_MIN, "0")
    yield
    spark.conf.unset(BYTES_MIN)
    spark.conf.unset(BYTES_MAX)


def sorted_rows(rows: Any) -> list[str]:
    return sorted(repr(tuple(row)) for row in rows)


def compare(
    spark: Any, path: Path, *, merge: Any = None, both: int | None = None, **scan: Any
) -> Any:
    """Rows of Spark and of the local engine are equal.  both: slices with two readers."""
    local = pyhudi.open_table(path, merge=merge).scan(**scan).to_arrow()
    table = hudi.open_table(spark, path, merge=merge)
    readers = [chosen.reader for chosen in table.explain(**scan).readers]
    assert both is None or readers.count(Reader.SPARK_AND_LOGS) == both
    frame = table.scan(**scan)
    assert frame.columns == local.schema.names
    found = sorted_rows(map(plain, tuple(row)) for row in frame.collect())
    assert found == sorted_rows(row.values() for row in local.to_pylist())
    return frame


BATCHES: list[Any] = [
    [("a", 3, "x", 1.0), ("b", 3, "y", None), ("c", 3, "z", 2.0), ("d", 3, None, 3.0)],
    [("a", 5, None, 7.0), ("b", 1, "late", 9.0), ("e", 2, "new", None)],
    ["c"],
    [("b", 4, "again", None), ("a", 4, "between", None)],
]


@pytest.mark.parametrize("log_format", ["parquet", "avro"])
@pytest.mark.parametrize("name", RULES)
def test_every_merge_rule_gives_the_rows_of_the_local_engine(
    spark: Any, tmp_path: Path, name: str, log_format: str
) -> None:
    rule = RULES[name]
    options = {**rule.table_options, "hoodie.logfile.data.block.format": log_format}
    version = 6 if name == "debezium mysql" else 9  # whose ordering columns are others at 9
    table = pyhudi.create_table(
        tmp_path / "t", SCHEMA, record_key="id", ordering=rule.ordering or None, table_type="mor",
        options=options, index="bloom", merge=rule.function, version=version,
    )  # fmt: skip
    for batch in BATCHES:
        if isinstance(batch[0], str):
            table.delete(keys=batch)
            continue
        rows = [
            {"id": key, "ts": ts, "lsn": ts, "_event_lsn": ts, "_event_seq": f"1.{ts}",
             "name": text, "price": price}
            for key, ts, text, price in batch
        ]  # fmt: skip
        table.upsert(pa.Table.from_pylist(rows, SCHEMA))
    compare(spark, tmp_path / "t", merge=rule.function, both=1)


def test_partition_columns_nested_types_and_projections(spark: Any, tmp_path: Path) -> None:
    rows = ROWS.filter(pc.field("city") != "a/b")
    table = pyhudi.create_table(
        tmp_path / "t", rows.schema, record_key="id", partition_by="city", table_type="mor"
    )
    table.upsert(rows)
    first = table.timeline.commits.instants[0].time
    table.upsert(rows.slice(0, 3))
    table.delete(keys=rows.column("id").to_pylist()[4:5])
    logged = sum(bool(s.logs) for s in table.file_slices())
    assert logged > 1
    frame = compare(spark, tmp_path / "t", both=logged)
    assert frame.count() == rows.num_rows - 1
    assert frame.where("n > 5").count() == table.scan(where=pc.field("n") > 5).count()
    plan = frame.where("n > 5").selectExpr("sum(n)")._jdf.queryExecution().executedPlan()
    assert "GreaterThan(n,5)" in plan.toString()
    assert "BroadcastHashJoin" in plan.toString()
    compare(spark, tmp_path / "t", both=logged, columns=["n", "city"])
    compare(spark, tmp_path / "t", both=logged, columns=["city"])
    compare(spark, tmp_path / "t", as_of=first)
    compare(spark, tmp_path / "t", both=0, mode="read_optimized")
    compare(spark, tmp_path / "t", where=pc.field("n") > 3)


def test_files_of_other_types_and_slices_without_base_are_pyhudis(
    spark: Any, tmp_path: Path
) -> None:
    old = pa.table({"id": ["a", "b"], "part": ["x"] * 2, "v": pa.array([1, 2], pa.int32())})
    table = pyhudi.create_table(
        tmp_path / "t", old.schema, record_key="id", partition_by="part", table_type="mor"
    )
    table.upsert(old)
    added = old.slice(0, 1).append_column("w", pa.array(["more"]))
    table.upsert(added, schema_mode="add")
    compare(spark, tmp_path / "t", both=1)
    table = pyhudi.create_table(
        tmp_path / "w", old.schema, record_key="id", partition_by="part", table_type="mor"
    )
    table.upsert(old)
    table.upsert(old.slice(0, 1).set_column(2, "v", pa.array([1 << 40])), schema_mode="widen")
    compare(spark, tmp_path / "w", both=0)
    text = str(hudi.open_table(spark, tmp_path / "w").explain())
    assert "read by     pyhudi: 1 slices (column v has another type in the file)" in text


def test_many_rows_of_a_file_are_found_by_their_numbers(spark: Any, tmp_path: Path) -> None:
    count = 50_000
    ids = [f"k{n:06d}" for n in range(count)]
    rows = pa.table({"id": ids, "part": [f"p{n % 2}" for n in range(count)], "n": range(count)})
    table = pyhudi.create_table(
        tmp_path / "t", rows.schema, record_key="id", partition_by="part", table_type="mor"
    )
    table.bulk_insert(rows)
    chosen = np.sort(np.random.default_rng(5).choice(count, 2_000, replace=False))
    update = rows.take(pa.array(chosen))
    table.upsert(update.set_column(2, "n", pc.add(update.column("n"), 1_000_000)))
    table.delete(keys=ids[-3:])
    frame = hudi.read(spark, tmp_path / "t")
    local = pyhudi.open_table(tmp_path / "t").scan().to_arrow()
    found = frame.selectExpr("count(*)", "sum(n)", "count(distinct id)").first()
    assert tuple(found) == (count - 3, pc.sum(local.column("n")).as_py(), count - 3)
    assert "BroadcastHashJoin" in frame._jdf.queryExecution().executedPlan().toString()


def test_an_attempt_that_dies_changes_nothing(spark: Any, tmp_path: Path) -> None:
    folder = str(tmp_path)

    def added(old: pa.RecordBatch, new: pa.RecordBatch) -> pa.RecordBatch:
        died = Path(folder) / "died"
        if TaskContext.get() is not None and not died.exists():
            died.touch()
            os._exit(1)
        at = new.schema.get_field_index("n")
        return new.set_column(at, new.schema.field(at), pc.add(old["n"], new["n"]))

    rows = pa.table({"id": ["a", "b", "c"], "n": [1, 2, 3]})
    table = pyhudi.create_table(
        tmp_path / "t", rows.schema, record_key="id", table_type="mor", merge=added
    )
    table.upsert(rows)
    table.upsert(rows.slice(0, 2))
    frame = compare(spark, tmp_path / "t", merge=added, both=1)
    assert (tmp_path / "died").exists()
    (tmp_path / "died").unlink()
    spark.conf.set(BYTES_MAX, "0")  # the logs are merged by each query
    frame = hudi.open_table(spark, tmp_path / "t", merge=added).scan()
    assert frame.selectExpr("sum(n)").first()[0] == 9
    assert (tmp_path / "died").exists()


def test_bitmaps_of_row_numbers() -> None:
    rows = np.array([0, 63, 64, 16_383, 16_384, 100_000], np.int64)
    found = bitmaps(rows, "f", "")
    numbers, words = found.column(0).to_pylist(), found.column(1).to_pylist()
    assert [n - file_number("f", "") for n in numbers] == [0, 1, 6]
    assert [len(w) for w in words] == [256] * 3
    back = [
        (n - file_number("f", "")) * 16_384 + place * 64 + bit
        for n, w in zip(numbers, words, strict=True)
        for place, word in enumerate(w)
        for bit in range(64)
        if word >> bit & 1
    ]
    assert back == rows.tolist()
    assert salt_for(["a", "b"]) == ""
    assert salt_for(["a", "a"]) is None
    assert salt_for(["a b"]) is None


def test_logs_raise_the_size_from_which_sparks_reader_is_used(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "ts": [1, 1]})
    local = pyhudi.create_table(
        tmp_path / "t", rows.schema, record_key="id", ordering="ts", table_type="mor"
    )
    local.upsert(rows)
    local.upsert(rows.slice(1))
    (task,) = local.scan().plan.tasks
    assert task.slice.log_bytes
    spark.conf.unset(BYTES_MIN)
    (chosen,) = hudi.open_table(spark, tmp_path / "t").explain().readers
    assert chosen.reader is Reader.PYHUDI
    assert f" {16 << 20} bytes" in chosen.reason
    spark.conf.set(BYTES_MAX, "0")
    (chosen,) = hudi.open_table(spark, tmp_path / "t").explain().readers
    assert chosen.reader is Reader.PYHUDI
    assert f" {(64 << 20) + 3 * task.slice.log_bytes} bytes" in chosen.reason


def test_base_files_older_than_the_range_are_not_read(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "ts": [1, 1]})
    local = pyhudi.create_table(
        tmp_path / "t", rows.schema, record_key="id", ordering="ts", table_type="mor"
    )
    local.upsert(rows)
    local.upsert(rows.slice(1))
    since = local.timeline.commits.instants[0].time
    table = hudi.open_table(spark, tmp_path / "t")
    (chosen,) = table.explain(since=since).readers
    assert (chosen.reader, chosen.reason) == (Reader.PYHUDI, "only the logs have rows of the range")
    assert [row["id"] for row in table.changes(since).collect()] == ["b"]
    (chosen,) = table.explain(since="000").readers
    assert chosen.reader is Reader.SPARK_AND_LOGS

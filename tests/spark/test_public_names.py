"""The same operations on Spark and on one machine give the same table."""

from __future__ import annotations

import datetime
import random
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from tests.support.inside import fs_of

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from pyhudi.errors import SchemaError, TableNotFoundError, UserError
from pyhudi.options import Options
from pyhudi.spark.frames import map_arrow
from pyhudi.spark.types import arrow_schema_of, to_spark
from tests.spark import tasks

DDL = "id string, ts bigint, part string, value int, tags array<string>, _hoodie_is_deleted boolean"
KEYS = [f"k{n:03d}" for n in range(120)] + ["ключ", "a:b,c", "\U0001f511"]


def some_rows(seed: int, count: int, ts: int) -> list[tuple[Any, ...]]:
    dice = random.Random(seed)
    return [
        (
            dice.choice(KEYS),
            ts + dice.randrange(4),
            dice.choice("abc"),
            dice.choice([None, dice.randrange(100)]),
            dice.choice([None, [], ["x", None]]),
            dice.random() < 0.1,
        )
        for _ in range(count)
    ]


def as_arrow(rows: list[tuple[Any, ...]], schema: pa.Schema) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(schema.names, row, strict=True)) for row in rows], schema)


def user_rows(table: Any) -> list[dict[str, Any]]:
    """Rows of a pyhudi table or a DataFrame less what differs between two tables."""
    found = table.scan(with_meta=False).to_arrow() if isinstance(table, pyhudi.Table) else table
    return sorted(found.to_pylist(), key=lambda row: row["id"])


def collected(frame: Any) -> list[dict[str, Any]]:
    return sorted((row.asDict(recursive=True) for row in frame.collect()), key=lambda r: r["id"])


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_spark_and_one_machine_write_equal_tables(spark: Any, tmp_path: Path, kind: str) -> None:
    frame = spark.createDataFrame([], DDL)
    schema = arrow_schema_of(frame)
    names = {"record_key": "id", "partition_by": ["part"], "ordering": "ts", "table_type": kind}
    ours = pyhudi.create_table(tmp_path / "local", schema, **names)
    theirs = hudi.create_table(spark, tmp_path / "spark", frame, **names)
    steps = [
        (
            "bulk_insert",
            [(key, 0, "abc"[n % 3], n, None, False) for n, key in enumerate(KEYS[:90])],
        ),
        ("upsert", some_rows(1, 40, 1)),
        ("upsert", some_rows(2, 60, 0)),
        ("upsert", some_rows(3, 5, 3)),
    ]
    for verb, rows in steps:
        # several partitions of a DataFrame, in the order of the rows
        spread = spark.createDataFrame(rows, DDL).coalesce(2)
        mine = getattr(ours, verb)(as_arrow(rows, schema))
        report = getattr(theirs, verb)(spread)
        assert counts(report) == counts(mine)
        local_view = pyhudi.open_table(tmp_path / "spark")
        assert user_rows(local_view) == user_rows(ours)
        assert collected(theirs.scan(with_meta=False)) == user_rows(ours)
    assert theirs.lookup(KEYS).column("found") == ours.lookup(KEYS).column("found")
    assert user_rows(theirs.fetch(KEYS[:5], ["id", "value"])) == user_rows(
        ours.fetch(KEYS[:5], ["id", "value"])
    )
    report = theirs.delete(keys=[KEYS[0], KEYS[1], "absent"])
    mine = ours.delete(keys=[KEYS[0], KEYS[1], "absent"])
    assert counts(report) == counts(mine)
    assert collected(theirs.scan(with_meta=False)) == user_rows(ours)


def counts(report: Any) -> tuple[int, ...]:
    return (
        report.inserted, report.updated, report.deleted, report.unchanged,
        report.missing_keys, report.duplicates, report.matched, report.new,
    )  # fmt: skip


@pytest.fixture(scope="module")
def small(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A table of ten rows in two commits, written by `hudi.upsert`."""
    path = tmp_path_factory.mktemp("small") / "t"
    rows = [(f"k{n}", n, "ab"[n % 2], n * 1.5) for n in range(10)]
    first = spark.createDataFrame(rows[:6], "id string, ts long, part string, v double")
    report = hudi.upsert(first, path, record_key="id", partition_by="part", ordering="ts")
    assert (report.inserted, report.updated) == (6, 0)
    report = hudi.upsert(spark.createDataFrame(rows[4:], first.schema), path)
    assert (report.inserted, report.updated) == (4, 2)
    return path


def test_a_scan_is_a_frame_with_the_tables_columns(spark: Any, small: Path) -> None:
    frame = hudi.read(spark, small)
    assert frame.columns[:5] == list(pyhudi.open_table(small).schema.names[:5])
    assert frame.count() == 10
    narrow = hudi.read(spark, small, ["v", "id"], pc.field("part") == "a")
    assert narrow.columns == ["v", "id"]
    assert {row.id for row in narrow.collect()} == {"k0", "k2", "k4", "k6", "k8"}


def test_changes_and_as_of(spark: Any, small: Path) -> None:
    table = hudi.open_table(spark, small)
    first, second = (instant.time for instant in table.timeline.commits)
    assert {row.id for row in table.changes(first).collect()} == {f"k{n}" for n in range(4, 10)}
    assert table.changes("000").count() == 10
    assert table.scan(as_of=first).count() == 6
    assert table.changes(first, second).count() == 6


def test_a_frame_keeps_its_snapshot(spark: Any, tmp_path: Path) -> None:
    rows = spark.createDataFrame([("a", 1)], "id string, v int")
    hudi.upsert(rows, tmp_path / "t", record_key="id")
    table = hudi.open_table(spark, tmp_path / "t")
    before = table.scan()
    table.upsert(spark.createDataFrame([("b", 2)], rows.schema))
    assert before.count() == 1
    assert table.scan().count() == 2


def test_deletes_by_rows_keys_and_predicate(spark: Any, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(f"k{n}", n) for n in range(10)], "id string, v int")
    hudi.upsert(rows, tmp_path / "t", record_key="id")
    table = hudi.open_table(spark, tmp_path / "t")
    assert table.delete(rows.where("v < 2")).deleted == 2
    assert table.delete(keys=rows.where("v in (1, 2)").select("id")).deleted == 1
    assert table.delete(where=pc.field("v") >= 8).deleted == 2
    assert table.delete(rows.where("v = 3"), dry_run=True).matched == 1
    assert sorted(row.v for row in table.scan().collect()) == [3, 4, 5, 6, 7]
    with pytest.raises(UserError, match="exactly one of"):
        table.delete(rows, keys=["k1"])
    with pytest.raises(SchemaError, match="key columns are missing"):
        table.delete(rows.select("v"))


def test_what_is_refused_changes_nothing(spark: Any, small: Path) -> None:
    table = hudi.open_table(spark, small)
    before = list(table.timeline)
    with pytest.raises(SchemaError, match="missing in the batch"):
        table.upsert(spark.createDataFrame([("a",)], "id string"))
    rows = spark.createDataFrame(
        [("a", 1, "p", 0.5), (None, 1, "p", 0.5)], "id string, ts long, part string, v double"
    )
    with pytest.raises(UserError, match="a record key is null or empty") as caught:
        table.upsert(rows.coalesce(1))
    assert caught.value.facts["row"] == 1
    with pytest.raises(SchemaError, match="not supported by tables"):
        hudi.create_table(spark, small / "x", _interval_schema(), record_key="id")
    with pytest.raises(TableNotFoundError):
        hudi.open_table(spark, small / "nothing")
    with pytest.raises(UserError, match="workers cannot access"):
        hudi.open_table(spark, "memory://t")
    assert list(table.timeline) == before
    assert not list((small / ".hoodie" / ".temp").glob("pyhudi-*"))


def _interval_schema() -> Any:
    from pyspark.sql.types import DayTimeIntervalType, StringType, StructType

    return StructType().add("id", StringType()).add("span", DayTimeIntervalType())


def test_the_frame_is_computed_once(spark: Any, tmp_path: Path) -> None:
    """Rows of a nondeterministic frame are pinned: profile and write see the same ones."""
    seen = tmp_path / "seen"
    seen.mkdir()
    frame = map_arrow(
        spark.range(0, 100, 1, 4).selectExpr("uuid() as id", "id % 3 as part"),
        tasks.counted(str(seen)),
        spark.createDataFrame([], "id string, part long").schema,
    )
    report = hudi.upsert(frame, tmp_path / "t", record_key="id", partition_by="part")
    assert report.inserted == 100
    assert len(list(seen.iterdir())) == 4
    assert hudi.read(spark, tmp_path / "t").count() == 100


def test_every_type_goes_in_and_comes_out(spark: Any, tmp_path: Path) -> None:
    utc = datetime.UTC
    moment = datetime.datetime(2026, 7, 1, 12, 30, 15, 123456)
    values = {
        "id": ("string", "k1"),
        "flag": ("boolean", True),
        "i32": ("int", -5),
        "i64": ("bigint", 1 << 40),
        "f32": ("float", 0.5),
        "f64": ("double", -1e300),
        "dec": ("decimal(20,3)", Decimal("12345678901234567.125")),
        "day": ("date", datetime.date(1969, 12, 31)),
        "at": ("timestamp", moment.replace(tzinfo=utc)),
        "wall": ("timestamp_ntz", moment),
        "text": ("string", "ü\U0001f511"),
        "raw": ("binary", b"\x00\xff"),
        "nest": ("struct<a:int,b:struct<c:string>>", {"a": 1, "b": {"c": "x"}}),
        "list": ("array<array<int>>", [[1, None], []]),
        "map": ("map<string,struct<n:decimal(5,2)>>", {"m": {"n": Decimal("1.25")}}),
        "structs": ("array<struct<at:timestamp>>", [{"at": moment.replace(tzinfo=utc)}]),
    }
    ddl = ", ".join(f"{name} {kind}" for name, (kind, _) in values.items())
    full = tuple(value for _, value in values.values())
    nulls = ("k2", *[None] * (len(values) - 1))
    frame = spark.createDataFrame([full, nulls], ddl)
    path = tmp_path / "t"
    table = hudi.create_table(spark, path, frame.schema, record_key="id", table_type="mor")
    table.bulk_insert(frame)
    table.upsert(frame)  # through a log as well
    got = table.scan(with_meta=False)
    assert got.schema.simpleString() == frame.schema.simpleString()
    assert [plain(row) for row in got.orderBy("id").collect()] == [
        plain(row) for row in frame.orderBy("id").collect()
    ]
    local = pyhudi.open_table(path).scan(with_meta=False).to_arrow().sort_by("id")
    assert to_spark(local.schema).simpleString() == frame.schema.simpleString()
    assert local.slice(0, 1).to_pylist()[0]["at"] == moment.replace(tzinfo=utc)
    assert local.slice(0, 1).to_pylist()[0]["wall"] == moment


def plain(row: Any) -> dict[str, Any]:
    found: dict[str, Any] = row.asDict(recursive=True)
    return found


def test_arrow_rows_go_into_a_table_on_spark(spark: Any, tmp_path: Path) -> None:
    rows = pa.table({"id": ["a", "b"], "v": pa.array([1, None], pa.int32())})
    table = hudi.create_table(spark, tmp_path / "t", rows.schema, record_key="id")
    assert table.upsert(rows).inserted == 2
    assert pa.table(table).num_rows == 2
    assert table.upsert(spark.createDataFrame([], "id string, v int")).instant is None


def test_narrow_integers_and_new_columns(spark: Any, tmp_path: Path) -> None:
    first = spark.createDataFrame([("a", 1)], "id string, v bigint")
    hudi.upsert(first, tmp_path / "t", record_key="id")
    second = spark.createDataFrame([("b", 2, "x")], "id string, v smallint, w string")
    report = hudi.upsert(second, tmp_path / "t", schema_mode="widen")
    assert report.added_columns == ("w",)
    rows = hudi.read(spark, tmp_path / "t", ["id", "v", "w"]).orderBy("id").collect()
    assert [tuple(row) for row in rows] == [("a", 1, None), ("b", 2, "x")]


class Overtaken(hudi.SparkTable):
    """A table whose next write begins after another writer's."""

    def _write(self, *given: Any, **more: Any) -> Any:
        later = pa.table({"id": ["k8"], "v": pa.array([1], pa.int32())})
        pyhudi.open_table(self._fs.url).upsert(later)
        return super()._write(*given, **more)


def test_rows_that_match_no_more_when_the_delete_begins_stay(spark: Any, tmp_path: Path) -> None:
    rows = spark.createDataFrame([(f"k{n}", n) for n in range(10)], "id string, v int")
    hudi.upsert(rows, tmp_path / "t", record_key="id")
    fs = fs_of(hudi.open_table(spark, tmp_path / "t"))
    table = Overtaken(spark, fs, options=Options())
    assert table.delete(where=pc.field("v") >= 8).deleted == 1
    assert {row.id for row in table.scan().collect()} == {f"k{n}" for n in range(9)}


def test_keys_are_named_alike_on_spark(spark: Any, tmp_path: Path) -> None:
    schema = pa.schema([("id", pa.int64()), ("v", pa.string())])
    table = hudi.create_table(spark, tmp_path / "t", schema, record_key="id")
    table.upsert(pa.table({"id": [1, 2, 3, 4, 12], "v": list("abcde")}, schema))
    frame = spark.createDataFrame([(1,), (2,)], "id int")
    for keys in (frame, frame.toDF("other"), [1, 2], pa.array([1, 2]), ["1", "2"], [(1,), (2,)]):
        assert table.lookup(keys).column("found").to_pylist() == [True, True]
        assert sorted(table.fetch(keys, "v").column("v").to_pylist()) == ["a", "b"]
    assert table.fetch("12").num_rows == 1
    assert table.history([3]).num_rows == 1
    assert table.scan("v").columns == ["v"]
    assert table.delete(keys="12").deleted == 1
    assert table.delete(keys=frame).deleted == 2
    assert table.delete(keys=spark.createDataFrame([("3",)], "k string")).deleted == 1
    assert [row.id for row in table.scan(["id"]).collect()] == [4]

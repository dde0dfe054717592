"""`format("pyhudi")` in a session: found by itself, every type, filters handed down or not."""

from __future__ import annotations

import datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

import pyhudi

OPTIONS = {
    "hoodie.table.name": "t",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.table.type": "MERGE_ON_READ",
}
UTC = datetime.UTC
MOMENT = datetime.datetime(2026, 7, 1, 12, 30, 15, 123456)
VALUES: dict[str, tuple[str, Any]] = {
    "id": ("string", "k1"),
    "flag": ("boolean", True),
    "i32": ("int", -5),
    "i64": ("bigint", 1 << 40),
    "f32": ("float", 0.5),
    "f64": ("double", -1e300),
    "dec": ("decimal(20,3)", Decimal("12345678901234567.125")),
    "day": ("date", datetime.date(1969, 12, 31)),
    "at": ("timestamp", MOMENT.replace(tzinfo=UTC)),
    "wall": ("timestamp_ntz", MOMENT),
    "text": ("string", "ü\U0001f511"),
    "raw": ("binary", b"\x00\xff"),
    "nest": ("struct<a:int,b:struct<c:string>>", {"a": 1, "b": {"c": "x"}}),
    "list": ("array<array<int>>", [[1, None], []]),
    "map": ("map<string,struct<n:decimal(5,2)>>", {"m": {"n": Decimal("1.25")}}),
    "structs": ("array<struct<at:timestamp>>", [{"at": MOMENT.replace(tzinfo=UTC)}]),
}
FILTERS = [
    "id = 'k1'", "id in ('k1', 'k3')", "flag", "not flag", "i32 < 0", "i64 >= 1099511627776",
    "f32 = 0.5", "f64 < 0", "f64 > 1e10", "dec = 12345678901234567.125", "day < date'1970-01-01'",
    "at = timestamp'2026-07-01 12:30:15.123456 UTC'",
    "at > timestamp'2026-07-01 12:30:15.123455 UTC'",
    "wall <= timestamp_ntz'2026-07-01 12:30:15.123456'", "text like 'ü%'", "text is null",
    "raw = x'00ff'", "nest.a = 1", "i32 <=> null", "f64 = double('NaN')", "f64 > 1", "id <> 'k1'",
    "i32 not in (1, -5)",
]  # fmt: skip


@pytest.fixture(scope="module")
def typed(spark: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Any]:
    """A table of every type, and the frame it was made of."""
    path = tmp_path_factory.mktemp("typed") / "t"
    ddl = ", ".join(f"{name} {kind}" for name, (kind, _) in VALUES.items())
    full = tuple(value for _, value in VALUES.values())
    nulls = ("k2", *[None] * (len(VALUES) - 1))
    nan = ("k3", False, 1, 2, float("nan"), float("nan"), *[None] * (len(VALUES) - 6))
    frame = spark.createDataFrame([full, nulls, nan], ddl)
    writer = frame.write.format("pyhudi").options(**OPTIONS).mode("append")
    writer.save(f"file://{path}")
    writer.save(f"file://{path}")  # through a log as well
    return path, frame


def rows(frame: Any) -> list[str]:
    return sorted(str(row.asDict(recursive=True)) for row in frame.collect())


def test_every_type_goes_in_and_comes_out(spark: Any, typed: tuple[Path, Any]) -> None:
    path, frame = typed
    found = spark.read.format("pyhudi").load(f"file://{path}")
    meta = found.columns[:5]
    assert meta == pyhudi.open_table(path).schema.names[:5]
    assert found.drop(*meta).schema.simpleString() == frame.schema.simpleString()
    assert rows(found.drop(*meta)) == rows(frame)


@pytest.fixture(params=["true", "false"])
def pushed(spark: Any, request: pytest.FixtureRequest) -> Any:
    """Both settings of the session."""
    setting = "spark.sql.python.filterPushdown.enabled"
    before = spark.conf.get(setting, "false")
    spark.conf.set(setting, request.param)
    yield
    spark.conf.set(setting, before)


def test_filters_give_what_spark_gives(spark: Any, typed: tuple[Path, Any], pushed: None) -> None:
    path, frame = typed
    found = spark.read.format("pyhudi").option("columns", ",".join(VALUES)).load(str(path))
    for text in FILTERS:
        assert rows(found.where(text)) == rows(frame.where(text)), text


def test_a_query_does_not_change_later_ones_of_its_frame(
    spark: Any, tmp_path: Path, pushed: None
) -> None:
    frame = spark.range(8).selectExpr("cast(id as string) as id", "id as v")
    frame.write.format("pyhudi").options(**OPTIONS).mode("append").save(str(tmp_path / "t"))
    found = spark.read.format("pyhudi").load(str(tmp_path / "t"))
    assert found.where("v > 5").count() == 2
    assert found.count() == 8
    assert found.where("v > 5").union(found).count() == 10


def test_a_frame_may_read_the_table_it_is_written_to(spark: Any, tmp_path: Path) -> None:
    path = str(tmp_path / "t")
    start = spark.range(4).selectExpr("cast(id as string) as id", "id as v")
    start.write.format("pyhudi").options(**OPTIONS).mode("overwrite").save(path)
    source = spark.read.format("pyhudi").option("columns", "id,v").load(path)
    source.selectExpr("id", "v + 10 as v").write.format("pyhudi").options(**OPTIONS).mode(
        "append"
    ).save(path)
    assert sorted(row.v for row in source.collect()) == [0, 1, 2, 3], "a frame keeps its snapshot"
    source = spark.read.format("pyhudi").option("columns", "id,v").load(path)
    assert sorted(row.v for row in source.collect()) == [10, 11, 12, 13]
    source.where("v > 11").write.format("pyhudi").options(**OPTIONS).mode("overwrite").save(path)
    assert spark.read.format("pyhudi").load(path).count() == 2
    assert len(pyhudi.open_table(path).timeline.commits) == 1


def test_errors_name_what_is_wrong(spark: Any, tmp_path: Path) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="TableNotFoundError"):
        spark.read.format("pyhudi").load(str(tmp_path / "nothing"))
    rows = spark.createDataFrame([(None, 1)], "id string, v int")
    with pytest.raises(Exception, match="a record key is null or empty"):
        rows.write.format("pyhudi").options(**OPTIONS).mode("append").save(str(tmp_path / "t"))
    assert not (tmp_path / "t" / ".hoodie" / "hoodie.properties").exists()
    assert not list((tmp_path / "t" / ".hoodie" / ".temp").glob("*"))

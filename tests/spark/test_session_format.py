"""`hudi.enable(spark)`: `format("pyhudi")` runs as `hudi.read` and `hudi.upsert` do."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from pyspark.errors import PySparkException

import pyhudi
import pyhudi.spark as hudi
from pyhudi.errors import OptionError, SchemaError, TableNotFoundError, UserError

KEYS = {"hoodie.table.name": "t", "hoodie.datasource.write.recordkey.field": "id"}
PART = "hoodie.datasource.write.partitionpath.field"
OPERATION = "hoodie.datasource.write.operation"


@pytest.fixture
def enabled(spark: Any) -> Iterator[Any]:
    hudi.enable(spark)
    yield spark
    hudi.disable(spark)


def some(spark: Any, *ids: int, v: int = 0) -> Any:
    return spark.createDataFrame(
        [(f"k{n}", f"p{n % 2}", n + v) for n in ids], "id string, p string, v int"
    )


def save(frame: Any, path: Path, mode: str | None = "append", **options: str) -> None:
    writer = frame.write.format("pyhudi").options(**KEYS, **options)
    (writer if mode is None else writer.mode(mode)).save(str(path))


def stored(path: Path) -> dict[str, int]:
    rows = pyhudi.open_table(path).scan(["id", "v"]).to_arrow().to_pylist()
    return {row["id"]: row["v"] for row in rows}


def plan(frame: Any) -> str:
    return str(frame._jdf.queryExecution().executedPlan().toString())


def test_reads_use_sparks_parquet_reader_and_prune_columns(enabled: Any, tmp_path: Path) -> None:
    save(some(enabled, 1, 2, 3), tmp_path / "t", **{PART: "p"})
    frame = enabled.read.format("pyhudi").load(str(tmp_path / "t"))
    assert {row.id: row.v for row in frame.collect()} == {"k1": 1, "k2": 2, "k3": 3}
    text = plan(frame.where("v > 1").select("id"))
    assert "FileScan parquet" in text and "PushedFilters: [IsNotNull(v), GreaterThan(v,1)]" in text
    assert "ReadSchema: struct<id:string,v:int>" in text
    frame.createOrReplaceTempView("enabled_view")
    assert enabled.sql("select sum(v) from enabled_view").collect()[0][0] == 6


@pytest.mark.pyspark("4.0")
def test_the_source_is_unchanged_in_other_sessions_and_after_disable(
    spark: Any, tmp_path: Path
) -> None:
    hudi.enable(spark)
    save(some(spark, 1), tmp_path / "t")
    path = str(tmp_path / "t")
    assert "FileScan parquet" in plan(spark.read.format("pyhudi").load(path))
    other = spark.newSession()
    assert "FileScan parquet" not in plan(other.read.format("pyhudi").load(path))
    hudi.disable(spark)
    hudi.disable(spark)
    assert "FileScan parquet" not in plan(spark.read.format("pyhudi").load(path))
    assert type(spark.read).__mro__[0] is type(other.read)


def test_other_formats_go_to_spark(enabled: Any, tmp_path: Path) -> None:
    rows = some(enabled, 1, 2)
    rows.write.format("parquet").mode("overwrite").partitionBy("p").save(str(tmp_path / "plain"))
    rows.write.mode("overwrite").parquet(str(tmp_path / "more"))
    found = enabled.read.format("parquet").option("mergeSchema", True).load(str(tmp_path / "plain"))
    assert found.count() == enabled.read.parquet(str(tmp_path / "more")).count() == 2
    assert enabled.read.load(str(tmp_path / "more"), format="parquet").count() == 2


def test_reads_take_every_option_of_the_source(enabled: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    for n in (1, 2, 3):
        save(some(enabled, n), path, **{"hoodie.datasource.write.table.type": "MERGE_ON_READ"})
    first, second, _ = [instant.time for instant in pyhudi.open_table(path).timeline.commits]
    read = enabled.read.format("pyhudi")
    assert [r.id for r in read.option("as.of.instant", first).load(str(path)).collect()] == ["k1"]
    changed = enabled.read.load(
        str(path),
        format="pyhudi",
        schema="id string",
        **{
            "hoodie.datasource.query.type": "incremental",
            "hoodie.datasource.read.begin.instanttime": first,
            "hoodie.datasource.read.end.instanttime": second,
        },
    )
    assert changed.columns == ["id"] and [row.id for row in changed.collect()] == ["k2"]
    columns = enabled.read.format("pyhudi").option("columns", "v").load(path=[str(path)])
    assert sorted(row.v for row in columns.collect()) == [1, 2, 3]


def test_errors_are_pyhudis_own(enabled: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    with pytest.raises(TableNotFoundError):
        enabled.read.format("pyhudi").load(str(path))
    save(some(enabled, 1), path)
    with pytest.raises(SchemaError, match="does not match"):
        enabled.read.format("pyhudi").schema("id int").load(str(path))
    with pytest.raises(OptionError, match="unknown option"):
        enabled.read.format("pyhudi").option("colums", "id").load(str(path))
    with pytest.raises(UserError, match="one table"):
        enabled.read.format("pyhudi").load([str(path), str(path)])
    with pytest.raises(OptionError, match="saveMode conflicts"):
        save(some(enabled, 2), path, "overwrite", saveMode="ignore")
    writer = some(enabled, 2).write.format("pyhudi").options(**KEYS, **{PART: "v"})
    with pytest.raises(OptionError, match="conflicts with partitionBy"):
        writer.partitionBy("p").save(str(tmp_path / "u"))


def test_the_default_save_mode_is_sparks(enabled: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(some(enabled, 1), path, None)
    with pytest.raises(UserError, match="already exists"):
        save(some(enabled, 2), path, None)
    save(some(enabled, 2), path, "ignore")
    assert stored(path) == {"k1": 1}


def test_every_operation_writes_on_the_executors(enabled: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    some(enabled, 1, 2, 3).write.format("pyhudi").options(**KEYS).partitionBy("p").save(str(path))
    assert pyhudi.open_table(path).config.partition_fields == ("p",)
    save(some(enabled, 2, 4, v=10), path)
    assert stored(path) == {"k1": 1, "k2": 12, "k3": 3, "k4": 14}
    save(some(enabled, 1, 9).select("id"), path, **{OPERATION: "delete"})
    assert stored(path) == {"k2": 12, "k3": 3, "k4": 14}
    save(some(enabled, 6), path, **{OPERATION: "insert_overwrite"})
    assert stored(path) == {"k3": 3, "k6": 6}
    save(some(enabled, 3), path, **{OPERATION: "delete_partition"})
    assert stored(path) == {"k6": 6}
    save(some(enabled, 7), path, **{OPERATION: "insert_overwrite_table"})
    assert stored(path) == {"k7": 7}
    assert not list((path / ".hoodie" / ".temp").glob("*"))


def test_an_overwrite_computes_a_frame_of_the_same_table_once(enabled: Any, tmp_path: Path) -> None:
    path = tmp_path / "t"
    save(some(enabled, 1, 2, 3), path)
    computed = enabled.sparkContext.accumulator(0)

    def count(batches: Any) -> Any:
        for batch in batches:
            computed.add(batch.num_rows)
            yield batch

    source = enabled.read.format("pyhudi").option("columns", "id,p,v").load(str(path))
    save(source.where("v > 1").mapInArrow(count, source.schema), path, "overwrite")
    assert stored(path) == {"k2": 2, "k3": 3} and computed.value == 2
    assert len(pyhudi.open_table(path).timeline.commits) == 1


def test_rows_that_cannot_be_written_leave_the_table(enabled: Any, tmp_path: Path) -> None:
    bad = enabled.createDataFrame([(None, "p", 1)], "id string, p string, v int")
    with pytest.raises(UserError, match="a record key is null"):
        save(bad, tmp_path / "new", "append")
    assert not (tmp_path / "new" / ".hoodie" / "hoodie.properties").exists()
    path = tmp_path / "t"
    save(some(enabled, 1), path)
    for mode in ("overwrite", "append"):
        with pytest.raises(UserError, match="a record key is null"):
            save(bad, path, mode)
    assert stored(path) == {"k1": 1}
    assert not list((path / ".hoodie" / ".temp").glob("*"))


def test_a_stream_writes_each_batch_once(enabled: Any, tmp_path: Path) -> None:
    source, path, checkpoint = tmp_path / "in", tmp_path / "t", tmp_path / "checkpoint"
    some(enabled, 1, 2).write.parquet(str(source))

    def run(mode: str = "append", into: Path = path, at: Path = checkpoint) -> None:
        rows = enabled.readStream.schema("id string, p string, v int").parquet(str(source))
        if mode == "complete":
            rows = rows.groupBy("p").count().selectExpr("p as id", "cast(count as int) as v")
        writer = rows.writeStream.format("pyhudi").options(**KEYS).outputMode(mode)
        query = writer.option("checkpointLocation", str(at)).trigger(availableNow=True)
        query.start(str(into)).awaitTermination(120)

    run()
    some(enabled, 3).write.mode("append").parquet(str(source))
    run()
    commits = len(pyhudi.open_table(path).timeline.commits)
    assert stored(path) == {"k1": 1, "k2": 2, "k3": 3} and commits == 2
    last = max((checkpoint / "commits").glob("[0-9]*"), key=lambda file: int(file.name))
    last.unlink()
    (checkpoint / "commits" / f".{last.name}.crc").unlink(missing_ok=True)
    run()
    assert len(pyhudi.open_table(path).timeline.commits) == commits
    run("complete", tmp_path / "sums", tmp_path / "other")
    assert stored(tmp_path / "sums") == {"p0": 1, "p1": 2}


def test_writers_inside_foreach_batch_are_enabled_too(enabled: Any, tmp_path: Path) -> None:
    some(enabled, 1).write.parquet(str(tmp_path / "in"))
    classes: list[str] = []

    def write(frame: Any, number: int) -> None:
        writer = frame.write.format("pyhudi").options(**KEYS).mode("append")
        classes.append(type(writer).__module__)
        writer.save(str(tmp_path / "t"))

    rows = enabled.readStream.schema("id string, p string, v int").parquet(str(tmp_path / "in"))
    rows.writeStream.foreachBatch(write).trigger(availableNow=True).start().awaitTermination(120)
    assert stored(tmp_path / "t") == {"k1": 1}
    assert classes and classes[0] == "pyhudi.spark.session_format"


@pytest.mark.pyspark("4.0")
def test_without_enable_errors_come_from_spark(spark: Any, tmp_path: Path) -> None:
    with pytest.raises(PySparkException, match="TableNotFoundError"):
        spark.read.format("pyhudi").load(str(tmp_path / "nothing"))


def test_tables_of_the_catalog_are_refused_with_what_to_write(enabled: Any, tmp_path: Path) -> None:
    writer = some(enabled, 1).write.format("pyhudi").options(**KEYS).mode("append")
    with pytest.raises(UserError, match=r"saveAsTable.*\.save\(path\).*register_views") as raised:
        writer.option("path", str(tmp_path / "t")).saveAsTable("kept")
    assert raised.value.facts["table"] == "kept"
    with pytest.raises(UserError, match=r"saveAsTable"):
        some(enabled, 1).write.saveAsTable("kept", format="pyhudi", mode="append")
    with pytest.raises(UserError, match=r"insertInto.*\.save\(path\)"):
        writer.insertInto("kept")
    assert not (tmp_path / "t").exists() and not enabled.catalog.tableExists("kept")

"""Vectors and variants through Spark: DataFrames written, read by both engines."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from tests.support.foreign import foreign_table

TYPES = "id string, embedding array<float>, ts bigint"
LISTS = pa.list_(pa.field("element", pa.float32()))


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_column_with_a_hudi_type_is_a_vector(kind: str, spark: Any, tmp_path: Path) -> None:
    rows = [("1", [1.0, 2.5], 1), ("2", None, 1), ("3", [0.1, -1.0], 1)]
    frame = spark.createDataFrame(rows, TYPES)
    column = frame["embedding"].alias("embedding", metadata={"hudi_type": "VECTOR(2)"})
    frame = frame.select("id", column, "ts")
    path = tmp_path / "t"
    table = hudi.create_table(spark, path, frame, record_key="id", ordering="ts", table_type=kind)
    table.insert(frame)
    table.upsert(spark.createDataFrame([("2", [7.0, 8.0], 2)], TYPES))
    local = pyhudi.open_table(path)
    assert local.schema.field("embedding").equals(
        pa.field("embedding", LISTS, metadata={"hudi_type": "VECTOR(2)"}), check_metadata=True
    )
    found = hudi.read(spark, path)
    assert found.schema["embedding"].metadata == {"hudi_type": "VECTOR(2)"}
    stored = {row["id"]: row["embedding"] for row in local.scan().to_arrow().to_pylist()}
    assert stored == {"1": [1.0, 2.5], "2": [7.0, 8.0], "3": [pytest.approx(0.1), -1.0]}
    assert {row.id: row.embedding for row in found.collect()} == stored
    assert found.where("embedding[0] = 7.0").count() == 1


@pytest.mark.pyspark("4.0")
def test_variants_are_variants_of_spark(spark: Any, tmp_path: Path) -> None:
    frame = spark.sql("""
        SELECT id, if(id = 2, null, parse_json(concat('{"a": ', id, '}'))) AS v, id AS ts
        FROM range(4)""")
    path = tmp_path / "t"
    table = hudi.create_table(spark, path, frame, record_key="id", ordering="ts", table_type="mor")
    table.insert(frame)
    table.upsert(spark.sql("SELECT 1L AS id, parse_json('[true]') AS v, 9L AS ts"))
    assert pyhudi.open_table(path).schema.field("v").metadata == {b"hudi_type": b"VARIANT"}
    found = hudi.read(spark, path)
    texts = found.selectExpr("id", "cast(v AS string) AS text").collect()
    assert {row.id: row.text for row in texts} == {
        0: '{"a":0}', 1: "[true]", 2: None, 3: '{"a":3}',
    }  # fmt: skip


@pytest.mark.pyspark("4.0")
@pytest.mark.parametrize("name", ["vectors_mor_v6", "vectors_mor_v9"])
def test_the_source_gives_vectors_of_apache_hudi(name: str, tmp_path: Path) -> None:
    from tests.spark import source

    root = foreign_table(name, tmp_path)
    rows = {row["id"]: row["f"] for row in source.load(root)}
    expected = pyhudi.open_table(root).scan().to_arrow().to_pylist()
    assert rows == {row["id"]: row["f"] for row in expected} and rows["0"] == [1.5, 20.0]

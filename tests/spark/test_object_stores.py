"""Tables on an object store through Spark: `storage_options` at every door."""

from __future__ import annotations

import itertools
import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import OptionError
from pyhudi.spark.source.source_options import given
from tests.support.object_stores import S3Server, shared_s3

pytest.importorskip("obstore", reason="obstore is not installed")
from tests.spark import source

SCHEMA = pa.schema({"id": pa.string(), "part": pa.string(), "ts": pa.int64(), "v": pa.int64()})
_NAMES = itertools.count()


def rows(*found: tuple[str, str, int, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in found], SCHEMA)


@pytest.fixture
def s3() -> S3Server:
    return shared_s3()


@pytest.fixture
def url(s3: S3Server) -> str:
    return f"s3://bucket/spark/{next(_NAMES)}"


def stored(url: str, s3: S3Server) -> dict[str, int]:
    table = pyhudi.open_table(url, storage_options=s3.options)
    return {row["id"]: row["v"] for row in table.scan(["id", "v"]).to_arrow().to_pylist()}


class Url(str):
    """A URL where the helpers of the source take a path."""


def test_a_batch_is_saved_and_read_by_the_source(s3: S3Server, url: str) -> None:
    place: Any = Url(url)
    text = json.dumps(s3.options)
    source.save(place, rows(("a", "x", 1, 1), ("b", "y", 1, 2)), storage_options=text)
    dotted = {f"storage_options__{name}": value for name, value in s3.options.items()}
    source.save(place, rows(("b", "y", 2, 20)), **dotted)
    assert stored(url, s3) == {"a": 1, "b": 20}
    found = source.reader(place, storage_options=text, columns="id,v")
    batches = [b for part in found.partitions() for b in found.read(part)]
    got = {row["id"]: row["v"] for row in pa.Table.from_batches(batches).to_pylist()}
    assert got == {"a": 1, "b": 20}
    source.save(place, rows(("z", "x", 3, 3)), mode="overwrite", storage_options=text)
    assert stored(url, s3) == {"z": 3}


def test_storage_options_are_an_object(tmp_path: Path) -> None:
    base = {"path": "s3://bucket/t"}
    found = given({**base, "storage_options": '{"region": "a", "endpoint": "e"}',
                   "storage_options.region": "b"})  # fmt: skip
    assert found.storage == {"region": "b", "endpoint": "e"}
    for text in ("no json", "[1]"):
        with pytest.raises(OptionError):
            given({**base, "storage_options": text})


def test_an_overwrite_leaves_the_lock_file_of_apache_hudi(tmp_path: Path) -> None:
    lock = {"hoodie__write__lock__provider": "FileSystemBasedLockProvider"}
    place = tmp_path / "t"
    for n in (1, 2):
        source.save(place, rows((f"k{n}", "x", n, n)), mode="overwrite", **lock)
        assert not (place / ".hoodie" / "lock").exists()
    assert pyhudi.open_table(place).scan(["id"]).to_arrow()["id"].to_pylist() == ["k2"]


@pytest.mark.spark
def test_spark_writes_and_reads_a_table_on_s3(spark: Any, s3: S3Server, url: str) -> None:
    import pyhudi.spark as hudi

    frame = spark.createDataFrame(
        [("a", "x", 1, 1), ("b", "y", 1, 2)], "id string, part string, ts long, v long"
    )
    named = {"record_key": "id", "partition_by": ["part"], "ordering": "ts"}
    hudi.upsert(frame, url, storage_options=s3.options, **named)
    newer = spark.createDataFrame([("b", "y", 2, 20)], frame.schema)
    hudi.upsert(newer, url, storage_options=s3.options, **named)
    table = hudi.open_table(spark, url, storage_options=s3.options)
    assert {r["id"]: r["v"] for r in table.scan(["id", "v"]).collect()} == {"a": 1, "b": 20}
    text = json.dumps(s3.options)
    found = spark.read.format("pyhudi").option("storage_options", text).load(url)
    assert {r["id"]: r["v"] for r in found.select("id", "v").collect()} == {"a": 1, "b": 20}
    writer = newer.selectExpr("'c' as id", "part", "ts", "v").write.format("pyhudi")
    described = source.TABLE | {"hoodie.table.name": url.rpartition("/")[2]}
    writer.options(**described).option("storage_options", text).mode("append").save(url)
    assert stored(url, s3) == {"a": 1, "b": 20, "c": 20}

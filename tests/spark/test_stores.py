"""Tables on HDFS and S3: read by Spark's reader where the session opens the store, else by pyhudi.

make long-spark-stores    with an HDFS of this machine, and S3 by Spark's s3a
"""

from __future__ import annotations

import itertools
import logging
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

pytest.importorskip("pyspark")

import pyhudi
import pyhudi.spark as hudi
from bench.spark_stores import beyond_bytes as of_no_bytes
from bench.spark_stores import hdfs_requests
from pyhudi.spark.listed_files import listed_frame
from pyhudi.spark.parquet_frames import frame_files, read_row_groups, row_groups
from pyhudi.spark.parquet_reader import Reader
from pyhudi.spark.scan import BYTES_MIN
from pyhudi.spark.store_access import STORES
from pyhudi.spark.types import to_arrow
from pyhudi.storage.url_resolver import locate
from tests.support.hdfs import fresh_hdfs, shared_hdfs
from tests.support.object_stores import S3Server, shared_s3
from tests.support.spark_s3 import s3a

_NAMES = itertools.count()
KEYS = {"record_key": "id", "partition_by": ["part"], "ordering": "ts"}
ROWS = pa.table(
    {
        "id": [f"k{n:03d}" for n in range(200)],
        "part": ["a b", "x", "p=1"] * 66 + ["x"] * 2,
        "ts": pa.array([1] * 200, pa.int64()),
        "v": pa.array(range(200), pa.int64()),
    }
)


@pytest.fixture
def s3() -> S3Server:
    return shared_s3()


@pytest.fixture
def url(spark: Any) -> Iterator[str]:
    """A folder in S3 that no other test has, in a store that the session has not tried."""
    spark.conf.unset(f"{STORES}s3://bucket")
    yield f"s3://bucket/stores/{next(_NAMES)}"
    spark.conf.unset(f"{STORES}s3://bucket")


def written(url: str, options: Any, *, table_type: str = "cow") -> pa.Table:
    """A table of ROWS of which some were updated; the rows it then has."""
    table = pyhudi.create_table(
        url, ROWS.schema, table_type=table_type, storage_options=options, **KEYS
    )
    table.upsert(ROWS)
    newer = ROWS.slice(0, 7).set_column(3, "v", pa.array(range(1000, 1007), pa.int64()))
    table.upsert(newer.set_column(2, "ts", pa.array([2] * 7, pa.int64())))
    return pyhudi.open_table(url, storage_options=options).scan(with_meta=False).to_arrow()


def same_rows(frame: Any, rows: pa.Table) -> None:
    found = sorted(tuple(row) for row in frame.select(*rows.column_names).collect())
    assert found == sorted(tuple(row.values()) for row in rows.to_pylist())


def readers(table: Any) -> set[Reader]:
    return {chosen.reader for chosen in table.explain().readers}


def beyond_bytes(requests: list[str]) -> Counter[str]:
    """Requests that name a base file and read nothing of it."""
    found: Counter[str] = Counter()
    for request in requests:
        method, _, target = unquote(request).partition(" ")
        path, _, query = target.partition("?")
        if path.endswith(".parquet") and method == "HEAD":
            found[path.rpartition("/")[2]] += 1
        elif ".parquet" in query or "_0-" in query:
            found[query.rpartition("prefix=")[2].rpartition("/")[2]] += 1
    return found


def test_a_store_that_the_session_cannot_open_is_reported_once(
    spark: Any, s3: S3Server, url: str, caplog: pytest.LogCaptureFixture
) -> None:
    rows = written(url, s3.options)
    spark.conf.set("fs.s3a.impl", "org.example.None")
    spark.conf.set("fs.s3.impl", "org.example.None")
    try:
        with caplog.at_level(logging.WARNING, "pyhudi"):
            table = hudi.open_table(spark, url, storage_options=s3.options)
            assert readers(table) == {Reader.PYHUDI}
            s3.requests.clear()
            same_rows(hudi.read(spark, url, storage_options=s3.options), rows)
        assert max(beyond_bytes(s3.requests).values(), default=0) <= 2
    finally:
        spark.conf.unset("fs.s3a.impl")
        spark.conf.unset("fs.s3.impl")
    assert "org.example.None" in str(table.explain())
    reported = [r.getMessage() for r in caplog.records if "Spark cannot open" in r.getMessage()]
    assert len(reported) == 1 and "s3://bucket" in reported[0]


def test_a_property_names_the_url_of_a_store(
    spark: Any, s3: S3Server, url: str, tmp_path: Path
) -> None:
    rows = written(url, s3.options)
    fs = locate(url, storage_options=s3.options)
    for info in fs.below():  # type: ignore[attr-defined]
        if info.path.endswith(".parquet"):
            copy = tmp_path / url.removeprefix("s3://bucket/") / info.path
            copy.parent.mkdir(parents=True, exist_ok=True)
            copy.write_bytes(fs.read(info.path))
    spark.conf.set(f"{STORES}s3://bucket", tmp_path.as_uri())
    table = hudi.open_table(spark, url, storage_options=s3.options)
    assert readers(table) == {Reader.SPARK}
    same_rows(table.scan(), rows)
    spark.conf.set(f"{STORES}s3://bucket", "none")
    assert readers(table) == {Reader.PYHUDI}
    same_rows(table.scan(), rows)


def test_files_of_known_sizes_are_read_as_files_that_spark_lists(
    spark: Any, tmp_path: Path
) -> None:
    urls = []
    for number in range(3):
        path = tmp_path / f"p={number}" / f"a b{number}.parquet"
        path.parent.mkdir()
        pq.write_table(ROWS.slice(number * 50, 50), path, row_group_size=20)
        urls.append(f"file://{path}")
    schema = spark.read.parquet(*urls).schema
    options = {"recursiveFileLookup": "true"}
    sizes = {url: Path(url.removeprefix("file://")).stat().st_size for url in urls}
    frame = listed_frame(spark, sizes, schema, options)
    listed = spark.read.schema(schema).options(**options).parquet(*urls)
    columns = ["*", "_metadata.row_index", "_metadata.file_name"]
    for name in (frame, listed):
        assert name.columns == ROWS.column_names
    mine, theirs = (sorted(f.select(*columns).collect()) for f in (frame, listed))
    assert mine == theirs and len(mine) == 150
    assert sorted(frame.inputFiles()) == sorted(listed.inputFiles())
    assert frame.where("v < 3").count() == 3


def test_frames_of_another_store_are_read_by_spark(spark: Any, tmp_path: Path) -> None:
    """Neither files of other buckets nor, for a table on the disk, files of any store."""

    class Location:
        def inputFiles(self) -> list[str]:
            return ["s3a://other/a.parquet"]

    assert frame_files(Location(), shared_s3().fs("x")) is None
    assert frame_files(Location(), locate(tmp_path)) is None
    assert frame_files(Location(), None) is None


@pytest.mark.s3a
@pytest.mark.slow
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_spark_reads_a_table_on_s3_with_one_request_a_file(
    spark: Any, s3: S3Server, url: str, table_type: str
) -> None:
    rows = written(url, s3.options, table_type=table_type)
    with s3a(spark, s3.options):
        spark.conf.set(BYTES_MIN, "0")
        table = hudi.open_table(spark, url, storage_options=s3.options)
        logged = {Reader.SPARK_AND_LOGS} if table_type == "mor" else set()
        assert readers(table) - {Reader.SPARK} == logged
        assert spark.conf.get(f"{STORES}s3://bucket") == "s3a://bucket"
        s3.requests.clear()
        same_rows(hudi.read(spark, url, storage_options=s3.options), rows)
        found = beyond_bytes(s3.requests)
        spark.conf.unset(BYTES_MIN)
    assert found and max(found.values()) <= 2, found


@pytest.mark.s3a
@pytest.mark.slow
def test_workers_write_a_frame_of_files_on_s3(spark: Any, s3: S3Server, url: str) -> None:
    source = s3.fs(f"sources/{url.rpartition('/')[2]}")
    for number in range(2):
        with source.open_sink(f"f {number}.parquet") as sink:
            pq.write_table(ROWS.slice(number * 100, 100), pa.PythonFile(sink, mode="w"))
    with s3a(spark, s3.options):
        frame = spark.read.parquet(source.url.replace("s3:", "s3a:"))
        table_fs = locate(url, storage_options=s3.options)
        found = row_groups(frame, to_arrow(frame.schema), frame.columns, rows=1000, store=table_fs)
        assert found is not None and len(found) == 2
        batches = [batch for part in found for batch in read_row_groups(part, rows=1000)]
        assert pa.Table.from_batches(batches) == ROWS
        hudi.upsert(frame, url, storage_options=s3.options, **KEYS)
        same_rows(hudi.read(spark, url, storage_options=s3.options), ROWS)
        changed = frame.where("v < 10").selectExpr("id", "part", "ts + 1 as ts", "v + 500 as v")
        hudi.upsert(changed, url, storage_options=s3.options, **KEYS)
        total = hudi.read(spark, url, storage_options=s3.options).selectExpr("sum(v)").first()[0]
    assert total == sum(range(200)) + 10 * 500


@pytest.mark.hdfs
@pytest.mark.slow
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_spark_writes_and_reads_a_table_on_hdfs(spark: Any, table_type: str) -> None:
    server = shared_hdfs()
    named = {"table_type": table_type, "storage_options": server.options, **KEYS}
    source, fs = fresh_hdfs(), fresh_hdfs()
    with source.open_sink("f.parquet") as sink:
        pq.write_table(ROWS, pa.PythonFile(sink, mode="w"), row_group_size=50)
    frame = spark.read.parquet(source.url)
    found = row_groups(frame, to_arrow(frame.schema), frame.columns, rows=60, store=fs)
    assert found is not None and len(found) == 2
    hudi.upsert(frame, fs.url, **named)
    newer = frame.where("v < 10").selectExpr("id", "part", "ts + 1 as ts", "v + 500 as v")
    hudi.upsert(newer, fs.url, **named)
    spark.conf.set(BYTES_MIN, "0")
    table = hudi.open_table(spark, fs.url, storage_options=server.options)
    logged = {Reader.SPARK_AND_LOGS} if table_type == "mor" else set()
    assert readers(table) - {Reader.SPARK} == logged
    same_rows(table.scan(with_meta=False), table.to_arrow())
    spark.conf.unset(BYTES_MIN)
    assert server.audit is not None
    before = server.audit.stat().st_size
    table.scan(["v"]).collect()
    lines = [line for line in server.audit.read_text()[before:].splitlines() if line]
    found = of_no_bytes(r for line in lines for r in hdfs_requests(line))
    assert found and max(found.values()) <= 2, found
    local = pyhudi.open_table(fs.url, storage_options=server.options)
    same_rows(table.scan(), local.scan(with_meta=False).to_arrow())
    assert table.scan().selectExpr("sum(v)").first()[0] == sum(range(200)) + 10 * 500

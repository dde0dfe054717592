"""The AWS Glue Data Catalog: the same entries as in a metastore, with Glue's limits."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import boto3
import pyarrow as pa
import pytest

import pyhudi
from tests.support.callbacks import server, taking
from tests.support.fake_glue import empty_glue
from tests.sync.cases import CITY, MOR, TRIPS, add_columns, drop_one_city, one_more_city, trip
from tests.sync.test_entries import create

REGION = "eu-central-1"
TOOL = "org.apache.hudi.aws.sync.AwsGlueCatalogSyncTool"


@pytest.fixture
def glue(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_DEFAULT_REGION", REGION)
    with empty_glue():
        yield boto3.client("glue", region_name=REGION)


def partitions(glue: Any, name: str) -> list[dict[str, Any]]:
    pages = glue.get_paginator("get_partitions").paginate(DatabaseName="lake", TableName=name)
    found = [each for page in pages for each in page["Partitions"]]
    return sorted(found, key=lambda each: each["Values"])


def test_entries_of_a_merge_on_read_table(glue: Any, tmp_path: Path) -> None:
    table = create(tmp_path / "trips", **MOR)
    report = table.sync("glue", database="lake", region=REGION)
    assert report.created_database and [e.table for e in report.entries] == [
        "trips_ro", "trips_rt", "trips",
    ]  # fmt: skip
    found = glue.get_table(DatabaseName="lake", Name="trips_ro")["Table"]
    storage = found["StorageDescriptor"]
    assert found["TableType"] == "EXTERNAL_TABLE"
    assert found["Parameters"]["spark.sql.sources.provider"] == "hudi"
    assert storage["InputFormat"] == "org.apache.hudi.hadoop.HoodieParquetInputFormat"
    assert storage["SerdeInfo"]["Parameters"]["hoodie.query.as.ro.table"] == "true"
    assert [each["Values"] for each in partitions(glue, "trips")] == [["la"], ["new york"], ["sf"]]


def test_a_second_sync_changes_nothing(glue: Any, tmp_path: Path) -> None:
    table = create(tmp_path / "trips")
    table.sync("glue", database="lake")
    version = glue.get_table(DatabaseName="lake", Name="trips")["Table"].get("VersionId")
    assert table.sync("glue", database="lake").is_empty
    assert glue.get_table(DatabaseName="lake", Name="trips")["Table"].get("VersionId") == version


def test_partitions_are_added_and_dropped_in_the_sizes_of_glue(glue: Any, tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "trips", TRIPS, record_key="id", **CITY)
    rows = [trip(n) | {"city": f"c{n:03}"} for n in range(130)]
    table.bulk_insert(pa.Table.from_pylist(rows, TRIPS))
    (entry,) = table.sync("glue", database="lake").entries
    assert entry.partitions_added == 130 and len(partitions(glue, "trips")) == 130
    table.delete_partitions([f"c{n:03}" for n in range(60)])
    (entry,) = table.sync("glue", database="lake").entries
    assert entry.partitions_dropped == 60 and len(partitions(glue, "trips")) == 70


def test_new_columns_reach_each_partition(glue: Any, tmp_path: Path) -> None:
    table = create(tmp_path / "trips")
    table.sync("glue", database="lake")
    add_columns(table)
    (entry,) = table.sync("glue", database="lake").entries
    assert entry.columns_added == ("tip",) and entry.columns_changed == ("zone",)
    columns = [each["StorageDescriptor"]["Columns"][-1] for each in partitions(glue, "trips")]
    assert {(c["Name"], c["Type"]) for c in columns} == {("tip", "decimal(8,2)")}


def test_a_dropped_partition_leaves_glue(glue: Any, tmp_path: Path) -> None:
    table = create(tmp_path / "trips")
    table.sync("glue", database="lake")
    drop_one_city(table)
    table.sync("glue", database="lake")
    assert [each["Values"] for each in partitions(glue, "trips")] == [["new york"], ["sf"]]


def test_inline_sync_and_opening_by_name(glue: Any, tmp_path: Path) -> None:
    create(tmp_path / "trips")
    options = {
        "hoodie.datasource.meta.sync.enable": "true",
        "hoodie.meta.sync.client.tool.class": TOOL,
        "hoodie.datasource.hive_sync.database": "lake",
        "hoodie.aws.glue.region": REGION,
    }
    report = one_more_city(pyhudi.open_table(tmp_path / "trips", options=options))
    assert isinstance(report, pyhudi.WriteReport)
    assert "synced with glue: lake.trips" in report.notes
    assert pyhudi.open_table("glue://lake.trips").count() == 5


def test_an_endpoint_that_is_away_is_a_typed_error(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    monkeypatch.setenv("AWS_MAX_ATTEMPTS", "1")
    options = {"hoodie.aws.glue.endpoint": "http://127.0.0.1:1"}
    with pytest.raises(pyhudi.CatalogError, match="Glue"):
        create(tmp_path / "trips").sync("glue", region=REGION, options=options)


def test_the_catalog_of_another_account_is_named_in_requests(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "testing")
    options = {
        "hoodie.aws.glue.endpoint": server(),
        "hoodie.datasource.meta.sync.glue.catalogId": "123456789012",
    }
    with taking() as requests, contextlib.suppress(pyhudi.CatalogError, KeyError):
        create(tmp_path / "trips").sync("glue", region=REGION, options=options)
    assert requests[0].message["CatalogId"] == "123456789012"


def test_a_catalog_of_these_tests_leaves_the_buckets_of_others(glue: Any) -> None:
    """The S3 server of other tests in this process has its data in the same library."""
    s3 = boto3.client("s3", region_name="us-east-1")
    s3.create_bucket(Bucket="of-others")
    glue.create_database(DatabaseInput={"Name": "lake"})
    with empty_glue():
        assert glue.get_databases()["DatabaseList"] == []
        assert "of-others" in [bucket["Name"] for bucket in s3.list_buckets()["Buckets"]]
    s3.delete_bucket(Bucket="of-others")

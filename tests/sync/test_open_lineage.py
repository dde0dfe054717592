"""Events of OpenLineage: equal to those that the classes of its Python library serialize."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any
from uuid import UUID

import pyarrow as pa
import pytest
from openlineage.client.event_v2 import Job, OutputDataset, Run, RunEvent, RunState
from openlineage.client.facet_v2 import (
    dataset_version_dataset,
    datasource_dataset,
    job_type_job,
    lifecycle_state_change_dataset,
    output_statistics_output_dataset,
    processing_engine_run,
    schema_dataset,
    storage_dataset,
)
from openlineage.client.naming import dataset as naming
from openlineage.client.serde import Serde

import pyhudi
from pyhudi.errors import CatalogError, OptionError, UserError
from pyhudi.sync.open_lineage import dataset_name
from tests.support.callbacks import server, taking
from tests.sync.cases import CITY, TRIPS, trip

URL = "pyhudi.openlineage.url"
PRODUCER = "urn:pyhudi"


def create(path: Path, **options: Any) -> pyhudi.Table:
    return pyhudi.create_table(path, TRIPS, record_key="id", options=options, **CITY)


def trips(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([trip(n) for n in numbers], TRIPS)


def events(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text().splitlines()]


def changes(found: list[dict[str, Any]]) -> list[str | None]:
    facets = [event["outputs"][0]["facets"] for event in found]
    return [f.get("lifecycleStateChange", {}).get("lifecycleStateChange") for f in facets]


def expected(path: Path, report: pyhudi.WriteReport, sent: dict[str, Any]) -> dict[str, Any]:
    """The event of the first commit, serialized by the library."""
    field = schema_dataset.SchemaDatasetFacetFields
    types = {"zone": "int", "day": "date", "at": "timestamp", "fare": "double"}
    fields = [field(name, types.get(name, "string")) for name in TRIPS.names]
    facets = {
        "schema": schema_dataset.SchemaDatasetFacet(fields=fields),
        "version": dataset_version_dataset.DatasetVersionDatasetFacet(report.instant),
        "dataSource": datasource_dataset.DatasourceDatasetFacet("file", f"file:{path}"),
        "storage": storage_dataset.StorageDatasetFacet("hudi", "parquet"),
        "lifecycleStateChange": lifecycle_state_change_dataset.LifecycleStateChangeDatasetFacet(
            lifecycle_state_change_dataset.LifecycleStateChange.CREATE
        ),
    }
    statistics = output_statistics_output_dataset.OutputStatisticsOutputDatasetFacet(
        rowCount=3, size=report.bytes_written, fileCount=report.files
    )
    engine = processing_engine_run.ProcessingEngineRunFacet(pyhudi.__version__, "pyhudi")
    kind = job_type_job.JobTypeJobFacet("BATCH", "PYHUDI", "JOB")
    event = RunEvent(
        eventType=RunState.COMPLETE,
        eventTime=sent["eventTime"],
        producer=PRODUCER,
        run=Run(sent["run"]["runId"], {"processing_engine": engine}),
        job=Job("pyhudi", "trips.upsert", {"jobType": kind}),
        outputs=[
            OutputDataset(
                "file", str(path), facets=facets, outputFacets={"outputStatistics": statistics}
            )
        ],
    )
    made = json.loads(Serde.to_json(event))
    return without_library(made)  # type: ignore[no-any-return]


def without_library(value: Any) -> Any:
    """With the producer of pyhudi, and without the empty lists of nested fields."""
    if isinstance(value, list):
        return [without_library(each) for each in value]
    if not isinstance(value, dict):
        return value
    made = {name: without_library(each) for name, each in value.items()}
    if "type" in made and made.get("fields") == []:
        del made["fields"]
    return made | ({"_producer": PRODUCER} if "_producer" in made else {})


@pytest.mark.parametrize("version", [6, 9])
def test_an_event_equals_that_of_the_library(tmp_path: Path, version: int) -> None:
    path = tmp_path / "trips"
    table = pyhudi.create_table(path, TRIPS, record_key="id", version=version, **CITY)
    report = table.upsert(trips(1, 2, 3))
    with taking() as taken:
        sync = table.sync("openlineage", uri=server())
    assert [each.path for each in taken] == ["/api/v1/lineage"]
    (sent,) = (each.message for each in taken)
    assert sent == expected(path, report, sent)
    (entry,) = sync.entries
    assert (entry.table, entry.events_sent, sync.synced_instant) == (
        "trips.upsert", 1, report.instant,
    )  # fmt: skip
    assert UUID(sent["run"]["runId"]).version == 5


def test_a_repeated_event_has_the_same_run(tmp_path: Path) -> None:
    table = create(tmp_path / "trips")
    table.upsert(trips(1))
    file = tmp_path / "events.jsonl"
    for _ in range(2):
        pyhudi.open_table(tmp_path / "trips").sync("openlineage", uri=f"file:{file}")
    table.upsert(trips(2))
    table.sync("openlineage", uri=f"file:{file}")
    first, again, next_ = events(file)
    assert first == again and first["run"]["runId"] != next_["run"]["runId"]


def test_each_commit_sends_its_event_and_the_change_that_it_is(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    table = create(tmp_path / "trips", **{URL: f"file:{file}"})
    wider = TRIPS.append(pa.field("note", pa.string()))
    reports = [
        table.upsert(trips(1, 2, 3)),
        table.upsert(trips(2, 4)),
        table.upsert(pa.Table.from_pylist([{**trip(5), "note": "n"}], wider), schema_mode="widen"),
        table.delete(keys=trips(1)["id"]),
        table.insert_overwrite_table(pa.Table.from_pylist([{**trip(7), "note": "n"}], wider)),
        table.delete_partitions([table.partitions()[0]]),
    ]
    found = events(file)
    versions = [e["outputs"][0]["facets"]["version"]["datasetVersion"] for e in found]
    assert versions == [report.instant for report in reports]
    assert changes(found) == ["CREATE", None, "ALTER", None, "OVERWRITE", "TRUNCATE"]
    amounts = [e["outputs"][0]["outputFacets"]["outputStatistics"]["rowCount"] for e in found]
    assert amounts[:2] == [3, 2] and amounts[4] == 1
    assert reports[0].notes[-1] == "synced with openlineage: pyhudi.trips.upsert"
    assert found[4]["job"]["name"] == "trips.insert_overwrite_table"


def test_table_services_have_no_event(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    table = pyhudi.create_table(
        tmp_path / "trips", TRIPS, record_key="id", table_type="mor", **CITY
    )
    table.upsert(trips(1, 2))
    last = table.upsert(trips(1))
    table.compact()
    assert table.timeline.commits.last.time != last.instant
    assert table.sync("openlineage", uri=f"file:{file}").synced_instant == last.instant


def test_a_dry_run_and_a_table_without_commits_send_nothing(tmp_path: Path) -> None:
    file = tmp_path / "events.jsonl"
    table = create(tmp_path / "trips", **{URL: f"file:{file}"})
    assert table.sync("openlineage").entries[0].events_sent == 0
    table.upsert(trips(1), dry_run=True)
    assert not file.exists()
    report = table.upsert(trips(1))
    planned = table.sync("openlineage", dry_run=True)
    assert planned.synced_instant == report.instant and len(events(file)) == 1


@pytest.mark.parametrize("url", ["http://127.0.0.1:1", "/failing", "file:/dev/null/events"])
def test_a_failing_server_never_loses_a_commit(tmp_path: Path, url: str) -> None:
    url = server() + url if url.startswith("/") else url
    table = create(tmp_path / "trips", **{URL: url})
    report = table.upsert(trips(1))
    assert [n for n in report.notes if n.startswith("sending an event to openlineage failed")]
    assert pyhudi.open_table(tmp_path / "trips").count() == 1
    with pytest.raises(CatalogError):
        table.sync("openlineage")


def test_the_key_is_a_bearer_token_and_the_job_has_its_names(tmp_path: Path) -> None:
    given = {
        URL: server() + "/own/path", "pyhudi.openlineage.api.key": "secret",
        "pyhudi.openlineage.namespace": "lake",
    }  # fmt: skip
    table = create(tmp_path / "trips")
    table.upsert(trips(1))
    with taking() as taken:
        table.sync("openlineage", database="db", table="t", options=given)
    (sent,) = taken
    assert (sent.path, sent.headers["Authorization"]) == ("/own/path", "Bearer secret")
    job = sent.message["job"]
    assert (job["namespace"], job["name"]) == ("lake", "db.t.upsert")


@pytest.mark.parametrize(
    ("url", "made"),
    [
        ("file:/data/trips", naming.LocalFileSystem("/data/trips")),
        ("s3://lake/a/trips", naming.S3("lake", "a/trips")),
        ("s3a://lake/a/trips", naming.S3("lake", "a/trips")),
        ("gs://lake/trips", naming.GCS("lake", "trips")),
        ("hdfs://name:8020/data/trips", naming.HDFS("name", "8020", "/data/trips")),
        ("abfss://c@acc.dfs.core.windows.net/trips", naming.ABFSS("c", "acc", "/trips")),
    ],
)
def test_datasets_have_the_names_of_the_specification(url: str, made: Any) -> None:
    assert dataset_name(url) == (made.get_namespace(), made.get_name())


def test_what_cannot_be_honoured_is_an_error(tmp_path: Path) -> None:
    table = create(tmp_path / "trips")
    with pytest.raises(UserError, match="no server of OpenLineage"):
        table.sync("openlineage")
    with pytest.raises(UserError, match="region= is of AWS Glue"):
        table.sync("openlineage", uri=server(), region="eu")
    for wrong in ("ftp://host", "host:5000", "file:", "http://", ""):
        with pytest.raises(UserError):
            table.sync("openlineage", uri=wrong)
        with pytest.raises(OptionError):
            create(tmp_path / "other", **{URL: wrong})

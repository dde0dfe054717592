"""The dataset of a table in DataHub."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import CatalogError, OptionError, UserError
from pyhudi.sync.datahub import schema_fields
from tests.support.callbacks import server, taking
from tests.sync.cases import CITY, TRIPS, TYPES, trip

NAMES = "hoodie.meta.sync.datahub."
URN = "urn:li:dataset:(urn:li:dataPlatform:hudi,default.trips,DEV)"


def create(path: Path, schema: pa.Schema = TRIPS, **how: Any) -> pyhudi.Table:
    return pyhudi.create_table(path, schema, record_key="id", **{**CITY, **how})


def trips(*numbers: int) -> pa.Table:
    return pa.Table.from_pylist([trip(n) for n in numbers], TRIPS)


def aspects(taken: list[Any]) -> dict[str, Any]:
    found = [each.message["proposal"] for each in taken]
    assert {each["aspect"]["contentType"] for each in found} <= {"application/json"}
    return {each["aspectName"]: json.loads(each["aspect"]["value"]) for each in found}


@pytest.mark.parametrize(("version", "name"), [(6, "SIX"), (8, "EIGHT"), (9, "NINE")])
def test_a_table_is_described_by_three_aspects(tmp_path: Path, version: int, name: str) -> None:
    table = create(tmp_path / "trips", version=version, table_type="mor")
    instant = table.upsert(trips(1, 2)).instant
    with taking() as taken:
        report = table.sync("datahub", uri=server() + "/")
    assert {each.path for each in taken} == {"/aspects"}
    assert {each.headers["X-RestLi-Protocol-Version"] for each in taken} == {"2.0.0"}
    for each in taken:
        proposal = each.message["proposal"]
        assert (proposal["entityType"], proposal["entityUrn"]) == ("dataset", URN)
        assert proposal["changeType"] == "UPSERT"
    found = aspects(taken)
    assert found["status"] == {"removed": False}
    assert found["datasetProperties"]["customProperties"] == {
        "hudi.table.type": "MERGE_ON_READ", "hudi.table.version": name,
        "hudi.base.path": str(tmp_path / "trips"), "hudi.partition.fields": "city",
        "last_commit_time_sync": instant,
    }  # fmt: skip
    schema = found["schemaMetadata"]
    assert (schema["schemaName"], schema["platform"]) == ("trips", "urn:li:dataPlatform:hudi")
    paths = [field["fieldPath"] for field in schema["fields"]]
    assert paths[:1] == ["[version=2.0]._hoodie_commit_time"]
    assert paths[5:] == [f"[version=2.0].{field.name}" for field in TRIPS]
    (entry,) = report.entries
    assert (entry.table, entry.events_sent, entry.synced_instant) == ("trips", 3, instant)


def test_fields_have_the_types_that_apache_hudi_writes(tmp_path: Path) -> None:
    table = create(tmp_path / "types", TYPES, partition_by=None)
    table.insert(TYPES.empty_table())
    with taking() as taken:
        table.sync("datahub", uri=server())
    fields = {
        each["fieldPath"].removeprefix("[version=2.0]."): (
            next(iter(each["type"]["type"])).removeprefix("com.linkedin.schema."),
            each["nativeDataType"],
            each["nullable"],
        )
        for each in aspects(taken)["schemaMetadata"]["fields"]
    }
    assert fields["flag"] == ("BooleanType", "boolean", True)
    assert fields["big"] == ("NumberType", "long", True)
    assert fields["body"] == ("BytesType", "bytes", True)
    assert fields["day"] == ("NumberType", "date", True)
    assert fields["micros"] == ("NumberType", "timestamp_ntz_micros", True)
    assert fields["local_micros"] == ("NumberType", "timestamp_micros", True)
    assert fields["price"] == ("FixedType", "decimal(10,2)", True)
    assert fields["tags"] == ("ArrayType", "array", True)
    assert fields["tags.element"] == ("StringType", "string", True)
    assert fields["amounts.key"] == ("StringType", "string", False)
    assert fields["amounts.value"] == ("FixedType", "decimal(20,4)", True)
    assert fields["place.point.x"] == ("NumberType", "double", True)


def test_unions_and_named_types_are_walked() -> None:
    inner = {"type": "record", "name": "P", "fields": [{"name": "x", "type": "int"}]}
    avro = {
        "fields": [
            {"name": "several", "type": ["null", "int", "string"], "doc": "either"},
            {"name": "alone", "type": ["int"]},
            {"name": "first", "type": inner},
            {"name": "again", "type": "P"},
        ]
    }
    paths = [field["fieldPath"].removeprefix("[version=2.0].") for field in schema_fields(avro)]
    assert paths == [
        "several", "several.int", "several.string", "alone", "first", "first.x", "again",
    ]  # fmt: skip
    several = next(iter(schema_fields(avro)))
    assert (several["nativeDataType"], several["nullable"]) == ("union", True)
    assert several["description"] == "either"


def test_the_names_of_the_dataset_are_options(tmp_path: Path) -> None:
    options = {
        NAMES + "emitter.server": server(), NAMES + "emitter.token": "secret",
        NAMES + "dataplatform.name": "lakehouse", NAMES + "dataset.env": "PROD",
        NAMES + "database.name": "lake", NAMES + "table.name": "rides",
        NAMES + "table.properties": "owner=data,tier=1",
    }  # fmt: skip
    table = create(tmp_path / "trips", options=options)
    with taking() as taken:
        table.sync("datahub")
    urns = {each.message["proposal"]["entityUrn"] for each in taken}
    assert urns == {"urn:li:dataset:(urn:li:dataPlatform:lakehouse,lake.rides,PROD)"}
    assert {each.headers["Authorization"] for each in taken} == {"Bearer secret"}
    properties = aspects(taken)["datasetProperties"]["customProperties"]
    assert (properties["owner"], properties["tier"]) == ("data", "1")
    assert "last_commit_time_sync" not in properties


def test_each_commit_is_synced_by_option_and_a_failure_is_a_note(tmp_path: Path) -> None:
    options = {
        "hoodie.datasource.meta.sync.enable": "true",
        "hoodie.meta.sync.client.tool.class": "org.apache.hudi.sync.datahub.DataHubSyncTool",
        NAMES + "emitter.server": server(),
    }
    table = create(tmp_path / "trips", options=options)
    with taking() as taken:
        report = table.upsert(trips(1))
    assert len(taken) == 3 and "synced with datahub: default.trips" in report.notes
    broken = pyhudi.open_table(
        tmp_path / "trips", options={**options, NAMES + "emitter.server": "http://127.0.0.1:1"}
    )
    (note,) = broken.upsert(trips(2)).notes
    assert "datahub failed, the commit stands" in note and broken.count() == 2


def test_a_dry_run_sends_nothing(tmp_path: Path) -> None:
    table = create(tmp_path / "trips")
    table.upsert(trips(1))
    with taking() as taken:
        report = table.sync("datahub", uri=server(), dry_run=True)
    assert (taken, report.entries[0].events_sent, report.dry_run) == ([], 3, True)


def test_what_cannot_be_honoured_is_an_error(tmp_path: Path) -> None:
    table = create(tmp_path / "trips")
    with pytest.raises(UserError, match=r"no server of DataHub.*emitter\.server"):
        table.sync("datahub")
    with pytest.raises(UserError, match="not the address"):
        table.sync("datahub", uri="file:/tmp/datahub")
    with pytest.raises(CatalogError, match="the server failed"):
        table.sync("datahub", uri="http://127.0.0.1:1")
    for name, value in {"dataset.env": "HOME", "emitter.supplier.class": "a.B"}.items():
        with pytest.raises(OptionError):
            pyhudi.open_table(tmp_path / "trips", options={NAMES + name: value})

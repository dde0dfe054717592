"""One set of options serves doors with and without arguments, as long as nothing differs."""

from __future__ import annotations

import pyarrow as pa
import pytest

import pyhudi

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64())])
OPTIONS = {
    "hoodie.table.name": "trips",
    "hoodie.datasource.write.recordkey.field": "id",
    "hoodie.datasource.write.partitionpath.field": "city",
    "hoodie.datasource.write.precombine.field": "ts",
    "hoodie.datasource.write.table.type": "COPY_ON_WRITE",
    "hoodie.datasource.write.operation": "upsert",
}


def create(path, **options):
    return pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by=["city"], ordering="ts", options=options
    )


def test_options_that_repeat_the_table_are_taken(tmp_path) -> None:
    create(tmp_path, **OPTIONS)
    table = pyhudi.open_table(tmp_path, options=OPTIONS)
    report = table.upsert(pa.table({"id": ["a"], "city": ["x"], "ts": [1]}))
    assert any("hoodie.datasource.write.operation" in note for note in report.notes)


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.datasource.write.recordkey.field", "id,ts"),
        ("hoodie.datasource.write.partitionpath.field", ""),
        ("hoodie.datasource.write.precombine.field", "id"),
        ("hoodie.datasource.write.table.type", "MERGE_ON_READ"),
        ("hoodie.datasource.write.keygenerator.type", "CUSTOM"),
        ("hoodie.datasource.write.partitionpath.field", "city:TIMESTAMP"),
        ("hoodie.datasource.query.type", "read_optimized"),
        ("as.of.instant", "2026-11-21"),
    ],
)
def test_an_option_that_says_something_else_is_refused(tmp_path, option, value) -> None:
    with pytest.raises(pyhudi.OptionError):
        create(tmp_path, **{option: value})
    assert not list(tmp_path.iterdir())
    create(tmp_path)
    with pytest.raises(pyhudi.OptionError):
        pyhudi.open_table(tmp_path, options={option: value})


def test_a_table_belongs_to_the_stated_database(tmp_path) -> None:
    create(tmp_path, **{"hoodie.database.name": "lake"})
    config = pyhudi.open_table(tmp_path).config
    assert config.properties["hoodie.database.name"] == "lake"


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.datasource.write.hive_style_partitioning", "true"),
        ("hoodie.datasource.write.partitionpath.urlencode", "true"),
        ("hoodie.table.timeline.timezone", "LOCAL"),
        ("hoodie.database.name", "lake"),
        ("hoodie.table.name", "other"),
        ("hoodie.record.merge.strategy.id", "ce9acb64-bde0-424c-9b91-f6ebba25356d"),
    ],
)
def test_a_property_of_the_table_is_not_overruled_when_it_is_opened(
    tmp_path, option, value
) -> None:
    create(tmp_path / "trips")
    with pytest.raises(pyhudi.OptionError, match="conflicts with the table"):
        pyhudi.open_table(tmp_path / "trips", options={option: value})
    create(tmp_path / "b", **{option: value})
    pyhudi.open_table(tmp_path / "b", options={option: value})


def test_types_of_partition_fields_are_those_of_the_table(tmp_path) -> None:
    zone = {"hoodie.keygen.timebased.timestamp.type": "UNIX_TIMESTAMP",
            "hoodie.keygen.timebased.output.dateformat": "yyyy"}  # fmt: skip
    pyhudi.create_table(
        tmp_path, SCHEMA, record_key="id", partition_by=["city", "ts:TIMESTAMP"], options=zone
    )
    name = "hoodie.datasource.write.partitionpath.field"
    for fields in ("city,ts", "city:SIMPLE,ts:TIMESTAMP"):
        rows = pa.table({"id": ["a"], "city": ["x"], "ts": [1]})
        pyhudi.open_table(tmp_path, options={**zone, name: fields}).upsert(rows)
    assert len(pyhudi.open_table(tmp_path).scan().to_arrow()) == 1
    with pytest.raises(pyhudi.OptionError, match="city:SIMPLE,ts:TIMESTAMP"):
        pyhudi.open_table(tmp_path, options={name: "city:TIMESTAMP,ts:SIMPLE"})


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("hoodie.keygen.timebased.output.dateformat", "yyyy"),
        ("hoodie.write.complex.keygen.new.encoding", "true"),
    ],
)
def test_an_option_that_the_table_has_no_use_for_is_in_the_report(tmp_path, option, value) -> None:
    create(tmp_path)
    report = pyhudi.open_table(tmp_path, options={option: value}).upsert(
        pa.table({"id": ["a"], "city": ["x"], "ts": [1]})
    )
    assert any("has no effect: hoodie." in note for note in report.notes)

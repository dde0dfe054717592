"""Sources are made by name from properties."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import replace
from importlib.metadata import EntryPoint, EntryPoints
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from pyhudi.errors import OptionError
from pyhudi.ingest import RowSource, SourceBatch, SourceLimits, source_registry
from pyhudi.ingest.source_registry import csv_dialect, source_from, source_names
from pyhudi.ingest.streamer.properties import UsedProperties, sorted_properties
from pyhudi.ingest.streamer.settings import IngestSettings


class Counting:
    """A source of numbers up to a limit."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        self._stop = int(properties["stop"])

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        first = int(checkpoint or 0)
        if first >= self._stop:
            return None
        rows = pa.table({"id": list(range(first, self._stop))})
        return SourceBatch(rows.to_reader(), str(self._stop))


def first_rows(source: RowSource) -> list[Any]:
    batch = source.read(None, SourceLimits(), pa.schema([]))
    assert batch is not None
    return batch.rows.read_all()["id"].to_pylist()


def test_files_are_made_from_their_folder(tmp_path: Path) -> None:
    pq.write_table(pa.table({"id": ["a"]}), tmp_path / "a.parquet")
    source = source_from("files", {"source.dfs.root": str(tmp_path), "format": "parquet"})
    os.utime(tmp_path / "a.parquet", (1, 1))
    assert first_rows(source) == ["a"]


def test_a_source_of_the_user_is_a_function_of_a_module() -> None:
    assert first_rows(source_from(f"{__name__}:Counting", {"stop": "3"})) == [0, 1, 2]


def test_an_entry_point_adds_a_source(monkeypatch: pytest.MonkeyPatch) -> None:
    point = EntryPoint("counting", f"{__name__}:Counting", source_registry.GROUP)

    def found(**selection: Any) -> EntryPoints:
        return EntryPoints([point]).select(**selection)

    monkeypatch.setattr(source_registry, "entry_points", found)
    assert "counting" in source_names()
    assert first_rows(source_from("counting", {"stop": "2"})) == [0, 1]


@pytest.mark.parametrize("name", ["nowhere", "", "nowhere.module:function", "json:nothing"])
def test_an_unknown_source_is_an_error(name: str) -> None:
    with pytest.raises(OptionError, match="source"):
        source_from(name, {})


def test_a_missing_property_is_named() -> None:
    with pytest.raises(OptionError, match=r"hoodie\.streamer\.source\.dfs\.root"):
        source_from("files", {})


def test_a_property_that_its_source_does_not_read_is_an_error() -> None:
    properties = UsedProperties({"source.dfs.root": "x", "source.dfs.other": "y", "csv.sep": ";"})
    assert properties["source.dfs.root"] == "x"
    with pytest.raises(OptionError, match=r"hoodie\.streamer\.source\.dfs\.other"):
        properties.check_used(("source.dfs.",), "files")
    properties.check_used(("csv.nothing",), "files")
    properties.check_used(("source.dfs.",), "files", {"source.dfs.other": frozenset({"y"})})


def test_properties_of_the_streamer_make_a_kafka_source(tmp_path: Path) -> None:
    given = {
        "bootstrap.servers": "127.0.0.1:9",
        "hoodie.deltastreamer.source.kafka.topic": "trips",
        "hoodie.deltastreamer.schemaprovider.registry.url": "http://r/subjects/trips-value/1",
        "hoodie.streamer.source.kafka.value.deserializer.class": "io.x.KafkaAvroDeserializer",
        "hoodie.streamer.kafka.source.maxEvents": "500",
    }
    settings = IngestSettings(given, source_class="JsonKafkaSource")
    assert "trips" in repr(settings.source())
    table = {"hoodie.datasource.write.recordkey.field": "id", "pyhudi.ingest.max.seconds": "1.5"}
    stated = replace(settings, properties=given | table, target_base_path=str(tmp_path / "t"))
    assert (stated.stream().max_rows, stated.stream().max_seconds) == (500, 1.5)
    placed = {**given, "hoodie.streamer.source.kafka.append.offsets": "true"}
    assert "trips" in repr(IngestSettings(placed, source_class="JsonKafkaSource").source())
    commit = "hoodie.streamer.source.kafka.enable.commit.offset"
    IngestSettings({**given, commit: "false"}, source_class="JsonKafkaSource").source()
    with pytest.raises(OptionError, match=r"option=group\.id"):
        IngestSettings({**given, commit: "true"}, source_class="JsonKafkaSource").source()


def test_properties_make_a_source_of_changes_of_postgresql() -> None:
    given = {
        "hoodie.streamer.jdbc.url": "jdbc:postgresql://me@127.0.0.1:9/shop",
        "hoodie.streamer.jdbc.table.name": "rides",
        "pyhudi.ingest.postgres.publication": "changes",
        "pyhudi.ingest.postgres.slot": "rides",
        "pyhudi.ingest.postgres.truncate": "ignore",
    }
    for name in ("PostgresChanges", "postgres-changes"):
        found = IngestSettings(given, source_class=name).source()
        assert repr(found) == "PostgresChanges('postgresql://me@127.0.0.1:9/shop', 'public.rides')"
        for missing in ("hoodie.streamer.jdbc.table.name", "pyhudi.ingest.postgres.slot"):
            rest = {key: value for key, value in given.items() if key != missing}
            with pytest.raises(OptionError, match=f"option={missing}"):
                IngestSettings(rest, source_class=name).source()
        other = {**given, "hoodie.streamer.jdbc.incr.pull": "true"}
        with pytest.raises(OptionError, match="does not support this value"):
            IngestSettings(other, source_class=name).source()


@pytest.mark.parametrize(("stated", "separator"), [(";", ";"), (r"\t", "\t"), (r"\\", "\\")])
def test_the_separator_of_csv_may_be_an_escape_of_spark(stated: str, separator: str) -> None:
    assert csv_dialect({"csv.sep": stated}).delimiter == separator
    assert csv_dialect({"csv.delimiter": stated}).delimiter == separator


def test_a_separator_of_space_alone_is_refused() -> None:
    with pytest.raises(OptionError, match="delimiter"):
        csv_dialect(sorted_properties({"hoodie.streamer.csv.sep": "\t"}).streamer)

"""Tables of versions 8 and 9 whose properties deviate: read, or refused with the property named."""

from __future__ import annotations

import zipfile

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import CorruptFileError, UnsupportedTableError
from pyhudi.filenames import PROPERTIES
from pyhudi.options import Options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import (
    KeyGeneratorKind,
    TableConfig,
    format_properties,
    load_config,
    parse_properties,
)
from pyhudi.table.property_checks import check_stated
from tests.support.fixtures import fixtures
from tests.table.new_table_cases import CASES, VERSIONS, created

TABLES = ("cow_v8_simplekeygen_nonhivestyle", "mor_avro_v8_trips_8i3u1d",
          "cow_v9_timebasedkeygen_epochmillis", "mor_avro_v9_txns_simple_meta")  # fmt: skip
LAYOUT = "hoodie.timeline.layout.version"
READ_WITHOUT = (
    "hoodie.datasource.write.hive_style_partitioning",
    "hoodie.datasource.write.partitionpath.urlencode",
    "hoodie.populate.meta.fields",
    "hoodie.table.base.file.format",
    "hoodie.table.checksum",
    "hoodie.table.format",
    "hoodie.table.index.defs.path",
    "hoodie.table.keygenerator.type",
    "hoodie.table.metadata.partitions",
    "hoodie.table.metadata.partitions.inflight",
    "hoodie.table.ordering.fields",
    "hoodie.table.recordkey.fields",
    "hoodie.table.initial.version",
    "hoodie.table.version",
    "hoodie.record.merge.mode",
    "hoodie.timeline.path",
    "hoodie.timeline.history.path",
)


def foreign(name: str) -> MemoryFileSystem:
    """A fresh copy of a table of another writer."""
    fs = MemoryFileSystem()
    with zipfile.ZipFile(fixtures() / "tables" / f"{name}.zip") as archive:
        files = [f for f in archive.namelist() if not f.startswith("__MACOSX")]
        (marker,) = (f for f in files if f.count("/") == 2 and f.endswith(f"/{PROPERTIES}"))
        root = marker.removesuffix(PROPERTIES)
        for file in files:
            if file.startswith(root) and not file.endswith("/"):
                fs.create(file.removeprefix(root), archive.read(file))
    return fs


def table_of(name: str, **changes: str | None) -> MemoryFileSystem:
    fs = foreign(name)
    properties = parse_properties(fs.read(PROPERTIES))
    for key, value in changes.items():
        properties.pop(key, None)
        if value is not None:
            properties[key] = value
    fs.replace(PROPERTIES, format_properties(properties))
    return fs


def rows_of(fs: MemoryFileSystem) -> pa.Table:
    rows = Table(fs, options=Options(), engine=LocalEngine(1)).scan().to_arrow()
    return rows.sort_by([("_hoodie_commit_time", "ascending"), ("_hoodie_record_key", "ascending")])


@pytest.mark.conformance(25)
@pytest.mark.parametrize("name", TABLES)
def test_a_table_is_read_without_properties_that_readers_can_do_without(name: str) -> None:
    whole = rows_of(table_of(name))
    assert whole.num_rows
    stated = load_config(foreign(name))
    decisive = {
        "hoodie.table.ordering.fields": stated.is_merge_on_read,  # which row wins
        "hoodie.datasource.write.hive_style_partitioning": stated.hive_style,  # values of paths
        "hoodie.table.keygenerator.type": stated.key_generator is not KeyGeneratorKind.SIMPLE,
    }
    for key in READ_WITHOUT:
        if decisive.get(key):
            continue
        assert rows_of(table_of(name, **{key: None})).equals(whole), key


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("layout", [None, "1", "3"])
def test_a_table_without_the_layout_of_its_version_is_refused(
    name: str, layout: str | None
) -> None:
    fs = table_of(name, **{LAYOUT: layout})
    with pytest.raises(UnsupportedTableError, match="layout"):
        rows_of(fs)


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("hoodie.timeline.path", "instants"),
        ("hoodie.timeline.history.path", "old"),
        ("hoodie.table.format", "iceberg"),
    ],
)
def test_a_table_with_other_folders_or_another_format_is_refused(key: str, value: str) -> None:
    fs = table_of(TABLES[0], **{key: value})
    with pytest.raises(UnsupportedTableError, match=key):
        rows_of(fs)


def test_layout_2_of_an_older_version_is_refused() -> None:
    fs = table_of(TABLES[0], **{"hoodie.table.version": "6"})
    with pytest.raises(UnsupportedTableError, match="layout"):
        rows_of(fs)


@pytest.mark.parametrize("name", TABLES)
def test_a_wrong_checksum_is_refused(name: str) -> None:
    fs = table_of(name, **{"hoodie.table.checksum": "1"})
    with pytest.raises(CorruptFileError, match="checksum"):
        load_config(fs)


@pytest.mark.conformance(25)
@pytest.mark.parametrize(
    ("version", "key"),
    [
        (9, "hoodie.record.merge.mode"),
        (9, "hoodie.table.version"),
        (8, "hoodie.table.version"),
        (9, "hoodie.table.partition.fields"),
        (8, "hoodie.table.partition.fields"),
    ],
)
def test_a_writer_does_not_guess_what_the_properties_lack(version: int, key: str) -> None:
    whole = created("ordering", version)
    check_stated(whole)
    with pytest.raises(UnsupportedTableError) as refused:
        check_stated(TableConfig({k: v for k, v in whole.properties.items() if k != key}))
    assert refused.value.facts["property"] == key


@pytest.mark.parametrize("name", CASES)
def test_what_this_package_creates_states_everything(name: str) -> None:
    for version in VERSIONS:
        check_stated(created(name, version))


def test_a_merge_mode_missing_at_version_8_follows_from_the_payload_class() -> None:
    whole = created("payload_partial", 8)
    config = whole.with_properties({"hoodie.record.merge.mode": None})
    check_stated(config)
    assert config.merge_mode is whole.merge_mode

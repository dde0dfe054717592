"""Metadata tables written by Apache Hudi give what the store and Hudi's own snapshots say."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.table.file_group_view import TableView
from pyhudi.table.listing import StoreListing
from pyhudi.table.timeline_facts import load_view
from tests.metadata.conftest import GOLDEN, Opened, Unzip
from tests.support.fixtures import fixtures


def archives() -> list[Path]:
    """The reduced tables of tests/golden/metadata and every table of the fixtures that can have a
    metadata table."""
    reduced = sorted(GOLDEN.glob("*.zip"))
    golden = sorted((fixtures() / "golden").glob("*.zip"))
    newer = sorted((fixtures() / "tables").glob("*_v[89]_*.zip"))
    return [p for p in reduced + golden + newer if p.name.startswith(("cow_", "mor_"))]


def test_enough_tables_have_a_metadata_table_and_a_record_index(unzip: Unzip) -> None:
    """The comparisons below are as many as the tables written for them."""
    listed = [unzip(archive).config.metadata_partitions for archive in archives()]
    assert sum("files" in partitions for partitions in listed) >= 30
    assert sum("record_index" in partitions for partitions in listed) >= 8


def files_of(view: TableView) -> dict[str, int]:
    return {
        file.path: file.size_bytes
        for group in view.groups.values()
        for file_slice in group.slices
        for file in file_slice.files
    }


@pytest.mark.parametrize("archive", archives(), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_listing_and_index_agree_with_store_and_snapshot(archive: Path, unzip: Unzip) -> None:
    table = unzip(archive)
    metadata = table.metadata()
    assert (metadata is not None) == ("files" in table.config.metadata_partitions)
    if metadata is None:
        return
    assert check_listing(table, archive.stem) > 0
    if "record_index" in metadata.partitions_listed:
        assert check_index(table) > 0


def check_listing(table: Opened, name: str) -> int:
    """The number of files compared."""
    metadata = table.metadata()
    assert metadata is not None
    listing, store, timeline = metadata.listing(), StoreListing(table.fs), table.log.load()
    assert listing.partitions() == store.partitions()
    listed = files_of(load_view(table.log, timeline, listing))
    stored = files_of(load_view(table.log, timeline, store))
    assert listed.keys() == stored.keys()
    wrong = {path for path, size in listed.items() if size != stored[path]}
    if "rolled_back" in name:  # Apache Hudi 0.15.0 lists logs of failed commits with size 1
        assert all(".log." in path and listed[path] == 1 for path in wrong)
    else:
        assert not wrong
    return len(listed)


def check_index(table: Opened) -> int:
    """The number of keys compared: those of the rows that Apache Hudi read, else of our scan."""
    metadata = table.metadata()
    assert metadata is not None
    index = metadata.record_index()
    assert index.lookup(["no such key", "", None])["found"].to_pylist() == [False] * 3
    rows = rows_of(table)
    places = index.lookup(rows["_hoodie_record_key"], engine=LocalEngine(2))
    assert places["record_key"].to_pylist() == rows["_hoodie_record_key"].to_pylist()
    assert places["partition_path"].to_pylist() == rows["_hoodie_partition_path"].to_pylist()
    files: dict[str, list[str]] = {}  # two tables of hudi-rs have one key twice
    for row in rows.select(["_hoodie_record_key", "_hoodie_file_name"]).to_pylist():
        files.setdefault(row["_hoodie_record_key"], []).append(row["_hoodie_file_name"])
    assert len(rows) - len(files) <= 1
    for place in places.select(["record_key", "file_id"]).to_pylist():
        assert any(name.startswith(place["file_id"]) for name in files[place["record_key"]])
    timeline = table.log.load()
    assert timeline.first is not None
    is_ours = (table.root.parent / "expected").is_dir()  # hudi-rs wrote in another time zone
    for time in set(places["instant_time"].to_pylist() if is_ours else ()):
        assert time in timeline.times or time < timeline.first.time
    return len(rows)


def rows_of(table: Opened) -> pa.Table:
    expected = table.root.parent / "expected"
    if not expected.is_dir():
        return pyhudi.open_table(table.root).scan().to_arrow()
    newer = expected / "snapshot_final.read_by_1.2.0.parquet"
    return pq.ParquetFile(newer if newer.exists() else expected / "snapshot_final.parquet").read()

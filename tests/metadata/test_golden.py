"""Metadata tables written by Apache Hudi give what the store and Hudi's own snapshots say."""

from __future__ import annotations

from pathlib import Path

import pyarrow.parquet as pq
import pytest

from pyhudi.engine import LocalEngine
from pyhudi.table.listing import StoreListing
from pyhudi.table.plans import load_view
from pyhudi.table.view import TableView
from tests.metadata.conftest import GOLDEN, Opened, Unzip, shared_fixtures

FIXTURES = shared_fixtures()
COPIES = sorted(GOLDEN.glob("*.zip"))


def archives() -> list[Path]:
    """Copies that come with the tests, and every shared fixture with a metadata table."""
    if FIXTURES is None:
        return COPIES
    golden = sorted((FIXTURES / "golden").glob("*.zip"))
    newer = sorted((FIXTURES / "tables").glob("*_v[89]_*.zip"))
    return [p for p in COPIES + golden + newer if p.name.startswith(("cow_", "mor_"))]


def test_all_golden_tables_are_tested() -> None:
    if FIXTURES is None:
        pytest.skip("only the copies are: set PYHUDI_FIXTURES to the shared fixtures")


def files_of(view: TableView) -> dict[str, int]:
    return {
        file.path: file.size_bytes
        for group in view.groups.values()
        for piece in group.slices
        for file in piece.files
    }


@pytest.mark.parametrize("archive", archives(), ids=lambda p: f"{p.parent.name}/{p.stem}")
def test_listing_and_index_agree_with_store_and_snapshot(archive: Path, unzip: Unzip) -> None:
    table = unzip(archive)
    metadata = table.metadata()
    if metadata is None:
        assert "files" not in table.config.metadata_partitions
        return
    check_listing(table, archive.stem)
    if "record_index" in metadata.partitions_listed:
        check_index(table)


def check_listing(table: Opened, name: str) -> None:
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


def check_index(table: Opened) -> None:
    metadata = table.metadata()
    assert metadata is not None
    index = metadata.record_index()
    expected = table.root.parent / "expected"
    assert index.lookup(["no such key", "", None])["found"].to_pylist() == [False] * 3
    if not expected.is_dir():
        return
    newer = expected / "snapshot_final.read_by_1.2.0.parquet"
    rows = pq.ParquetFile(newer if newer.exists() else expected / "snapshot_final.parquet").read()
    places = index.lookup(rows["_hoodie_record_key"], engine=LocalEngine(2))
    assert places["record_key"].to_pylist() == rows["_hoodie_record_key"].to_pylist()
    assert places["partition_path"].to_pylist() == rows["_hoodie_partition_path"].to_pylist()
    for file_id, name in zip(
        places["file_id"].to_pylist(), rows["_hoodie_file_name"].to_pylist(), strict=True
    ):
        assert name.startswith(file_id)
    timeline = table.log.load()
    assert timeline.first is not None
    for time in set(places["instant_time"].to_pylist()):
        assert time in timeline.times or time < timeline.first.time

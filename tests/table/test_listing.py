"""Partitions found by listing the store: nested ones, odd names, other tables below this one."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi.errors import UserError
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.listing import StoreListing
from tests.support.object_stores import object_store_in_memory

SCHEMA = pa.schema([("id", pa.string()), ("p", pa.string()), ("v", pa.int64())])
NESTED = ["a", "a/b", "a/b/c", "d"]
BY_LISTING = {"hoodie.metadata.enable": "false"}


def batch(paths: list[str], value: int = 0) -> pa.Table:
    """One row a partition, whose key is the partition's path."""
    return pa.table({"id": paths, "p": paths, "v": [value] * len(paths)}, schema=SCHEMA)


def nested_table(place: Path, **options: str) -> pyhudi.Table:
    table = pyhudi.create_table(str(place), SCHEMA, record_key="id", partition_by="p",
                                options=options)  # fmt: skip
    table.upsert(batch(NESTED))
    return table


def keys(place: Path, options: dict[str, str] | None = None) -> list[str]:
    return sorted(
        pyhudi.open_table(str(place), options=options).scan().to_arrow()["id"].to_pylist()
    )


@pytest.mark.parametrize("store", [MemoryFileSystem, object_store_in_memory])
def test_a_listing_finds_partitions_inside_partitions(store: type[MemoryFileSystem]) -> None:
    fs: FileSystem = store()
    for partition in NESTED:
        fs.create(f"{partition}/.hoodie_partition_metadata", b"")
    assert StoreListing(fs).partitions() == NESTED


def test_a_listing_stays_out_of_other_tables() -> None:
    fs = MemoryFileSystem()
    for path in ("a", "other", "other/x"):
        fs.create(f"{path}/.hoodie_partition_metadata", b"")
    fs.create("other/.hoodie/hoodie.properties", b"")
    assert StoreListing(fs).partitions() == ["a"]


@pytest.mark.parametrize("options", [None, BY_LISTING], ids=["metadata", "listing"])
def test_rows_of_nested_partitions_are_read(tmp_path: Path, options: dict[str, str] | None) -> None:
    nested_table(tmp_path / "t")
    assert keys(tmp_path / "t", options) == NESTED


@pytest.mark.parametrize("way", ["rebuild", "restore", "repair"])
def test_nested_partitions_survive(tmp_path: Path, way: str) -> None:
    table = nested_table(tmp_path / "t")
    first = str(table.timeline.commits.last.time)
    table.upsert(batch(["e"]))
    if way == "rebuild":
        table.metadata.rebuild()
    elif way == "restore":
        table.restore(first)
    else:
        assert not table.doctor().findings
        table.repair()
    expected = NESTED if way == "restore" else [*NESTED, "e"]
    assert keys(tmp_path / "t") == keys(tmp_path / "t", BY_LISTING) == expected
    report = pyhudi.open_table(str(tmp_path / "t")).upsert(batch(["a/b"], 9))
    assert (report.inserted, report.updated) == (0, 1)


def test_a_deleted_partition_leaves_those_inside_it(tmp_path: Path) -> None:
    table = nested_table(tmp_path / "t", **{"hoodie.cleaner.commits.retained": "1"})
    table.delete_partitions(["a"])
    for value in range(4):
        table.upsert(batch(["d"], value))
        table.clean()
    assert keys(tmp_path / "t") == keys(tmp_path / "t", BY_LISTING) == ["a/b", "a/b/c", "d"]


@pytest.mark.parametrize("value", [".pyhudi-1", ".pyhudi-0123456789abcdef", "f.parquet", "~"])
def test_a_partition_may_be_named_like_a_file_of_ours(tmp_path: Path, value: str) -> None:
    table = nested_table(tmp_path / "t")
    table.upsert(batch([value]))
    assert keys(tmp_path / "t", BY_LISTING) == sorted([*NESTED, value])


@pytest.mark.parametrize("value", [".hoodie", "a/.hoodie", "a/.hoodie/b", "..", "a//b"])
def test_a_partition_that_listings_would_pass_over_is_refused(tmp_path: Path, value: str) -> None:
    table = nested_table(tmp_path / "t")
    with pytest.raises(UserError, match="unsafe path"):
        table.upsert(batch([value]))

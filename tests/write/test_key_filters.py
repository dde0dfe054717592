"""Bloom filters in base files are sized by the rows of the file, or left out."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest

import pyhudi
from pyhudi._native import BloomFilter
from pyhudi.formats.base_file import BaseFooter, footer, read_base
from pyhudi.storage.local import LocalFileSystem

SCHEMA = pa.schema([("id", pa.string()), ("part", pa.string()), ("v", pa.int64())])
DISABLED = {"hoodie.parquet.bloom.filter.enabled": "false"}


def rows(ids: range, value: int, parts: int = 1) -> pa.Table:
    names = [f"p{i % parts}" for i in ids]
    return pa.table(
        {"id": [f"key-{i:07d}" for i in ids], "part": names, "v": [value] * len(ids)}, SCHEMA
    )


def create(folder: Path, **defined: object) -> pyhudi.Table:
    return pyhudi.create_table(
        str(folder / "t"), SCHEMA, record_key="id", partition_by="part", **defined
    )


def newest_files(folder: Path) -> list[str]:
    """The newest base file of each partition."""
    fs = LocalFileSystem(folder / "t")
    found = []
    for partition in sorted(i.path for i in fs.children() if i.name.startswith("p")):
        bases = [i.path for i in fs.children(partition) if i.name.endswith(".parquet")]
        found.append(max(bases, key=lambda path: path.rpartition("_")[2]))
    return found


def newest_footers(folder: Path) -> list[BaseFooter]:
    return [footer(LocalFileSystem(folder / "t"), path) for path in newest_files(folder)]


def check_filter(folder: Path) -> None:
    """The only partition's newest file has a filter of its keys that is not larger than needed."""
    fs, [path] = LocalFileSystem(folder / "t"), newest_files(folder)
    found = footer(fs, path)
    filter_ = found.bloom
    assert filter_ is not None and found.bloom_text is not None
    keys = read_base(fs, path, columns=["_hoodie_record_key"]).column(0)
    assert filter_.contains(keys).to_pylist() == [True] * len(keys)
    others = pa.array([f"other-{i}" for i in range(2000)])
    assert not any(filter_.contains(others).to_pylist())
    bits_a_key = 43.2  # at the default rate of false positives
    assert len(found.bloom_text) <= 100 + max(64, 2 * len(keys)) * bits_a_key / 6


@pytest.mark.parametrize("kind", ["SIMPLE", "DYNAMIC_V0"])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_a_filter_has_the_size_that_the_rows_of_its_file_need(
    tmp_path: Path, kind: str, table_type: str
) -> None:
    options = {"hoodie.bloom.index.filter.type": kind}
    table = create(tmp_path, table_type=table_type, options=options)
    table.bulk_insert(rows(range(100), 1))
    check_filter(tmp_path)
    table.upsert(rows(range(50, 400), 2))
    if table_type == "mor":
        table.compact()
    check_filter(tmp_path)
    table.upsert(rows(range(400, 10_000), 3))
    table.upsert(rows(range(10_000, 10_010), 3))
    if table_type == "mor":
        table.compact()
    check_filter(tmp_path)
    table.cluster()
    check_filter(tmp_path)


def test_the_filter_of_a_large_file_continues_when_rows_are_added(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.bulk_insert(rows(range(5000), 1))
    before = newest_footers(tmp_path)[0].bloom
    table.upsert(rows(range(4990, 5010), 2))
    after = newest_footers(tmp_path)[0].bloom
    assert before is not None and after is not None
    assert (after.bit_count, after.key_count) == (before.bit_count, 5010)


def test_a_filter_that_is_too_large_is_replaced_by_the_next_write(tmp_path: Path) -> None:
    """Apache Hudi sizes the filter of every file for 60,000 keys."""
    table = create(tmp_path)
    table.bulk_insert(rows(range(10), 1))
    fs = LocalFileSystem(tmp_path / "t")
    [path] = [i.path for i in fs.children("p0") if i.name.endswith(".parquet")]
    _with_filter(fs, path, BloomFilter(60_000))
    table.upsert(rows(range(5, 15), 2))
    check_filter(tmp_path)


def _with_filter(fs: LocalFileSystem, path: str, filter_: BloomFilter) -> None:
    """Replace the filter of a base file."""
    import pyarrow.parquet as pq

    place = fs.local_path(path)
    stored, metadata = pq.read_table(place), pq.read_metadata(place).metadata
    filter_.add(stored["_hoodie_record_key"])
    entries = {**metadata, b"org.apache.hudi.bloomfilter": filter_.to_base64().encode()}
    with pq.ParquetWriter(place, stored.schema.remove_metadata(), store_schema=False) as writer:
        writer.write_table(stored)
        writer.add_key_value_metadata(entries)


def test_two_rows_in_two_partitions_write_few_bytes(tmp_path: Path) -> None:
    table = create(tmp_path)
    table.bulk_insert(rows(range(2000), 1, parts=10))
    before = {p: p.stat().st_size for p in tmp_path.rglob("*") if p.is_file()}
    report = table.upsert(rows(range(2), 2, parts=10))
    written = sum(p.stat().st_size for p in tmp_path.rglob("*") if p.is_file() and p not in before)
    assert report.updated == 2
    assert written < 42_000


def test_a_disabled_filter_is_left_out_of_every_new_file(tmp_path: Path) -> None:
    table = create(tmp_path, options=DISABLED)
    table.bulk_insert(rows(range(20), 1, parts=2))
    assert [f.bloom_text for f in newest_footers(tmp_path)] == [None, None]
    assert all(f.min_key and f.max_key for f in newest_footers(tmp_path))
    pyhudi.open_table(str(tmp_path / "t")).upsert(rows(range(3), 2, parts=2))
    assert all(f.bloom_text for f in newest_footers(tmp_path))
    table = pyhudi.open_table(str(tmp_path / "t"), options=DISABLED)
    table.upsert(rows(range(4), 3, parts=2))
    table.cluster()
    assert not any(f.bloom_text for f in newest_footers(tmp_path))


@pytest.mark.parametrize("index", ["bloom", "global_bloom"])
def test_the_bloom_index_finds_keys_in_files_without_filters(tmp_path: Path, index: str) -> None:
    table = create(tmp_path, options=DISABLED, index=index)
    table.bulk_insert(rows(range(20), 1, parts=2))
    report = table.upsert(rows(range(10, 25), 2, parts=2))
    assert (report.updated, report.inserted) == (10, 5)
    assert table.scan(["id"]).to_arrow().num_rows == 25

"""Column ranges and bloom filters: what files say is what the metadata table keeps."""

from __future__ import annotations

from datetime import UTC, date, datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from pyhudi._native.bloom import BloomFilter
from pyhudi.formats.avro_schema import arrow_to_avro
from pyhudi.formats.base_file import write_base
from pyhudi.formats.log_block import data_block, delete_block
from pyhudi.formats.log_file import BlockKind
from pyhudi.metadata import bootstrap
from pyhudi.metadata.file_stats.records import FileIndex, IndexedFile, bloom_key, index_file
from pyhudi.metadata.hfile_slices import DeleteLayer, MapSlice, layers
from pyhudi.metadata.payloads import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    PARTITION_PAYLOADS,
    SCHEMA,
    MetadataPartition,
    codec,
    transcode,
)
from pyhudi.storage.local import LocalFileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.commit_metadata import WriteStat
from tests.metadata.conftest import Opened, Unzip
from tests.metadata.small import SmallTable
from tests.support.fixtures import fixtures

Entries = dict[str, dict[str, Any]]

ROWS = pa.table(
    {
        "b": pa.array([True, None, False]),
        "i": pa.array([3, None, -4], pa.int32()),
        "l": pa.array([3, None, -4], pa.int64()),
        "f": pa.array([0.5, None, -0.5], pa.float32()),
        "d": pa.array([0.5, None, -0.5], pa.float64()),
        "s": pa.array(["z", None, "é"]),
        "x": pa.array([b"\xff", None, b"\x00"]),
        "day": pa.array([date(1969, 12, 31), None, date(2026, 11, 21)]),
        "price": pa.array([Decimal("-1.50"), None, Decimal("99999999.99")], pa.decimal128(10, 2)),
        "at": pa.array(
            [datetime(2026, 11, 21, tzinfo=UTC), None, datetime(1960, 1, 1, tzinfo=UTC)],
            pa.timestamp("us", "UTC"),
        ),
        "clock": pa.array([time(1, 2, 3), None, time(4, 5, 6)], pa.time64("us")),
        "nothing": pa.array([None, None, None], pa.string()),
        "addr": pa.array([{"city": "b", "zip": 1}, None, {"city": "a", "zip": None}]),
        "tags": pa.array([["x"], None, []]),
    }
)

EXPECTED = {
    "b": ("BooleanWrapper", False, True, 1),
    "i": ("IntWrapper", -4, 3, 1),
    "l": ("LongWrapper", -4, 3, 1),
    "f": ("FloatWrapper", -0.5, 0.5, 1),
    "d": ("DoubleWrapper", -0.5, 0.5, 1),
    "s": ("StringWrapper", "z", "é", 1),
    "x": ("BytesWrapper", b"\x00", b"\xff", 1),
    "day": ("DateWrapper", -1, 20778, 1),
    "price": ("DecimalWrapper", Decimal("-1.5"), Decimal("99999999.99"), 1),
    "at": ("LongWrapper", -315619200000000, 1795219200000000, 1),
    "clock": ("LongWrapper", 3723000000, 14706000000, 1),
    "nothing": ("StringWrapper", None, None, 3),
    "addr.city": ("StringWrapper", "a", "b", 1),
    "addr.zip": ("LongWrapper", 1, 1, 2),
}
AVRO = arrow_to_avro(ROWS.schema, name="r", namespace="n")
BASE = "p/f1_0-0-0_20261121000000000.parquet"
LOG = "p/.f1_20261121000000000.log.1_0-0-0"


def looked_into(fs: MemoryFileSystem, path: str) -> FileIndex:
    return index_file(IndexedFile(fs, WriteStat("p", "f1", path, None, 1, 0, 0, 1, 1, 1)))


def check_ranges(found: FileIndex) -> None:
    schema = pa.schema([f for f in ROWS.schema if f.name != "addr"])
    assert len(schema) + 1 == len(EXPECTED)  # less the list, plus two of the struct
    got = {r.column: (r.wrapper, r.low, r.high, r.null_count) for r in found.ranges}
    assert got == EXPECTED
    assert {r.value_count for r in found.ranges} == {3}


def test_a_base_file_answers_from_its_footer() -> None:
    fs = MemoryFileSystem()
    bloom = BloomFilter(100)
    bloom.add(pa.array(["k"]))
    with fs.open_sink(BASE) as sink:
        write_base(sink, ROWS, avro_schema=AVRO, bloom=bloom)
    found = looked_into(fs, BASE)
    check_ranges(found)
    assert (found.bloom_text, found.bloom_kind) == (bloom.to_base64(), "DYNAMIC_V0")
    assert all(r.size_bytes > 0 < r.plain_bytes for r in found.ranges)


@pytest.mark.parametrize("kind", [BlockKind.PARQUET, BlockKind.AVRO])
def test_a_log_answers_from_its_rows(kind: BlockKind) -> None:
    fs = MemoryFileSystem()
    blocks = [
        data_block(ROWS.slice(0, 2), kind=kind, instant="1", avro_schema=AVRO),
        data_block(ROWS.slice(2), kind=kind, instant="1", avro_schema=AVRO),
    ]
    fs.create(LOG, b"".join(blocks))
    check_ranges(looked_into(fs, LOG))


def test_a_log_of_deletes_has_entries_without_values() -> None:
    fs = MemoryFileSystem()
    fs.create(LOG, delete_block(pa.array(["k"]), "p", None, instant="1", avro_schema=AVRO))
    found = looked_into(fs, LOG)
    assert {r.column for r in found.ranges} == EXPECTED.keys()
    assert all(
        (r.low, r.high, r.value_count, r.null_count) == (None, None, 0, 0) for r in found.ranges
    )


def test_a_range_that_cannot_be_stored_leaves_the_file_without_entries() -> None:
    fs = MemoryFileSystem()
    rows = pa.table({"a": [1], "fine": pa.array([Decimal("0.1234567890123456789")])})
    with fs.open_sink(BASE) as sink:
        write_base(
            sink, rows, avro_schema=arrow_to_avro(rows.schema, name="r", namespace="n"), bloom=None
        )
    assert looked_into(fs, BASE).ranges == ()


def test_keys_are_those_of_apache_hudi() -> None:
    name = "036ded81-9ed4-479f-bcea-7145dfa0079b-0_0-986-2792_20251220210108078.parquet"
    key = bloom_key("city=san_francisco", name)
    assert key == "8L2cgj6DtVM=" + "R0v7g76tSFUukD8HWc7Klw=="
    found = FileIndex("city=san_francisco", name, (), None, "")
    assert found.range_key("driver") == "AjpJ7N1gBZc=" + key
    assert bloom_key("", name).startswith("FXThHwelITM=")


# ---- in the metadata table ----------------------------------------------------------------------


def entries(table: Opened | SmallTable, partition: MetadataPartition) -> Entries:
    """Every record of a partition, newest last, as plain fields."""
    metadata = table.metadata()
    assert metadata is not None
    field = PARTITION_PAYLOADS[partition.path]
    found: Entries = {}
    for number, file_slice in enumerate(metadata.slices(partition)):
        for layer in layers(metadata.log.fs, MapSlice.of(file_slice, number, metadata.valid)):
            if isinstance(layer, DeleteLayer):
                for key in layer.keys.to_pylist():
                    found.pop(key, None)
                continue
            for batch in layer.batches():
                values = transcode(batch.column(1), layer.schema, [field], path=layer.path)
                rows = codec(SCHEMA).decode_column(values, fields=[field]).field(field)
                keys = batch.column(0).cast(pa.string()).to_pylist()
                found.update(zip(keys, rows.to_pylist(), strict=True))
    return found


def with_more_partitions(root: Path) -> SmallTable:
    table = SmallTable(LocalFileSystem(root), real_files=True).create(bucket_count=1)
    for partition in (COLUMN_STATS, BLOOM_FILTERS):
        table.config = bootstrap.create_partition(
            table.fs, table.config, table.log.load(), partition, [None, None]
        )
    return table


def test_commits_keep_ranges_and_filters_in_step(tmp_path: Path) -> None:
    table = with_more_partitions(tmp_path)
    for step in range(5):
        table.commit({f"k{step}{i}": f"p{i % 2}" for i in range(4)}, compact_after=2)
        table.check()
    ranges, filters = entries(table, COLUMN_STATS), entries(table, BLOOM_FILTERS)
    files = {(p, name) for p, names in table.files.items() for name in names}
    assert filters.keys() == {bloom_key(p, name) for p, name in files}
    assert {r["fileName"] for r in ranges.values()} == {name for _, name in files}
    ids = [r for r in ranges.values() if r["columnName"] == "id"]
    assert sorted(r["minValue"]["StringWrapper"]["value"] for r in ids) == sorted(
        f"k{step}{i}" for step in range(5) for i in range(2)
    )
    for record in filters.values():
        bloom = BloomFilter.from_base64(record["bloomFilter"].decode(), record["type"])
        assert sum(bloom.contains_one(key) for key in table.index) == 2


def test_filters_of_cleaned_files_go(tmp_path: Path) -> None:
    table = with_more_partitions(tmp_path)
    table.commit({"a": "p0"})
    ((name, _),) = table.files["p0"].items()
    begun = table.begin({"b": "p1"})
    begun.metadata.finish(begun.stats, begun.index, deleted={"p0": [name]})
    table.log.complete(begun.instant, b"{}")
    table.make_visible(begun)
    assert entries(table, BLOOM_FILTERS).keys() == {
        bloom_key("p1", name) for name in table.files["p1"]
    }
    metadata = table.metadata()
    assert metadata.listing().files(["p0"]) == {"p0": []}


COMPARED = [
    ("cow_bloom", 130, 10),
    ("cow_rli_h120", 336, 28),
    ("mor_rli_avro", 215, 18),
    ("mor_rli_parquet", 215, 18),
    ("mor_rli_avro_h120", 297, 18),
]
"""Tables, and how many ranges and bloom filters of theirs can be compared."""


@pytest.mark.parametrize(("name", "ranges", "blooms"), COMPARED)
def test_our_ranges_equal_those_of_apache_hudi(
    name: str, ranges: int, blooms: int, unzip: Unzip
) -> None:
    """0.15.0 compacts dates and decimals into other wrappers, and both have 0 for some columns
    that are always null.  Those are theirs alone."""
    table = unzip(fixtures() / "golden" / f"{name}.zip")
    metadata = table.metadata()
    assert metadata is not None
    theirs, filters = entries(table, COLUMN_STATS), entries(table, BLOOM_FILTERS)
    listing = metadata.listing()
    compared, filters_compared = 0, 0
    indexed: set[tuple[str, str]] = set()
    for partition, infos in listing.files(listing.partitions()).items():
        for info in infos:
            stat = WriteStat(partition, "", info.path, None, 1, 0, 0, 0, 1, 1)
            found = index_file(IndexedFile(table.fs, stat))
            if found.bloom_text is not None:
                assert filters[found.bloom_key]["bloomFilter"] == found.bloom_text.encode()
                filters_compared += 1
            indexed |= {(info.name, bounds.column) for bounds in found.ranges}
            for bounds in found.ranges:
                record = theirs.get(found.range_key(bounds.column))
                is_same = bounds.wrapper not in ("DateWrapper", "DecimalWrapper")
                if record is not None and is_same and bounds.null_count < bounds.value_count:
                    assert present(record) == bounds.to_record(info.name)
                    compared += 1
    assert (compared, filters_compared) == (ranges, blooms)
    files = {file for file, _ in indexed}
    columns = {(r["fileName"], r["columnName"]) for r in theirs.values() if r["fileName"] in files}
    assert columns <= indexed


def present(record: dict[str, Any]) -> dict[str, Any]:
    """A record with only the branches of its bounds that are there."""
    record = dict(record)
    for side in ("minValue", "maxValue"):
        bound = record[side]
        record[side] = bound and {k: v for k, v in bound.items() if v is not None}
    return record

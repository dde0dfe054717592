"""Entries of column statistics of versions 8 and 9: those of Apache Hudi for the same files."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi.formats.avro_schema import arrow_to_avro
from pyhudi.formats.base_file import write_base
from pyhudi.formats.log_block import data_block
from pyhudi.formats.log_file import BlockKind
from pyhudi.metadata.definitions import read_definitions
from pyhudi.metadata.file_stats.collect import newest_entries
from pyhudi.metadata.file_stats.entries import encoded, file_entries
from pyhudi.metadata.file_stats.ranges import ranges_in
from pyhudi.metadata.file_stats.records import IndexedFile, index_file
from pyhudi.metadata.payloads import PARTITION_RANGE, codec, decode_ranges, ranges_type
from pyhudi.metadata.record_schema import RECORDS_V9
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.timeline.commit_metadata import WriteStat
from tests.metadata.conftest import Unzip
from tests.metadata.test_filestats import AVRO, BASE, LOG, ROWS
from tests.support.fixtures import fixtures

NAN = float("nan")
TABLES = [
    ("cow_v9_txns_nonpart_meta", 2, 90),
    ("mor_avro_v9_txns_simple_meta", 2, 200),
    ("mor_avro_v9_nonpartitioned_rollback", 2, 15),
    ("cow_v9_timebasedkeygen_epochmillis", 2, 48),
    ("mor_avro_v8_trips_8i3u1d", 1, 90),
]


def stat_of(partition: str, path: str) -> WriteStat:
    return WriteStat(partition, "", path, None, 1, 0, 0, 0, 1, 1)


@pytest.mark.parametrize(("name", "version", "count"), TABLES)
def test_entries_equal_those_of_apache_hudi(
    name: str, version: int, count: int, unzip: Unzip
) -> None:
    table = unzip(fixtures() / "tables" / f"{name}.zip")
    metadata = table.metadata()
    assert metadata is not None
    columns = read_definitions(table.fs, table.config)["column_stats"]["sourceFields"]
    listing = metadata.listing()
    found = [
        index_file(IndexedFile(table.fs, stat_of(partition, i.path), version, frozenset(columns)))
        for partition, infos in listing.files(listing.partitions()).items()
        for i in infos
    ]
    keys, ours = file_entries(found)
    theirs = newest_entries(metadata, keys)
    pairs = list(zip(ours.to_pylist(), theirs.to_pylist(), strict=True))
    assert [one for one, other in pairs if other is not None and one != other] == []
    assert sum(other is not None for _, other in pairs) >= count
    # Apache Hudi has no entries of files without rows
    assert all(one["valueCount"] == 0 for one, other in pairs if other is None)


def indexed(version: int, rows: pa.Table, *, in_log: bool = False) -> dict[str, Any]:
    """The entries of a file with these rows, by column."""
    fs = MemoryFileSystem()
    avro = arrow_to_avro(rows.schema, name="r", namespace="n")
    path = LOG if in_log else BASE
    if in_log:
        fs.create(path, data_block(rows, kind=BlockKind.PARQUET, instant="1", avro_schema=avro))
    else:
        with fs.open_sink(path) as sink:
            write_base(sink, rows, avro_schema=avro, bloom=None)
    found = index_file(IndexedFile(fs, stat_of("p", path), version, frozenset(rows.column_names)))
    _, entries = file_entries([found])
    return {row["columnName"]: row for row in entries.to_pylist()}


@pytest.mark.parametrize("in_log", [False, True])
def test_typed_entries_state_the_type_of_their_bounds(in_log: bool) -> None:
    rows = ROWS.drop_columns(["addr", "tags"])
    found = indexed(2, rows, in_log=in_log)
    types = {name: tuple((row["valueType"] or {}).values()) for name, row in found.items()}
    assert types == {
        "b": (2, None), "i": (3, None), "l": (4, None), "f": (5, None), "d": (6, None),
        "s": (7, None), "x": (8, None), "day": (12, None), "price": (10, "10,2"),
        "at": (16, None), "clock": (14, None), "nothing": (1 if in_log else 7, None),
    }  # fmt: skip
    for name, row in found.items():
        bounds = ranges_in(
            pa.array([row], ranges_type()), rows.schema.field(name).type, np.array([in_log])
        )
        values = pc.min_max(rows.column(name))
        assert bounds is not None
        assert (bounds.low[0].as_py(), bounds.high[0].as_py()) == (
            values["min"].as_py(),
            values["max"].as_py(),
        )


def test_untyped_entries_have_the_wrappers_of_version_6() -> None:
    found = indexed(1, ROWS.select(["day", "price", "i"]))
    assert {row["valueType"] for row in found.values()} == {None}
    assert found["day"]["maxValue"]["DateWrapper"] == {"value": 20778}
    assert str(found["price"]["minValue"]["DecimalWrapper"]["value"]) == "-1.500000000000000"


@pytest.mark.parametrize("in_log", [False, True])
@pytest.mark.parametrize("version", [0, 1, 2])
@pytest.mark.parametrize(
    ("values", "low", "high"),
    [([1.0, NAN, -2.0], "-2.0", "nan"), ([NAN, NAN], "nan", "nan"), ([0.0, -0.0], "-0.0", "0.0")],
)
def test_nan_is_the_greatest_number(
    version: int, values: list[float], low: str, high: str, in_log: bool
) -> None:
    row = indexed(version, pa.table({"d": values}), in_log=in_log)["d"]
    bounds = [str(row[side]["DoubleWrapper"]["value"]) for side in ("minValue", "maxValue")]
    if NAN in values:
        assert bounds == [low, high]
    else:
        assert list(map(float, bounds)) == [0.0, 0.0]


def test_records_are_encoded_in_key_order_with_their_kind() -> None:
    fs = MemoryFileSystem()
    with fs.open_sink(BASE) as sink:
        write_base(sink, ROWS, avro_schema=AVRO, bloom=None)
    columns = frozenset({"i", "s", "day", "addr.city"})
    found = index_file(IndexedFile(fs, stat_of("p", BASE), 2, columns))
    assert {r.column for r in found.ranges} == columns
    keys, values = encoded(*file_entries([found]), kind=PARTITION_RANGE)
    assert keys.to_pylist() == sorted(found.range_key(column) for column in columns)
    rows = codec(RECORDS_V9.stored).decode_column(values, fields=["key", "type"])
    assert set(rows.field("type").to_pylist()) == {PARTITION_RANGE}
    names = decode_ranges(values, RECORDS_V9.stored, path="p").field("columnName")
    assert {found.range_key(name) for name in names.to_pylist()} == set(keys.to_pylist())


def test_no_files_have_no_entries() -> None:
    keys, entries = file_entries([])
    assert (len(keys), len(entries)) == (0, 0)
    assert len(encoded(keys, entries)[1]) == 0

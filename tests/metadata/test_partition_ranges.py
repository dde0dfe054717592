"""Statistics of partitions: those of Apache Hudi for the same files."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi.metadata.definitions import stats_definition
from pyhudi.metadata.file_stats.collect import newest_entries
from pyhudi.metadata.file_stats.partition_ranges import partition_entries, partition_key
from pyhudi.metadata.file_stats.records import FileIndex
from pyhudi.metadata.payloads import PARTITION_STATS, ranges_type
from pyhudi.table.timeline_facts import load_view
from tests.metadata.conftest import Unzip
from tests.metadata.test_ranges import entry
from tests.support.fixtures import fixtures

NAN = float("nan")
TABLES = [
    ("mor_avro_v9_txns_simple_meta", 45),
    ("cow_v9_timebasedkeygen_epochmillis", 30),
    ("mor_avro_v8_trips_8i3u1d", 27),
]


@pytest.mark.parametrize(("name", "count"), TABLES)
def test_entries_equal_those_of_apache_hudi(name: str, count: int, unzip: Unzip) -> None:
    table = unzip(fixtures() / "tables" / f"{name}.zip")
    metadata = table.metadata()
    assert metadata is not None
    view = load_view(table.log, table.log.load(), metadata.listing())
    files = [(s.partition, str(f.name)) for s in view.latest_slices() for f in s.files]
    definition = stats_definition(table.fs, table.config)
    entries = {
        column: newest_entries(metadata, pa.array(
            [FileIndex(p, n, (), None, "").range_key(column) for p, n in files], pa.string()
        ))
        for column in sorted(definition.columns or ())
    }  # fmt: skip
    keys, ours = partition_entries(files, entries, definition.version)
    theirs = newest_entries(metadata, keys, PARTITION_STATS)
    pairs = list(zip(ours.to_pylist(), theirs.to_pylist(), strict=True))
    # Apache Hudi includes the groups that the last commit of this partition replaced
    differing = [one for one, other in pairs if one != other]
    assert {one["fileName"] for one in differing} <= {"region=apac"}
    assert len(pairs) >= count


def of_column(records: list[Any], version: int = 2, partitions: str = "") -> dict[str, Any]:
    """The entries of the partitions of files with these entries; a partition has one letter."""
    names = [*(partitions or "p" * len(records))]
    files = [(name, f"f{n}") for n, name in enumerate(names)]
    key = entry("StringWrapper", "a", "b", (7, None))
    entries = {
        "_hoodie_record_key": pa.array([key] * len(records), ranges_type()),
        "c": pa.array(records, ranges_type()),
    }
    keys, found = partition_entries(files, entries, version)
    rows = dict(zip(keys.to_pylist(), found.to_pylist(), strict=True))
    return {p: rows[k] for p in sorted(set(names)) if (k := partition_key("c", p)) in rows}


def bounds(row: Any) -> list[Any]:
    return [
        value["value"]
        for side in ("minValue", "maxValue")
        for value in (row[side] or {}).values()
        if value is not None
    ]


def test_a_partition_spans_its_files_and_counts_their_values() -> None:
    records = [
        entry("IntWrapper", 3, 9, (3, None)),
        entry("LongWrapper", -1, 1 << 40, (4, None)),
        entry("IntWrapper", 5, 6, (3, None)),
    ]
    found = of_column(records, partitions="qpq")
    assert bounds(found["q"]) == [3, 9] and bounds(found["p"]) == [-1, 1 << 40]
    assert found["q"]["valueType"] == {"typeOrdinal": 4, "additionalInfo": None}
    assert (found["q"]["valueCount"], found["q"]["nullCount"]) == (4, 0)
    assert found["q"]["isTightBound"] and found["q"]["fileName"] == "q"


def test_rows_of_files_written_before_the_column_are_nulls() -> None:
    (found,) = of_column([entry("IntWrapper", 3, 9, (3, None)), None]).values()
    assert bounds(found) == [3, 9]
    assert (found["valueCount"], found["nullCount"]) == (4, 2)


def test_a_partition_with_only_nulls_has_no_bounds() -> None:
    nothing = {**entry("IntWrapper", 0, 0, (3, None)), "minValue": None, "maxValue": None,
               "nullCount": 2}  # fmt: skip
    (found,) = of_column([nothing, nothing]).values()
    assert (bounds(found), found["valueCount"], found["nullCount"]) == ([], 4, 4)


@pytest.mark.parametrize("version", [1, 2])
def test_numbers_that_are_not_stated_may_be_nan(version: int) -> None:
    typed = (6, None) if version == 2 else None
    unstated = {**entry("DoubleWrapper", 0.0, 0.0, typed), "minValue": None, "maxValue": None}
    (found,) = of_column([entry("DoubleWrapper", 1.0, 2.0, typed), unstated], version).values()
    assert str(bounds(found)) == "[-inf, nan]"
    (found,) = of_column([entry("DoubleWrapper", 1.0, NAN, typed)] * 2, version).values()
    assert str(bounds(found)) == "[1.0, nan]"


def test_bounds_that_cannot_be_combined_give_no_entry() -> None:
    odd = [entry("IntWrapper", 3, 9, (3, None)), entry("StringWrapper", "a", "b", (7, None))]
    assert of_column(odd) == {}
    unstated = {**entry("IntWrapper", 0, 0, (3, None)), "minValue": None, "maxValue": None}
    assert of_column([odd[0], unstated]) == {}


def test_decimals_are_combined_at_the_larger_scale() -> None:
    records = [
        entry("BytesWrapper", b"\x01", b"\x02", (10, "9,2")),
        entry("BytesWrapper", b"\x01", b"\x02", (10, "9,4")),
    ]
    (found,) = of_column(records).values()
    assert found["valueType"] == {"typeOrdinal": 10, "additionalInfo": "11,4"}
    assert bounds(found) == [b"\x01", b"\x00\xc8"]


def test_no_files_have_no_entries() -> None:
    keys, entries = partition_entries([], {"c": pa.nulls(0, ranges_type())}, 2)
    assert (len(keys), len(entries)) == (0, 0)
    assert not pc.any(entries.is_valid()).as_py()

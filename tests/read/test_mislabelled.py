"""Timestamps of older writers: the table's schema tells their unit, not the file's label."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.formats.timestamp_repair import relabelled
from tests.support.foreign import expected_rows, foreign_table, row_counts

TABLES = ("mislabelled_cow_v6", "mislabelled_mor_v6", "mislabelled_mor_v9")
NEW_YEAR = datetime(2020, 1, 1, tzinfo=UTC)
TICK = timedelta(milliseconds=1)


@pytest.mark.parametrize("name", TABLES)
def test_rows_are_those_apache_hudi_reads(name: str, tmp_path: Path) -> None:
    """Values in milliseconds under the label of microseconds, local ones without a label."""
    found = pyhudi.open_table(foreign_table(name, tmp_path)).scan().to_arrow()
    assert found.schema.field("ts_millis").type == pa.timestamp("ms", "UTC")
    assert found.schema.field("local_ts_millis").type == pa.timestamp("ms")
    assert found.schema.field("local_ts_micros").type == pa.timestamp("us")
    assert row_counts(found) == row_counts(expected_rows(tmp_path))


@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize(
    ("column", "middle"),
    [
        ("ts_millis", NEW_YEAR),
        ("ts_micros", datetime(2020, 6, 1, 12, tzinfo=UTC)),
        ("local_ts_millis", datetime(2015, 5, 20, 12, 34, 56)),
    ],
)
def test_filters_find_the_rows_that_a_scan_finds(
    name: str, column: str, middle: datetime, tmp_path: Path
) -> None:
    """Row groups and files are never skipped by statistics of the wrong unit."""
    table = pyhudi.open_table(foreign_table(name, tmp_path))
    every = table.scan().to_arrow()
    value = pa.scalar(middle, every.schema.field(column).type)
    for where in (pc.field(column) > value, pc.field(column) < value):
        expected = every.filter(where)
        assert 0 < expected.num_rows < every.num_rows
        assert row_counts(table.scan(where=where).to_arrow()) == row_counts(expected)


@pytest.mark.parametrize("name", TABLES[:2])
def test_rewritten_files_hold_the_same_values(name: str, tmp_path: Path) -> None:
    """An upsert of one row leaves the values of the others in its file as they were."""
    root = foreign_table(name, tmp_path)
    table = pyhudi.open_table(root, options={"hoodie.index.type": "SIMPLE"})
    before = table.scan(with_meta=False).to_arrow()
    one = before.slice(0, 1)
    later = pa.array([datetime(2030, 1, 1, tzinfo=UTC)], before.schema.field("ts_millis").type)
    one = one.set_column(before.column_names.index("ts_millis"), "ts_millis", later)
    table.upsert(one)
    if table.config.is_merge_on_read:
        table.compact()
    key = one.column("_row_key")[0]
    after = pyhudi.open_table(root).scan(with_meta=False).to_arrow()
    others = pc.field("_row_key") != key
    assert row_counts(after.filter(others)) == row_counts(before.filter(others))
    assert after.filter(~others).column("ts_millis").to_pylist() == later.to_pylist()


def test_nested_values_are_relabelled() -> None:
    millis = pa.timestamp("ms", "UTC")
    local = pa.timestamp("us")
    stored = pa.table(
        {
            "s": pa.array(
                [{"a": 1, "b": [5, None], "other": "x"}, None],
                pa.struct(
                    [
                        ("a", pa.timestamp("us", "UTC")),
                        ("b", pa.list_(pa.int64())),
                        ("other", pa.string()),
                    ]
                ),
            ),
            "m": pa.array([[("k", 7)], None], pa.map_(pa.string(), pa.timestamp("us", "UTC"))),
        }
    )
    table = pa.schema(
        [
            ("s", pa.struct([("b", pa.list_(local)), ("a", millis)])),
            ("m", pa.map_(pa.string(), millis)),
        ]
    )
    for rows in (stored, stored.slice(0, 1), stored.slice(1)):
        found = relabelled(rows, table)
        kinds = found.schema.field("s").type
        assert kinds.field("a").type == millis
        assert kinds.field("b").type.value_type == local
        assert found.schema.field("m").type.item_type == millis
        assert found.column("s").is_null().to_pylist() == rows.column("s").is_null().to_pylist()
    first = relabelled(stored, table).to_pylist()[0]
    assert first["s"]["a"] == datetime(1970, 1, 1, tzinfo=UTC) + TICK
    assert first["s"]["b"] == [datetime(1970, 1, 1) + timedelta(microseconds=5), None]
    assert first["m"] == [("k", datetime(1970, 1, 1, tzinfo=UTC) + 7 * TICK)]


@pytest.mark.parametrize(
    ("stored", "expected"),
    [
        (pa.timestamp("ms", "UTC"), pa.timestamp("us", "UTC")),  # a column that was widened
        (pa.timestamp("us"), pa.timestamp("ms")),  # local ones that have a label are right
        (pa.int64(), pa.timestamp("us", "UTC")),
        (pa.int64(), pa.int64()),
    ],
)
def test_other_columns_stay_as_stored(stored: pa.DataType, expected: pa.DataType) -> None:
    rows = pa.table({"c": pa.array([1, None], stored)})
    assert relabelled(rows, pa.schema([("c", expected)])).equals(rows)

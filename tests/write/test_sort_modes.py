"""Sort modes of bulk_insert: what each promises of the order and number of new files."""

from __future__ import annotations

import random
from itertools import pairwise

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError
from pyhudi.operations.create import create
from pyhudi.options import SortMode, parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable

SCHEMA = pa.schema(
    [
        ("id", pa.string()),
        ("part", pa.string()),
        ("fare", pa.float64()),
        ("day", pa.date32()),
        ("tags", pa.list_(pa.string())),
    ]
)
BASE = {
    "hoodie.metadata.record.index.min.filegroup.count": "3",
    "hoodie.index.bloom.num_entries": "50",
    "hoodie.parquet.max.file.size": "2kb",
}
MODE = "hoodie.bulkinsert.sort.mode"
COLUMNS = "hoodie.bulkinsert.user.defined.partitioner.sort.columns"


def batch(count: int = 600, seed: int = 1) -> pa.Table:
    r = random.Random(seed)
    keys = [f"k{i:05d}" for i in range(count)]
    r.shuffle(keys)
    made = [
        {"id": k, "part": r.choice("ab"), "fare": r.choice([None, r.random() * 100])} for k in keys
    ]
    return pa.Table.from_pylist(made, SCHEMA)


def load(rows: pa.Table, kind: TableType = TableType.COPY_ON_WRITE, **options: str) -> Table:
    fs = MemoryFileSystem()
    parsed = parse_options(BASE | options)
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), (), parsed))
    table = Table(fs, options=parsed, engine=LocalEngine(2))
    report = table.bulk_insert(rows)
    assert report.inserted == rows.num_rows
    assert table.lookup(rows["id"])["found"].to_pylist() == [True] * rows.num_rows
    names = {r["id"]: r["_hoodie_file_name"] for r in table.scan().to_arrow().to_pylist()}
    for row in table.lookup(rows["id"]).to_pylist():
        assert names[row["record_key"]].startswith(row["file_id"])
    return table


def files(table: Table) -> dict[str, list[list[dict[str, object]]]]:
    """Rows by partition and file, as they stand in the files."""
    found: dict[str, dict[str, list[dict[str, object]]]] = {}
    for row in table.scan().to_arrow().to_pylist():
        by_file = found.setdefault(row["_hoodie_partition_path"], {})
        by_file.setdefault(row["_hoodie_file_name"], []).append(row)
    return {part: list(by_file.values()) for part, by_file in found.items()}


def overlap(ranges: list[tuple[object, object]]) -> bool:
    ranges = sorted(ranges, key=str)
    return any(str(a[1]) >= str(b[0]) for a, b in pairwise(ranges))


@pytest.mark.parametrize("kind", TableType, ids=["cow", "mor"])
@pytest.mark.parametrize("mode", SortMode)
def test_every_mode_stores_the_same_rows_in_sized_files(mode: SortMode, kind: TableType) -> None:
    rows = batch()
    table = load(rows, kind, **{MODE: mode.value})
    key = lambda row: row["id"]  # noqa: E731
    got = table.scan(SCHEMA.names).to_arrow().to_pylist()
    assert sorted(got, key=key) == sorted(rows.to_pylist(), key=key)
    for in_files in files(table).values():
        assert len(in_files) > 2


def test_a_global_sort_gives_files_of_sorted_ranges_that_do_not_overlap() -> None:
    for in_files in files(load(batch(), **{MODE: "GLOBAL_SORT"})).values():
        keys = [[str(row["id"]) for row in rows] for rows in in_files]
        assert all(k == sorted(k) for k in keys)
        assert not overlap([(k[0], k[-1]) for k in keys])


def test_a_partition_sort_sorts_within_each_file_only() -> None:
    for in_files in files(load(batch(), **{MODE: "PARTITION_SORT"})).values():
        keys = [[str(row["id"]) for row in rows] for rows in in_files]
        assert all(k == sorted(k) for k in keys)
        assert overlap([(k[0], k[-1]) for k in keys])


def test_without_a_sort_rows_stay_as_they_come() -> None:
    rows = batch()
    place = {key: number for number, key in enumerate(rows["id"].to_pylist())}
    for in_files in files(load(rows)).values():
        for file in in_files:
            places = [place[str(row["id"])] for row in file]
            assert places == sorted(places)


@pytest.mark.parametrize(
    "mode", ["PARTITION_PATH_REPARTITION", "PARTITION_PATH_REPARTITION_AND_SORT"]
)
def test_a_repartition_by_path_fills_one_file_after_another(mode: str) -> None:
    for in_files in files(load(batch(), **{MODE: mode})).values():
        sizes = sorted(len(rows) for rows in in_files)
        assert len(set(sizes[1:])) == 1 and sizes[0] <= sizes[-1]


@pytest.mark.parametrize("column", ["fare", "part", "id"])
def test_columns_of_the_user_sort_over_all_files_of_a_partition(column: str) -> None:
    """Nulls come last; the key parts equal values, so files stay even."""

    def place(row: dict[str, object]) -> tuple[object, ...]:
        value = row[column]
        return (value is None, 0 if value is None else value, row["id"])

    for in_files in files(load(batch(), **{COLUMNS: column, MODE: "PARTITION_SORT"})).values():
        places = sorted([place(row) for row in rows] for rows in in_files)
        assert all(one == sorted(one) for one in places)
        assert all(one[-1] < two[0] for one, two in pairwise(places))
        counts = [len(rows) for rows in in_files]
        assert max(counts) < 3 * sum(counts) / len(counts)


@settings(max_examples=15, deadline=None)
@given(st.integers(0, 300), st.integers(0, 9), st.sampled_from(list(SortMode)), st.booleans())
def test_no_row_is_lost_or_doubled(count: int, seed: int, mode: SortMode, by_fare: bool) -> None:
    rows = batch(count, seed)
    options = {MODE: mode.value} | ({COLUMNS: "fare, id"} if by_fare else {})
    table = load(rows, **options) if count else None
    if table is not None:
        assert sorted(table.scan(["id"]).to_arrow()["id"].to_pylist()) == sorted(
            rows["id"].to_pylist()
        )


def test_an_order_that_cannot_be_is_refused_before_anything_is_written() -> None:
    with pytest.raises(OptionError, match="no such column to sort by"):
        load(batch(5), **{COLUMNS: "nope"})
    with pytest.raises(OptionError, match="nested column"):
        load(batch(5), **{COLUMNS: "tags"})
    with pytest.raises(OptionError, match="GLOBAL_SORT"):
        parse_options({MODE: "SOMEHOW"})
    with pytest.raises(OptionError, match="Java class"):
        parse_options({"hoodie.bulkinsert.user.defined.partitioner.class": "my.Sorter"})

"""Statistics of tables of versions 8 and 9: maintained by every write, used by reads."""

from __future__ import annotations

import itertools
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.metadata.definitions import read_definitions
from pyhudi.metadata.file_stats import changes
from pyhudi.metadata.file_stats.collect import newest_entries
from pyhudi.metadata.file_stats.partition_ranges import partition_key
from pyhudi.metadata.file_stats.records import range_key
from pyhudi.metadata.payloads import PARTITION_STATS
from pyhudi.options import parse_options
from pyhudi.storage.local import LocalFileSystem
from tests.support.engines import Pausing
from tests.support.inside import fs_of, state_of

STATS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.parquet.small.file.limit": "0",
}
SCHEMA = pa.schema([
    ("id", pa.string()), ("part", pa.string()), ("ts", pa.int64()), ("n", pa.int32()),
    ("price", pa.decimal128(9, 2)), ("addr", pa.struct([("zip", pa.int32())])),
])  # fmt: skip
LAYOUTS = [(version, kind) for version in (8, 9) for kind in ("cow", "mor")]
names = itertools.count()


def rows(numbers: Any, ts: int = 0, schema: pa.Schema = SCHEMA) -> pa.Table:
    """Ten rows a partition."""
    return pa.Table.from_pylist(
        [{"id": f"k{n:03d}", "part": f"p{n // 10}", "ts": ts, "n": n + 100 * ts,
          "price": Decimal(n) / 4, "addr": {"zip": n}, "more": n} for n in numbers],
        schema,
    )  # fmt: skip


def created(version: int, kind: str, **options: Any) -> Table:
    return pyhudi.create_table(
        f"memory://stats{next(names)}", SCHEMA, record_key="id", partition_by="part",
        ordering="ts", table_type=kind, version=version, options={**STATS, **options},
    )  # fmt: skip


def reopened(table: Table) -> Table:
    return pyhudi.open_table(table.path, options=STATS)


def partition_bounds(table: Table, column: str, partition: str) -> tuple[Any, Any] | None:
    metadata = state_of(table).metadata
    assert metadata is not None
    key = pa.array([partition_key(column, partition)], pa.string())
    (found,) = newest_entries(metadata, key, PARTITION_STATS).to_pylist()
    if found is None:
        return None
    assert found["isTightBound"]
    low, high = (
        next((v["value"] for v in (found[side] or {}).values() if v is not None), None)
        for side in ("minValue", "maxValue")
    )
    return low, high


@pytest.mark.parametrize(("version", "kind"), LAYOUTS)
def test_partitions_and_files_are_skipped_by_their_ranges(version: int, kind: str) -> None:
    table = created(version, kind)
    for first in range(0, 40, 5):
        table.bulk_insert(rows(range(first, first + 5)))
    scan = table.scan(["id"], pc.field("n") == 13)
    assert (scan.explain().partitions_read, scan.explain().partition_count) == (1, 4)
    assert scan.explain().skipped_by == {"column statistics": 1}
    assert scan.to_arrow()["id"].to_pylist() == ["k013"]
    price = table.scan(["id"], pc.field("price") > Decimal("9.00"))
    assert price.explain().partitions_read == 1
    assert price.count() == 3
    assert table.scan(where=pc.field("n") == 1000).explain().partitions_read == 0
    assert table.scan(where=pc.field("n") == 1000).count() == 0
    plain = pyhudi.open_table(table.path, options={"hoodie.enable.data.skipping": "false"})
    assert plain.scan(["id"], pc.field("n") == 13).explain().partitions_read == 4


@pytest.mark.parametrize(("version", "kind"), LAYOUTS)
def test_every_write_keeps_the_ranges_of_partitions_in_step(version: int, kind: str) -> None:
    table = created(version, kind)
    table.upsert(rows(range(20)))
    assert partition_bounds(table, "n", "p0") == (0, 9)
    table.upsert(rows([3, 25], ts=1))
    low, high = partition_bounds(table, "n", "p0") or (None, None)
    assert (low, high) == (0, 103)
    assert partition_bounds(table, "n", "p2") == (125, 125)
    assert partition_bounds(table, "n", "p1") == (10, 19)
    table.delete(keys=[f"k{n:03d}" for n in range(10, 20) if n != 12])
    if kind == "cow":
        assert partition_bounds(table, "n", "p1") == (12, 12)
    else:
        table.compact()
        assert partition_bounds(table, "n", "p1") == (12, 12)
        assert partition_bounds(table, "n", "p0") == (0, 103)
    for where, keys in ((pc.field("n") == 103, ["k003"]), (pc.field("n") == 3, [])):
        assert reopened(table).scan(["id"], where).to_arrow()["id"].to_pylist() == keys
    assert table.scan().count() == 12
    assert not table.metadata.verify().findings


@pytest.mark.parametrize(("version", "kind"), LAYOUTS)
def test_answers_are_those_without_statistics(version: int, kind: str) -> None:
    table = created(version, kind, **{"hoodie.metadata.compact.max.delta.commits": "3"})
    for step in range(6):
        table.upsert(rows(range(step * 4, step * 4 + 12), ts=step))
        table.delete(keys=[f"k{step:03d}"])
    whole = table.scan().to_arrow()
    for column in ("n", "price", "ts", "id", "part", "_hoodie_commit_time"):
        values = whole.column(column)
        for value in (pc.min(values), pc.max(values), values[len(values) // 2]):
            for where in (
                pc.field(column) == value,
                pc.field(column) > value,
                pc.field(column) <= value,
                pc.field(column).is_null(),
            ):
                found = table.scan(["id"], where).to_arrow()["id"].to_pylist()
                assert sorted(found) == sorted(whole.filter(where)["id"].to_pylist())


@pytest.mark.parametrize("version", [8, 9])
def test_statistics_of_an_existing_table_include_its_files(version: int) -> None:
    table = pyhudi.create_table(
        f"memory://stats{next(names)}", SCHEMA, record_key="id", partition_by="part",
        version=version,
    )  # fmt: skip
    table.bulk_insert(rows(range(20)))
    assert table.scan(where=pc.field("n") == 3).explain().partitions_read == 2
    again = reopened(table)
    again.bulk_insert(rows(range(20, 30)))
    assert partition_bounds(again, "n", "p1") == (10, 19)
    assert again.scan(where=pc.field("n") == 3).explain().partitions_read == 1
    again.metadata.rebuild()
    again = reopened(again)
    assert partition_bounds(again, "n", "p1") == (10, 19)
    assert not again.metadata.verify().findings


def test_named_columns_and_new_ones_are_indexed() -> None:
    option = {"hoodie.metadata.index.column.stats.column.list": "addr.zip,n"}
    table = created(9, "cow", **option)
    table.bulk_insert(rows(range(10)))
    wider = SCHEMA.append(pa.field("more", pa.int64()))
    table.bulk_insert(rows(range(10, 20), schema=wider), schema_mode="add")
    state = state_of(table)
    fields = read_definitions(state.fs, state.config)["column_stats"]["sourceFields"]
    assert fields[3:] == ["addr.zip", "n", "more"]
    assert partition_bounds(table, "addr.zip", "p1") == (10, 19)
    assert partition_bounds(table, "more", "p1") == (10, 19)
    assert partition_bounds(table, "price", "p1") is None
    assert table.scan(where=pc.field("more") == 12).count() == 1
    assert table.scan(where=pc.field("more").is_null()).count() == 10


def test_at_most_so_many_columns_are_indexed() -> None:
    table = created(9, "cow", **{"hoodie.metadata.index.column.stats.max.columns.to.index": "2"})
    state = state_of(table)
    fields = read_definitions(state.fs, state.config)["column_stats"]["sourceFields"]
    assert fields[3:] == ["id", "part"]


def test_entries_of_cleaned_files_end() -> None:
    table = created(9, "cow", **{"hoodie.clean.commits.retained": "1"})
    written = set()
    for ts in range(4):
        table.upsert(rows(range(5), ts=ts))
        written |= {f.path for f in fs_of(table).children("p0") if f.path.endswith(".parquet")}
    gone = written - {f.path for f in fs_of(table).children("p0")}
    metadata = state_of(table).metadata
    assert gone and metadata is not None
    keys = [range_key("n", "p0", path.rpartition("/")[2]) for path in sorted(gone)]
    assert newest_entries(metadata, pa.array(keys, pa.string())).null_count == len(gone)
    assert table.scan(where=pc.field("n") == 304).count() == 1


def test_a_table_without_partitions_has_statistics_of_files_alone(tmp_path: Path) -> None:
    table = pyhudi.create_table(tmp_path / "t", SCHEMA, record_key="id", version=9, options=STATS)
    table.bulk_insert(rows(range(5)))
    table.bulk_insert(rows(range(5, 10)))
    assert PARTITION_STATS.path not in table.config.metadata_partitions
    assert table.scan(where=pc.field("n") == 3).explain().skipped_by == {"column statistics": 1}


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_bounds_of_a_partition_end_once_its_column_is_too_wide_to_have_them(kind: str) -> None:
    """Version 8 states bounds of decimals of at most 15 digits before the point."""

    def batch(key: int, value: str, digits: int) -> pa.Table:
        values = pa.array([Decimal(value)], pa.decimal128(digits, 2))
        return pa.table({"id": [key], "part": ["p"], "c": values})

    table = pyhudi.create_table(
        f"memory://stats{next(names)}", batch(0, "1.50", 6).schema, record_key="id",
        partition_by="part", table_type=kind, version=8, options=STATS,
    )  # fmt: skip
    table.upsert(batch(0, "1.50", 6))
    assert partition_bounds(table, "c", "p") == (Decimal("1.50"), Decimal("1.50"))
    table.upsert(batch(1, "12345678901234567.89", 20), schema_mode="widen")
    assert partition_bounds(table, "c", "p") is None
    found = table.scan(["id"], pc.field("c") > Decimal("1.50")).to_arrow()
    assert found["id"].to_pylist() == [1]


@pytest.mark.parametrize(("version", "kind"), LAYOUTS)
@pytest.mark.parametrize("count", [2, 4])
@pytest.mark.parametrize("are_all_tight", [False, True])
def test_a_write_that_began_first_and_ends_last_is_found_by_filters(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    version: int,
    kind: str,
    count: int,
    are_all_tight: bool,
) -> None:
    """Each writer begins while the one before it writes, so they end in the opposite order, and
    the statistics of the last to end are in the oldest log.

    are_all_tight: as Apache Hudi states bounds, which replace those in older logs.
    """
    if are_all_tight:
        monkeypatch.setattr(changes, "are_newest", lambda table, time: True)
    options = {**STATS, "hoodie.write.concurrency.mode": "optimistic_concurrency_control"}
    pyhudi.create_table(
        tmp_path, SCHEMA, record_key="id", partition_by="part", ordering="ts", table_type=kind,
        version=version, options=options,
    )  # fmt: skip

    def write(number: int) -> None:
        engine = LocalEngine(1)
        if number < count:
            engine = Pausing("write", lambda: write(number + 1), after=True)
        parsed = parse_options(options)
        Table(LocalFileSystem(tmp_path), options=parsed, engine=engine).insert(
            rows([number], number)
        )

    write(1)
    table = pyhudi.open_table(tmp_path, options=options)
    commits = table.timeline.commits.instants
    done = [instant.completed_at or "" for instant in commits]
    assert len(commits) == count and done == sorted(done, reverse=True)
    for number in range(1, count + 1):
        found = table.scan(["id"], where=pc.field("n") == 101 * number).to_arrow()
        assert found["id"].to_pylist() == [f"k{number:03d}"]
        assert table.scan(["id"], where=pc.field("n") > 5000).count() == 0
    table.insert(rows([9], 9))
    assert partition_bounds(table, "n", "p0") == (101, 909)

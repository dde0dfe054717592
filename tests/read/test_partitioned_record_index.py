"""Record indexes with file groups for each partition, in tables of Apache Hudi 1.2.0.

A key may be in several partitions.  The copy-on-write table was written by an insert, two upserts
and a delete; the merge-on-read table also by two more upserts and a compaction, and its metadata
table was compacted twice.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import CorruptFileError, UnsupportedTableError
from pyhudi.metadata.payloads import RECORD_INDEX
from pyhudi.metadata.record_index.by_partition import slices_by_partition
from pyhudi.options import parse_options
from pyhudi.storage.memory import MemoryFileSystem
from tests.support.golden import small_table
from tests.support.inside import fs_of, state_of

OTHER = {"cow": "p-a", "mor": "y=1/m-2"}
"""The partition whose path has characters that are special in names of file groups."""

ROW_COUNTS = {"cow": 42, "mor": 49}
"""What Apache Hudi 1.2.0 counted."""


def stored_files(fs: MemoryFileSystem, folder: str = "") -> set[str]:
    found = set()
    for info in fs.children(folder):
        found |= stored_files(fs, info.path) if info.is_folder else {info.path}
    return found


def opened(kind: str, options: dict[str, str] | None = None) -> Table:
    fs = small_table(f"partitioned_index_{kind}")
    return Table(fs, options=parse_options(options or {}), engine=LocalEngine(2))


def rows_of(kind: str) -> dict[tuple[str, str], str]:
    """(key, partition) -> value, as the writes of Apache Hudi left them."""
    other = OTHER[kind]
    batches: list[tuple[range, str, int | None]] = [
        (range(20), other, 1), (range(10, 30), "pb", 1), (range(10, 25), "pb", 2),
        (range(5), "pc", 2), (range(3, 6), other, None), (range(15, 18), other, 4),
    ]  # fmt: skip
    if kind == "mor":
        batches += [(range(25, 35), "pb", 5), (range(33, 37), "pb", 6)]
    rows: dict[tuple[str, str], str] = {}
    for numbers, partition, version in batches:
        for n in numbers:
            if version is None:
                rows.pop((f"k{n:03}", partition))
            else:
                rows[f"k{n:03}", partition] = f"v{version}_{n}"
    assert len(rows) == ROW_COUNTS[kind]
    return rows


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_lookup_locates_a_key_in_every_partition_that_has_it(kind: str) -> None:
    table, rows = opened(kind), rows_of(kind)
    keys = ["nope", *(f"k{n:03}" for n in range(40)), None, "k015"]
    found = table.index.lookup(keys)
    assert found.schema.names == [
        "record_key", "partition_path", "file_id", "instant_time", "found",
    ]  # fmt: skip
    expected: list[tuple[str | None, str | None]] = []
    for key in keys:
        places = sorted(partition for each, partition in rows if each == key)
        expected += [(key, place) for place in places] or [(key, None)]
    pairs = zip(*(found.column(i).to_pylist() for i in range(2)), strict=True)
    assert list(pairs) == expected
    assert found.column("found").to_pylist() == [place is not None for _, place in expected]
    groups = {(s.partition, s.group.file_id) for s in state_of(table).view().latest_slices()}
    located = found.filter(pc.field("found"))
    assert set(zip(*(located.column(i).to_pylist() for i in (1, 2)), strict=True)) == groups
    assert table.lookup(keys).equals(found)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_rows_are_read_and_the_index_is_verified(kind: str) -> None:
    table, rows = opened(kind), rows_of(kind)
    columns = ["id", "part", "v"]
    read = table.scan(columns).to_arrow().to_pylist()
    assert {(row["id"], row["part"]): row["v"] for row in read} == rows
    assert len(read) == len(rows)
    some = table.fetch(["k015", "k004", "nope"], columns=columns).to_pylist()
    assert {(row["id"], row["part"]): row["v"] for row in some} == {
        place: value for place, value in rows.items() if place[0] in ("k015", "k004")
    }
    filtered = table.scan(columns, where=pc.field("id") == "k015").to_arrow()
    assert filtered.num_rows == 2
    check = table.index.verify()
    assert (check.keys, check.entries, check.faults) == (len(rows), len(rows), {})
    assert not table.metadata.verify().findings


def test_a_partition_whose_groups_are_lost_is_an_error() -> None:
    table = opened("cow")
    folder = ".hoodie/metadata/record_index"
    fs_of(table).delete(
        each.path for each in fs_of(table).children(folder) if "record-index-pc-" in each.name
    )
    for read in (table.index.verify, lambda: table.index.lookup(["k001"])):
        with pytest.raises(CorruptFileError, match="not as its commit wrote it"):
            read()


def test_an_empty_lookup_has_no_rows() -> None:
    assert opened("cow").index.lookup(pa.array([], pa.string())).num_rows == 0


def test_a_missing_group_of_a_partition_is_an_error() -> None:
    metadata = state_of(opened("cow")).metadata
    assert metadata is not None
    found = metadata._newest(RECORD_INDEX, None)
    whole = slices_by_partition(found)
    assert {name: len(groups) for name, groups in whole.items()} == {"p-a": 2, "pb": 2, "pc": 2}
    first = next(each for each in found if each.file_id.endswith("-0000-0"))
    with pytest.raises(CorruptFileError, match="incomplete"):
        slices_by_partition([each for each in found if each is not first])


ROW = pa.table({"id": ["k001"], "part": ["pb"], "ts": [9], "v": ["new"]})
CHANGES: dict[str, Callable[[Table], Any]] = {
    "index.create": lambda t: t.index.create("secondary", "v"),
    "index.rebuild": lambda t: t.index.rebuild(kind="record"),
    "index.rebuild elastic": lambda t: t.index.rebuild(kind="elastic"),
    "index.repair": lambda t: t.index.repair(),
    "stats": lambda t: t.index.stats(),
    "explain": lambda t: t.index.explain(["k001"]),
}


@pytest.mark.parametrize("kind", ["cow", "mor"])
@pytest.mark.parametrize("change", CHANGES)
def test_what_needs_a_global_index_is_rejected_before_any_change(change: str, kind: str) -> None:
    table = opened(kind)
    before = stored_files(fs_of(table))
    with pytest.raises(UnsupportedTableError, match="by partition"):
        CHANGES[change](table)
    assert {path for path in stored_files(fs_of(table)) if "lock" not in path} == before


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_without_the_index_the_table_is_written(kind: str) -> None:
    table = opened(kind, {"hoodie.index.type": "SIMPLE"})
    table.index.drop("record_index")
    table.upsert(ROW)
    rows = {**rows_of(kind), ("k001", "pb"): "new"}
    read = table.scan(["id", "part", "v"]).to_arrow().to_pylist()
    assert {(row["id"], row["part"]): row["v"] for row in read} == rows
    assert not table.metadata.verify().findings


@pytest.mark.parametrize("to", [8, 6])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_downgrade_drops_the_index(kind: str, to: int) -> None:
    table, rows = opened(kind), rows_of(kind)
    planned = table.downgrade(to=to, dry_run=True)
    assert planned.dropped == ("record_index",)
    done = table.downgrade(to=to)
    assert done.dropped == ("record_index",) and done.rebuilt == ("files",)
    again = Table(
        fs_of(table), options=parse_options({"hoodie.index.type": "SIMPLE"}), engine=LocalEngine(2)
    )
    assert not again.index.list().num_rows
    read = again.scan(["id", "part", "v"]).to_arrow().to_pylist()
    assert {(row["id"], row["part"]): row["v"] for row in read} == rows
    again.upsert(ROW)
    assert again.count() == len({**rows, ("k001", "pb"): "new"})
    assert not again.metadata.verify().findings

"""Consistent hashing: keys go where Apache Hudi's rings say, and rings are what it would keep."""

from __future__ import annotations

import json
from typing import Any

import hypothesis.strategies as st
import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given

from pyhudi._native import xxh32
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import CorruptFileError, OptionError, UserError, WriteConflictError
from pyhudi.index.bucket import hash_field_values
from pyhudi.index.consistent_hashing import (
    FIRST,
    HASHING_METADATA_FOLDER,
    SUFFIX,
    Ring,
    RingFinder,
    first_ring,
    load_ring,
    ring_hashes,
    ring_of,
)
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.index.test_kinds import SCHEMA, batch, rows_of
from tests.support.golden import small_table
from tests.support.inside import fs_of

TABLES = ["mor_consistent", "mor_consistent_h120"]
STATED = {"hoodie.index.type": "BUCKET", "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
          "hoodie.bucket.index.num.buckets": 4}  # fmt: skip


def table_of(**given: Any) -> Table:
    options = parse_options(STATED | given)
    fs = MemoryFileSystem()
    mor = TableType.MERGE_ON_READ
    create(fs, NewTable(SCHEMA, "t", mor, ("id",), ("part",), ("ts",), options, IndexKind.BUCKET))
    return Table(fs, options=options, engine=LocalEngine(2))


def opened(name: str) -> Table:
    return Table(small_table(name), options=parse_options(STATED), engine=LocalEngine(2))


def homes(table: Table) -> dict[tuple[str, str], str]:
    """The file id of each key of each partition."""
    names = ["_hoodie_record_key", "_hoodie_partition_path", "_hoodie_file_name"]
    rows = table.scan(names).to_arrow().to_pylist()
    return {(r[names[1]], r[names[0]]): r[names[2]].split("_")[0] for r in rows}


def homes_by_rings(table: Table, fields: tuple[str, ...] = ("id",)) -> dict[tuple[str, str], str]:
    """The same, as the rings that are kept say."""
    found = {}
    for path, key in homes(table):
        ring = load_ring(fs_of(table), path, lambda *_: True)
        assert ring is not None
        node = int(np.searchsorted(ring.ends, ring_hashes(pa.array([key]), fields)[0]))
        found[path, key] = ring.groups()[node].file_id
    return found


def test_xxh32_is_that_of_its_authors() -> None:
    data = bytearray()
    generator = 2654435761  # the buffer of xxHash's own sanity check
    for _ in range(222):
        data.append((generator >> 56) & 0xFF)
        generator = generator * 11400714785074694797 % (1 << 64)
    sizes = {0: 0x02CC5D05, 1: 0xCF65B03E, 14: 0x1208E7E2, 222: 0x5BD11DBD}
    for size, expected in sizes.items():
        assert int(xxh32(pa.array([bytes(data[:size])]))[0]) == expected
    assert xxh32(pa.array(["abc", None])).tolist() == [0x32D153FF, 0]


@pytest.mark.parametrize("name", TABLES)
def test_keys_are_where_apache_hudi_put_them(name: str) -> None:
    table = opened(name)
    assert homes(table) == homes_by_rings(table)


@pytest.mark.parametrize("name", TABLES)
def test_rings_are_written_as_apache_hudi_writes_them(name: str) -> None:
    fs = small_table(name)
    for partition in ("p0", "p1"):
        retained = {
            file.name: fs.read(file.path)
            for file in fs.children(f"{HASHING_METADATA_FOLDER}/{partition}")
        }
        retained = {file: data for file, data in retained.items() if file.endswith(SUFFIX)}
        assert len(retained) == 2  # buckets were split by a clustering
        for file, data in retained.items():
            assert ring_of(data, file).to_json() == data
        assert first_ring(partition, 4).to_json() == retained[f"{FIRST}.hashing_meta"]


@given(st.lists(st.text("ab:,_é", min_size=1, max_size=12), min_size=1, max_size=12))
def test_values_are_hashed_without_anything_between_them(keys: list[str]) -> None:
    fields = ("a", "b")
    want = []
    for key in keys:
        values = hash_field_values(key, fields) if ":" in key and "," in key else []
        text = "".join("null" if v is None else v for v in values) if values else key
        want.append(int(xxh32(pa.array([text]))[0]) & 0x7FFFFFFF)
    assert ring_hashes(pa.array(keys), fields).tolist() == want


@pytest.mark.parametrize("name", TABLES)
def test_a_table_of_apache_hudi_is_written_by_its_rings(name: str) -> None:
    table = opened(name)
    before = homes(table)
    old = table.scan(["id", "ts", "part", "k2"]).to_arrow()
    rows = old.set_column(1, "ts", pc.add(old["ts"], 10)).slice(0, 40)
    more = [
        {"id": f"new-{n}", "k2": "", "ts": 1, "part": ["p0", "p1", "p9"][n % 3]} for n in range(30)
    ]
    report = table.upsert(pa.concat_tables([rows, pa.Table.from_pylist(more, rows.schema)]))
    assert report.index.startswith("consistent-hashing bucket index")
    after = homes(table)
    assert {place: after[place] for place in before} == before
    assert len(after) == len(before) + 30
    assert after == homes_by_rings(table)
    assert fs_of(table).exists(f"{HASHING_METADATA_FOLDER}/p9/{FIRST}.hashing_meta")
    assert table.delete(keys=["new-3", "new-5", "nobody"]).deleted == 2
    assert len(homes(table)) == len(before) + 28


def test_a_new_table_keeps_its_rings() -> None:
    table = table_of()
    table.bulk_insert(batch(range(20), 1))
    reopened = Table(fs_of(table), options=parse_options({}), engine=LocalEngine(2))
    reopened.upsert(batch(range(10, 40), 2))
    reopened.insert(batch(range(35, 45), 3))
    assert [ts for _, ts, _ in rows_of(table)] == [1] * 10 + [2] * 25 + [3] * 10
    assert homes(table) == homes_by_rings(table)
    for partition in ("p0", "p1", "p2"):
        files = [
            file.name for file in fs_of(table).children(f"{HASHING_METADATA_FOLDER}/{partition}")
        ]
        assert files == [f"{FIRST}.hashing_meta"]


def test_a_dry_run_keeps_nothing() -> None:
    table = table_of()
    table.upsert(batch(range(9), 1), dry_run=True)
    assert fs_of(table).children(HASHING_METADATA_FOLDER) == []


@pytest.mark.parametrize("whole", [False, True])
def test_a_partition_that_is_overwritten_gets_a_new_ring(whole: bool) -> None:
    table = table_of()
    table.upsert(batch(range(30), 1))
    verb = table.insert_overwrite_table if whole else table.insert_overwrite
    verb(batch(range(20, 50), 2, "p0"))
    table.upsert(batch(range(40, 60), 3, "p0"))
    table.upsert(batch(range(3), 4))
    there = {key for key, _, part in rows_of(table) if part == "p0"}
    assert there == {f"k{i:03d}" for i in [0, *range(20, 60)]}
    assert homes(table) == homes_by_rings(table)
    names = [file.name for file in fs_of(table).children(f"{HASHING_METADATA_FOLDER}/p0")]
    assert sum(name.endswith(SUFFIX) for name in names) == 2
    assert not any(name.endswith(".commit") for name in names)


def test_deleted_partitions_start_empty() -> None:
    table = table_of()
    table.upsert(batch(range(30), 1))
    table.delete_partitions("p1")
    table.upsert(batch(range(4), 2))
    assert [key for key, _, part in rows_of(table) if part == "p1"] == ["k001"]


def test_a_ring_whose_write_failed_does_not_count() -> None:
    table = table_of()
    table.upsert(batch(range(30), 1))
    report = table.insert_overwrite(batch(range(6), 2, "p0"), publish=False)
    assert report.instant is not None
    assert fs_of(table).exists(f"{HASHING_METADATA_FOLDER}/p0/{report.instant}.hashing_meta")
    table.discard(report.instant)
    assert [file.name for file in fs_of(table).children(f"{HASHING_METADATA_FOLDER}/p0")] == [
        FIRST + SUFFIX
    ]
    before = homes(table)
    table.upsert(batch(range(30), 3))
    assert homes(table) == before
    assert [ts for _, ts, _ in rows_of(table)] == [3] * 30


def test_buckets_that_a_pending_clustering_splits_are_not_written() -> None:
    table = opened("mor_consistent_pending")
    rows = table.scan(["id", "ts", "part", "k2"]).to_arrow()
    with pytest.raises(WriteConflictError, match="pending clustering"):
        table.upsert(rows)
    assert table.scan().count() == len(rows)


def test_groups_that_were_replaced_are_not_written() -> None:
    table = opened("mor_consistent_overwritten")
    rows = table.scan(["id", "ts", "part", "k2"]).to_arrow()
    with pytest.raises(UserError, match="contains replaced file groups"):
        table.upsert(rows)


def test_copy_on_write_tables_and_other_engines_are_refused() -> None:
    options = parse_options(STATED)
    cow = TableType.COPY_ON_WRITE
    with pytest.raises(OptionError, match="merge-on-read"):
        create(
            MemoryFileSystem(),
            NewTable(SCHEMA, "t", cow, ("id",), ("part",), ("ts",), options, IndexKind.BUCKET),
        )
    table = table_of()
    simple = parse_options(STATED | {"hoodie.index.bucket.engine": "SIMPLE"})
    with pytest.raises(OptionError, match="table's bucket engine"):
        Table(fs_of(table), options=simple, engine=LocalEngine(1)).upsert(batch(range(3), 1))


@pytest.mark.parametrize(
    "change", [{"nodes": []}, {"nodes": [{"value": 1}]}, {"seqNo": "x"}, {"nodes": None}]
)
def test_a_ring_that_makes_no_sense_is_refused(change: dict[str, Any]) -> None:
    record = json.loads(first_ring("p", 2).to_json()) | change
    with pytest.raises(CorruptFileError, match="hashing metadata"):
        ring_of(json.dumps(record).encode(), "x.hashing_meta")


def test_a_hash_behind_the_last_node_is_the_first_ones() -> None:
    """Rings of Apache Hudi end at the greatest hash; nothing in their form says so."""
    ring = Ring("p", FIRST, 2, 0, (10, 20), ("a", "b"))
    finder = RingFinder(("id",), {"p": ring}, frozenset())
    rows = pa.table({
        "_hoodie_record_key": ["x", "y"],
        "_hoodie_partition_path": pa.array(["p", "p"]).dictionary_encode(),
        "deleted": [False, True],
    })  # fmt: skip
    found = finder.locate(MemoryFileSystem(), rows)
    assert found.rows.tolist() == [0]
    assert [found.groups[home].file_id for home in found.homes] == ["a-0"]

"""Writes to tables with a record index by partition: tables of Apache Hudi 1.2.0, and new ones.

A key may be in several partitions.  After every step the rows are those expected, the index
locates each of them, and the metadata table agrees with the files.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from pyhudi import create_table
from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import OptionError, UnsupportedTableError, UserError
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileSystem
from tests.read.test_partitioned_record_index import OTHER, opened, rows_of
from tests.support.inside import fs_of, state_of

INDEX = ".hoodie/metadata/record_index"
COLUMNS = ["id", "part", "v"]
Rows = dict[tuple[str, str], str]


def batch(keys: Iterable[int], partition: str, value: str, ts: int = 9) -> pa.Table:
    ids = pa.array([f"k{n:03}" for n in keys], pa.string())
    count = len(ids)
    return pa.table(
        {
            "id": ids,
            "part": pa.array([partition] * count, pa.string()),
            "ts": pa.array([ts] * count, pa.int64()),
            "v": pa.array([value] * count, pa.string()),
        }
    )


def put(rows: Rows, keys: Iterable[int], partition: str, value: str) -> None:
    rows.update({(f"k{n:03}", partition): value for n in keys})


def again(table: Table, **options: str) -> Table:
    return Table(fs_of(table), options=parse_options(options), engine=LocalEngine(2))


def check(table: Table, rows: Rows) -> None:
    """The table has these rows, and its index one entry for each of them."""
    table = again(table)
    read = table.scan(COLUMNS).to_arrow().to_pylist()
    assert len(read) == len(rows)
    assert {(row["id"], row["part"]): row["v"] for row in read} == rows
    verified = table.index.verify()
    assert (verified.keys, verified.entries, verified.faults) == (len(rows), len(rows), {})
    assert not table.metadata.verify().findings
    keys = sorted({key for key, _ in rows})
    found = table.index.lookup(keys).filter(pc.field("found"))
    pairs = zip(found.column(0).to_pylist(), found.column(1).to_pylist(), strict=True)
    assert sorted(pairs) == sorted(rows)


def group_files(fs: FileSystem, part: str) -> list[str]:
    return sorted(each.name for each in fs.children(INDEX) if f"-{part}-" in each.name)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_an_upsert_maintains_the_index_of_each_partition(kind: str) -> None:
    table, rows = opened(kind), rows_of(kind)
    report = table.upsert(pa.concat_tables([
        batch([1, 2, 41], OTHER[kind], "a"), batch([1, 2, 15], "pb", "b"),
    ]))  # fmt: skip
    fresh = sum((f"k{n:03}", "pb") not in rows for n in (1, 2, 15)) + 1
    assert (report.new, report.matched) == (fresh, 6 - fresh)
    put(rows, [1, 2, 41], OTHER[kind], "a")
    put(rows, [1, 2, 15], "pb", "b")
    check(table, rows)
    again(table).upsert(batch([41], OTHER[kind], "c"))
    put(rows, [41], OTHER[kind], "c")
    check(table, rows)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_new_partition_gets_file_groups(kind: str) -> None:
    table, rows = opened(kind), rows_of(kind)
    report = table.upsert(batch(range(30), "new/it-1=%", "n"))
    put(rows, range(30), "new/it-1=%", "n")
    check(table, rows)
    first, log = group_files(fs_of(table), "new%2Fit%2D1%3D%25")
    name = f".record-index-new%2Fit%2D1%3D%25-0000-0_{report.instant}.log.1_"
    assert sorted([first.startswith(name), log.startswith(name)]) == [True, True]
    assert {first, log} & {f"{name}0-0-0"}
    table.upsert(batch(range(20, 40), "new/it-1=%", "m"))
    put(rows, range(20, 40), "new/it-1=%", "m")
    check(table, rows)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_partition_with_underscores_is_indexed(kind: str) -> None:
    table, rows = opened(kind), rows_of(kind)
    small = {
        "hoodie.parquet.small.file.limit": "0",
        "hoodie.metadata.compact.max.delta.commits": "2",
    }
    for keys in (range(3), range(4), range(1, 5)):
        again(table, **small).upsert(batch(keys, "a_b", f"v{len(keys)}"))
        put(rows, keys, "a_b", f"v{len(keys)}")
        check(table, rows)
    names = group_files(fs_of(table), "a%5Fb")
    assert any(name.endswith(".hfile") for name in names)


def test_the_options_state_the_groups_of_a_new_partition() -> None:
    table, rows = opened("cow"), rows_of("cow")
    option = {"hoodie.metadata.record.level.index.min.filegroup.count": "3"}
    again(table, **option).upsert(batch(range(100), "three", "n"))
    put(rows, range(100), "three", "n")
    check(table, rows)
    names = group_files(fs_of(table), "three")
    assert {name.split("-three-")[1][:4] for name in names} == {"0000", "0001", "0002"}
    assert len(names) == 6


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_inserts_and_deletes_maintain_the_index(kind: str) -> None:
    table, rows = opened(kind), rows_of(kind)
    table.insert(batch([50, 51], "pb", "i"))
    put(rows, [50, 51], "pb", "i")
    check(table, rows)
    table.bulk_insert(batch([60, 61], "bulk", "i"))
    put(rows, [60, 61], "bulk", "i")
    check(table, rows)
    shared = pa.table({"id": ["k015", "k016"], "part": ["pb", "pb"]})
    again(table).delete(shared)
    for key in ("k015", "k016"):
        del rows[key, "pb"]
    check(table, rows)
    again(table).delete(keys=["k012", "k050", "nope"])
    rows = {place: value for place, value in rows.items() if place[0] not in ("k012", "k050")}
    check(table, rows)
    again(table).delete(where=pc.field("v") == "i")
    rows = {place: value for place, value in rows.items() if value != "i"}
    check(table, rows)
    table.upsert(batch([15, 50], "pb", "back"))
    put(rows, [15, 50], "pb", "back")
    check(table, rows)


@pytest.mark.parametrize("index", ["SIMPLE", "BLOOM"])
@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_an_index_that_is_not_global_maintains_it_too(kind: str, index: str) -> None:
    table, rows = opened(kind, {"hoodie.index.type": index}), rows_of(kind)
    table.upsert(pa.concat_tables([batch([1, 70], "pb", "b"), batch([1, 70], "pn", "n")]))
    for partition, value in (("pb", "b"), ("pn", "n")):
        put(rows, [1, 70], partition, value)
    check(table, rows)
    table.delete(keys=["k001", "k015"])
    rows = {place: value for place, value in rows.items() if place[0] not in ("k001", "k015")}
    check(table, rows)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_overwrites_maintain_the_index(kind: str) -> None:
    table, rows = opened(kind), rows_of(kind)
    table.insert_overwrite(batch([12, 90], "pb", "o"))
    rows = {place: value for place, value in rows.items() if place[1] != "pb"}
    put(rows, [12, 90], "pb", "o")
    check(table, rows)
    again(table).delete_partitions([OTHER[kind]])
    rows = {place: value for place, value in rows.items() if place[1] != OTHER[kind]}
    check(table, rows)
    again(table).upsert(batch([7], OTHER[kind], "u"))
    put(rows, [7], OTHER[kind], "u")
    check(table, rows)
    again(table).insert_overwrite_table(batch([1, 2], "pz", "t"))
    check(table, {("k001", "pz"): "t", ("k002", "pz"): "t"})


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_services_keep_the_index_exact(kind: str) -> None:
    options = {"hoodie.metadata.compact.max.delta.commits": "2"}
    table, rows = opened(kind, options), rows_of(kind)
    for number in range(6):
        keys = range(number, 40, 5)
        table.upsert(batch(keys, "pb", f"s{number}", 10 + number))
        put(rows, keys, "pb", f"s{number}")
    check(table, rows)
    bases = [n for n in group_files(fs_of(table), "pb") if n.endswith(".hfile")]
    assert bases
    if kind == "mor":
        table.compact()
        check(table, rows)
    clustered = again(table, **{"hoodie.clustering.plan.strategy.sort.columns": "id"})
    clustered.cluster()
    check(table, rows)
    again(table, **{"hoodie.clean.commits.retained": "1"}).clean()
    check(table, rows)
    again(table).upsert(batch([0, 99], "pb", "end", 99))
    put(rows, [0, 99], "pb", "end")
    check(table, rows)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_rollback_removes_entries_and_new_groups(kind: str) -> None:
    table, rows = opened(kind), rows_of(kind)
    table.upsert(batch([80], "pb", "b"))
    put(rows, [80], "pb", "b")
    report = table.upsert(pa.concat_tables([batch([81], "pb", "c"), batch([81], "px", "x")]))
    assert report.instant is not None
    table.rollback(report.instant)
    check(table, rows)
    assert not group_files(fs_of(table), "px")
    again(table).upsert(batch([81], "px", "x"))
    put(rows, [81], "px", "x")
    check(table, rows)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_restore_returns_the_index(kind: str) -> None:
    table, rows = opened(kind), rows_of(kind)
    saved = table.savepoint()
    table.upsert(pa.concat_tables([batch([81], "pb", "c"), batch([81], "px", "x")]))
    table.delete(keys=["k003"])
    again(table).restore(saved.instant)
    check(table, rows)
    again(table).upsert(batch([81], "px", "x"))
    put(rows, [81], "px", "x")
    check(table, rows)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_optimistic_writers_maintain_the_index(kind: str) -> None:
    options = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.cleaner.policy.failed.writes": "LAZY",
    }
    table, rows = opened(kind, options), rows_of(kind)
    table.upsert(pa.concat_tables([batch([1, 81], "pb", "c"), batch([1, 81], "p-x", "x")]))
    for partition, value in (("pb", "c"), ("p-x", "x")):
        put(rows, [1, 81], partition, value)
    check(table, rows)


@pytest.mark.parametrize(
    "index", ["RECORD_INDEX", "GLOBAL_RECORD_LEVEL_INDEX", "GLOBAL_SIMPLE", "GLOBAL_BLOOM"]
)
def test_a_global_index_conflicts_with_it(index: str) -> None:
    table = opened("cow", {"hoodie.index.type": index})
    with pytest.raises(OptionError, match="kind of the table's record index"):
        table.upsert(batch([1], "pb", "b"))


BY_PARTITION = {"hoodie.index.type": "RECORD_LEVEL_INDEX"}


def made(path: Any, kind: str = "cow", index: str = "partitioned_record", **more: Any) -> Table:
    return create_table(
        path, batch([], "p", "v").schema, record_key="id", partition_by="part", ordering="ts",
        table_type=kind, version=more.pop("version", 9), index=index, **more,
    )  # fmt: skip


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_new_table_has_no_groups_before_its_first_write(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path / "t", kind)
    assert [each.name for each in fs_of(table).children(INDEX)] == [".hoodie_partition_metadata"]
    definitions = json.loads(fs_of(table).read(".hoodie/.index_defs/index.json"))
    stated = definitions["indexDefinitions"]["record_index"]
    assert stated["indexOptions"] == {"isPartitioned": "true"}
    check(table, {})
    rows: Rows = {}
    table.upsert(pa.concat_tables([batch(range(10), "a-b", "v"), batch(range(5), "c", "w")]))
    put(rows, range(10), "a-b", "v")
    put(rows, range(5), "c", "w")
    check(table, rows)
    assert "partitioned record index" in table.upsert(batch([3], "c", "x")).index
    put(rows, [3], "c", "x")
    check(table, rows)


def test_options_alone_choose_it_for_a_new_table(tmp_path: Path) -> None:
    for number, options in enumerate(
        (BY_PARTITION, {"hoodie.metadata.record.level.index.enable": "true",
                        "hoodie.index.type": "SIMPLE"})
    ):  # fmt: skip
        table = made(tmp_path / str(number), index="record", options=options)
        table.upsert(pa.concat_tables([batch([1], "a", "v"), batch([1], "b", "w")]))
        check(table, {("k001", "a"): "v", ("k001", "b"): "w"})


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_an_index_is_created_and_rebuilt_from_the_keys(tmp_path: Path, kind: str) -> None:
    table = made(tmp_path / "t", kind, index="simple")
    rows: Rows = {}
    for partition in ("a-b", "c", "d"):
        table.upsert(batch(range(30), partition, partition))
        put(rows, range(30), partition, partition)
    plan = table.index.create("partitioned_record", dry_run=True)
    assert (plan.file_groups, plan.dry_run) == (3, True)
    created = table.index.create("partitioned_record")
    assert (created.file_groups, created.entries) == (3, 90)
    check(table, rows)
    again(table).upsert(batch([1, 99], "c", "u"))
    put(rows, [1, 99], "c", "u")
    check(table, rows)
    assert again(table).index.rebuild(2, dry_run=True).buckets == 6
    rebuilt = again(table).index.rebuild(2)
    assert (rebuilt.buckets, rebuilt.entries) == (6, 91)
    check(table, rows)
    by_index = again(table, **BY_PARTITION)
    by_index.upsert(pa.concat_tables([batch([2, 99], "c", "w"), batch([7], "e", "e")]))
    put(rows, [2, 99], "c", "w")
    put(rows, [7], "e", "e")
    check(table, rows)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_damaged_index_is_rebuilt(kind: str) -> None:
    table, rows = opened(kind), rows_of(kind)
    lost = [each.path for each in fs_of(table).children(INDEX) if "-pc-" in each.name]
    fs_of(table).delete(lost)
    again(table).index.rebuild()
    check(table, rows)
    again(table).metadata.rebuild()
    check(table, rows)
    counts = state_of(again(table)).locations.group_counts  # type: ignore[union-attr]
    assert counts == {OTHER[kind]: 2, "pb": 2, "pc": 2} | {"pc": 1}
    fs_of(table).replace(".hoodie/.index_defs/index.json", b"{")
    again(table).metadata.rebuild()
    check(table, rows)


def test_a_table_that_cannot_have_one_is_rejected_before_it_is_made(tmp_path: Path) -> None:
    with pytest.raises(UserError, match="version 9"):
        made(tmp_path / "t", version=8)
    with pytest.raises(UserError, match="without partitions"):
        create_table(
            tmp_path / "t", batch([], "p", "v").schema, record_key="id", version=9,
            index="partitioned_record",
        )  # fmt: skip
    assert not (tmp_path / "t").exists()
    table = made(tmp_path / "t", index="record")
    with pytest.raises(OptionError, match="kind of the table's record index"):
        again(table, **BY_PARTITION).upsert(batch([1], "a", "v"))
    with pytest.raises(OptionError, match="a global index"):
        made(tmp_path / "u", index="global_simple",
             options={"hoodie.metadata.record.level.index.enable": "true"})  # fmt: skip


def test_a_global_index_becomes_one_by_partition_but_not_the_reverse(tmp_path: Path) -> None:
    table = made(tmp_path / "t", index="record")
    rows: Rows = {}
    table.upsert(batch(range(20), "a", "v"))
    put(rows, range(20), "a", "v")
    table.index.rebuild(kind="partitioned_record")
    check(table, rows)
    again(table).upsert(batch(range(10, 30), "b", "w"))
    put(rows, range(10, 30), "b", "w")
    check(table, rows)
    with pytest.raises(UnsupportedTableError, match="by partition"):
        again(table).index.rebuild(kind="record")
    with pytest.raises(UnsupportedTableError, match="by partition"):
        again(table).index.create("secondary", "v")
    check(table, rows)


@pytest.mark.parametrize("kind", ["cow", "mor"])
def test_a_discarded_write_leaves_no_group_and_a_published_one_does(kind: str) -> None:
    table, rows = opened(kind), rows_of(kind)
    given = pa.concat_tables([batch([1, 81], "pb", "c"), batch([1, 81], "p-x", "x")])
    deferred = table.upsert(given, publish=False)
    assert group_files(fs_of(table), "p%2Dx")
    check(table, rows)
    table.discard(str(deferred.instant))
    assert not group_files(fs_of(table), "p%2Dx")
    check(table, rows)
    table.publish(str(again(table).upsert(given, publish=False).instant))
    for partition, value in (("pb", "c"), ("p-x", "x")):
        put(rows, [1, 81], partition, value)
    check(table, rows)

"""A merge searches the index once for each key, and writes as if it had searched twice."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest

import pyhudi
from pyhudi.engine import LocalEngine
from pyhudi.index import key_join, record
from pyhudi.index.contract import Located
from pyhudi.index.known_places import KnownFirst, KnownPlaces
from pyhudi.records import FileGroupId
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.storage.spill import MemoryStaging
from pyhudi.write import plan_steps
from tests.support.slice_reads import partitions_read

SCHEMA = pa.schema({"id": pa.string(), "city": pa.string(), "fare": pa.int64(), "ts": pa.int64()})
MOVES = {
    "record": "hoodie.record.index.update.partition.path",
    "global_simple": "hoodie.simple.index.update.partition.path",
    "global_bloom": "hoodie.bloom.index.update.partition.path",
}
Rows = dict[tuple[str, str], tuple[int, int]]


def rows(*given: tuple[str, str, int, int]) -> pa.Table:
    return pa.Table.from_pylist([dict(zip(SCHEMA.names, r, strict=True)) for r in given], SCHEMA)


def made(path: Path, index: str, **how: Any) -> Any:
    how = {"table_type": "cow", "ordering": "ts", "version": 9} | how
    table = pyhudi.create_table(
        path, SCHEMA, record_key="id", partition_by="city", index=index, **how
    )
    table.upsert(rows(*((f"k{n}", f"c{n % 2}", n, 1) for n in range(20))))
    return table


def stored(table: Any) -> Rows:
    found = table.to_arrow().to_pylist()
    by_key = {(row["id"], row["city"]): (row["fare"], row["ts"]) for row in found}
    assert len(by_key) == len(found)
    return by_key


def merged(table: Any, source: pa.Table) -> Any:
    merge = table.merge(source).when_matched_delete("source.fare < 0")
    return merge.when_matched_update().when_not_matched_insert()


@pytest.fixture
def searches(monkeypatch: pytest.MonkeyPatch) -> list[Counter[str]]:
    """The keys that each tagging of rows searches an index for."""
    found: list[Counter[str]] = []
    tag, probes, look_up = plan_steps.tag_rows, key_join.probes_of, record.lookup_bucket

    def tagged(*given: Any) -> Any:
        found.append(Counter())
        return tag(*given)

    def probed(*given: Any, **how: Any) -> Any:
        sought_keys = probes(*given, **how)
        for some in sought_keys:
            found[-1].update(some.keys.to_pylist())
        return sought_keys

    def looked_up(fs: Any, bucket: Any, keys: pa.Array, *rest: Any) -> Any:
        found[-1].update(keys.to_pylist())
        return look_up(fs, bucket, keys, *rest)

    monkeypatch.setattr(plan_steps, "tag_rows", tagged)
    monkeypatch.setattr(key_join, "probes_of", probed)
    monkeypatch.setattr(record, "lookup_bucket", looked_up)
    return found


@pytest.mark.parametrize(
    "index", ["record", "partitioned_record", "bloom", "simple", "global_bloom", "global_simple"]
)
def test_the_index_is_searched_once_for_the_keys_of_a_merge(
    tmp_path: Path, index: str, searches: list[Counter[str]]
) -> None:
    table = made(tmp_path / "t", index)
    searches.clear()
    report = merged(table, rows(("k1", "c1", 7, 2), ("k2", "c0", -1, 2), ("new", "c0", 7, 2)))
    assert (report := report.execute()).deleted == report.inserted == report.updated == 1
    assert [set(keys) for keys in searches] == [{"k1", "k2", "new"}, set()]
    if index == "record":
        assert report.lookup["keys"] == 3


def test_only_keys_that_the_source_lacks_are_searched_again(
    tmp_path: Path, searches: list[Counter[str]]
) -> None:
    table = made(tmp_path / "t", "record")
    searches.clear()
    merge = table.merge(rows(("k1", "c1", 7, 2))).when_matched_update()
    merge.when_not_matched_by_source_delete("fare > 17").execute()
    assert [set(keys) for keys in searches] == [{"k1"}, {"k18", "k19"}]
    assert len(stored(table)) == 18


def test_a_maintained_index_is_searched_once(tmp_path: Path, searches: list[Counter[str]]) -> None:
    made(tmp_path / "t", "record")
    options = {"hoodie.index.type": "GLOBAL_SIMPLE"}
    table = pyhudi.open_table(tmp_path / "t", options=options, engine=LocalEngine(1))
    searches.clear()
    merged(table, rows(("k1", "c1", 7, 2), ("k2", "c0", -1, 2), ("new", "c0", 7, 2))).execute()
    once = dict.fromkeys(("k1", "k2", "new"), 1)
    assert searches == [once, once]  # in all files, then in the record index
    assert table.lookup(["k1", "k2", "new"]).column("found").to_pylist() == [True, False, True]


@pytest.mark.parametrize(("index", "shadow"), [("bloom", "simple"), ("simple", "global_simple")])
def test_a_shadow_index_is_searched_for_all_keys_of_a_merge(
    tmp_path: Path, index: str, shadow: str
) -> None:
    table = made(tmp_path / "t", index, options={"pyhudi.index.shadow": shadow})
    given = rows(("k1", "c1", 7, 2), ("k2", "c0", -1, 2), ("new", "c0", 7, 2))
    report = merged(table, given).execute()
    assert not any("elsewhere" in note for note in report.notes)
    assert len(stored(table)) == 20


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("moves", ["true", "false"])
@pytest.mark.parametrize("index", sorted(MOVES))
def test_a_key_in_another_partition_goes_where_an_upsert_puts_it(
    tmp_path: Path, table_type: str, moves: str, index: str
) -> None:
    given = rows(("k1", "c9", 7, 2), ("k2", "c1", 8, 2), ("k3", "c1", -1, 2), ("new", "c9", 9, 2))
    found = []
    for way in ("merge", "upsert"):
        table = made(tmp_path / way, index, table_type=table_type, options={MOVES[index]: moves})
        if way == "merge":
            merged(table, given).execute()
        else:
            table.delete(keys=["k3"])
            table.upsert(given.filter(pa.array([True, True, False, True])))
        found.append(stored(table))
    assert found[0] == found[1]
    assert (("k1", "c9") in found[0]) is (moves == "true")


@pytest.mark.parametrize("table_type", ["cow", "mor"])
@pytest.mark.parametrize("index", ["partitioned_record", "bloom", "simple", "bucket"])
def test_a_key_of_two_partitions_is_two_records(
    tmp_path: Path, table_type: str, index: str
) -> None:
    options = {"hoodie.bucket.index.num.buckets": 2} if index == "bucket" else {}
    table = made(tmp_path / "t", index, table_type=table_type, options=options)
    table.upsert(rows(("k1", "c0", 1, 1)))
    merged(table, rows(("k1", "c0", -1, 2), ("k1", "c1", 5, 2), ("k1", "c2", 6, 2))).execute()
    found = {city: row for (key, city), row in stored(table).items() if key == "k1"}
    assert found == {"c1": (5, 2), "c2": (6, 2)}


@pytest.mark.parametrize("index", ["record", "bloom", "simple", "global_simple"])
@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_key_that_a_log_deletes_comes_back_by_a_merge(
    tmp_path: Path, index: str, version: int
) -> None:
    table = made(tmp_path / "t", index, table_type="mor", version=version)
    table.delete(keys=["k1", "k3"])
    merged(table, rows(("k1", "c1", 7, 2), ("k5", "c1", -1, 2))).execute()
    found = stored(table)
    assert found["k1", "c1"] == (7, 2) and len(found) == 18
    merged(table, rows(("k1", "c1", 8, 3), ("k3", "c1", 9, 3))).execute()
    table.compact()
    assert stored(table) == found | {("k1", "c1"): (8, 3), ("k3", "c1"): (9, 3)}


def test_a_key_that_moves_while_a_merge_is_planned_is_searched_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    options = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.write.num.retries.on.conflict.failures": 3,
        MOVES["record"]: "true",
    }
    made(tmp_path / "t", "record")
    table, other = (pyhudi.open_table(tmp_path / "t", options=options) for _ in range(2))
    write: Callable[..., Any] = plan_steps.rows_to_write
    calls = 0

    def racing(*given: Any) -> Any:
        nonlocal calls
        calls += 1
        found = write(*given)
        if calls == 1:
            other.upsert(rows(("k1", "c0", 50, 5), ("late", "c0", 50, 5)))
        return found

    monkeypatch.setattr(plan_steps, "rows_to_write", racing)
    report = merged(table, rows(("k1", "c1", 7, 9), ("late", "c1", 7, 9))).execute()
    assert calls == 2 and report.conflicts == 1
    found = stored(table)
    assert found["k1", "c1"] == found["late", "c1"] == (7, 9) and len(found) == 21


GROUPS = (FileGroupId("c0", "f0"), FileGroupId("c1", "f1"))


def sought(*given: tuple[str, str, bool]) -> pa.Table:
    keys, paths, deleted = zip(*given, strict=True)
    return pa.table(
        {
            "_hoodie_record_key": pa.array(keys),
            "_hoodie_partition_path": pa.array(paths).dictionary_encode(),
            "deleted": pa.array(deleted),
        }
    )


class Answering:
    """A finder that finds each row in one new group."""

    def locate(self, fs: Any, rows: pa.Table) -> Located:
        assert rows.column("_hoodie_record_key").to_pylist() == ["d"]
        return Located(np.arange(1), np.zeros(1, np.int32), (FileGroupId("c2", "f2"), *GROUPS[:1]))


@pytest.mark.parametrize("everywhere", [False, True])
def test_known_places_come_before_those_that_a_search_finds(everywhere: bool) -> None:
    sought_keys = sought(
        ("a", "c0", False), ("b", "c1", False), ("c", "c1", False), ("d", "c1", True)
    )
    places = Located(
        np.array([0, 0, 1, 3]),
        np.array([0, 1, 1, 0], np.int32),
        GROUPS,
        ended=np.array([False, True, True, False]),
        positions=np.array([4, 5, 6, 7], np.int32),
    )
    known = KnownPlaces.of(sought_keys, places, MemoryStaging(), everywhere=everywhere)
    rows = sought(
        ("c", "c1", False), ("d", "c1", False), ("b", "c1", True), ("a", "c0", False),
        ("b", "c1", False), ("a", "c0", True),
    )  # fmt: skip
    found = KnownFirst(known, Answering()).locate(MemoryFileSystem(), rows)
    assert found.rows.tolist() == [1, 3, 3, 4, 5]
    groups = [found.groups[home].file_id for home in found.homes]
    assert groups == ["f2", "f0", "f1", "f1", "f0"]
    assert found.ended is not None and found.positions is not None
    assert found.ended.tolist() == [False, False, True, True, False]
    assert found.positions.tolist() == [-1, 4, 5, 6, 4]
    other = sought(("a", "c1", False), ("a", "c0", False))
    assert known.numbers(other).tolist() == ([0, 0] if everywhere else [-1, 0])


@pytest.mark.parametrize("index", ["record", "partitioned_record", "bloom", "simple", "bucket"])
@pytest.mark.parametrize("table_type", ["cow", "mor"])
def test_records_are_not_read_where_clauses_take_all_from_the_source(
    tmp_path: Path, index: str, table_type: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = made(tmp_path / "t", index, table_type=table_type, ordering=None)
    read = partitions_read(monkeypatch)
    expected = stored(table)
    for turn in range(2):
        report = merged(
            table,
            rows((f"k{1 + turn}", f"c{1 - turn}", 50, 2), (f"k{3 + turn}", f"c{1 - turn}", -1, 2)),
        ).execute()
        assert (report.updated, report.deleted, report.inserted) == (1, 1, 0)
        expected[f"k{1 + turn}", f"c{1 - turn}"] = (50, 2)
        del expected[f"k{3 + turn}", f"c{1 - turn}"]
        assert stored(table) == expected
    # a bucket may lack the keys that belong there
    assert bool(read) is (index == "bucket")
    merged(table, rows(("k5", "c1", 60, 3), ("k8", "c0", 60, 3))).execute()
    assert stored(table) == expected | {("k5", "c1"): (60, 3), ("k8", "c0"): (60, 3)}
    is_in_base = table_type == "cow" or index.endswith("record")  # logs may delete what others find
    assert bool(read) is (index == "bucket" or not is_in_base)
    ordered = made(tmp_path / "o", index, table_type="mor")
    for ts in (2, 3):
        read.clear()
        ordered.merge(rows(("k1", "c1", 60, ts))).when_matched_update().execute()
    assert read  # a delete with an older ordering value than the record has no effect

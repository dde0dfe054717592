"""The elastic index: it grows, goes with its table's commits, and never answers for others'."""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import IndexNotReadyError, OptionError, UnsupportedTableError
from pyhudi.metadata.elastic import store
from pyhudi.metadata.elastic.state import Segment
from pyhudi.metadata.elastic.store import (
    PYHUDI_INDEX_TYPE,
    ROOT,
    STATES_RETAINED,
    newest_state,
    state_names,
)
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableType, load_config, store_config
from pyhudi.write.table_creation import NewTable
from tests.support.inside import fs_of

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
GROWTHS = ["SEAL", "GROUPS"]
COW = TableType.COPY_ON_WRITE


def rows(ids: Any, ts: int = 1, part: str | None = None) -> pa.Table:
    made = [{"id": f"k{i:04d}", "ts": ts, "part": part or f"p{i % 3}"} for i in ids]
    return pa.Table.from_pylist(made, SCHEMA)


def opened(fs: FileSystem, **given: Any) -> Table:
    options = {f"hoodie.{name.replace('__', '.')}": value for name, value in given.items()}
    return Table(fs, options=parse_options(options), engine=LocalEngine(2))


def made(
    growth: str = "SEAL", entries: int = 8, kind: TableType = COW, hash: str = "java", **more: Any
) -> Table:
    """A table of two buckets, planned for so many entries each."""
    options = parse_options(
        {
            "hoodie.metadata.record.index.min.filegroup.count": 2,
            "hoodie.metadata.compact.max.delta.commits": 3,
            "hoodie.record.index.update.partition.path": True,
            "pyhudi.index.elastic.growth": growth,
            "pyhudi.index.elastic.hash": hash,
            "pyhudi.index.elastic.bucket.entries": entries,
            **more,
        }
    )
    fs = MemoryFileSystem()
    definition = NewTable(SCHEMA, "t", kind, ("id",), ("part",), (), options, IndexKind.ELASTIC)
    create(fs, definition)
    return Table(fs, options=options, engine=LocalEngine(2))


def in_step(table: Table) -> int:
    """How many keys there are; the index has each where a scan finds it, and no others."""
    columns = ["_hoodie_record_key", "_hoodie_file_name", "_hoodie_partition_path"]
    found = {r.pop(columns[0]): r for r in table.scan(columns).to_arrow().to_pylist()}
    for row in table.lookup([f"k{i:04d}" for i in range(200)]).to_pylist():
        where = found.get(row["record_key"])
        assert row["found"] == (where is not None), row
        if where is not None:
            assert where["_hoodie_file_name"].startswith(row["file_id"])
            assert where["_hoodie_partition_path"] == row["partition_path"]
    assert table.index.verify().is_exact
    return len(found)


def test_an_index_that_lost_its_files_before_the_first_commit_is_created_again() -> None:
    table = made()
    fs_of(table).delete_folder(ROOT)
    table.upsert(rows(range(20)))
    assert in_step(table) == 20


@pytest.mark.parametrize("kind", list(TableType))
@pytest.mark.parametrize("growth", GROWTHS)
def test_it_grows_and_stays_exact(growth: str, kind: TableType) -> None:
    table = made(growth, kind=kind)
    for turn in range(5):
        report = table.upsert(rows(range(turn * 20, turn * 20 + 30), turn))
        assert report.inserted == (30 if turn == 0 else 20)
        assert report.index.startswith("elastic index, 2 buckets: stored in the table's properties")
    table.delete(keys=["k0000", "k0001", "k0100"])
    table.upsert(rows([0, 50, 51], 9, "p9"))
    assert in_step(table) == 108
    stats = table.index.stats()
    assert stats.file_groups > 3 and stats.load > 1
    assert len(stats.groups) == (1 if growth == "SEAL" else stats.file_groups // 2)
    assert "table.index.rebuild(" in stats.advice
    assert table.index.stats().bucket_count == 2


@pytest.mark.parametrize("growth", GROWTHS)
def test_a_tombstone_outlives_compactions_while_an_older_file_group_has_the_key(
    growth: str,
) -> None:
    table = made(growth)
    table.insert(rows(range(40)))
    gone = [f"k{i:04d}" for i in range(0, 40, 2)]
    table.upsert(rows(range(40, 44)))  # the first one opened a file group or group
    table.delete(keys=gone)
    for turn in range(8):  # compactions of what holds the tombstones
        table.upsert(rows([60 + turn]))
        assert not any(table.lookup(gone)["found"].to_pylist())
    assert in_step(table) == 32
    table.insert(rows(range(0, 10, 2)))
    assert in_step(table) == 37


@pytest.mark.parametrize("growth", GROWTHS)
def test_many_keys_are_looked_up_in_all_file_groups_at_one_time(growth: str) -> None:
    table = made(growth)
    drawn = random.Random(5)
    for turn in range(6):
        table.upsert(rows(drawn.sample(range(200), 60), turn, f"p{turn % 2}"))
        table.delete(keys=[f"k{i:04d}" for i in drawn.sample(range(200), 15)])
    some = [f"k{i:04d}" for i in range(200)] + [None]
    one = table.lookup(some)
    many = table.lookup(some * 40)  # more than are worth spreading
    assert many.to_pylist() == one.to_pylist() * 40
    assert in_step(table) > 50


@pytest.mark.parametrize("growth", GROWTHS)
def test_entries_and_places_of_earlier_instants_are_reported(growth: str) -> None:
    table = made(growth)
    first = table.insert(rows(range(20)))
    second = table.upsert(rows(range(15, 30), 2, "p7"))
    third = table.delete(keys=["k0016", "k0001"])
    assert first.instant and second.instant and third.instant
    then = table.index.lookup(["k0016", "k0001", "k0025"], as_of=second.instant).to_pylist()
    assert [row["partition_path"] for row in then] == ["p7", "p1", "p7"]
    assert not any(table.index.lookup(["k0025"], as_of=first.instant)["found"].to_pylist())
    reported = table.index.entries(second.instant)
    assert sorted(reported["record_key"].to_pylist()) == ["k0001", "k0016"]
    assert all(reported["ended"].to_pylist())


def lagging(**given: Any) -> Table:
    """A table that a writer has written which knows nothing of the index."""
    table = made()
    table.insert(rows(range(20)))
    config = load_config(fs_of(table))
    store_config(fs_of(table), config.with_properties({PYHUDI_INDEX_TYPE: None}))
    opened(fs_of(table), index__type="SIMPLE").upsert(rows(range(15, 25), 2))
    store_config(
        fs_of(table), load_config(fs_of(table)).with_properties({PYHUDI_INDEX_TYPE: "ELASTIC"})
    )
    return opened(fs_of(table), **given)


def test_a_commit_of_another_writer_is_noticed_and_a_rebuild_takes_it_in() -> None:
    table = lagging()
    for call in (
        lambda: table.lookup(["k0001"]),
        lambda: table.upsert(rows([1])),
        lambda: table.index.verify(),
        lambda: table.index.stats(),
    ):
        with pytest.raises(IndexNotReadyError, match="lacks commits of other writers") as caught:
            call()
        assert "table.index.rebuild()" in str(caught.value)
    assert table.scan(["id"]).count() == 25
    table.index.rebuild()
    assert in_step(table) == 25
    assert table.index.stats().bucket_count >= 2
    table.upsert(rows(range(20, 40), 3))
    assert in_step(table) == 40


def test_another_index_may_write_and_keeps_it_in_step() -> None:
    table = made()
    table.insert(rows(range(20)))
    opened(fs_of(table), index__type="GLOBAL_SIMPLE").upsert(rows(range(10, 30), 2))
    assert in_step(table) == 30
    late = lagging(index__type="GLOBAL_SIMPLE")
    late.upsert(rows(range(20, 30), 3))  # nothing is put on top of what lacks commits
    with pytest.raises(IndexNotReadyError, match="lacks commits"):
        opened(fs_of(late)).lookup(["k0001"])


@pytest.mark.parametrize("growth", GROWTHS)
def test_what_is_taken_back_is_out_of_the_index(growth: str) -> None:
    table = made(growth)
    first = table.insert(rows(range(20)))
    assert first.instant
    table.savepoint(first.instant)
    for turn in range(4):
        last = table.upsert(rows(range(10 + 10 * turn, 40 + 10 * turn), turn, f"p{turn}"))
    table.rollback(last.instant)
    assert in_step(table) == 60
    table.restore(first.instant)
    assert in_step(table) == 20
    table.upsert(rows(range(10, 90), 9))
    assert in_step(table) == 90


def test_a_deferred_write_is_in_the_index_when_it_is_published() -> None:
    table = made()
    table.insert(rows(range(10)))
    deferred = table.upsert(rows(range(5, 15), 2), publish=False)
    assert in_step(table) == 10
    table.publish(deferred.instant)
    assert in_step(table) == 15
    table.discard(table.upsert(rows(range(50, 70)), publish=False).instant)
    assert in_step(table) == 15
    table.upsert(rows(range(60, 70)))
    assert in_step(table) == 25


@pytest.mark.parametrize("growth", GROWTHS)
def test_services_of_the_table_go_with_it(growth: str) -> None:
    table = made(growth, kind=TableType.MERGE_ON_READ)
    for turn in range(4):
        table.upsert(rows(range(10 * turn, 10 * turn + 20), turn))
    table.compact()
    assert in_step(table) == 50
    table.cluster()
    assert in_step(table) == 50
    table.clean()
    table.delete_partitions("p1")
    assert in_step(table) == 33
    table.insert_overwrite_table(rows(range(7)))
    assert in_step(table) == 7
    table.metadata.rebuild()
    assert in_step(table) == 7


def test_old_states_and_files_are_deleted() -> None:
    table = made(entries=1000)
    for turn in range(30):
        table.upsert(rows([turn], part="p"))
    index_fs = fs_of(table).sub(ROOT)
    names = state_names(index_fs)
    assert len(names) <= STATES_RETAINED + 4
    assert len(index_fs.children("record_index")) < 30
    assert in_step(table) == 30


def _state(table: Table) -> Any:
    log = timeline_log(fs_of(table), table.config)
    return newest_state(fs_of(table), log, log.load())


@pytest.mark.parametrize("growth", GROWTHS)
def test_rebuilds_change_the_kind_of_index_both_ways(growth: str) -> None:
    table = made(growth)
    table.insert(rows(range(60)))
    with pytest.raises(OptionError, match="kind of the table's record index"):
        opened(fs_of(table), index__type="RECORD_INDEX").upsert(rows([1]))
    opened(fs_of(table), index__type="RECORD_INDEX").index.rebuild(3)
    assert load_config(fs_of(table)).metadata_partitions == {"files", "record_index"}
    assert not fs_of(table).children(ROOT)
    plain = opened(fs_of(table))
    assert plain.upsert(rows(range(50, 70))).index.startswith("record index, 3 buckets")
    with pytest.raises(OptionError, match="kind of the table's record index"):
        opened(fs_of(table), index__type="ELASTIC").upsert(rows([1]))
    opened(fs_of(table), index__type="ELASTIC").index.rebuild(5)
    assert load_config(fs_of(table)).metadata_partitions == {"files"}
    assert (
        opened(fs_of(table))
        .upsert(rows(range(65, 80)))
        .index.startswith("elastic index, 5 buckets")
    )
    assert in_step(opened(fs_of(table))) == 80


def test_a_first_write_may_build_it() -> None:
    table = made()
    fs = MemoryFileSystem()
    create(fs, NewTable(SCHEMA, "t", COW, ("id",), ("part",), (), index=IndexKind.SIMPLE))
    opened(fs).upsert(rows(range(30)))
    report = opened(fs, index__type="ELASTIC").upsert(rows(range(20, 40)))
    assert (report.inserted, report.updated) == (10, 10)
    assert in_step(opened(fs)) == 40
    assert table.config.properties[PYHUDI_INDEX_TYPE] == "ELASTIC"


def test_a_second_record_index_of_another_writer_is_refused() -> None:
    table = made()
    table.insert(rows(range(5)))
    listed = {"hoodie.table.metadata.partitions": "files,record_index"}
    store_config(fs_of(table), load_config(fs_of(table)).with_properties(listed))
    with pytest.raises(UnsupportedTableError, match="a record index of another writer"):
        table.upsert(rows(range(9)))
    table.index.rebuild()
    table.upsert(rows(range(9)))
    assert in_step(table) == 9


@pytest.mark.parametrize(
    "option",
    [
        {"growth": "GROUPS"}, {"hash": "murmur3"}, {"bucket.entries": 9}, {"load": 0.5},
    ],
)  # fmt: skip
def test_an_index_keeps_what_it_was_made_with(option: dict[str, Any]) -> None:
    table = made(entries=8)
    table.insert(rows(range(5)))
    named_options = {f"pyhudi.index.elastic.{name}": value for name, value in option.items()}
    other = Table(fs_of(table), options=parse_options(named_options), engine=LocalEngine(1))
    with pytest.raises(OptionError, match="cannot be changed for an existing index"):
        other.upsert(rows(range(9)))
    other.index.rebuild()
    other.upsert(rows(range(9)))
    assert in_step(other) == 9


def test_planted_faults_are_found_and_repaired() -> None:
    table = made("GROUPS")
    table.insert(rows(range(60)))
    table.upsert(rows(range(50, 70)))
    state = _state(table)
    oldest, newest = state.groups
    (segment,) = oldest.buckets[0]
    lost = replace(oldest, buckets=((Segment(),), *oldest.buckets[1:]))
    fs_of(table).sub(ROOT).replace(state.path, replace(state, groups=(lost, newest)).to_json())
    _forget_states()
    check = table.index.verify()
    assert check.faults == {"missing": segment.entries} and segment.entries > 9
    assert table.index.verify(sample=400).faults["missing"] > 9
    assert table.index.repair().check.faults == check.faults
    assert in_step(table) == 70


def _forget_states() -> None:
    store._read.cache_clear()


class Pausing(LocalEngine):
    """An engine that does something else once, before the files of a write are written."""

    def __init__(self, meanwhile: Callable[[], object]) -> None:
        super().__init__(1)
        self._meanwhile: Callable[[], object] | None = meanwhile

    def run(self, task: Any, items: Any, *, label: str) -> Any:
        if label == "write" and self._meanwhile is not None:
            act, self._meanwhile = self._meanwhile, None
            act()
        return super().run(task, items, label=label)


OPTIMISTIC = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}


@pytest.mark.parametrize("kind", list(TableType))
@pytest.mark.parametrize("growth", GROWTHS)
def test_concurrent_writers_while_it_grows(growth: str, kind: TableType) -> None:
    """The other one fills the index, so that file groups are sealed and groups opened meanwhile;
    one key both insert."""
    table = made(growth, entries=6, kind=kind, **OPTIMISTIC)
    table.insert(rows(range(4)))

    def meanwhile() -> None:
        other = Table(fs_of(table), options=parse_options(OPTIMISTIC), engine=LocalEngine(1))
        for start in (100, 120, 140):
            other.insert(rows(range(start, start + 20), 2))
        other.delete(keys=["k0105"])
        other.upsert(rows([6], 2))

    mine = Table(fs_of(table), options=parse_options(OPTIMISTIC), engine=Pausing(meanwhile))
    report = mine.upsert(rows(range(3, 10), 3))
    assert report.conflicts >= 1
    assert (report.inserted, report.updated) == (5, 2)
    assert in_step(table) == 69
    quiet = Table(fs_of(table), options=parse_options(OPTIMISTIC), engine=Pausing(lambda: None))
    assert quiet.upsert(rows(range(20, 40))).conflicts == 0
    assert in_step(table) == 89


def test_other_keys_of_two_writers_need_not_wait_for_each_other() -> None:
    table = made(entries=1000, **OPTIMISTIC)
    table.insert(rows(range(4)))

    def meanwhile() -> None:
        other = Table(fs_of(table), options=parse_options(OPTIMISTIC), engine=LocalEngine(1))
        other.insert(rows(range(100, 120), 2, "p7"))

    mine = Table(fs_of(table), options=parse_options(OPTIMISTIC), engine=Pausing(meanwhile))
    assert mine.insert(rows(range(10, 20), 3, "p8")).conflicts == 0
    assert in_step(table) == 34

"""Metadata partitions that are dropped and created again: earlier commits do not count."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import pyhudi
from pyhudi.metadata.bootstrap import unlist
from pyhudi.metadata.definitions import remove_definition
from pyhudi.metadata.partition_creation import PartitionCreations, table_creation
from pyhudi.metadata.payloads import (
    BLOOM_FILTERS,
    COLUMN_STATS,
    MetadataPartition,
    maintained_partitions,
)
from pyhudi.metadata.reader import MetadataTable
from pyhudi.planning.compaction import compaction_plan
from pyhudi.records import BEFORE_ALL_INSTANTS, InstantTime
from pyhudi.storage.local import LocalFileSystem
from pyhudi.table.properties import load_config
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.timeline import Timeline
from tests.support.inside import state_of

SCHEMA = pa.schema([("id", pa.string()), ("city", pa.string()), ("ts", pa.int64())])
OPTIONS = {
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.metadata.index.bloom.filter.enable": "true",
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.compact.max.delta.commits": "5",
}


def table_of(path: Path, version: int, kind: Any = "cow") -> pyhudi.Table:
    return pyhudi.create_table(
        path, SCHEMA, record_key="id", table_type=kind, version=version, options=OPTIONS
    )


def metadata_of(table: pyhudi.Table) -> MetadataTable:
    metadata = state_of(table).metadata
    assert metadata is not None
    return metadata


def schedule_compaction(table: pyhudi.Table) -> None:
    """As Apache Hudi leaves one in the metadata table if it stops after the plan."""
    metadata = metadata_of(table)
    partitions = maintained_partitions(metadata.partitions_listed)
    slices = [s for p in partitions for s in metadata.slices(p) if s.logs]
    plan = compaction_plan(slices).to_avro()
    metadata.log.request(Action.COMPACTION, plan, after=metadata.data.newest_time)


def rows(first: int, count: int = 20) -> pa.Table:
    numbers = range(first, first + count)
    return pa.table(
        {"id": [f"k{n:04d}" for n in numbers], "city": [f"c{n % 5}" for n in numbers],
         "ts": list(numbers)}, SCHEMA,
    )  # fmt: skip


def drop(path: Path, partition: MetadataPartition) -> None:
    """As another program removes a partition: property, folder, definition."""
    fs = LocalFileSystem(path)
    config = unlist(fs, load_config(fs), partition)
    remove_definition(fs, config, partition.path)


def drop_and_create(path: Path, partition: MetadataPartition) -> None:
    drop(path, partition)
    assert partition.path not in load_config(LocalFileSystem(path)).metadata_partitions
    # the next writer that maintains the partition creates it
    pyhudi.open_table(path, options=OPTIONS).upsert(rows(0, 1))
    assert partition.path in load_config(LocalFileSystem(path)).metadata_partitions


def rebuild_record_index(path: Path) -> None:
    pyhudi.open_table(path, options=OPTIONS).index.rebuild(kind="record")


ACTIONS: dict[str, Callable[[Path], None]] = {
    "column_stats": lambda path: drop_and_create(path, COLUMN_STATS),
    "bloom_filters": lambda path: drop_and_create(path, BLOOM_FILTERS),
    "record_index": rebuild_record_index,
}


def check(path: Path, count: int) -> None:
    """Prune, look up, write and verify."""
    table = pyhudi.open_table(path, options=OPTIONS)
    assert table.scan().count() == count
    found = table.scan(where=pc.field("ts") < 3).to_arrow().column("id").to_pylist()
    assert sorted(found) == ["k0000", "k0001", "k0002"]
    keys = ["k0000", "k0019", "nobody"]
    assert table.lookup(keys)["found"].to_pylist() == [True, True, False]
    table.upsert(rows(0))
    assert table.scan().count() == count
    report = table.metadata.verify()
    assert report.is_healthy, str(report)


@pytest.mark.parametrize("before", [2, 7], ids=["logs", "compacted"])
@pytest.mark.parametrize("name", ACTIONS)
@pytest.mark.parametrize(("version", "kind"), [(6, "cow"), (8, "mor"), (9, "cow"), (9, "mor")])
def test_a_partition_is_dropped_and_created_again(
    tmp_path: Path, version: int, kind: Any, name: str, before: int
) -> None:
    path = tmp_path / "t"
    table = table_of(path, version, kind)
    for number in range(before):
        table.upsert(rows(20 * number))
    for _ in range(2):
        ACTIONS[name](path)
        check(path, 20 * before)


@pytest.mark.parametrize("version", [6, 9])
def test_a_dropped_partition_is_not_missing(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    table_of(path, version).upsert(rows(0))
    drop(path, COLUMN_STATS)
    report = pyhudi.open_table(path).metadata.verify()
    assert report.is_healthy, str(report)


@pytest.mark.parametrize("version", [8, 9])
def test_a_secondary_index_is_dropped_and_created_again(tmp_path: Path, version: int) -> None:
    path = tmp_path / "t"
    table = table_of(path, version)
    table.upsert(rows(0))
    for number in range(3):
        table.index.create("secondary", "city")
        table.upsert(rows(20 * number))
        found = table.scan(where=pc.field("city") == "c3")
        assert found.count() == 4 * (number + 1)
        assert any("record keys" in note for note in found.plan.index_notes), found.plan
        table.index.drop("city")
    check(path, 60)


@pytest.mark.parametrize("is_created_again", [False, True])
@pytest.mark.parametrize("version", [8, 9])
def test_a_pending_compaction_does_not_need_dropped_partitions(
    tmp_path: Path, version: int, is_created_again: bool
) -> None:
    path = tmp_path / "t"
    table = table_of(path, version)
    table.upsert(rows(0))
    table.index.create("secondary", "city")
    table.upsert(rows(20))
    schedule_compaction(table)
    table.index.drop("city")
    if is_created_again:
        table.index.create("secondary", "city")
    table.upsert(rows(40))
    assert not metadata_of(table).timeline.pending
    assert table.scan(where=pc.field("city") == "c3").count() == 12
    check(path, 60)


@pytest.mark.parametrize(
    ("continued", "is_earlier"),
    [("20260101000000000", True), ("20260101000001000010", False), (None, False)],
)
def test_layout_1_compares_the_slice_that_a_later_named_file_continues(
    continued: str | None, is_earlier: bool
) -> None:
    """A downgrade by Apache Hudi compacts, drops the partition, and creates it at the time of the
    newest commit of the data table, which is before the compaction."""
    creation = Instant("20260101000001000010", Action.DELTA_COMMIT, State.COMPLETED)
    compaction = Instant("20260101000005000", Action.COMMIT, State.COMPLETED)
    path = f"column_stats/col-stats-0000-0_0-1-2_{compaction.time}.hfile"
    stat = WriteStat("column_stats", "col-stats-0000-0", path, continued, 1, 0, 0, 0, 9, 9)
    found = {"column_stats": [creation.time]}
    created = PartitionCreations.of(Timeline.of([creation, compaction]), found)
    assert created.precede(stat, compaction) is is_earlier


def test_a_creation_whose_completion_a_downgrade_dropped_came_before_the_first_commit() -> None:
    def commit(time: str, completed_at: str | None = None) -> Instant:
        end = None if completed_at is None else InstantTime(completed_at)
        return Instant(InstantTime(time), Action.DELTA_COMMIT, State.COMPLETED, end)

    created = [f"{BEFORE_ALL_INSTANTS}{number:03}" for number in range(2)]
    before, after = "20261127143348620", "20261127143350447"
    timed = [commit(each, before) for each in created]
    assert table_creation([*timed, commit(after, after)]) == before
    untimed = [commit(each) for each in created]
    assert table_creation([*untimed, commit(after)]) == after
    assert table_creation(untimed) == created[0]


@pytest.mark.parametrize("version", [6, 8, 9])
def test_a_record_index_created_again_with_fewer_groups_is_whole(
    tmp_path: Path, version: int
) -> None:
    """Commits on the timeline name groups that the earlier index alone had."""
    groups = "hoodie.metadata.record.index.{}.filegroup.count"
    options = {**OPTIONS, "hoodie.metadata.compact.max.delta.commits": "2"}
    for count in (4, 2, 1):
        options |= {groups.format("min"): str(count), groups.format("max"): str(count)}
        if count == 4:
            pyhudi.create_table(tmp_path, SCHEMA, record_key="id", version=version, options=options)
        else:
            pyhudi.open_table(tmp_path, options=options).index.drop("record_index")
            pyhudi.open_table(tmp_path, options=options).index.create("record")
        for n in range(4):
            pyhudi.open_table(tmp_path, options=options).upsert(rows(n))
            assert pyhudi.open_table(tmp_path, options=options).metadata.verify().is_healthy

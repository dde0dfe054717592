"""Buckets of consistent hashing are split and merged by clustering, as Apache Hudi does it."""

from __future__ import annotations

import json
from typing import Any

import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import UserError, WriteConflictError
from pyhudi.index.bucket import BucketRule
from pyhudi.index.consistent_hashing import FIRST, HASHING_METADATA_FOLDER, Ring, load_ring
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.write.placement.hashing_metadata import rings_of
from pyhudi.write.table_creation import NewTable
from tests.index.test_kinds import SCHEMA, batch, rows_of
from tests.index.test_ring import STATED, homes, homes_by_rings, opened, table_of
from tests.support.inside import fs_of, state_of

TINY = {"hoodie.parquet.max.file.size": 1000, "hoodie.parquet.small.file.limit": 0}
SPLITS = {**TINY, "hoodie.bucket.index.max.num.buckets": 6}
MERGES = {"hoodie.bucket.index.min.num.buckets": 2}


def again(table: Table, **given: Any) -> Table:
    options = parse_options(STATED | given)
    return Table(fs_of(table), options=options, engine=LocalEngine(2))


def ring(table: Table, partition: str = "p0") -> Ring:
    """The ring that a write uses."""
    rule = BucketRule(4, ("id",), is_consistent=True)
    state = state_of(table)
    found = rings_of(state, state.view(partitions=[partition]), rule, [partition])[partition]
    assert found is not None
    return found


def filled() -> Table:
    table = table_of()
    table.upsert(batch(range(60), 1, "p0"))
    table.compact()
    return table


def check(table: Table) -> None:
    """Keys are where the rings say, and a write by them finds each."""
    assert homes(table) == homes_by_rings(table)
    before = sorted(key for _, key in homes(table))
    stamp = 100 + len(table.timeline)
    report = table.upsert(batch(range(70), stamp, "p0"))
    assert report.updated == 60 or report.updated == 70
    assert homes(table) == homes_by_rings(table)
    keys = sorted(key for _, key in homes(table))
    assert len(keys) == len(set(keys)) == 70 and set(before) <= set(keys)
    assert {ts for _, ts, _ in rows_of(table)} == {stamp}


def test_large_buckets_are_split_up_to_the_most() -> None:
    table = filled()
    old, rows = ring(table), sorted(rows_of(table))
    resizing = again(table, **SPLITS)
    preview = resizing.cluster(dry_run=True)
    assert (preview.file_groups, preview.new_file_groups) == (2, 4)
    done = resizing.cluster()
    assert (done.file_groups, done.new_file_groups, done.rows > 0) == (2, 4, True)
    new = ring(table)
    assert (new.instant, new.sequence) == (done.instants[0], old.sequence + 1)
    assert set(old.ends) < set(new.ends) and len(new.ends) == 6
    assert not fs_of(table).exists(new.marker)  # 0.15.0 cannot cluster after one
    assert sorted(rows_of(table)) == rows
    assert again(table, **SPLITS).cluster().instants == ()
    check(table)


def test_small_neighbours_are_merged_down_to_the_least() -> None:
    table = filled()
    rows, old = sorted(rows_of(table)), ring(table)
    done = again(table, **MERGES).cluster()
    assert (done.file_groups, done.new_file_groups) == (3, 1)
    new = ring(table)
    assert len(new.ends) == 2 and set(new.ends) < set(old.ends)
    assert sorted(rows_of(table)) == rows
    check(table)


def test_thresholds_say_what_is_large_and_what_is_small() -> None:
    table = filled()
    no_split = SPLITS | {"hoodie.bucket.index.split.threshold": "1000000"}
    no_merge = MERGES | {"hoodie.bucket.index.merge.threshold": "0"}
    for options in (no_split, no_merge):
        assert again(table, **options).cluster(dry_run=True).file_groups == 0
    assert again(table, **SPLITS).cluster(dry_run=True).file_groups == 2
    assert again(table, **MERGES).cluster(dry_run=True).file_groups == 3


def test_split_and_merged_again_with_logs_on_the_buckets() -> None:
    table = filled()
    again(table, **SPLITS).cluster()
    table.upsert(batch(range(30), 5, "p0"))
    table.delete(keys=[key for _, key in sorted(homes(table))[:3]])
    rows = sorted(rows_of(table))
    done = again(table, **{"hoodie.bucket.index.min.num.buckets": 1}).cluster()
    assert done.new_file_groups == 1 and len(ring(table).ends) == 1
    assert sorted(rows_of(table)) == rows and len(rows) == 57


def test_a_plan_names_the_nodes_and_is_carried_out_as_it_stands() -> None:
    table = filled()
    planned = again(table, **SPLITS).schedule_clustering()
    assert planned is not None
    pending = table.timeline.pending.instants[0]
    plan = state_of(table).log.requested(pending)["clusteringPlan"]
    assert plan["strategy"]["strategyClassName"].endswith(
        "SparkConsistentBucketClusteringExecutionStrategy"
    )
    extra = plan["inputGroups"][0]["extraMetadata"]
    nodes = json.loads(extra["clustering.group.child.node"])
    assert extra["clustering.group.sequence.no"] == "0"
    assert extra["clustering.group.partition"] == "p0"
    assert [node["tag"] for node in nodes] == ["REPLACE", "REPLACE"]
    with pytest.raises(WriteConflictError, match="pending clustering"):
        table.upsert(batch(range(60), 2, "p0"))
    assert table.cluster().instants == (planned,)
    assert {node["fileIdPrefix"] for node in nodes} <= set(ring(table).prefixes)
    check(table)


def test_a_pending_plan_of_apache_hudi_is_carried_out() -> None:
    """The same table after Apache Hudi has carried its plan out is `mor_consistent`."""
    table, theirs = opened("mor_consistent_pending"), opened("mor_consistent")
    rows = sorted(map(str, table.scan(["id", "ts", "part", "k2"]).to_arrow().to_pylist()))
    done = table.cluster()
    assert (done.file_groups, done.new_file_groups) == (8, 8)
    for partition in ("p0", "p1"):
        mine, others = ring(table, partition), load_ring(fs_of(theirs), partition, lambda *_: True)
        assert others is not None and mine.to_json() == others.to_json()
    assert sorted(map(str, table.scan(["id", "ts", "part", "k2"]).to_arrow().to_pylist())) == rows
    assert homes(table) == homes_by_rings(table)


def test_a_resize_is_rolled_back_with_its_ring() -> None:
    table = filled()
    done = again(table, **SPLITS).cluster()
    table.rollback(done.instants[0])
    assert ring(table).instant == FIRST
    check(table)


ARCHIVING = {
    "hoodie.keep.min.commits": 3,
    "hoodie.keep.max.commits": 4,
    "hoodie.clean.commits.retained": 1,
    "hoodie.metadata.compact.max.delta.commits": 1,
    "hoodie.compact.inline.max.delta.commits": 1,
}


def archived(table: Table, instant: str) -> None:
    """Write to another partition until the instant has left the active timeline."""
    busy = again(table, **ARCHIVING)
    for stamp in range(200, 220):
        busy.upsert(batch(range(3), stamp, "p9"))
        busy.compact()
        busy.clean()
        busy.archive()
        if instant not in busy.timeline.commits.times:
            return
    raise AssertionError("the instant is not archived")


def test_a_resize_counts_when_its_commit_is_archived() -> None:
    table = filled()
    done = again(table, **SPLITS).cluster()
    archived(table, done.instants[0])
    names = [file.name for file in fs_of(table).children(f"{HASHING_METADATA_FOLDER}/p0")]
    assert not any(name.endswith(".commit") for name in names)
    assert len(ring(table).ends) == 6
    table.upsert(batch(range(70), 300, "p0"))
    assert homes(table) == homes_by_rings(table)
    assert [ts for _, ts, part in rows_of(table) if part == "p0"] == [300] * 70


def test_an_emptied_partition_has_its_new_ring_when_the_commit_is_archived() -> None:
    """No base file proves the ring then, so that a marker does."""
    table = filled()
    old = ring(table)
    report = table.delete_partitions("p0")
    archived(table, str(report.instant))
    new = ring(table)
    assert (new.instant, new.sequence) == (report.instant, old.sequence + 1)
    assert fs_of(table).exists(new.marker)
    table.upsert(batch(range(9), 300, "p0"))
    assert {group.file_id for group in new.groups()} >= set(homes(table).values()) - {
        home for (part, _), home in homes(table).items() if part != "p0"
    }


def test_a_simple_bucket_index_cannot_be_clustered() -> None:
    options = parse_options(STATED | {"hoodie.index.bucket.engine": "SIMPLE"})
    fs = MemoryFileSystem()
    mor = TableType.MERGE_ON_READ
    create(fs, NewTable(SCHEMA, "t", mor, ("id",), ("part",), ("ts",), options, IndexKind.BUCKET))
    table = Table(fs, options=options, engine=LocalEngine(2))
    table.upsert(batch(range(9), 1))
    with pytest.raises(UserError, match="depend on the keys"):
        table.cluster()

"""Unscheduling, expiry of partitions, a rebuilt metadata table, writes by rings of a consistent
hashing index, and writes that are rolled back by listing, dying at each of their steps: the rows
are the old ones or the new ones, the next write goes on, and afterwards nothing is pending and the
index is exact.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.index.consistent_hashing import HASHING_METADATA_FOLDER
from pyhudi.operations import ttl
from pyhudi.operations.create import create
from pyhudi.options import IndexKind, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType
from pyhudi.timeline.instant import REPLACEMENTS, Action, Instant, State
from pyhudi.write.table_creation import NewTable
from tests.crash.test_every_stop import OPTIONS, SCHEMA, before, check_index, open_, rows, snapshot
from tests.support.examples import stops
from tests.support.filesystems import clone, every_stop
from tests.support.inside import state_of

COW, MOR = TableType.COPY_ON_WRITE, TableType.MERGE_ON_READ
RINGS = {
    "hoodie.index.type": "BUCKET",
    "hoodie.index.bucket.engine": "CONSISTENT_HASHING",
    "hoodie.bucket.index.num.buckets": "2",
}
BUCKETS = {"hoodie.index.type": "BUCKET", "hoodie.bucket.index.num.buckets": "2"}
GIVES_WAY = {
    "hoodie.clustering.updates.strategy": (
        "org.apache.hudi.client.clustering.update.strategy.SparkAllowUpdateStrategy"
    ),
    "hoodie.clustering.rollback.pending.replacecommit.on.conflict": "true",
}
ONE_DAY = {
    "hoodie.partition.ttl.strategy.days.retain": "1",
    "hoodie.partition.ttl.strategy.partition.selected": "p0",
}


def with_rings(kind: TableType) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    options = parse_options(OPTIONS | RINGS)
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options, IndexKind.BUCKET))
    by_rings(fs).bulk_insert(rows(range(8), 1))
    by_rings(fs).upsert(rows(range(4), 2))
    return fs


def by_rings(fs: FileSystem) -> Table:
    return Table(fs, options=parse_options(OPTIONS | RINGS), engine=LocalEngine(1))


def by_listing(fs: FileSystem) -> Table:
    """A table whose failed writes are found by listing, with an index that inserts into logs."""
    options = OPTIONS | BUCKETS | {"hoodie.rollback.using.markers": "false"}
    return Table(fs, options=parse_options(options), engine=LocalEngine(1))


def with_buckets(kind: TableType) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    options = parse_options(OPTIONS | BUCKETS)
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options, IndexKind.BUCKET))
    by_listing(fs).bulk_insert(rows(range(8), 1))
    by_listing(fs).upsert(rows(range(4), 2))
    return fs


def by_bucket(fs: FileSystem) -> Table:
    return Table(fs, options=parse_options(OPTIONS | BUCKETS), engine=LocalEngine(1))


def with_logged_deletes(kind: TableType) -> MemoryFileSystem:
    """Logs hold deletes that would hide older rows of their keys."""
    fs = with_buckets(kind)
    by_bucket(fs).delete(keys=["k1", "k2"])
    return fs


def dropping_plans(fs: FileSystem) -> Table:
    """A table whose writes drop the plan of a clustering that is in their way."""
    return Table(fs, options=parse_options(OPTIONS | GIVES_WAY), engine=LocalEngine(1))


def expiring_soon(fs: FileSystem) -> Table:
    return Table(fs, options=parse_options(OPTIONS | ONE_DAY), engine=LocalEngine(1))


def merging_logs(fs: FileSystem) -> Table:
    options = OPTIONS | {"hoodie.log.compaction.blocks.threshold": "2"}
    return Table(fs, options=parse_options(options), engine=LocalEngine(1))


def with_many_logs(kind: TableType) -> MemoryFileSystem:
    fs = before(kind)
    for ts in (3, 4):
        open_(fs).upsert(rows(range(6), ts))
    open_(fs).delete(keys=["k1"])
    return fs


def with_plan(kind: TableType) -> MemoryFileSystem:
    """A compaction is planned and no log lies on it."""
    fs = before(kind)
    open_(fs).upsert(rows(range(6), 3))
    assert open_(fs).schedule_compaction()
    return fs


def with_half_a_run(kind: TableType) -> MemoryFileSystem:
    """Somebody began to carry the planned compaction out, and died."""
    fs = with_plan(kind)
    table = open_(fs)
    begun = state_of(table).log.start(pending(table))
    left = next(i for i in fs.children("p0") if i.name.endswith(".parquet"))
    made = left.name.rpartition("_")[0] + f"_{begun.time}.parquet"
    fs.create(f"p0/{made}", fs.read(left.path)[:100])
    return fs


def with_clustering(kind: TableType) -> MemoryFileSystem:
    fs = before(kind)
    assert open_(fs).schedule_clustering("ts")
    return fs


def pending(table: Table) -> Instant:
    found = table.timeline.where(
        REPLACEMENTS | {Action.COMPACTION}, State.REQUESTED, State.INFLIGHT
    )
    return found.instants[-1]


@dataclass(frozen=True)
class Act:
    """What dies, on what; `changes`: whether it changes rows."""

    start: Callable[[TableType], MemoryFileSystem]
    run: Callable[[FileSystem], object]
    changes: bool = True
    opened: Callable[[FileSystem], Table] = field(default=open_)


ACTS: Mapping[str, Act] = {
    "rings_upsert": Act(
        with_rings, lambda fs: by_rings(fs).upsert(in_a_new_partition()), opened=by_rings
    ),
    "rings_overwrite": Act(
        with_rings, lambda fs: by_rings(fs).insert_overwrite(rows(range(0, 8, 4), 3)),
        opened=by_rings,
    ),
    "upsert_by_listing": Act(
        with_buckets, lambda fs: by_listing(fs).upsert(in_a_new_partition()), opened=by_listing
    ),
    "delete_by_listing": Act(
        with_buckets, lambda fs: by_listing(fs).delete(keys=["k1", "k2", "nobody"]),
        opened=by_listing,
    ),
    "revive": Act(
        with_logged_deletes, lambda fs: by_bucket(fs).upsert(rows(range(3), 0)), opened=by_bucket
    ),
    "revive_by_listing": Act(
        with_logged_deletes, lambda fs: by_listing(fs).upsert(rows(range(3), 0)),
        opened=by_listing,
    ),
    "compact_logs": Act(
        with_many_logs, lambda fs: merging_logs(fs).compact_logs(), False, merging_logs
    ),
    "unschedule_compaction": Act(
        with_plan, lambda fs: open_(fs).unschedule_compaction(pending(open_(fs)).time), False
    ),
    "unschedule_half_a_run": Act(
        with_half_a_run, lambda fs: open_(fs).unschedule_compaction(pending(open_(fs)).time), False
    ),
    "unschedule_clustering": Act(
        with_clustering, lambda fs: open_(fs).unschedule_clustering(pending(open_(fs)).time),
        False, dropping_plans,
    ),
    "expire_partitions": Act(before, lambda fs: expiring_soon(fs).expire_partitions()),
    "rebuild_metadata": Act(before, lambda fs: open_(fs).metadata.rebuild(), False),
}  # fmt: skip


def in_a_new_partition() -> pa.Table:
    """Updates, inserts, and rows of a partition that has no ring yet."""
    batch = rows(range(2, 12), 3)
    parts = batch["part"].to_pylist()
    parts[-2:] = ["p7", "p7"]
    return batch.set_column(2, "part", pa.array(parts))


CASES = [
    pytest.param("upsert_by_listing", COW, id="listing-cow", marks=pytest.mark.slow),
    pytest.param("upsert_by_listing", MOR, id="listing-mor", marks=pytest.mark.slow),
    pytest.param("delete_by_listing", MOR, id="listing-delete-mor", marks=pytest.mark.slow),
    pytest.param("rings_upsert", MOR, id="rings_upsert-mor", marks=pytest.mark.slow),
    pytest.param("rings_overwrite", MOR, id="rings_overwrite-mor", marks=pytest.mark.slow),
    pytest.param("revive", MOR, id="revive-mor"),
    pytest.param("revive_by_listing", MOR, id="revive-listing-mor", marks=pytest.mark.slow),
    pytest.param("compact_logs", MOR, id="compact_logs"),
    pytest.param("unschedule_compaction", MOR, id="unschedule_compaction"),
    pytest.param("unschedule_half_a_run", MOR, id="unschedule_half_a_run"),
    pytest.param("unschedule_clustering", COW, id="unschedule_clustering-cow"),
    pytest.param(
        "unschedule_clustering", MOR, id="unschedule_clustering-mor", marks=pytest.mark.slow
    ),
    pytest.param("expire_partitions", COW, id="expire-cow", marks=pytest.mark.slow),
    pytest.param("expire_partitions", MOR, id="expire-mor"),
    pytest.param("rebuild_metadata", COW, id="rebuild-cow", marks=pytest.mark.slow),
    pytest.param("rebuild_metadata", MOR, id="rebuild-mor", marks=pytest.mark.slow),
]


@pytest.fixture(autouse=True)
def three_days_later(monkeypatch: pytest.MonkeyPatch) -> None:
    moment = datetime.now(UTC) + timedelta(days=3)
    monkeypatch.setattr(ttl, "system_clock", lambda: moment)


@stops(8)
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_stop_anywhere_leaves_the_old_rows_or_the_new(
    name: str, kind: TableType, one_in: int
) -> None:
    sweep(ACTS[name], kind, after=False, one_in=one_in)


@stops(26, 9)
@pytest.mark.parametrize("name", ["rings_upsert", "rings_overwrite", "upsert_by_listing"])
def test_a_stop_here_and_there_leaves_the_old_rows_or_the_new(name: str, one_in: int) -> None:
    sweep(ACTS[name], MOR, after=False, one_in=one_in)


@pytest.mark.slow
@pytest.mark.parametrize(("name", "kind"), CASES)
def test_a_step_done_but_never_heard_of_changes_nothing(name: str, kind: TableType) -> None:
    sweep(ACTS[name], kind, after=True)


def sweep(act: Act, kind: TableType, *, after: bool, one_in: int = 1) -> None:
    """Die at each step, and look at what some of them leave."""
    start = act.start(kind)
    done = clone(start)
    act.run(done)
    old, new = snapshot(start), snapshot(done)
    assert (old != new) == act.changes
    tried = 0
    for stop in every_stop(start, act.run, after=after, one_in=one_in):
        tried += 1
        found = snapshot(stop.fs)
        assert found in (old, new), str(stop)
        write_on(act, stop.fs, found, str(stop))
        if not act.changes:  # whatever was half done is done, and again
            again(act, stop.fs, str(stop))
    assert tried > 1


def write_on(act: Act, fs: FileSystem, found: Mapping[str, int], where: str) -> None:
    """Write to new keys, and to keys that were there."""
    act.opened(fs).upsert(rows(range(30, 34), 9))
    act.opened(fs).upsert(rows(range(1, 3), 9))
    want = {**found, "k30": 9, "k31": 9, "k32": 9, "k33": 9, "k1": 9, "k2": 9}
    assert snapshot(fs) == want, where
    if act.opened is by_rings:
        homes_are_those_of_the_rings(fs)
    elif act.opened not in (by_listing, by_bucket):
        check_index(fs, want)
    planned = {Action.COMPACTION, Action.REPLACE_COMMIT}
    assert all(i.action in planned for i in open_(fs).timeline.pending), where


def again(act: Act, fs: FileSystem, where: str) -> None:
    """Every service goes on: nothing blocks, nothing is lost."""
    want = snapshot(fs)
    table = open_(fs)
    if table.config.is_merge_on_read:
        table.compact()
    table.cluster("ts")
    table.clean()
    assert snapshot(fs) == want, where
    check_index(fs, want)
    assert not open_(fs).timeline.pending, where
    assert open_(fs).index.verify().is_exact, where


def homes_are_those_of_the_rings(fs: FileSystem) -> None:
    from tests.index.test_ring import homes, homes_by_rings

    table = by_rings(fs)
    assert homes(table) == homes_by_rings(table)
    assert fs.children(HASHING_METADATA_FOLDER)

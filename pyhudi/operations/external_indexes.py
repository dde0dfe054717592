"""Rebuild, verification, repair and statistics of external indexes, from the lock to the
report."""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Final, Protocol

from pyhudi.engine import Engine
from pyhudi.index.hbase.hbase_index import HBaseStore
from pyhudi.index.maintenance.rebuild import BuildPlan, ReportProgress, gather_keys, plan_build
from pyhudi.index.maintenance.reports import IndexCheck, IndexRebuild, IndexRepair
from pyhudi.index.maintenance.stats import IndexStats
from pyhudi.index.maintenance.verify import BucketCheck, summarize
from pyhudi.index.rocksdb.rocksdb_index import RocksStore
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.operations.record_index import key_spill
from pyhudi.operations.table_services import alone
from pyhudi.options import IndexKind, Options
from pyhudi.read.table_snapshot import TableState, load_state
from pyhudi.services.indexing import hbase, rocksdb
from pyhudi.services.indexing.external_indexes import Opening, open_for_reading, open_store
from pyhudi.services.indexing.external_verify import (
    OpenStore,
    check_store,
    repair_store,
    store_stats,
)
from pyhudi.services.indexing.repair import repair_counts
from pyhudi.storage.filesystem import FileSystem
from pyhudi.transaction.begin import check_table


class Rebuild(Protocol):
    """Rebuild of one kind of external index."""

    def plan(self, state: TableState, options: Options, buckets: int | None) -> IndexRebuild:
        """What `run` would do now; changes nothing."""
        ...

    def run(
        self,
        fs: FileSystem,
        options: Options,
        engine: Engine,
        buckets: int | None,
        progress: ReportProgress,
    ) -> IndexRebuild: ...


class HBaseRebuild:
    """Puts an entry for each key.  Rows of keys that are not in the table stay, and are ignored if
    they refer to a file group that no longer exists."""

    def plan(self, state: TableState, options: Options, buckets: int | None) -> IndexRebuild:
        return IndexRebuild(0, 0, len(state.view().latest_slices()), 0, dry_run=True)

    def run(
        self,
        fs: FileSystem,
        options: Options,
        engine: Engine,
        buckets: int | None,
        progress: ReportProgress,
    ) -> IndexRebuild:
        with alone(fs, options, engine, "rebuild index") as state:
            store = hbase.open_hbase(state, options.write.index_rules.hbase, engine)
            entries = hbase.put_groups(state, store, None)
            slices = len(state.view().latest_slices())
        return IndexRebuild(0, 0, slices, 0, entries)


class RocksDBRebuild:
    """Like the record index: keys are spilled without the lock, and a killed build resumes where
    it stopped."""

    def plan(self, state: TableState, options: Options, buckets: int | None) -> IndexRebuild:
        return replace(self._planned(state, options, buckets)[1], dry_run=True)

    def run(
        self,
        fs: FileSystem,
        options: Options,
        engine: Engine,
        buckets: int | None,
        progress: ReportProgress,
    ) -> IndexRebuild:
        first, report = self._planned(load_state(fs, options.read), options, buckets)
        gather_keys(first, engine, progress)
        rules = options.write.index_rules.rocksdb
        with alone(fs, options, engine, "rebuild index") as state, key_spill(fs, engine) as staging:
            opening = rocksdb.StoreOpening(
                rules, staging, report.buckets, publishes=True, progress=progress
            )
            built = rocksdb.build_rocks(state, engine, opening)
        size = sum(table.size_bytes for bucket in built.buckets for table in bucket.tables)
        return replace(report, bytes_written=size)

    def _planned(
        self, state: TableState, options: Options, buckets: int | None
    ) -> tuple[BuildPlan, IndexRebuild]:
        """The plan of a build, and what is known of its report."""
        before = rocksdb.bucket_count_of(state, options.write.index_rules.rocksdb)
        count = buckets or before
        plan = plan_build(state, KeyHash(count))
        return plan, IndexRebuild(count, before, len(plan.groups), len(plan.staged))


_REBUILDS: Final[Mapping[IndexKind, Rebuild]] = {
    IndexKind.HBASE: HBaseRebuild(),
    IndexKind.ROCKSDB: RocksDBRebuild(),
}


def plan_store_rebuild(
    state: TableState, options: Options, kind: IndexKind, buckets: int | None
) -> IndexRebuild:
    """What `rebuild_store` would do now; changes nothing."""
    return _REBUILDS[kind].plan(state, options, buckets)


def rebuild_store(
    fs: FileSystem,
    options: Options,
    engine: Engine,
    kind: IndexKind,
    buckets: int | None,
    progress: ReportProgress,
) -> IndexRebuild:
    """Rebuild an external index.  buckets: of the new index, if its kind has buckets."""
    began = time.monotonic()
    check_table(load_state(fs, options.read).config)
    done = _REBUILDS[kind].run(fs, options, engine, buckets, progress)
    return replace(done, seconds=_since(began))


def verify_store(
    state: TableState, options: Options, engine: Engine, kind: IndexKind
) -> IndexCheck:
    """Compare every key of the table and every entry of the index.

    Raises IndexNotReadyError if the index is behind the table's newest commit.
    """
    began = time.monotonic()
    opened = _opened(state, options, engine, kind)
    with key_spill(state.fs, engine) as staging:
        return _check_of(state, check_store(state, opened, engine, staging), began)


def plan_store_repair(
    state: TableState, options: Options, engine: Engine, kind: IndexKind
) -> IndexRepair:
    """What `repair_faults` would do now; changes nothing."""
    began = time.monotonic()
    opened = _opened(state, options, engine, kind)
    with key_spill(state.fs, engine) as staging:
        checks = check_store(state, opened, engine, staging)
        return replace(_repair_of(state, checks, began), dry_run=True)


def repair_faults(fs: FileSystem, options: Options, engine: Engine, kind: IndexKind) -> IndexRepair:
    """Catch up with the table, check the index and repair it, under the table's lock."""
    with alone(fs, options, engine, "repair index") as state, key_spill(fs, engine) as staging:
        began = time.monotonic()
        buckets = rocksdb.bucket_count_of(state, options.write.index_rules.rocksdb)
        opening = Opening(options.write.index_rules, staging, engine, buckets, publishes=True)
        opened = open_store(state, kind, opening)
        assert isinstance(opened, RocksStore | HBaseStore)
        checks = check_store(state, opened, engine, staging)
        report = replace(_repair_of(state, checks, began), notes=opened.notes)
        if report.check.is_exact:
            return replace(report, notes=(*report.notes, "nothing to repair"))
        return replace(report, instant=str(repair_store(state, opened, checks, engine)))


def stats_of_store(
    state: TableState, options: Options, engine: Engine, kind: IndexKind
) -> IndexStats:
    """Statistics of the index."""
    return store_stats(_opened(state, options, engine, kind), engine)


def _opened(state: TableState, options: Options, engine: Engine, kind: IndexKind) -> OpenStore:
    opened = open_for_reading(state, kind, options.write.index_rules, engine)
    assert isinstance(opened, RocksStore | HBaseStore)
    return opened


def _check_of(state: TableState, checks: Sequence[BucketCheck], began: float) -> IndexCheck:
    newest = state.timeline.commits.last
    return IndexCheck(
        instant=newest.time if newest else None, seconds=_since(began), **summarize(checks)
    )


def _repair_of(state: TableState, checks: Sequence[BucketCheck], began: float) -> IndexRepair:
    return IndexRepair(_check_of(state, checks, began), *repair_counts(checks))


def _since(began: float) -> float:
    return round(time.monotonic() - began, 3)

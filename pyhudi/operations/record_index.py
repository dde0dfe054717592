"""Verification, repair and rebuild of the record index, from the lock to the report."""

from __future__ import annotations

import secrets
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from typing import Any

from pyhudi.engine import Engine
from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    IndexNotReadyError,
    UnsupportedTableError,
    UserError,
)
from pyhudi.index.maintenance.partitioned_build import (
    build_by_partition,
    check_partitionable,
    planned_counts,
)
from pyhudi.index.maintenance.rebuild import (
    BuildPlan,
    ReportProgress,
    build_now,
    gather_keys,
    plan_build,
)
from pyhudi.index.maintenance.reports import IndexCheck, IndexRebuild, IndexRepair
from pyhudi.index.maintenance.sampling import check_changes, check_sample
from pyhudi.index.maintenance.sizing import planned_groups
from pyhudi.index.maintenance.stats import current_end
from pyhudi.index.maintenance.verify import BucketCheck, check_index, summarize
from pyhudi.index.selection import listed_record_index
from pyhudi.metadata.bootstrap import BUCKETS_MAX
from pyhudi.metadata.elastic.create import rebuilt_rule
from pyhudi.metadata.elastic.state import IndexRule
from pyhudi.metadata.elastic.store import last_state
from pyhudi.metadata.reader import check_metadata_exists
from pyhudi.metadata.record_index.by_partition import (
    PartitionedRecordIndex,
    by_partition_error,
    check_no_secondary,
    is_partitioned_record_index,
    stored_group_counts,
)
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.operations.table_services import alone
from pyhudi.options import IndexKind, Options
from pyhudi.read.positions import as_position
from pyhudi.read.table_snapshot import TableState, load_state, read_current
from pyhudi.read.time_travel import PointInTime
from pyhudi.services.indexing.elastic import build_elastic
from pyhudi.services.indexing.repair import repair_counts, repair_index_faults
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.spill import SpillPlace, Staging, new_staging_folder, spill
from pyhudi.transaction.begin import check_table
from pyhudi.transaction.heartbeat import living

_REBUILD_SHARE = 0.2
_PENDING_SECONDS = 0.05


def verify(state: TableState, engine: Engine, *, sample: int | None) -> IndexCheck:
    """Verify the index against the table: all of it, or `sample` rows and as many entries."""
    began = time.monotonic()
    if sample is not None:
        seed = secrets.randbits(63)
        return _check_of(state, check_sample(state, engine, sample, seed=seed), began)
    with key_spill(state.fs, engine) as store:
        return _report(state, check_index(state, engine, store), began)


def compare(
    state: TableState, engine: Engine, since: PointInTime, until: PointInTime | None
) -> IndexCheck:
    """Verify the changes of a range of commits against the index.  The report's `instant` is the
    start of the next such check."""
    began = time.monotonic()
    upto = current_end(state) if until is None else as_position(state, until)
    return replace(
        _check_of(state, check_changes(state, engine, since, upto), began), instant=str(upto)
    )


def repair_index(fs: FileSystem, options: Options, engine: Engine) -> IndexRepair:
    """Check the index and repair wrong entries, under the table's lock."""
    with alone(fs, options, engine, "repair index") as state, key_spill(fs, engine) as store:
        check_repairable(state)
        began = time.monotonic()
        checks = check_index(state, engine, store)
        check = _report(state, checks, began)
        if check.is_exact:
            return IndexRepair(check, notes=("nothing to repair",))
        done = repair_index_faults(state, checks, engine, options.write)
        return IndexRepair(check, *repair_counts(checks), instant=str(done.time))


def check_repairable(state: TableState) -> None:
    """Raise UnsupportedTableError for an index by partition: a rebuild repairs it."""
    if is_partitioned_record_index(state.fs, state.config):
        raise UnsupportedTableError(
            "a record index by partition cannot be repaired entry by entry",
            path=state.fs.url,
            hint="run table.index.rebuild()",
        )


def plan_repair(state: TableState, engine: Engine) -> IndexRepair:
    """What `repair_index` would do now; changes nothing."""
    began = time.monotonic()
    check_repairable(state)
    with key_spill(state.fs, engine) as store:
        checks = check_index(state, engine, store)
        put, ended, faulty = repair_counts(checks)
        check = _report(state, checks, began)
        notes: tuple[str, ...] = ()
        if put + ended > _REBUILD_SHARE * max(1, check.keys):
            notes = ("so many entries are wrong that a rebuild is cheaper",)
        return IndexRepair(check, put, ended, faulty, dry_run=True, notes=notes)


def plan_rebuild(
    state: TableState, options: Options, kind: IndexKind, buckets: int | None
) -> IndexRebuild:
    """What `rebuild_index` would do now; changes nothing."""
    if _by_partition(state, kind):
        counts = planned_counts(state, options.write, _requested(state, buckets))
        before = sum(_group_counts(state).values())
        groups = len(list(state.view().latest_slices()))
        return IndexRebuild(sum(counts.values()), before, groups, 0, dry_run=True)
    target = _index_target(state, options, kind, buckets)
    plan, before = plan_build(state, target.hash), target.before
    return IndexRebuild(plan.bucket_count, before, len(plan.groups), len(plan.staged), dry_run=True)


def rebuild_index(
    fs: FileSystem,
    options: Options,
    engine: Engine,
    kind: IndexKind,
    buckets: int | None,
    progress: ReportProgress,
) -> IndexRebuild:
    """Spill keys without the lock; then, under it, the keys changed since, and build the index.

    Waits for concurrent writes that are pending, as long as for the lock."""
    began = time.monotonic()

    def read(state: TableState) -> tuple[TableState, BuildPlan | None]:
        check_table(state.config)
        check_metadata_exists(fs, state.config)
        if _by_partition(state, kind):
            return state, None
        return state, plan_build(state, _index_target(state, options, kind, buckets).hash)

    state, first = read_current(lambda: load_state(fs, options.read), read)
    if first is None:
        return _rebuild_by_partition(fs, options, engine, buckets, progress)
    try:
        gather_keys(first, engine, progress)
    except FileMissingError:  # cleaned meanwhile: keys that are still needed are read below
        if state.log.load() == state.timeline:
            raise
    until = began + options.write.lock_seconds
    while True:
        try:
            with alone(fs, options, engine, "rebuild index") as now:
                target = _index_target(now, options, kind, buckets)
                count = target.hash.count
                if target.rule is None:
                    built = build_now(now, count, engine, progress)
                else:
                    built = build_elastic(now, target.rule, count, engine, progress)
            break
        except IndexNotReadyError:
            alive = living(fs, options.write.concurrency.heartbeats)
            if time.monotonic() > until or not alive & state.log.load().pending.times:
                raise
            time.sleep(_PENDING_SECONDS)
    return IndexRebuild(
        count,
        target.before,
        len(first.groups),
        len(first.staged),
        entries=built.entries,
        bytes_written=built.bytes_written,
        seconds=round(time.monotonic() - began, 3),
    )


def _by_partition(state: TableState, kind: IndexKind) -> bool:
    """Whether an index by partition is to be built.  Raises UnsupportedTableError where a global
    one would replace it, as a key may be in several partitions; or where a secondary index needs
    the global one."""
    listed = listed_record_index(state.fs, state.config)
    if not kind.traits.by_partition:
        if listed is not None and listed.traits.by_partition:
            raise by_partition_error(state.fs)
        return False
    check_partitionable(state.config)
    check_no_secondary(state.fs, state.config)
    return True


def _rebuild_by_partition(
    fs: FileSystem, options: Options, engine: Engine, buckets: int | None, progress: ReportProgress
) -> IndexRebuild:
    """Build an index by partition, under the lock.  buckets: of each partition."""
    began = time.monotonic()
    with alone(fs, options, engine, "rebuild index") as now:
        _by_partition(now, IndexKind.PARTITIONED_RECORD)
        before, known = sum(_group_counts(now).values()), _requested(now, buckets)
        counts = planned_counts(now, options.write, known)
        built = build_by_partition(now, options.write, engine, progress, known=known)
    return IndexRebuild(
        sum(counts.values()),
        before,
        len(list(now.view().latest_slices())),
        built.reused,
        entries=built.entries,
        bytes_written=built.bytes_written,
        seconds=round(time.monotonic() - began, 3),
    )


def _group_counts(state: TableState) -> dict[str, int]:
    """The number of buckets of each partition in the existing index; by the names of its files if
    it cannot be read."""
    try:
        index = state.locations
    except IndexNotReadyError:
        return {}
    except CorruptFileError:
        return stored_group_counts(state.fs)
    if isinstance(index, PartitionedRecordIndex):
        return index.group_counts
    return {"": index.bucket_count}


def _requested(state: TableState, buckets: int | None) -> dict[str, int]:
    """The number of buckets of each partition: as requested, or as it is."""
    if buckets is None:
        return _group_counts(state)
    if not 1 <= buckets <= BUCKETS_MAX:
        raise UserError("the number of index buckets is out of range", buckets=buckets)
    return dict.fromkeys((each.partition for each in state.view().latest_slices()), buckets)


@dataclass(frozen=True, slots=True)
class _IndexTarget:
    """The index to build.  rule: of an elastic index; before: buckets of the existing index."""

    hash: KeyHash
    rule: IndexRule | None
    before: int


def _index_target(
    state: TableState, options: Options, kind: IndexKind, requested: int | None
) -> _IndexTarget:
    """The requested count; else the existing; else by the options, more if the rows need more."""
    before = _buckets_before(state)
    if not kind.traits.grows:
        return _IndexTarget(
            KeyHash(_bucket_count(state, options, requested or before)), None, before
        )
    last = last_state(state.fs)
    rule = rebuilt_rule(last.rule if last else None, options.write.index_rules)
    before = before or (last.bucket_count if last else 0)
    count = _bucket_count(state, options, requested, rule.entries, at_least=before)
    return _IndexTarget(KeyHash.named(rule.hash, count), rule, before)


def _buckets_before(state: TableState) -> int:
    try:
        return state.record_index.bucket_count
    except (IndexNotReadyError, CorruptFileError):
        return 0


def _bucket_count(
    state: TableState,
    options: Options,
    requested: int | None,
    entries: int | None = None,
    *,
    at_least: int = 0,
) -> int:
    count = requested or 0
    if not count:
        count = planned_groups(state, options.write, entries=entries, at_least=at_least)
    if not 1 <= count <= BUCKETS_MAX:
        raise UserError("the number of index buckets is out of range", buckets=count)
    return count


def _report(state: TableState, checks: Sequence[BucketCheck], began: float) -> IndexCheck:
    return _check_of(state, summarize(checks), began)


def _check_of(state: TableState, found: dict[str, Any], began: float) -> IndexCheck:
    newest = state.timeline.commits.last
    return IndexCheck(
        instant=newest.time if newest else None,
        seconds=round(time.monotonic() - began, 3),
        **found,
    )


@contextmanager
def key_spill(fs: FileSystem, engine: Engine) -> Iterator[Staging]:
    """Where keys are spilled: this machine's disk, or, for tasks on other machines, a folder below
    the table that concurrent writers do not remove."""
    place = SpillPlace.MACHINE if engine.shares_memory else SpillPlace.TABLE
    with spill(fs, place, new_staging_folder()) as staging:
        yield staging

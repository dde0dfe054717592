"""Finding: the engine runs that an index needs to tag a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

import pyarrow as pa

from pyhudi.engine import Engine, LocalEngine
from pyhudi.index.bloom import filter_slices, filter_slices_unpruned, told_of
from pyhudi.index.bucket import BucketFinder, bucket_groups
from pyhudi.index.consistent_hashing import Ring, RingFinder
from pyhudi.index.contract import Finder
from pyhudi.index.external_index import EntryStore, live_groups
from pyhudi.index.key_join import HitsFinder, ProbeWork, dealt
from pyhudi.index.record import RecordFinder
from pyhudi.index.selection import IndexChoice
from pyhudi.index.simple import join_slices
from pyhudi.index.stated import StatedFinder
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.lookup import RecordIndex
from pyhudi.options import IndexKind, IndexRules
from pyhudi.read.file_slice import SliceSpec
from pyhudi.read.skipping.key_uniqueness import keys_are_unique
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId
from pyhudi.storage.spill import Staged, Staging
from pyhudi.table.file_group_view import FileSlice
from pyhudi.write.input.batch import FILE_ID, BatchChunk
from pyhudi.write.input.deduplicate import (
    ExistingKeyPolicy,
    Gathered,
    GatherTask,
    TagPlan,
    gather_shard,
)
from pyhudi.write.placement.tagging import RECORDS, ShardTags, TagTask, tag_shard


@dataclass(frozen=True)
class WriteIndex:
    """The index of one write.  records: the table's record index, if it has one; asked if it is
    the choice, else kept in step.  hash: by which the batch is cut into parts.  stores: likewise,
    indexes outside the table.  tee: compared with the one that answers; it keeps no entries, or is
    one of these."""

    choice: IndexChoice
    rules: IndexRules
    records: RecordIndex | None
    hash: KeyHash
    metadata: MetadataTable | None = None
    stores: tuple[EntryStore, ...] = ()
    tee: IndexKind | None = None

    @property
    def store(self) -> EntryStore:
        """The one that is asked."""
        return next(store for store in self.stores if store.kind is self.choice.kind)

    @property
    def part_count(self) -> int:
        return self.hash.count

    @property
    def always_asked(self) -> bool:
        """Whether inserts need it too, because it names the group of a new key."""
        return self.choice.kind.traits.names_places

    @property
    def logs_inserts(self) -> bool:
        """Whether new keys may go to logs: they are found there."""
        return self.choice.kind.traits.logs_inserts(self.rules)

    @property
    def described(self) -> str:
        """For the report: the index, how it is cut, and why it."""
        name = self.choice.kind.value.replace("_", " ")
        if self.choice.bucket is not None and self.choice.bucket.is_consistent:
            name = "consistent-hashing bucket"
        parts = "shards" if self.choice.kind.is_record_index else "parts"
        if self.asks_metadata:
            parts += ", ranges and filters from the metadata table"
        return f"{name} index, {self.part_count} {parts}: {self.choice.why}"

    @property
    def asks_metadata(self) -> bool:
        """Whether a bloom index asks the metadata table, not footers."""
        return self.choice.kind.traits.reads_filters and self.rules.bloom_by_metadata


_FEW_ROWS: Final = 1000
"""Rows that are looked up in the record index where the write is planned: a job on a cluster would
not have begun by then."""


@dataclass(frozen=True)
class Where:
    """The table as an index looks through it.  spec: reads record keys; rings: of the batch's
    partitions, where the bucket index hashes consistently; log_inserts: file groups whose logs may
    hold keys that their base files do not."""

    slices: Sequence[FileSlice]
    spec: SliceSpec
    rings: Mapping[str, Ring] = field(default_factory=dict)
    log_inserts: frozenset[FileGroupId] = frozenset()


def may_have_copies(index: WriteIndex, state: TableState, parts: Sequence[BatchChunk]) -> bool:
    """Whether keys to delete may have rows that the index, with one place a key, does not know.

    Not of rows that name their file groups: these are the places meant.
    """
    if not index.choice.kind.keeps_entries or any(part.has_groups for part in parts):
        return False
    return not keys_are_unique(state)


def tag_rows(
    index: WriteIndex, plan: TagPlan, engine: Engine, where: Callable[[], Where]
) -> list[ShardTags]:
    """Tag every row of a batch.  where: called only by indexes that look at slices."""
    shards = range(index.part_count)
    seen = cache(where)
    asked = _finders(index, plan, engine, seen) if plan.asked else _Finders()
    beside = _beside(index, plan, engine, seen, asked) if plan.asked else {}
    tasks = [
        TagTask(
            plan,
            number,
            asked.finders[number] if asked.finders else None,
            tuple((name, finders[number]) for name, finders in beside.items()),
            asked.gathered[number] if asked.gathered else None,
            asked.places,
        )
        for number in shards
    ]
    rows = sum(part.row_count for part in plan.parts)
    is_small = rows <= _FEW_ROWS and index.choice.kind.traits.is_default and not beside
    here = LocalEngine() if is_small and not engine.shares_memory else engine
    return here.run(tag_shard, tasks, label="tag")


@dataclass(frozen=True)
class _Finders:
    """What tag tasks ask, by part; gathered: their rows, where that step was done."""

    finders: Sequence[Finder] = ()
    gathered: Sequence[Gathered] = ()
    places: Finder | None = None
    is_other: bool = False  # they are not those of the write's index, whose entries have to follow


def _finders(
    index: WriteIndex, plan: TagPlan, engine: Engine, where: Callable[[], Where]
) -> _Finders:
    shards = range(index.part_count)
    if plan.has_groups:
        return _Finders([StatedFinder(FILE_ID)] * index.part_count, is_other=True)
    if plan.copies:
        return _copies(index, plan, engine, where())
    if index.choice.kind.is_record_index:
        assert index.records is not None
        return _Finders([RecordFinder(shard) for shard in index.records.shards])
    seen = where()
    if index.choice.kind.is_store:
        return _Finders(_of_store(index.store, index, plan, seen))
    places = None
    if index.choice.kind.traits.names_places:
        places = _bucket_finder(index.choice, seen)
        if plan.known is ExistingKeyPolicy.UPDATE and not plan.deletes_all:
            return _Finders([places] * index.part_count)
    gathered = engine.run(gather_shard, [GatherTask(plan, n) for n in shards], label="tag")
    probed = _probed(
        index, plan, engine, seen, _Asked(index.choice.kind, plan.everywhere, gathered)
    )
    return _Finders(probed, gathered, places)


def _copies(index: WriteIndex, plan: TagPlan, engine: Engine, where: Where) -> _Finders:
    """Every place of each key: file groups are searched, as an index has one place a key."""
    shards = range(index.part_count)
    gathered = engine.run(gather_shard, [GatherTask(plan, n, True) for n in shards], label="tag")
    asked = _Asked(IndexKind.GLOBAL_BLOOM, True, gathered)
    return _Finders(_probed(index, plan, engine, where, asked), gathered, is_other=True)


def _of_store(
    store: EntryStore, index: WriteIndex, plan: TagPlan, where: Where
) -> Sequence[Finder]:
    live = plan.staging.put("live", live_groups([s.group for s in where.slices]))
    parts = range(index.part_count)
    alike = index.part_count if index.hash.is_plain else 0  # else no part is a bucket of the store
    return [store.finder(number, alike, live) for number in parts]


def _beside(
    index: WriteIndex,
    plan: TagPlan,
    engine: Engine,
    where: Callable[[], Where],
    asked: _Finders,
) -> dict[str, Sequence[Finder]]:
    """Finders of the indexes that are kept in step with what was asked, or compared with it."""
    found: dict[str, Sequence[Finder]] = {}
    own, gathered = index.choice.kind, asked.gathered
    if index.records is not None and (asked.is_other or not own.is_record_index):
        found[RECORDS] = [RecordFinder(shard) for shard in index.records.shards]
    for store in index.stores:
        if asked.is_other or store.kind is not own:
            found[store.kind.value] = _of_store(store, index, plan, where())
    tee = index.tee
    if tee is not None and tee.value not in found and tee is not own:
        everywhere = replace(plan, is_global=tee.is_global).everywhere
        if not gathered or everywhere is not plan.everywhere:
            shards = range(index.part_count)
            tasks = [GatherTask(plan, number, everywhere) for number in shards]
            gathered = engine.run(gather_shard, tasks, label="tag")
        keys = _Asked(tee, everywhere, gathered)
        found[tee.value] = _probed(index, plan, engine, where(), keys)
    return found


def _bucket_finder(choice: IndexChoice, where: Where) -> BucketFinder | RingFinder:
    assert choice.bucket is not None
    if choice.bucket.is_consistent:
        there = frozenset(s.group for s in where.slices)
        return RingFinder(choice.bucket.fields, where.rings, there)
    groups = bucket_groups((s.group for s in where.slices), choice.bucket)
    return BucketFinder(choice.bucket, groups)


@dataclass(frozen=True)
class _Asked:
    """Keys that slices are looked through for.  everywhere: whatever their partitions."""

    kind: IndexKind
    everywhere: bool
    gathered: Sequence[Gathered]


def _probed(
    index: WriteIndex, plan: TagPlan, engine: Engine, where: Where, asked: _Asked
) -> list[Finder]:
    """Look the slices through that the batch's keys may be in."""
    slices = list(where.slices)
    if not asked.everywhere:
        touched = {path for part in plan.parts for path, _ in part.partition_counts}
        slices = [s for s in slices if s.partition in touched]
    runs = tuple(part.keys for part in asked.gathered)
    look = _look(index, asked.kind)
    told = None
    if index.asks_metadata and index.metadata is not None:
        told = told_of(index.metadata, slices)
    work = ProbeWork(plan.fs, where.spec, (), runs, asked.everywhere, told, where.log_inserts)
    tasks = [
        ProbeTask(replace(work, slices=some), look, plan.staging)
        for some in dealt(slices, engine.parallelism)
    ]
    hits = tuple(engine.run(probe, tasks, label="find"))
    groups = tuple(s.group for s in slices)
    return [HitsFinder(number, hits, groups) for number in range(len(runs))]


Look = Callable[[ProbeWork], pa.Table]


def _look(index: WriteIndex, kind: IndexKind) -> Look:
    if not kind.traits.reads_filters:
        return join_slices
    return filter_slices if index.rules.prune_by_ranges else filter_slices_unpruned


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """Some slices for one task."""

    work: ProbeWork
    look: Look
    staging: Staging


def probe(task: ProbeTask) -> Staged:
    """Look some slices through, and put aside what was found."""
    return task.staging.put("hits", task.look(task.work))


__all__ = ["Where", "WriteIndex", "tag_rows"]

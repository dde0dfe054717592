"""Index lookups of a write: the engine runs that tag a batch."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cache
from typing import Final

import pyarrow as pa

from pyhudi.engine import Engine, in_process
from pyhudi.index.bloom import file_stats_of, filter_slices, filter_slices_unpruned
from pyhudi.index.bucket import BucketFinder, bucket_groups
from pyhudi.index.consistent_hashing import Ring, RingFinder
from pyhudi.index.contract import Finder, StatedFinder
from pyhudi.index.external_index import EntryStore, live_groups
from pyhudi.index.key_join import HitsFinder, ProbeWork, dealt
from pyhudi.index.known_places import KnownFirst, KnownPlaces
from pyhudi.index.record import PartitionFinder, RecordFinder
from pyhudi.index.selection import IndexChoice
from pyhudi.index.simple import join_slices
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.record_index.by_partition import PartitionedRecordIndex
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
    gather_bucket,
)
from pyhudi.write.placement.tagging import RECORDS, BucketTags, TagTask, tag_bucket


@dataclass(frozen=True)
class WriteIndex:
    """The index of one write.  records: the table's record index, if any; queried if it is the
    selected index, else only maintained.  hash: partitions the batch.  stores: external indexes,
    likewise.  shadow: compared with the queried index; it has no entries, or is one of these."""

    choice: IndexChoice
    rules: IndexRules
    records: RecordIndex | PartitionedRecordIndex | None
    hash: KeyHash
    metadata: MetadataTable | None = None
    stores: tuple[EntryStore, ...] = ()
    shadow: IndexKind | None = None

    @property
    def store(self) -> EntryStore:
        """The store that is queried."""
        return next(store for store in self.stores if store.kind is self.choice.kind)

    @property
    def records_by_partition(self) -> PartitionedRecordIndex | None:
        """The record index if it is by partition."""
        return self.records if isinstance(self.records, PartitionedRecordIndex) else None

    @property
    def records_name(self) -> str:
        """The name of the record index in tags, if it is not the queried index."""
        by_partition = self.records_by_partition is not None
        return IndexKind.PARTITIONED_RECORD.value if by_partition else RECORDS

    @property
    def part_count(self) -> int:
        return self.hash.count

    @property
    def always_queried(self) -> bool:
        """Whether inserts query it too, because it determines the group of a new key."""
        return self.choice.kind.traits.names_places

    @property
    def finds_records(self) -> bool:
        """Whether places are those of records, and not only where a key would be."""
        return not self.always_queried and not self.choice.kind.is_store

    @property
    def logs_inserts(self) -> bool:
        """Whether new keys may go to logs, because lookups find them there."""
        return self.choice.kind.traits.logs_inserts(self.rules)

    @property
    def described(self) -> str:
        """For the report: the index, its partitioning, and why it was selected."""
        name = self.choice.kind.value.replace("_", " ")
        if self.choice.bucket is not None and self.choice.bucket.is_consistent:
            name = "consistent-hashing bucket"
        by_bucket = self.choice.kind.is_record_index and self.records_by_partition is None
        parts = "buckets" if by_bucket else "parts"
        if self.queries_metadata:
            parts += ", ranges and filters from the metadata table"
        return f"{name} index, {self.part_count} {parts}: {self.choice.why}"

    @property
    def queries_records(self) -> bool:
        """Whether the write looks up keys in a record index of Apache Hudi."""
        return self.choice.kind.is_record_index and not self.choice.kind.traits.grows

    @property
    def queries_metadata(self) -> bool:
        """Whether a bloom index reads the metadata table instead of footers."""
        return self.choice.kind.traits.reads_filters and self.rules.bloom_by_metadata


Known = Sequence[KnownPlaces | None]

_FEW_ROWS: Final = 1000
"""Maximum number of rows looked up in the record index by the planning process itself; a cluster
job would take longer to start."""


@dataclass(frozen=True)
class Where:
    """The data that an index searches.  spec: reads record keys; rings: of the batch's partitions,
    for a consistent-hashing bucket index; log_inserts: file groups whose logs may have keys that
    their base files lack; has_positions: log blocks of the write have record positions."""

    slices: Sequence[FileSlice]
    spec: SliceSpec
    rings: Mapping[str, Ring] = field(default_factory=dict)
    log_inserts: frozenset[FileGroupId] = frozenset()
    has_positions: bool = False


def may_have_copies(index: WriteIndex, state: TableState, parts: Sequence[BatchChunk]) -> bool:
    """Whether keys to delete may have rows unknown to the index, which has one entry per key.

    False for rows that have file groups: only those places are meant.
    """
    if not index.choice.kind.stores_entries or any(part.has_groups for part in parts):
        return False
    return not keys_are_unique(state)


def tag_rows(
    index: WriteIndex,
    plan: TagPlan,
    engine: Engine,
    where: Callable[[], Where],
    known: Known = (),
) -> list[BucketTags]:
    """Tag every row of a batch.  where: called only for indexes that read slices.  known: what the
    queried index has answered in this plan, by bucket."""
    buckets = range(index.part_count)
    seen = cache(where)
    queried, additional = _Finders(), {}
    if plan.queries_index:
        queried = _finders(index, plan, engine, seen, known)
        if not plan.finds_only:
            additional = _additional_finders(index, plan, engine, seen, queried)
    tasks = [
        TagTask(
            plan,
            number,
            queried.finders[number] if queried.finders else None,
            tuple((name, finders[number]) for name, finders in additional.items()),
            queried.gathered[number] if queried.gathered else None,
            queried.places,
        )
        for number in buckets
    ]
    rows = sum(part.row_count for part in plan.parts)
    is_small = rows <= _FEW_ROWS and index.queries_records and not additional
    return in_process(engine, is_small=is_small).run(tag_bucket, tasks, label="tag")


def searched_partitions(index: WriteIndex, plan: TagPlan) -> list[str] | None:
    """The partitions whose slices `tag_rows` needs; None: all.  An external index names file groups
    wherever they are."""
    plans = [plan]
    if index.shadow is not None:
        plans.append(replace(plan, is_global=index.shadow.is_global))
    if index.stores or any(each.everywhere for each in plans):
        return None
    return sorted({path for part in plan.parts for path, _ in part.partition_counts})


@dataclass(frozen=True)
class _Finders:
    """Finders of tag tasks, by index bucket; gathered: their rows, if already gathered."""

    finders: Sequence[Finder] = ()
    gathered: Sequence[Gathered] = ()
    places: Finder | None = None
    is_other: bool = False  # not the write's index, whose entries must be updated
    is_partial: bool = False  # keys of the gathered rows are those that are not known


def _finders(
    index: WriteIndex, plan: TagPlan, engine: Engine, where: Callable[[], Where], known: Known
) -> _Finders:
    buckets = range(index.part_count)
    if plan.has_groups:
        return _Finders([StatedFinder(FILE_ID)] * index.part_count, is_other=True)
    if plan.copies:
        return _copies(index, plan, engine, where())
    if index.choice.kind.is_record_index:
        assert index.records is not None
        return _Finders(_known_first(known, _record_finders(index, plan)))
    seen = where()
    if index.choice.kind.is_store:
        return _Finders(_known_first(known, _of_store(index.store, index, plan, seen)))
    places = None
    if index.choice.kind.traits.names_places:
        places = _bucket_finder(index.choice, seen)
        if plan.known is ExistingKeyPolicy.UPDATE and not plan.deletes_all:
            return _Finders([places] * index.part_count)
    each = known or [None] * index.part_count
    tasks = [GatherTask(plan, n, known=each[n]) for n in buckets]
    gathered = engine.run(gather_bucket, tasks, label="tag")
    probed = _probed(
        index, plan, engine, seen, _KeySearch(index.choice.kind, plan.everywhere, gathered)
    )
    return _Finders(_known_first(known, probed), gathered, places, is_partial=bool(known))


def _known_first(known: Known, finders: Sequence[Finder]) -> Sequence[Finder]:
    """Finders that search for keys without a known place only."""
    if not known:
        return finders
    return [
        finder if places is None else KnownFirst(places, finder)
        for places, finder in zip(known, finders, strict=True)
    ]


def _record_finders(index: WriteIndex, plan: TagPlan) -> Sequence[Finder]:
    """Look-ups in the record index, by index bucket."""
    parts = index.records_by_partition
    if parts is None:
        assert isinstance(index.records, RecordIndex)
        return [RecordFinder(bucket) for bucket in index.records.buckets]
    everywhere = any(not part.has_paths for part in plan.parts)
    touched = {path for part in plan.parts for path, _ in part.partition_counts}
    buckets = {
        name: each.buckets
        for name, each in parts.by_partition.items()
        if everywhere or name in touched
    }
    return [PartitionFinder(buckets, everywhere)] * index.part_count


def _copies(index: WriteIndex, plan: TagPlan, engine: Engine, where: Where) -> _Finders:
    """Find all rows of each key in the file groups, as an index has one entry per key."""
    buckets = range(index.part_count)
    wide = plan.everywhere
    gathered = engine.run(gather_bucket, [GatherTask(plan, n, wide) for n in buckets], label="tag")
    kind = IndexKind.GLOBAL_BLOOM if wide else IndexKind.BLOOM
    queried = _KeySearch(kind, wide, gathered)
    return _Finders(_probed(index, plan, engine, where, queried), gathered, is_other=True)


def _of_store(
    store: EntryStore, index: WriteIndex, plan: TagPlan, where: Where
) -> Sequence[Finder]:
    live = plan.staging.put("live", live_groups([s.group for s in where.slices]))
    parts = range(index.part_count)
    alike = index.part_count if index.hash.is_plain else 0  # else parts are no store buckets
    return [store.finder(number, alike, live) for number in parts]


def _additional_finders(
    index: WriteIndex,
    plan: TagPlan,
    engine: Engine,
    where: Callable[[], Where],
    queried: _Finders,
) -> dict[str, Sequence[Finder]]:
    """Finders of indexes that are maintained with the queried one, or compared with it."""
    found: dict[str, Sequence[Finder]] = {}
    queried_kind, gathered = index.choice.kind, queried.gathered
    if index.records is not None and (queried.is_other or not queried_kind.is_record_index):
        found[index.records_name] = _record_finders(index, plan)
    for store in index.stores:
        if queried.is_other or store.kind is not queried_kind:
            found[store.kind.value] = _of_store(store, index, plan, where())
    shadow = index.shadow
    if shadow is not None and shadow.value not in found and shadow is not queried_kind:
        everywhere = replace(plan, is_global=shadow.is_global).everywhere
        if not gathered or queried.is_partial or everywhere is not plan.everywhere:
            buckets = range(index.part_count)
            tasks = [GatherTask(plan, number, everywhere) for number in buckets]
            gathered = engine.run(gather_bucket, tasks, label="tag")
        keys = _KeySearch(shadow, everywhere, gathered)
        found[shadow.value] = _probed(index, plan, engine, where(), keys)
    return found


def _bucket_finder(choice: IndexChoice, where: Where) -> BucketFinder | RingFinder:
    assert choice.bucket is not None
    if choice.bucket.is_consistent:
        there = frozenset(s.group for s in where.slices)
        return RingFinder(choice.bucket.fields, where.rings, there)
    groups = bucket_groups((s.group for s in where.slices), choice.bucket)
    return BucketFinder(choice.bucket, groups)


@dataclass(frozen=True)
class _KeySearch:
    """Keys to search slices for.  everywhere: in all partitions."""

    kind: IndexKind
    everywhere: bool
    gathered: Sequence[Gathered]


def _probed(
    index: WriteIndex, plan: TagPlan, engine: Engine, where: Where, queried: _KeySearch
) -> list[Finder]:
    """Search the slices that may contain the batch's keys."""
    slices = list(where.slices) if any(part.sought for part in queried.gathered) else []
    if not queried.everywhere:
        touched = {path for part in plan.parts for path, _ in part.partition_counts}
        slices = [s for s in slices if s.partition in touched]
    runs = tuple(part.keys for part in queried.gathered)
    look = _look(index, queried.kind)
    stats = None
    if index.queries_metadata and index.metadata is not None:
        stats = file_stats_of(index.metadata, slices)
    work = ProbeWork(
        plan.fs,
        where.spec,
        (),
        runs,
        queried.everywhere,
        stats,
        where.log_inserts,
        where.has_positions,
    )
    tasks = [
        ProbeTask(replace(work, slices=some), look, plan.staging)
        for some in dealt(slices, engine.parallelism)
    ]
    hits = tuple(engine.run(probe, tasks, label="find"))
    groups = tuple(s.group for s in slices)
    return [HitsFinder(number, hits, groups, where.has_positions) for number in range(len(runs))]


Look = Callable[[ProbeWork], pa.Table]


def _look(index: WriteIndex, kind: IndexKind) -> Look:
    if not kind.traits.reads_filters:
        return join_slices
    return filter_slices if index.rules.prune_by_ranges else filter_slices_unpruned


@dataclass(frozen=True, slots=True)
class ProbeTask:
    """Input of one search task."""

    work: ProbeWork
    look: Look
    staging: Staging


def probe(task: ProbeTask) -> Staged:
    """Search slices and spill the hits."""
    return task.staging.put("hits", task.look(task.work))

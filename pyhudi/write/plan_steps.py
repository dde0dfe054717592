"""Planning steps of a write, called by `operations/commit`.

```
stage_batch    keys, partition paths, index buckets
tag_batch      combine rows with the same key; look keys up in the index
losing_rows    rows that lose to a newer stored record and must not change the index
assign_batch   the file group of each row
replaced_groups_of   file groups that a replace commit replaces
```

Planning only reads the table.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UnsupportedTableError
from pyhudi.filenames import new_file_id
from pyhudi.formats import base_file
from pyhudi.formats.nested_fields import has_fields, root_of
from pyhudi.index.consistent_hashing import Ring
from pyhudi.merge.merge_rules import MergeRules
from pyhudi.metadata.record_index.lookup import RecordIndex
from pyhudi.options import BulkInsert, KnownKeys, WriteOptions
from pyhudi.read.file_slice import SliceSpec
from pyhudi.read.skipping.key_uniqueness import is_partitioned
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import (
    COMMIT_SEQNO,
    FILE_NAME,
    PARTITION_PATH,
    RECORD_KEY,
    FileGroupId,
    with_meta,
)
from pyhudi.storage.spill import Staged
from pyhudi.table.file_group_view import FileSlice, TableView
from pyhudi.table.timeline_facts import replaced_groups
from pyhudi.write.conditional_merge import rows_to_write
from pyhudi.write.input.batch import BatchChunk, KeyPlan, Rows
from pyhudi.write.input.deduplicate import Duplicates, ExistingKeyPolicy, TagPlan
from pyhudi.write.merge_clauses import ConditionalMerge, source_schema
from pyhudi.write.overwrite import (
    Replaced,
    TakeOut,
    check_unclaimed,
    check_within,
    partitions_named,
    take_out,
)
from pyhudi.write.placement.assignment import Assignment, AssignRules, assign
from pyhudi.write.placement.delete_conflicts import ContestTask, lost_rows
from pyhudi.write.placement.hashing_metadata import rings_of
from pyhudi.write.placement.index_lookup import (
    Known,
    Where,
    may_have_copies,
    searched_partitions,
    tag_rows,
)
from pyhudi.write.placement.sorted_insert import by_range, sort_columns
from pyhudi.write.placement.tagging import BucketTags
from pyhudi.write.write_context import (
    Operation,
    WriteContext,
    duplicates_of,
    looks_up_known_keys,
    needs_index_lookup,
)

_SAMPLE_ROWS = 4 * 1024
_FILE_BYTES = 4 << 20  # of a file whose footer and filter are less than a tenth
_ROW_BYTES = 1024  # for a batch without rows, which writes nothing
_SEQNO = "20260101000000000_0"
_COMMITS_MAX = 5  # as Apache Hudi 1.2: each older commit costs a read

_KNOWN = {KnownKeys.DROP: ExistingKeyPolicy.DROP, KnownKeys.FAIL: ExistingKeyPolicy.REFUSE}


def check_rules(context: WriteContext) -> None:
    """Raise UnsupportedTableError for merge rules that are not supported."""
    rules = context.state.rules
    rules.check()
    can_move = context.index.choice.moves and is_partitioned(context.state)
    if can_move and not rules.picks:
        raise UnsupportedTableError(
            "a record that is merged with the stored one cannot move to another partition",
            hint="set the index's update.partition.path to false",
        )


def stage_batch(context: WriteContext, rows: Rows, operation: Operation) -> tuple[BatchChunk, ...]:
    """Stage the batch with record keys, partition paths and index buckets."""
    rules = context.state.rules if operation.brings_rows else None
    parts = tuple(rows.stage(_key_plan(context, rules), context.staging, context.engine))
    _check_paths(context, parts)
    return parts


def _key_plan(context: WriteContext, rules: MergeRules | None) -> KeyPlan:
    has_index_files = context.index.records is not None
    return KeyPlan(context.schema, context.rule, context.index.hash, rules, has_index_files)


def _check_paths(context: WriteContext, parts: Iterable[BatchChunk]) -> None:
    """Raise UserError for a partition whose name the store does not allow."""
    for path in _paths(parts):
        context.state.fs.sub(path)


@dataclass(frozen=True, slots=True)
class MergedBatch:
    """The staged rows that a merge writes, the number of source rows dropped for another one of
    their key, and by index bucket the known places of the source's keys."""

    parts: tuple[BatchChunk, ...]
    dropped: int
    known: Known


def merge_batch(context: WriteContext, merge: ConditionalMerge) -> MergedBatch:
    """What a merge writes.

    Of several source rows of a key, the one with the greatest ordering value is used if the source
    has the ordering columns, else the last one.
    """
    state, engine = context.state, context.engine
    fills = context.options.null_for_missing
    given = merge.source.schema
    source = source_schema(given, context.schema, state.config, fills_missing=fills)
    rules, duplicates = _source_rules(context, source)
    plan = replace(_key_plan(context, rules), schema=source)
    parts = tuple(merge.rows(state).stage(plan, context.staging, engine))
    rings = rings_of_batch(context, parts, ())
    tags = TagPlan(
        state.fs,
        parts,
        context.staging,
        duplicates,
        rules,
        deletes_all=False,
        moves=context.index.choice.moves,
        is_global=context.index.choice.is_global,
        finds_only=True,
    )
    buckets: list[BucketTags] = []
    if any(part.row_count for part in parts):
        where = partial(_where, context, Operation.UPSERT, rings, None)
        buckets = tag_rows(context.index, tags, engine, where)
    written = rows_to_write(context, merge, parts, buckets, _key_plan(context, state.rules))
    _check_paths(context, written)
    dropped = sum(bucket.duplicate_count for bucket in buckets)
    return MergedBatch(written, dropped, [bucket.known for bucket in buckets])


def _source_rules(context: WriteContext, source: pa.Schema) -> tuple[MergeRules | None, Duplicates]:
    """How source rows of the same key are combined."""
    rules = context.state.rules
    ordering = rules.ordering or rules.batch_ordering
    if ordering and has_fields(source, ordering):
        return rules, Duplicates.GREATEST
    return None, Duplicates.NEWEST


def emptied(
    context: WriteContext,
    parts: tuple[BatchChunk, ...],
    operation: Operation,
    partitions: Sequence[str],
) -> tuple[Sequence[str], tuple[str, ...]]:
    """(partitions that a replace commit empties, given names that match no partition)."""
    if not operation.replaces:
        return (), ()
    if operation is Operation.INSERT_OVERWRITE_TABLE:
        return context.state.listing.partitions(), ()
    if operation is Operation.DELETE_PARTITION:
        return partitions_named(partitions, context.state.listing.partitions())
    if partitions:
        check_within(parts, partitions)
        return sorted(set(partitions)), ()
    return sorted(_paths(parts)), ()


def reached(buckets: Iterable[BucketTags], emptied: Sequence[str]) -> list[str]:
    """Partitions that rows are read from or written to, and emptied ones: all the view needs."""
    found = set(emptied)
    for bucket in buckets:
        found.update(bucket.paths, (home.partition for home in bucket.homes))
    return sorted(found)


def _paths(parts: Iterable[BatchChunk]) -> set[str]:
    return {path for part in parts for path, _ in part.partition_counts}


def rings_of_batch(
    context: WriteContext, parts: tuple[BatchChunk, ...], emptied: Sequence[str]
) -> dict[str, Ring]:
    """The hash rings of the write's partitions, for a consistent-hashing bucket index."""
    rule = context.index.choice.bucket
    if rule is None or not rule.is_consistent:
        return {}
    paths = _paths(parts)
    view = context.state.view(partitions=sorted({*paths, *emptied}))
    return rings_of(context.state, view, rule, paths, emptied=emptied)


def tag_batch(
    context: WriteContext,
    parts: tuple[BatchChunk, ...],
    operation: Operation,
    rings: Mapping[str, Ring],
    known: Known = (),
) -> list[BucketTags]:
    """The destinations of the rows.  known: what the index has answered in this plan."""
    if not sum(part.row_count for part in parts):
        return []
    rules = context.state.rules if operation.brings_rows else None
    index, is_delete = context.index, operation is Operation.DELETE
    looked_up = looks_up_known_keys(context, operation)
    plan = TagPlan(
        context.state.fs,
        parts,
        context.staging,
        duplicates_of(context.options, operation, rules),
        rules,
        deletes_all=is_delete,
        moves=index.choice.moves,
        queries_index=needs_index_lookup(context, operation),
        is_global=index.choice.is_global,
        known=_known_policy(context, looked_up=looked_up),
        skips_unchanged=context.skips_unchanged,
        copies=is_delete and may_have_copies(index, context.state, parts),
    )
    partitions = searched_partitions(index, plan)
    return tag_rows(
        index,
        plan,
        context.engine,
        lambda: _where(context, operation, rings, partitions),
        known,
    )


def _known_policy(context: WriteContext, *, looked_up: bool) -> ExistingKeyPolicy:
    if context.partial_schema is not None:
        return ExistingKeyPolicy.REQUIRE
    return _KNOWN[context.options.known_keys] if looked_up else ExistingKeyPolicy.UPDATE


def _where(
    context: WriteContext,
    operation: Operation,
    rings: Mapping[str, Ring],
    partitions: Sequence[str] | None,
) -> Where:
    """The data that an index searches, without the slices that a replace commit replaces.
    partitions: None for all."""
    view = context.state.view(partitions=partitions)
    rules = context.state.rules
    spec = SliceSpec(context.state.schema(), (RECORD_KEY,), rules, view.visibility)
    slices = [] if operation.replaces else view.latest_slices()
    inserts = groups_with_log_inserts(context.state, slices)
    return Where(slices, spec, rings, inserts, _logs_positions(context))


def _logs_positions(context: WriteContext) -> bool:
    """Whether log blocks of the write have the positions of records that are known."""
    config = context.state.config
    can = config.is_merge_on_read and config.layout.has_record_positions
    return can and context.options.record_positions


def with_merged(
    parts: tuple[BatchChunk, ...], buckets: Sequence[BucketTags]
) -> tuple[BatchChunk, ...]:
    """The parts, followed by the merged rows of each bucket."""
    if all(bucket.folded is None for bucket in buckets):
        return parts
    folded = [
        replace(parts[0], staged=bucket.folded or parts[0].staged, row_count=0, partition_counts=())
        for bucket in buckets
    ]
    return (*parts, *folded)


def losing_rows(
    context: WriteContext,
    parts: tuple[BatchChunk, ...],
    buckets: Sequence[BucketTags],
    view: TableView,
) -> list[Staged | None]:
    """Per bucket the positions of the rows that lose to a newer stored record, if any."""
    rules = context.state.rules
    lost: list[Staged | None] = [None] * len(buckets)
    slices = {s.group: s for s in view.latest_slices()} if any(s.contested for s in buckets) else {}
    contested: dict[int, tuple[tuple[int, FileSlice], ...]] = {}
    for i, bucket in enumerate(buckets):  # a bucket not yet created holds no record
        there = [(home, slices.get(bucket.homes[home])) for home in bucket.contested]
        contested[i] = tuple((home, s) for home, s in there if s is not None)
    contested = {i: homes for i, homes in contested.items() if homes}
    if not contested:
        return lost
    compared = context.schema.names if context.skips_unchanged else rules.ordering
    columns = tuple(dict.fromkeys((RECORD_KEY, *map(root_of, compared))))
    spec = SliceSpec(with_meta(context.schema), columns, rules, view.visibility)
    tasks = [
        ContestTask(
            context.state.fs,
            spec,
            parts,
            buckets[i],
            homes,
            context.staging,
            context.state.config,
            context.skips_unchanged,
        )
        for i, homes in contested.items()
    ]
    for i, result in zip(
        contested, context.engine.run(lost_rows, tasks, label="contest"), strict=True
    ):
        lost[i] = result
    return lost


def assign_batch(
    context: WriteContext,
    parts: tuple[BatchChunk, ...],
    buckets: Sequence[BucketTags],
    view: TableView,
    operation: Operation,
) -> tuple[Sequence[BucketTags], Assignment, tuple[str, ...]]:
    """(tags, the file group of each row, sort columns of new base files)."""
    bulk = context.options.bulk_insert if operation is Operation.BULK_INSERT else BulkInsert()
    order_by = sort_columns(bulk, context.schema)
    state, non_blocking = context.state, context.options.concurrency.is_non_blocking
    assigned = assign(
        buckets,
        view,
        AssignRules(
            context.options.sizing,
            context.state.config.is_merge_on_read,
            record_bytes(context.state, context.options, parts),
            small_files=operation.fills_files,
            logs_inserts=_logs_inserts(context, operation),
            fills_files=bulk.fills_files,
            into_clustered=context.options.into_clustered,
            non_blocking=non_blocking,
            replaced=frozenset(replaced_groups(state.log, state.timeline) if non_blocking else ()),
        ),
        new_file_id=new_file_id,
    )
    if bulk.sorts_partitions and not context.index.always_queried:
        buckets, assigned = by_range(
            parts, buckets, assigned, order_by, staging=context.staging, engine=context.engine
        )
    return buckets, assigned, order_by


def _logs_inserts(context: WriteContext, operation: Operation) -> bool:
    """Whether new keys may go to logs.  Not those of a plain insert: they could merge."""
    merges = context.state.config.is_merge_on_read
    return merges and context.index.logs_inserts and needs_index_lookup(context, operation)


def replaced_groups_of(
    context: WriteContext, operation: Operation, view: TableView, chosen: Sequence[str]
) -> Replaced:
    """The file groups that this write replaces."""
    slices = [s for s in view.latest_slices() if s.partition in set(chosen)]
    check_unclaimed(
        view,
        slices,
        clusterings=not context.options.drops_clusterings,
        compactions=operation is Operation.DELETE_PARTITION,
    )
    rules = context.state.rules
    spec = SliceSpec(with_meta(context.schema), (RECORD_KEY,), rules, view.visibility)
    records = context.index.records
    buckets = records.buckets if isinstance(records, RecordIndex) else ()
    by_partition = context.index.records_by_partition is not None
    plan = TakeOut(
        context.state.fs, spec, buckets, context.index.hash, context.staging, by_partition
    )
    return take_out(plan, slices, chosen, context.engine)


def record_bytes(state: TableState, options: WriteOptions, parts: Sequence[BatchChunk]) -> int:
    """Estimated bytes per row in a base file.

    The average of the newest of the last few commits that wrote enough data for footers and
    filters not to matter, as the options say; else the option's value; else the average of the
    newest that wrote large files, or of a sample of the batch.
    """
    sizing = options.sizing
    of_large_files: int | None = None
    for instant in state.timeline.commits.instants[: -_COMMITS_MAX - 1 : -1]:
        stats = [s for s in state.log.commit(instant).stats if s.log_version is None]
        rows = sum(s.write_count for s in stats)
        size = sum(s.size_bytes for s in stats)
        if rows and size > sizing.estimate_threshold * sizing.small_file_bytes:
            return -(-size // rows)
        if rows and of_large_files is None and size > _FILE_BYTES * len(stats):
            of_large_files = -(-size // rows)
    if sizing.record_bytes is not None:
        return sizing.record_bytes
    if of_large_files is not None:
        return of_large_files
    sample = next((p for p in parts if p.row_count), None)
    if sample is None:
        return _ROW_BYTES
    rows_of = sample.staged.load().slice(0, _SAMPLE_ROWS)
    names = [n for n in rows_of.schema.names if n not in (PARTITION_PATH, FILE_NAME)]
    ordinals = pa.array(range(rows_of.num_rows)).cast(pa.string())
    seqno = pc.binary_join_element_wise(_SEQNO, ordinals, "_")  # the largest meta column
    sink = pa.BufferOutputStream()
    base_file.write_base(
        sink,
        rows_of.select(names).append_column(COMMIT_SEQNO, seqno),
        avro_schema="",
        bloom=None,
        compression=options.base_file.codec,
    )
    taken: int = sink.tell()
    return max(1, int(-(-taken // rows_of.num_rows)))


def groups_with_log_inserts(
    state: TableState, slices: Sequence[FileSlice]
) -> frozenset[FileGroupId]:
    """Groups of these slices where a key may be in the logs alone, so that the key range and bloom
    filter of the base file are not sufficient.

    Found from the commits since the base files; groups whose commits may be archived are included.
    """
    logged = {
        file_slice.group: file_slice.instant
        for file_slice in slices
        if file_slice.base and file_slice.logs
    }
    if not logged:
        return frozenset()
    oldest = min(logged.values())
    commits = [i for i in state.timeline.commits if i.time > oldest]
    inserted = {
        stat.group
        for instant in commits
        for stat in state.log.commit(instant).stats
        if stat.log_version is not None and stat.insert_count
    }
    first = state.timeline.commits.first
    unknown: set[FileGroupId] = set()
    if first is not None and oldest < first.time and not state.archive.is_empty:
        unknown = {group for group, instant in logged.items() if instant < first.time}
    return frozenset(logged.keys() & (inserted | unknown))

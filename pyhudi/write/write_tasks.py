"""Tasks of a write: data files and index entries, written in one engine run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from pyhudi.errors import Overtaken
from pyhudi.formats.avro_schema import with_meta_fields
from pyhudi.index.external_index import Changes
from pyhudi.metadata.delta_commit import BucketTarget
from pyhudi.metadata.file_entries import ComputedEntries, IndexOfFiles, indexes_of_files
from pyhudi.metadata.record_index.lookup_costs import LookupCost
from pyhudi.options import BaseFileOptions, MarkerForm
from pyhudi.read.hidden_rows import may_hide
from pyhudi.records import FileGroupId
from pyhudi.table.cdc_properties import cdc_mode
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import Instant
from pyhudi.transaction.markers import announce_type
from pyhudi.write.files.file_plan import FilePlan, Written
from pyhudi.write.files.file_writers import WriteTask, write_targets
from pyhudi.write.index_changes import (
    Changed,
    ChangeTask,
    EndTask,
    EntryTask,
    end_entries,
    spill_changes,
    write_entries,
)
from pyhudi.write.input.batch import BatchChunk
from pyhudi.write.partition_entries import (
    PartitionEntries,
    PartitionTargets,
    SpillEntries,
    ended_entries,
    spill_entries,
    write_entries_by_partition,
)
from pyhudi.write.placement.assignment import Mode, Target
from pyhudi.write.placement.index_lookup import may_have_copies
from pyhudi.write.placement.routing import Router
from pyhudi.write.write_context import Operation, PlannedWrite, WriteContext, needs_index_lookup
from pyhudi.write.write_report import WriteReport

_FILES_TOGETHER: Final = 4  # a task, on average


@dataclass(frozen=True)
class WrittenFiles:
    """Data and index files written by the tasks of a write.  stores: what each external index has
    staged for `publish`, in index order.  indexes: those in which data files have entries."""

    data: tuple[Written, ...]
    index: tuple[WriteStat, ...]
    stores: tuple[Any, ...] = ()
    indexes: tuple[IndexOfFiles, ...] = ()

    @property
    def stats(self) -> tuple[WriteStat, ...]:
        return tuple(w.stat for w in self.data if w.stat is not None)

    @property
    def computed(self) -> ComputedEntries:
        """The entries of the data files in `indexes`."""
        written = [(w.stat.path, w.entries) for w in self.data if w.stat and w.entries]
        return {
            index: {path: entries[n] for path, entries in written}
            for n, index in enumerate(self.indexes)
        }


class IndexTargets(PartitionTargets, Protocol):
    """Destination of index entries: a `MetadataCommit` or a `WaitingIndex`."""

    def bucket_targets(self) -> tuple[BucketTarget, ...]: ...


def write_files(
    context: WriteContext, planned: PlannedWrite, instant: Instant, metadata: IndexTargets
) -> WrittenFiles | Overtaken:
    """Write all targets and the index entries in one engine run.

    Overtaken if the instant was rolled back in the meantime.
    """
    router = Router.of(planned.parts, planned.buckets, planned.assignment.routes, planned.lost)
    indexes = indexes_of_files(context.state.fs, context.state.config)
    tasks: list[WriteTask | EntryTask | EndTask | ChangeTask | SpillEntries] = [
        *_write_tasks(context, planned, instant, router, indexes)
    ]
    groups = tuple(target.group for target in planned.assignment.targets)
    tasks += _entry_tasks(context, planned, instant, metadata.bucket_targets(), groups)
    tasks += _change_tasks(context, planned)
    tasks += _spill_tasks(context, planned, groups)
    data: list[Written] = []
    index: list[WriteStat] = []
    changed: list[Changed] = []
    by_partition = ended_entries(planned.replaced.keys)
    for result in context.engine.run(perform, tasks, label="write"):
        match result:
            case Overtaken():
                return result
            case list():
                data += result
            case Changed():
                changed.append(result)
            case WriteStat():
                index.append(result)
            case PartitionEntries():
                by_partition.update(result)
    if by_partition.ranges:
        index += write_entries_by_partition(
            context.state.fs, instant, metadata, by_partition, context.options, context.engine
        )
    stores = []
    for store in context.index.stores:
        tables = [c.table for c in changed if c.index == store.kind.value]
        changes = Changes(tables, groups)
        stores.append(store.write(changes, instant.time, context.engine))
    return WrittenFiles(tuple(data), tuple(index), tuple(stores), indexes)


def _entry_tasks(
    context: WriteContext,
    planned: PlannedWrite,
    instant: Instant,
    targets: Sequence[BucketTarget],
    groups: tuple[FileGroupId, ...],
) -> Iterator[EntryTask | EndTask]:
    """The tasks that write the entries of a global record index, one a bucket."""
    fs, ended = context.state.fs, planned.replaced.ended
    if not planned.buckets:
        for target, keys in zip(targets, ended, strict=False):
            if keys is not None:
                yield EndTask(fs, instant, target, keys)
    for bucket, route, lost in zip(
        planned.buckets, planned.assignment.routes, planned.lost, strict=True
    ):
        gone = ended[bucket.bucket] if ended else None
        changes = planned.new or bucket.delete_count or bucket.entry_count
        if targets and (changes or gone is not None):
            target = targets[bucket.bucket]
            yield EntryTask(
                fs, instant, target, planned.parts, bucket.tags, route, lost, groups, gone
            )


def _write_tasks(
    context: WriteContext,
    planned: PlannedWrite,
    instant: Instant,
    router: Router,
    indexes: tuple[IndexOfFiles, ...],
) -> list[WriteTask]:
    plan = replace(_file_plan(context, planned, instant), indexes=indexes)
    if plan.marks_together:
        announce_type(plan.fs, plan.instant)
    return [
        WriteTask(plan, router, targets)
        for targets in _balanced(planned.assignment.targets, context.engine.parallelism)
    ]


def _change_tasks(context: WriteContext, planned: PlannedWrite) -> list[ChangeTask]:
    is_first = not len(context.state.timeline.commits)
    queried = is_first or needs_index_lookup(context, planned.operation)
    return [
        ChangeTask(
            store.kind.value, queried, planned.parts, bucket.tags, route, lost, context.staging
        )
        for store in context.index.stores
        for bucket, route, lost in zip(
            planned.buckets, planned.assignment.routes, planned.lost, strict=True
        )
        if planned.new or bucket.delete_count or bucket.entry_count
    ]


def _spill_tasks(
    context: WriteContext, planned: PlannedWrite, groups: tuple[FileGroupId, ...]
) -> list[SpillEntries]:
    """The tasks that spill entries of a record index by partition."""
    if context.index.records_by_partition is None:
        return []
    name = context.index.records_name
    return [
        SpillEntries(name, planned.parts, bucket.tags, route, lost, groups, context.staging)
        for bucket, route, lost in zip(
            planned.buckets, planned.assignment.routes, planned.lost, strict=True
        )
        if planned.new or bucket.delete_count or bucket.entry_count
    ]


def perform(
    task: WriteTask | EntryTask | EndTask | ChangeTask | SpillEntries,
) -> list[Written] | WriteStat | Changed | PartitionEntries | Overtaken | None:
    """Run one task of a write, on a worker."""
    match task:
        case WriteTask():
            return write_targets(task)
        case EntryTask():
            return write_entries(task)
        case EndTask():
            return end_entries(task)
        case ChangeTask():
            return spill_changes(task)
        case SpillEntries():
            return spill_entries(task)


def _file_plan(context: WriteContext, planned: PlannedWrite, instant: Instant) -> FilePlan:
    rules, names = context.state.rules, context.schema.names
    folds = not rules.picks and rules.function is None
    return FilePlan(
        context.state.fs,
        instant.time,
        context.schema,
        with_meta_fields(context.avro_schema),
        rules,
        _grouped(context.options.base_file, planned.parts),
        context.options.log_format,
        natural_deletes=planned.operation is Operation.DELETE,
        keeps_stored=planned.operation is Operation.INSERT
        and not needs_index_lookup(context, planned.operation),
        order_by=planned.order_by,
        sizing=context.options.sizing,
        stored=context.slice_spec(names) if folds else None,
        hiding=context.slice_spec(names) if _may_revive(context, planned) else None,
        inflight=instant,
        cdc=cdc_mode(context.state.config),
        layout=context.state.config.layout,
        partial_schema=context.partial_schema,
        marks_together=_marks_together(context, planned),
        history=context.state.columns(),
    )


def _marks_together(context: WriteContext, planned: PlannedWrite) -> bool:
    """Whether the markers of a task are one file: unless the options say so, where a task has so
    many files that this saves more than the additional `MARKERS.type` costs."""
    if context.options.marker_form is not MarkerForm.AUTOMATIC:
        return context.options.marker_form is MarkerForm.TOGETHER
    tasks = _task_count(planned.assignment.targets, context.engine.parallelism)
    return len(planned.assignment.targets) >= _FILES_TOGETHER * tasks


def _may_revive(context: WriteContext, planned: PlannedWrite) -> bool:
    """Whether a row may be logged on top of a delete of its key that would hide it.

    An index that reads base files or computes the group still returns a group for a deleted key.
    For other indexes such a key is new, and goes to logs only if new keys do.
    """
    if not context.state.config.is_merge_on_read or planned.operation is Operation.DELETE:
        return False
    if context.partial_schema is not None:
        return False  # it updates records that exist
    if context.options.concurrency.is_non_blocking:
        return False  # such a write only appends logs
    by_base = context.index.choice.kind.traits.names_deleted_keys
    return may_hide(context.state.rules) and (by_base or context.index.logs_inserts)


def _grouped(options: BaseFileOptions, parts: Sequence[BatchChunk]) -> BaseFileOptions:
    """Fewer rows per row group if the rows of the batch are wide."""
    row_bytes = sum(p.byte_count for p in parts) // max(1, sum(p.row_count for p in parts))
    rows = max(1024, options.row_group_bytes // max(1, row_bytes))
    return replace(options, row_group_rows=min(rows, options.row_group_rows))


def _balanced(targets: Sequence[Target], parallelism: int) -> list[tuple[tuple[int, Target], ...]]:
    """Targets distributed over tasks with balanced load, largest first."""
    task_count = _task_count(targets, parallelism)
    loads = [0] * task_count
    bins: list[list[tuple[int, Target]]] = [[] for _ in range(task_count)]
    heavy = sorted(enumerate(targets), key=lambda item: (-_weight(item[1]), item[0]))
    for item in heavy:
        at = loads.index(min(loads))
        bins[at].append(item)
        loads[at] += _weight(item[1])
    return [tuple(items) for items in bins if items]


def _task_count(targets: Sequence[Target], parallelism: int) -> int:
    return max(1, min(len(targets), 4 * parallelism))


def _weight(target: Target) -> int:
    rows = (target.update_count + target.insert_count) * 100
    stored = target.slice.base.size_bytes if target.slice and target.slice.base else 0
    return 1 + rows + (stored if target.mode is Mode.REWRITE else 0)


def _looked_up_by(context: WriteContext, planned: PlannedWrite) -> str:
    """The report's description of the index lookup."""
    if not needs_index_lookup(context, planned.operation):
        return "not used: inserts do not look up keys"
    index = context.index
    is_delete = planned.operation is Operation.DELETE
    if is_delete and may_have_copies(index, context.state, planned.parts):
        return f"{index.described}; keys may have several rows: file groups were searched for them"
    return index.described


def write_report(
    context: WriteContext,
    planned: PlannedWrite,
    *,
    instant: Instant | None,
    files: WrittenFiles | None,
    dry_run: bool = False,
    **more: object,
) -> WriteReport:
    """The report of a write.  files: None if nothing was written; a dry run has the counts that the
    write would have."""
    written = files.data if files else ()
    stats = files.stats if files else ()
    if dry_run:
        deletes = sum(bucket.delete_count for bucket in planned.buckets)
        inserted, updated, deleted = planned.new, planned.matched - deletes, deletes
        updated -= planned.unchanged
    else:
        inserted, updated, deleted = (
            sum(w.inserted for w in written),
            sum(w.updated for w in written),
            sum(w.deleted for w in written),
        )
    return WriteReport(
        operation=planned.operation.value.lower(),
        instant=instant.time if instant else None,
        completed_at=instant.completed_at if instant else None,
        inserted=inserted,
        updated=updated,
        deleted=deleted + planned.replaced.row_count,
        unchanged=sum(w.unchanged for w in written) + planned.unchanged,
        missing_keys=planned.missing,
        duplicates=planned.duplicates,
        files=len(stats),
        bytes_written=sum(stat.write_bytes for stat in stats),
        file_groups=len(planned.assignment.targets),
        replaced_file_groups=len(planned.replaced.slices),
        seconds=dict(context.watch.seconds),
        index=_looked_up_by(context, planned),
        lookup=LookupCost.sum(bucket.lookup for bucket in planned.buckets).to_dict(),
        dry_run=dry_run,
        matched=planned.matched,
        new=planned.new,
        **more,  # type: ignore[arg-type]
    )

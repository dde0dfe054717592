"""Clustering: file groups rewritten with their rows sorted by some columns.

```
C.replacecommit.requested   the plan: groups of slices by the names of their files, the sort order
C.replacecommit.inflight    new file groups of instant C are being written
C.replacecommit             readers see the new file groups and no longer the old ones
```

A pending plan runs unchanged, whichever writer created it.  The files of a failed attempt are
rolled back and the plan stays.  A plan whose slices have changed since is removed permanently.
The table's lock is held while a plan is made or claimed and while its completion is published;
meanwhile writers can commit to other file groups.  Source: table_format 7.9.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from collections.abc import Set as AbstractSet
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from pyhudi.engine import Engine
from pyhudi.errors import UserError, WriteConflictError
from pyhudi.filenames import planned_file_id
from pyhudi.index.hbase.hbase_index import request_reread
from pyhudi.index.selection import choose_index, shadow_kinds
from pyhudi.metadata.reader import open_metadata
from pyhudi.metadata.record_index.by_partition import PartitionedRecordIndex
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_index.lookup import RecordIndex
from pyhudi.metadata.record_index.staged_index_logs import WaitingIndex, waiting_index
from pyhudi.options import Options, WriteOptions
from pyhudi.planning.clustering import (
    ClusterGroup,
    ClusteringInput,
    chosen_partitions,
    clusterable,
    clustering_plan,
    planned_clustering,
)
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.recovery.rollback import roll_back_service
from pyhudi.reports import Report
from pyhudi.services.bucket_resizing import resize_plan, resize_tasks, resized_rings
from pyhudi.services.clustering_tasks import (
    ClusterWork,
    DealTask,
    MoveTask,
    Output,
    OutputTask,
    SampleTask,
    Sorter,
    Stretch,
    deal_slice,
    sample_slice,
    write_moves,
    write_output,
)
from pyhudi.services.plan_execution import Claim
from pyhudi.services.row_rewriting import Rewriting, rewriting, row_spill
from pyhudi.storage.best_effort_cleanup import tolerating
from pyhudi.storage.spill import Staged, staging_folder
from pyhudi.table.timeline_facts import pending_plans
from pyhudi.timeline.clock import system_clock
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import COMMITS, REPLACEMENTS, Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.clustering import SORT_COLUMNS, ClusteringPlan
from pyhudi.timeline.timeline import Timeline
from pyhudi.transaction.begin import is_claimed, table_lock
from pyhudi.transaction.conflicts import WriteSet
from pyhudi.transaction.finish import complete, finishing
from pyhudi.transaction.markers import remove_leftovers, remove_markers
from pyhudi.write.partition_entries import moved_entries, write_entries_by_partition
from pyhudi.write.placement.sorted_insert import check_sortable

_RANGE_BYTES: Final = 64 << 20
"""Stored bytes of the rows that are sorted at a time."""
_MEMORY_BYTES: Final = 128 << 20
"""Largest plan, in stored bytes, whose rows may be spilled to memory."""


@dataclass(frozen=True, slots=True)
class ClusteringReport(Report):
    """What a clustering did, or (dry_run) would do.

    file_groups: replaced file groups; new_file_groups: those that replace them.  dropped: plans
    that could no longer run and were rolled back.
    """

    instants: tuple[str, ...] = ()
    partitions: int = 0
    file_groups: int = 0
    new_file_groups: int = 0
    bytes_read: int = 0
    bytes_written: int = 0
    rows: int = 0
    sort_by: tuple[str, ...] = ()
    layout: str = "LINEAR"
    dropped: tuple[str, ...] = ()
    dry_run: bool = False
    notes: tuple[str, ...] = field(default=())


def commits_since(log: TimelineLog, timeline: Timeline) -> int:
    """Commits completed since the last clustering; all commits if there was none."""
    commits = timeline.where(COMMITS, State.COMPLETED)
    last = None
    for instant in timeline.where(REPLACEMENTS, State.COMPLETED):
        if log.is_clustering(instant):
            last = instant
    return len(commits if last is None else commits.after(last.time))


def pending_clusterings(log: TimelineLog, timeline: Timeline) -> list[Instant]:
    pending = timeline.where(REPLACEMENTS, State.REQUESTED, State.INFLIGHT)
    return [instant for instant in pending if log.is_clustering(instant)]


def propose_clustering(state: TableState, options: Options) -> ClusteringInput:
    """The plan for the current state of the table.  Raises OptionError, UserError."""
    choice = choose_index(state.fs, state.config, options.write)
    rule = None if choice is None else choice.bucket
    if rule is not None and not rule.is_consistent:
        raise UserError(
            "file groups of a simple bucket index depend on the keys and cannot be clustered",
            path=state.fs.url,
        )
    settings = options.services.clustering
    check_sortable(settings.sort_columns, state.schema(), option=SORT_COLUMNS)
    hour = system_clock().astimezone(state.zone).hour
    partitions = chosen_partitions(state.partitions(), settings.partitions, hour=hour)
    if rule is not None:
        return resize_plan(state, options, rule, partitions)
    return clusterable(state.view(partitions=partitions), settings, partitions=partitions)


def write_clustering_plan(state: TableState, options: Options) -> Instant | None:
    """Write a plan to the timeline; None if no file groups are eligible for clustering."""
    plan = propose_clustering(state, options)
    if not plan.groups:
        return None
    content = clustering_plan(plan).to_avro(root=state.fs.url.removeprefix("file://"))
    return state.log.request(Action(state.log.layout.clustering_action), content)


@dataclass(frozen=True, slots=True)
class ClusteringOutcome:
    """A completed clustering, or (plan None) one that was rolled back and removed."""

    instant: Instant
    plan: ClusteringInput | None
    stats: tuple[WriteStat, ...] = ()


def execute_clustering(taken: Claim, options: Options, engine: Engine) -> ClusteringOutcome:
    """Run a plan concurrently with writers.

    An error other than a crash rolls back everything except the pending plan.
    """
    state, pending = taken.state, taken.instant
    with taken.running(options, engine):
        plan = planned_clustering(
            state.view(),
            state.log.plan(pending, ClusteringPlan.from_record),
            at=pending.time,
            layout=options.services.clustering.layout,
        )
        if plan is None:
            with table_lock(state.fs, options.write, f"drop clustering {pending.time}"):
                drop(state, pending, engine)
            return ClusteringOutcome(pending, None)
        check_sortable(plan.order.columns, state.schema(), option=SORT_COLUMNS)
        return _run(state, pending, plan, options, engine)


def drop(state: TableState, pending: Instant, engine: Engine) -> None:
    """Remove a plan and all files written for it.  The caller holds the table's lock."""
    roll_back_service(
        state.fs, state.config, state.log, pending, engine=engine, keeps_request=False
    )


def cancel_clustering(
    state: TableState, groups: AbstractSet[FileGroupId], options: WriteOptions, engine: Engine
) -> tuple[str, ...]:
    """Remove the plans that have claimed one of these groups, for a write that changes them.

    Returns their instants.  The caller holds the table's lock.  Raises WriteConflictError for a
    plan that is running.
    """
    claimed = pending_plans(state.log, state.log.load()).clustering
    taken = groups & claimed.keys()
    times = {claimed[group] for group in taken}
    dropped = [
        pending
        for pending in state.log.load().where(REPLACEMENTS)
        if pending.time in times and not pending.is_completed
    ]
    for pending in dropped:
        if is_claimed(state.fs, pending, options):
            raise WriteConflictError(
                "records to change are in file groups that a running clustering rewrites",
                instant=pending.time,
                file_groups=", ".join(f"{g.partition}/{g.file_id}" for g in sorted(taken)),
                hint="retry the write after the clustering has completed",
            )
        drop(state, pending, engine)
    return tuple(str(pending.time) for pending in dropped)


def _run(
    state: TableState, pending: Instant, plan: ClusteringInput, options: Options, engine: Engine
) -> ClusteringOutcome:
    fs = state.fs
    how = rewriting(state, pending, options)
    rings, fields = resized_rings(state, plan, options, pending.time)
    inflight = state.log.start(pending)
    for ring in rings.values():
        fs.replace(ring.path, ring.to_json())
    waiting = waiting_index(
        staging_folder(inflight.time), inflight.time, state.zone, _record_index(state)
    )

    def tasks(work: ClusterWork) -> list[OutputTask]:
        if plan.resizes:
            return resize_tasks(work, plan, rings, fields)
        return _output_tasks(work, plan, engine, at=inflight.time)

    stats, index = _rewrite(how, plan, inflight, waiting, options, engine, tasks_of=tasks)
    remove_leftovers(fs, inflight.time, stats=stats)
    replaced: dict[str, list[str]] = {}
    for slice_ in plan.slices:
        replaced.setdefault(slice_.partition, []).append(slice_.file_id)
    content = CommitMetadata(
        stats,
        operation="CLUSTER",
        extra={**state.log.attempt_mark(inflight.time, state.timeline), **how.stated},
        replaced={partition: tuple(ids) for partition, ids in replaced.items()},
    )
    touched = WriteSet(frozenset(slice_.group for slice_ in plan.slices))
    with finishing(state, inflight, options.write, touched=touched) as ending:
        metadata = ending.begin_metadata(engine)
        lost = waiting.overtaken(index, metadata)
        if lost is not None:
            raise lost.error
        metadata.finish(stats, waiting.hand_over(fs, index, metadata, engine))
        if any(
            kind.traits.rereads_undone
            for kind in shadow_kinds(state.fs, state.config, options.write)
        ):
            request_reread(fs, inflight.time)
        completed = complete(state, inflight, state.log.encode(content))
    with tolerating("markers", completed):
        remove_markers(fs, completed.time)
    return ClusteringOutcome(completed, plan, stats)


def _record_index(state: TableState) -> RecordIndex | PartitionedRecordIndex | None:
    """The record index; None if the table maintains none."""
    metadata = open_metadata(state.fs, state.config, state.log, state.timeline)
    return None if metadata is None else metadata.maintained_index()


def _rewrite(
    how: Rewriting,
    plan: ClusteringInput,
    instant: Instant,
    waiting: WaitingIndex,
    options: Options,
    engine: Engine,
    *,
    tasks_of: Callable[[ClusterWork], list[OutputTask]],
) -> tuple[tuple[WriteStat, ...], list[WriteStat]]:
    """Write the new file groups and their index entries."""
    fs, targets = how.plan.fs, waiting.bucket_targets()
    size = sum(group.size_bytes for group in plan.groups)
    with row_spill(fs, engine, instant.time, in_memory=size <= _MEMORY_BYTES) as staging:
        hash = waiting.hash or (None if waiting.group_counts is None else KeyHash(1))
        sample = options.services.clustering.sample_rows
        work = ClusterWork(how.plan, how.spec, plan.order, sample, staging, hash)
        tasks = tasks_of(work)
        written = [
            (output, task.group)
            for task, output in zip(
                tasks, engine.run(write_output, tasks, label="cluster"), strict=True
            )
            if output is not None
        ]
        index: list[WriteStat] = []
        if targets and written:
            moved = tuple(_moved(output, group) for output, group in written)
            moves = [MoveTask(fs, instant, target, moved) for target in targets]
            found = engine.run(write_moves, moves, label="index")
            index = [stat for stat in found if stat is not None]
        elif waiting.group_counts is not None:
            groups = moved_entries([(o.keys.staged, group) for o, group in written if o.keys])
            index = write_entries_by_partition(fs, instant, waiting, groups, options.write, engine)
    return tuple(output.stat for output, _ in written), index


def _moved(output: Output, group: FileGroupId) -> Any:
    assert output.keys is not None
    return output.keys, group


def _output_tasks(
    work: ClusterWork, plan: ClusteringInput, engine: Engine, *, at: InstantTime
) -> list[OutputTask]:
    """A task for each new file group; rows that are sorted in ranges are distributed first."""
    large = [g for g in plan.groups if work.order.columns and not _sorts_whole(g)]
    distributed = dict(zip(large, _distributed(work, large, engine), strict=True))
    tasks: list[OutputTask] = []
    for group in plan.groups:
        for number in range(group.output_count):
            home = FileGroupId(group.partition, planned_file_id(at, len(tasks)))
            task = OutputTask(work, home, len(tasks))
            if group in distributed:
                sorter, ranges = distributed[group]
                each = len(ranges) // group.output_count
                mine = ranges[number * each : (number + 1) * each]
                task = OutputTask(work, home, len(tasks), ranges=mine, sorter=sorter)
            else:
                stretches = _stretches(group, number)
                task = OutputTask(work, home, len(tasks), stretches=stretches)
            tasks.append(task)
    return tasks


def _sorts_whole(group: ClusterGroup) -> bool:
    return group.output_count == 1 and group.size_bytes <= _RANGE_BYTES


def _stretches(group: ClusterGroup, number: int) -> tuple[Stretch, ...]:
    """The part of a group's rows that goes to one of its files, in the order of its slices."""
    sizes = [max(1, slice_.size_bytes) for slice_ in group.slices]
    total = sum(sizes)
    low, high = (at * total / group.output_count for at in (number, number + 1))
    found = []
    start = 0
    for slice_, size in zip(group.slices, sizes, strict=True):
        begin, end = (min(1.0, max(0.0, (edge - start) / size)) for edge in (low, high))
        if begin < end:
            found.append(Stretch(slice_, begin, end))
        start += size
    return tuple(found)


SortRanges = tuple[tuple[Staged, ...], ...]


def _distributed(
    work: ClusterWork, groups: Sequence[ClusterGroup], engine: Engine
) -> list[tuple[Sorter, SortRanges]]:
    """The sorter of each group, and its rows spilled range by range."""
    sample_tasks = [
        SampleTask(work, slice_, _share(work, group, slice_.size_bytes))
        for group in groups
        for slice_ in group.slices
    ]
    samples = iter(engine.run(sample_slice, sample_tasks, label="sample"))
    deals: list[DealTask] = []
    sorters: list[Sorter] = []
    for group in groups:
        sample = pa.concat_tables([next(samples) for _ in group.slices])
        sorter = Sorter.of(work.order, sample)
        bounds = sorter.bounds(sample, _range_count(group))
        sorters.append(sorter)
        deals += [DealTask(work, slice_, sorter, bounds) for slice_ in group.slices]
    spilled = iter(engine.run(deal_slice, deals, label="deal"))
    found = []
    for group, sorter in zip(groups, sorters, strict=True):
        rows = [next(spilled) for _ in group.slices]
        ranges = tuple(
            tuple(part for part in column if part is not None) for column in zip(*rows, strict=True)
        )
        found.append((sorter, ranges))
    return found


def _range_count(group: ClusterGroup) -> int:
    """The number of ranges that fit in memory, a multiple of the number of files."""
    each = -(-group.size_bytes // (_RANGE_BYTES * group.output_count))
    return group.output_count * max(1, each)


def _share(work: ClusterWork, group: ClusterGroup, size_bytes: int) -> int:
    """The number of rows of a slice in its group's sample."""
    return max(1, work.sample_rows * size_bytes // max(1, group.size_bytes))


def clustering_report(
    done: Sequence[ClusteringOutcome], *, notes: tuple[str, ...] = ()
) -> ClusteringReport:
    """The report of executed clusterings."""
    plans = [each.plan for each in done if each.plan is not None]
    stats = [stat for each in done for stat in each.stats]
    slices = [slice_ for plan in plans for slice_ in plan.slices]
    order = plans[-1].order if plans else None
    return ClusteringReport(
        instants=tuple(str(each.instant.time) for each in done if each.plan is not None),
        partitions=len({slice_.partition for slice_ in slices}),
        file_groups=len(slices),
        new_file_groups=len(stats),
        bytes_read=sum(slice_.size_bytes for slice_ in slices),
        bytes_written=sum(stat.write_bytes for stat in stats),
        rows=sum(stat.write_count for stat in stats),
        sort_by=order.columns if order else (),
        layout=order.layout.value if order else "LINEAR",
        dropped=tuple(str(each.instant.time) for each in done if each.plan is None),
        notes=notes,
    )

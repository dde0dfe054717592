"""Planning of clusterings: the slices to rewrite together, as records of the timeline.

Pure.  A clustering group is a set of slices of one partition whose rows are sorted together and
divided into new file groups.  A plan names files, so its input does not depend on when it runs.
Source: table_format 4 (HoodieClusteringPlan), 7.9.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Final

from pyhudi.errors import OptionError, UnsupportedTableError
from pyhudi.options import ClusteringOptions, Layout, PartitionChoice, PartitionMode, SliceOrder
from pyhudi.planning.compaction import NEW_BASE_BYTES, metrics_of
from pyhudi.records import InstantTime
from pyhudi.table.file_group_view import FileSlice, TableView
from pyhudi.timeline.plans.clustering import (
    LAYOUT,
    SORT_COLUMNS,
    ChildNode,
    ClusteringGroup,
    ClusteringPlan,
    ClusteringSlice,
)

_EXECUTIONS: Final = "org.apache.hudi.client.clustering.run.strategy."
_SORT_AND_SIZE: Final = "SparkSortAndSizeExecutionStrategy"
_SINGLE_FILE: Final = "SparkSingleFileSortExecutionStrategy"
_RESIZE: Final = "SparkConsistentBucketClusteringExecutionStrategy"
_KNOWN: Final = frozenset({_SORT_AND_SIZE, _SINGLE_FILE, _RESIZE})


@dataclass(frozen=True, slots=True)
class ClusterGroup:
    """Slices of one partition that become `output_count` new file groups.

    children: for a resize of consistent hashing buckets, the nodes that replace those of the
    slices; sequence: sequence number of the hashing metadata that the plan is based on.
    """

    slices: tuple[FileSlice, ...]
    output_count: int
    children: tuple[ChildNode, ...] = ()
    sequence: int = 0

    @property
    def partition(self) -> str:
        return self.slices[0].partition

    @property
    def size_bytes(self) -> int:
        return sum(slice_.size_bytes for slice_ in self.slices)


@dataclass(frozen=True, slots=True)
class SortOrder:
    """How rows are sorted.  columns: empty if rows stay in their current order."""

    columns: tuple[str, ...] = ()
    layout: Layout = Layout.LINEAR


@dataclass(frozen=True, slots=True)
class ClusteringInput:
    """What a clustering rewrites.  single_files: each group becomes one file."""

    groups: tuple[ClusterGroup, ...]
    order: SortOrder
    single_files: bool = False

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        return tuple(slice_ for group in self.groups for slice_ in group.slices)

    @property
    def resizes(self) -> bool:
        """Whether it splits or merges buckets of consistent hashing."""
        return any(group.children for group in self.groups)

    @property
    def execution(self) -> str:
        """The execution strategy class of Apache Hudi."""
        if self.resizes:
            return _EXECUTIONS + _RESIZE
        return _EXECUTIONS + (_SINGLE_FILE if self.single_files else _SORT_AND_SIZE)


def chosen_partitions(listed: Sequence[str], choice: PartitionChoice, *, hour: int) -> list[str]:
    """The partitions that a plan covers.  hour: hour of the day, for the rolling mode."""
    if choice.selected:
        selected = set(choice.selected)
        return [path for path in listed if path in selected]
    found = list(listed)
    if choice.pattern:
        try:
            pattern = re.compile(choice.pattern)
        except re.error as error:
            raise OptionError(
                "not a regular expression",
                value=choice.pattern,
                option="hoodie.clustering.plan.strategy.partition.regex.pattern",
            ) from error
        found = [path for path in found if pattern.fullmatch(path)]
    match choice.mode:
        case PartitionMode.NONE:
            return found
        case PartitionMode.RECENT_DAYS:
            newest = sorted(found, reverse=True)[choice.days_skipped :][: choice.days]
            return sorted(newest)
        case PartitionMode.SELECTED_PARTITIONS:
            last = choice.last
            return [p for p in found if p >= choice.first and (last is None or p <= last)]
        case PartitionMode.DAY_ROLLING:
            return [path for at, path in enumerate(sorted(found)) if at % 24 == hour]


def clusterable(
    view: TableView, options: ClusteringOptions, *, partitions: Iterable[str]
) -> ClusteringInput:
    """Groups of slices that are small enough, partition by partition.

    Skips file groups that a pending service has claimed, and slices that the rewrite would not
    change.
    """
    selected = set(partitions)
    claimed = view.pending.claimed
    order = SortOrder(options.sort_columns, options.layout)
    by_partition: dict[str, list[FileSlice]] = {}
    for slice_ in view.latest_slices():
        base_bytes = slice_.base.size_bytes if slice_.base else 0
        if (
            slice_.partition in selected
            and slice_.group not in claimed
            and base_bytes < options.small_file_bytes
            and slice_.instant >= options.earliest_commit
        ):
            by_partition.setdefault(slice_.partition, []).append(slice_)
    groups: list[ClusterGroup] = []
    for partition in sorted(by_partition):
        for group in _groups(by_partition[partition], options):
            if len(groups) < options.groups_max and _is_worth_it(group, order, options):
                groups.append(group)
    return ClusteringInput(tuple(groups), order, options.single_files)


def _groups(slices: Sequence[FileSlice], options: ClusteringOptions) -> list[ClusterGroup]:
    """Slices collected until a group is full."""
    if options.slice_order is SliceOrder.SIZE:
        ordered = sorted(slices, key=lambda s: (-_planned_bytes(s), s.group))
    else:
        ordered = sorted(slices, key=lambda s: (s.instant, s.group))
    members: list[FileSlice] = []
    groups: list[ClusterGroup] = []
    size = 0

    def close() -> None:
        count = max(1, -(-size // options.target_file_bytes))
        groups.append(ClusterGroup(tuple(members), 1 if options.single_files else count))

    for slice_ in ordered:
        more = _planned_bytes(slice_)
        if members and (size + more > options.group_bytes_max or options.each_slice_alone):
            close()
            members, size = [], 0
        members.append(slice_)
        size += more
    if members:
        close()
    return groups


def _planned_bytes(slice_: FileSlice) -> int:
    """Planned size of a slice; without a base file it counts as a full one, as in Apache Hudi."""
    return slice_.base.size_bytes if slice_.base else NEW_BASE_BYTES


def _is_worth_it(group: ClusterGroup, order: SortOrder, options: ClusteringOptions) -> bool:
    if len(group.slices) > 1 or order.columns:
        return True
    alike = group.output_count == 1 and not any(slice_.logs for slice_ in group.slices)
    return options.lone_slices and not alike


def clustering_plan(request: ClusteringInput) -> ClusteringPlan:
    """The plan that rewrites these slices."""
    params = {}
    if request.order.columns:
        params[SORT_COLUMNS] = ",".join(request.order.columns)
    if request.order.layout is not Layout.LINEAR:
        params[LAYOUT] = request.order.layout.value
    return ClusteringPlan(tuple(map(_planned, request.groups)), request.execution, params)


def _planned(group: ClusterGroup) -> ClusteringGroup:
    metrics: dict[str, float] = {}
    for slice_ in group.slices:
        for name, value in metrics_of(slice_).items():
            metrics[name] = metrics.get(name, 0.0) + value
    slices = tuple(
        ClusteringSlice(
            slice_.group,
            str(slice_.base.name) if slice_.base else "",
            tuple(str(log.name) for log in slice_.logs),
        )
        for slice_ in group.slices
    )
    return ClusteringGroup(slices, group.output_count, group.children, group.sequence, metrics)


def planned_clustering(
    view: TableView, plan: ClusteringPlan, *, at: InstantTime, layout: Layout
) -> ClusteringInput | None:
    """The current slices of a plan; None if a file group has changed since.

    layout: used if the plan does not state one (plans of Apache Hudi leave it to the executing
    writer).  Raises UnsupportedTableError for an unknown execution strategy.
    """
    order = _order(plan, at=at, layout=layout)
    groups = []
    for group in plan.groups:
        slices = [_found(view, slice_) for slice_ in group.slices]
        present = tuple(slice_ for slice_ in slices if slice_ is not None)
        if len(present) < len(slices):
            return None
        if present:
            groups.append(ClusterGroup(present, group.output_count, group.children, group.sequence))
    return ClusteringInput(tuple(groups), order)


def _order(plan: ClusteringPlan, *, at: InstantTime, layout: Layout) -> SortOrder:
    name = (plan.execution or _SORT_AND_SIZE).rsplit(".", 1)[-1]
    if name not in _KNOWN:
        raise UnsupportedTableError(
            "the execution strategy of a pending clustering is not supported",
            instant=at,
            strategy=name,
            hint="run it with Apache Hudi, or roll it back",
        )
    columns = plan.params.get(SORT_COLUMNS, "").split(",")
    if stated := plan.params.get(LAYOUT):
        layout = Layout(stated.upper())
    return SortOrder(tuple(filter(None, map(str.strip, columns))), layout)


def _found(view: TableView, planned: ClusteringSlice) -> FileSlice | None:
    """The newest slice of a planned group, if it consists of the planned files."""
    group = view.groups.get(planned.group)
    slice_ = group.latest() if group else None
    if slice_ is None:
        return None
    if (str(slice_.base.name) if slice_.base else "") != planned.base_file:
        return None
    return slice_ if {str(log.name) for log in slice_.logs} == set(planned.log_files) else None

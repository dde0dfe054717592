"""Plans of clusterings: which slices are laid out anew together, as records of the timeline.

Pure.  A group is slices of one partition whose rows are sorted together and cut into new file
groups.  A plan names files, so what is laid out does not depend on when it is carried out.
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

    children: where buckets of consistent hashing are resized, the nodes that take the place of
    those of the slices; sequence: of the ring that the plan was made on.
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
        return sum(piece.size_bytes for piece in self.slices)


@dataclass(frozen=True, slots=True)
class SortOrder:
    """How rows are laid out.  columns: none where they stay as they come."""

    columns: tuple[str, ...] = ()
    layout: Layout = Layout.LINEAR


@dataclass(frozen=True, slots=True)
class ClusteringInput:
    """What a clustering rewrites.  single_files: each group is to become one file."""

    groups: tuple[ClusterGroup, ...]
    order: SortOrder
    single_files: bool = False

    @property
    def slices(self) -> tuple[FileSlice, ...]:
        return tuple(piece for group in self.groups for piece in group.slices)

    @property
    def resizes(self) -> bool:
        """Whether it splits and merges buckets of consistent hashing."""
        return any(group.children for group in self.groups)

    @property
    def execution(self) -> str:
        """The class by which Apache Hudi would carry it out."""
        if self.resizes:
            return _EXECUTIONS + _RESIZE
        return _EXECUTIONS + (_SINGLE_FILE if self.single_files else _SORT_AND_SIZE)


def chosen_partitions(listed: Sequence[str], choice: PartitionChoice, *, hour: int) -> list[str]:
    """The partitions that a plan looks at.  hour: of the day, for the rolling mode."""
    if choice.selected:
        wanted = set(choice.selected)
        return [path for path in listed if path in wanted]
    found = list(listed)
    if choice.pattern:
        try:
            pattern = re.compile(choice.pattern)
        except re.error as error:
            raise OptionError(
                "not a regular expression", value=choice.pattern,
                option="hoodie.clustering.plan.strategy.partition.regex.pattern",
            ) from error  # fmt: skip
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

    Groups that a pending service has claimed are left out, and so is a slice that would come out
    as it is.
    """
    wanted = set(partitions)
    claimed = view.pending.claimed
    order = SortOrder(options.sort_columns, options.layout)
    by_partition: dict[str, list[FileSlice]] = {}
    for piece in view.latest_slices():
        base_bytes = piece.base.size_bytes if piece.base else 0
        if (
            piece.partition in wanted
            and piece.group not in claimed
            and base_bytes < options.small_file_bytes
            and piece.instant >= options.earliest_commit
        ):
            by_partition.setdefault(piece.partition, []).append(piece)
    groups: list[ClusterGroup] = []
    for partition in sorted(by_partition):
        for group in _groups(by_partition[partition], options):
            if len(groups) < options.groups_max and _is_worth_it(group, order, options):
                groups.append(group)
    return ClusteringInput(tuple(groups), order, options.single_files)


def _groups(slices: Sequence[FileSlice], options: ClusteringOptions) -> list[ClusterGroup]:
    """Slices put together until a group is full."""
    if options.slice_order is SliceOrder.SIZE:
        ordered = sorted(slices, key=lambda s: (-_planned_bytes(s), s.group))
    else:
        ordered = sorted(slices, key=lambda s: (s.instant, s.group))
    held: list[FileSlice] = []
    groups: list[ClusterGroup] = []
    size = 0

    def close() -> None:
        count = max(1, -(-size // options.target_file_bytes))
        groups.append(ClusterGroup(tuple(held), 1 if options.single_files else count))

    for piece in ordered:
        more = _planned_bytes(piece)
        if held and (size + more > options.group_bytes_max or options.each_slice_alone):
            close()
            held, size = [], 0
        held.append(piece)
        size += more
    if held:
        close()
    return groups


def _planned_bytes(piece: FileSlice) -> int:
    """A slice without a base file counts as a whole one, as in Apache Hudi."""
    return piece.base.size_bytes if piece.base else NEW_BASE_BYTES


def _is_worth_it(group: ClusterGroup, order: SortOrder, options: ClusteringOptions) -> bool:
    if len(group.slices) > 1 or order.columns:
        return True
    alike = group.output_count == 1 and not group.slices[0].logs
    return options.lone_slices and not alike


def clustering_plan(wanted: ClusteringInput) -> ClusteringPlan:
    """The plan that rewrites these slices."""
    params = {}
    if wanted.order.columns:
        params[SORT_COLUMNS] = ",".join(wanted.order.columns)
    if wanted.order.layout is not Layout.LINEAR:
        params[LAYOUT] = wanted.order.layout.value
    return ClusteringPlan(tuple(map(_planned, wanted.groups)), wanted.execution, params)


def _planned(group: ClusterGroup) -> ClusteringGroup:
    metrics: dict[str, float] = {}
    for piece in group.slices:
        for name, value in metrics_of(piece).items():
            metrics[name] = metrics.get(name, 0.0) + value
    slices = tuple(
        ClusteringSlice(
            piece.group,
            str(piece.base.name) if piece.base else "",
            tuple(str(log.name) for log in piece.logs),
        )
        for piece in group.slices
    )
    return ClusteringGroup(slices, group.output_count, group.children, group.sequence, metrics)


def planned_clustering(
    view: TableView, plan: ClusteringPlan, *, at: InstantTime, layout: Layout
) -> ClusteringInput | None:
    """The slices of a plan as they are; None if a file group has changed since.

    layout: where the plan does not say (Apache Hudi's leave it to who carries them out).  Raises
    UnsupportedTableError for a strategy that is not known here.
    """
    order = _order(plan, at=at, layout=layout)
    groups = []
    for group in plan.groups:
        slices = [_found(view, piece) for piece in group.slices]
        present = tuple(piece for piece in slices if piece is not None)
        if len(present) < len(slices):
            return None
        if present:
            groups.append(ClusterGroup(present, group.output_count, group.children, group.sequence))
    return ClusteringInput(tuple(groups), order)


def _order(plan: ClusteringPlan, *, at: InstantTime, layout: Layout) -> SortOrder:
    name = (plan.execution or _SORT_AND_SIZE).rsplit(".", 1)[-1]
    if name not in _KNOWN:
        raise UnsupportedTableError(
            "a pending clustering is to be carried out in a way that is not known here",
            instant=at, strategy=name, hint="let Apache Hudi carry it out, or roll it back",
        )  # fmt: skip
    columns = plan.params.get(SORT_COLUMNS, "").split(",")
    if stated := plan.params.get(LAYOUT):
        layout = Layout(stated.upper())
    return SortOrder(tuple(filter(None, map(str.strip, columns))), layout)


def _found(view: TableView, planned: ClusteringSlice) -> FileSlice | None:
    """The newest slice of a planned group, if it is made of the planned files."""
    group = view.groups.get(planned.group)
    piece = group.latest() if group else None
    if piece is None:
        return None
    if (str(piece.base.name) if piece.base else "") != planned.base_file:
        return None
    return piece if {str(log.name) for log in piece.logs} == set(planned.log_files) else None

"""Plans of clusterings: which slices are laid out anew together, as records of the timeline.

Pure.  A group is slices of one partition whose rows are sorted together and cut into new file
groups.  A plan names files, so what is laid out does not depend on when it is carried out.
Source: table_format 4 (HoodieClusteringPlan), 7.9.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from pyhudi.errors import CorruptFileError, OptionError, UnsupportedTableError
from pyhudi.options import ClusteringOptions, Layout, PartitionChoice, PartitionMode, SliceOrder
from pyhudi.planning.compaction import NEW_BASE_BYTES, metrics_of
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.table.file_group_view import FileSlice, TableView

SORT_COLUMNS: Final = "hoodie.clustering.plan.strategy.sort.columns"
LAYOUT: Final = "hoodie.layout.optimize.strategy"
_EXECUTIONS: Final = "org.apache.hudi.client.clustering.run.strategy."
_SORT_AND_SIZE: Final = "SparkSortAndSizeExecutionStrategy"
_SINGLE_FILE: Final = "SparkSingleFileSortExecutionStrategy"
_RESIZE: Final = "SparkConsistentBucketClusteringExecutionStrategy"
_KNOWN: Final = frozenset({_SORT_AND_SIZE, _SINGLE_FILE, _RESIZE})
_CHILDREN: Final = "clustering.group.child.node"
_SEQUENCE: Final = "clustering.group.sequence.no"
_PREFIX: Final = re.compile(r"[0-9a-zA-Z-]{8,64}", re.ASCII)


@dataclass(frozen=True, slots=True)
class ChildNode:
    """A node of a consistent-hashing ring after a resize: the hashes up to `value` go to the file
    group of `prefix`; None: the node is removed, and the next one takes its hashes."""

    value: int
    prefix: str | None


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
class ClusteringPlan:
    """What a clustering takes on.  single_files: each group is to become one file."""

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
) -> ClusteringPlan:
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
    return ClusteringPlan(tuple(groups), order, options.single_files)


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


def clustering_record(plan: ClusteringPlan, *, root: str) -> dict[str, Any]:
    """The content of the requested file.  root: the table's path, as files are named by it."""
    params = {}
    if plan.order.columns:
        params[SORT_COLUMNS] = ",".join(plan.order.columns)
    if plan.order.layout is not Layout.LINEAR:
        params[LAYOUT] = plan.order.layout.value
    return {
        "operationType": "CLUSTER",
        "clusteringPlan": {
            "inputGroups": [_group_record(group, root) for group in plan.groups],
            "strategy": {
                "strategyClassName": plan.execution,
                "strategyParams": params,
                "version": 1,
            },
            "extraMetadata": {},
            "version": 1,
            "preserveHoodieMetadata": True,
        },
        "extraMetadata": {},
        "version": 1,
    }


def _group_record(group: ClusterGroup, root: str) -> dict[str, Any]:
    metrics: dict[str, float] = {}
    for piece in group.slices:
        for name, value in metrics_of(piece).items():
            metrics[name] = metrics.get(name, 0.0) + value
    return {
        "slices": [
            {
                "dataFilePath": f"{root}/{piece.base.path}" if piece.base else "",
                "deltaFilePaths": [f"{root}/{log.path}" for log in piece.logs],
                "fileId": piece.file_id,
                "partitionPath": piece.partition,
                "bootstrapFilePath": "",
                "version": 1,
            }
            for piece in group.slices
        ],
        "metrics": metrics,
        "numOutputFileGroups": group.output_count,
        "extraMetadata": _children_record(group),
        "version": 1,
    }


def _children_record(group: ClusterGroup) -> dict[str, str]:
    """What Apache Hudi's plans say of a resize: the nodes as JSON text."""
    if not group.children:
        return {}
    nodes = [
        {
            "value": child.value,
            "fileIdPrefix": child.prefix,
            "tag": "DELETE" if child.prefix is None else "REPLACE",
        }
        for child in group.children
    ]
    return {
        _SEQUENCE: str(group.sequence),
        _CHILDREN: json.dumps(nodes),
        "clustering.group.partition": group.partition,
    }


def _children(extra: Mapping[str, str], *, at: InstantTime) -> tuple[ChildNode, ...]:
    """Raises CorruptFileError."""
    try:
        nodes = json.loads(extra.get(_CHILDREN) or "[]")
        return tuple(
            ChildNode(int(node["value"]), None if node["tag"] == "DELETE" else _prefix(node))
            for node in nodes
        )
    except (ValueError, KeyError, TypeError) as error:
        raise CorruptFileError("a clustering plan has no such nodes", instant=at) from error


def _prefix(node: Mapping[str, Any]) -> str:
    """A file id's first part: it becomes a file's name."""
    text = str(node["fileIdPrefix"])
    if not _PREFIX.fullmatch(text):
        raise ValueError(text)
    return text


def planned_clustering(
    view: TableView, record: Mapping[str, Any], *, at: InstantTime, layout: Layout
) -> ClusteringPlan | None:
    """The plan in a requested file, with its slices as they are; None if a group has changed
    since.

    layout: where the plan does not say (Apache Hudi's leave it to who carries them out).  Raises
    UnsupportedTableError for a strategy that is not known here.
    """
    planned = record.get("clusteringPlan") or {}
    order = _order(planned.get("strategy") or {}, at=at, layout=layout)
    groups = []
    for group in planned.get("inputGroups") or ():
        slices = [_found(view, part) for part in group.get("slices") or ()]
        present = tuple(piece for piece in slices if piece is not None)
        if len(present) < len(slices):
            return None
        if present:
            count, extra = group.get("numOutputFileGroups"), group.get("extraMetadata") or {}
            sequence = str(extra.get(_SEQUENCE) or "0")
            groups.append(
                ClusterGroup(
                    present,
                    max(1, count or 1),
                    _children(extra, at=at),
                    int(sequence) if sequence.isdecimal() else -1,
                )
            )
    return ClusteringPlan(tuple(groups), order)


def _order(strategy: Mapping[str, Any], *, at: InstantTime, layout: Layout) -> SortOrder:
    name = (strategy.get("strategyClassName") or _SORT_AND_SIZE).rsplit(".", 1)[-1]
    if name not in _KNOWN:
        raise UnsupportedTableError(
            "a pending clustering is to be carried out in a way that is not known here",
            instant=at, strategy=name, hint="let Apache Hudi carry it out, or roll it back",
        )  # fmt: skip
    params = strategy.get("strategyParams") or {}
    columns = tuple(filter(None, (c.strip() for c in params.get(SORT_COLUMNS, "").split(","))))
    if stated := params.get(LAYOUT):
        layout = Layout(stated.upper())
    return SortOrder(columns, layout)


def _found(view: TableView, part: Mapping[str, Any]) -> FileSlice | None:
    """The newest slice of a planned group, if it is made of the planned files."""
    group = view.groups.get(FileGroupId(part["partitionPath"] or "", part["fileId"]))
    piece = group.latest() if group else None
    if piece is None:
        return None
    base = (part["dataFilePath"] or "").rpartition("/")[2]
    logs = {path.rpartition("/")[2] for path in part["deltaFilePaths"] or ()}
    same = (str(piece.base.name) if piece.base else "") == base
    return piece if same and {str(log.name) for log in piece.logs} == logs else None

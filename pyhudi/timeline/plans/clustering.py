"""Plans of clusterings, and detection of clusterings among replace commits."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pyhudi.filenames import join
from pyhudi.records import FileGroupId
from pyhudi.timeline.plans.checks import group_of, name_of, reading
from pyhudi.timeline.service_payloads import REQUESTED_REPLACE, write_avro

SORT_COLUMNS: Final = "hoodie.clustering.plan.strategy.sort.columns"
LAYOUT: Final = "hoodie.layout.optimize.strategy"
_CLUSTER: Final = "CLUSTER"
_CHILDREN: Final = "clustering.group.child.node"
_SEQUENCE: Final = "clustering.group.sequence.no"
_PREFIX: Final = re.compile(r"[0-9a-zA-Z-]{8,64}", re.ASCII)
_OUTPUT_GROUPS_MAX: Final = 1 << 20


@dataclass(frozen=True, slots=True)
class ChildNode:
    """A node of a consistent-hashing ring after a resize: the hashes up to `value` go to the file
    group of `prefix`; None: the node is removed, and the next one takes its hashes."""

    value: int
    prefix: str | None


@dataclass(frozen=True, slots=True)
class ClusteringSlice:
    """A file slice to rewrite.  base_file: its name, empty for a slice of logs only."""

    group: FileGroupId
    base_file: str
    log_files: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ClusteringGroup:
    """Slices of one partition that become `output_count` new file groups.

    children: if buckets of consistent hashing are resized, the nodes that replace
    those of the slices; sequence: of the ring used for the plan, -1 for an invalid one.
    metrics: estimated cost, with Apache Hudi's names; not read back.
    """

    slices: tuple[ClusteringSlice, ...]
    output_count: int
    children: tuple[ChildNode, ...] = ()
    sequence: int = 0
    metrics: Mapping[str, float] = field(default_factory=dict, compare=False)


@dataclass(frozen=True, slots=True)
class ClusteringPlan:
    """File groups to rewrite.

    execution: the class with which Apache Hudi would run it, empty if not stated.
    params: of the strategy, as text: SORT_COLUMNS, LAYOUT.
    """

    groups: tuple[ClusteringGroup, ...] = ()
    execution: str = ""
    params: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_groups(self) -> tuple[FileGroupId, ...]:
        return tuple(file_slice.group for group in self.groups for file_slice in group.slices)

    @classmethod
    def from_record(cls, record: Mapping[str, Any], *, path: str) -> Self:
        """path: of the requested file.  No groups for a record of another action.

        Raises CorruptFileError.
        """
        with reading("clustering", path):
            plan = (record.get("clusteringPlan") or {}) if is_clustering(record) else {}
            strategy = plan.get("strategy") or {}
            return cls(
                tuple(_group(each, path) for each in plan.get("inputGroups") or ()),
                str(strategy.get("strategyClassName") or ""),
                dict(strategy.get("strategyParams") or {}),
            )

    def to_avro(self, *, root: str) -> bytes:
        """root: the table's path, prepended to the names of files."""
        strategy = {
            "strategyClassName": self.execution,
            "strategyParams": dict(self.params),
            "version": 1,
        }
        record = {
            "operationType": _CLUSTER,
            "clusteringPlan": {
                "inputGroups": [_group_record(group, root) for group in self.groups],
                "strategy": strategy,
                "extraMetadata": {},
                "version": 1,
                "preserveHoodieMetadata": True,
            },
            "extraMetadata": {},
            "version": 1,
        }
        return write_avro(REQUESTED_REPLACE, record)


def is_clustering(requested: Mapping[str, Any]) -> bool:
    """Whether a replace commit is a clustering, from the record of its requested file.

    Source: ClusteringUtils.getClusteringPlan.
    """
    return requested.get("operationType") == _CLUSTER


def _group(record: Mapping[str, Any], path: str) -> ClusteringGroup:
    extra = record.get("extraMetadata") or {}
    sequence = str(extra.get(_SEQUENCE) or "0")
    count = int(record.get("numOutputFileGroups") or 1)
    if count > _OUTPUT_GROUPS_MAX:
        raise ValueError(count)
    return ClusteringGroup(
        tuple(_slice(each, path) for each in record.get("slices") or ()),
        max(1, count),
        _children(extra),
        int(sequence) if sequence.isdecimal() and len(sequence) < 10 else -1,
    )


def _slice(record: Mapping[str, Any], path: str) -> ClusteringSlice:
    return ClusteringSlice(
        group_of(record["partitionPath"], record["fileId"], path=path),
        name_of(record.get("dataFilePath"), path=path),
        tuple(name_of(log, path=path) for log in record.get("deltaFilePaths") or ()),
    )


def _children(extra: Mapping[str, str]) -> tuple[ChildNode, ...]:
    """Raises ValueError, KeyError, TypeError."""
    return tuple(
        ChildNode(int(node["value"]), None if node["tag"] == "DELETE" else _prefix(node))
        for node in json.loads(extra.get(_CHILDREN) or "[]")
    )


def _prefix(node: Mapping[str, Any]) -> str:
    """The first part of a file id, which becomes part of a file name."""
    text = str(node["fileIdPrefix"])
    if not _PREFIX.fullmatch(text):
        raise ValueError(text)
    return text


def _group_record(group: ClusteringGroup, root: str) -> dict[str, Any]:
    return {
        "slices": [_slice_record(file_slice, root) for file_slice in group.slices],
        "metrics": dict(group.metrics),
        "numOutputFileGroups": group.output_count,
        "extraMetadata": _children_record(group),
        "version": 1,
    }


def _slice_record(file_slice: ClusteringSlice, root: str) -> dict[str, Any]:
    partition = file_slice.group.partition
    return {
        "dataFilePath": f"{root}/{join(partition, file_slice.base_file)}"
        if file_slice.base_file
        else "",
        "deltaFilePaths": [f"{root}/{join(partition, log)}" for log in file_slice.log_files],
        "fileId": file_slice.group.file_id,
        "partitionPath": partition,
        "bootstrapFilePath": "",
        "version": 1,
    }


def _children_record(group: ClusteringGroup) -> dict[str, str]:
    """A resize as Apache Hudi's plans store it: the nodes as JSON text."""
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
        "clustering.group.partition": group.slices[0].group.partition,
    }

"""Rollback plans and results.

The rollback of a failed write X deletes the files that only X wrote, and appends a command block
to each slice to which X only appended log files, because its logs may contain blocks of other
writes.  `build_rollback_plan` derives both from the files found on the store; the plan is stored in
`R.rollback.requested`, from where any later writer can run it.

Source: table_format 4 (HoodieRollbackPlan), 7.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from pyhudi.filenames import DataFileName, LogFileName, join
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.timeline.instant import Action, Instant
from pyhudi.timeline.plans.rollback import KEEPS_REQUEST, Removal, RollbackPlan


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A data file on the store.  has_blocks: a log that contains blocks of the failed write."""

    partition: str
    name: DataFileName
    size_bytes: int
    has_blocks: bool = False


def build_rollback_plan(failed: Instant, found: Iterable[FoundFile]) -> RollbackPlan:
    """The plan for undoing `failed`, given the files that may belong to it.  Pure.

    Files at its instant are deleted, except the logs of rows that later writes added to the slice
    of a failed compaction.  A slice with a log that contains its blocks gets one command block.
    """
    deletable: dict[FileGroupId, list[str]] = {}
    undone: dict[tuple[FileGroupId, InstantTime], dict[str, int]] = {}
    for file in found:
        group = FileGroupId(file.partition, file.name.file_id)
        is_log = isinstance(file.name, LogFileName) and not file.name.is_cdc
        if file.name.instant == failed.time:
            if not (is_log and failed.action is Action.COMPACTION):
                deletable.setdefault(group, []).append(join(file.partition, str(file.name)))
        elif is_log and file.has_blocks:
            logs = undone.setdefault((group, file.name.instant), {})
            logs[str(file.name)] = file.size_bytes
    deletions = [
        Removal(g, failed.time, tuple(sorted(set(paths)))) for g, paths in deletable.items()
    ]
    commands = [
        Removal(group, base_instant, (), dict(sorted(logs.items())))
        for (group, base_instant), logs in undone.items()
    ]
    removals = sorted([*deletions, *commands], key=lambda r: (r.group, r.base_instant))
    return RollbackPlan(failed.time, failed.action, tuple(removals), failed.action in KEEPS_REQUEST)


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A completed rollback.  Paths from the table's root, sizes in bytes.

    command_blocks: log files written to undo blocks.  failed_logs: log files that contain the
    undone blocks; they stay.
    """

    failed: Instant
    at: InstantTime
    deleted: tuple[str, ...] = ()
    command_blocks: Mapping[str, int] = field(default_factory=dict)
    failed_logs: Mapping[str, int] = field(default_factory=dict)

    def log_files(self) -> dict[str, dict[str, int]]:
        """Partition -> log name -> size: the log files that the metadata table must list."""
        by_partition: dict[str, dict[str, int]] = {}
        for path, size in (*self.failed_logs.items(), *self.command_blocks.items()):
            partition, _, name = path.rpartition("/")
            by_partition.setdefault(partition, {})[name] = size
        return by_partition


def to_metadata(done: RolledBack, *, root: str, took_millis: int) -> dict[str, Any]:
    """The Avro record of a completed rollback."""
    partitions: dict[str, dict[str, Any]] = {}

    def entry(path: str) -> dict[str, Any]:
        partition = path.rpartition("/")[0]
        empty: dict[str, Any] = {
            "partitionPath": partition,
            "successDeleteFiles": [],
            "failedDeleteFiles": [],
            "rollbackLogFiles": {},
            "logFilesFromFailedCommit": {},
        }
        return partitions.setdefault(partition, empty)

    scheme = "" if "://" in root else "file:"
    for path in done.deleted:
        entry(path)["successDeleteFiles"].append(f"{root}/{path}")
    for path, size in done.command_blocks.items():
        entry(path)["rollbackLogFiles"][f"{scheme}{root}/{path}"] = size
    for path, size in done.failed_logs.items():
        entry(path)["logFilesFromFailedCommit"][path.rpartition("/")[2]] = size
    return {
        "startRollbackTime": done.at,
        "timeTakenInMillis": took_millis,
        "totalFilesDeleted": len(done.deleted),
        "commitsRollback": [done.failed.time],
        "partitionMetadata": partitions,
        "version": 1,
        "instantsRollback": [{"commitTime": done.failed.time, "action": done.failed.action.value}],
    }

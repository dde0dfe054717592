"""What a rollback will do, as a value: written down before it is done.

A failed write X is taken back by two kinds of act: files that X alone wrote are deleted; a slice
that X only appended log files to gets a command block, as its logs may hold other writes' blocks.
`plan` decides which, from files found on the store; the plan goes to `R.rollback.requested` and
whoever finds it there can carry it out.

Source: table_format 4 (HoodieRollbackPlan), 7.7.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyhudi.errors import CorruptFileError
from pyhudi.filenames import DataFileName, LogFileName, join, parse_data_file
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.timeline.instant import Action, Instant
from pyhudi.timeline.plans.checks import is_partition

_PLANNED: Final = frozenset({Action.COMPACTION, Action.LOG_COMPACTION})
"""Actions whose request is a plan, which a rollback keeps unless it is told otherwise."""


@dataclass(frozen=True, slots=True)
class FoundFile:
    """A data file on the store; `has_blocks`: a log that holds blocks of the failed write."""

    partition: str
    name: DataFileName
    size_bytes: int
    has_blocks: bool = False


@dataclass(frozen=True, slots=True)
class Removal:
    """What happens to one slice: `files` (paths from the table's root) are deleted, or `logs`
    (names, with their sizes) are answered by a command block."""

    group: FileGroupId
    base_instant: InstantTime
    files: tuple[str, ...] = ()
    logs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """How the write `time` is taken back.

    keeps_request: whether the instant goes back to requested, as a planned service that will be
    run again.  Records do not say.
    """

    time: InstantTime
    action: Action
    removals: tuple[Removal, ...] = ()
    keeps_request: bool = False


def build_rollback_plan(failed: Instant, found: Iterable[FoundFile]) -> RollbackPlan:
    """Take back `failed`, given the files that may be its own.  Pure.

    Files at its instant are deleted, but a failed compaction keeps the logs that later writes
    put on its slice.  A log that holds its blocks earns its slice one command block.
    """
    doomed: dict[FileGroupId, list[str]] = {}
    answered: dict[tuple[FileGroupId, InstantTime], dict[str, int]] = {}
    for file in found:
        group = FileGroupId(file.partition, file.name.file_id)
        is_log = isinstance(file.name, LogFileName)
        if file.name.instant == failed.time:
            if not (is_log and failed.action is Action.COMPACTION):
                doomed.setdefault(group, []).append(join(file.partition, str(file.name)))
        elif is_log and file.has_blocks:
            logs = answered.setdefault((group, file.name.instant), {})
            logs[str(file.name)] = file.size_bytes
    deletions = [Removal(g, failed.time, tuple(sorted(set(paths)))) for g, paths in doomed.items()]
    commands = [
        Removal(group, base_instant, (), dict(sorted(logs.items())))
        for (group, base_instant), logs in answered.items()
    ]
    removals = sorted([*deletions, *commands], key=lambda r: (r.group, r.base_instant))
    return RollbackPlan(failed.time, failed.action, tuple(removals), failed.action in _PLANNED)


def to_record(plan: RollbackPlan, *, root: str) -> dict[str, Any]:
    """The Avro record, paths absolute under `root` (the table's), as Apache Hudi writes it."""
    requests = [
        {
            "partitionPath": removal.group.partition,
            "fileId": removal.group.file_id,
            "latestBaseInstant": removal.base_instant,
            "filesToBeDeleted": [f"{root}/{path}" for path in removal.files],
            "logBlocksToBeDeleted": dict(removal.logs),
        }
        for removal in plan.removals
    ]
    return {
        "instantToRollback": {"commitTime": plan.time, "action": plan.action.value},
        "RollbackRequests": requests,
        "version": 1,
    }


def from_record(record: Mapping[str, Any], *, path: str) -> RollbackPlan | None:
    """The plan in a requested file, or None if it holds none.

    Files are taken by partition and name, so a table may have moved since.  Raises
    CorruptFileError for a file that is not the failed instant's or not inside a partition: such
    a plan would delete what it must not.
    """
    target = record.get("instantToRollback")
    if not target:
        return None
    time = InstantTime(target["commitTime"])
    try:
        action = Action(target["action"])
    except ValueError:
        raise CorruptFileError("a rollback of an unknown action", path=path, **target) from None
    removals = tuple(
        _removal(request, time, path) for request in record.get("RollbackRequests") or ()
    )
    return RollbackPlan(time, action, removals, action in _PLANNED)


def _removal(request: Mapping[str, Any], time: InstantTime, path: str) -> Removal:
    partition = request["partitionPath"]
    if not is_partition(partition):
        raise CorruptFileError("a rollback outside the table", path=path, partition=partition)
    files = []
    for full in request["filesToBeDeleted"]:
        name = parse_data_file(full.rsplit("/", 1)[-1])
        if name is None or name.instant != time:
            raise CorruptFileError(
                "a rollback plan names a file that is not of the instant it rolls back",
                path=path,
                file=full,
                instant=time,
            )
        files.append(join(partition, str(name)))
    logs = {
        full.rsplit("/", 1)[-1]: n for full, n in (request["logBlocksToBeDeleted"] or {}).items()
    }
    group = FileGroupId(partition, request["fileId"] or "")
    return Removal(group, InstantTime(request["latestBaseInstant"] or ""), tuple(files), logs)


@dataclass(frozen=True, slots=True)
class RolledBack:
    """A rollback that is done.  Paths from the table's root, sizes in bytes.

    command_blocks: log files written to take blocks back.  failed_logs: log files that hold the
    blocks taken back; they stay.
    """

    failed: Instant
    at: InstantTime
    deleted: tuple[str, ...] = ()
    command_blocks: Mapping[str, int] = field(default_factory=dict)
    failed_logs: Mapping[str, int] = field(default_factory=dict)

    def log_files(self) -> dict[str, dict[str, int]]:
        """Partition -> log name -> size: what the metadata table must list from now on."""
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

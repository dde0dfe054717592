"""Plans of rollbacks."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pyhudi.errors import CorruptFileError
from pyhudi.filenames import join, parse_data_file
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.timeline.instant import Action
from pyhudi.timeline.plans.checks import file_id_of, instant_of, partition_of, reading
from pyhudi.timeline.service_payloads import ROLLBACK_PLAN, write_avro

KEEPS_REQUEST: Final = frozenset({Action.COMPACTION, Action.LOG_COMPACTION})
"""Actions whose request is a plan, which a rollback retains by default."""


@dataclass(frozen=True, slots=True)
class InstantInfo:
    """An instant to roll back."""

    time: InstantTime
    action: Action

    @classmethod
    def from_record(cls, record: Mapping[str, Any], *, path: str) -> Self:
        """Raises CorruptFileError."""
        time = instant_of(record["commitTime"], path=path)
        try:
            return cls(time, Action(record["action"]))
        except ValueError:
            raise CorruptFileError(
                "a plan rolls back an unknown action", path=path, action=record["action"]
            ) from None

    def to_record(self) -> dict[str, str]:
        return {"commitTime": self.time, "action": self.action.value}


@dataclass(frozen=True, slots=True)
class Removal:
    """The changes to one slice: `files` (paths from the table's root) are deleted, or `logs`
    (names, with their sizes) get a command block."""

    group: FileGroupId
    base_instant: InstantTime
    files: tuple[str, ...] = ()
    logs: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RollbackPlan:
    """The rollback of the write `time`.

    keeps_request: whether the instant returns to requested, as a planned service that will be
    run again.  Not stored in records.
    """

    time: InstantTime
    action: Action
    removals: tuple[Removal, ...] = ()
    keeps_request: bool = False

    @classmethod
    def from_record(cls, record: Mapping[str, Any], *, path: str) -> Self | None:
        """The plan in a requested file, or None if it has none.

        Files are identified by partition and name, so the table may have moved.  Raises
        CorruptFileError for a file that is not the failed instant's or not inside a partition:
        such a plan would delete other files.
        """
        target = target_of(record, path=path)
        if target is None:
            return None
        with reading("rollback", path):
            removals = tuple(
                _removal(request, target.time, path)
                for request in record.get("RollbackRequests") or ()
            )
        return cls(target.time, target.action, removals, target.action in KEEPS_REQUEST)

    def to_record(self, *, root: str) -> dict[str, Any]:
        """Paths absolute under `root` (the table's), as Apache Hudi writes them."""
        return {
            "instantToRollback": InstantInfo(self.time, self.action).to_record(),
            "RollbackRequests": [
                {
                    "partitionPath": removal.group.partition,
                    "fileId": removal.group.file_id,
                    "latestBaseInstant": removal.base_instant,
                    "filesToBeDeleted": [f"{root}/{path}" for path in removal.files],
                    "logBlocksToBeDeleted": dict(removal.logs),
                }
                for removal in self.removals
            ],
            "version": 1,
        }

    def to_avro(self, *, root: str) -> bytes:
        return write_avro(ROLLBACK_PLAN, self.to_record(root=root))


def target_of(record: Mapping[str, Any], *, path: str) -> InstantInfo | None:
    """The instant that a rollback undoes; None if the plan was truncated.

    Raises CorruptFileError."""
    with reading("rollback", path):
        target = record.get("instantToRollback")
        return InstantInfo.from_record(target, path=path) if target else None


def _removal(request: Mapping[str, Any], time: InstantTime, path: str) -> Removal:
    partition = partition_of(request["partitionPath"], path=path)
    files = []
    for full in request["filesToBeDeleted"]:
        name = parse_data_file(full.rsplit("/", 1)[-1])
        if name is None or name.instant != time:
            raise CorruptFileError(
                "a rollback plan names a file of another instant than the one it rolls back",
                path=path,
                file=full,
                instant=time,
            )
        files.append(join(partition, str(name)))
    logs = {
        full.rsplit("/", 1)[-1]: int(size)
        for full, size in (request["logBlocksToBeDeleted"] or {}).items()
    }
    file_id, base = request["fileId"], request["latestBaseInstant"]
    group = FileGroupId(partition, file_id_of(file_id, path=path) if file_id else "")
    base_instant = instant_of(base, path=path) if base else InstantTime("")
    return Removal(group, base_instant, tuple(files), logs)

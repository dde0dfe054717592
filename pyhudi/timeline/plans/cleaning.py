"""Plans of cleans."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pyhudi.filenames import join, parse_data_file
from pyhudi.records import InstantTime
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.plans.checks import instant_of, is_partition, name_of, reading
from pyhudi.timeline.service_payloads import CLEANER_PLAN, write_avro

SAVEPOINTS: Final = "savepointed_timestamps"
"""In extraMetadata: the existing savepoints, comma-separated."""
PINS_KEY: Final = "pyhudi_holds"
"""In extraMetadata: the snapshots pinned by readers, likewise."""
_POLICY: Final = "KEEP_LATEST_COMMITS"


@dataclass(frozen=True, slots=True)
class CleanPlan:
    """Files to delete.

    files: names by partition.  partitions: deleted with their files.  retained_from: the earliest
    instant whose readers find all their files.  newest: the last completed commit.  savepoints,
    holds: snapshots retained regardless of age.  extra: further extraMetadata.
    """

    policy: str = _POLICY
    files: Mapping[str, tuple[str, ...]] = field(default_factory=dict)
    partitions: tuple[str, ...] = ()
    retained_from: Instant | None = None
    newest: InstantTime | None = None
    savepoints: tuple[InstantTime, ...] = ()
    holds: tuple[InstantTime, ...] = ()
    extra: Mapping[str, str] = field(default_factory=dict)

    @property
    def file_count(self) -> int:
        return sum(map(len, self.files.values()))

    @property
    def retained(self) -> dict[str, tuple[InstantTime, ...]]:
        """Snapshots retained regardless of age, by their name in extraMetadata."""
        return {SAVEPOINTS: self.savepoints, PINS_KEY: self.holds}

    @property
    def extra_metadata(self) -> dict[str, str]:
        lists = {name: ",".join(times) for name, times in self.retained.items() if times}
        return {**self.extra, **lists}

    @classmethod
    def from_record(cls, record: Mapping[str, Any], *, path: str) -> Self:
        """path: of the requested file.

        Files are identified by partition and name, so the table may have moved.  Other than data
        files, and folders outside the table, are not part of the plan.  Raises CorruptFileError.
        """
        with reading("clean", path):
            extra = {str(k): str(v) for k, v in (record.get("extraMetadata") or {}).items()}
            newest = record.get("lastCompletedCommitTimestamp")
            return cls(
                str(record.get("policy") or _POLICY),
                _files(record, path),
                tuple(filter(is_partition, record.get("partitionsToBeDeleted") or ())),
                _retained_from(record.get("earliestInstantToRetain") or {}, path),
                instant_of(newest, path=path) if newest else None,
                _times(extra.pop(SAVEPOINTS, "")),
                _times(extra.pop(PINS_KEY, "")),
                extra,
            )

    def to_avro(self, *, root: str) -> bytes:
        """root: the table's path, prepended to the path of each file."""
        earliest = self.retained_from
        record = {
            "earliestInstantToRetain": {
                "timestamp": earliest.time,
                "action": earliest.action.value,
                "state": State.COMPLETED.name,
            }
            if earliest
            else None,
            "lastCompletedCommitTimestamp": self.newest or "",
            "policy": self.policy,
            "filesToBeDeletedPerPartition": {},
            "version": 2,
            "filePathsToBeDeletedPerPartition": {
                partition: [
                    {"filePath": f"{root}/{join(partition, name)}", "isBootstrapBaseFile": False}
                    for name in names
                ]
                for partition, names in self.files.items()
            },
            "partitionsToBeDeleted": list(self.partitions),
            "extraMetadata": self.extra_metadata,
        }
        return write_avro(CLEANER_PLAN, record)


def _files(record: Mapping[str, Any], path: str) -> dict[str, tuple[str, ...]]:
    """Names by partition, from version 2 or version 1 of the record."""
    found: dict[str, list[str]] = {}
    for partition, infos in (record.get("filePathsToBeDeletedPerPartition") or {}).items():
        found[partition] = [name_of(info["filePath"], path=path) for info in infos]
    for partition, paths in (record.get("filesToBeDeletedPerPartition") or {}).items():
        found.setdefault(partition, []).extend(name_of(each, path=path) for each in paths)
    return {
        partition: tuple(name for name in names if parse_data_file(name))
        for partition, names in found.items()
        if is_partition(partition)
    }


def _retained_from(record: Mapping[str, Any], path: str) -> Instant | None:
    if not record.get("timestamp"):
        return None
    time = instant_of(record["timestamp"], path=path)
    return Instant(time, Action(record["action"]), State.COMPLETED)


def _times(text: str) -> tuple[InstantTime, ...]:
    return tuple(InstantTime(time) for time in text.split(",") if time)

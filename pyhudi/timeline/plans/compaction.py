"""Plans of compactions and log compactions."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Self

from pyhudi.records import FileGroupId, InstantTime
from pyhudi.timeline.plans.checks import group_of, instant_of, name_of, reading
from pyhudi.timeline.service_payloads import COMPACTION_PLAN, write_avro

_AT_ONCE: Final = "pyhudi.at.once"
_LOG_COMPACTION_CLASS: Final = "org.apache.hudi.table.action.compact.LogCompactionExecutionHelper"


@dataclass(frozen=True, slots=True)
class CompactionOperation:
    """One file slice to merge.  base_file, log_files: names; None for a slice of logs only.
    metrics: estimated cost, with Apache Hudi's names; not read back."""

    group: FileGroupId
    base_instant: InstantTime
    base_file: str | None = None
    log_files: tuple[str, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict, compare=False)

    def to_record(self) -> dict[str, Any]:
        return {
            "baseInstantTime": self.base_instant,
            "deltaFilePaths": list(self.log_files),
            "dataFilePath": self.base_file,
            "fileId": self.group.file_id,
            "partitionPath": self.group.partition,
            "metrics": dict(self.metrics),
        }


@dataclass(frozen=True, slots=True)
class CompactionPlan:
    """File slices to merge.

    runs_at_once: of a log compaction that runs under the same lock as its planning, and
    never later.
    """

    operations: tuple[CompactionOperation, ...] = ()
    runs_at_once: bool = False

    @property
    def groups(self) -> tuple[FileGroupId, ...]:
        return tuple(operation.group for operation in self.operations)

    @classmethod
    def from_record(cls, record: Mapping[str, Any], *, path: str) -> Self:
        """path: of the requested file.  Raises CorruptFileError."""
        with reading("compaction", path):
            operations = tuple(
                _operation(each, path=path) for each in record.get("operations") or ()
            )
            return cls(operations, _AT_ONCE in (record.get("extraMetadata") or {}))

    def to_avro(self) -> bytes:
        record: dict[str, Any] = {
            "operations": [operation.to_record() for operation in self.operations],
            "version": 2,
        }
        if self.runs_at_once:
            record |= {
                "extraMetadata": {_AT_ONCE: "true"},
                "strategy": {
                    "compactorClassName": _LOG_COMPACTION_CLASS,
                    "strategyParams": {},
                    "version": 1,
                },
                "preserveHoodieMetadata": True,
            }
        return write_avro(COMPACTION_PLAN, record)


def _operation(record: Mapping[str, Any], *, path: str) -> CompactionOperation:
    return CompactionOperation(
        group_of(record["partitionPath"], record["fileId"], path=path),
        instant_of(record["baseInstantTime"], path=path),
        name_of(record.get("dataFilePath"), path=path) or None,
        tuple(name_of(log, path=path) for log in record.get("deltaFilePaths") or ()),
    )

"""Plans of restores."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Self

from pyhudi.records import InstantTime
from pyhudi.timeline.avro_schemas import INSTANT_INFO, STRING, array, record, version
from pyhudi.timeline.plans.checks import instant_of, reading
from pyhudi.timeline.plans.rollback import InstantInfo
from pyhudi.timeline.service_payloads import write_avro

_SCHEMA = record(
    "HoodieRestorePlan",
    ("instantsToRollback", array(INSTANT_INFO), []),
    version(2),
    ("savepointToRestoreTimestamp", ["null", STRING], None),
)


@dataclass(frozen=True, slots=True)
class RestorePlan:
    """Instants to undo, newest first.  to: the commit to restore, None if Apache
    Hudi's plan does not state it."""

    undone: tuple[InstantInfo, ...] = ()
    to: InstantTime | None = None

    @classmethod
    def from_record(cls, record: Mapping[str, Any], *, path: str) -> Self:
        """path: of the requested file.  Raises CorruptFileError."""
        with reading("restore", path):
            to = record.get("savepointToRestoreTimestamp")
            undone = record.get("instantsToRollback") or ()
            return cls(
                tuple(InstantInfo.from_record(each, path=path) for each in undone),
                instant_of(to, path=path) if to else None,
            )

    def to_avro(self) -> bytes:
        content = {
            "instantsToRollback": [each.to_record() for each in self.undone],
            "version": 2,
            "savepointToRestoreTimestamp": self.to,
        }
        return write_avro(_SCHEMA, content)

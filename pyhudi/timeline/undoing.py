"""Avro payloads of savepoints and restores, and of what a restore is going to do.

```
S.savepoint            HoodieSavepointMetadata: names of the files that the snapshot at S needs
R.restore.requested    HoodieRestorePlan: the instants to take back, newest first
R.restore.inflight     ours: a container of one HoodieRollbackPlan for each of them, written before
                       the first is touched; Apache Hudi leaves it empty
R.restore              HoodieRestoreMetadata: what was done, by instant
```

Source: table_format 4, 7.8.
"""

from __future__ import annotations

import io
from collections.abc import Iterable, Mapping
from typing import Any, Final

import fastavro

from pyhudi.errors import CorruptFileError
from pyhudi.timeline.avrotypes import INSTANT_INFO, STRING, array, map_of, record, version
from pyhudi.timeline.payload import ROLLBACK_METADATA, ROLLBACK_PLAN

SAVEPOINT_METADATA: Final = record(
    "HoodieSavepointMetadata",
    ("savepointedBy", STRING),
    ("savepointedAt", "long"),
    ("comments", STRING),
    (
        "partitionMetadata",
        map_of(
            record(
                "HoodieSavepointPartitionMetadata",
                ("partitionPath", STRING),
                ("savepointDataFile", array(STRING)),
            )
        ),
    ),
    version(),
)

RESTORE_PLAN: Final = record(
    "HoodieRestorePlan",
    ("instantsToRollback", array(INSTANT_INFO), []),
    version(2),
    ("savepointToRestoreTimestamp", ["null", STRING], None),
)

RESTORE_METADATA: Final = record(
    "HoodieRestoreMetadata",
    ("startRestoreTime", STRING),
    ("timeTakenInMillis", "long"),
    ("instantsToRollback", array(STRING)),
    ("hoodieRestoreMetadata", map_of(array(["null", ROLLBACK_METADATA]))),
    version(),
    ("restoreInstantInfo", array("HoodieInstantInfo"), []),
)


def write_rollback_plans(plans: Iterable[Mapping[str, Any]]) -> bytes:
    """A container of rollback plans, in the order in which they are to be carried out."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(dict(ROLLBACK_PLAN)), plans, codec="null")
    return out.getvalue()


def read_rollback_plans(data: bytes, *, path: str) -> list[dict[str, Any]]:
    """What `write_rollback_plans` wrote; none where the file is empty.  Raises CorruptFileError."""
    if not data:
        return []
    try:
        return [dict(each) for each in fastavro.reader(io.BytesIO(data)) if isinstance(each, dict)]
    except (ValueError, EOFError, KeyError, TypeError, IndexError, OverflowError, MemoryError,
            RecursionError, StopIteration, UnicodeDecodeError) as error:  # fmt: skip
        raise CorruptFileError("not a readable Avro container", path=path) from error

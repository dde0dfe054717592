"""Avro payloads of savepoints and restores, and of what a restore is going to do.

```
S.savepoint            HoodieSavepointMetadata: names of the files that the snapshot at S needs
R.restore.requested    HoodieRestorePlan: the instants to take back, newest first
R.restore.inflight     ours: a container of one HoodieRollbackPlan for each of them, with a header
                       `pyhudi.metadata`, written before the first is touched; Apache Hudi
                       leaves it empty
R.restore              HoodieRestoreMetadata: what was done, by instant
```

Source: table_format 4, 7.8.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

import fastavro

from pyhudi.errors import CorruptFileError
from pyhudi.timeline.avro_schemas import INSTANT_INFO, STRING, array, map_of, record, version
from pyhudi.timeline.service_payloads import ROLLBACK_METADATA, ROLLBACK_PLAN

_METADATA: Final = "pyhudi.metadata"

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


@dataclass(frozen=True, slots=True)
class RestoreWork:
    """What a restore has written down before its first step.

    plans: HoodieRollbackPlan records, in the order in which they are carried out.  metadata: the
    partitions that the metadata table had, and their numbers of file groups.
    """

    plans: tuple[Mapping[str, Any], ...] = ()
    metadata: Mapping[str, int] = field(default_factory=dict)


def write_work(work: RestoreWork) -> bytes:
    """The content of `R.restore.inflight`."""
    out = io.BytesIO()
    facts = {_METADATA: json.dumps(dict(work.metadata))}
    schema = fastavro.parse_schema(dict(ROLLBACK_PLAN))
    fastavro.writer(out, schema, work.plans, codec="null", metadata=facts)
    return out.getvalue()


def read_work(data: bytes, *, path: str) -> RestoreWork | None:
    """What `write_work` wrote; None for an empty file, Apache Hudi's.  Raises CorruptFileError."""
    if not data:
        return None
    try:
        found = fastavro.reader(io.BytesIO(data))
        facts = json.loads(found.metadata[_METADATA])
        plans = tuple(dict(each) for each in found if isinstance(each, dict))
        return RestoreWork(plans, {str(name): int(count) for name, count in facts.items()})
    except (ValueError, EOFError, KeyError, TypeError, IndexError, OverflowError, MemoryError,
            AttributeError, RecursionError, StopIteration) as error:  # fmt: skip
        raise CorruptFileError("not the work of a restore", path=path) from error

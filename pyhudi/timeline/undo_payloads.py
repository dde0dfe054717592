"""Avro payloads of savepoints and restores, and of the pending work of a restore.

```
S.savepoint            HoodieSavepointMetadata: names of the files that the snapshot at S needs
R.restore.requested    HoodieRestorePlan: the instants to undo, newest first
R.restore.inflight     pyhudi's: a container of one HoodieRollbackPlan for each, with a header
                       `pyhudi.metadata`, written before the first is undone; Apache Hudi
                       leaves it empty
R.restore              HoodieRestoreMetadata: the result, by instant
```

Source: table_format 4, 7.8.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final

import fastavro

from pyhudi.errors import CorruptFileError
from pyhudi.timeline.avro_schemas import STRING, array, map_of, record, version
from pyhudi.timeline.plans.rollback import RollbackPlan
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
    """The work of a restore, stored before its first step.

    plans: one for each instant, in execution order.  metadata: the
    partitions that the metadata table had, and their numbers of file groups.
    """

    plans: tuple[RollbackPlan, ...] = ()
    metadata: Mapping[str, int] = field(default_factory=dict)


def write_work(work: RestoreWork, *, root: str) -> bytes:
    """The content of `R.restore.inflight`.  root: the table's path."""
    out = io.BytesIO()
    facts = {_METADATA: json.dumps(dict(work.metadata))}
    schema = fastavro.parse_schema(dict(ROLLBACK_PLAN))
    plans = [plan.to_record(root=root) for plan in work.plans]
    fastavro.writer(out, schema, plans, codec="null", metadata=facts)
    return out.getvalue()


def read_work(data: bytes, *, path: str) -> RestoreWork | None:
    """The inverse of `write_work`; None for an empty file.  Raises CorruptFileError."""
    if not data:
        return None
    try:
        found = fastavro.reader(io.BytesIO(data))
        facts = json.loads(found.metadata[_METADATA])
        records = [dict(each) for each in found if isinstance(each, dict)]
        plans = (RollbackPlan.from_record(each, path=path) for each in records)
        stated = tuple(plan for plan in plans if plan is not None)
        return RestoreWork(stated, {str(name): int(count) for name, count in facts.items()})
    except (
        ValueError,
        EOFError,
        KeyError,
        TypeError,
        IndexError,
        OverflowError,
        MemoryError,
        AttributeError,
        RecursionError,
        StopIteration,
    ) as error:
        raise CorruptFileError("invalid work file of a restore", path=path) from error

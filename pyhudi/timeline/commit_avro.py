"""Commit metadata as an Avro container: completed and inflight files of timeline layout 2.

```
HoodieCommitMetadata         partitionToWriteStats {partition: [HoodieWriteStat]}, compacted,
                             extraMetadata, version (null), operationType
HoodieReplaceCommitMetadata  the same, then partitionToReplaceFileIds {partition: [file id]}
```

One record, codec null.  Maps are never null: Apache Hudi reads them without a check.  The record
of an inflight replace commit has the replaced groups too, for the same reason.
Source: writer_v8_v9 5.
"""

from __future__ import annotations

from typing import Any, Final

from pyhudi.timeline.avro_schemas import STRING, array, map_of, optional, record
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.service_payloads import write_avro

_TEXT: Final = optional(STRING)
_LONG: Final = optional("long")
_RUNTIME: Final = record(
    "HoodieRuntimeStats",
    ("totalScanTime", _LONG, None),
    ("totalCreateTime", _LONG, None),
    ("totalUpsertTime", _LONG, None),
)
_FIELDS: Final[tuple[tuple[str, Any], ...]] = (
    ("fileId", _TEXT),
    ("path", _TEXT),
    ("prevCommit", _TEXT),
    ("numWrites", _LONG),
    ("numDeletes", _LONG),
    ("numUpdateWrites", _LONG),
    ("totalWriteBytes", _LONG),
    ("totalWriteErrors", _LONG),
    ("partitionPath", _TEXT),
    ("totalLogRecords", _LONG),
    ("totalLogFiles", _LONG),
    ("totalUpdatedRecordsCompacted", _LONG),
    ("numInserts", _LONG),
    ("totalLogBlocks", _LONG),
    ("totalCorruptLogBlock", _LONG),
    ("totalRollbackBlocks", _LONG),
    ("fileSizeInBytes", _LONG),
    ("logVersion", optional("int")),
    ("logOffset", _LONG),
    ("baseFile", _TEXT),
    ("logFiles", optional(array(STRING))),
    ("cdcStats", optional(map_of("long"))),
    ("prevBaseFile", _TEXT),
    ("minEventTime", _LONG),
    ("maxEventTime", _LONG),
    ("runtimeStats", optional(_RUNTIME)),
    ("totalLogFilesCompacted", _LONG),
    ("totalLogReadTimeMs", _LONG),
    ("totalLogSizeCompacted", _LONG),
    ("tempPath", _TEXT),
    ("numUpdates", _LONG),
)
_STAT: Final = record("HoodieWriteStat", *((name, kind, None) for name, kind in _FIELDS))
_NAMES: Final = tuple(name for name, _ in _FIELDS)
_COMMON: Final = (
    ("partitionToWriteStats", optional(map_of(array(_STAT))), None),
    ("compacted", optional("boolean"), None),
    ("extraMetadata", optional(map_of(STRING)), None),
    ("version", ["int", "null"], 1),
    ("operationType", _TEXT, None),
)
COMMIT: Final = record("HoodieCommitMetadata", *_COMMON)
REPLACE_COMMIT: Final = record(
    "HoodieReplaceCommitMetadata",
    *_COMMON,
    ("partitionToReplaceFileIds", optional(map_of(array(STRING))), None),
)


def to_avro(commit: CommitMetadata) -> bytes:
    """The content of a completed or inflight file."""
    by_partition: dict[str, list[dict[str, Any]]] = {}
    for stat in commit.stats:
        by_partition.setdefault(stat.partition, []).append(_stat(stat))
    body: dict[str, Any] = {
        "partitionToWriteStats": by_partition,
        "compacted": commit.compacted,
        "extraMetadata": dict(commit.extra),
        "version": None,
        "operationType": commit.operation,
    }
    if commit.replaced is None:
        return write_avro(COMMIT, body)
    replaced = {partition: list(ids) for partition, ids in commit.replaced.items()}
    return write_avro(REPLACE_COMMIT, {**body, "partitionToReplaceFileIds": replaced})


def _stat(stat: WriteStat) -> dict[str, Any]:
    known = stat.to_json()
    found = {name: known.get(name) for name in _NAMES}
    return {**found, "prevBaseFile": stat.previous_base}

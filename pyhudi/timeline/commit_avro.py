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

import json
from collections.abc import Mapping
from typing import Any, Final

from pyhudi.errors import CorruptFileError
from pyhudi.timeline.avro_schemas import STRING, array, map_of, optional, record
from pyhudi.timeline.commit_metadata import WRONG_JSON, CommitMetadata, WriteStat, json_indent
from pyhudi.timeline.service_payloads import read_avro, write_avro

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


def _stats(by_partition: dict[str, list[dict[str, Any]]]) -> tuple[str, Any]:
    """The branch of the union that has the statistics: fastavro would find it by a check of every
    value of every file, which doubles the cost of a commit of many files."""
    return "map", by_partition


def to_avro(commit: CommitMetadata) -> bytes:
    """The content of a completed or inflight file."""
    by_partition: dict[str, list[dict[str, Any]]] = {}
    for stat in commit.stats:
        by_partition.setdefault(stat.partition, []).append(_stat(stat))
    body: dict[str, Any] = {
        "partitionToWriteStats": _stats(by_partition),
        "compacted": commit.compacted,
        "extraMetadata": dict(commit.extra),
        "version": None,
        "operationType": commit.operation,
    }
    if commit.replaced is None:
        return write_avro(COMMIT, body)
    replaced = {partition: list(ids) for partition, ids in commit.replaced.items()}
    return write_avro(REPLACE_COMMIT, {**body, "partitionToReplaceFileIds": replaced})


def record_to_avro(body: Mapping[str, Any], *, replaces: bool) -> bytes:
    """The container of a commit that is given as a record: parsed JSON, or an archived record.

    Fields without a counterpart are dropped, as by Apache Hudi; fields that are missing are null,
    but no map is.  replaces: of a replace commit.
    """
    by_partition = body.get("partitionToWriteStats") or {}
    extra = body.get("extraMetadata") or {}
    full: dict[str, Any] = {
        "partitionToWriteStats": _stats(
            {
                str(partition): [{name: stat.get(name) for name in _NAMES} for stat in stats]
                for partition, stats in by_partition.items()
            }
        ),
        "compacted": bool(body.get("compacted")),
        "extraMetadata": {str(k): str(v) for k, v in extra.items() if v is not None},
        "version": None,
        "operationType": body.get("operationType"),
    }
    if not replaces:
        return write_avro(COMMIT, full)
    replaced = {p: list(ids) for p, ids in (body.get("partitionToReplaceFileIds") or {}).items()}
    return write_avro(REPLACE_COMMIT, {**full, "partitionToReplaceFileIds": replaced})


def json_to_avro(data: bytes, *, replaces: bool, path: str) -> bytes:
    """The container of a commit that is stored as JSON.  Raises CorruptFileError."""
    try:
        return record_to_avro(json.loads(data), replaces=replaces)
    except WRONG_JSON as error:
        raise CorruptFileError("commit metadata cannot be stored as Avro", path=path) from error


def avro_to_json(data: bytes, *, path: str) -> bytes:
    """The JSON of a commit that is stored as an Avro container.  Raises CorruptFileError.

    Fields that only the record has are left out where they are null.
    """
    body = read_avro(data, path=path)
    body.pop("version", None)
    try:
        stats = body.get("partitionToWriteStats") or {}
        body["partitionToWriteStats"] = {
            p: [_json_stat(s) for s in all_] for p, all_ in stats.items()
        }
        body["extraMetadata"] = body.get("extraMetadata") or {}
        body["compacted"] = bool(body.get("compacted"))
        return json.dumps(body, indent=json_indent(len(body["partitionToWriteStats"]))).encode()
    except (TypeError, AttributeError) as error:
        raise CorruptFileError("commit metadata has an unknown shape", path=path) from error


_LOG_FIELDS: Final = frozenset({"logVersion", "logOffset", "baseFile", "logFiles"})
_AVRO_ONLY: Final = _LOG_FIELDS | {
    "totalLogFiles",
    "prevBaseFile",
    "totalLogReadTimeMs",
    "numUpdates",
}


def _json_stat(stat: Mapping[str, Any]) -> dict[str, Any]:
    found = {name: stat[name] for name in stat if name not in _AVRO_ONLY or stat[name] is not None}
    return found if stat.get("logVersion") is None else {**found, "recordsStats": {"val": None}}


def _stat(stat: WriteStat) -> dict[str, Any]:
    known = stat.to_json()
    found = {name: known.get(name) for name in _NAMES}
    return {**found, "prevBaseFile": stat.previous_base}

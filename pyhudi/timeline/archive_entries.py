"""Archive records of instants: one HoodieArchivedMetaEntry for each state of an instant.

```
.commits_.archive.N_1-0-1     a log file; Avro blocks of a few records, header SCHEMA only
record                        commitTime, actionType, actionState, stateTransitionTime, and the
                              content of the instant's file: a commit, a plan, a clean, a rollback
```

A commit's JSON becomes the Avro record with the same names; fields that the record lacks
are omitted, as by Apache Hudi.  Source: table_format 4, 7.6.
"""

from __future__ import annotations

import io
import json
import struct
from collections.abc import Iterable, Iterator, Mapping
from datetime import UTC, datetime, tzinfo
from functools import cache
from itertools import islice
from typing import Any, Final

import fastavro

from pyhudi.errors import CorruptFileError
from pyhudi.formats.log_file import BlockKind, HeaderKey, write_block
from pyhudi.timeline.avro_schemas import STRING, array, map_of, optional, record, version
from pyhudi.timeline.clock import format_instant
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.service_payloads import (
    CLEAN_METADATA,
    CLEANER_PLAN,
    COMPACTION_PLAN,
    REQUESTED_REPLACE,
    ROLLBACK_METADATA,
    read_avro,
)

_BLOCK_VERSION: Final = 3
_PLANNED: Final = frozenset({Action.COMPACTION, Action.LOG_COMPACTION})
_WRITES: Final = frozenset({Action.COMMIT, Action.DELTA_COMMIT})


def _fields(kind: str, *names: str) -> list[tuple[Any, ...]]:
    return [(name, optional(STRING if kind == "string" else kind), None) for name in names]


_WRITE_STAT: Final = record(
    "HoodieWriteStat",
    *_fields("string", "fileId", "path", "prevCommit"),
    *_fields("long", "numWrites", "numDeletes", "numUpdateWrites", "totalWriteBytes"),
    *_fields("long", "totalWriteErrors"),
    *_fields("string", "partitionPath"),
    *_fields("long", "totalLogRecords", "totalLogFiles", "totalUpdatedRecordsCompacted"),
    *_fields("long", "numInserts", "totalLogBlocks", "totalCorruptLogBlock"),
    *_fields("long", "totalRollbackBlocks", "fileSizeInBytes"),
    *_fields("int", "logVersion"),
    *_fields("long", "logOffset"),
    *_fields("string", "baseFile"),
    ("logFiles", optional(array(STRING)), None),
    ("cdcStats", optional(map_of("long")), None),
    *_fields("string", "prevBaseFile"),
    *_fields("long", "minEventTime", "maxEventTime"),
    (
        "runtimeStats",
        optional(
            record(
                "HoodieRuntimeStats",
                *_fields("long", "totalScanTime", "totalCreateTime", "totalUpsertTime"),
            )
        ),
        None,
    ),
    *_fields("long", "totalLogFilesCompacted", "totalLogReadTimeMs", "totalLogSizeCompacted"),
    *_fields("string", "tempPath"),
    *_fields("long", "numUpdates"),
)


def _commit(name: str, stat: Any, *more: tuple[Any, ...]) -> dict[str, Any]:
    return record(
        name,
        ("partitionToWriteStats", optional(map_of(array(stat))), None),
        ("compacted", optional("boolean"), None),
        ("extraMetadata", optional(map_of(STRING)), None),
        version(),
        ("operationType", optional(STRING), None),
        *more,
    )


_REPLACED: Final = ("partitionToReplaceFileIds", optional(map_of(array(STRING))), None)

ENTRY: Final = record(
    "HoodieArchivedMetaEntry",
    ("hoodieCommitMetadata", optional(_commit("HoodieCommitMetadata", _WRITE_STAT)), None),
    ("hoodieCleanMetadata", optional(CLEAN_METADATA), None),
    ("hoodieRollbackMetadata", optional(ROLLBACK_METADATA), None),
    ("commitTime", optional(STRING), None),
    ("actionType", optional(STRING), None),
    version(),
    ("hoodieCompactionPlan", optional(COMPACTION_PLAN), None),
    ("hoodieCleanerPlan", optional(CLEANER_PLAN), None),
    ("actionState", optional(STRING), None),
    (
        "hoodieReplaceCommitMetadata",
        optional(_commit("HoodieReplaceCommitMetadata", "HoodieWriteStat", _REPLACED)),
        None,
    ),
    ("hoodieRequestedReplaceMetadata", optional(REQUESTED_REPLACE), None),
    ("HoodieInflightReplaceMetadata", optional("HoodieCommitMetadata"), None),
    ("stateTransitionTime", optional(STRING), None),
)
"""The fields that version-6 tables fill, in Apache Hudi's order; readers find them by name."""

MERGE_PLAN: Final = record(
    "HoodieMergeArchiveFilePlan",
    version(),
    ("candidate", optional(array(STRING)), None),
    ("mergedArchiveFileName", optional(STRING), None),
)


def entry(
    instant: Instant, content: bytes, *, path: str, modified: float | None, zone: tzinfo | None
) -> dict[str, Any]:
    """The record of one state of an instant.

    content: of its file at `path`.  modified: when it was written, in seconds since 1970; None
    if the store does not report it: the instant's time is used then.
    """
    since = None if modified is None else datetime.fromtimestamp(modified, UTC)
    made: dict[str, Any] = {
        "commitTime": instant.time,
        "actionType": instant.action.value,
        "actionState": instant.state.name,
        "stateTransitionTime": format_instant(since, zone) if since else instant.time,
        "version": 1,
    }
    return made | _body(instant, content, path) if content else made


def _body(instant: Instant, content: bytes, path: str) -> dict[str, Any]:
    """The file's content, under the name of its field."""
    action, done = instant.action, instant.state is State.COMPLETED
    if action in _WRITES:
        return {"hoodieCommitMetadata": _commit_record(content, path)}
    if action in _PLANNED:
        return {"hoodieCompactionPlan": read_avro(content, path=path)}
    if action is Action.CLEAN:
        field = "hoodieCleanMetadata" if done else "hoodieCleanerPlan"
        return {field: read_avro(content, path=path)}
    if action is Action.ROLLBACK:
        return {"hoodieRollbackMetadata": read_avro(content, path=path)} if done else {}
    if action is Action.REPLACE_COMMIT:
        if done:
            return {"hoodieReplaceCommitMetadata": _commit_record(content, path)}
        if instant.state is State.INFLIGHT:
            return {"HoodieInflightReplaceMetadata": _commit_record(content, path)}
        return {"hoodieRequestedReplaceMetadata": read_avro(content, path=path)}
    return {}


def _commit_record(content: bytes, path: str) -> dict[str, Any]:
    try:
        body = json.loads(content)
        extra = body.get("extraMetadata") or {}
        return {
            **body,
            "partitionToWriteStats": body.get("partitionToWriteStats") or {},
            "extraMetadata": {k: str(v) for k, v in extra.items() if v is not None},
            "version": 1,
        }
    except (ValueError, TypeError, AttributeError, RecursionError) as error:
        raise CorruptFileError("commit metadata is not valid JSON", path=path) from error


@cache
def _schema_text() -> str:
    return json.dumps(_named_once(ENTRY, set()))


def _named_once(schema: Any, known: set[str]) -> Any:
    """The schema with every record defined at its first occurrence and referenced by name later."""
    if isinstance(schema, list):
        return [_named_once(each, known) for each in schema]
    if not isinstance(schema, dict):
        return schema
    if schema.get("type") == "record":
        name = f"{schema['namespace']}.{schema['name']}"
        if name in known:
            return name
        known.add(name)
    return {key: _named_once(value, known) for key, value in schema.items()}


def blocks(entries: Iterable[Mapping[str, Any]], *, batch: int) -> Iterator[bytes]:
    """Log blocks of `batch` records each, one at a time."""
    schema = fastavro.parse_schema(json.loads(_schema_text()))
    waiting = iter(entries)
    while several := list(islice(waiting, batch)):
        data = [struct.pack(">ii", _BLOCK_VERSION, len(several))]
        for each in several:
            out = io.BytesIO()
            fastavro.schemaless_writer(out, schema, dict(each))
            data += [struct.pack(">i", out.tell()), out.getvalue()]
        yield write_block(BlockKind.AVRO, {HeaderKey.SCHEMA: _schema_text()}, b"".join(data))

"""Avro payloads of services' instant files: plans and results as plain dicts.

Each is an Avro object container with one record, codec null.  A record is written with the
writer schema below; reads use the file's schema, so newer fields simply appear.
Field names and quirks (the capital R of `RollbackRequests`) are Apache Hudi's.
Source: table_format 4.
"""

from __future__ import annotations

import io
import zlib
from collections.abc import Mapping
from contextlib import suppress
from functools import lru_cache
from typing import Any, Final

import fastavro
from fastavro.schema import SchemaParseException, UnknownType

from pyhudi.errors import CorruptFileError
from pyhudi.timeline.avro_schemas import INSTANT_INFO as _INSTANT_INFO
from pyhudi.timeline.avro_schemas import NAMESPACE
from pyhudi.timeline.avro_schemas import STRING as _STRING
from pyhudi.timeline.avro_schemas import array as _array
from pyhudi.timeline.avro_schemas import map_of as _map
from pyhudi.timeline.avro_schemas import optional as _optional
from pyhudi.timeline.avro_schemas import record as _record
from pyhudi.timeline.avro_schemas import version as _version
from pyhudi.timeline.commit_metadata import CommitMetadata

COMPACTION_PLAN: Final = _record(
    "HoodieCompactionPlan",
    (
        "operations",
        _optional(
            _array(
                _record(
                    "HoodieCompactionOperation",
                    ("baseInstantTime", _optional(_STRING)),
                    ("deltaFilePaths", _optional(_array(_STRING)), None),
                    ("dataFilePath", _optional(_STRING), None),
                    ("fileId", _optional(_STRING)),
                    ("partitionPath", _optional(_STRING), None),
                    ("metrics", _optional(_map("double")), None),
                    ("bootstrapFilePath", _optional(_STRING), None),
                )
            )
        ),
        None,
    ),
    ("extraMetadata", _optional(_map(_STRING)), None),
    _version(),
    (
        "strategy",
        _optional(
            _record(
                "HoodieCompactionStrategy",
                ("compactorClassName", _optional(_STRING), None),
                ("strategyParams", _optional(_map(_STRING)), None),
                _version(),
            )
        ),
        None,
    ),
    ("preserveHoodieMetadata", ["boolean", "null"], False),
)

_CLEAN_PARTITION: Final = _record(
    "HoodieCleanPartitionMetadata",
    ("partitionPath", _STRING),
    ("policy", _STRING),
    ("deletePathPatterns", _array(_STRING)),
    ("successDeleteFiles", _array(_STRING)),
    ("failedDeleteFiles", _array(_STRING)),
    ("isPartitionDeleted", _optional("boolean"), None),
)

CLEANER_PLAN: Final = _record(
    "HoodieCleanerPlan",
    (
        "earliestInstantToRetain",
        _optional(
            _record(
                "HoodieActionInstant",
                ("timestamp", _STRING),
                ("action", _STRING),
                ("state", _STRING),
            )
        ),
        None,
    ),
    ("lastCompletedCommitTimestamp", _STRING, ""),
    ("policy", _STRING),
    ("filesToBeDeletedPerPartition", _optional(_map(_array(_STRING))), None),
    _version(),
    (
        "filePathsToBeDeletedPerPartition",
        _optional(
            _map(
                _array(
                    _record(
                        "HoodieCleanFileInfo",
                        ("filePath", _optional(_STRING), None),
                        ("isBootstrapBaseFile", _optional("boolean"), None),
                    )
                )
            )
        ),
        None,
    ),
    ("partitionsToBeDeleted", _optional(_array(_STRING)), None),
    ("extraMetadata", _optional(_map(_STRING)), None),
)

CLEAN_METADATA: Final = _record(
    "HoodieCleanMetadata",
    ("startCleanTime", _STRING),
    ("timeTakenInMillis", "long"),
    ("totalFilesDeleted", "int"),
    ("earliestCommitToRetain", _STRING),
    ("lastCompletedCommitTimestamp", _STRING, ""),
    ("partitionMetadata", _map(_CLEAN_PARTITION)),
    _version(),
    (
        "bootstrapPartitionMetadata",
        _optional(_map(f"{NAMESPACE}.HoodieCleanPartitionMetadata")),
        None,
    ),
    ("extraMetadata", _optional(_map(_STRING)), None),
)

_CLUSTERING_PLAN: Final = _record(
    "HoodieClusteringPlan",
    (
        "inputGroups",
        _optional(
            _array(
                _record(
                    "HoodieClusteringGroup",
                    (
                        "slices",
                        _optional(
                            _array(
                                _record(
                                    "HoodieSliceInfo",
                                    ("dataFilePath", _optional(_STRING), None),
                                    ("deltaFilePaths", _optional(_array(_STRING)), None),
                                    ("fileId", _optional(_STRING)),
                                    ("partitionPath", _optional(_STRING), None),
                                    ("bootstrapFilePath", _optional(_STRING), None),
                                    _version(),
                                )
                            )
                        ),
                        None,
                    ),
                    ("metrics", _optional(_map("double")), None),
                    ("numOutputFileGroups", ["int", "null"], 1),
                    ("extraMetadata", _optional(_map(_STRING)), None),
                    _version(),
                )
            )
        ),
        None,
    ),
    (
        "strategy",
        _optional(
            _record(
                "HoodieClusteringStrategy",
                ("strategyClassName", _optional(_STRING), None),
                ("strategyParams", _optional(_map(_STRING)), None),
                _version(),
            )
        ),
        None,
    ),
    ("extraMetadata", _optional(_map(_STRING)), None),
    _version(),
    ("preserveHoodieMetadata", _optional("boolean"), None),
)

REQUESTED_REPLACE: Final = _record(
    "HoodieRequestedReplaceMetadata",
    ("operationType", _optional(_STRING), None),
    ("clusteringPlan", _optional(_CLUSTERING_PLAN), None),
    ("extraMetadata", _optional(_map(_STRING)), None),
    _version(),
)

ROLLBACK_PLAN: Final = _record(
    "HoodieRollbackPlan",
    ("instantToRollback", _optional(_INSTANT_INFO), None),
    (
        "RollbackRequests",
        _optional(
            _array(
                _record(
                    "HoodieRollbackRequest",
                    ("partitionPath", _STRING),
                    ("fileId", _optional(_STRING), None),
                    ("latestBaseInstant", _optional(_STRING), None),
                    ("filesToBeDeleted", _array(_STRING), []),
                    ("logBlocksToBeDeleted", _optional(_map("long")), None),
                )
            )
        ),
        None,
    ),
    _version(),
)

ROLLBACK_METADATA: Final = _record(
    "HoodieRollbackMetadata",
    ("startRollbackTime", _STRING),
    ("timeTakenInMillis", "long"),
    ("totalFilesDeleted", "int"),
    ("commitsRollback", _array(_STRING)),
    (
        "partitionMetadata",
        _map(
            _record(
                "HoodieRollbackPartitionMetadata",
                ("partitionPath", _STRING),
                ("successDeleteFiles", _array(_STRING)),
                ("failedDeleteFiles", _array(_STRING)),
                ("rollbackLogFiles", _optional(_map("long")), None),
                ("logFilesFromFailedCommit", _optional(_map("long")), None),
            )
        ),
    ),
    _version(),
    ("instantsRollback", _array(_INSTANT_INFO), []),
)


def write_avro(schema: Mapping[str, Any], record: Mapping[str, Any]) -> bytes:
    """The container file of one record."""
    out = io.BytesIO()
    fastavro.writer(out, fastavro.parse_schema(dict(schema)), [record], codec="null")
    return out.getvalue()


def read_avro(data: bytes, *, path: str) -> dict[str, Any]:
    """The only record of a container file; {} for an empty file.  Raises CorruptFileError."""
    if not data:
        return {}
    try:
        container = fastavro.reader(io.BytesIO(data))
        _check_container(container)
        records = list(container)
    except (
        ValueError,
        EOFError,
        KeyError,
        TypeError,
        IndexError,
        OverflowError,
        MemoryError,
        RecursionError,
        StopIteration,
        UnicodeDecodeError,
        AttributeError,
        AssertionError,
        ArithmeticError,
        zlib.error,
        SchemaParseException,
        UnknownType,
    ) as error:
        raise CorruptFileError("not a readable Avro container", path=path) from error
    if len(records) != 1 or not isinstance(records[0], dict):
        raise CorruptFileError("expected one Avro record", path=path, found=len(records))
    return records[0]


def _check_container(container: Any) -> None:
    """Raise ValueError for data that could expand without input bytes: compressed blocks,
    which table writers do not produce, and arrays of zero-byte items."""
    if container.codec not in ("null", None):
        raise ValueError("a compressed Avro container")
    widths: dict[str, int] = {}
    _least_width(container.writer_schema, widths)


def _least_width(schema: Any, known: dict[str, int]) -> int:
    """Minimum size of a value in bytes.  Raises ValueError for arrays of zero-byte items."""
    if isinstance(schema, list):
        for branch in schema:
            _least_width(branch, known)
        return 1
    if isinstance(schema, str):
        return 0 if schema == "null" else known.get(schema, 1)
    kind = schema["type"]
    match kind:
        case "record" | "error":
            known[schema["name"]] = 0  # until it is known: a record may contain itself
            width = sum(_least_width(field["type"], known) for field in schema["fields"])
            known[schema["name"]] = width
            return width
        case "array":
            if _least_width(schema["items"], known) == 0:
                raise ValueError("an array whose items take no bytes")
            return 1
        case "map":
            _least_width(schema["values"], known)
            return 1
        case "fixed":
            known[schema["name"]] = int(schema["size"])
            return int(schema["size"])
        case "enum":
            return 1
        case _:
            return _least_width(kind, known)


def is_avro(data: bytes) -> bool:
    """Whether a file is an Avro container."""
    return data[:4] == b"Obj\x01"


def read_commit(data: bytes, *, path: str) -> CommitMetadata:
    """Commit metadata from JSON (layout 1) or an Avro container (layout 2).

    The last small ones are remembered by their bytes: each write reads those of the metadata table
    several times, and to parse one takes a third of a millisecond.
    """
    if len(data) <= _REMEMBERED_BYTES_MAX:
        with suppress(CorruptFileError):  # raised again below, with its path
            return _remembered_commit(data)
    return _parsed_commit(data, path)


_REMEMBERED_BYTES_MAX: Final = 16 << 10


@lru_cache(maxsize=256)
def _remembered_commit(data: bytes) -> CommitMetadata:
    return _parsed_commit(data, "")


def _parsed_commit(data: bytes, path: str) -> CommitMetadata:
    if not is_avro(data):
        return CommitMetadata.from_json(data, path=path)
    record = read_avro(data, path=path)
    try:
        return CommitMetadata.from_object(record)
    except (ValueError, TypeError, AttributeError, KeyError) as error:
        raise CorruptFileError("commit metadata has an unknown shape", path=path) from error

"""Commit metadata: the content of commits, delta commits and replace commits.

```
{"partitionToWriteStats": {partition: [WriteStat]}, "compacted": bool,
 "extraMetadata": {"schema": <Avro JSON without meta fields>, ...}, "operationType": "UPSERT",
 "partitionToReplaceFileIds": {partition: [file id]}}        (replace commits only)
```

All of Apache Hudi's fields are written; any may be missing on read.  Source: table_format 3.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from pyhudi.errors import CorruptFileError
from pyhudi.records import FileGroupId

WRONG_JSON: Final = (
    ValueError, TypeError, AttributeError, KeyError, RecursionError, OverflowError
)  # fmt: skip
"""What reading JSON that is damaged, or of another shape, may raise."""
_READABLE_STATS: Final = 50


def json_indent(stats: int) -> int | None:
    """Indentation of a commit's JSON, as Apache Hudi writes it; none for many write stats, because
    Python's encoder takes several times as long to indent."""
    return 2 if stats <= _READABLE_STATS else None


@dataclass(frozen=True, slots=True)
class WriteStat:
    """One file of one commit.  `path` is relative to the table; sizes are in bytes.

    `write_count` is all rows of a base file, or the rows of this append for a log.
    `log_version` is None for a base file; otherwise `log_files` names every log of the slice
    (layout 1) or this log (layout 2).  `previous_base` is the name of the base file that this one
    replaces; it is stored in Avro only.
    """

    partition: str
    file_id: str
    path: str
    previous_instant: str | None
    write_count: int
    delete_count: int
    update_count: int
    insert_count: int
    size_bytes: int
    write_bytes: int
    log_version: int | None = None
    base_file: str = ""
    log_files: tuple[str, ...] = ()
    compacted_log_files: int = 0
    compacted_log_bytes: int = 0
    compacted_updates: int = 0
    compacted_blocks: int = 0
    cdc_sizes: Mapping[str, int] | None = None
    scan_millis: int = 0
    create_millis: int = 0
    upsert_millis: int = 0
    previous_base: str | None = None

    @property
    def group(self) -> FileGroupId:
        return FileGroupId(self.partition, self.file_id)

    @property
    def file_name(self) -> str:
        return self.path.rsplit("/", 1)[-1]

    def to_json(self) -> dict[str, Any]:
        """The object as Apache Hudi 0.15 writes it, with the same field order."""
        stat: dict[str, Any] = {
            "fileId": self.file_id,
            "path": self.path,
            "cdcStats": dict(self.cdc_sizes) if self.cdc_sizes else None,
            "prevCommit": self.previous_instant or "null",
            "numWrites": self.write_count,
            "numDeletes": self.delete_count,
            "numUpdateWrites": self.update_count,
            "numInserts": self.insert_count,
            "totalWriteBytes": self.write_bytes,
            "totalWriteErrors": 0,
            "tempPath": None,
            "partitionPath": self.partition,
            "totalLogRecords": 0,
            "totalLogFilesCompacted": self.compacted_log_files,
            "totalLogSizeCompacted": self.compacted_log_bytes,
            "totalUpdatedRecordsCompacted": self.compacted_updates,
            "totalLogBlocks": self.compacted_blocks,
            "totalCorruptLogBlock": 0,
            "totalRollbackBlocks": 0,
            "fileSizeInBytes": self.size_bytes,
            "minEventTime": None,
            "maxEventTime": None,
            "runtimeStats": {
                "totalScanTime": self.scan_millis,
                "totalUpsertTime": self.upsert_millis,
                "totalCreateTime": self.create_millis,
            },
        }
        if self.log_version is not None:
            stat |= {
                "logVersion": self.log_version,
                "logOffset": 0,
                "baseFile": self.base_file,
                "logFiles": list(self.log_files),
                "recordsStats": {"val": None},
            }
        return stat

    @classmethod
    def from_json(cls, stat: Mapping[str, Any], partition: str) -> WriteStat:
        """The inverse of `to_json`; missing or null fields are read as zero."""

        def number(name: str) -> int:
            return int(stat.get(name) or 0)

        previous = stat.get("prevCommit")
        version = stat.get("logVersion")
        times = stat.get("runtimeStats") or {}
        return cls(
            partition=partition,
            file_id=stat.get("fileId") or "",
            path=stat.get("path") or "",
            previous_instant=None if previous in (None, "null") else str(previous),
            write_count=number("numWrites"),
            delete_count=number("numDeletes"),
            update_count=number("numUpdateWrites"),
            insert_count=number("numInserts"),
            size_bytes=number("fileSizeInBytes"),
            write_bytes=number("totalWriteBytes"),
            log_version=None if version is None else int(version),
            base_file=stat.get("baseFile") or "",
            log_files=tuple(stat.get("logFiles") or ()),
            compacted_log_files=number("totalLogFilesCompacted"),
            compacted_log_bytes=number("totalLogSizeCompacted"),
            compacted_updates=number("totalUpdatedRecordsCompacted"),
            compacted_blocks=number("totalLogBlocks"),
            cdc_sizes=stat.get("cdcStats"),
            scan_millis=int(times.get("totalScanTime") or 0),
            create_millis=int(times.get("totalCreateTime") or 0),
            upsert_millis=int(times.get("totalUpsertTime") or 0),
            previous_base=stat.get("prevBaseFile"),
        )


@dataclass(frozen=True, slots=True)
class CommitMetadata:
    """The content of a completed commit file, or of an inflight one (the workload profile)."""

    stats: tuple[WriteStat, ...] = ()
    operation: str = "UNKNOWN"
    compacted: bool = False
    extra: Mapping[str, str] = field(default_factory=dict)
    replaced: Mapping[str, tuple[str, ...]] | None = None

    @property
    def schema(self) -> str | None:
        """The Avro schema JSON in the commit, or None."""
        return self.extra.get("schema") or None

    @property
    def groups(self) -> frozenset[FileGroupId]:
        """Every file group this commit wrote or replaced."""
        return frozenset(stat.group for stat in self.stats if stat.file_id) | self.replaced_groups

    @property
    def replaced_groups(self) -> frozenset[FileGroupId]:
        """Every file group this commit replaced."""
        replaced = (self.replaced or {}).items()
        return frozenset(FileGroupId(p, f) for p, ids in replaced for f in ids)

    def to_json(self) -> bytes:
        by_partition: dict[str, list[dict[str, Any]]] = {}
        for stat in self.stats:
            by_partition.setdefault(stat.partition, []).append(stat.to_json())
        body: dict[str, Any] = {
            "partitionToWriteStats": by_partition,
            "compacted": self.compacted,
            "extraMetadata": dict(self.extra),
            "operationType": self.operation,
        }
        if self.replaced is not None:
            body["partitionToReplaceFileIds"] = {p: list(ids) for p, ids in self.replaced.items()}
        return json.dumps(body, indent=json_indent(len(self.stats))).encode()

    @classmethod
    def from_json(cls, data: bytes, *, path: str) -> CommitMetadata:
        """Parse a commit file; an empty one is an empty commit.  Raises CorruptFileError."""
        if not data.strip():
            return cls()
        try:
            body = json.loads(data)
            return cls.from_object(body)
        except WRONG_JSON as error:
            raise CorruptFileError("commit metadata is not valid JSON", path=path) from error

    @classmethod
    def from_object(cls, body: Mapping[str, Any]) -> CommitMetadata:
        """From the parsed JSON, or from the Avro record of newer table versions."""
        replaced = body.get("partitionToReplaceFileIds")
        return cls(
            stats=tuple(_stats(body.get("partitionToWriteStats") or {})),
            operation=body.get("operationType") or "UNKNOWN",
            compacted=bool(body.get("compacted")),
            extra={
                str(k): v for k, v in (body.get("extraMetadata") or {}).items() if v is not None
            },
            replaced=None
            if replaced is None
            else {str(p): tuple(ids) for p, ids in replaced.items()},
        )


def _stats(by_partition: Mapping[str, Iterable[Mapping[str, Any]]]) -> Iterable[WriteStat]:
    for partition, stats in by_partition.items():
        for stat in stats:
            yield WriteStat.from_json(stat, partition)

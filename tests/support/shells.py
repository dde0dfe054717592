"""Shell tables: real names, instants, markers and log frames around files that hold no rows.

What rollback, markers and views look at, without a writer.  Instants are `T[0]`, `T[1]`, ...
"""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, datetime, timedelta

from pyhudi.filenames import PROPERTIES, BaseFileName, DataFileName, LogFileName, join
from pyhudi.formats.log_file import BlockKind, HeaderKey, write_block
from pyhudi.merge.merge_choice import mode_properties
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.new_table import new_table_properties
from pyhudi.table.properties import (
    MergeMode,
    TableConfig,
    TableType,
    format_properties,
)
from pyhudi.timeline.clock import Clock
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import Action, Instant
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.transaction.markers import MarkerKind, announce

T = tuple(InstantTime(f"202401010000000{n:02d}") for n in range(100))


def ticking(start: int = 0) -> Clock:
    """A clock that shows T[start], T[start + 1], ..."""
    ticks = iter(range(start, 10_000))
    return lambda: datetime(2024, 1, 1, tzinfo=UTC) + timedelta(milliseconds=next(ticks))


def shell_config(table_type: TableType = TableType.MERGE_ON_READ, **changes: str) -> TableConfig:
    config = new_table_properties(
        name="shell",
        table_type=table_type,
        record_key=("id",),
        partition_by=("part",),
        ordering=("ts",),
        create_schema="{}",
        merge_properties=mode_properties(MergeMode.EVENT_TIME, 6),
        version=6,
    )
    return config.changed(**changes) if changes else config


def create_shell(fs: FileSystem, config: TableConfig) -> TableConfig:
    fs.create(PROPERTIES, format_properties(config.properties))
    return config


def base(file_id: str, instant: InstantTime, token: str = "0-1-2") -> BaseFileName:
    return BaseFileName(file_id, token, instant)


def delta(
    file_id: str, base_instant: InstantTime, version: int, token: str = "0-1-2"
) -> LogFileName:
    return LogFileName(file_id, base_instant, version, token)


def log_bytes(instant: InstantTime, *, size: int = 10) -> bytes:
    """A log file of one data block of an instant."""
    return write_block(BlockKind.PARQUET, {HeaderKey.INSTANT_TIME: instant}, b"x" * size)


class ShellWrite:
    """One write of a shell table, step by step, so that it can stop anywhere."""

    def __init__(
        self,
        fs: FileSystem,
        log: TimelineLog,
        action: Action = Action.DELTA_COMMIT,
        *,
        time: InstantTime | None = None,
        requested: bytes = b"",
    ) -> None:
        self.fs, self.log = fs, log
        if time is None:
            self.instant = log.request(action, requested)
        else:
            self.instant = log.request_at(time, action, requested)
        self.stats: list[WriteStat] = []

    @property
    def time(self) -> InstantTime:
        return self.instant.time

    def start(self, profile: bytes = b"") -> ShellWrite:
        self.instant = self.log.start(self.instant, profile)
        return self

    def put(
        self,
        partition: str,
        file: DataFileName,
        *,
        marker: bool = True,
        previous: str | None = None,
    ) -> ShellWrite:
        """Write a data file, announced unless `marker` is False."""
        is_log = isinstance(file, LogFileName)
        kind = MarkerKind.APPEND if is_log else MarkerKind.MERGE if previous else MarkerKind.CREATE
        if marker:
            announce(self.fs, self.time, partition, file, kind=kind)
        path = join(partition, str(file))
        content = log_bytes(self.time) if is_log else b"rows of " + self.time.encode()
        assert self.fs.create(join(partition, ".hoodie_partition_metadata"), b"#\n") in (
            True,
            False,
        )
        assert self.fs.create(path, content)
        self.stats.append(
            WriteStat(
                partition=partition,
                file_id=file.file_id,
                path=path,
                previous_instant=file.instant if is_log else previous,
                write_count=1,
                delete_count=0,
                update_count=0,
                insert_count=1,
                size_bytes=len(content),
                write_bytes=len(content),
                log_version=file.version if isinstance(file, LogFileName) else None,
            )
        )
        return self

    def commit(self, **metadata: object) -> Instant:
        content = CommitMetadata(stats=tuple(self.stats), operation="UPSERT", **metadata)  # type: ignore[arg-type]
        self.instant = self.log.complete(self.instant, content.to_json())
        self.fs.delete_folder(f".hoodie/.temp/{self.time}")
        return self.instant


def data_files(fs: FileSystem) -> Iterator[str]:
    """Paths of everything outside `.hoodie` but partition metafiles."""
    todo = [""]
    while todo:
        for info in fs.children(todo.pop()):
            if info.is_folder and info.path != ".hoodie":
                todo.append(info.path)
            elif not info.is_folder and info.name != ".hoodie_partition_metadata":
                yield info.path

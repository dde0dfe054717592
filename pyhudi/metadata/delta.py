"""A delta commit of the metadata table: where its logs go, its file list, its completion.

Written by this package, a log file holds one attempt's blocks of one delta commit.  Readers take
every log of a slice, so logs of lost attempts are deleted before the commit completes.
Source: table_format 9.1, 9.9; writer_conformance 5.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa

from pyhudi._native.hashing import shard_of
from pyhudi.errors import CorruptFileError
from pyhudi.filenames import LogFileName, join, parse_data_file
from pyhudi.metadata.hfiles import value_blocks, write_log
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.records import (
    ALL_PARTITIONS,
    COMMIT_SCHEMA,
    FILES,
    NON_PARTITIONED,
    RECORD_INDEX,
    MetadataPartition,
    encode_files,
)
from pyhudi.records import InstantTime
from pyhudi.table.view import FileSlice
from pyhudi.timeline.clock import epoch_millis
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.stats import CommitMetadata, WriteStat


@dataclass(frozen=True, slots=True)
class GroupTarget:
    """One file group of a metadata partition, and where the next log of it goes.

    stage: in the write tokens of all logs of this commit, and of no other's.
    """

    partition: MetadataPartition
    number: int
    slice_instant: InstantTime
    base_file: str
    log_files: tuple[str, ...]
    version: int
    stage: int

    @classmethod
    def of(
        cls, piece: FileSlice, partition: MetadataPartition, number: int, stage: int
    ) -> GroupTarget:
        names = [file.name for file in piece.logs]
        version = max((n.version for n in names if isinstance(n, LogFileName)), default=0) + 1
        return cls(
            partition,
            number,
            piece.instant,
            str(piece.base.name) if piece.base else "",
            tuple(map(str, names)),
            version,
            stage,
        )

    @property
    def file_id(self) -> str:
        return self.partition.file_id(self.number)

    def new_log(self) -> LogFileName:
        """A name that no other attempt uses."""
        token = f"{self.number}-{self.stage}-{secrets.randbelow(1 << 31)}"
        return LogFileName(self.file_id, self.slice_instant, self.version, token)

    def stat(self, log: LogFileName, *, values: int, deletes: int, size_bytes: int) -> WriteStat:
        return WriteStat(
            partition=self.partition.path,
            file_id=self.file_id,
            path=join(self.partition.path, str(log)),
            previous_instant=self.slice_instant,
            write_count=values,
            delete_count=deletes,
            update_count=values,
            insert_count=0,
            size_bytes=size_bytes,
            write_bytes=size_bytes,
            log_version=self.version,
            base_file=self.base_file,
            log_files=(*self.log_files, str(log)),
        )


@dataclass(frozen=True, slots=True)
class ShardTarget:
    """One bucket of the record index to write to; picklable.

    epoch_millis: the commit's instant, as entries hold it.
    """

    group: GroupTarget
    epoch_millis: int

    @property
    def number(self) -> int:
        return self.group.number


@dataclass(frozen=True, slots=True)
class Targets:
    """Every group a delta commit may write to, in order of their numbers."""

    files: tuple[GroupTarget, ...]
    shards: tuple[ShardTarget, ...]
    stage: int


def targets_of(table: MetadataTable, time: InstantTime) -> Targets:
    """Where the delta commit at `time` may write.  Cost: one folder listing a partition."""
    stage = secrets.randbelow(1 << 31)

    def groups(partition: MetadataPartition) -> list[GroupTarget]:
        return [
            GroupTarget.of(piece, partition, number, stage)
            for number, piece in enumerate(table.slices(partition))
        ]

    shards: tuple[ShardTarget, ...] = ()
    if RECORD_INDEX.path in table.partitions_listed:
        millis = epoch_millis(time, table.log.zone)
        shards = tuple(ShardTarget(group, millis) for group in groups(RECORD_INDEX))
    return Targets(tuple(groups(FILES)), shards, stage)


def start_delta(table: MetadataTable, time: InstantTime) -> MetadataCommit:
    """Begin the delta commit at `time`, or go on with one that was begun and not completed."""
    targets = targets_of(table, time)
    log = table.log
    begun = [i for i in table.timeline.pending if i.time == time]
    instant = begun[0] if begun else log.request_at(time, Action.DELTA_COMMIT)
    if instant.state is State.REQUESTED:
        instant = log.start(instant)
    return MetadataCommit(table, instant, targets)


class MetadataCommit:
    """A delta commit of the metadata table that has begun."""

    def __init__(self, table: MetadataTable, inflight: Instant, targets: Targets) -> None:
        self._table = table
        self._inflight = inflight
        self._targets = targets

    def shard_targets(self) -> tuple[ShardTarget, ...]:
        """The buckets of the record index, by number; none if the table lists no such index."""
        return self._targets.shards

    def finish(
        self,
        stats: Iterable[WriteStat],
        index_stats: Iterable[WriteStat] = (),
        *,
        deleted: Mapping[str, Iterable[str]] | None = None,
        dropped_partitions: Iterable[str] = (),
    ) -> None:
        """Write the file list and complete the delta commit.

        stats: what the data instant wrote.  index_stats: what `write_shard` returned, of each
        bucket the one that counts.  deleted: names of data files per partition that are gone
        (cleaning).  dropped_partitions: partitions that no longer exist.
        """
        records = file_changes(stats, deleted or {}, dropped_partitions)
        self.finish_records(records, index_stats)

    def finish_records(
        self,
        records: Mapping[str, Mapping[str, int | None]],
        index_stats: Iterable[WriteStat] = (),
    ) -> None:
        """As `finish`, with the records of `files` made by the caller; there may be none."""
        written = list(index_stats)
        listed = [self._write_files(target, records) for target in self._targets.files if records]
        self._delete_lost_attempts(written)
        stored = CommitMetadata(
            stats=(*(stat for stat in listed if stat is not None), *written),
            operation="UPSERT_PREPPED",
            extra={"schema": COMMIT_SCHEMA},
        )
        self._table.log.complete(self._inflight, stored.to_json())

    def _write_files(
        self, target: GroupTarget, records: Mapping[str, Mapping[str, int | None]]
    ) -> WriteStat | None:
        keys, values = encode_files(records)
        mine = pa.array(shard_of(keys, len(self._targets.files)) == target.number)
        keys, values = keys.filter(mine), values.filter(mine)
        if not len(keys):
            return None
        log = target.new_log()
        blocks = list(value_blocks(keys, values, instant=self._inflight.time))
        size = write_log(self._table.log.fs, FILES.path, log, blocks)
        return target.stat(log, values=len(keys), deletes=0, size_bytes=size)

    def _delete_lost_attempts(self, written: Sequence[WriteStat]) -> None:
        """Delete logs of attempts whose stats did not come back: readers would believe them."""
        if not self._targets.shards:
            return
        fs, stage = self._table.log.fs, self._targets.stage
        kept = {stat.path for stat in written}
        lost = []
        for info in fs.children(RECORD_INDEX.path):
            name = parse_data_file(info.name)
            if isinstance(name, LogFileName) and name.write_token and info.path not in kept:
                _, found, _ = name.write_token.split("-")
                if int(found) == stage:
                    lost.append(info.path)
        fs.delete(lost)


def file_changes(
    stats: Iterable[WriteStat],
    deleted: Mapping[str, Iterable[str]],
    dropped_partitions: Iterable[str] = (),
) -> dict[str, dict[str, int | None]]:
    """Records of `files` for one data instant."""
    records: dict[str, dict[str, int | None]] = {ALL_PARTITIONS: {}}
    touched = records[ALL_PARTITIONS]
    for stat in stats:
        key = stat.partition or NON_PARTITIONED
        touched[key] = 0
        names = records.setdefault(key, {})
        if stat.path:
            names[stat.file_name] = _positive(stat.size_bytes, stat.path)
        for path, size in (stat.cdc_sizes or {}).items():
            names[path.rsplit("/", 1)[-1]] = _positive(size, path)
    for partition, gone in deleted.items():
        records.setdefault(partition or NON_PARTITIONED, {}).update(dict.fromkeys(gone))
    for partition in dropped_partitions:
        touched[partition or NON_PARTITIONED] = None
    return records


def _positive(size: int, path: str) -> int:
    """Readers refuse files of no bytes, so a stat without its size must not get this far."""
    if size <= 0:
        raise CorruptFileError("a write stat has no file size", path=path, size=size)
    return size

"""Delta commits of the metadata table: log targets, records of `files`, completion.

Each log file that this package writes contains the blocks of one attempt of one delta commit.
Readers read every log of a slice, so logs of failed attempts are deleted before the commit
completes.
Source: table_format 9.1, 9.9; writer_conformance 5.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

import pyarrow as pa

from pyhudi._native.hashing import bucket_of
from pyhudi.engine import Engine
from pyhudi.errors import CorruptFileError
from pyhudi.filenames import METADATA_TABLE, LogFileName, join, parse_data_file
from pyhudi.metadata.elastic.reader import hashes_of
from pyhudi.metadata.elastic.state import IndexState
from pyhudi.metadata.elastic.store import ROOT
from pyhudi.metadata.expression_index.changes import expression_changes
from pyhudi.metadata.file_entries import ComputedEntries
from pyhudi.metadata.file_stats.changes import FileChanges, index_changes
from pyhudi.metadata.file_writers import create_group, tombstone_block, value_blocks, write_log
from pyhudi.metadata.payloads import (
    ALL_PARTITIONS,
    BLOOM_FILTERS,
    COLUMN_STATS,
    EXPRESSION_PREFIX,
    FILES,
    NON_PARTITIONED,
    PARTITION_STATS,
    RECORD_INDEX,
    SECONDARY_PREFIX,
    MetadataPartition,
    encode_files,
    maintained_partitions,
)
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.record_index.by_partition import groups_as, partition_groups
from pyhudi.metadata.record_index.hash_functions import KeyHash
from pyhudi.metadata.record_schema import records_of
from pyhudi.records import InstantTime
from pyhudi.table.file_group_view import FileSlice
from pyhudi.timeline.clock import epoch_millis
from pyhudi.timeline.commit_metadata import CommitMetadata, WriteStat
from pyhudi.timeline.instant import Action, Instant, State


@dataclass(frozen=True, slots=True)
class GroupTarget:
    """One file group of a metadata partition, and the location of its next log.

    log_instant: in the name of the log.  base_file, log_files: those of its slice that a write
    stat names beside the log.
    stage: a number in the write tokens of all logs of this commit, and of no other commit.
    root: the folder that contains the partition, relative to the data table's root.
    """

    partition: MetadataPartition
    number: int
    log_instant: InstantTime
    base_file: str
    log_files: tuple[str, ...]
    version: int
    stage: int
    root: str = METADATA_TABLE

    @classmethod
    def of(
        cls, file_slice: FileSlice, partition: MetadataPartition, number: int, stage: int
    ) -> GroupTarget:
        """The next log of a slice whose logs are named after it."""
        names = [file.name for file in file_slice.logs]
        version = max((n.version for n in names if isinstance(n, LogFileName)), default=0) + 1
        return cls(
            partition,
            number,
            file_slice.instant,
            str(file_slice.base.name) if file_slice.base else "",
            tuple(map(str, names)),
            version,
            stage,
        )

    @property
    def file_id(self) -> str:
        return self.partition.file_id(self.number)

    def new_log(self) -> LogFileName:
        """A log file name that no other attempt uses."""
        token = f"{self.number}-{self.stage}-{secrets.randbelow(1 << 31)}"
        return LogFileName(self.file_id, self.log_instant, self.version, token)

    def stat(self, log: LogFileName, *, values: int, deletes: int, size_bytes: int) -> WriteStat:
        return WriteStat(
            partition=self.partition.path,
            file_id=self.file_id,
            path=join(self.partition.path, str(log)),
            previous_instant=self.log_instant,
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
class BucketTarget:
    """One bucket of the record index to write to; picklable.

    epoch_millis: the commit's instant, as stored in entries.  waits_in: a folder of the data table
    that stages its logs until the end of the commit; None: logs are written to their final place.
    """

    group: GroupTarget
    epoch_millis: int
    waits_in: str | None = None

    @property
    def number(self) -> int:
        return self.group.number


@dataclass(frozen=True, slots=True)
class Targets:
    """Every group that a delta commit may write to, in order of their numbers.

    facts: groups of the partitions of file statistics and of expression indexes; empty where not
    listed.
    secondary: groups of each secondary index, by the name of its partition.
    elastic: the elastic index that contains the buckets; None: they belong to `record_index`.
    by_partition: the groups of each data partition in a record index by partition, which has no
    buckets; None: the index is global, or there is none.
    """

    files: tuple[GroupTarget, ...]
    buckets: tuple[BucketTarget, ...]
    facts: Mapping[MetadataPartition, tuple[GroupTarget, ...]]
    secondary: Mapping[str, tuple[GroupTarget, ...]]
    stage: int
    elastic: IndexState | None = None
    by_partition: Mapping[str, tuple[BucketTarget, ...]] | None = None

    @property
    def hash(self) -> KeyHash:
        """The hash function that assigns keys to the buckets."""
        if self.elastic is None:
            return KeyHash(max(1, len(self.buckets)))
        return hashes_of(self.elastic)[-1]


def log_targets(table: MetadataTable, time: InstantTime) -> Targets:
    """The targets of the delta commit at `time`.  Cost: one folder listing per partition."""
    stage = secrets.randbelow(1 << 31)

    def groups(partition: MetadataPartition) -> tuple[GroupTarget, ...]:
        if partition.path not in table.partitions_listed:
            return ()
        return tuple(
            GroupTarget.of(file_slice, partition, number, stage)
            if table.log.layout.logs_name_slices
            else GroupTarget(partition, number, time, "", (), 1, stage)
            for number, file_slice in enumerate(table.slices(partition))
        )

    millis = epoch_millis(time, table.log.zone)
    elastic = table.maintained_elastic()
    parts = _groups_by_partition(table, time, millis, stage)
    held = () if parts is not None else groups(RECORD_INDEX)
    if elastic is not None:
        held = tuple(
            GroupTarget(elastic.partition(number), number, time, "", (), 1, stage, ROOT)
            for number in range(elastic.bucket_count)
        )
    buckets = tuple(BucketTarget(group, millis) for group in held)
    own = maintained_partitions(table.partitions_listed)
    expressions = [p for p in own if p.path.startswith(EXPRESSION_PREFIX)]
    facts = {p: groups(p) for p in (COLUMN_STATS, PARTITION_STATS, BLOOM_FILTERS, *expressions)}
    secondary = {
        partition.path: groups(partition)
        for partition in own
        if partition.path.startswith(SECONDARY_PREFIX)
    }
    return Targets(groups(FILES), buckets, facts, secondary, stage, elastic, parts)


def _groups_by_partition(
    table: MetadataTable, time: InstantTime, millis: int, stage: int
) -> dict[str, tuple[BucketTarget, ...]] | None:
    """The groups of each data partition; None for an index that is not by partition."""
    if not table.is_by_partition:
        return None
    return {
        name: bucket_targets_of(groups_as(slices[0].file_id), len(slices), time, millis, stage)
        for name, slices in table.slices_by_partition().items()
    }


def bucket_targets_of(
    groups: MetadataPartition,
    count: int,
    time: InstantTime,
    millis: int,
    stage: int,
    waits_in: str | None = None,
) -> tuple[BucketTarget, ...]:
    """Targets for the file groups of one data partition in a record index by partition."""
    return tuple(
        BucketTarget(GroupTarget(groups, number, time, "", (), 1, stage), millis, waits_in)
        for number in range(count)
    )


def start_delta(table: MetadataTable, time: InstantTime, engine: Engine) -> MetadataCommit:
    """Begin the delta commit at `time`, or resume it if it has begun but not completed."""
    targets = log_targets(table, time)
    log = table.log
    begun = [i for i in table.timeline.pending if i.time == time]
    instant = begun[0] if begun else log.request_at(time, Action.DELTA_COMMIT)
    if instant.state is State.REQUESTED:
        instant = log.start(instant)
    return MetadataCommit(table, instant, targets, engine)


class MetadataCommit:
    """A delta commit of the metadata table that has begun."""

    def __init__(
        self, table: MetadataTable, inflight: Instant, targets: Targets, engine: Engine
    ) -> None:
        self._table = table
        self._inflight = inflight
        self._targets = targets
        self._engine = engine
        self._records = records_of(table.config.layout.index_version)

    def bucket_targets(self) -> tuple[BucketTarget, ...]:
        """The buckets of the record index, by number; empty if the table has no such index."""
        return self._targets.buckets

    def partition_targets(self, counts: Mapping[str, int]) -> dict[str, tuple[BucketTarget, ...]]:
        """The file groups of data partitions in a record index by partition.

        counts: of each partition, how many groups it gets if it has none; 0: none then.
        """
        known = dict(self._targets.by_partition or {})
        time, log = self._inflight.time, self._table.log
        for name, count in counts.items():
            if name in known or not count:
                continue
            groups = partition_groups(name)
            millis = epoch_millis(time, log.zone)
            known[name] = bucket_targets_of(groups, count, time, millis, self._targets.stage)
            for target in known[name]:
                create_group(log.fs, groups.path, target.group.file_id, time)
        self._targets = replace(self._targets, by_partition=known)
        return {name: known[name] for name in counts if name in known}

    @property
    def hash(self) -> KeyHash:
        """The hash function that assigns keys to buckets."""
        return self._targets.hash

    @property
    def time(self) -> InstantTime:
        return self._inflight.time

    def secondary_targets(self, partition: str) -> tuple[GroupTarget, ...]:
        """The file groups of a secondary index, by number."""
        return self._targets.secondary[partition]

    def write_log(
        self, target: GroupTarget, blocks: list[bytes], *, values: int, deletes: int
    ) -> WriteStat:
        """Write the log of one group; values, deletes: how many its blocks contain."""
        log = target.new_log()
        size = write_log(self._table.log.fs, target.partition.path, log, blocks)
        return target.stat(log, values=values, deletes=deletes, size_bytes=size)

    def finish(
        self,
        stats: Iterable[WriteStat],
        index_stats: Iterable[WriteStat] = (),
        *,
        secondary_stats: Iterable[WriteStat] = (),
        deleted: Mapping[str, Iterable[str]] | None = None,
        dropped_partitions: Iterable[str] = (),
        computed: ComputedEntries = MappingProxyType({}),
    ) -> None:
        """Write the records of `files` and complete the delta commit.

        stats: files written by the data instant, which must be readable.  index_stats: results of
        `write_bucket`, for each bucket the one of the successful attempt.  secondary_stats: logs of
        secondary indexes.  deleted: names of deleted data files per partition (cleaning).
        dropped_partitions: those that no longer exist.  computed: entries of the written files that
        their tasks have returned; the others are computed.
        """
        stats = tuple(stats)
        gone = {partition: tuple(names) for partition, names in (deleted or {}).items()}
        dropped = tuple(dropped_partitions)
        changed = FileChanges(self._inflight.time, stats, gone, dropped, computed)
        of_files = {
            **index_changes(self._table, changed, self._engine),
            **expression_changes(self._table, changed, self._engine),
        }
        written = [
            *(
                stat
                for partition, entries in of_files.items()
                for stat in self._write_groups(
                    self._targets.facts[partition], entries.keys, entries.values, entries.ended
                )
            ),
            *secondary_stats,
        ]
        if self._targets.elastic is None:
            written = [*index_stats, *written]
        else:
            self._table.publish_elastic(self._targets.elastic, self._inflight.time, index_stats)
        self.finish_records(file_changes(stats, gone, dropped), written)

    def finish_records(
        self,
        records: Mapping[str, Mapping[str, int | None]],
        index_stats: Iterable[WriteStat] = (),
    ) -> None:
        """Like `finish`, with the records of `files` supplied by the caller; may be empty."""
        written = list(index_stats)
        if records:
            keys, values = encode_files(records, self._records.stored)
            written += self._write_groups(self._targets.files, keys, values)
        self._delete_lost_attempts(written)
        stored = CommitMetadata(
            stats=tuple(written), operation="UPSERT_PREPPED", extra={"schema": self._records.commit}
        )
        log = self._table.log
        log.complete(self._inflight, log.encode(stored))

    def _write_groups(
        self,
        targets: Sequence[GroupTarget],
        keys: pa.Array,
        values: pa.Array,
        deleted: Sequence[str] = (),
    ) -> list[WriteStat]:
        """Write sorted entries and deletes, each to the group of its key."""
        gone = pa.array(sorted(set(deleted)), pa.string())
        written = []
        time, schema = self._inflight.time, self._records.stored
        for target in targets:
            mine = pa.array(bucket_of(keys, len(targets)) == target.number)
            ends = gone.filter(pa.array(bucket_of(gone, len(targets)) == target.number))
            here, there = keys.filter(mine), values.filter(mine)
            blocks = list(value_blocks(here, there, instant=time, schema=schema))
            if len(ends):
                blocks.append(
                    tombstone_block(ends, target.partition.path, instant=time, schema=schema)
                )
            if blocks:
                stat = self.write_log(target, blocks, values=len(here), deletes=len(ends))
                written.append(stat)
        return written

    def _delete_lost_attempts(self, written: Sequence[WriteStat]) -> None:
        """Delete logs of attempts that returned no stats: readers would read them."""
        targets = self._targets
        if targets.elastic is not None or not (targets.buckets or targets.by_partition):
            return
        fs, stage = self._table.log.fs, self._targets.stage
        reported = {stat.path for stat in written}
        lost = []
        for info in fs.children(RECORD_INDEX.path):
            name = parse_data_file(info.name)
            if isinstance(name, LogFileName) and name.write_token and info.path not in reported:
                _, found, _ = name.write_token.split("-")
                if int(found) == stage:
                    lost.append(info.path)
        fs.delete(lost)


def file_changes(
    stats: Iterable[WriteStat],
    deleted: Mapping[str, Iterable[str]],
    dropped_partitions: Iterable[str] = (),
) -> dict[str, dict[str, int | None]]:
    """The records of `files` for one data instant."""
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
    """Readers reject empty files, so a stat without a size must not be recorded."""
    if size <= 0:
        raise CorruptFileError("a write stat has no file size", path=path, size=size)
    return size

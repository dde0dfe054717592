"""Reader of the metadata table: file listing and record index of a data table.

A reader represents a snapshot: the timelines and folders at the time it was opened.
Source: table_format 9.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from functools import cached_property
from typing import Final

import numpy as np
import pyarrow as pa

from pyhudi._native.hashing import bucket_of
from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    IndexNotReadyError,
    SnapshotExpiredError,
)
from pyhudi.filenames import METADATA_TABLE, PROPERTIES, join
from pyhudi.layouts.table_layout import MetadataInstants
from pyhudi.metadata.elastic.reader import elastic_index
from pyhudi.metadata.elastic.state import IndexState
from pyhudi.metadata.elastic.store import (
    ROOT,
    first_write,
    is_elastic,
    newest_state,
    next_sequence,
    publish_state,
)
from pyhudi.metadata.group_checks import check_bases, check_whole, in_group_order
from pyhudi.metadata.hfile_slices import DeleteLayer, MapSlice, layers
from pyhudi.metadata.partition_creation import (
    PartitionCreations,
    archived_creations,
    table_creation,
)
from pyhudi.metadata.payloads import (
    ALL_PARTITIONS,
    FILES,
    NON_PARTITIONED,
    RECORD_INDEX,
    FileMap,
    MetadataPartition,
    decode_files,
    merge_files,
)
from pyhudi.metadata.record_index.by_partition import (
    PartitionedRecordIndex,
    check_global,
    is_partitioned_record_index,
    slices_by_partition,
)
from pyhudi.metadata.record_index.lookup import IndexBucket, RecordIndex
from pyhudi.metadata.visible_instants import is_creation, is_own, valid_instants
from pyhudi.records import InstantTime, is_before_all
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.storage.object_store import ObjectStoreFileSystem
from pyhudi.table.file_group_view import FileSlice
from pyhudi.table.listing import StoreListing
from pyhudi.table.properties import TableConfig, load_config
from pyhudi.table.timeline_facts import load_view
from pyhudi.table.version_record import index_not_ready
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.commit_metadata import WriteStat
from pyhudi.timeline.instant import WRITES, Action, Instant
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_DIGITS: Final = 17  # of a data table's instant
_OLD_DIGITS: Final = 14  # of instants before Apache Hudi 0.10: seconds


def own_log(fs: FileSystem, config: TableConfig) -> TimelineLog:
    """The metadata table's timeline; fs is rooted at the data table."""
    zone = zone_of(config.timezone)
    return TimelineLog(fs.sub(METADATA_TABLE), layout=config.layout, zone=zone)


def open_metadata(
    fs: FileSystem, config: TableConfig, log: TimelineLog, timeline: Timeline
) -> MetadataTable | None:
    """Open the table's metadata table; None if none is listed or its folder does not exist.

    fs: rooted at the data table; log, timeline: of the data table.
    """
    if FILES.path not in config.metadata_partitions:
        return None
    metadata_log = own_log(fs, config)
    if not metadata_log.fs.exists(PROPERTIES):
        return None
    return MetadataTable(fs, config, log, timeline, metadata_log, metadata_log.load())


def check_metadata_exists(fs: FileSystem, config: TableConfig) -> None:
    """Raise IndexNotReadyError where the table lists a metadata table that does not exist.

    Tables without a metadata table pass.  Cost: one request for a file's existence.
    """
    if FILES.path in config.metadata_partitions and not own_log(fs, config).fs.exists(PROPERTIES):
        raise missing_metadata(fs)


def outdated_metadata(fs: FileSystem) -> IndexNotReadyError:
    """The error of a change to a table whose metadata table lacks a commit."""
    return IndexNotReadyError(
        "the metadata table lacks a commit of the table",
        path=fs.url,
        hint="run table.metadata.rebuild() or pyhudi metadata rebuild",
    )


def missing_metadata(fs: FileSystem) -> IndexNotReadyError:
    """The error of a change to a table whose metadata table is listed but does not exist."""
    return index_not_ready(
        fs,
        "the metadata table is listed in the properties but does not exist",
        "run table.metadata.rebuild() or pyhudi metadata rebuild",
    )


def has_commits(data: Timeline, log: TimelineLog, own: Timeline) -> bool:
    """Whether the metadata table has every commit on the data table's active timeline.

    data: the data table's timeline; log, own: of the metadata table.  Commits that completed before
    `files` was created are in its first files; those that a savepoint keeps on the timeline may be
    archived here.  Of commits with instants of seconds only the newest is verified: the creation of
    a metadata table looks like a commit.  Cost if one lacks: small reads.
    """
    saved = data.where({Action.SAVEPOINT}).times
    known = own.commits.times | {time[:_OLD_DIGITS] for time in own.commits.times}
    lacking = [
        commit.completion
        for commit in data.commits
        if commit.time not in known
        and (
            commit == data.commits.last
            or (commit.time not in saved and len(commit.time) >= _DIGITS)
        )
    ]
    return not lacking or any(max(lacking) < since for since in _creations(log, own))


def _creations(log: TimelineLog, own: Timeline) -> Iterator[InstantTime]:
    """When `files` was created, by commits on the timeline, by archived ones, and by the files of
    commits: where completion times are not recorded, older instants may complete later."""
    unreadable = CorruptFileError, FileMissingError
    yield table_creation(own.commits)
    with suppress(*unreadable):
        yield table_creation((*own.commits, *archived_creations(log)))
    for commit in own.commits:
        with suppress(*unreadable):
            stats = log.commit(commit).stats if is_creation(commit.time) else ()
            if any(stat.partition == FILES.path for stat in stats):
                yield commit.completion


class MetadataTable:
    """A snapshot of a metadata table.  Everything is read on demand.

    data, timeline: the timelines of the data table and of the metadata table in the snapshot.
    """

    def __init__(
        self,
        fs: FileSystem,
        config: TableConfig,
        data_log: TimelineLog,
        data: Timeline,
        log: TimelineLog,
        timeline: Timeline,
    ) -> None:
        self.data_fs = fs
        self.config = config
        self.data_log = data_log
        self.data = data
        self.log = log
        self.timeline = timeline

    def again(self) -> MetadataTable:
        """The current metadata table, with the same timeline of the data table.  Cost: one
        listing."""
        now = self.log.load()
        return MetadataTable(self.data_fs, self.config, self.data_log, self.data, self.log, now)

    @property
    def partitions_listed(self) -> frozenset[str]:
        """Metadata partitions that the data table lists: readers may use them."""
        return self.config.metadata_partitions

    @cached_property
    def valid(self) -> frozenset[str]:
        """Instants whose log blocks are committed, of those on the timelines."""
        return valid_instants(self.data, self.log, self.timeline)

    @cached_property
    def archived(self) -> frozenset[str]:
        """Archived instants whose log blocks are committed: those of slices that were compacted
        since.  Cost: the archives of both tables."""
        own = self._archive.commit_instants
        if self.config.layout.metadata_instants is MetadataInstants.FRESH:
            return frozenset(each.time for each in own)
        found = {each.time for each in own if is_own(each.time)}
        return frozenset(found.union(each.time for each in self._data_archive.commit_instants))

    @cached_property
    def _archive(self) -> Archive:
        folder = load_config(self.log.fs).archive_folder
        return Archive(self.log.fs, layout=self.config.layout, folder=folder)

    @cached_property
    def _data_archive(self) -> Archive:
        config = self.config
        return Archive(self.data_fs, layout=config.layout, folder=config.archive_folder)

    def valid_in(self, file_slice: FileSlice) -> frozenset[str]:
        """Instants whose blocks in a slice are committed.  Logs of archived commits belong to older
        slices; they are in the newest one if it had no entries to compact, or lost its base."""
        first = self.timeline.commits.first
        if first is None or self.log.layout.logs_name_slices:
            return self.valid
        has_older = any(
            log.name.instant < first.time and not is_before_all(log.name.instant)
            for log in file_slice.logs
        )
        return self.valid | self.archived if has_older else self.valid

    def slices(
        self, partition: MetadataPartition, *, limit: InstantTime | None = None
    ) -> tuple[FileSlice, ...]:
        """The newest slice of each group, by group number; limit: as of that instant.

        Raises CorruptFileError if the groups are not numbered 0..n-1: n determines each key's
        group.
        """
        return in_group_order(self._newest(partition, limit), partition)

    def numbered_slices(self, partition: MetadataPartition) -> tuple[tuple[int, FileSlice], ...]:
        """The newest slice of each group with its number; in a record index by partition, each
        data partition has its own numbers."""
        if partition == RECORD_INDEX and self.is_by_partition:
            parts = self.slices_by_partition().values()
            return tuple(pair for slices in parts for pair in enumerate(slices))
        return tuple(enumerate(self.slices(partition)))

    @cached_property
    def is_by_partition(self) -> bool:
        """Whether the record index has separate file groups for each data partition."""
        return is_partitioned_record_index(self.data_fs, self.config)

    def slices_by_partition(self) -> dict[str, tuple[FileSlice, ...]]:
        """The newest slice of each group of a record index by partition, by group number."""
        return slices_by_partition(self._newest(RECORD_INDEX, None))

    def _newest(
        self, partition: MetadataPartition, limit: InstantTime | None
    ) -> tuple[FileSlice, ...]:
        """The newest slice of each group, in any order."""
        view = load_view(
            self.log,
            self.timeline,
            StoreListing(self.log.fs),
            partitions=[partition.path],
            limit=limit,
            archive=None if limit is None else self._archive,
        )
        found = tuple(view.latest_slices())
        check_bases(found, self.log.layout)
        if limit is None and not isinstance(self.log.fs, ObjectStoreFileSystem):
            # object stores do not truncate files, so only others are checked
            self._check_whole(found, partition)
        return found

    def _check_whole(self, found: Iterable[FileSlice], partition: MetadataPartition) -> None:
        found = tuple(found)
        times = {partition.path: [each.instant for each in found]}

        def check(archived: Iterable[Instant] = ()) -> None:
            created = PartitionCreations.of(self.timeline, times, archived)
            stats = self._written.get(partition.path, ())
            written = (each for each in stats if not created.precede(each[1], each[0]))
            check_whole(found, written, self.log)

        try:
            check()
        except CorruptFileError:
            check(archived_creations(self.log))

    @cached_property
    def is_up_to_date(self) -> bool:
        """Whether the metadata table has every commit on the data table's active timeline."""
        return has_commits(self.data, self.log, self.timeline)

    @cached_property
    def _written(self) -> dict[str, list[tuple[Instant, WriteStat]]]:
        """Commits on the timeline and their write stats, by partition: a compaction does not
        rewrite groups without logs.  Cost: one small read per commit that this process has not
        read."""
        found: dict[str, list[tuple[Instant, WriteStat]]] = {}
        for each in self.timeline.commits:
            for stat in self.log.commit(each).stats:
                found.setdefault(stat.partition, []).append((each, stat))
        return found

    def listing(self) -> MetadataListing:
        """Partitions and files of the data table, without folder listings."""
        file_slices = tuple(
            MapSlice.of(file_slice, number, self.valid_in(file_slice))
            for number, file_slice in enumerate(self.slices(FILES))
        )
        return MetadataListing(self.log.fs, file_slices)

    @property
    def has_record_index(self) -> bool:
        """Whether the table has a record index, here or as an elastic index."""
        return RECORD_INDEX.path in self.partitions_listed or is_elastic(self.config)

    def record_index_as_of(self, time: InstantTime) -> RecordIndex:
        """The record index as of `time`, the then newest instant of the data table.

        Raises IndexNotReadyError if the table lists no record index, or created it later;
        SnapshotExpiredError if the files of that time have been deleted.
        """
        if is_elastic(self.config):
            try:
                return self._elastic("auto", limit=time)
            except IndexNotReadyError as error:
                raise _expired(self.data_fs, time) from error
        now = self.record_index()
        # own instants of the metadata table begin with the digits of the data instant before them
        limit = InstantTime(f"{time[:_DIGITS]}999")
        try:
            slices = self.slices(RECORD_INDEX, limit=limit)
        except CorruptFileError as error:
            raise _expired(self.data_fs, time) from error
        if self._was_created_after(slices, time):
            raise _expired(self.data_fs, time)
        valid = frozenset(each for each in self.valid | self.archived if each <= limit)
        buckets = tuple(
            IndexBucket(
                MapSlice.of(file_slice, number, valid, groups=len(slices)), now.buckets[0].zone
            )
            for number, file_slice in enumerate(slices)
        )
        return RecordIndex(self.data_fs, buckets)

    def _was_created_after(self, slices: Iterable[FileSlice], time: InstantTime) -> bool:
        """Whether slices contain commits after `time` because they were created after them.

        In layout 1 the instants of the slices show it."""
        creations = PartitionCreations.of(
            self.timeline,
            {RECORD_INDEX.path: [each.instant for each in slices]},
            archived_creations(self.log),
        ).by_partition.values()
        return any(
            commit.time > time and commit.completed_at < creation.completed_at
            for creation in creations
            for commit in (*self._data_archive.commit_instants, *self.data.commits)
            if creation.completed_at is not None and commit.completed_at is not None
        )

    def record_index(self, *, method: str = "auto") -> RecordIndex:
        """The record index; method: of look-ups in its files.  Raises IndexNotReadyError if the
        table lists no record index, or has an elastic one that lacks commits."""
        if is_elastic(self.config):
            return self._elastic(method)
        if RECORD_INDEX.path not in self.partitions_listed:
            raise index_not_ready(
                self.data_fs, "the table has no record index", "create one, or use another index"
            )
        check_global(self.data_fs, self.config)
        return self._index_of(self.slices(RECORD_INDEX), method)

    def locations(self, *, method: str = "auto") -> RecordIndex | PartitionedRecordIndex:
        """The record index for look-ups, global or by partition; as `record_index`."""
        if not self.is_by_partition:
            return self.record_index(method=method)
        return PartitionedRecordIndex(
            {
                each: self._index_of(slices, method)
                for each, slices in self.slices_by_partition().items()
            }
        )

    def _index_of(self, slices: Sequence[FileSlice], method: str) -> RecordIndex:
        zone = zone_of(self.config.timezone)
        mapped = (
            MapSlice.of(each, number, self.valid_in(each), groups=len(slices))
            for number, each in enumerate(slices)
        )
        return RecordIndex(self.data_fs, tuple(IndexBucket(each, zone, method) for each in mapped))

    def elastic_state(self, *, limit: InstantTime | None = None) -> IndexState:
        """The state of the elastic index.  Raises IndexNotReadyError where it lacks commits."""
        return newest_state(self.data_fs, self.data_log, self.data, limit=limit)

    def maintained_index(self) -> RecordIndex | PartitionedRecordIndex | None:
        """The record index that writes maintain; None where there is none, or an elastic one that
        already lacks commits."""
        if is_elastic(self.config) and self.maintained_elastic() is None:
            return None
        return self.locations() if self.has_record_index else None

    def maintained_elastic(self) -> IndexState | None:
        """The elastic index that writes maintain; None as in `maintained_index`."""
        if not is_elastic(self.config):
            return None
        try:
            return self.elastic_state()
        except IndexNotReadyError:
            return None

    def publish_elastic(
        self, before: IndexState, instant: InstantTime, stats: Iterable[WriteStat]
    ) -> None:
        """Store the state after a commit; it becomes visible when the commit completes.

        before: the state it builds on.  stats: of the committed logs of entries.  For a clean,
        which is not a commit, no state is stored.
        """
        if not any(i.time == instant for i in self.data.where(WRITES)):
            return
        index_fs = self.data_fs.sub(ROOT)
        state = before.with_logs(stats, instant)
        covered = frozenset({*self.data.commits.times, instant})
        since = first_write(self.data) or instant
        publish_state(
            index_fs,
            replace(
                state,
                sequence=next_sequence(index_fs),
                instant=instant,
                since=since,
                covered=covered,
            ),
        )

    def _elastic(self, method: str, *, limit: InstantTime | None = None) -> RecordIndex:
        state, zone = self.elastic_state(limit=limit), zone_of(self.config.timezone)
        return elastic_index(self.data_fs, state, zone, method)


def _expired(fs: FileSystem, time: InstantTime) -> SnapshotExpiredError:
    return SnapshotExpiredError(
        "the record index is not available as of that time",
        path=fs.url,
        as_of=time,
        hint="its older files have been cleaned, or it was created later",
    )


class MetadataListing:
    """File listing from the partition `files`.  Sizes of log files are hints: writers of Apache
    Hudi may record wrong ones after a rollback."""

    def __init__(self, fs: FileSystem, file_slices: tuple[MapSlice, ...]) -> None:
        self._fs = fs
        self._slices = file_slices

    def partitions(self) -> list[str]:
        """Sorted partition paths; `""` for a non-partitioned table."""
        names = self._records([ALL_PARTITIONS]).get(ALL_PARTITIONS) or {}
        return sorted(
            "" if name == NON_PARTITIONED else name
            for name, size in names.items()
            if size is not None
        )

    def files(self, partitions: Iterable[str]) -> dict[str, list[FileInfo]]:
        """Base and log files per partition; paths are relative to the data table's root."""
        requested = list(partitions)
        records = self._records([partition or NON_PARTITIONED for partition in requested])
        found: dict[str, list[FileInfo]] = {}
        for partition in requested:
            record = records.get(partition or NON_PARTITIONED) or {}
            found[partition] = [
                FileInfo(join(partition, name), size)
                for name, size in sorted(record.items())
                if size is not None
            ]
        return found

    def _records(self, keys: list[str]) -> dict[str, FileMap]:
        column = pa.array(keys, pa.string())
        found: dict[str, FileMap] = {}
        homes = bucket_of(column, len(self._slices))
        for number in sorted(set(homes.tolist())):
            requested = column.filter(pa.array(homes == number))
            merged = file_records(self._fs, self._slices[number], requested)
            names = requested.to_pylist()
            found.update((n, m) for n, m in zip(names, merged, strict=True) if m is not None)
        return found


def file_records(fs: FileSystem, file_slice: MapSlice, keys: pa.Array) -> list[FileMap | None]:
    """Records of `files`, merged over all layers; None for a key without a record."""
    merged: list[FileMap | None] = [None] * len(keys)
    for layer in layers(fs, file_slice):
        if isinstance(layer, DeleteLayer):
            for position in np.flatnonzero(layer.table.contains(keys)).tolist():
                merged[position] = None
            continue
        values = layer.reader.get_many(keys)
        if values.null_count == len(values):
            continue
        for position, record in enumerate(decode_files(values, layer.schema, path=layer.path)):
            if record is not None:
                merged[position] = merge_files(merged[position] or {}, record)
    return merged

"""Snapshot of a table at one moment: properties, timeline and listing; the start of every read."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import cached_property
from typing import Final, TypeVar

import pyarrow as pa

from pyhudi.errors import FileMissingError, OptionError, StorageError, UserError
from pyhudi.filenames import HOODIE, METADATA_TABLE, PROPERTIES
from pyhudi.formats.column_history import LATEST_SCHEMA, ColumnHistory
from pyhudi.merge.merge_rules import MergeRules, merge_rules
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.record_index.by_partition import PartitionedRecordIndex
from pyhudi.metadata.record_index.lookup import RecordIndex
from pyhudi.options import Merging, ReadOptions
from pyhudi.read.metadata_freshness import TrustedListing, is_ahead, trusted_metadata
from pyhudi.read.table_schema import (
    footer_schema,
    full_schema,
    latest_schema,
    schema_text,
    stated_schema,
    stored_history,
)
from pyhudi.records import FileGroupId, InstantTime, Position
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.listing_snapshot import WalkedObjectStore
from pyhudi.storage.object_store import ObjectStoreFileSystem
from pyhudi.table.bootstrap_index import SOURCE_OPTION, SourceIndex, with_sources
from pyhudi.table.file_group_view import FileSlice, TableView, Visibility
from pyhudi.table.listing import Listing, StoreListing, VerifiedListing
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import METADATA_TRUSTED_FROM, TableConfig, load_config
from pyhudi.table.timeline_facts import (
    check_compacted_bases,
    check_not_bootstrapped,
    check_readable,
    load_view,
    replaced_groups,
    without_undone,
)
from pyhudi.table.version_record import index_not_ready
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import REPLACEMENTS, Instant
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_T = TypeVar("_T")
_READ_ATTEMPTS: Final = 10


@dataclass(frozen=True, slots=True)
class Past:
    """An earlier moment of a table of layout 2.

    position: of that moment.  start: instants before it that are not in `later` had completed;
    None where nothing had.  later: instants that completed after that moment, archived ones
    included.  replaced: file groups that archived instants had replaced by then, and when.
    """

    position: Position
    start: InstantTime | None
    later: frozenset[InstantTime]
    replaced: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)


@dataclass(frozen=True)
class TableState:
    """Properties, timeline and file listing of a table.  Immutable; threads may share it."""

    fs: FileSystem
    config: TableConfig
    log: TimelineLog
    timeline: Timeline
    listing: Listing
    metadata: MetadataTable | None
    archive: Archive
    merging: Merging = field(default_factory=Merging)
    config_tag: str | None = None
    lookup: str = "auto"  # lookup method of the record index
    past: Past | None = None  # set by `until`
    source_folder: str | None = None  # current folder of the source files of a bootstrapped table

    @cached_property
    def rules(self) -> MergeRules:
        """How the table's records are merged."""
        return merge_rules(self.config, self.merging)

    @cached_property
    def sources(self) -> SourceIndex | None:
        """Where the data columns of skeleton files are; None for a table that has none."""
        base = self.config.bootstrap_base_path
        return SourceIndex(self.fs, base, folder=self.source_folder) if base else None

    @property
    def zone(self) -> tzinfo | None:
        return zone_of(self.config.timezone)

    @property
    def listed_by(self) -> str:
        """The source of the file listing, as text for reports."""
        return "the metadata table" if isinstance(self.listing, TrustedListing) else "the store"

    @cached_property
    def record_index(self) -> RecordIndex:
        """Raises IndexNotReadyError where the table has no record index that can be trusted,
        UnsupportedTableError where it is by partition."""
        return self._trusted.record_index(method=self.lookup)

    @cached_property
    def locations(self) -> RecordIndex | PartitionedRecordIndex:
        """The record index for look-ups, also by partition; raises IndexNotReadyError as above."""
        return self._trusted.locations(method=self.lookup)

    @property
    def _trusted(self) -> MetadataTable:
        if self.metadata is None:
            raise index_not_ready(
                self.fs,
                "the table has no record index that can be trusted",
                "scan(where=...) finds rows without one",
            )
        return self.metadata

    def schema(self, *, limit: InstantTime | None = None) -> pa.Schema:
        """Columns as of `limit` (None: now), meta columns first if the table has them."""
        later = frozenset() if self.past is None else self.past.later
        columns = stated_schema(
            self.log, self.timeline, self.archive, self.config, limit=limit, later=later
        )
        if columns is None:
            columns = footer_schema(self.fs, self.view(limit=limit).latest_slices())
        return full_schema(columns, self.config)

    def view(
        self, *, partitions: Sequence[str] | None = None, limit: InstantTime | None = None
    ) -> TableView:
        """File groups as of `limit`, over some partitions (None: all).

        Raises CorruptFileError if a pending compaction merges a base file that is gone.
        """
        replaced = None if self.past is None else self.past.replaced
        chosen = None if partitions is None else frozenset(partitions)
        view = load_view(
            self.log,
            self.timeline,
            self.listing,
            partitions=None if partitions is None else list(partitions),
            limit=limit,
            visibility=self.visibility(limit=limit),
            archive=self.archive,
            replaced=replaced,
        )
        check_compacted_bases(self.log, self.timeline, view, partitions=chosen, replaced=replaced)
        return with_sources(view, self.sources)

    def visibility(self, *, limit: InstantTime | None = None) -> Visibility:
        """The instants that are visible to a reader as of `limit`."""
        seen = Visibility.of(self.timeline, limit=limit)
        columns = self.columns(limit=limit)
        if columns is not None:
            seen = replace(seen, columns=columns)
        if self.past is None:
            return seen
        unfinished = seen.unfinished | self.past.later
        return replace(seen, start=self.past.start, unfinished=unfinished)

    def columns(self, *, limit: InstantTime | None = None) -> ColumnHistory | None:
        """The names of columns in files, for the columns of `schema` as of `limit`; None if the
        table has no internal schema then."""
        later = frozenset() if self.past is None else self.past.later
        latest = latest_schema(
            self.fs, self.log, self.timeline, self.archive, limit=limit, later=later
        )
        return None if latest is None else ColumnHistory(latest, self._schemas)

    def stated(self) -> dict[str, str]:
        """What a commit that changes no column states of the schema; empty if no commit does."""
        text = schema_text(self.log, self.timeline, self.archive, self.config)
        history = self.columns()
        return (
            {}
            if text is None
            else {"schema": text, **({} if history is None else {LATEST_SCHEMA: history.latest})}
        )

    @cached_property
    def _schemas(self) -> str:
        later = frozenset() if self.past is None else self.past.later
        seen = Visibility.of(self.timeline)
        return stored_history(self.fs, lambda time: seen.sees(time) or time in later)

    @cached_property
    def commits(self) -> tuple[Instant, ...]:
        """Every completed commit that this state sees, in the order of their positions.

        Layout 2: with those of the archive, of which a commit that began early and completed late
        may be newer than active ones.  Cost: reads the instants of the archive.
        """
        active = self.timeline.commits
        if not self.log.layout.has_completion_times:
            return active.instants
        hidden = self.timeline.times | self.timeline.rolled_back
        if self.past is not None:
            hidden |= self.past.later
        archived = (i for i in self.archive.commit_instants if i.time not in hidden)
        found = {i.time: i for i in (*archived, *active)}
        return tuple(sorted(found.values(), key=lambda i: (i.position, i.time)))

    def commit(self, instant: Instant) -> CommitMetadata:
        """The metadata of one of `commits`."""
        if instant in self.timeline.commits.instants:
            return self.log.commit(instant)
        return self.archive.metadata_of((instant,))[instant.time]

    def partitions(self) -> list[str]:
        """Partition paths, except those whose file groups were all replaced or dropped.

        Such partitions stay listed until they are cleaned.  Only the files of partitions with
        replaced file groups are listed.
        """
        listed = self.listing.partitions()
        suspects = {group.partition for group in replaced_groups(self.log, self.timeline)}
        suspects &= set(listed)
        if not suspects:
            return listed
        alive = {s.partition for s in self.view(partitions=sorted(suspects)).latest_slices()}
        return [p for p in listed if p not in suspects or p in alive]

    def slices(self, partition: str | None = None) -> list[FileSlice]:
        """The newest slice of each file group, of one partition or of all."""
        if partition is None:
            return self.view().latest_slices()
        if partition not in self.listing.partitions():
            raise UserError("the table has no such partition", partition=partition)
        return self.view(partitions=[partition]).latest_slices()

    def until(self, position: Position) -> tuple[TableState, InstantTime | None]:
        """The table as it was at a position, and the limit for `view`."""
        if not self.log.layout.has_completion_times:
            return self, InstantTime(position)
        retained, later = [], set()
        for instant in self.timeline:
            if instant.completed_at is None or instant.completed_at <= position:
                retained.append(instant)
            else:
                later.add(instant.time)
        commits = self.commits
        seen = [i for i in commits if i.position <= position]
        later |= {i.time for i in commits if i.position > position}
        start = Visibility.of(self.timeline).start if seen else None
        gone: tuple[Instant, ...] = ()
        if all(i.time not in self.timeline.times for i in seen):  # replaced files may be listed yet
            gone = tuple(i for i in seen if i.action in REPLACEMENTS)
        past = Past(position, start, frozenset(later), _replaced_by(self.archive, gone))
        return replace(self, timeline=self.timeline.holding(retained), past=past), None


def _replaced_by(archive: Archive, commits: tuple[Instant, ...]) -> dict[FileGroupId, InstantTime]:
    """The file groups that archived commits replaced, and when."""
    return {
        FileGroupId(partition, file_id): time
        for time, metadata in archive.metadata_of(commits).items()
        for partition, ids in (metadata.replaced or {}).items()
        for file_id in ids
    }


def load_state(
    fs: FileSystem,
    options: ReadOptions,
    *,
    previous: TableState | None = None,
    now: Timeline | None = None,
    for_reading: bool = False,
) -> TableState:
    """Load the current table.  Cost: two small reads.  Returns `previous` if nothing has changed.
    The properties change with a rebuild of the metadata table, which the timeline does not have.

    now: its timeline, listed under a lock that is still locked; None: list it.  for_reading: also
    open bootstrapped tables, which are read-only.
    Raises TableNotFoundError, UnsupportedTableError, CorruptFileError; OptionError for a source
    folder of a table that is not bootstrapped.
    """
    listed_fs = _listed_ahead(fs)
    tag = listed_fs.tag(PROPERTIES) if isinstance(listed_fs, WalkedObjectStore) else None
    if previous is not None and tag is not None and previous.config_tag == tag:
        config = previous.config
    else:
        config = load_config(fs)
        check_readable(config)
        if not _has_metadata(listed_fs, config):
            listed_fs = _listed_ahead(fs)  # the properties have changed since
    if not for_reading:
        check_not_bootstrapped(config)
    if options.source_folder and not config.bootstrap_base_path:
        raise OptionError("the table is not bootstrapped", option=SOURCE_OPTION)
    log = timeline_log(fs, config)
    if previous is not None and previous.config == config and previous.config.stamp == config.stamp:
        log = previous.log
    for _ in range(_READ_ATTEMPTS):
        loaded, listed_fs = (now, listed_fs) if now else _loaded(fs, log, listed_fs)
        timeline, is_restored = without_undone(log, loaded)
        if previous is not None and previous.log is log and previous.timeline == timeline:
            return previous
        metadata = None
        is_trusted = config.version >= METADATA_TRUSTED_FROM
        if options.metadata_enabled and is_trusted and not is_restored:
            metadata = trusted_metadata(listed_fs, config, log, timeline)
        if now is not None or metadata is None or not is_ahead(metadata, loaded):
            break
        if log.load() == loaded:
            break
        listed_fs = _listed_ahead(fs)
    store = VerifiedListing(fs, log, loaded) if for_reading else StoreListing(fs)
    return TableState(
        fs=fs,
        config=config,
        log=log,
        timeline=timeline,
        listing=_listing(fs, listed_fs, metadata, store),
        metadata=metadata,
        archive=_archive(fs, config, previous),
        merging=options.merging,
        config_tag=tag,
        lookup=options.lookup,
        source_folder=options.source_folder,
    )


def _archive(fs: FileSystem, config: TableConfig, previous: TableState | None) -> Archive:
    read = None if previous is None else previous.archive
    return Archive(fs, layout=config.layout, folder=config.archive_folder, previous=read)


def read_current(load: Callable[[], TableState], read: Callable[[TableState], _T]) -> _T:
    """What `read` returns for the current state of the table, without side effects.

    load: the current state.  Instants may be archived or rolled back between their listing and
    their reading, and files cleaned; the newer state is read then.  Raises FileMissingError for a
    missing file of a table whose timeline is still the one that was listed.
    """
    state = load()
    for _ in range(_READ_ATTEMPTS):
        try:
            return read(state)
        except FileMissingError:
            newer = load()
            if newer.timeline == state.timeline:
                raise
            state = newer
    return read(state)


def _listed_ahead(fs: FileSystem) -> FileSystem:
    """The store, with `.hoodie` listed recursively in advance where that is cheaper, and with the
    whole table listed where it is so small that this costs no additional request."""
    return WalkedObjectStore.of(fs, HOODIE) if isinstance(fs, ObjectStoreFileSystem) else fs


def _loaded(fs: FileSystem, log: TimelineLog, listed_fs: FileSystem) -> tuple[Timeline, FileSystem]:
    """The timeline of a listing made in advance, and that listing: a newer one if files have left
    it, as rows would be missing from a listing that is older than its timeline."""
    for _ in range(_READ_ATTEMPTS):
        try:
            return log.load(None if listed_fs is fs else listed_fs), listed_fs
        except FileMissingError:
            listed_fs = _listed_ahead(fs)
    raise StorageError("the timeline keeps changing", path=log.folder, retryable=True)


def _listing(
    fs: FileSystem, listed_fs: FileSystem, metadata: MetadataTable | None, store: Listing
) -> Listing:
    """The listing made in advance if it is complete; else the metadata table, if it is trusted."""
    if isinstance(listed_fs, WalkedObjectStore) and listed_fs.is_whole:
        return StoreListing(listed_fs)
    return store if metadata is None else TrustedListing(fs, metadata, store)


def _has_metadata(listed_fs: FileSystem, config: TableConfig) -> bool:
    """Whether the listing made in advance has every metadata partition of the properties."""
    return not isinstance(listed_fs, WalkedObjectStore) or all(
        listed_fs.exists(f"{METADATA_TABLE}/{path}") for path in config.metadata_partitions
    )

"""A table as found on its store at one moment: what every read starts from."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import tzinfo
from functools import cached_property

import pyarrow as pa

from pyhudi.errors import IndexNotReadyError, OptionError, UserError
from pyhudi.filenames import HOODIE, METADATA_TABLE, PROPERTIES
from pyhudi.merge.merge_rules import MergeRules, merge_rules
from pyhudi.metadata.reader import MetadataTable
from pyhudi.metadata.record_index.lookup import RecordIndex
from pyhudi.options import Merging, ReadOptions
from pyhudi.read.metadata_freshness import TrustedListing, trusted_metadata
from pyhudi.read.table_schema import footer_schema, full_schema, stated_schema
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.listing_snapshot import WalkedObjectStore
from pyhudi.storage.object_store import ObjectStoreFileSystem
from pyhudi.table.bootstrap_index import SOURCE_OPTION, SourceIndex, with_sources
from pyhudi.table.file_group_view import FileSlice, TableView, Visibility
from pyhudi.table.listing import Listing, StoreListing
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import METADATA_TRUSTED_FROM, TableConfig, load_config
from pyhudi.table.timeline_facts import (
    check_not_bootstrapped,
    check_readable,
    load_view,
    replaced_groups,
    without_undone,
)
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Past:
    """What an earlier moment of a table of layout 2 saw beyond the active timeline of then.

    first: the first commit of the active timeline of now.  start: instants before it count as
    completed; None where only those of `archived` do.  later: instants that completed after that
    moment.  replaced: file groups that the archived ones took out, and when.
    """

    first: InstantTime | None
    start: InstantTime | None
    later: frozenset[InstantTime]
    archived: frozenset[InstantTime] = frozenset()
    replaced: Mapping[FileGroupId, InstantTime] = field(default_factory=dict)


@dataclass(frozen=True)
class TableState:
    """Properties, timeline and where to ask for files.  Immutable; shared between threads."""

    fs: FileSystem
    config: TableConfig
    log: TimelineLog
    timeline: Timeline
    listing: Listing
    metadata: MetadataTable | None
    archive: Archive
    merging: Merging = field(default_factory=Merging)
    config_tag: str | None = None
    lookup: str = "auto"  # how the record index is asked
    past: Past | None = None  # of `until`
    source_folder: str | None = None  # where the source files of a bootstrapped table are now

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
        """Who tells which files there are, in words."""
        return "the store" if isinstance(self.listing, StoreListing) else "the metadata table"

    @cached_property
    def record_index(self) -> RecordIndex:
        """Raises IndexNotReadyError where the table has no record index to be trusted."""
        if self.metadata is None:
            raise IndexNotReadyError(
                "the table has no record index that can be trusted",
                path=self.fs.url,
                hint="scan(where=...) finds rows without one",
            )
        return self.metadata.record_index(method=self.lookup)

    def schema(self, *, limit: InstantTime | None = None) -> pa.Schema:
        """Columns as of `limit` (None: now), meta columns in front if the table keeps them."""
        columns = stated_schema(self.log, self.timeline, self.archive, self.config, limit=limit)
        if columns is None:
            columns = footer_schema(self.fs, self.view(limit=limit).latest_slices())
        return full_schema(columns, self.config)

    def view(
        self, *, partitions: Sequence[str] | None = None, limit: InstantTime | None = None
    ) -> TableView:
        """File groups as of `limit`, over some partitions (None: all)."""
        view = load_view(
            self.log,
            self.timeline,
            self.listing,
            partitions=None if partitions is None else list(partitions),
            limit=limit,
            visibility=self.visibility(limit=limit),
            archive=self.archive,
            replaced=None if self.past is None else self.past.replaced,
        )
        return with_sources(view, self.sources)

    def visibility(self, *, limit: InstantTime | None = None) -> Visibility:
        """Which instants a reader as of `limit` believes."""
        seen = Visibility.of(self.timeline, limit=limit)
        past = self.past
        if past is None:
            return seen
        return replace(
            seen,
            completed=seen.completed | past.archived,
            start=past.start,
            unfinished=seen.unfinished | past.later,
        )

    @property
    def start(self) -> InstantTime | None:
        """The first commit of the active timeline as loaded; earlier ones are archived."""
        if self.past is not None:
            return self.past.first
        first = self.timeline.commits.first
        return None if first is None else first.time

    def is_archived(self, time: InstantTime) -> bool:
        """Whether commits that completed after `time` may be archived (layout 2)."""
        start = self.start
        return self.log.layout != 1 and start is not None and time < start

    def partitions(self) -> list[str]:
        """Partition paths, less those all of whose file groups were replaced or dropped.

        Those stay listed until they are cleaned; only they cost a listing of their files.
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

    def until(self, time: InstantTime) -> tuple[TableState, InstantTime | None]:
        """The table as it was when instants up to `time` had completed, and the limit to view it
        with: layout 2 tells by completion times, layout 1 by the instants' own."""
        if self.log.layout == 1:
            return self, time
        kept, later = [], set()
        for instant in self.timeline:
            if instant.completed_at is None or instant.completed_at <= time:
                kept.append(instant)
            else:
                later.add(instant.time)
        past = Past(self.start, Visibility.of(self.timeline).start, frozenset(later))
        if self.is_archived(time):
            past = _archived_past(past, self.archive, time)
        return replace(self, timeline=self.timeline.holding(kept), past=past), None


def _archived_past(past: Past, archive: Archive, time: InstantTime) -> Past:
    """The same, for a moment before some archived commit may have completed."""
    seen = [entry for entry in archive.commits if (entry.completed_at or entry.time) <= time]
    replaced = {
        FileGroupId(partition, file_id): entry.time
        for entry in seen
        for partition, ids in (entry.metadata.replaced or {}).items()
        for file_id in ids
    }
    archived = frozenset(entry.time for entry in seen)
    return replace(past, start=None, archived=archived, replaced=replaced)


def load_state(
    fs: FileSystem,
    options: ReadOptions,
    *,
    previous: TableState | None = None,
    now: Timeline | None = None,
    for_reading: bool = False,
) -> TableState:
    """The table now.  Two small reads; `previous` is returned again if nothing has changed.

    now: its timeline, listed under a lock that is held still; None: it is listed.  for_reading:
    bootstrapped tables are opened too, which nothing may write.
    Raises TableNotFoundError, UnsupportedTableError, CorruptFileError; OptionError for a source
    folder of a table that is not bootstrapped.
    """
    walked = _walked(fs)
    tag = walked.tag(PROPERTIES) if isinstance(walked, WalkedObjectStore) else None
    if previous is not None and tag is not None and previous.config_tag == tag:
        config = previous.config
    else:
        config = load_config(fs)
        check_readable(config)
        if not _has_metadata(walked, config):
            walked = _walked(fs)  # the properties have changed since
    if not for_reading:
        check_not_bootstrapped(config)
    if options.source_folder and not config.bootstrap_base_path:
        raise OptionError("the table is not bootstrapped", option=SOURCE_OPTION)
    log = timeline_log(fs, config)
    if previous is not None and previous.config == config:
        log = previous.log
    timeline, is_restored = without_undone(log, now or log.load(walked))
    if previous is not None and previous.log is log and previous.timeline == timeline:
        return previous
    metadata = None
    is_trusted = config.version >= METADATA_TRUSTED_FROM
    if options.metadata_enabled and is_trusted and not is_restored:
        metadata = trusted_metadata(walked, config, log, timeline)
    return TableState(
        fs=fs,
        config=config,
        log=log,
        timeline=timeline,
        listing=_listing(fs, walked, metadata),
        metadata=metadata,
        archive=Archive(fs, layout=config.layout, folder=config.archive_folder),
        merging=options.merging,
        config_tag=tag,
        lookup=options.lookup,
        source_folder=options.source_folder,
    )


def _walked(fs: FileSystem) -> FileSystem:
    """The store, with what stands below `.hoodie` listed at one time where that is cheaper; and
    with the whole table, where it is so small that this costs no request more."""
    return WalkedObjectStore.of(fs, HOODIE) if isinstance(fs, ObjectStoreFileSystem) else fs


def _listing(fs: FileSystem, walked: FileSystem, metadata: MetadataTable | None) -> Listing:
    """What the walk has seen already; else the metadata table, where it can be believed."""
    if isinstance(walked, WalkedObjectStore) and walked.is_whole:
        return StoreListing(walked)
    return StoreListing(fs) if metadata is None else TrustedListing(fs, metadata)


def _has_metadata(walked: FileSystem, config: TableConfig) -> bool:
    """Whether a walk has seen every metadata partition that the properties list."""
    return not isinstance(walked, WalkedObjectStore) or all(
        walked.exists(f"{METADATA_TABLE}/{path}") for path in config.metadata_partitions
    )

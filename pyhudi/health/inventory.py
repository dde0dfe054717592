"""Inventory of a table: its contents on the store, read for the checks without trusting them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from typing import Self

from pyhudi.errors import CorruptFileError, FileMissingError, PyhudiError
from pyhudi.filenames import DataFileName, parse_data_file
from pyhudi.metadata.reader import MetadataTable
from pyhudi.options import ReadOptions
from pyhudi.read.metadata_freshness import trusted_metadata
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import FileGroupId, InstantTime
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.table.file_group_view import PendingPlans, TableView, Visibility, build_view
from pyhudi.table.listing import StoreListing
from pyhudi.table.log import timeline_log
from pyhudi.table.properties import TableConfig
from pyhudi.table.timeline_facts import completion_times
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Action, Instant, State
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.plans.compaction import CompactionPlan
from pyhudi.timeline.timeline import Timeline


@dataclass(frozen=True)
class TableInventory:
    """The contents of a table at one moment.  files: those in its partitions, by partition."""

    fs: FileSystem
    config: TableConfig
    log: TimelineLog
    timeline: Timeline
    files: Mapping[str, list[FileInfo]]
    unmarked: frozenset[str] = field(default_factory=frozenset)  # partitions without a metafile

    @classmethod
    def of(cls, fs: FileSystem, config: TableConfig, *, log: TimelineLog | None = None) -> Self:
        """log: one that may have read commits already."""
        log = log or timeline_log(fs, config)
        timeline = log.load()
        files, unmarked = _inventory(fs, log, timeline)
        return cls(fs, config, log, timeline, files, unmarked)

    @cached_property
    def commits(self) -> Mapping[Instant, CommitMetadata]:
        """Completed commits that can be read, with their metadata; the checks use these."""
        return self.readable_commits()

    def readable_commits(self) -> dict[Instant, CommitMetadata]:
        """Completed commits that can be read, with their metadata.  Cost: one read per commit."""
        found = {}
        for instant in self.timeline.commits:
            try:
                found[instant] = self.log.commit(instant)
            except (CorruptFileError, FileMissingError):
                continue
        return found

    @cached_property
    def visibility(self) -> Visibility:
        return Visibility.of(self.timeline)

    @cached_property
    def metadata(self) -> MetadataTable | None:
        """The metadata table if readers trust it, else None."""
        try:
            return trusted_metadata(self.fs, self.config, self.log, self.timeline)
        except PyhudiError:
            return None

    @cached_property
    def archive(self) -> Archive:
        return Archive(self.fs, layout=self.config.layout, folder=self.config.archive_folder)

    @cached_property
    def claimed(self) -> PendingPlans:
        """Groups that pending plans name, as far as the plans can be read."""
        compacting: dict[FileGroupId, InstantTime] = {}
        for instant in self.timeline.where({Action.COMPACTION}, State.REQUESTED, State.INFLIGHT):
            try:
                plan = self.log.plan(instant, CompactionPlan.from_record)
            except CorruptFileError:
                continue
            compacting |= dict.fromkeys(plan.groups, instant.time)
        return PendingPlans(compacting)

    @cached_property
    def data_files(self) -> Mapping[str, tuple[FileInfo, DataFileName]]:
        """Every data file on the store, by path."""
        return {
            info.path: (info, name)
            for infos in self.files.values()
            for info in infos
            if (name := parse_data_file(info.name)) is not None
        }

    def view(self, pending: PendingPlans | None = None) -> TableView:
        """The file slices, without regard to replacements.  Raises CorruptFileError where logs
        need completion times from a torn archive."""
        return build_view(
            ((p, info) for p, infos in self.files.items() for info in infos),
            self.visibility,
            layout=self.log.layout,
            pending=pending,
            completions=completion_times(self.log, self.timeline),
            archived=lambda: self.archive.completions,
        )

    def state(self) -> TableState:
        """The table for readers that list the store."""
        return TableState(
            fs=self.fs,
            config=self.config,
            log=self.log,
            timeline=self.timeline,
            listing=FixedListing(self.files),
            metadata=None,
            archive=self.archive,
            merging=ReadOptions().merging,
        )


class FixedListing:
    """A listing in memory: files by partition."""

    def __init__(self, files: Mapping[str, Sequence[FileInfo]]) -> None:
        self._files = files

    def partitions(self) -> list[str]:
        return sorted(self._files)

    def files(self, partitions: Iterable[str]) -> dict[str, list[FileInfo]]:
        return {partition: list(self._files.get(partition, ())) for partition in partitions}


def _inventory(
    fs: FileSystem, log: TimelineLog, timeline: Timeline
) -> tuple[dict[str, list[FileInfo]], frozenset[str]]:
    """Files by partition: of folders with a metafile, and of those that commits name."""
    store = StoreListing(fs)
    marked = store.partitions()
    named = set()
    for instant in timeline.commits:
        try:
            named |= {stat.partition for stat in log.commit(instant).stats}
        except (CorruptFileError, FileMissingError):
            continue
    unmarked = {p for p in named - set(marked) if _has_data(fs, p)}
    return store.files([*marked, *sorted(unmarked)]), frozenset(unmarked)


def _has_data(fs: FileSystem, partition: str) -> bool:
    try:
        return any(parse_data_file(info.name) for info in fs.children(partition))
    except PyhudiError:  # no partition can have this name; check_paths reports it
        return False

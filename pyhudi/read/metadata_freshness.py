"""Whether the metadata table can be believed, and what to do where it cannot.

Every completed data instant has a delta commit of its own in the metadata table, completed
before; a metadata table made later, of a table without pending writes, begins at an instant that
starts with the digits of the data instant completed last.  Where the newest data commit has
neither, somebody wrote without keeping the metadata table, and its answers may lack files: the
store is listed instead.  Source: table_format 9.9.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.metadata.reader import MetadataTable, open_metadata
from pyhudi.metadata.visible_instants import is_init
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.table.listing import Listing, StoreListing
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_LOG = logging.getLogger("pyhudi")


def trusted_metadata(
    fs: FileSystem, config: TableConfig, log: TimelineLog, timeline: Timeline
) -> MetadataTable | None:
    """The metadata table, if there is one and it has kept up with the table."""
    metadata = open_metadata(fs, config, log, timeline)
    if metadata is None or log.layout != 1 or _has_kept_up(metadata, timeline):
        return metadata
    _LOG.warning("the metadata table of %s lacks the newest commit and is not used", fs.url)
    return None


def _has_kept_up(metadata: MetadataTable, timeline: Timeline) -> bool:
    newest = timeline.commits.last
    if newest is None:
        return True
    return any(
        instant.time.startswith(newest.time)
        or (is_init(instant.time) and instant.time > newest.time)
        for instant in reversed(metadata.timeline.commits.instants)
    )


class TrustedListing:
    """Listing by the metadata table; by the store from the moment that proves unreadable."""

    def __init__(self, fs: FileSystem, metadata: MetadataTable) -> None:
        self._store = StoreListing(fs)
        self._metadata: MetadataTable | None = metadata
        self._url = fs.url
        self._known: Listing | None = None

    def partitions(self) -> list[str]:
        try:
            return self._listing().partitions()
        except (CorruptFileError, FileMissingError) as broken:
            return self._give_up(broken).partitions()

    def files(self, partitions: Iterable[str]) -> dict[str, list[FileInfo]]:
        wanted = list(partitions)
        try:
            return self._listing().files(wanted)
        except (CorruptFileError, FileMissingError) as broken:
            return self._give_up(broken).files(wanted)

    def _listing(self) -> Listing:
        if self._known is None:
            self._known = self._store if self._metadata is None else self._metadata.listing()
        return self._known

    def _give_up(self, broken: CorruptFileError | FileMissingError) -> Listing:
        if self._metadata is None:
            raise broken
        _LOG.warning("listing %s itself: its metadata table fails: %s", self._url, broken)
        self._metadata = None
        self._known = self._store
        return self._store

"""Trust check of the metadata table, with fallback to a listing of the store.

Each completed data instant has a delta commit in the metadata table, which completes first.  A
metadata table that is created later, for a table without pending writes, begins at an instant that
starts with the digits of the data instant completed last.  If the newest data commit has neither,
another process wrote without updating the metadata table, and its listing may lack files: the
store is listed instead.  Source: table_format 9.9.
"""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Final

from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.metadata.reader import MetadataTable, open_metadata
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.table.listing import Listing
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_LOG = logging.getLogger("pyhudi")
_DIGITS: Final = 17  # of a data table's instant


def trusted_metadata(
    fs: FileSystem, config: TableConfig, log: TimelineLog, timeline: Timeline
) -> MetadataTable | None:
    """The metadata table, if there is one and it is up to date with the table."""
    metadata = open_metadata(fs, config, log, timeline)
    if metadata is None or metadata.is_up_to_date:
        return metadata
    _LOG.warning("the metadata table of %s lacks a commit and is not used", fs.url)
    return None


def is_ahead(metadata: MetadataTable, timeline: Timeline) -> bool:
    """Whether the metadata table may reflect instants that began after `timeline` was listed.

    It is listed after that timeline.  What later cleans, rollbacks and restores have removed
    is missing in it, also from a snapshot that still needs it.
    """
    own, data = metadata.timeline.newest_time, timeline.newest_time
    return own is not None and (data is None or own[:_DIGITS] > data[:_DIGITS])


class TrustedListing:
    """Listing from the metadata table; from `store` once the metadata table is unreadable."""

    def __init__(self, fs: FileSystem, metadata: MetadataTable, store: Listing) -> None:
        self._store = store
        self._metadata: MetadataTable | None = metadata
        self._url = fs.url
        self._known: Listing | None = None

    def partitions(self) -> list[str]:
        try:
            return self._listing().partitions()
        except (CorruptFileError, FileMissingError) as broken:
            return self._fall_back(broken).partitions()

    def files(self, partitions: Iterable[str]) -> dict[str, list[FileInfo]]:
        requested = list(partitions)
        try:
            return self._listing().files(requested)
        except (CorruptFileError, FileMissingError) as broken:
            return self._fall_back(broken).files(requested)

    def _listing(self) -> Listing:
        if self._known is None:
            self._known = self._store if self._metadata is None else self._metadata.listing()
        return self._known

    def _fall_back(self, broken: CorruptFileError | FileMissingError) -> Listing:
        if self._metadata is None:
            raise broken
        _LOG.warning(
            "listing the store of %s: its metadata table cannot be read: %s", self._url, broken
        )
        self._metadata = None
        self._known = self._store
        return self._store

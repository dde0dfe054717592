"""Construction of a table's timeline log and its folder."""

from __future__ import annotations

from functools import partial

from pyhudi.filenames import HOODIE
from pyhudi.layouts.table_layout import TableLayout
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.commit_metadata import CommitMetadata
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.instant_files import TimelineLog


def timeline_log(fs: FileSystem, config: TableConfig) -> TimelineLog:
    """The timeline of the table at `fs`, with its layout and time zone.  It can be pickled."""
    archived, zone = partial(_archived_commit, fs, config), zone_of(config.timezone)
    return TimelineLog(fs, layout=config.layout, zone=zone, archived=archived)


def _archived_commit(
    fs: FileSystem, config: TableConfig, instant: Instant
) -> CommitMetadata | None:
    archive = Archive(fs, layout=config.layout, folder=config.archive_folder)
    found = archive.metadata_of((instant,)).get(instant.time)
    return None if found == CommitMetadata() else found  # archived without its content


def create_timeline_folder(fs: FileSystem, layout: TableLayout) -> None:
    """Create the timeline's folder if it has one of its own; nothing on stores without folders.

    Apache Hudi fails if the timeline folder does not exist, also before the first write.
    """
    if layout.timeline_folder != HOODIE:
        first = f"{layout.timeline_folder}/.created"
        fs.replace(first, b"")
        fs.delete([first])

"""Construction of a table's timeline log."""

from __future__ import annotations

from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.clock import zone_of
from pyhudi.timeline.instant_files import TimelineLog


def timeline_log(fs: FileSystem, config: TableConfig) -> TimelineLog:
    """The timeline of the table at `fs`, with its layout and time zone."""
    return TimelineLog(fs, layout=config.layout, zone=zone_of(config.timezone))

"""Leftovers of finished writes and crashed readers, which nothing needs: found and deleted.

Markers and heartbeats of instants that are over, pins of readers that are no longer alive, and the
rest of an interrupted rebuild of the metadata table while the old one is in use.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from pyhudi.filenames import HEARTBEATS, TEMP
from pyhudi.metadata.rebuild import REBUILT, is_swap_pending
from pyhudi.options import Heartbeats
from pyhudi.services.snapshot_pins import PinnedSnapshot, pinned_snapshots
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.table.properties import TableConfig
from pyhudi.timeline.timeline import Timeline


def leftover_paths(fs: FileSystem, config: TableConfig, timeline: Timeline) -> list[str]:
    """All leftovers: files, and folders that are deleted with their content."""
    paths = [info.path for info in leftover_marks(fs, timeline)]
    paths += [pin.path for pin in abandoned_pins(fs)]
    if is_swap_pending(fs) and config.metadata_partitions:
        paths.append(REBUILT)
    return paths


def leftover_marks(fs: FileSystem, timeline: Timeline) -> Iterator[FileInfo]:
    """Markers and heartbeats of instants that are over.  The markers of a rolled-back write are
    none: later writers use them to find late files, then delete them."""
    last = timeline.last
    if last is None:
        return
    running = timeline.pending.times
    for folder, needed in ((TEMP, running | timeline.rolled_back), (HEARTBEATS, running)):
        for info in fs.children(folder):
            if info.name.isdecimal() and info.name <= last.time and info.name not in needed:
                yield info


def abandoned_pins(fs: FileSystem) -> Iterator[PinnedSnapshot]:
    """Pins of readers that are no longer alive."""
    return (pin for pin in pinned_snapshots(fs, Heartbeats()) if not pin.is_alive)


def delete_leftovers(fs: FileSystem, paths: Iterable[str]) -> None:
    """Delete files, or folders with their content."""
    for path in paths:
        if fs.children(path):
            fs.delete_folder(path)
        else:
            fs.delete([path])

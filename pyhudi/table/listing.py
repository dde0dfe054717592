"""Partitions and files of a table, listed from the store.

A partition is a folder with `.hoodie_partition_metadata`.  Partitions may be nested (`a`
and `a/b`, where partition values are not URL-encoded); other tables below this one are skipped.
The metadata table provides the same lists without listing folders (pyhudi.metadata.reader).
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final, Protocol

from pyhudi.errors import FileMissingError
from pyhudi.filenames import HOODIE, PARTITION_METAFILE, join
from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.timeline.instant import Action
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_REMOVALS: Final = (Action.CLEAN, Action.ROLLBACK, Action.RESTORE)


class Listing(Protocol):
    """Partition paths and their files."""

    def partitions(self) -> list[str]:
        """Sorted partition paths; `""` for a non-partitioned table."""
        ...

    def files(self, partitions: Iterable[str]) -> dict[str, list[FileInfo]]:
        """Data and log files per partition; paths from the table's root."""
        ...


class StoreListing:
    """Listing by walking the table's folders."""

    def __init__(self, fs: FileSystem) -> None:
        self._fs = fs

    def partitions(self) -> list[str]:
        found: list[str] = []
        todo = [""]
        while todo:
            folder = todo.pop()
            entries = self._fs.children(folder)
            folders = [e for e in entries if e.is_folder]
            if folder and any(e.name == HOODIE for e in folders):
                continue  # another table
            if any(e.name.startswith(PARTITION_METAFILE) for e in entries if not e.is_folder):
                found.append(folder)
            todo += [e.path for e in folders if e.name != HOODIE]
        return sorted(found)

    def files(self, partitions: Iterable[str]) -> dict[str, list[FileInfo]]:
        return {
            partition: [e for e in self._fs.children(partition) if not e.is_folder]
            for partition in partitions
        }


def partition_metafile(instant: InstantTime, partition: str) -> bytes:
    """Content of a partition's metafile: the instant that created it, and its depth."""
    depth = len(partition.split("/")) if partition else 0
    return (
        f"#partition metadata\n#pyhudi\ncommitTime={instant}\npartitionDepth={depth}\n"
    ).encode()


def ensure_partition(
    fs: FileSystem, partition: str, instant: InstantTime, *, durable: bool = True
) -> str | None:
    """Create the partition's metafile unless it exists; called before its first data file.

    A metafile without bytes, of a writer that ended by a power loss, is written again.  Returns
    its path if it is new.  durable: False if the caller syncs it.
    """
    path, content = join(partition, PARTITION_METAFILE), partition_metafile(instant, partition)
    try:
        if not fs.size(path):
            fs.replace(path, content)
        return None
    except FileMissingError:
        return path if fs.create(path, content, durable=durable) else None


class VerifiedListing:
    """Listing of the store in which no file of the snapshot of `timeline` is missing.

    A reader holds no lock.  Between its listing of the timeline and its listings of the partitions,
    files of the snapshot may be deleted by a clean, a rollback or a restore; a listing without them
    looks like a table without their rows.  So the timeline is listed again afterwards.
    Cost: one listing of the timeline in addition to those of the partitions.
    """

    def __init__(self, fs: FileSystem, log: TimelineLog, timeline: Timeline) -> None:
        self._store = StoreListing(fs)
        self._log = log
        self._timeline = timeline

    def partitions(self) -> list[str]:
        return self._store.partitions()

    def files(self, partitions: Iterable[str]) -> dict[str, list[FileInfo]]:
        """Raises FileMissingError, which makes a reader load the newer state, if files may have
        been deleted since the timeline was listed."""
        found = self._store.files(partitions)
        if may_lack_files(self._timeline, self._log.load()):
            raise FileMissingError(
                "files of the snapshot may have been deleted while they were listed",
                path=self._log.path(self._timeline.instants[-1]),
                hint="read again",
            )
        return found


def may_lack_files(before: Timeline, now: Timeline) -> bool:
    """Whether files of the snapshot at `before` may have been deleted until `now`.

    A clean, rollback or restore has begun or ended since, or a commit has left the timeline.
    Removals that were already running delete only files that the snapshot does not need.
    """
    if before == now:
        return False
    removals = frozenset(now.where(_REMOVALS)) - frozenset(before.where(_REMOVALS))
    return bool(removals) or not before.commits.times <= now.commits.times

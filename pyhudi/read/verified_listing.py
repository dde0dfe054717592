"""Listing of the store that belongs to a timeline loaded before it.

A reader holds no lock.  Between its listing of the timeline and its listings of the partitions,
files of the snapshot may be deleted by a clean, a rollback or a restore; a listing without them
looks like a table without their rows.  So the timeline is listed again afterwards.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from pyhudi.errors import FileMissingError
from pyhudi.storage.filesystem import FileInfo, FileSystem
from pyhudi.table.listing import StoreListing
from pyhudi.timeline.instant import Action
from pyhudi.timeline.instant_files import TimelineLog
from pyhudi.timeline.timeline import Timeline

_REMOVALS: Final = (Action.CLEAN, Action.ROLLBACK, Action.RESTORE)


class VerifiedListing:
    """Listing of the store in which no file of the snapshot of `timeline` is missing.

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

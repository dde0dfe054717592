"""The files of the active timeline by instant, and their removal after archival."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

from pyhudi.records import InstantTime
from pyhudi.storage.filesystem import FileInfo
from pyhudi.timeline.instant import COMPLETES_AS, Action, Instant, State, parse_instant_name
from pyhudi.timeline.instant_files import TimelineLog


def state_files(
    log: TimelineLog,
) -> dict[tuple[InstantTime, Action], list[tuple[FileInfo, Instant]]]:
    """Every file of the active timeline, by instant and the action it completes as, in order
    of states.  One listing."""
    found: dict[tuple[InstantTime, Action], list[tuple[FileInfo, Instant]]] = {}
    for info in log.fs.children(log.folder):
        instant = None if info.is_folder else parse_instant_name(info.name)
        if instant is not None:
            key = (instant.time, COMPLETES_AS[instant.action])
            found.setdefault(key, []).append((info, instant))
    return {key: sorted(files, key=lambda f: f[1].state) for key, files in found.items()}


def remove_archived(log: TimelineLog, instants: Collection[Instant]) -> None:
    """Remove archived instants from the active timeline, in the given order.

    Requested files go first, then inflight files: a plan without a request is one that archival
    removes, also if it was rolled back before it ran again.  Completed files are deleted one at a
    time, oldest first: the rest of the timeline never has a gap, which readers would treat as an
    instant that never completed.
    """
    files = state_files(log)
    keys = [(i.time, COMPLETES_AS[i.action]) for i in instants]
    for pending in (State.REQUESTED, State.INFLIGHT):
        log.fs.delete(
            info.path for key in keys for info, at in files.get(key, ()) if at.state is pending
        )
    for instant in instants:
        log.fs.delete([log.path(replace(instant, state=State.COMPLETED))])

"""Conflict check: did somebody else change what this write builds on.  Source: table_format 6.4."""

from __future__ import annotations

from dataclasses import dataclass

from pyhudi.records import FileGroupId
from pyhudi.timeline.instant import Instant
from pyhudi.timeline.log import TimelineLog
from pyhudi.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Conflict:
    """Another commit, and the file groups both changed."""

    instant: Instant
    groups: tuple[FileGroupId, ...]


def conflicting_instant(
    log: TimelineLog,
    *,
    before: Timeline,
    now: Timeline,
    mine: Instant,
    groups: frozenset[FileGroupId],
) -> Conflict | None:
    """The first commit completed since `before` that shares a file group with this write."""
    known = set(before.commits)
    for other in now.commits:
        if other in known or other.time == mine.time:
            continue
        shared = log.commit(other).groups & groups
        if shared:
            return Conflict(other, tuple(sorted(shared)))
    return None

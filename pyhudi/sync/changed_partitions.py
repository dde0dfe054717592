"""Which partitions a sync has to look at, from the timeline."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime

from pyhudi.read.table_snapshot import TableState
from pyhudi.timeline.clock import format_instant
from pyhudi.timeline.instant import COMMITS, Action, Instant
from pyhudi.timeline.timeline import Timeline


@dataclass(frozen=True, slots=True)
class Watermark:
    """How far a catalog has been synced.  completed_at: None where the store does not say."""

    time: str
    completed_at: str | None = None


def changed_since(state: TableState, synced: Watermark | None) -> frozenset[str] | None:
    """Partitions that commits after `synced` wrote or replaced; None: any may have changed.

    That is so if the instant is no longer on the active timeline: it was archived, rolled back or
    restored, or the table was created again.
    """
    commits = state.timeline.commits
    if synced is None or synced.time not in commits.times:
        return None
    found: set[str] = set()
    for instant in commits:
        if _is_newer(instant, synced):
            commit = state.log.commit(instant)
            found |= {group.partition for group in commit.groups | commit.replaced_groups}
    return frozenset(found)


def _is_newer(instant: Instant, synced: Watermark) -> bool:
    if instant.completed_at is not None and synced.completed_at is not None:
        return instant.completed_at > synced.completed_at
    return instant.time > synced.time


def newest_watermark(state: TableState) -> Watermark | None:
    """How far a sync of this state brings the catalog; None for a table without commits.

    Without completion times (layout 1), commits after the first pending write do not count: that
    write completes with an instant before theirs.
    """
    commits = state.timeline.commits
    if state.log.layout.has_completion_times:
        completions = [i.completed_at for i in commits if i.completed_at is not None]
        last = commits.last
        return Watermark(last.time, max(completions, default=None)) if last else None
    first = min((i.time for i in _pending_writes(state)), default=None)
    done = [i for i in commits if first is None or i.time < first]
    return Watermark(done[-1].time, _stored_at(state, done)) if done else None


def _pending_writes(state: TableState) -> Iterator[Instant]:
    """Pending instants that may add partitions: table services do not."""
    pending: Timeline = state.timeline.pending
    for instant in pending.where(COMMITS):
        if instant.action is Action.REPLACE_COMMIT and state.log.is_clustering(instant):
            continue
        yield instant


def _stored_at(state: TableState, commits: list[Instant]) -> str | None:
    """When the newest of the commits was stored, which Apache Hudi 1.x takes as its completion."""
    folder = state.log.path(commits[-1]).rpartition("/")[0]
    names = {state.log.path(i).rpartition("/")[2] for i in commits}
    times = [f.modified for f in state.fs.children(folder) if f.name in names and f.modified]
    if not times:
        return None
    return format_instant(datetime.fromtimestamp(max(times), UTC), state.zone)

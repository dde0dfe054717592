"""Positions of readers of changes, and the moments of a table that they name.

```
instant T    names an action: when it began        versions 8, 9: began T1 ------ C1
position C   where readers go on: when it completed                      T2 -- C2
```

Writes that overlap complete in another order than they began.  A reader that has read up to the
position C2 has not read T1, although T1 is the smaller instant.  Tables of version 6 record no
completion times; their positions are instants, and a pending write completes before them.

A moment of a table of version 6 is therefore an instant and the writes that were pending then.
"""

from __future__ import annotations

import json
import re
from dataclasses import replace
from typing import Any, Final

from pyhudi.errors import FileMissingError, UserError
from pyhudi.filenames import HOLDS
from pyhudi.read.table_snapshot import TableState
from pyhudi.read.time_travel import PointInTime, as_bound, as_instant
from pyhudi.records import BEFORE_ALL_COMMITS, InstantTime, Position
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.instant import COMMITS, Instant, State, parse_instant_name
from pyhudi.timeline.timeline import Timeline

_PIN: Final = re.compile(r"([0-9]{14,20})-([0-9a-f]{16})")


class SnapshotInstant(str):
    """The newest commit of a snapshot, and the writes that were pending when it was taken.

    As `as_of` it is that snapshot for ever: writes that were pending are left out when they have
    completed since.  As text it is the instant of the commit alone.
    """

    __slots__ = ("pending",)
    pending: tuple[Instant, ...]

    def __new__(cls, instant: str, pending: tuple[Instant, ...] = ()) -> SnapshotInstant:
        made = super().__new__(cls, instant)
        made.pending = pending
        return made

    def __reduce__(self) -> tuple[Any, ...]:
        return SnapshotInstant, (str(self), self.pending)


def snapshot_now(state: TableState) -> SnapshotInstant | None:
    """The current snapshot; None if the table has no commit."""
    if not state.timeline.commits:
        return None
    last = state.timeline.commits.last
    if state.log.layout.has_completion_times:
        last = max(state.timeline.commits, key=lambda i: i.position)
    assert last is not None
    return SnapshotInstant(last.time, pending_before(state.timeline, last.time))


def pending_before(timeline: Timeline, instant: InstantTime) -> tuple[Instant, ...]:
    """What is pending of what began up to an instant."""
    return timeline.pending.up_to(instant).instants


def moment_at(state: TableState, as_of: PointInTime) -> tuple[TableState, InstantTime | None]:
    """The table as of a point in time, and the limit for `view`.

    as_of: a point in time, a position, an instant (the moment when it completed), a
    `SnapshotInstant`, or the name of a pin.  Raises UserError for a pin that has been released.
    """
    if isinstance(as_of, str):
        pin = _PIN.fullmatch(as_of.strip())
        if pin is not None:
            pending = pinned_pending(state.fs, as_of.strip())
            as_of = SnapshotInstant(pin[1], pending)
    if state.log.layout.has_completion_times:
        return state.until(as_position(state, as_of, is_moment=True))
    if isinstance(as_of, SnapshotInstant) and as_of.pending:
        state = replace(state, timeline=state.timeline.as_when_pending(as_of.pending))
    return state, as_instant(as_of, state.zone)


def pinned_pending(fs: FileSystem, name: str) -> tuple[Instant, ...]:
    """The instants that were pending when a pin was created.  Raises UserError without it."""
    try:
        facts = json.loads(fs.read(f"{HOLDS}/{name}"))
    except (FileMissingError, ValueError):
        raise UserError(
            "the snapshot is not pinned any more",
            as_of=name,
            hint="read while the pin exists: table.pinned_snapshots() lists them",
        ) from None
    return pending_of(facts)


def pending_of(facts: Any) -> tuple[Instant, ...]:
    """The pending instants in the content of a pin."""
    named = facts.get("pending") if isinstance(facts, dict) else None
    found = map(parse_instant_name, map(str, named or ()))
    return tuple(instant for instant in found if instant is not None)


def as_position(state: TableState, point: PointInTime, *, is_moment: bool = False) -> Position:
    """The position that a point in time means: that of the instant with this time if there is one,
    archived ones included, otherwise the moment itself.

    is_moment: digits must be a time.  Raises UserError for text in another format.
    """
    text = (as_instant if is_moment else as_bound)(point, state.zone)
    if not isinstance(point, str) or not state.log.layout.has_completion_times:
        return Position(text)
    done = [i for i in state.timeline.where(None, State.COMPLETED) if i.time == text]
    if any(i.completed_at == text for i in state.timeline):
        return Position(text)
    if done:
        return next((i for i in done if i.action in COMMITS), done[0]).position
    if not state.timeline.commits or text > max(state.timeline.times):
        return Position(text)
    return Position(state.archive.completions.get(text, text))


def current_position(state: TableState) -> Position:
    """The position after the commits of this state.

    Readers that go on there miss no commit: none that has completed is after it, and nothing that
    is pending completes before it.  In tables of version 6 it is before the oldest pending write,
    so that later commits are read again.
    """
    if state.log.layout.has_completion_times:
        return state.commits[-1].position if state.commits else BEFORE_ALL_COMMITS
    commits = state.timeline.commits
    pending = _first_pending(state)
    if pending is None:
        return commits.last.position if commits.last else BEFORE_ALL_COMMITS
    before = [i for i in commits if i.time < pending.time]
    if not before and state.archive.has_commits:
        before = [i for i in state.archive.commit_instants if i.time < pending.time]
    return before[-1].position if before else BEFORE_ALL_COMMITS


def _first_pending(state: TableState) -> Instant | None:
    """The oldest pending write that adds rows when it completes."""
    for instant in state.timeline.where(COMMITS, State.REQUESTED, State.INFLIGHT):
        if not state.log.is_clustering(instant):
            return instant
    return None

"""What a history must satisfy, from the diaries and the table's own timeline.

acknowledged    each acknowledged write is on the timeline, once, at the instant that was reported,
                unless a rollback or restore has undone it
reports         each acknowledged write has inserted, updated, deleted and missed as many records
                as its place in the order of completion says
no lost update  each key holds what the latest write that touched it left, deletes key by key
snapshots       a read shows the table after some number of completed writes: all that were
                acknowledged before it began, none that began after it ended
readers' errors a snapshot may expire only where it was overtaken by as many commits as cleaning
                retains, or by a rollback or restore
time travel     as of any instant the table is what the writes that had completed with it make
incremental     the changes between two instants are the keys whose writes lie between
index           the record index and the rows agree, both ways
"""

from __future__ import annotations

import random
from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import takewhile
from typing import Any, Final

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import SnapshotExpiredError
from pyhudi.storage.filesystem import FileSystem
from pyhudi.timeline.archive import Archive
from tests.history.events import (
    Counts,
    Event,
    History,
    Rows,
    Undo,
    Write,
    events_of,
    rows_of,
    surviving,
)
from tests.history.ops import PARTS, RETAINED, options_of
from tests.support.inside import state_of

_LATE_SECONDS: Final = 5.0
"""An unacknowledged commit counts as visible this long after its file's time."""

_CLOCK_SECONDS: Final = 0.05
"""File times may lag behind the clock that readers note by this much."""


@dataclass
class Verdict:
    """Problems found, and what was looked at."""

    problems: list[str] = field(default_factory=list)
    commits: int = 0
    undone: int = 0
    reads: int = 0
    expired: int = 0
    refused: int = 0
    conflicts: int = 0
    kills: int = 0

    def claim(self, holds: bool, problem: str) -> None:
        if not holds and len(self.problems) < 20:
            self.problems.append(problem)


def first_difference(stored: Rows, want: Rows) -> str | None:
    for key in sorted(stored.keys() | want.keys()):
        if stored.get(key) != want.get(key):
            return f"{key} is {stored.get(key)}, not {want.get(key)}"
    return None


def check(fs: FileSystem, lines: Iterable[dict[str, Any]], *, seed: int = 0) -> Verdict:
    """The verdict over a table that nobody works on any more."""
    lines, verdict = list(lines), Verdict()
    table = Table(fs, options=options_of(), engine=LocalEngine(1))
    begun = {line["op"]: line for line in lines if "kind" in line}
    history = History.of(events_of(lines, begun), PARTS)
    left = surviving(history.events)
    verdict.commits, verdict.undone = len(left), len(history.undone)
    _check_timeline(table, left, verdict)
    acked = {line["instant"]: line for line in lines if line.get("instant")}
    _check_answers(lines, history, left, verdict)
    _check_now(table, history.states[-1], verdict)
    for line in lines:
        if line.get("kind") == "read":
            verdict.reads += 1
            _check_read(line, history, acked, verdict)
    _check_past(table, left, random.Random(seed), verdict)
    return verdict


def _check_timeline(table: Table, left: list[Write], verdict: Verdict) -> None:
    """The timeline and the archive hold the writes that were seen and not undone, each once."""
    state = state_of(table)
    archive = Archive(state.fs, layout=state.config.layout, folder=state.config.archive_folder)
    found = {str(each.time): each.metadata.extra.get("_op") for each in archive.commits}
    found |= {str(i.time): state.log.commit(i).extra.get("_op") for i in state.timeline.commits}
    stored = {time: op for time, op in found.items() if op is not None}
    seen = {write.instant: write.op for write in left}
    verdict.claim(stored == seen, f"the timeline and what was seen differ in "
                  f"{sorted(stored.items() ^ seen.items())[:4]}")  # fmt: skip
    verdict.claim(len(set(stored.values())) == len(stored), "an operation has committed twice")


def _check_answers(
    lines: list[dict[str, Any]], history: History, left: list[Write], verdict: Verdict
) -> None:
    by_op = {write.op: write for write in left}
    for line in lines:
        verdict.refused += "refused" in line
        verdict.conflicts += line.get("conflicts") or 0
        if "refused" in line:
            verdict.claim(line["op"] not in by_op, f"refused, yet committed: {line}")
        if not line.get("instant"):
            continue
        mine = by_op.get(line["op"])
        undone = line["instant"] in history.undone
        verdict.claim(mine is not None or undone, f"acknowledged and lost: {line}")
        verdict.claim(mine is None or mine.instant == line["instant"], f"moved: {line}")
        want = history.counts.get(line["instant"])
        reported = Counts(*(line[name] for name in ("inserted", "updated", "deleted", "missing")))
        verdict.claim(want in (None, reported), f"reported {reported}, not {want}: {line['op']}")


def _check_now(table: Table, want: Rows, verdict: Verdict) -> None:
    found = table.scan(["id", "op"]).to_arrow().to_pylist()
    stored = {row["id"]: row["op"] for row in found}
    verdict.claim(len(found) == len(stored), "a key is there twice")
    wrong = first_difference(stored, want)
    verdict.claim(wrong is None, f"now: {wrong}")
    checked = table.index.verify()
    verdict.claim(checked.is_exact, f"the record index: {checked}")


def _must_be_visible(event: Event, began: float, acked: dict[str, dict[str, Any]]) -> bool:
    if isinstance(event, Write) and event.instant in acked:
        return bool(acked[event.instant]["at"] <= began)
    return event.end + _LATE_SECONDS <= began


def _check_read(
    line: dict[str, Any], history: History, acked: dict[str, dict[str, Any]], verdict: Verdict
) -> None:
    """The rows of a read are those after some number of events that its time allows."""
    began, ended = line["began"], line["at"]
    events = history.events
    least = max(
        (n + 1 for n, e in enumerate(events) if _must_be_visible(e, began, acked)), default=0
    )
    most = len(list(takewhile(lambda e: e.start <= ended + _CLOCK_SECONDS, events)))
    met = events[least:most]
    if "error" in line:
        verdict.expired += 1
        overtaken = len(met) >= RETAINED or any(isinstance(event, Undo) for event in met)
        allowed = line["error"] == "SnapshotExpiredError" and overtaken
        verdict.claim(allowed, f"a read failed with {len(met)} events beside it: {line}")
        return
    rows: Rows = line["rows"]
    verdict.claim(line["count"] == len(rows), f"a read saw a key twice: {line['op']}")
    candidates = history.states[least : max(most, least) + 1]
    wrong = [first_difference(rows, state) for state in candidates]
    verdict.claim(None in wrong, f"{line['op']}: no state of {len(wrong)} is what it read: {wrong}")


def _check_past(table: Table, writes: list[Write], dice: random.Random, verdict: Verdict) -> None:
    """Time travel and changes at some instants whose files are still there."""
    completed = _completions(table)
    times = {write.op: completed.get(write.instant, write.instant) for write in writes}
    late = sorted(writes, key=lambda write: write.instant)[-12:]
    for write in dice.sample(late, min(4, len(late))):
        try:
            found = table.scan(["id", "op"], as_of=write.instant).to_arrow().to_pylist()
        except SnapshotExpiredError:
            continue
        stored = {row["id"]: row["op"] for row in found}
        until = times[write.op]
        then = rows_of((other for other in writes if times[other.op] <= until), PARTS)
        wrong = first_difference(stored, then)
        verdict.claim(wrong is None, f"as of {write.instant}: {wrong}")
    if len(late) < 3:
        return
    since, until = sorted(times[w.op] for w in dice.sample(late, 2))
    new = {op for op, time in times.items() if since < time <= until}
    then = rows_of((write for write in writes if times[write.op] <= until), PARTS)
    want = {key: op for key, op in then.items() if op in new}
    try:
        rows = table.changes(since, until, columns=["id", "op"]).to_arrow().to_pylist()
    except SnapshotExpiredError:
        return
    stored = {row["id"]: row["op"] for row in rows}
    wrong = first_difference(stored, want)
    verdict.claim(wrong is None and len(rows) == len(stored), f"changes {since}..{until}: {wrong}")


def _completions(table: Table) -> dict[str, str]:
    """Completion times of commits, where the table records them: the range of incremental reads."""
    state = state_of(table)
    active = {str(i.time): str(i.completed_at or i.time) for i in state.timeline.commits}
    return {**{str(t): str(at) for t, at in state.archive.completions.items()}, **active}

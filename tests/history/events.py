"""What happened to a table, in the order in which it took effect.

A commit takes effect when its completed file appears, a rollback or restore of completed commits
while it runs.  Instants do not tell that order (a slow writer completes an early instant late), the
times of the files do: all of them are written under the table's lock.  Archival and rollbacks
remove the files, so every writer looks at the timeline before and after each operation.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from typing import Any

from pyhudi.api.table import Table
from pyhudi.errors import FileMissingError
from pyhudi.timeline.instant import COMMITS, Action, Instant, State, file_name
from tests.support.inside import state_of

_UNDO = frozenset({Action.ROLLBACK, Action.RESTORE})

Rows = dict[str, str]
"""Record key -> the operation that wrote the row."""


def part_of(key: str, parts: int) -> str:
    return f"p{int(key[1:]) % parts}"


class Watch:
    """New completed instants at each call of `look`, as lines of a diary."""

    def __init__(self) -> None:
        self._seen: set[str] = set()

    def look(self, table: Table) -> Iterator[dict[str, Any]]:
        state = state_of(table)
        times = {info.name: info.modified for info in state.fs.children(state.log.folder)}
        timeline = state.log.load()
        for instant in timeline.where(COMMITS | _UNDO, State.COMPLETED):
            name = file_name(instant)
            if name in self._seen or times.get(name) is None:
                continue
            with suppress(FileMissingError):  # undone or archived since; another has seen it
                yield {**_facts(table, instant), "seen": instant.time, "end": times[name],
                       "start": _start(instant, times)}  # fmt: skip
                self._seen.add(name)


def _start(instant: Instant, times: dict[str, float | None]) -> float | None:
    """When readers may begin to see it: its inflight file's time, of a rollback or restore."""
    name = file_name(replace(instant, state=State.INFLIGHT))
    return times[file_name(instant)] if instant.action in COMMITS else times.get(name)


def _facts(table: Table, instant: Instant) -> dict[str, Any]:
    log = state_of(table).log
    if instant.action in _UNDO:
        return {"undoes": sorted(log.taken_back(instant))}
    metadata = log.commit(instant)
    return {"by": metadata.extra.get("_op"), "replaced": sorted(metadata.replaced or ())}


@dataclass(frozen=True, slots=True)
class Write:
    """A completed write.  parts: partitions whose rows it removed.  end: when it took effect."""

    instant: str
    op: str
    kind: str
    keys: tuple[str, ...]
    parts: tuple[str, ...]
    end: float

    @property
    def start(self) -> float:
        return self.end


@dataclass(frozen=True, slots=True)
class Undo:
    """A rollback or restore of completed writes, between two times."""

    instants: frozenset[str]
    start: float
    end: float


Event = Write | Undo


@dataclass(frozen=True, slots=True)
class Counts:
    """What a write must report."""

    inserted: int = 0
    updated: int = 0
    deleted: int = 0
    missing: int = 0


def apply(write: Write, rows: Rows, parts: int, *, is_ordered: bool = False) -> tuple[Rows, Counts]:
    """(the rows after a write, what it must have reported); a delete removes the keys that are
    there, key by key, and an update changes those.  is_ordered: a row is replaced by that of an
    operation with a greater name only."""
    gone = {key for key in rows if write.parts and part_of(key, parts) in write.parts}
    after = {key: op for key, op in rows.items() if key not in gone} if gone else dict(rows)
    known = sum(key in after for key in write.keys)
    if write.kind == "update":
        after.update((key, write.op) for key in write.keys if key in after)
        return after, Counts(updated=known)
    if write.kind == "delete":
        for key in write.keys:
            after.pop(key, None)
        return after, Counts(deleted=known, missing=len(write.keys) - known)
    if write.kind in ("delete_partitions", "ttl"):
        return after, Counts(deleted=len(gone))
    for key in write.keys:
        after[key] = max(write.op, after.get(key, "")) if is_ordered else write.op
    return after, Counts(len(write.keys) - known, known, len(gone))


@dataclass(frozen=True, slots=True)
class History:
    """Events in the order of their effect, and the rows after each number of them."""

    events: tuple[Event, ...]
    states: tuple[Rows, ...]
    counts: dict[str, Counts]

    @classmethod
    def of(cls, events: Iterable[Event], parts: int) -> History:
        ordered = tuple(sorted(events, key=lambda event: event.end))
        states: list[Rows] = [{}]
        counts: dict[str, Counts] = {}
        for number, event in enumerate(ordered):
            if isinstance(event, Write):
                after, counts[event.instant] = apply(event, states[-1], parts)
            else:
                after = rows_of(surviving(ordered[: number + 1]), parts)
            states.append(after)
        return cls(ordered, tuple(states), counts)

    @property
    def undone(self) -> set[str]:
        return {time for e in self.events if isinstance(e, Undo) for time in e.instants}


def surviving(events: Iterable[Event]) -> list[Write]:
    """The writes that no later event has undone, in the order of their effect."""
    found: list[Write] = []
    for event in events:
        if isinstance(event, Write):
            found.append(event)
        else:
            found = [write for write in found if write.instant not in event.instants]
    return found


def rows_of(writes: Iterable[Write], parts: int, *, is_ordered: bool = False) -> Rows:
    """The rows that some writes make, one after the other."""
    rows: Rows = {}
    for write in writes:
        rows, _ = apply(write, rows, parts, is_ordered=is_ordered)
    return rows


def events_of(lines: Iterable[dict[str, Any]], begun: dict[str, dict[str, Any]]) -> Iterator[Event]:
    """Each event that a writer has seen, once."""
    known: set[tuple[str, bool]] = set()
    for line in lines:
        name = (line.get("seen", ""), "undoes" in line)
        if "seen" not in line or name in known:
            continue
        known.add(name)
        if "undoes" in line:
            start = line["end"] if line["start"] is None else line["start"]
            yield Undo(frozenset(line["undoes"]), start, line["end"])
        elif line["by"] is not None:
            requested = begun[line["by"]]
            parts = line["replaced"] if requested["kind"] == "ttl" else [requested["part"]]
            keys = tuple(f"k{key}" for key in requested["keys"])
            yield Write(line["seen"], line["by"], requested["kind"], keys,
                        tuple(p for p in parts if p), line["end"])  # fmt: skip

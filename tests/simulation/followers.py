"""Actors that read: snapshots, and the changes since they last looked."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import pyarrow.compute as pc

from pyhudi.api.table import Table
from pyhudi.errors import (
    HollowCommitError,
    IndexNotReadyError,
    LockError,
    PyhudiError,
    SnapshotExpiredError,
    StorageError,
    UserError,
)
from pyhudi.ingest.source import SourceLimits
from pyhudi.ingest.table_source import TableSource
from pyhudi.timeline.instant import Action
from tests.history.events import Rows, Undo, Write
from tests.simulation.actors import KEYS, PAUSES, Actor, part_of
from tests.simulation.checks import compare
from tests.simulation.scheduler import BrokenError

_COLUMNS = ["id", "op"]


class Reader(Actor):
    """Reads snapshots, now and pinned, with filters and by the index."""

    def step(self, fs: Any, verb: str) -> None:
        try:
            getattr(self, f"_{verb}")(fs)
        except PyhudiError as error:
            no_past = (UserError,) if verb in ("pinned", "travel") else ()
            unindexed = (IndexNotReadyError,) if verb == "lookup" else ()
            allowed = (StorageError, LockError, SnapshotExpiredError)
            self.answered(error, (*allowed, *no_past, *unindexed))

    def _read(self, fs: Any) -> None:
        since = len(self.observer.events)
        found = self.table(fs).scan(_COLUMNS).to_arrow().to_pylist()
        self.observer.check_read(found, since, f"{self.name}-{self.number}")

    def _filtered(self, fs: Any) -> None:
        """What one operation wrote, by statistics, filters and secondary indexes if there are."""
        since = len(self.observer.events)
        op = self.dice.choice(sorted(self.observer.ops) or ["none"])
        found = self.table(fs).scan(_COLUMNS, pc.field("op") == op).to_arrow().to_pylist()
        self.observer.check_read(
            found, since, f"{self.name}-{self.number}, op = {op}", lambda _, each: each == op
        )

    def _lookup(self, fs: Any) -> None:
        since = len(self.observer.events)
        keys = [f"k{n}" for n in sorted(self.dice.sample(range(KEYS), 6))]
        found = self.table(fs).fetch(keys, columns=_COLUMNS).to_pylist()
        self.observer.check_read(
            found, since, f"{self.name}-{self.number}, fetched {keys}", lambda key, _: key in keys
        )
        self.observer.sometimes["keys were looked up in an index"] += 1

    def _travel(self, fs: Any) -> None:
        """A snapshot of the past, at a write that began and ended after all before it."""
        events = list(self.observer.events)
        times = [e.instant for e in events if isinstance(e, Write)]
        table = self.table(fs)
        retained = {str(instant.time) for instant in table.timeline.commits}
        past = [
            n
            for n, time in enumerate(times)
            if time in retained and times[:n] == sorted(times[:n]) and max(times[: n + 1]) == time
        ]
        if len(times) < len(events) or not past:
            return
        number = self.dice.choice(past[:2] + past)
        op = self.dice.choice(("", *sorted(self.observer.ops)))
        where = pc.field("op") == op if op else None
        found = table.scan(_COLUMNS, where, as_of=times[number]).to_arrow().to_pylist()
        later = self.observer.events[number + 1 :]
        is_past = all(isinstance(e, Write) and e.instant > times[number] for e in later)
        if is_past and not any(isinstance(e, Undo) for e in self.observer.events):
            want = {k: v for k, v in self.observer.states[number + 1].items() if op in ("", v)}
            compare(found, want, f"{self.name}-{self.number}, as of {times[number]}")
            self.observer.sometimes["the past was read"] += 1

    def _pinned(self, fs: Any) -> None:
        observer, since = self.observer, len(self.observer.events)
        with self.table(fs).pin_snapshot() as pin:
            scan = self.table(fs).scan(_COLUMNS, as_of=pin.instant)
            first = {row["id"]: row["op"] for row in scan.to_arrow().to_pylist()}
            self.scheduler.pause(self.dice.choice(PAUSES))
            second = self.table(fs).scan(_COLUMNS, as_of=pin.instant).to_arrow().to_pylist()
        undoing = self.table(fs).timeline.pending.where({Action.ROLLBACK, Action.RESTORE})
        if not undoing and not any(isinstance(e, Undo) for e in observer.events[since:]):
            compare(second, first, f"a pinned snapshot at {pin.instant}")
            observer.sometimes["a pinned snapshot was read twice"] += 1


@dataclass
class Follower(Actor):
    """Follows the table: `changes`, a stream of them (`follow`), or all changes (`capture`).

    position: up to which it has seen all.  seen: rows of changes.  replica: what captured changes
    make, in their order; None after an undo, which they do not report.
    """

    position: str = "000"
    seen: set[tuple[str, str]] = field(default_factory=set)
    replica: Rows | None = field(default_factory=dict)
    undone: int = 0

    def step(self, fs: Any, verb: str) -> None:
        try:
            table = self.table(fs)
            until = table.position()
            if until > self.position:
                getattr(self, f"_{verb}")(table, until)
                self.observer.sometimes[f"changes were followed: {verb}"] += 1
        except PyhudiError as error:
            self.answered(error, (StorageError, SnapshotExpiredError, HollowCommitError))

    def _consume(self, table: Table, until: str) -> None:
        try:
            found = table.changes(self.position, until, columns=_COLUMNS).to_arrow().to_pylist()
        except SnapshotExpiredError:
            found = self._snapshot(table)
        self._advance(until, found)

    def _follow(self, table: Table, until: str) -> None:
        """One batch of the table as a source of a stream."""
        start = None if self.position == "000" else self.position
        source = TableSource(table, columns=_COLUMNS, start="earliest", max_commits=2)
        try:
            batch = source.read(start, SourceLimits(), table.schema)
            found = [] if batch is None else batch.rows.read_all().to_pylist()
        except SnapshotExpiredError:
            return self._advance(until, self._snapshot(table))
        if batch is not None:
            self._advance(batch.checkpoint, found)
        return None

    def _capture(self, table: Table, until: str) -> None:
        undone = sum(isinstance(e, Undo) for e in self.observer.events)
        if undone != self.undone:
            self.undone, self.replica = undone, None
        try:
            found = table.capture(self.position, until).to_pylist()
        except SnapshotExpiredError:
            self.observer.sometimes["changes had expired"] += 1
            self.position, self.replica = until, None
            return
        for change in found if self.replica is not None else ():
            before, after = change["before"], change["after"]
            if after is None:
                self.replica.pop(before["id"], None)
            else:
                self.replica[after["id"]] = after["op"]
        self._advance(until, [])

    def _snapshot(self, table: Table) -> list[dict[str, Any]]:
        self.observer.sometimes["changes had expired"] += 1
        return table.scan(_COLUMNS).to_arrow().to_pylist()

    def _advance(self, position: str, found: list[dict[str, Any]]) -> None:
        self.position = position
        self.seen |= {(row["id"], row["op"]) for row in found}

    def finish(self, fs: Any) -> None:
        verb, before = next(iter(self.verbs)), ""
        while before != self.position:
            before = self.position
            self.step(fs, verb)
        if verb == "capture":
            self._check_replica()
        else:
            self._check_seen()

    def _check_replica(self) -> None:
        if self.replica is not None:
            found = [{"id": key, "op": op} for key, op in self.replica.items()]
            compare(found, self.observer.states[-1], f"what {self.name} captured")
            self.observer.sometimes["captured changes made the table"] += 1

    def _check_seen(self) -> None:
        """Every row that is there now has been seen, unless a rollback or restore brought it."""
        events = self.observer.events
        undone = {time for e in events if isinstance(e, Undo) for time in e.instants}
        gone = [e for e in events if isinstance(e, Write) and e.instant in undone]
        unsure = {key for e in gone for key in e.keys}
        parts = {part for e in gone for part in e.parts}
        missed = {
            (key, op) for key, op in self.observer.states[-1].items()
            if key not in unsure and part_of(int(key[1:])) not in parts
        } - self.seen  # fmt: skip
        if missed:
            raise BrokenError(f"{self.name} has missed {sorted(missed)[:4]}")

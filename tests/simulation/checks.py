"""What must hold, seen by an observer whom no fault meets and during whose look nothing happens.

After every change of the timeline the rows are those that the completed writes make, in the order
in which they completed.  What was acknowledged is there, what was refused never comes, and nothing
that completed vanishes unless a rollback or restore says so.
"""

from __future__ import annotations

import random
import re
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from typing import Any, Final

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import CorruptFileError, FileMissingError
from pyhudi.filenames import HOODIE
from pyhudi.options import Options, parse_options
from pyhudi.timeline.archive import Archive
from pyhudi.timeline.instant import COMMITS, Action, State
from tests.history.events import Event, Rows, Undo, Write, apply, rows_of, surviving
from tests.simulation.scheduler import BrokenError, Scheduler

PARTS: Final = 3
SOMETIMES: Final = (
    "a completed commit was undone",
    "a late commit was found",
    "a pinned snapshot was read twice",
    "a restore while a snapshot was pinned",
    "a write was planned again",
    "an instant was rolled back twice",
    "changes had expired",
    "refused: another writer holds the table's lock",
    "refused: the table's lock was lost during the write",
    "refused: the table's lock was lost while publishing the commit",
)
"""What a long run must reach: otherwise it has not shown what it is there for."""
_UNDO: Final = frozenset({Action.ROLLBACK, Action.RESTORE})
_LISTED: Final = parse_options({"hoodie.metadata.enable": "false"})
_VERIFIED: Final = 0.15  # of the events
_UNDOES: Final = re.compile("rollback|restore")


@dataclass
class Op:
    """A write: what it wants, and what its caller was answered.

    instant: of an acknowledged write.  refused: an error that says that nothing was written.
    Neither: the outcome is unknown.  kind: one of those of `events.apply`.  parts: whose rows it
    removes.  source: how many events of a source it had consumed before and after, of an ingest.
    since: of a write of what its snapshot has, the number of the state when it began.
    """

    name: str
    kind: str
    keys: tuple[str, ...]
    parts: tuple[str, ...] = ()
    source: tuple[int, int] | None = None
    since: int | None = None
    instant: str | None = None
    refused: str = ""


@dataclass
class Observer:
    """fs: a file system of the table.  events: in the order in which they took effect.

    is_ordered: the table has an ordering column, the name of the operation.
    """

    scheduler: Scheduler
    fs: Any
    dice: random.Random
    is_ordered: bool = False
    ops: dict[str, Op] = field(default_factory=dict)
    events: list[Event] = field(default_factory=list)
    states: list[Rows] = field(default_factory=lambda: [{}])
    undo_pending: bool = False
    sometimes: Counter[str] = field(default_factory=Counter)
    problem: BrokenError | None = None
    is_on: bool = False
    _seen: set[tuple[str, bool]] = field(default_factory=set)
    _undone: set[str] = field(default_factory=set)

    @contextmanager
    def looking(self) -> Iterator[Table]:
        """The table as it is now; no other thread runs inside."""
        before, self.scheduler.is_quiet = self.scheduler.is_quiet, True
        try:
            yield Table(self.fs, options=Options(), engine=LocalEngine(1))
        finally:
            self.scheduler.is_quiet = before

    def changed(self, path: str) -> None:
        """Called after each change of the store."""
        folder, _, name = path.rpartition("/")
        if not self.is_on or self.problem or self.scheduler.is_quiet:
            return
        is_begun = name.endswith((".requested", ".inflight")) and not _UNDOES.search(name)
        on_timeline = folder.endswith((f"/{HOODIE}", f"/{HOODIE}/timeline"))
        if on_timeline and name[:1].isdigit() and not is_begun:
            try:
                self.look()
            except BrokenError as problem:
                self.problem = problem

    def look(self) -> None:
        """Take in what completed since the last look, and compare the rows."""
        with self.looking() as table:
            log = table._state().log
            timeline = log.load()
            self.sometimes["a late commit was found"] += bool(log.late)
            new = False
            for instant in timeline.where(COMMITS | _UNDO, State.COMPLETED):
                known = (str(instant.time), instant.action in _UNDO)
                if known not in self._seen:
                    self._seen.add(known)
                    new = self._add(table, instant) or new
            self.undo_pending = self._undoes(log, timeline)
            self._check_outcomes(timeline)
            if new and not self.undo_pending:
                self.check_rows(table)

    def _add(self, table: Table, instant: Any) -> bool:
        log, moment = table._state().log, float(len(self.events))
        if instant.action in _UNDO:
            gone = frozenset(str(time) for time in log.taken_back(instant))
            self.sometimes["an instant was rolled back twice"] += bool(gone & self._undone)
            self._undone |= gone
            if not gone & {write.instant for write in surviving(self.events)}:
                return False  # of pending writes only
            self.sometimes["a completed commit was undone"] += 1
            self.events.append(Undo(gone, moment, moment))
            self.states.append(rows_of(surviving(self.events), PARTS, is_ordered=self.is_ordered))
            return True
        name = log.commit(instant).extra.get("_op")
        if name is None:
            return True
        op = self.ops[name]
        if op.refused:
            raise BrokenError(f"{name} was refused ({op.refused}) and is there: {instant}")
        if any(isinstance(e, Write) and e.op == name for e in surviving(self.events)):
            raise BrokenError(f"{name} is there twice: {instant}")
        unseen = self._unseen(table, op)
        keys = tuple(key for key in op.keys if key not in unseen)
        write = Write(str(instant.time), name, op.kind, keys, op.parts, moment)
        self.events.append(write)
        rows, _ = apply(write, self.states[-1], PARTS, is_ordered=self.is_ordered)
        self.states.append(rows)
        return True

    def _unseen(self, table: Table, op: Op) -> set[str]:
        """Keys that were inserted while a write looked for rows to change, and that it did not
        find: its isolation is that of a snapshot."""
        if op.since is None:
            return set()
        now, states = self.states[-1], self.states[op.since :]
        fresh = {key for key in op.keys if key in now and any(key not in rows for rows in states)}
        if not fresh:
            return set()
        found = {row["id"]: row["op"] for row in table.scan(["id", "op"]).to_arrow().to_pylist()}
        return {key for key in fresh if found.get(key) == now[key]}

    def _undoes(self, log: Any, timeline: Any) -> bool:
        mine = {write.instant for write in surviving(self.events)}
        for instant in timeline.where(_UNDO):
            if instant.state is not State.COMPLETED:
                with suppress(CorruptFileError, FileMissingError):
                    if mine & {str(time) for time in log.taken_back(instant)}:
                        return True
        return False

    def _check_outcomes(self, timeline: Any) -> None:
        """What was refused is not there; what was acknowledged is."""
        self.left = {write.op: write.instant for write in surviving(self.events)}
        for name in self.left:
            if self.ops[name].refused:
                raise BrokenError(f"{name} was refused ({self.ops[name].refused}) and is there")

    def acknowledged(self, op: Op) -> None:
        """The caller of a write has been answered with an instant, just now."""
        if op.instant is not None and not any(
            isinstance(e, Write) and e.instant == op.instant and e.op == op.name
            for e in self.events
        ):
            raise BrokenError(f"{op.name} was acknowledged at {op.instant} and is not there")
        self.look()

    def check_rows(self, table: Table) -> None:
        """By the metadata table, and at times by listings; then the two are compared too."""
        found = table.scan(["id", "op"]).to_arrow().to_pylist()
        compare(found, self.states[-1], "the table")
        if self.dice.random() < _VERIFIED:
            listed = Table(self.fs, options=_LISTED, engine=LocalEngine(1))
            found = listed.scan(["id", "op"]).to_arrow().to_pylist()
            compare(found, self.states[-1], "the table without its metadata table")
            verified = table.metadata.verify()
            if not verified.is_healthy:
                raise BrokenError(f"the metadata table differs: {verified}")

    def check_timeline(self) -> None:
        """Timeline and archive hold each write that was not undone, once."""
        with self.looking() as table:
            state = table._state()
            archive = Archive(state.fs, layout=state.config.layout,
                              folder=state.config.archive_folder)  # fmt: skip
            found = [(e.metadata.extra.get("_op"), str(e.time)) for e in archive.commits]
            found += [(state.log.commit(i).extra.get("_op"), str(i.time))
                      for i in state.timeline.commits]  # fmt: skip
        stored = {pair for pair in found if pair[0] is not None}
        want = {(write.op, write.instant) for write in surviving(self.events)}
        if stored != want:
            raise BrokenError(f"timeline and history differ in {sorted(stored ^ want)[:4]}")

    def check_ingested(self, checkpoint: str | None) -> None:
        """Each event of the source was written once, by one of the ingests one after another."""
        ops = [self.ops[write.op] for write in surviving(self.events)]
        ranges = [op.source for op in ops if op.source is not None]
        starts = [0, *(after for _, after in ranges)]
        if [before for before, _ in ranges] != starts[:-1] or int(checkpoint or 0) != starts[-1]:
            raise BrokenError(f"ingested {ranges}, and the checkpoint is {checkpoint}")

    def check_read(
        self, found: list[dict[str, Any]], since: int, what: str,
        where: Callable[[str, str], bool] = lambda key, op: True,
    ) -> None:  # fmt: skip
        """A read that began after `since` events shows the table after some number of them.

        where: which rows it has read, by key and value.
        """
        now = len(self.states) - 1
        if self.undo_pending or any(isinstance(e, Undo) for e in self.events[since:]):
            return None
        differences = []
        for number in range(since, now + 1):
            want = {key: op for key, op in self.states[number].items() if where(key, op)}
            try:
                return compare(found, want, what)
            except BrokenError as error:
                differences.append(str(error))
        raise BrokenError(" | ".join(differences[-2:]))


def compare(found: list[dict[str, Any]], want: Rows, what: str) -> None:
    """Raise BrokenError unless the rows are these, each once."""
    counts = Counter(row["id"] for row in found)
    if twice := sorted(key for key, count in counts.items() if count > 1):
        raise BrokenError(f"{what} shows {twice} more than once")
    stored = {row["id"]: row["op"] for row in found}
    if stored != want:
        wrong = sorted(k for k in stored.keys() | want.keys() if stored.get(k) != want.get(k))
        facts = ", ".join(f"{k} is {stored.get(k)}, not {want.get(k)}" for k in wrong[:4])
        raise BrokenError(f"{what}: {len(wrong)} rows differ: {facts}")

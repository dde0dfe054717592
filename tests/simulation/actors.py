"""What the processes of a simulation do.

An actor goes through its steps; if its process is killed, a new one goes on with the next step.
Each step opens the table anew.  Errors of the package are answers; any other one is a problem.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any, Final

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    HollowCommitError,
    IndexNotReadyError,
    LockError,
    PyhudiError,
    SnapshotExpiredError,
    StorageError,
    UserError,
    WriteConflictError,
)
from pyhudi.options import Options, parse_options
from tests.history.events import Undo, Write
from tests.simulation.checks import PARTS, BrokenError, Observer, Op, compare
from tests.simulation.scheduler import Killed, Process, Scheduler

SCHEMA: Final = pa.schema([("id", pa.string()), ("part", pa.string()), ("op", pa.string())])
KEYS: Final = 24
ROLES: Final = {
    "writer": {"upsert": 8, "delete": 3, "insert_overwrite": 1, "delete_partitions": 1},
    "service": {"compact": 4, "schedule": 2, "clean": 3, "cluster": 2, "archive": 2, "logs": 1,
                "savepoint": 1, "delete_savepoint": 1, "restore": 1, "rollback": 1,
                "repair": 1, "rebuild_metadata": 1},
    "reader": {"read": 3, "pinned": 1},
    "consumer": {"consume": 1},
}  # fmt: skip
_PAUSES: Final = (0.0, 0.1, 2.0, 60.0, 3600.0)


def options_of(op: str = "", **more: str) -> Options:
    base = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.metadata.record.index.min.filegroup.count": "1",
        "hoodie.index.bloom.num_entries": "100",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.clean.commits.retained": "4",
        "hoodie.keep.min.commits": "6",
        "hoodie.keep.max.commits": "8",
    }
    return parse_options({**base, **more, **({"_op": op} if op else {})})


def part_of(key: int) -> str:
    return f"p{key % PARTS}"


def rows(keys: list[int], op: str) -> pa.Table:
    columns = [[f"k{k}" for k in keys], [part_of(k) for k in keys], [op] * len(keys)]
    return pa.table([pa.array(c, pa.string()) for c in columns], schema=SCHEMA)


@dataclass
class Consumer:
    """What one who follows the changes knows.  whole: the events it has seen as a snapshot."""

    position: str = "000"
    seen: set[tuple[str, str]] = field(default_factory=set)


@dataclass
class Actor:
    """steps: how many are left.  settings: options of the table of this seed."""

    name: str
    role: str
    steps: int
    dice: random.Random
    scheduler: Scheduler
    observer: Observer
    fs_of: Callable[[Process], Any]
    new_process: Callable[[str], Process]
    settings: dict[str, str]
    number: int = 0
    done: list[str] = field(default_factory=list)
    consumer: Consumer = field(default_factory=Consumer)

    def start(self, after: float = 0.0) -> None:
        process = self.new_process(f"{self.name}.{len(self.done)}")
        self.scheduler.spawn(process, process.name, lambda: self._live(process), after=after)

    def _live(self, process: Process) -> None:
        try:
            while self.number < self.steps and self.observer.problem is None:
                self.number += 1
                self.step(process)
                self.scheduler.pause(self.dice.choice(_PAUSES))
        except Killed:
            self.done.append("killed")
            if self.number < self.steps:
                self.start(after=self.dice.choice(_PAUSES))
        except BrokenError as problem:
            self.observer.problem = self.observer.problem or problem

    def step(self, process: Process) -> None:
        weights = ROLES[self.role]
        kind = self.dice.choices(list(weights), list(weights.values()))[0]
        fs = self.fs_of(process)
        if self.role == "writer":
            self._write(fs, kind)
        elif self.role == "service":
            self._serve(fs, kind)
        elif kind == "consume":
            self.consume(fs)
        else:
            self._read(fs, kind)

    def _table(self, fs: Any, op: str = "") -> Table:
        more = dict(self.settings)
        if op and self.dice.random() < 0.2:
            more["hoodie.write.concurrency.mode"] = "single_writer"
        return Table(fs, options=options_of(op, **more), engine=LocalEngine(1))

    # ---- writes ------------------------------------------------------------------------------

    def _write(self, fs: Any, kind: str) -> None:
        start, step = self.dice.randrange(KEYS), self.dice.choice((1, PARTS))
        keys = sorted({(start + step * n) % KEYS for n in range(self.dice.choice((1, 3, 6)))})
        part = ""
        if kind in ("insert_overwrite", "delete_partitions"):
            part = part_of(keys[0])
            keys = [k for k in keys if part_of(k) == part and kind != "delete_partitions"]
        name = f"{self.name}-{self.number}"
        op = Op(name, kind, tuple(f"k{k}" for k in keys), part)
        self.observer.ops[name] = op
        verbs: dict[str, Callable[[Table], Any]] = {
            "upsert": lambda table: table.upsert(rows(keys, name)),
            "delete": lambda table: table.delete(keys=list(op.keys)),
            "insert_overwrite": lambda table: table.insert_overwrite(rows(keys, name)),
            "delete_partitions": lambda table: table.delete_partitions(part),
        }
        try:
            report = verbs[kind](self._table(fs, name))
        except PyhudiError as error:
            self.answered(error, (StorageError, LockError, WriteConflictError))
            if "outcome of the commit is unknown" in str(error):
                self.observer.sometimes["a writer was told that the outcome is unknown"] += 1
            else:
                op.refused = f"{type(error).__name__}: {error}"
            if isinstance(error, LockError):
                self.observer.sometimes[f"refused: {error.what}"] += 1
            self.observer.look()
            return
        op.instant = report.instant
        if report.instant is None and kind == "upsert":
            raise BrokenError(f"{name} was acknowledged without an instant")
        self.observer.sometimes["a write was planned again"] += bool(report.conflicts)
        self.observer.acknowledged(op)

    def answered(self, error: PyhudiError, allowed: tuple[type[PyhudiError], ...]) -> None:
        """An error that the caller may get."""
        wrong = isinstance(error, (FileMissingError, CorruptFileError))
        if wrong or not isinstance(error, allowed):
            raise BrokenError(
                f"{self.name}-{self.number} got {type(error).__name__}: {error}"
            ) from error

    # ---- services ----------------------------------------------------------------------------

    def _serve(self, fs: Any, kind: str) -> None:
        try:
            table = self._table(fs)
            if kind in ("compact", "schedule", "logs") and not table.config.is_merge_on_read:
                return
            verbs: dict[str, Callable[[], Any]] = {
                "compact": table.compact, "clean": table.clean, "cluster": table.cluster,
                "schedule": table.schedule_compaction, "logs": table.compact_logs,
                "archive": table.archive, "savepoint": table.savepoint, "repair": table.repair,
                "rebuild_metadata": table.metadata.rebuild,
                "delete_savepoint": lambda: table.delete_savepoint(self._saved(table)),
                "restore": lambda: table.restore(self._saved(table)),
                "rollback": lambda: table.rollback(self._newest(table)),
            }  # fmt: skip
            verbs[kind]()
        except PyhudiError as error:
            on_instants = kind in ("savepoint", "delete_savepoint", "restore", "rollback")
            refusals = (UserError, SnapshotExpiredError) if on_instants else ()
            if "cannot be clustered" in str(error):
                return
            self.answered(error, (StorageError, LockError, WriteConflictError, IndexNotReadyError,
                                  *refusals))  # fmt: skip
            return
        self.observer.sometimes[f"service: {kind}"] += 1
        self.observer.look()

    def _saved(self, table: Table) -> str:
        found = [str(saved.instant) for saved in table.savepoints()]
        return self.dice.choice(found) if found else "0"

    def _newest(self, table: Table) -> str:
        newest = table.timeline.commits.last
        return str(newest.time) if newest else "0"

    # ---- readers -----------------------------------------------------------------------------

    def _read(self, fs: Any, kind: str) -> None:
        since = len(self.observer.events)
        try:
            table = self._table(fs)
            if kind == "read":
                found = table.scan(["id", "op"]).to_arrow().to_pylist()
                self.observer.check_read(found, since, f"{self.name}-{self.number}")
                return
            with table.pin_snapshot() as pin:
                scan = table.scan(["id", "op"], as_of=pin.instant)
                first = {row["id"]: row["op"] for row in scan.to_arrow().to_pylist()}
                self.scheduler.pause(self.dice.choice(_PAUSES))
                again = self._table(fs).scan(["id", "op"], as_of=pin.instant)
                second = again.to_arrow().to_pylist()
            if not any(isinstance(e, Undo) for e in self.observer.events[since:]):
                compare(second, first, f"a pinned snapshot at {pin.instant}")
                self.observer.sometimes["a pinned snapshot was read twice"] += 1
        except PyhudiError as error:
            expired = (SnapshotExpiredError, UserError)
            self.answered(error, (StorageError, LockError, *expired))

    def consume(self, fs: Any) -> None:
        """Follow the changes by one step, or begin with a snapshot where they have expired."""
        mine = self.consumer
        try:
            table = self._table(fs)
            until = table.position()
            if until <= mine.position:
                return
            try:
                scan = table.changes(mine.position, until, columns=["id", "op"])
                found = scan.to_arrow().to_pylist()
            except SnapshotExpiredError:
                self.observer.sometimes["changes had expired"] += 1
                found = table.scan(["id", "op"]).to_arrow().to_pylist()
        except PyhudiError as error:
            self.answered(error, (StorageError, SnapshotExpiredError, HollowCommitError))
            return
        mine.position = until
        mine.seen |= {(row["id"], row["op"]) for row in found}

    def check_consumed(self) -> None:
        """Every row that is there now has been seen, unless a rollback or restore brought it."""
        events = self.observer.events
        undone = {time for e in events if isinstance(e, Undo) for time in e.instants}
        unsure = {key for e in events if isinstance(e, Write) and e.instant in undone
                  for key in e.keys}  # fmt: skip
        parts = {p for e in events if isinstance(e, Write) and e.instant in undone
                 for p in e.parts}  # fmt: skip
        missed = {
            (key, op) for key, op in self.observer.states[-1].items()
            if key not in unsure and part_of(int(key[1:])) not in parts
        } - self.consumer.seen  # fmt: skip
        if missed:
            raise BrokenError(f"{self.name} has missed {sorted(missed)[:4]}")

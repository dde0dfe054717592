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
import pyarrow.compute as pc

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import (
    CorruptFileError,
    FileMissingError,
    IndexNotReadyError,
    LockError,
    PyhudiError,
    SnapshotExpiredError,
    StorageError,
    UnsupportedTableError,
    UserError,
    WriteConflictError,
)
from pyhudi.ingest.source import SourceBatch, SourceLimits
from pyhudi.ingest.stream import Stream
from pyhudi.options import Options, parse_options
from tests.history.events import Write
from tests.simulation.checks import PARTS, Observer, Op
from tests.simulation.scheduler import BrokenError, Killed, Process, Scheduler

SCHEMA: Final = pa.schema([("id", pa.string()), ("part", pa.string()), ("op", pa.string())])
KEYS: Final = 24
_INSERTED, _INGESTED = 1_000, 1_000_000  # the first keys of inserts and of the source
PAUSES: Final = (0.0, 0.1, 2.0, 60.0, 3600.0)
REFUSALS: Final = (StorageError, LockError, WriteConflictError, IndexNotReadyError)
NON_BLOCKING: Final = "hoodie.write.concurrency.mode=NON_BLOCKING_CONCURRENCY_CONTROL"
ROLES: Final = {
    "writer": {"upsert": 8, "delete": 3, "update": 2, "delete_where": 2, "merge": 2,
               "merge_delete": 1, "insert": 3, "bulk_insert": 1, "insert_overwrite": 1,
               "delete_partitions": 1, "insert_overwrite_table": 1},
    "ingest": {"ingest": 1},
    "service": {"compact": 4, "schedule": 2, "clean": 3, "cluster": 2, "archive": 2, "logs": 1,
                "savepoint": 1, "delete_savepoint": 1, "restore": 1, "rollback": 1},
    "keeper": {"repair": 1, "doctor": 1, "rebuild_metadata": 1, "create_index": 3,
               "drop_index": 2, "rebuild_index": 1, "upgrade": 2, "downgrade": 2},
    "reader": {"read": 3, "pinned": 1, "filtered": 2, "lookup": 2, "travel": 3},
    "consumer": {"consume": 1},
    "capturer": {"capture": 1},
    "follower": {"follow": 1},
}  # fmt: skip
"""Verbs of each role, with their weights."""
_EFFECTS: Final = {"delete_where": "delete", "merge_delete": "delete", "merge": "upsert",
                   "insert": "upsert", "bulk_insert": "upsert"}  # fmt: skip
_REPLACING: Final = ("insert_overwrite", "delete_partitions", "insert_overwrite_table")
_BY_SNAPSHOT: Final = ("update", "delete_where", "merge_delete")
"""Writes of the rows that a predicate, or a merge, found in their snapshot."""
_ON_INSTANTS: Final = ("savepoint", "delete_savepoint", "restore", "rollback")
_OF_LOGS: Final = ("compact", "schedule", "logs")
_OF_TABLE: Final = ("create_index", "drop_index", "rebuild_index", "upgrade", "downgrade")
_INDEXES: Final = ("record", "bloom_filters", "column_stats", "partition_stats", "secondary")


def options_of(op: str = "", **more: str) -> Options:
    base = {
        "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
        "hoodie.metadata.record.index.min.filegroup.count": "1",
        "hoodie.index.bloom.num_entries": "100",
        "hoodie.bucket.index.num.buckets": "2",
        "hoodie.clean.commits.retained": "2",
        "hoodie.keep.min.commits": "3",
        "hoodie.keep.max.commits": "5",
    }
    return parse_options({**base, **more, **({"_op": op} if op else {})})


def part_of(key: int) -> str:
    return f"p{key % PARTS}"


def rows(keys: list[int], op: str) -> pa.Table:
    columns = [[f"k{k}" for k in keys], [part_of(k) for k in keys], [op] * len(keys)]
    return pa.table([pa.array(c, pa.string()) for c in columns], schema=SCHEMA)


@dataclass
class Actor:
    """steps: how many it goes through.  verbs: what it does, with weights.

    settings: options of all actors of this seed.  index: how writes find a key.
    """

    name: str
    verbs: dict[str, int]
    steps: int
    dice: random.Random
    scheduler: Scheduler
    observer: Observer
    fs_of: Callable[[Process], Any]
    new_process: Callable[[str], Process]
    settings: dict[str, str]
    index: str
    number: int = 0
    done: list[str] = field(default_factory=list)

    def start(self, after: float = 0.0) -> None:
        process = self.new_process(f"{self.name}.{len(self.done)}")
        self.scheduler.spawn(process, process.name, lambda: self._live(process), after=after)

    def _live(self, process: Process) -> None:
        try:
            while self.number < self.steps and self.observer.problem is None:
                self.number += 1
                verb = self.dice.choices(list(self.verbs), list(self.verbs.values()))[0]
                self.step(self.fs_of(process), verb)
                self.scheduler.pause(self.dice.choice(PAUSES))
        except Killed:
            self.done.append("killed")
            if self.number < self.steps:
                self.start(after=self.dice.choice(PAUSES))
        except BrokenError as problem:
            self.observer.problem = self.observer.problem or problem

    def step(self, fs: Any, verb: str) -> None:
        raise NotImplementedError

    def finish(self, fs: Any) -> None:
        """What it does when all others have ended and no fault happens any more."""

    def table(self, fs: Any, op: str = "") -> Table:
        more = dict(self.settings)
        if op and NON_BLOCKING.partition("=")[0] not in more and self.dice.random() < 0.2:
            more["hoodie.write.concurrency.mode"] = "single_writer"
        return Table(fs, options=options_of(op, **more), engine=LocalEngine(1))

    def answered(self, error: PyhudiError, allowed: tuple[type[PyhudiError], ...]) -> None:
        """An error that the caller may get."""
        wrong = isinstance(error, (FileMissingError, CorruptFileError))
        if wrong or not isinstance(error, allowed):
            raise BrokenError(
                f"{self.name}-{self.number} got {type(error).__name__}: {error}"
            ) from error


class Writer(Actor):
    """Writes rows, each of which states the operation that wrote it."""

    def step(self, fs: Any, verb: str) -> None:
        name = f"{self.name}-{self.number}"
        keys = self._keys(verb)
        op = Op(name, _EFFECTS.get(verb, verb), tuple(f"k{k}" for k in keys))
        if verb in _REPLACING:
            op.parts = (part_of(keys[0]),)
            keys = [k for k in keys if part_of(k) in op.parts and verb != "delete_partitions"]
            op.keys = tuple(f"k{k}" for k in keys)
        if verb == "insert_overwrite_table":
            op.parts = tuple(part_of(n) for n in range(PARTS))
        if verb in _BY_SNAPSHOT:
            op.since = len(self.observer.states) - 1
        where = pc.field("id").isin(list(op.keys))
        verbs: dict[str, Callable[[Table], Any]] = {
            "upsert": lambda table: table.upsert(rows(keys, name)),
            "insert": lambda table: table.insert(rows(keys, name)),
            "bulk_insert": lambda table: table.bulk_insert(rows(keys, name)),
            "delete": lambda table: table.delete(keys=list(op.keys)),
            "delete_where": lambda table: table.delete(where=where),
            "update": lambda table: table.update({"op": f"'{name}'"}, where=where),
            "merge": lambda table: (table.merge(rows(keys, name)).when_matched_update()
                                    .when_not_matched_insert().execute()),
            "merge_delete": lambda table: (table.merge(rows(keys, name)).when_matched_delete()
                                           .execute()),
            "insert_overwrite": lambda table: table.insert_overwrite(rows(keys, name)),
            "insert_overwrite_table": lambda table: table.insert_overwrite_table(rows(keys, name)),
            "delete_partitions": lambda table: table.delete_partitions(op.parts[0]),
        }  # fmt: skip
        self.write(fs, op, verbs[verb])

    def _keys(self, verb: str) -> list[int]:
        """Some keys; of an insert those that no other operation has written."""
        size = self.dice.choice((1, 3, 6))
        if verb in ("insert", "bulk_insert"):
            first = _INSERTED + len(self.observer.ops) * 10
            return list(range(first, first + size))
        present = sorted(int(key[1:]) for key in self.observer.states[-1])
        if present and self.dice.random() < 0.3:
            return sorted(self.dice.sample(present, min(size, len(present))))
        start, step = self.dice.randrange(KEYS), self.dice.choice((1, PARTS))
        return sorted({(start + step * n) % KEYS for n in range(size)})

    def write(self, fs: Any, op: Op, act: Callable[[Table], Any]) -> None:
        """Carry out a write, and note what its caller is answered."""
        self.observer.ops[op.name] = op
        try:
            report = act(self.table(fs, op.name))
        except PyhudiError as error:
            self.answered(error, REFUSALS)
            if "outcome of the commit is unknown" in str(error):
                self.observer.sometimes["a writer was told that the outcome is unknown"] += 1
            else:
                op.refused = f"{type(error).__name__}: {error}"
            if isinstance(error, LockError):
                self.observer.sometimes[f"refused: {error.what}"] += 1
            self.observer.look()
            return
        if report is None or report.instant is None:
            op.refused = "there was nothing to write"
            if op.kind == "upsert" and op.keys:
                raise BrokenError(f"{op.name} was acknowledged without an instant")
            return
        op.instant = report.instant
        self.observer.sometimes["a write was planned again"] += bool(report.conflicts)
        self.observer.sometimes[f"write: {report.operation}"] += 1
        self.observer.acknowledged(op)


class Ingest(Writer):
    """Moves events of a source, numbered from 0, into the table."""

    def step(self, fs: Any, verb: str) -> None:
        op = Op(f"{self.name}-{self.number}", "upsert", ())
        operation = self.dice.choice(("upsert", "insert", "bulk_insert"))
        source = _Source(op, self.observer, self.dice.choice((1, 3, 6)))
        self.write(fs, op, lambda table: Stream(source, table, operation=operation).run_once())


@dataclass
class _Source:
    """Events without end, read for one operation."""

    op: Op
    observer: Observer
    size: int

    def read(self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema) -> SourceBatch:
        first = int(checkpoint or 0)
        keys = list(range(_INGESTED + first, _INGESTED + first + self.size))
        self.op.source = (first, first + self.size)
        self.op.keys = tuple(f"k{key}" for key in keys)
        return SourceBatch(
            rows(keys, self.op.name).to_reader(), str(first + self.size), committed=self._committed
        )

    def _committed(self) -> None:
        if not any(isinstance(e, Write) and e.op == self.op.name for e in self.observer.events):
            raise BrokenError(f"{self.op.name}: the source is told of a commit that is not there")


class Service(Actor):
    """Runs table services and changes the table itself."""

    def step(self, fs: Any, verb: str) -> None:
        observer = self.observer
        try:
            table = self.table(fs)
            if verb in _OF_LOGS and not table.config.is_merge_on_read:
                return
            pins = len(table.pinned_snapshots()) if verb == "restore" else 0
            self._verbs(table)[verb]()
        except PyhudiError as error:
            refusals: tuple[type[PyhudiError], ...] = ()
            if verb in _ON_INSTANTS:
                refusals = (UserError, SnapshotExpiredError)
            if verb in _OF_TABLE or "cannot be clustered" in str(error):
                refusals = (UserError, UnsupportedTableError)
            self.answered(error, (*REFUSALS, *refusals))
            return
        observer.sometimes[f"service: {verb}"] += 1
        observer.sometimes["a restore while a snapshot was pinned"] += bool(pins)
        observer.look()

    def _verbs(self, table: Table) -> dict[str, Callable[[], Any]]:
        choice = self.dice.choice
        version = table.config.version
        return {
            "compact": table.compact, "clean": table.clean, "cluster": table.cluster,
            "schedule": table.schedule_compaction, "logs": table.compact_logs,
            "archive": table.archive, "savepoint": table.savepoint, "repair": table.repair,
            "doctor": table.doctor, "rebuild_metadata": table.metadata.rebuild,
            "delete_savepoint": lambda: table.delete_savepoint(self._saved(table)),
            "restore": lambda: table.restore(self._saved(table)),
            "rollback": lambda: table.rollback(self._newest(table)),
            "create_index": lambda: self._create_index(table),
            "drop_index": lambda: self._drop_index(table),
            "rebuild_index": lambda: table.index.rebuild(choice((None, 1, 2))),
            "upgrade": lambda: table.upgrade(choice([v for v in (8, 9) if v > version] or [9])),
            "downgrade": lambda: table.downgrade(choice([v for v in (6, 8) if v < version] or [6])),
        }  # fmt: skip

    def _saved(self, table: Table) -> str:
        found = [str(saved.instant) for saved in table.savepoints()]
        return self.dice.choice(found) if found else "0"

    def _newest(self, table: Table) -> str:
        newest = table.timeline.commits.last
        return str(newest.time) if newest else "0"

    def _create_index(self, table: Table) -> None:
        kind = self.dice.choice(_INDEXES)
        table.index.create(kind, "op" if kind == "secondary" else None)

    def _drop_index(self, table: Table) -> None:
        """Not that of the writers, which could find no key without it."""
        names = table.index.list()["name"].to_pylist()
        mine = "record_index" if self.index == "record" else ""
        names = [name for name in names if name not in ("files", mine)]
        if names:
            table.index.drop(self.dice.choice(names))

"""What the writers of a history do, and the diary each of them keeps.

A diary is a file of JSON lines, one when an operation begins and one when it was acknowledged, so
that what a killed process had been told is known.  Every row says which operation wrote it; every
commit carries the operation's name in its metadata.
"""

from __future__ import annotations

import json
import random
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import (
    LockError,
    PyhudiError,
    SnapshotExpiredError,
    UserError,
    WriteConflictError,
)
from pyhudi.operations import ttl
from pyhudi.operations.create import create
from pyhudi.options import Options, parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.properties import TableType
from pyhudi.timeline.clock import system_clock
from pyhudi.write.table_creation import NewTable
from tests.history.events import Watch

SCHEMA: Final = pa.schema([("id", pa.string()), ("part", pa.string()), ("op", pa.string())])
PARTS: Final = 8
RETAINED: Final = 6
OPTIMISTIC: Final = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.clean.commits.retained": str(RETAINED),
    "hoodie.keep.min.commits": "8",
    "hoodie.keep.max.commits": "12",
    "hoodie.partition.ttl.strategy.days.retain": "1",
}
EXPIRES_SECONDS: Final = 1.0  # a partition expires this long after the last write to it
WEIGHTS: Final = {
    "upsert": 60, "delete": 10, "read": 14, "insert_overwrite": 2, "delete_partitions": 1,
    "compact": 5, "clean": 5, "schedule": 3, "logs": 3, "alone": 5, "cluster": 2, "ttl": 1,
    "archive": 3, "savepoint": 2, "delete_savepoint": 2, "restore": 1, "rollback": 1,
}  # fmt: skip
READ: Final = ["id", "op"]
WRITES: Final = ("upsert", "alone", "delete", "insert_overwrite", "delete_partitions", "ttl")
MERGES_LOGS: Final = ("compact", "schedule", "logs")


def part_of(key: int) -> str:
    return f"p{key % PARTS}"


def options_of(op: str = "", **more: str) -> Options:
    return parse_options({**OPTIMISTIC, **more, **({"_op": op} if op else {})})


def new_table(fs: FileSystem, kind: TableType, version: int = 9) -> None:
    options = options_of(**{"hoodie.write.table.version": str(version)})
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), (), options))


def rows(keys: list[int], op: str) -> pa.Table:
    columns = [[f"k{k}" for k in keys], [part_of(k) for k in keys], [op] * len(keys)]
    return pa.table([pa.array(c, pa.string()) for c in columns], schema=SCHEMA)


@dataclass
class Diary:
    """Lines of one writer: in memory, and in a file if there is one."""

    path: Path | None = None
    lines: list[dict[str, Any]] = field(default_factory=list)

    def note(self, **facts: Any) -> None:
        facts["at"] = time.time()
        self.lines.append(facts)
        if self.path is not None:
            with open(self.path, "a", encoding="ascii") as file:
                file.write(json.dumps(facts) + "\n")


def read_diaries(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("ascii").splitlines():
            with suppress(ValueError):  # the last line of one who was killed
                yield json.loads(line)


def expiring_soon() -> datetime:
    """The clock of partition expiry, so far ahead that a day ends after EXPIRES_SECONDS."""
    return system_clock() + timedelta(days=1, seconds=-EXPIRES_SECONDS)


class Writer:
    """One writer: a table opened for each operation, dice of its own.

    It notes what it has been answered, errors too, and which instants it sees complete.
    """

    def __init__(self, fs: FileSystem, name: str, diary: Diary, *, seed: int, keys: int) -> None:
        self._fs, self._name, self._diary = fs, name, diary
        self._dice = random.Random(f"{seed}/{name}")
        self._keys = keys
        self._watch = Watch()
        ttl.system_clock = expiring_soon

    def step(self, number: int) -> None:
        """One operation, noted before and after."""
        op = f"{self._name}-{number}"
        kind = self._dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        self._look()
        if kind == "read":
            self._read(op)
        elif kind in WRITES:
            self.write(op, kind)
        else:
            self._serve(op, kind)

    def _look(self) -> None:
        for line in self._watch.look(self._table("")):
            self._diary.note(**line)

    def _table(self, op: str, **more: str) -> Table:
        return Table(self._fs, options=options_of(op, **more), engine=LocalEngine(1))

    def _some(self) -> list[int]:
        size = self._dice.choice((1, 3, 12))
        start = self._dice.randrange(self._keys)
        step = self._dice.choice((1, PARTS))  # over all partitions, or in one
        return sorted({(start + step * n) % self._keys for n in range(size)})

    def write(self, op: str, kind: str) -> None:
        keys, part = self._some(), ""
        more = {"hoodie.write.concurrency.mode": "single_writer"} if kind == "alone" else {}
        if kind in ("insert_overwrite", "delete_partitions"):
            part = part_of(keys[0])
            keys = [k for k in keys if part_of(k) == part]
        if kind in ("delete_partitions", "ttl"):
            keys = []
        self._diary.note(op=op, kind=kind, keys=keys, part=part)
        table = self._table(op, **more)
        verbs: dict[str, Callable[[], Any]] = {
            "upsert": lambda: table.upsert(rows(keys, op)),
            "alone": lambda: table.upsert(rows(keys, op)),
            "delete": lambda: table.delete(keys=[f"k{k}" for k in keys]),
            "insert_overwrite": lambda: table.insert_overwrite(rows(keys, op)),
            "delete_partitions": lambda: table.delete_partitions(part),
            "ttl": table.expire_partitions,
        }
        try:
            report = verbs[kind]()
        except (WriteConflictError, LockError) as refused:
            self._look()
            self._diary.note(op=op, refused=str(refused))
            return
        self._look()
        if kind == "ttl":
            self._diary.note(op=op, instant=report.instant, inserted=0, updated=0, missing=0,
                             deleted=report.rows)  # fmt: skip
            return
        self._diary.note(
            op=op, instant=report.instant, conflicts=report.conflicts, missing=report.missing_keys,
            inserted=report.inserted, updated=report.updated, deleted=report.deleted,
        )  # fmt: skip

    def _serve(self, op: str, kind: str) -> None:
        table = self._table("")
        if kind in MERGES_LOGS and not table.config.is_merge_on_read:
            return
        self._diary.note(op=op, kind=kind)
        verbs: dict[str, Callable[[], Any]] = {
            "compact": table.compact, "clean": table.clean, "cluster": table.cluster,
            "schedule": table.schedule_compaction, "logs": table.compact_logs,
            "archive": table.archive, "savepoint": table.savepoint,
            "delete_savepoint": lambda: table.delete_savepoint(self._saved(table)),
            "restore": lambda: table.restore(self._saved(table)),
            "rollback": lambda: table.rollback(self._newest(table)),
        }  # fmt: skip
        about_instants = kind in ("savepoint", "delete_savepoint", "restore", "rollback")
        refusals = (UserError, SnapshotExpiredError) if about_instants else ()
        try:
            verbs[kind]()
        except (WriteConflictError, LockError, *refusals) as refused:
            self._diary.note(op=op, refused=str(refused))
            return
        self._look()
        self._diary.note(op=op, done=True)

    def _saved(self, table: Table) -> str:
        """A savepoint; where there is none, what no savepoint is called."""
        found = [str(saved.instant) for saved in table.savepoints()]
        return self._dice.choice(found) if found else "0"

    def _newest(self, table: Table) -> str:
        newest = table.timeline.commits.last
        return str(newest.time) if newest else "0"

    def _read(self, op: str) -> None:
        """The snapshot, or the error that the reader got."""
        began = time.time()
        try:
            found = self._table("").scan(READ).to_arrow()
        except PyhudiError as error:
            self._diary.note(op=op, kind="read", error=type(error).__name__, what=str(error),
                             began=began)  # fmt: skip
            return
        stored = dict(zip(found["id"].to_pylist(), found["op"].to_pylist(), strict=True))
        self._diary.note(op=op, kind="read", rows=stored, count=len(found), began=began)

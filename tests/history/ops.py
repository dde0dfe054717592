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
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

from pyhudi.api import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import (
    FileMissingError,
    LockError,
    SnapshotExpiredError,
    UserError,
    WriteConflictError,
)
from pyhudi.options import Options, parse_options
from pyhudi.pipeline import NewTable, create
from pyhudi.storage.filesystem import FileSystem
from pyhudi.table.config import TableType

SCHEMA: Final = pa.schema([("id", pa.string()), ("part", pa.string()), ("op", pa.string())])
PARTS: Final = 8
BESIDE: Final = {
    "hoodie.write.concurrency.mode": "optimistic_concurrency_control",
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.bloom.num_entries": "100",
    "hoodie.clean.commits.retained": "6",
    "hoodie.parquet.small.file.limit": "0",
}
WEIGHTS: Final = {
    "upsert": 60, "delete": 10, "read": 14, "insert_overwrite": 2, "delete_partitions": 1,
    "compact": 5, "clean": 5, "schedule": 3, "logs": 3, "alone": 5, "cluster": 2,
}  # fmt: skip


def part_of(key: int) -> str:
    return f"p{key % PARTS}"


def options_of(op: str = "", **more: str) -> Options:
    return parse_options({**BESIDE, **more, **({"_op": op} if op else {})})


def new_table(fs: FileSystem, kind: TableType) -> None:
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), (), options_of()))


def rows(keys: list[int], op: str) -> pa.Table:
    columns = [[f"k{k}" for k in keys], [part_of(k) for k in keys], [op] * len(keys)]
    return pa.table([pa.array(c, pa.string()) for c in columns], schema=SCHEMA)


@dataclass
class Diary:
    """Lines of one writer: in memory, and in a file if there is one."""

    path: Path | None = None
    lines: list[dict[str, Any]] = field(default_factory=list)

    def note(self, **facts: Any) -> None:
        facts["at"] = time.monotonic()
        self.lines.append(facts)
        if self.path is not None:
            with open(self.path, "a", encoding="ascii") as file:
                file.write(json.dumps(facts) + "\n")


def read_diaries(folder: Path) -> Iterator[dict[str, Any]]:
    for path in sorted(folder.glob("*.jsonl")):
        for line in path.read_text("ascii").splitlines():
            with suppress(ValueError):  # the last line of one who was killed
                yield json.loads(line)


class Writer:
    """One writer: a table opened anew for each operation, dice of its own."""

    def __init__(self, fs: FileSystem, name: str, diary: Diary, *, seed: int, keys: int) -> None:
        self._fs, self._name, self._diary = fs, name, diary
        self._dice = random.Random(f"{seed}/{name}")
        self._keys = keys

    def step(self, number: int) -> None:
        """One operation, noted before and after."""
        op = f"{self._name}-{number}"
        kind = self._dice.choices(list(WEIGHTS), list(WEIGHTS.values()))[0]
        if kind == "read":
            self._read(op)
        elif kind in ("compact", "clean", "schedule", "cluster", "logs"):
            self._serve(op, kind)
        else:
            self.write(op, kind)

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
        self._diary.note(op=op, kind=kind, keys=keys, part=part)
        table = self._table(op, **more)
        verbs: dict[str, Callable[[], Any]] = {
            "upsert": lambda: table.upsert(rows(keys, op)),
            "alone": lambda: table.upsert(rows(keys, op)),
            "delete": lambda: table.delete(keys=[f"k{k}" for k in keys]),
            "insert_overwrite": lambda: table.insert_overwrite(rows(keys, op)),
            "delete_partitions": lambda: table.delete_partitions(part),
        }
        try:
            report = verbs[kind]()
        except (WriteConflictError, LockError) as refused:
            self._diary.note(op=op, refused=str(refused))
            return
        self._diary.note(
            op=op, instant=report.instant, conflicts=report.conflicts, missing=report.missing_keys
        )

    def _serve(self, op: str, kind: str) -> None:
        table = self._table("")
        if kind in ("compact", "schedule", "logs") and not table.config.is_merge_on_read:
            return
        self._diary.note(op=op, kind=kind)
        verbs: dict[str, Callable[[], Any]] = {
            "compact": table.compact, "clean": table.clean, "cluster": table.cluster,
            "schedule": table.schedule_compaction, "logs": table.compact_logs,
        }  # fmt: skip
        try:
            verbs[kind]()
        except (WriteConflictError, LockError) as refused:
            self._diary.note(op=op, refused=str(refused))
            return
        self._diary.note(op=op, done=True)

    def _read(self, op: str) -> None:
        began = time.monotonic()
        try:
            found = self._table("").scan(["id", "op"]).to_arrow()
        except (SnapshotExpiredError, FileMissingError):  # cleaned under a slow reader
            return
        except UserError:
            return
        held = dict(zip(found["id"].to_pylist(), found["op"].to_pylist(), strict=True))
        self._diary.note(op=op, kind="read", rows=held, count=len(found), began=began)

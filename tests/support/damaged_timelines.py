"""Tables whose timelines are damaged in every way that the generator knows, one way a table."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.filenames import TEMP
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.table.properties import TableType, load_config
from pyhudi.timeline.instant import Action, parse_instant_name
from pyhudi.write.table_creation import NewTable

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("v", pa.int64())])
KINDS = {"cow": TableType.COPY_ON_WRITE, "mor": TableType.MERGE_ON_READ}
LATER = "99990101000000000"
_OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.index.type": "RECORD_INDEX",
    "hoodie.metadata.compact.max.delta.commits": "50",
    "hoodie.keep.min.commits": "6",
    "hoodie.keep.max.commits": "7",
    "hoodie.clean.commits.retained": "5",
}
ACTIONS = ("commit", "deltacommit", "replacecommit", "clean", "rollback", "restore", "savepoint",
           "compaction", "logcompaction", "clustering", "indexing")  # fmt: skip


@dataclass(frozen=True)
class Damage:
    """One file of the table after the damage.  content: None deletes the file."""

    name: str
    path: str
    content: bytes | None

    def do(self, fs: MemoryFileSystem) -> None:
        if self.content is None:
            fs.delete([self.path])
        else:
            fs.replace(self.path, self.content)

    def __str__(self) -> str:
        return f"{self.name} {self.path}"


def opened(fs: MemoryFileSystem) -> Table:
    return Table(fs, options=parse_options(_OPTIONS), engine=LocalEngine(1))


def batch(start: int, ts: int, count: int = 6) -> pa.Table:
    made = [{"id": f"k{n:03}", "ts": ts, "v": n * ts} for n in range(start, start + count)]
    return pa.Table.from_pylist(made, SCHEMA)


@cache
def _made(version: int, kind: str) -> MemoryFileSystem:
    fs = MemoryFileSystem()
    options = parse_options({**_OPTIONS, "hoodie.write.table.version": str(version)})
    create(fs, NewTable(SCHEMA, "t", KINDS[kind], ("id",), (), ("ts",), options))
    for ts in range(1, 10):
        opened(fs).upsert(batch(ts * 2, ts))
        if ts == 4 and kind == "mor":
            opened(fs).compact()
        if ts == 5:
            opened(fs).cluster()
        if ts == 6:
            opened(fs).savepoint("kept")
        if ts == 7:
            table = opened(fs)
            table.rollback(table.timeline.commits.last.time)
    opened(fs).delete(keys=["k006"])
    opened(fs).clean()
    return fs


def table_of(version: int, kind: str) -> MemoryFileSystem:
    """A copy of a table with commits, services, a savepoint, a rollback and archived instants."""
    return MemoryFileSystem(_made(version, kind).store.copy())


def _timeline_files(fs: MemoryFileSystem) -> list[str]:
    layout = load_config(fs).layout
    folders = {layout.timeline_folder, ".hoodie/timeline/history", ".hoodie/archived",
               ".hoodie/.index_defs"}  # fmt: skip
    return [
        info.path for folder in sorted(folders) for info in fs.children(folder)
        if not info.is_folder and "hoodie.properties" not in info.name
    ]  # fmt: skip


def damages(fs: MemoryFileSystem) -> Iterator[Damage]:
    """Every damage of the timeline's files: missing, cut, empty, doubled, content of another."""
    files = _timeline_files(fs)
    earlier: dict[str, bytes] = {}
    for path in files:
        content = fs.read(path)
        yield Damage("missing", path, None)
        kind = path.rsplit("/", 1)[-1].partition(".")[2]
        if content:
            yield Damage("empty", path, b"")
            yield Damage("cut", path, content[: len(content) // 2])
            yield Damage("doubled", path, content * 2)
            if earlier.get(kind, content) != content:
                yield Damage("earlier", path, earlier[kind])
            earlier[kind] = content
        else:
            yield Damage("garbage", path, b"\0" * 20)
    yield from _unfinished(fs)


def _unfinished(fs: MemoryFileSystem) -> Iterator[Damage]:
    """Instants that a process of either program began: without a plan, with a torn one, and with
    that of an older instant of the same action."""
    folder = load_config(fs).layout.timeline_folder
    plans: dict[str, bytes] = {}
    for path in _timeline_files(fs):
        instant = parse_instant_name(path.rsplit("/", 1)[-1])
        if instant is not None and path.endswith(".requested"):
            plans[instant.action.value] = fs.read(path)
    last = max(i for i in opened(fs).timeline.times)
    for number, action in enumerate(ACTIONS):
        time = str(int(last) + 1000 + number)
        for state in ("requested", "inflight"):
            suffix = (
                "inflight" if (action, state) == ("commit", "inflight") else f"{action}.{state}"
            )
            yield Damage("began", f"{folder}/{time}.{suffix}", b"")
            yield Damage("torn", f"{folder}/{time}.{suffix}", b"Obj\x01\x04")
        if plans.get(action):
            yield Damage("again", f"{folder}/{time}.{action}.requested", plans[action])


__all__ = ["ACTIONS", "TEMP", "Action", "Damage", "batch", "damages", "opened", "table_of"]

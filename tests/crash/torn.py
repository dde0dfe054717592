"""Every file of a table cut short, zero-filled or lost: read, named, repaired.

    python -m tests.crash.torn [--seed 0] [--every 1]

For each file and each damage a new process reads the table, writes to it, asks the doctor and
repairs.  A read or write gives right rows or a typed error; what is not right, the doctor names;
after `repair` the table reads, writes and looks keys up.  Without `allow_loss` a repair never
changes a row that was acknowledged and is still to be had.  Where the file that completes an
write is lost, the write looks as if it were under way, so other rows than before are no surprise if
the doctor names them.  Prints one line of totals; exit code 3 where anything was silent or stayed
broken.
"""

from __future__ import annotations

import argparse
import re
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import pyarrow as pa

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import PyhudiError
from pyhudi.health.doctor import examine
from pyhudi.health.repair import execute_repair
from pyhudi.operations.create import create
from pyhudi.options import parse_options
from pyhudi.storage.memory import MemoryFileSystem, MemoryStore
from pyhudi.table.properties import TableType
from pyhudi.write.table_creation import NewTable
from tests.support.filesystems import Crash, CrashingFileSystem

SCHEMA = pa.schema([("id", pa.string()), ("ts", pa.int64()), ("part", pa.string())])
VERSION = "hoodie.write.table.version"
OPTIONS = {
    "hoodie.metadata.record.index.min.filegroup.count": "2",
    "hoodie.index.bloom.num_entries": "50",
    "hoodie.metadata.index.column.stats.enable": "true",
    "hoodie.clean.commits.retained": "1",
    "hoodie.table.services.enabled": "false",  # the tests call the verbs
}
Rows = dict[str, int]
_NUMBERS = count()


def rows(ids: range, ts: int) -> pa.Table:
    return pa.Table.from_pylist(
        [{"id": f"k{i}", "ts": ts, "part": f"p{i % 2}"} for i in ids], SCHEMA
    )


def opened(fs: MemoryFileSystem | CrashingFileSystem) -> Table:
    return Table(fs, options=parse_options(OPTIONS), engine=LocalEngine(1))


def snapshot(fs: MemoryFileSystem) -> Rows:
    found = opened(fs).scan(["id", "ts"]).to_arrow().to_pylist()
    result = {row["id"]: row["ts"] for row in found}
    if len(result) != len(found):
        return {"a key is there twice": len(found)}
    return result


def index_of(fs: MemoryFileSystem) -> set[str]:
    keys = [f"k{i}" for i in range(60)]
    found = opened(fs).lookup(keys)["found"].to_pylist()
    return {key for key, there in zip(keys, found, strict=True) if there}


def copy_of(fs: MemoryFileSystem) -> MemoryFileSystem:
    """Under a root of its own: opened files are kept by their paths."""
    root, store = f"case-{next(_NUMBERS)}", MemoryStore()
    skip = len(fs.root) + 1
    store.files.update({f"{root}/{path[skip:]}": data for path, data in fs.store.files.items()})
    return MemoryFileSystem(store, root)


def empty_table(kind: TableType, version: int | None = None) -> MemoryFileSystem:
    fs = MemoryFileSystem(root="origin")
    given = OPTIONS if version is None else OPTIONS | {VERSION: str(version)}
    options = parse_options(given)
    create(fs, NewTable(SCHEMA, "t", kind, ("id",), ("part",), ("ts",), options))
    return fs


def table(kind: TableType, version: int | None = None) -> MemoryFileSystem:
    """A table that has seen every kind of file: compactions, cleans, a rollback, a replace
    commit, a compaction that is planned."""
    fs = empty_table(kind, version)
    opened(fs).bulk_insert(rows(range(12), 1))
    opened(fs).upsert(rows(range(6), 2))
    opened(fs).insert_overwrite(rows(range(1, 12, 2), 3))
    opened(fs).delete(keys=["k10"])
    died(fs)
    opened(fs).upsert(rows(range(4, 16), 4))
    if kind is TableType.MERGE_ON_READ:
        opened(fs).compact()
        opened(fs).upsert(rows(range(2), 5))
        opened(fs).schedule_compaction()
    opened(fs).clean()
    opened(fs).upsert(rows(range(3), 6))
    return fs


def died(fs: MemoryFileSystem) -> None:
    """A write that stops shortly before its end."""
    try:
        opened(CrashingFileSystem(fs, stop=18)).upsert(rows(range(20, 26), 9))
    except Crash:
        return
    raise AssertionError("the write did not die")


WRITTEN = {
    TableType.COPY_ON_WRITE: re.compile(r"\.hoodie/(timeline/)?[0-9_]+\.(replace)?commit$"),
    TableType.MERGE_ON_READ: re.compile(r"\.hoodie/(timeline/)?[0-9_]+\.(delta|replace)commit$"),
}
"""The files that complete a write or an overwrite."""

DAMAGES: dict[str, Callable[[bytes], bytes | None]] = {
    "empty": lambda data: b"",
    "one byte": lambda data: data[:1],
    "half": lambda data: data[: len(data) // 2],
    "less one": lambda data: data[:-1],
    "zeros": lambda data: bytes(len(data)),
    "lost": lambda data: None,
}


@dataclass
class Totals:
    """What became of the cases; `bad`: silent, or broken after repair."""

    cases: int = 0
    outcomes: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)

    def __str__(self) -> str:
        summary = ", ".join(f"{name} {number}" for name, number in sorted(self.outcomes.items()))
        return f"{self.cases} cases: {summary}; bad {len(self.bad)}"


def cases(fs: MemoryFileSystem, *, seed: int, every: int) -> Iterator[tuple[str, str]]:
    """(path, damage), or one in `every` of them, from the seed on."""
    skip = len(fs.root) + 1
    paths = sorted(full[skip:] for full in fs.store.files)
    found = [
        (path, damage)
        for path in paths
        if not path.startswith(".hoodie/.pyhudi")
        for damage in DAMAGES
    ]
    yield from found[seed % every :: every]


def run(
    kind: TableType,
    totals: Totals,
    *,
    version: int | None = None,
    seed: int = 0,
    every: int = 1,
) -> None:
    before = table(kind, version)
    versions = {(f"k{i}", ts) for i in range(60) for ts in range(10)}
    want = snapshot(before)
    for path, damage in cases(before, seed=seed, every=every):
        data = before.read(path)
        bad = DAMAGES[damage](data)
        if bad == data:
            continue
        totals.cases += 1
        fs = copy_of(before)
        if bad is None:
            fs.delete([path])
        else:
            fs.replace(path, bad)
        is_undone = damage == "lost" and WRITTEN[kind].match(path) is not None
        for problem in look(fs, want, versions, totals, is_undone=is_undone):
            totals.bad.append(f"{kind.value} {version or ''} {path} {damage}: {problem}")


def look(
    fs: MemoryFileSystem,
    want: Rows,
    versions: set[tuple[str, int]],
    totals: Totals,
    *,
    is_undone: bool,
) -> Iterator[str]:
    """One damaged table, through all its stations; what is not as it should be."""
    reads, writes = read_and_write(fs, want)
    diagnosis = examine(fs, quick=False)
    totals.outcomes[f"read {reads}"] += 1
    totals.outcomes[f"write {writes}"] += 1
    if "silent" in (reads, writes) and (diagnosis.is_healthy or not is_undone):
        yield f"read {reads}, write {writes}" + ("" if diagnosis.is_healthy else ", named")
    if "right" not in (reads, writes) and diagnosis.is_healthy:
        yield "the doctor names nothing"
    execute_repair(fs)
    step = "repaired"
    if not works(fs, want):
        report = execute_repair(fs, allow_loss=True)
        step = "repaired with loss"
        if not report.is_healthy:
            yield f"not healthy after repair: {report.left[:2]} {report.notes}"
            totals.outcomes["not mended"] += 1
            return
    elif any(not f.loses for f in examine(fs).problems):
        yield f"works, but is not healthy: {examine(fs).problems[:2]}"
    try:
        after = snapshot(fs)
        if not set(after.items()) <= versions or index_of(fs) != set(after):
            yield f"{step}: rows that never were, or an index that differs"
        opened(fs).upsert(rows(range(30, 32), 9))
        if snapshot(fs) != {**after, "k30": 9, "k31": 9}:
            yield f"{step}: a write after it goes wrong"
    except PyhudiError as error:
        yield f"{step}: {error!r}"
        step = "not mended"
    totals.outcomes[step] += 1


def read_and_write(fs: MemoryFileSystem, want: Rows) -> tuple[str, str]:
    """What a reader and what a writer meet: "right", "typed" (an error), or "silent"."""
    try:
        reads = "right" if snapshot(fs) == want else "silent"
    except PyhudiError:
        reads = "typed"
    twin = copy_of(fs)
    try:
        opened(twin).upsert(rows(range(1, 40, 3), 8))
        expected = {**want, **{f"k{i}": 8 for i in range(1, 40, 3)}}
        writes = "right" if snapshot(twin) == expected else "silent"
    except PyhudiError:
        writes = "typed"
    return reads, writes


def works(fs: MemoryFileSystem, want: Rows) -> bool:
    try:
        twin = copy_of(fs)
        opened(twin).upsert(rows(range(1, 40, 3), 8))
        return snapshot(fs) == want and index_of(fs) == set(want)
    except PyhudiError:
        return False


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--version", type=int, default=9, help="of the tables")
    arguments = parser.parse_args()
    totals = Totals()
    for kind in TableType:
        run(kind, totals, version=arguments.version, seed=arguments.seed, every=arguments.every)
    for line in totals.bad:
        print(line)
    print(f"torn writes, seed {arguments.seed}: {totals}")
    return 3 if totals.bad else 0


if __name__ == "__main__":
    sys.exit(main())

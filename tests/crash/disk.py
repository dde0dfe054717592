"""A disk that fails at any call, and one that forgets what was not synced.

    python -m tests.crash.disk faults [--every N] [--seed S]     an error at each N-th call
    python -m tests.crash.disk power  [--every N]                a power loss after each N-th call
    python -m tests.crash.disk reads                             an error at each call of one read

Every operation is run in a new process on a copy of one table, with tests/support/disk_shim.c
between it and the disk.  After a fault the table holds the old rows or the new ones, a call that
returned has its effect, errors are those of this package, and the next write works.  After a power
loss likewise, where the disk is replayed pessimistically: bytes are there as of their last fsync,
names as of the last fsync of their folder.  One line of totals; exit code 3 where anything failed.
"""

from __future__ import annotations

import argparse
import ctypes
import errno
import importlib
import itertools
import multiprocessing
import os
import shutil
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import Any, Final

import pyarrow as pa

import pyhudi
from pyhudi.errors import PyhudiError
from pyhudi.storage.local import LocalFileSystem

SHIM: Final = Path(__file__).parents[1] / "support" / "disk_shim.c"
PROBLEMS: Final = 3  # the exit code
ERRORS: Final = (errno.ENOSPC, errno.EIO, errno.EACCES, errno.EMFILE, errno.EINTR)
SCHEMA: Final = pa.schema([("id", pa.string()), ("v", pa.int64())])
OPTIONS: Final = {
    "hoodie.metadata.record.index.min.filegroup.count": "1",
    "hoodie.cleaner.commits.retained": "1",
    "hoodie.clean.automatic": "false",
}
FORK: Final = multiprocessing.get_context("fork")

OPERATIONS: Final[dict[str, Callable[[pyhudi.Table], Any]]] = {
    "insert": lambda table: table.insert(rows(range(20, 23), 5)),
    "upsert": lambda table: table.upsert(rows(range(2, 22), 5)),
    "delete": lambda table: table.delete(keys=["k1", "k2"]),
    "compact": lambda table: table.compact(),
    "clean": lambda table: table.clean(),
}


def rows(numbers: range, value: int) -> pa.Table:
    columns = {"id": [f"k{n}" for n in numbers], "v": [value] * len(numbers)}
    return pa.table(columns, schema=SCHEMA)


def opened(place: Path) -> pyhudi.Table:
    return pyhudi.open_table(str(place), options=OPTIONS)


def make_table(place: Path) -> None:
    """A merge-on-read table with logs to compact and, once compacted, files to clean."""
    table = pyhudi.create_table(
        str(place), SCHEMA, record_key="id", table_type="mor", options=OPTIONS
    )
    table.bulk_insert(rows(range(10), 1))
    table.upsert(rows(range(5), 2))
    table.compact()
    table.upsert(rows(range(5), 3))
    table.compact()
    table.upsert(rows(range(5), 4))


def snapshot(place: Path) -> dict[str, int]:
    found = opened(place).scan(["id", "v"]).to_arrow().to_pylist()
    assert len({row["id"] for row in found}) == len(found), "a key is there twice"
    return {row["id"]: row["v"] for row in found}


def check_goes_on(place: Path, stored: dict[str, int]) -> None:
    """The next write works, and rows and index agree."""
    opened(place).upsert(rows(range(30, 32), 9))
    want = stored | {"k30": 9, "k31": 9}
    assert snapshot(place) == want, "the next write lost rows"
    keys = [f"k{n}" for n in range(40)]
    found = opened(place).lookup(keys)["found"].to_pylist()
    assert found == [key in want for key in keys], "the record index differs from the rows"


# ---- children --------------------------------------------------------------------------------


def in_child(work: Callable[[], Any]) -> Any:
    """What `work` returned in a process of its own, or the text of what it raised."""
    ours, theirs = FORK.Pipe(duplex=False)

    def run() -> None:
        try:
            theirs.send(["ok", work()])
        except BaseException:
            theirs.send(["raised", traceback.format_exc(limit=-6)])

    child = FORK.Process(target=run, daemon=True)
    child.start()
    theirs.close()
    try:
        answer = ours.recv()
    except EOFError:
        answer = ["raised", "the process died"]
    child.join()
    return answer


def in_first_child(work: Callable[[], Any]) -> Any:
    """As in_child.  What it imports is imported here too: else each child would do it again."""
    how, found = in_child(lambda: (work(), sorted(sys.modules)))
    if how != "ok":
        return how, found
    for name in found[1]:
        with suppress(ImportError):
            importlib.import_module(name)
    return how, found[0]


@cache
def disk_shim() -> Any:
    """The shim of this process: only there where it was loaded before libc."""
    shim = ctypes.CDLL(None)
    shim.disk_arm.argtypes = [ctypes.c_long, ctypes.c_int, ctypes.c_int]
    shim.disk_calls.restype = ctypes.c_long
    return shim


@dataclass(frozen=True)
class Fault:
    """Call `number` of an operation returns an error, before or after its work."""

    operation: str
    number: int
    error: int
    after: bool

    def __str__(self) -> str:
        when = "after" if self.after else "before"
        return f"{self.operation}, {errno.errorcode[self.error]} {when} call {self.number}"


@dataclass
class Totals:
    trials: int = 0
    succeeded: int = 0
    failed: int = 0
    problems: list[str] = field(default_factory=list)

    def add(self, problem: str) -> None:
        """Count a problem, and show it at once: a sweep takes long."""
        print(problem, flush=True)
        self.problems.append(problem)

    def line(self) -> str:
        return (f"{self.trials} trials, {self.succeeded} succeeded, {self.failed} raised an error "
                f"of this package, {len(self.problems)} problems")  # fmt: skip


def try_fault(place: Path, fault: Fault, new: dict[str, int], old: dict[str, int]) -> str:
    """The outcome of an operation that meets a fault; AssertionError where the table is wrong."""
    table, act = opened(place), OPERATIONS[fault.operation]
    outcome = "succeeded"
    disk_shim().disk_arm(fault.number, fault.error, int(fault.after))
    try:
        act(table)
    except PyhudiError:
        outcome = "failed"
    finally:
        disk_shim().disk_arm(-1, 0, 0)
    stored = snapshot(place)
    assert stored in (old, new), f"neither the old rows nor the new: {stored}"
    assert outcome == "failed" or stored == new, "it succeeded without an effect"
    if old != new:
        assert outcome == "succeeded" or stored == old, "it failed, yet its rows are there"
    check_goes_on(place, stored)
    return outcome


# ---- the two sweeps, in a process that has the shim ------------------------------------------


def sweep_faults(folder: Path, every: int, seed: int, operations: list[str]) -> Totals:
    """One fault at each `every`-th call of each operation, errors and sides in turn."""
    totals, base, trial = Totals(), folder / "base", folder / "trial"
    old = _made(base)
    for operation in operations:
        calls, new = _counted(base, trial, operation)
        for number in range(seed % every, calls, every):
            error = ERRORS[(number // every + seed) % len(ERRORS)]
            fault = Fault(operation, number, error, bool((number // every) % 2))
            _fresh(base, trial)
            how, what = in_child(lambda fault=fault, new=new: try_fault(trial, fault, new, old))
            totals.trials += 1
            if how == "raised":
                totals.add(f"{fault}: {what}")
            else:
                setattr(totals, what, getattr(totals, what) + 1)
    return totals


def sweep_reads(folder: Path) -> Totals:
    """Each error at each call of reading a file whole, and at a position: all of its bytes, or an
    error of this package."""
    totals, content = Totals(), bytes(range(256)) * 1024
    (folder / "file").write_bytes(content)
    fs = LocalFileSystem(folder)
    reads = (lambda: fs.read("file"), lambda: fs.read_range("file", 0, len(content)))
    for read, after, error in itertools.product(reads, (0, 1), ERRORS):
        disk_shim().disk_arm(-1, 0, 0)
        read()
        for number in range(disk_shim().disk_calls()):
            totals.trials += 1
            disk_shim().disk_arm(number, error, after)
            try:
                found = read()
                totals.succeeded += 1
                if found != content:
                    totals.add(f"{errno.errorcode[error]} at call {number}: {len(found)} bytes")
            except PyhudiError:
                totals.failed += 1
            except OSError as foreign:
                totals.add(f"{errno.errorcode[error]} at call {number}: {foreign!r}")
    disk_shim().disk_arm(-1, 0, 0)
    return totals


def _made(base: Path) -> dict[str, int]:
    """The rows of a new table."""

    def make() -> dict[str, int]:
        make_table(base)
        return snapshot(base)

    how, rows = in_first_child(make)
    assert how == "ok", rows
    return dict(rows)


def _fresh(base: Path, trial: Path) -> None:
    shutil.rmtree(trial, ignore_errors=True)
    shutil.copytree(base, trial)


def _counted(base: Path, trial: Path, operation: str) -> tuple[int, dict[str, int]]:
    """(calls of an operation without a fault, the rows after it)."""

    def run() -> tuple[int, dict[str, int]]:
        table = opened(trial)
        disk_shim().disk_arm(-1, 0, 0)
        OPERATIONS[operation](table)
        return disk_shim().disk_calls(), snapshot(trial)

    _fresh(base, trial)
    how, found = in_child(run)
    assert how == "ok", found
    return found[0], found[1]


def sweep_power(folder: Path, every: int, operations: list[str]) -> Totals:
    """A power loss after each `every`-th recorded call of each operation, and after the last."""
    totals, base, trial = Totals(), folder / "base", folder / "trial"
    old = _made(base)
    for operation in operations:
        _fresh(base, trial)
        log = folder / f"{operation}.log"
        new = in_child(lambda operation=operation, log=log: _recorded(trial, operation, log))[1]
        lines = [line.split("\t") for line in log.read_text().splitlines()]
        for stop in sorted({*range(0, len(lines), every), len(lines)}):
            _fresh(base, trial)
            _replay(lines[:stop], log, trial)
            last = stop == len(lines)
            how, what = in_child(lambda new=new, last=last: _check_power(trial, old, new, last))
            totals.trials += 1
            totals.succeeded += how == "ok"
            if how == "raised":
                totals.add(f"{operation}, power lost after call {stop}: {what}")
    return totals


def _recorded(place: Path, operation: str, log: Path) -> dict[str, int]:
    ctypes.CDLL(None).setenv(b"PYHUDI_DISK_LOG", os.fsencode(log), 1)
    OPERATIONS[operation](opened(place))
    ctypes.CDLL(None).unsetenv(b"PYHUDI_DISK_LOG")
    return snapshot(place)


def _replay(lines: list[list[str]], log: Path, root: Path) -> None:
    """Bring the table at `root` to what a disk holds that lost all that was not synced.

    A file is known by a name it was made under; names point to files.  `seen` is what the process
    saw, `durable` the names of the folders that were synced since; bytes are those of the file's
    last fsync, or none.
    """
    seen: dict[str, str | None] = {}  # name -> file, None: removed
    content: dict[str, str] = {}  # file -> number of the copy
    durable: dict[str, str | None] = {}
    folders: set[str] = set()
    for verb, path, more in lines:
        match verb:
            case "create":
                seen[path] = path
            case "link":
                seen[more] = seen.get(path) or path
            case "rename":
                seen[more], seen[path] = seen.get(path) or path, None
            case "unlink":
                seen[path] = None
            case "mkdir" | "rmdir":
                seen[path] = None if verb == "rmdir" else f"{path}/"
            case "fsync":
                content[seen.get(path) or path] = more
            case "fsync-folder":
                inside = {p: f for p, f in seen.items() if os.path.dirname(p) == path}
                durable |= inside
                folders |= {p for p, f in inside.items() if f and f.endswith("/")}
    for path, file in sorted(durable.items()):
        if os.path.commonpath([path, root]) != str(root):
            continue
        if file is None:
            Path(path).unlink(missing_ok=True) if not Path(path).is_dir() else None
        elif file.endswith("/"):
            Path(path).mkdir(exist_ok=True)
        elif Path(path).parent.is_dir():
            copied = content.get(file)
            Path(path).write_bytes(Path(f"{log}.{copied}").read_bytes() if copied else b"")


def _check_power(place: Path, old: dict[str, int], new: dict[str, int], last: bool) -> str:
    stored = snapshot(place)
    assert stored in (old, new), f"neither the old rows nor the new: {stored}"
    assert not last or stored == new, "an acknowledged operation is gone"
    check_goes_on(place, stored)
    return "succeeded"


# ---- the door --------------------------------------------------------------------------------


def run_with_shim(
    *arguments: str, capture: bool = True, module: str = "tests.crash.disk"
) -> subprocess.CompletedProcess[str]:
    """A program with the shim loaded.  Raises FileNotFoundError without a C compiler."""
    with tempfile.TemporaryDirectory() as made:
        library = Path(made) / "shim.so"
        compiler = os.environ.get("CC", "cc").split()[0]
        subprocess.run([compiler, "-shared", "-fPIC", "-O1", "-o", str(library), str(SHIM),
                        "-ldl", "-lpthread"], check=True)  # fmt: skip
        place = Path(made) / "disk"
        place.mkdir()
        disk = {"LD_PRELOAD": str(library), "PYHUDI_DISK_ROOT": str(place)}
        command = [sys.executable, "-m", module, *arguments]
        return subprocess.run(
            command, env={**os.environ, **disk}, text=True, capture_output=capture, check=False,
            cwd=Path(__file__).parents[2],
        )  # fmt: skip


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("sweep", choices=("faults", "power", "reads"))
    parser.add_argument("--every", type=int, default=1)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--operations", nargs="+", default=list(OPERATIONS))
    parser.add_argument("--version", default="9", help="of the tables")
    arguments = parser.parse_args()
    OPTIONS["hoodie.write.table.version"] = arguments.version
    root = os.environ.get("PYHUDI_DISK_ROOT")
    if root is None:
        return run_with_shim(*sys.argv[1:], capture=False).returncode
    folder = Path(root)
    if arguments.sweep == "faults":
        totals = sweep_faults(folder, arguments.every, arguments.seed, arguments.operations)
    elif arguments.sweep == "reads":
        totals = sweep_reads(folder)
    else:
        totals = sweep_power(folder, arguments.every, arguments.operations)
    print(totals.line())
    return PROBLEMS if totals.problems else 0


if __name__ == "__main__":
    sys.exit(main())

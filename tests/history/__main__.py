"""Writers and services on one table, and a checker of what they leave.

    python -m tests.history --seed 1 --rounds 20 --ops 500 --writers 8
    python -m tests.history --processes --seed 1 --rounds 2 --ops 200 --writers 4
    python -m tests.history --chaos --minutes 10 --writers 8 [--store s3]

A round is a new table with a thousand keys, copy-on-write and merge-on-read in turn, on which the
writers do their share of the operations at a time: threads on a store in memory, or processes on
the disk.  In chaos, processes are killed at random and begun anew until the time is up, on the
disk, on a server that speaks S3, or on HDFS.  One line of totals; exit code 3 where the checker
finds a problem.
"""

from __future__ import annotations

import argparse
import multiprocessing
import os
import random
import signal
import sys
import tempfile
import threading
import time
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

from pyhudi.storage.filesystem import FileSystem
from pyhudi.storage.memory import MemoryFileSystem
from pyhudi.storage.url_resolver import locate
from pyhudi.table.properties import TableType
from tests.history.check import Verdict, check
from tests.history.ops import Diary, Writer, new_table, read_diaries
from tests.support.hdfs import hdfs
from tests.support.object_stores import s3_server

KEYS: Final = 1000
COUNTS: Final = ("commits", "undone", "reads", "expired", "conflicts", "refused", "kills")
PROBLEMS: Final = 3  # the exit code


def round_of_threads(
    fs: FileSystem,
    kind: TableType,
    *,
    seed: int,
    ops: int,
    writers: int,
    keys: int = KEYS,
    version: int = 9,
) -> Verdict:
    """Writers in threads; what one of them raised is a problem."""
    new_table(fs, kind, version)
    diaries = [Diary() for _ in range(writers)]
    raised: list[str] = []

    def work(number: int) -> None:
        writer = Writer(fs, f"w{number}", diaries[number], seed=seed, keys=keys)
        try:
            for step in range(-(-ops // writers)):
                writer.step(step)
        except Exception:
            raised.append(traceback.format_exc())

    threads = [threading.Thread(target=work, args=(n,)) for n in range(writers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    verdict = check(fs, [line for diary in diaries for line in diary.lines], seed=seed)
    verdict.problems += raised
    return verdict


SERVED: list[tuple[str, dict[str, str]]] = []
"""URL and options of the store that a server has, if one has it."""


def store_of(folder: Path) -> FileSystem:
    """Where the table is: on a server, or below the folder."""
    url, options = SERVED[0] if SERVED else (str(folder / "t"), None)
    return locate(url, storage_options=options)


def serve(store: str, pipe: Any) -> None:
    """A server in a process of its own: the parent of forked processes starts no thread."""
    if store == "s3":
        with s3_server() as bucket:
            pipe.send(("s3://bucket/chaos", bucket.options))
            pipe.recv()
    else:
        with hdfs() as cluster:
            pipe.send((f"hdfs://{cluster.address}/chaos", cluster.options))
            pipe.recv()


def worker(folder: Path, name: str, *, seed: int, ops: int, keys: int = KEYS) -> None:
    """One process: `ops` operations, or without end where that is 0."""
    fs = store_of(folder)
    writer = Writer(fs, name, Diary(folder / f"{name}.jsonl"), seed=seed, keys=keys)
    step = 0
    while not ops or step < ops:
        writer.step(step)
        step += 1


FORK: Final = multiprocessing.get_context("fork")
"""Children begin with everything imported.  The parent starts no thread before they end."""


def in_child(work: Callable[..., None], *args: Any, **named: Any) -> Any:
    child = FORK.Process(target=work, args=args, kwargs=named, daemon=True)
    child.start()
    return child


def make_table(folder: Path, kind: TableType, version: int = 9) -> None:
    maker = in_child(lambda: new_table(store_of(folder), kind, version))
    maker.join()
    assert maker.exitcode == 0


def begin(folder: Path, name: str, *, seed: int, ops: int, keys: int = KEYS) -> Any:
    """A process with one writer; what it raises is in its log."""

    def work() -> None:
        with open(folder / f"{name}.log", "w", encoding="utf-8") as log:
            os.dup2(log.fileno(), 2)
            worker(folder, name, seed=seed, ops=ops, keys=keys)

    return in_child(work)


def round_of_processes(
    folder: Path, kind: TableType, *, seed: int, ops: int, writers: int, version: int = 9
) -> Verdict:
    make_table(folder, kind, version)
    share = -(-ops // writers)
    children = {f"w{n}": begin(folder, f"w{n}", seed=seed, ops=share) for n in range(writers)}
    for child in children.values():
        child.join()
    verdict = check(store_of(folder), read_diaries(folder), seed=seed)
    verdict.problems += [_tail(folder, name) for name, c in children.items() if c.exitcode]
    return verdict


def chaos(
    folder: Path,
    kind: TableType,
    *,
    seed: int,
    seconds: float,
    writers: int,
    pause: float,
    version: int = 9,
) -> Verdict:
    """Processes that are killed at random and begun anew.  pause: between two kills at most."""
    dice = random.Random(seed)
    make_table(folder, kind, version)
    end = time.monotonic() + seconds
    alive: dict[str, Any] = {}
    problems: list[str] = []
    kills = number = 0
    while time.monotonic() < end:
        while len(alive) < writers:
            name = f"w{number}"
            alive[name] = begin(folder, name, seed=seed, ops=0)
            number += 1
        time.sleep(dice.uniform(0.0, pause))
        for name in [name for name, child in alive.items() if not child.is_alive()]:
            alive.pop(name)
            problems.append(_tail(folder, name))
        if alive:
            _kill(alive.pop(dice.choice(sorted(alive))))
            kills += 1
    for child in alive.values():
        _kill(child)
    fs = store_of(folder)
    last = Writer(fs, "last", Diary(folder / "last.jsonl"), seed=seed, keys=KEYS)
    last.write("last-0", "upsert")  # recovers what the killed ones left, and sees what they did
    verdict = check(fs, read_diaries(folder), seed=seed)
    verdict.problems += problems
    verdict.kills = kills
    return verdict


def _kill(child: Any) -> None:
    os.kill(child.pid, signal.SIGKILL)
    child.join()


def _tail(folder: Path, name: str) -> str:
    return f"{name}: " + (folder / f"{name}.log").read_text("utf-8", "replace")[-2500:]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--rounds", type=int, default=2)
    parser.add_argument("--ops", type=int, default=100)
    parser.add_argument("--writers", type=int, default=0)
    parser.add_argument("--minutes", type=float, default=2.0)
    parser.add_argument("--pause", type=float, default=3.0)
    parser.add_argument("--processes", action="store_true")
    parser.add_argument("--chaos", action="store_true")
    parser.add_argument("--store", choices=("s3", "hdfs"), help="of chaos; default: the disk")
    parser.add_argument("--keep", type=Path)
    parser.add_argument("--version", type=int, help="of the tables; default: 9 and 6 in turns")
    arguments = parser.parse_args()
    if arguments.store:
        ours, theirs = multiprocessing.Pipe()
        in_child(serve, arguments.store, theirs)
        SERVED[:] = [ours.recv()]
    began, found = time.monotonic(), 0
    totals = dict.fromkeys(("rounds", *COUNTS), 0)
    for number in range(1 if arguments.chaos else arguments.rounds):
        seed = arguments.seed + number
        kind = list(TableType)[seed % 2]
        verdict = one_round(arguments, kind, seed)
        totals["rounds"] += 1
        for name in COUNTS:
            totals[name] += getattr(verdict, name)
        for problem in verdict.problems:
            print(f"seed {seed} ({kind.value}): {problem}", flush=True)
        found += len(verdict.problems)
    facts = ", ".join(f"{count} {name}" for name, count in totals.items())
    print(f"{facts}, {found} problems, {time.monotonic() - began:.0f} s")
    return PROBLEMS if found else 0


def one_round(arguments: argparse.Namespace, kind: TableType, seed: int) -> Verdict:
    writers = arguments.writers or random.Random(seed).randint(2, 16)
    version = arguments.version or (9, 6)[seed // 2 % 2]
    if not arguments.processes and not arguments.chaos:
        return round_of_threads(
            MemoryFileSystem(), kind, seed=seed, ops=arguments.ops, writers=writers,
            version=version,
        )  # fmt: skip
    with tempfile.TemporaryDirectory() as made:
        folder = arguments.keep or Path(made)
        folder.mkdir(parents=True, exist_ok=True)
        if arguments.chaos:
            seconds, pause = 60 * arguments.minutes, arguments.pause
            return chaos(
                folder, kind, seed=seed, seconds=seconds, writers=writers, pause=pause,
                version=version,
            )  # fmt: skip
        return round_of_processes(
            folder, kind, seed=seed, ops=arguments.ops, writers=writers, version=version
        )


if __name__ == "__main__":
    sys.exit(main())

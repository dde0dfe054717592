"""Damaged files of every format, read: the same values, a typed error, or a change nobody can see.

    python -m tests.fuzz.run [--seed 0] [--count 2000] [--only HFile]

Each format runs in a child process, which the parent watches: a signal, a read of more than 5 s of
its own time or 512 MB of memory is a failure, and so is any error that is not pyhudi's.  Prints a
row a format and one line of totals; exit code 3 where anything failed.
"""

from __future__ import annotations

import argparse
import multiprocessing as mp
import random
import resource
import sys
import time
from collections import Counter
from multiprocessing.connection import Connection

from pyhudi.errors import PyhudiError
from tests.fuzz.changes import changed
from tests.fuzz.targets import Target, targets

SECONDS_MAX = 5.0
BYTES_MAX = 512 << 20
_STALL_SECONDS = 120.0  # of the parent's patience; machines are shared


def memory_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def fuzz(target: Target, *, seed: int, count: int) -> tuple[Counter[str], list[str]]:
    """Outcomes of `count` changed files, and what must not be."""
    rnd = random.Random(f"{seed} {target.name}")
    truths = [target.read(data) for data in target.files]
    start = memory_peak()
    outcomes: Counter[str] = Counter()
    bad: list[str] = []
    for case in range(count):
        which = rnd.randrange(len(truths))
        data = changed(target.files[which], rnd)
        began = time.thread_time()
        try:
            outcome = "same" if target.read(data) == truths[which] else "silent"
        except PyhudiError:
            outcome = "error"
        except Exception as error:  # what is not ours is what is looked for
            outcome = "failed"
            bad.append(f"{target.name} case {case}: {type(error).__name__}: {error}"[:300])
        if time.thread_time() - began > SECONDS_MAX:
            bad.append(f"{target.name} case {case}: took {time.thread_time() - began:.1f} s")
        if outcome == "silent" and target.protected:
            bad.append(f"{target.name} case {case}: other values, and no error")
        outcomes[outcome] += 1
    grown = memory_peak() - start
    if grown > BYTES_MAX:
        bad.append(f"{target.name}: {grown >> 20} MB of memory")
    return outcomes, bad


def _child(pipe: Connection, name: str, seed: int, count: int) -> None:
    target = next(t for t in targets() if t.name == name)
    step = max(1, count // 20)
    for number in range(0, count, step):
        pipe.send(fuzz(target, seed=seed + number, count=min(step, count - number)))
    pipe.close()


def watched(name: str, *, seed: int, count: int) -> tuple[Counter[str], list[str]]:
    """`fuzz` in a process of its own."""
    context = mp.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(sending, name, seed, count), daemon=True)
    child.start()
    sending.close()
    outcomes: Counter[str] = Counter()
    bad: list[str] = []
    try:
        while receiving.poll(_STALL_SECONDS):
            found, wrong = receiving.recv()
            outcomes += found
            bad += wrong
        bad.append(f"{name}: no answer for {_STALL_SECONDS:.0f} s")
        child.kill()
    except EOFError:
        child.join()
        if child.exitcode:
            bad.append(f"{name}: the process ended with {child.exitcode}")
    return outcomes, bad


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--only")
    asked = parser.parse_args()
    total: Counter[str] = Counter()
    failures: list[str] = []
    for target in targets():
        if asked.only in (None, target.name):
            outcomes, bad = watched(target.name, seed=asked.seed, count=asked.count)
            total += outcomes
            failures += bad
            told = "  ".join(f"{n} {outcomes[n]:>6}" for n in ("same", "error", "silent", "failed"))
            print(f"{target.name:<22} {told}", flush=True)
    for line in failures[:50]:
        print(line)
    told = ", ".join(f"{name} {number}" for name, number in sorted(total.items()))
    print(f"fuzz, seed {asked.seed}: {sum(total.values())} files: {told}; bad {len(failures)}")
    return 3 if failures else 0


if __name__ == "__main__":
    sys.exit(main())

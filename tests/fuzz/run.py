"""Damaged files of every format, read: the same values, a typed error, or a change nobody can see.

    python -m tests.fuzz.run [--seed 0] [--count 2000] [--only HFile]

Each format runs in a child process, which the parent watches: a signal, a read of more than 5 s of
its own time or 512 MB of memory is a failure, and so is any error that is not pyhudi's.  Prints a
row a format and one line of totals; exit code 3 where anything failed.
"""

from __future__ import annotations

import argparse
import logging
import multiprocessing as mp
import random
import resource
import sys
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from typing import Any

from pyhudi.errors import PyhudiError
from tests.fuzz.changes import Edit, changed
from tests.fuzz.targets import Target, targets
from tests.fuzz.unseen import END, ONLY_WITH, SHIFTED, UNSEEN

SECONDS_MAX = 5.0
BYTES_MAX = 512 << 20
_BYTES_MIN = 6  # a magic: shorter files are empty ones
_STALL_SECONDS = 120.0  # of the parent's patience; machines are shared


def memory_peak() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


@dataclass
class Found:
    """outcomes: same, error, silent, failed.  silent: wrong values by region.  bad: what must not
    be."""

    outcomes: Counter[str] = field(default_factory=Counter)
    silent: Counter[str] = field(default_factory=Counter)
    bad: list[str] = field(default_factory=list)

    def add(self, other: Found) -> None:
        self.outcomes += other.outcomes
        self.silent += other.silent
        self.bad += other.bad


def fuzz(target: Target, *, seed: int, count: int) -> Found:
    """Read `count` changed files of a format."""
    rnd = random.Random(f"{seed} {target.name}")
    truths = [target.read(data) for data in target.files]
    start = memory_peak()
    found = Found()
    for case in range(count):
        which = rnd.randrange(len(truths))
        data, edits = changed(target.files[which], rnd)
        began = time.thread_time()
        outcome, error = _outcome(target, data, truths[which])
        if time.thread_time() - began > SECONDS_MAX:
            error = f"took {time.thread_time() - began:.1f} s"
        found.outcomes[outcome] += 1
        if outcome == "silent":
            good = target.files[which]
            regions = blamed(target, good, truths[which], edits, len(data))
            found.silent[" + ".join(sorted(regions))] += 1
            error = unlisted(target, regions)
        if error:
            found.bad.append(f"{target.name} case {case}: {error}"[:300])
    grown = memory_peak() - start
    if grown > BYTES_MAX:
        found.bad.append(f"{target.name}: {grown >> 20} MB of memory")
    return found


def _outcome(target: Target, data: bytes, truth: Any) -> tuple[str, str]:
    """What came of reading, and what is wrong with it."""
    try:
        return "same" if target.read(data) == truth else "silent", ""
    except PyhudiError:
        return "error", ""
    except Exception as error:  # what is not ours is what is looked for
        return "failed", f"{type(error).__name__}: {error}"


def blamed(target: Target, good: bytes, truth: Any, edits: Sequence[Edit], left: int) -> set[str]:
    """The regions whose change is not seen: of the first edit that alone is silent, else of all.
    Where hardly a byte is left it is the end that is gone."""
    if left < _BYTES_MIN:
        return {END}
    names = target.regions(good)
    if len(edits) > 1:
        for edit in edits:
            alone = edit.applied(good)
            if alone != good and _outcome(target, alone, truth)[0] == "silent":
                return _touched(edit, names)
    return set().union(*(_touched(edit, names) for edit in edits))


def _touched(edit: Edit, names: Sequence[str]) -> set[str]:
    """Regions of the bytes that an edit changed; of what it took out or put in, the two ends."""
    if edit.is_cut and edit.end == len(names):
        return {END}
    last = len(names) - 1
    places = range(edit.start, edit.end)
    if len(edit.data) == len(places):
        return {names[at] for at in places}
    ends = (max(edit.start - (not places), 0), edit.start if not places else edit.end - 1)
    return {names[min(at, last)] + SHIFTED for at in ends}


def unlisted(target: Target, regions: set[str]) -> str:
    """What is wrong with a silent change of these regions; empty if it is on the list."""
    listed: set[str] = set()
    if not target.protected:
        partners = ONLY_WITH.get(target.format, {})
        listed = {*UNSEEN.get(target.format, ())}
        touched = {region.removesuffix(SHIFTED) for region in regions}
        listed |= {region for region, some in partners.items() if touched.intersection(some)}
    regions = regions - {region + SHIFTED for region in listed}
    missing = sorted(regions - listed)
    return f"other values, and no error, by a change of: {', '.join(missing)}" if missing else ""


def _child(pipe: Connection, name: str, seed: int, count: int) -> None:
    logging.disable(logging.WARNING)  # a table says so where its metadata table is damaged
    target = next(t for t in targets() if t.name == name)
    step = max(1, count // 20)
    for number in range(0, count, step):
        pipe.send(fuzz(target, seed=seed + number, count=min(step, count - number)))
    pipe.close()


def watched(name: str, *, seed: int, count: int) -> Found:
    """`fuzz` in a process of its own."""
    context = mp.get_context("spawn")
    receiving, sending = context.Pipe(duplex=False)
    child = context.Process(target=_child, args=(sending, name, seed, count), daemon=True)
    child.start()
    sending.close()
    found = Found()
    try:
        while receiving.poll(_STALL_SECONDS):
            found.add(receiving.recv())
        found.bad.append(f"{name}: no answer for {_STALL_SECONDS:.0f} s")
        child.kill()
    except EOFError:
        child.join()
        if child.exitcode:
            found.bad.append(f"{name}: the process ended with {child.exitcode}")
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--count", type=int, default=2000)
    parser.add_argument("--only")
    arguments = parser.parse_args()
    total = Found()
    for target in targets():
        if arguments.only in (None, target.name, target.format):
            found = watched(
                target.name, seed=arguments.seed, count=max(arguments.count // target.cost, 1)
            )
            total.add(found)
            counts = (f"{n} {found.outcomes[n]:>6}" for n in ("same", "error", "silent", "failed"))
            print(f"{target.name:<22} {'  '.join(counts)}", flush=True)
            for region, number in found.silent.most_common():
                print(f"    unseen: {region:<40} {number:>6}")
    for line in total.bad[:50]:
        print(line)
    counts = (f"{name} {number}" for name, number in sorted(total.outcomes.items()))
    print(f"fuzz, seed {arguments.seed}: {total.outcomes.total()} files: {', '.join(counts)}; "
          f"bad {len(total.bad)}")  # fmt: skip
    return 3 if total.bad else 0


if __name__ == "__main__":
    sys.exit(main())

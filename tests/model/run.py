"""Every order of steps of three writers, two crashes and the services, with put-if-absent and not.

    python -m tests.model.run [--writers 3] [--crashes 2] [--services 1] [--losses 1] [--version 9]

With it no state may be bad; without it, and without each of the other rules, a counter-example
must come out, or the model sees nothing.  Prints one line of totals; exit code 3 otherwise.
"""

from __future__ import annotations

import argparse
import sys
from collections import deque
from dataclasses import dataclass, replace
from itertools import combinations_with_replacement

from tests.model.table import KEYS, Rules, Table, faults, start, steps


@dataclass(frozen=True)
class Searched:
    """states: how many different ones were reached.  path: steps to a bad one, if there is one."""

    states: int
    path: tuple[str, ...] = ()
    fault: str = ""


def search(first: Table, rules: Rules) -> Searched:
    """Breadth first, so that a counter-example is the shortest."""
    came_from: dict[Table, tuple[Table, str] | None] = {first: None}
    todo = deque([first])
    while todo:
        table = todo.popleft()
        for name, after in steps(table, rules):
            if after in came_from:
                continue
            came_from[after] = (table, name)
            fault = next(faults(after, rules), None)
            if fault is not None:
                return Searched(len(came_from), _path(came_from, after), fault)
            todo.append(after)
    return Searched(len(came_from))


def _path(came_from: dict[Table, tuple[Table, str] | None], last: Table) -> tuple[str, ...]:
    names: list[str] = []
    step = came_from[last]
    while step is not None:
        last, name = step
        names.append(name)
        step = came_from[last]
    return tuple(reversed(names))


def starts(writers: int) -> list[Table]:
    """Writers on the keys, in every way that differs by more than the keys' names."""
    found = []
    for keys in combinations_with_replacement(KEYS, writers):
        renamed = tuple(sorted(set(keys)).index(key) for key in keys)
        if renamed not in found:
            found.append(renamed)
    return [start(keys) for keys in found]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--writers", type=int, default=3)
    parser.add_argument("--crashes", type=int, default=2)
    parser.add_argument("--services", type=int, default=1)
    parser.add_argument("--losses", type=int, default=1)
    parser.add_argument("--version", type=int, default=9, choices=(6, 9))
    arguments = parser.parse_args()
    rules = Rules(
        crashes=arguments.crashes,
        services=arguments.services,
        losses=arguments.losses,
        completion_times=arguments.version > 6,
    )
    states = bad = 0
    for first in starts(arguments.writers):
        found = search(first, rules)
        states += found.states
        if found.fault:
            bad += 1
            print(f"with all rules: {found.fault}:\n  " + "\n  ".join(found.path))
    missing = 0
    for name, without in weakened(rules).items():
        example = next((f for f in (search(s, without) for s in starts(2)) if f.fault), Searched(0))
        missing += not example.fault
        summary = (
            f"a counter-example of {len(example.path)} steps" if example.fault else "NONE FOUND"
        )
        print(f"without {name}: {summary}: {example.fault}\n  " + "\n  ".join(example.path))
    print(f"model of {arguments.writers} writers: {states} states with all rules, {bad} bad")
    return 0 if not bad and not missing else 3


def weakened(rules: Rules) -> dict[str, Rules]:
    """The rules without one of what they rest on."""
    ends = {"completion times drawn under the lock": replace(rules, ends_under_lock=False)}
    return {
        **(ends if rules.completion_times else {}),
        "put-if-absent": replace(rules, atomic_put=False, losses=0),
        "fencing of late commits": replace(rules, fenced=False),
        "giving way to rollbacks": replace(rules, gives_way=False),
    }


if __name__ == "__main__":
    sys.exit(main())

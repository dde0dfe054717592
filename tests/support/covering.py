"""Which cases of a test with several parameters the default suite runs; the others are slow.

Each value of each parameter (version, table type, index, mode ...) is in a case that runs; after
`@pytest.mark.covering(2)` each two values of different parameters that meet at all, after
`covering(0)` one case, which the name of the test decides.  Of many values of one kind, such as
golden tables, `covering(1, most=12)` takes 12, evenly from the first to the last, and each value of
the other parameters.  A case with `@pytest.mark.long` is not chosen: another does the same with
fewer examples or steps.  Cases are chosen in their order, so a run can be repeated.  `--every-case`
runs all, as do the long forms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import Any
from zlib import crc32

import pytest

Case = Sequence[tuple[str, Hashable]]
"""Parameter and value, or what stands for the value."""


def covering(cases: Sequence[Case], n: int) -> set[int]:
    """Positions of cases that together have every combination of n values; greedy."""
    missing = [set(combinations(case, min(n, len(case)))) for case in cases]
    chosen: set[int] = set()
    while any(missing):
        best = max(range(len(cases)), key=lambda number: len(missing[number]))
        chosen.add(best)
        found = missing[best]
        missing = [combination - found for combination in missing]
    return chosen


def with_few_values(cases: Sequence[Case], most: int) -> list[int]:
    """Positions of the cases that are left if each parameter has at most so many values, evenly
    from its first to its last."""
    values: dict[str, list[Hashable]] = defaultdict(list)
    for case in cases:
        for name, value in case:
            if value not in values[name]:
                values[name].append(value)
    left = {
        (name, found[len(found) * place // min(most, len(found))])
        for name, found in values.items()
        for place in range(min(most, len(found)))
    }
    return [number for number, case in enumerate(cases) if left.issuperset(case)]


def mark_others_slow(items: Sequence[Any]) -> None:
    """Mark what `covering` does not choose; cases that are slow already count for nothing."""
    functions = defaultdict(list)
    for item in items:
        if item.get_closest_marker("long"):
            item.add_marker(pytest.mark.slow)
        if hasattr(item, "callspec") and not item.get_closest_marker("slow"):
            functions[item.nodeid.partition("[")[0]].append(item)
    for found in functions.values():
        marker = found[0].get_closest_marker("covering")
        n = marker.args[0] if marker else 1
        one = crc32(found[0].originalname.encode()) % len(found)
        cases = [_case(item) for item in found]
        most = marker.kwargs.get("most") if marker else None
        few = list(range(len(cases))) if most is None else with_few_values(cases, most)
        chosen = {few[number] for number in covering([cases[place] for place in few], n)}
        if not n:
            chosen = {one}
        for number, item in enumerate(found):
            if number not in chosen:
                item.add_marker(pytest.mark.slow)


def _case(item: Any) -> list[tuple[str, str]]:
    return sorted((name, repr(value)) for name, value in item.callspec.params.items())

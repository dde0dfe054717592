"""Which cases of a test with several parameters the default suite runs; the others are slow.

Each value of each parameter (index, mode, input ...) is in a case that runs.  The version and the
type of the table are settings that most tests have: the name of a test decides which ones meet
these values, so the tests of an area together have them all.  After `@pytest.mark.covering(1)` each
version and type is in a case too; after `covering(2)` each two values of different parameters that
meet at all, after `covering(0)` one case, which the name of the test decides.  Of many values of
one kind, such as golden tables, `covering(1, most=12)` takes 12, evenly from the first to the last,
and each value of the other parameters.  A case with `@pytest.mark.long` is not chosen: another does
the same with fewer examples or steps.  Names decide all of this, so a run can be repeated.
`--every-case` runs all, as do the long forms.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Hashable, Sequence
from itertools import combinations
from typing import Any
from zlib import crc32

import pytest

from pyhudi.table.properties import TableType

Case = Sequence[tuple[str, Hashable]]
"""Parameter and value, or what stands for the value."""

SETTINGS = {repr(value) for value in (6, 8, 9, "6", "8", "9", "cow", "mor", *TableType)} | {
    repr(kind.value) for kind in TableType
}
"""Parameters that have only such values are the version or the type of the table."""


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


def without_settings(cases: Sequence[Case]) -> list[Case]:
    """The cases less the version and the type of the table; a case of nothing else has one value,
    so that one of them is chosen."""
    values: dict[str, set[Hashable]] = defaultdict(set)
    for case in cases:
        for name, value in case:
            values[name].add(value)
    settings = {name for name, found in values.items() if found <= SETTINGS}
    return [[pair for pair in case if pair[0] not in settings] or [("any", "")] for case in cases]


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
        if marker is None:  # of cases that differ in settings alone, the name decides
            found.sort(key=lambda item: crc32(item.nodeid.encode()))
        cases = [_case(item) for item in found]
        if marker is None:
            cases = without_settings(cases)
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

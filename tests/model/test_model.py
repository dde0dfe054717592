"""The small form of the model: two writers in full, three in part, with all rules and without."""

from __future__ import annotations

from dataclasses import replace

import pytest

from tests.model.run import Searched, search, starts, weakened
from tests.model.table import Rules


@pytest.mark.parametrize("completion_times", [False, True], ids=["6", "9"])
@pytest.mark.parametrize(
    ("writers", "rules"),
    [(2, Rules(crashes=2, services=2, losses=2)), (3, Rules(crashes=0, services=0, losses=1))],
    ids=["two", "three"],
)
def test_with_all_rules_no_order_of_steps_ends_badly(
    writers: int, rules: Rules, completion_times: bool
) -> None:
    rules = replace(rules, completion_times=completion_times)
    for first in starts(writers)[:2]:
        found = search(first, rules)
        assert not found.fault, (found.fault, found.path)
        assert found.states > 200


WEAKENED = {
    f"{name}, version {version}": rules
    for version in (6, 9)
    for name, rules in weakened(Rules(completion_times=version > 6)).items()
}


@pytest.mark.parametrize("name", WEAKENED)
def test_without_one_of_them_there_is_a_counter_example(name: str) -> None:
    rules = WEAKENED[name]
    found = next((f for f in (search(s, rules) for s in starts(2)) if f.fault), Searched(0))
    assert found.fault
    assert len(found.path) < 25

"""The small form of the model: two writers in full, three in part, with all rules and without."""

from __future__ import annotations

import pytest

from tests.model.run import search, starts, weakened
from tests.model.table import Rules


@pytest.mark.parametrize(
    ("writers", "rules"),
    [(2, Rules(crashes=2, services=2, losses=2)), (3, Rules(crashes=0, services=0, losses=1))],
    ids=["two", "three"],
)
def test_with_all_rules_no_order_of_steps_ends_badly(writers: int, rules: Rules) -> None:
    for first in starts(writers)[:2]:
        found = search(first, rules)
        assert not found.fault, (found.fault, found.path)
        assert found.states > 200


@pytest.mark.parametrize("name", weakened(Rules()))
def test_without_one_of_them_there_is_a_counter_example(name: str) -> None:
    found = search(starts(2)[0], weakened(Rules())[name])
    assert found.fault
    assert len(found.path) < 25

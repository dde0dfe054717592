"""The default suite runs enough cases for values to meet, and no more."""

from __future__ import annotations

from itertools import combinations, product

import pytest

from tests.support.covering import covering

CASES = [
    tuple(zip(("version", "kind", "index"), values, strict=True))
    for values in product((6, 8, 9), ("cow", "mor"), ("record", "bloom", "simple", "bucket"))
]


@pytest.mark.parametrize(("n", "count"), [(1, 4), (2, 12)])
def test_every_n_values_that_meet_meet_in_a_chosen_case(n: int, count: int) -> None:
    chosen = [CASES[number] for number in covering(CASES, n)]
    assert len(chosen) == count
    meetings = [{met for case in cases for met in combinations(case, n)} for cases in
                (CASES, chosen)]  # fmt: skip
    assert meetings[0] == meetings[1]


def test_a_case_of_one_parameter_is_chosen_for_each_value() -> None:
    assert covering([(("name", n),) for n in range(5)], 2) == set(range(5))

"""The default suite runs enough cases for values to meet, and no more."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import pytest
from hypothesis import strategies as st

from tests.support.covering import covering, with_few_values, without_settings
from tests.support.examples import examples

CASES = [
    tuple(zip(("version", "kind", "index"), values, strict=True))
    for values in product((6, 8, 9), ("cow", "mor"), ("record", "bloom", "simple", "bucket"))
]


@pytest.mark.parametrize(("n", "count"), [(1, 4), (2, 12)])
def test_every_n_values_that_meet_meet_in_a_chosen_case(n: int, count: int) -> None:
    chosen = [CASES[number] for number in covering(CASES, n)]
    assert len(chosen) == count
    meetings = [
        {met for case in cases for met in combinations(case, n)} for cases in (CASES, chosen)
    ]
    assert meetings[0] == meetings[1]


def test_a_case_of_one_parameter_is_chosen_for_each_value() -> None:
    assert covering([(("name", n),) for n in range(5)], 2) == set(range(5))


def test_of_many_values_some_are_taken_from_the_first_to_the_last() -> None:
    cases = [(("log", log), ("name", name)) for log in ("avro", "parquet") for name in range(7)]
    left = [dict(cases[number]) for number in with_few_values(cases, 3)]
    assert {case["name"] for case in left} == {0, 2, 4}
    assert {case["log"] for case in left} == {"avro", "parquet"}
    assert with_few_values(cases, 7) == list(range(14))


def test_version_and_type_of_the_table_need_no_case_of_their_own() -> None:
    named = [[(name, repr(value)) for name, value in case] for case in CASES]
    assert len(covering(without_settings(named), 1)) == 4
    assert len(covering(without_settings([case[:2] for case in named]), 1)) == 1
    numbers = [[("version", repr(n)), ("count", repr(n))] for n in (6, 9)]
    assert len(covering(without_settings([[*case, ("more", "1")] for case in numbers]), 1)) == 1


def test_a_long_form_draws_more_values() -> None:
    seen: list[str] = []

    @examples(3, 30, number=st.integers(0, 10**9))
    def collect(kind: str, number: int) -> None:
        assert 0 <= number <= 10**9
        seen.append(kind)

    collect(examples=3, kind="cow")
    collect(examples=30, kind="mor")
    assert (seen.count("cow"), seen.count("mor")) == (3, 30)


@pytest.mark.parametrize("kind", ["cow", "mor"])
@examples(3, 30, number=st.integers(0, 9))
def test_drawn_values_come_with_fixtures_and_parameters(
    tmp_path: Path, kind: str, number: int
) -> None:
    assert tmp_path.is_dir() and kind in ("cow", "mor") and 0 <= number <= 9

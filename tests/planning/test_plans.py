"""What the planners choose of one table."""

from __future__ import annotations

from tests.planning.plans import GOLDEN, render


def test_the_planners_choose_what_the_golden_text_says() -> None:
    assert render() == GOLDEN.read_text("utf-8"), (
        "a planner chooses otherwise: python -m tests.planning.plans > tests/golden/plans.txt"
    )

"""The small form of the fuzz program: damaged files of every format."""

from __future__ import annotations

import pytest

from tests.fuzz.run import fuzz, watched
from tests.fuzz.targets import Target, targets


@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_damage_gives_the_same_values_an_error_or_what_nobody_can_see(target: Target) -> None:
    outcomes, bad = fuzz(target, seed=7, count=60)
    assert not bad, "\n".join(bad)
    assert outcomes.total() == 60


@pytest.mark.slow
@pytest.mark.parametrize("target", targets(), ids=lambda target: target.name)
def test_much_damage_in_a_watched_process(target: Target) -> None:
    _, bad = watched(target.name, seed=11, count=2000)
    assert not bad, "\n".join(bad)

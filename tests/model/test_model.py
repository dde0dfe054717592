"""The small form of the model: two writers in full, with put-if-absent and without."""

from __future__ import annotations

from tests.model.run import search, starts
from tests.model.table import Rules


def test_with_put_if_absent_no_order_of_steps_ends_badly() -> None:
    for first in starts(2):
        found = search(first, Rules(crashes=2, services=2))
        assert not found.fault, (found.fault, found.path)
        assert found.states > 200


def test_without_it_there_is_a_counter_example() -> None:
    found = search(starts(2)[0], Rules(atomic_put=False))
    assert found.fault
    assert len(found.path) < 14

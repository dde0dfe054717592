"""Which checks of tests/test_conformance.py the collected tests run."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

CHECKS = pytest.StashKey[set[int]]()


def note_checks(config: pytest.Config, items: Iterable[pytest.Item]) -> None:
    marks = (mark for item in items for mark in item.iter_markers("conformance"))
    config.stash[CHECKS] = {number for mark in marks for number in mark.args}

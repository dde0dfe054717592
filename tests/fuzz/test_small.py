"""The small form of the fuzz program: damaged files of every format."""

from __future__ import annotations

from dataclasses import replace

import pytest

from pyhudi.formats.log_file import read_blocks
from pyhudi.storage.memory import MemoryFile
from tests.fuzz.run import fuzz, watched
from tests.fuzz.targets import Target, targets
from tests.fuzz.unseen import END, ONLY_WITH, SHIFTED, UNSEEN

TARGETS = targets()


@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_damage_gives_the_same_values_an_error_or_what_is_listed(target: Target) -> None:
    count = 60 if target.cost == 1 else 10
    found = fuzz(target, seed=7, count=count)
    assert not found.bad, "\n".join(found.bad)
    assert found.outcomes.total() == count
    assert found.silent.total() == found.outcomes["silent"]


def test_what_is_listed_is_of_a_format_and_has_a_reason() -> None:
    formats = {target.format: target for target in TARGETS}
    assert UNSEEN.keys() | ONLY_WITH.keys() <= formats.keys()
    for name, regions in UNSEEN.items():
        known = {END} | {r for data in formats[name].files for r in formats[name].regions(data)}
        assert all(reason for reason in regions.values())
        assert not formats[name].protected or not regions
        if not name.startswith("table"):
            assert {region.removesuffix(SHIFTED) for region in regions} <= known, name


def test_a_silent_change_that_is_not_listed_is_a_failure() -> None:
    """A reader that believes every length must not pass."""

    def read(data: bytes) -> list[str]:
        return [block.kind.name for block in read_blocks(MemoryFile(data, "x"), path="x")]

    logs = next(target for target in TARGETS if target.name == "log")
    found = fuzz(replace(logs, read=read), seed=1, count=200)
    assert any("length of a row" in line for line in found.bad)


@pytest.mark.slow
@pytest.mark.parametrize("target", TARGETS, ids=lambda target: target.name)
def test_much_damage_in_a_watched_process(target: Target) -> None:
    found = watched(target.name, seed=11, count=2000 // target.cost)
    assert not found.bad, "\n".join(found.bad)

"""Apache Hudi, started once for all tests of this folder and only when one asks for it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from tests.support.apache_hudi import VERSIONS, ApacheHudi, skip_unless_it_runs

pytest.register_assert_rewrite("tests.interop.both_programs")


def pytest_itemcollected(item: Any) -> None:
    """With Apache Hudi the default suite runs one case of a test that names no other number
    (tests/support/covering.py), the long forms run all."""
    if not item.get_closest_marker("covering"):
        item.add_marker(pytest.mark.covering(0))


@pytest.fixture(scope="session")
def apache_hudi() -> Iterator[Callable[[str], ApacheHudi]]:
    """The warm process of a version, by the version's name."""
    skip_unless_it_runs()
    started: dict[str, ApacheHudi] = {}

    def of(version: str) -> ApacheHudi:
        if version not in started:
            started[version] = ApacheHudi(version)
        return started[version]

    yield of
    for hudi in started.values():
        hudi.close()


@pytest.fixture(scope="session")
def hudis(apache_hudi: Callable[[str], ApacheHudi]) -> list[ApacheHudi]:
    """Every version, for tests in which all take turns on one table."""
    return [apache_hudi(version) for version in VERSIONS]


@pytest.fixture(autouse=True)
def readings(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """In long forms all read each state in all ways, in the default suite one, in rotation."""
    if request.node.get_closest_marker("slow"):
        monkeypatch.setattr("tests.interop.test_apache_hudi.Turns.everybody_reads", True)


@pytest.fixture(params=VERSIONS)
def apache(request: pytest.FixtureRequest, apache_hudi: Callable[[str], ApacheHudi]) -> ApacheHudi:
    """Each version in turn, for tests with one of them."""
    return apache_hudi(request.param)

"""Apache Hudi, started once for all tests of this folder and only when one asks for it."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.support.apache_hudi import VERSIONS, ApacheHudi, skip_unless_it_runs

pytest.register_assert_rewrite("tests.interop.both_programs")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[Any]) -> None:
    """Of four combinations and more the default suite asks every second, so that each version,
    table type, index and rule has its turn; the others are the long form."""
    cases = defaultdict(list)
    for item in items:
        if Path(item.path).parent == Path(__file__).parent and hasattr(item, "callspec"):
            cases[item.function].append(item)
    for found in cases.values():
        for number, item in enumerate(found if len(found) >= 4 else ()):
            if (number + number // 2) % 2:  # of a pair's four combinations, the first and the last
                item.add_marker(pytest.mark.slow)


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
    """Long forms read each state in both ways, the default suite in rotation."""
    if request.node.get_closest_marker("slow"):
        monkeypatch.setattr("tests.interop.test_apache_hudi.Turns.reads_both_ways", True)


@pytest.fixture(params=VERSIONS)
def apache(request: pytest.FixtureRequest, apache_hudi: Callable[[str], ApacheHudi]) -> ApacheHudi:
    """Each version in turn, for tests with one of them."""
    return apache_hudi(request.param)

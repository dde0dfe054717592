"""Tables of TPC-H shape that the tests of one run share; no test changes them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache

import pytest

from bench.lineitem import Made, make

ROWS = 20_000


@pytest.fixture(scope="session")
def made(tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Made]:
    """A table by kind, version and number of rows."""
    folder = tmp_path_factory.mktemp("engines")

    @cache
    def one(kind: str, version: int, rows: int) -> Made:
        return make(folder / f"{kind}_{version}_{rows}", rows, kind, version=version)

    return lambda kind, version=6, rows=ROWS: one(kind, version, rows)

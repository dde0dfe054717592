"""The release of PySpark of a test run, and the tests of APIs that it does not have.

    python -m tests.support.pyspark_release    prints both

Such tests are left out of the run: files by FILES, single tests by the marker `pyspark`, whose
argument is the first release with the API.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from importlib.metadata import version
from typing import Final

import pytest

FILES: Final[Mapping[str, str]] = {
    "test_first_line.py": "4.0",
    "test_object_stores.py": "4.0",
    "test_source.py": "4.0",
    "test_source_session.py": "4.0",
    "test_stream.py": "4.2",
    "test_stream_session.py": "4.2",
}
"""Files of tests/spark that use Python data sources (4.0), or their streams with limits (4.2)."""


def release() -> tuple[int, ...]:
    """Of the installed PySpark; empty without it."""
    if importlib.util.find_spec("pyspark") is None:
        return ()
    return _numbers(version("pyspark"))


def lacks(first: str) -> bool:
    """Whether the installed PySpark is older than the release that introduced an API."""
    return release() < _numbers(first)


def files_left_out() -> list[str]:
    """Names of files whose API the installed PySpark does not have."""
    return [name for name, first in FILES.items() if lacks(first)]


def leave_out(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Deselect the tests whose marker names a newer release."""
    newer = [item for item in items if _is_newer(item)]
    if newer:
        config.hook.pytest_deselected(items=newer)
        items[:] = [item for item in items if not _is_newer(item)]


def _is_newer(item: pytest.Item) -> bool:
    mark = item.get_closest_marker("pyspark")
    return mark is not None and lacks(mark.args[0])


def _numbers(text: str) -> tuple[int, ...]:
    return tuple(int(part) for part in text.split(".")[:2])


if __name__ == "__main__":
    print(f"PySpark {'.'.join(map(str, release()))}")
    for file in files_left_out():
        print(f"left out: tests/spark/{file} needs {FILES[file]}")

"""Every test of this folder uses the Spark session of tests/conftest.py.

Tests of APIs that the installed PySpark does not have are left out.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.pyspark_release import files_left_out, leave_out

collect_ignore = files_left_out()


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    leave_out(config, items)
    for item in items:
        if Path(item.path).parent == Path(__file__).parent:
            item.add_marker(pytest.mark.spark)

"""The first hour: from the built wheel to a table on S3, with nothing that the pages do not say."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

from tests.newcomer.first_hour import IMPORT_SECONDS_MAX, extras, main


@pytest.mark.slow
def test_a_stranger_gets_from_the_wheel_to_a_table_on_s3() -> None:
    main()


def test_the_pages_name_the_extras_that_they_need() -> None:
    assert extras() == {"cli", "object"}


def test_the_import_is_fast() -> None:
    """CPU of a new process, less that of an interpreter without the import; the best of several."""
    with_import = min(cpu_seconds("import pyhudi") for _ in range(5))
    without = min(cpu_seconds("pass") for _ in range(5))
    assert with_import - without <= IMPORT_SECONDS_MAX


def cpu_seconds(code: str) -> float:
    before = os.times()
    subprocess.run([sys.executable, "-c", code], check=True)
    after = os.times()
    return after.children_user + after.children_system - (
        before.children_user + before.children_system
    )  # fmt: skip


def test_importing_the_package_loads_no_heavy_library() -> None:
    heavy = "{'pyarrow', 'pandas', 'pyspark', 'click', 'opentelemetry'}"
    code = f"import sys, pyhudi; print(sorted({heavy} & set(sys.modules)))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"

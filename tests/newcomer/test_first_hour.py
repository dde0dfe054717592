"""The first hour: from the built wheel to tables on Spark, on a laptop and on S3."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.newcomer.first_hour import IMPORT_SECONDS_MAX, WALKS, build_wheel, extras, show, walk


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build_wheel(tmp_path_factory.mktemp("wheel"))


@pytest.mark.slow
@pytest.mark.parametrize("name", WALKS)
def test_a_stranger_gets_from_the_wheel_to_a_table(name: str, wheel: Path) -> None:
    show(name, walk(name, wheel))


def test_the_pages_name_the_extras_that_they_need() -> None:
    assert {name: extras(name) for name in WALKS} == {
        "spark": {"spark"},
        "laptop": {"cli", "polars", "duckdb"},
        "s3": {"cli", "object"},
    }


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

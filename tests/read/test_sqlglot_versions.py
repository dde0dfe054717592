"""The oldest and the newest sqlglot that `pyproject.toml` allows give the same filters."""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
TESTS = ("tests/read/test_sql_filters.py", "tests/read/test_generated_filters.py")


def requirement() -> tuple[str, str]:
    """The lower and the upper bound."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    (stated,) = [text for text in project["dependencies"] if text.startswith("sqlglot")]
    match = re.fullmatch(r"sqlglot>=(\d+),<(\d+)", stated)
    assert match, stated
    return match[1], match[2]


@pytest.mark.slow
@pytest.mark.parametrize("bound", ["oldest", "newest"])
def test_filters_mean_the_same_with_each_bound_of_sqlglot(bound: str, tmp_path: Path) -> None:
    low, high = requirement()
    required = f"sqlglot=={low}.0.0" if bound == "oldest" else f"sqlglot>={low},<{high}"
    place = str(tmp_path / "sqlglot")
    pip = [sys.executable, "-m", "pip", "install", "-q", "--no-deps", "--target", place, required]
    subprocess.run(pip, check=True)
    paths = os.pathsep.join([place, str(ROOT)])
    run = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:xdist", *TESTS], cwd=ROOT,
        env={**os.environ, "PYTHONPATH": paths}, capture_output=True, text=True,
    )  # fmt: skip
    assert run.returncode == 0, run.stdout[-3000:]


def test_sqlglot_has_an_upper_bound() -> None:
    """Its trees change between major versions: `not like` became an argument in version 30."""
    low, high = requirement()
    assert int(low) < int(high)

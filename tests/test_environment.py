"""What `doctor-env` reports about this machine, and about ones that lack a part."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

from pyhudi import environment
from pyhudi.environment import EXTRAS, LIBRARIES, examine_environment

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]


def test_the_extras_and_libraries_are_those_of_the_project() -> None:
    assert set(EXTRAS) == set(PROJECT["optional-dependencies"]) - {"dev", "docs"}
    assert set(LIBRARIES) == {each.partition(">")[0] for each in PROJECT["dependencies"]}


def test_the_report_names_what_is_installed() -> None:
    found = examine_environment()
    assert found.native_core and found.native_core.endswith(".so")
    assert all(found.libraries.values()) and found.extras["cli"]
    text = str(found)
    assert f"Python {sys.version_info.major}.{sys.version_info.minor}" in text
    assert found.to_dict()["libraries"]["pyarrow"] == found.libraries["pyarrow"]
    json.dumps(found.to_dict())


def test_a_missing_java_is_a_problem_where_pyspark_is_installed(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("JAVA_HOME", raising=False)
    found = examine_environment()
    assert found.java is None
    assert any("Java is not" in problem for problem in found.problems)


def test_workers_with_another_python_are_a_problem(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "python"
    program.write_text("#!/bin/sh\necho 3.9\n")
    program.chmod(0o755)
    monkeypatch.setenv("PYSPARK_PYTHON", str(program))
    assert any("Python 3.9" in problem for problem in examine_environment().problems)
    monkeypatch.setenv("PYSPARK_PYTHON", str(tmp_path / "nothing"))
    assert any("no Python interpreter" in problem for problem in examine_environment().problems)


def test_workers_that_cannot_import_pyhudi_are_found_by_trying(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program = tmp_path / "python3"
    program.write_text(f'#!/bin/sh\nexec {sys.executable} -I -S "$@"\n')  # no site-packages
    program.chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    lacks = [p for p in examine_environment().problems if "cannot import pyarrow" in p]
    assert lacks and "python3 on the PATH" in lacks[0]
    assert f"set PYSPARK_PYTHON={sys.executable}" in lacks[0]
    monkeypatch.setenv("PYSPARK_PYTHON", sys.executable)
    assert not [p for p in examine_environment().problems if "cannot import" in p]


@pytest.mark.parametrize(
    ("release", "count"), [("3.5.4", 2), ("4.0.1", 3), ("4.1.0", 4), ("4.3.0.dev1", 4)]
)
def test_what_a_release_of_pyspark_supports(release: str, count: int) -> None:
    assert len(environment._supported(release)) == count


def test_it_runs_without_the_command_line_extra() -> None:
    code = (
        "import sys; sys.modules['click'] = None; sys.argv = ['pyhudi', 'doctor-env', '--json'];"
        "from pyhudi.cli import main; main()"
    )
    environment_ = os.environ | {"PYTHONPATH": str(ROOT)}
    done = subprocess.run(
        [sys.executable, "-c", code], capture_output=True, text=True, env=environment_
    )
    assert done.returncode in (0, 3), done.stderr
    assert json.loads(done.stdout)["native_core"]

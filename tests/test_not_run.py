"""What a test run says about the tests that did not run."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
CONFTEST = "from tests.support.not_run import *\n"
TESTS = """
import pytest

@pytest.mark.interop
def test_runs(): pass

@pytest.mark.interop
def test_skips(): pytest.skip("no such service")

@pytest.mark.slow
@pytest.mark.parametrize("n", range(3))
def test_long(n): pass
"""
SETTINGS = """
[pytest]
addopts = -q
markers =
    interop: x
    slow: x
"""


def run(folder: Path, *arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """pytest on three tests: one passes, one skips itself, one is a long form."""
    (folder / "conftest.py").write_text(CONFTEST)
    (folder / "test_some.py").write_text(TESTS)
    (folder / "pytest.ini").write_text(SETTINGS)
    (folder / "bin").mkdir()
    for tool in ("java", "mvn"):
        (folder / "bin" / tool).write_text("#!/bin/sh\n")
        (folder / "bin" / tool).chmod(0o755)
    retained = {k: v for k, v in os.environ.items() if k not in ("CI", "JAVA_HOME")}
    retained = {k: v for k, v in retained.items() if not k.startswith(("PYTEST", "PYHUDI"))}
    environment = {"PATH": str(folder / "bin"), "PYTHONPATH": str(ROOT), **environment}
    return subprocess.run(
        [sys.executable, "-m", "pytest", "-m", "not slow", *arguments],
        cwd=folder, env=retained | environment, capture_output=True, text=True,
    )  # fmt: skip


@pytest.mark.parametrize("workers", ["0", "2"])
def test_every_test_that_did_not_run_is_named_with_its_reason(tmp_path: Path, workers: str) -> None:
    done = run(tmp_path, "-n", workers)
    assert done.returncode == 0, done.stdout + done.stderr
    assert "did not run: test_some.py::test_skips: no such service" in done.stdout
    assert "long forms, left to make long: . 3" in done.stdout
    totals = "1 passed, 0 failed, 1 skipped; 1 of them ran Apache Hudi; 1 left out: no such service"
    assert f"{totals}; 3 long forms are not part of this run" in done.stdout


def test_a_skip_fails_the_run_in_ci(tmp_path: Path) -> None:
    done = run(tmp_path, CI="true")
    assert done.returncode == 1, done.stdout + done.stderr
    assert "skipped, which is a failure with CI=true: no such service" in done.stdout
    assert "1 passed, 1 failed, 0 skipped" in done.stdout
    assert "failed: test_some.py::test_skips: skipped, which is a failure" in done.stdout


def test_a_skip_is_no_failure_in_ci_without_java(tmp_path: Path) -> None:
    done = run(tmp_path, CI="true", PATH="")
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 left out: no such service" in done.stdout


@pytest.mark.parametrize("workers", ["0", "2"])
def test_failures_are_repeated_at_the_end_with_their_cause(tmp_path: Path, workers: str) -> None:
    (tmp_path / "test_bad.py").write_text("def test_bad():\n    assert 1 == 2, 'one is not two'\n")
    done = run(tmp_path, "-n", workers)
    assert done.returncode == 1, done.stdout + done.stderr
    end = "\n".join(done.stdout.splitlines()[-12:])
    assert "failed: test_bad.py::test_bad: AssertionError: one is not two" in end


def test_two_runs_have_one_summary(tmp_path: Path) -> None:
    files = [tmp_path / "one.json", tmp_path / "two.json"]
    run(tmp_path, PYHUDI_TEST_SUMMARY=str(files[0]))
    files[1].write_bytes(files[0].read_bytes())
    done = subprocess.run(
        [sys.executable, "-m", "tests.support.not_run", *map(str, files)],
        cwd=ROOT, capture_output=True, text=True,
    )  # fmt: skip
    assert done.returncode == 0
    assert done.stdout.splitlines()[-1].startswith("2 passed, 0 failed, 1 skipped; 2 of them")
    gone = [*map(str, files), str(tmp_path / "none.json")]
    command = [sys.executable, "-m", "tests.support.not_run", *gone]
    assert subprocess.run(command, cwd=ROOT, capture_output=True).returncode == 1

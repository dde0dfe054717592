"""What an engine promises, asked of Spark; and how errors come home."""

from __future__ import annotations

import base64
import os
import stat
import sys
from pathlib import Path
from typing import Any

import pytest

pytest.importorskip("pyspark")

from pyhudi.errors import StorageError, UserError
from pyhudi.spark import SparkEngine, WorkerLostError, WorkerPythonError
from pyhudi.spark.job_submission import translation
from tests.spark import tasks


@pytest.fixture(scope="module")
def engine(spark: Any) -> SparkEngine:
    return SparkEngine(spark)


def test_results_come_in_the_order_of_the_items(engine: SparkEngine) -> None:
    assert engine.run(tasks.square, range(50), label="x") == [n * n for n in range(50)]
    assert engine.run(tasks.square, [], label="x") == []
    assert not engine.shares_memory
    assert engine.parallelism == 2


def test_what_items_share_travels_once(engine: SparkEngine) -> None:
    """A task's order holds every item; the common part of 200 items is not in it 200 times."""
    common = os.urandom(1 << 20)
    results = engine.run(tasks.identity_of_first, [(common, n) for n in range(200)], label="x")
    assert results == [(len(common), n) for n in range(200)]


def test_an_error_comes_home_as_it_was_raised(engine: SparkEngine) -> None:
    with pytest.raises(UserError) as caught:
        engine.run(tasks.refuse, [7, 8], label="x")
    assert str(caught.value) == "no good; row=7; try another"
    assert caught.value.facts == {"row": 7}
    assert caught.value.__cause__ is None


def test_an_error_worth_another_attempt_gets_one(engine: SparkEngine, tmp_path: Path) -> None:
    assert engine.run(tasks.fail_once, [str(tmp_path)], label="x") == ["second attempt"]


def test_attempts_end_with_the_error_of_the_last(engine: SparkEngine, tmp_path: Path) -> None:
    with pytest.raises(StorageError) as caught:
        engine.run(tasks.fail_always, [str(tmp_path)], label="x")
    assert caught.value.retryable
    assert caught.value.facts == {"path": str(tmp_path)}
    assert (tmp_path / "attempts").read_text() == "xxx"


def test_any_other_error_is_sparks_own(engine: SparkEngine) -> None:
    from pyspark.errors import PySparkException

    with pytest.raises(PySparkException, match="ZeroDivisionError"):
        engine.run(tasks.divide, [1, 0], label="x")


def wrapped_python(folder: Path, line: str) -> str:
    program = folder / "python"
    program.write_text(f'#!/bin/sh\n{line}\nexec {sys.executable} "$@"\n')
    program.chmod(program.stat().st_mode | stat.S_IXUSR)
    return str(program)


@pytest.mark.parametrize("module", ["pyhudi", "pyarrow"])
def test_a_worker_python_without_a_package_is_named(
    engine: SparkEngine, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, module: str
) -> None:
    (tmp_path / "lacking").mkdir()
    (tmp_path / "lacking" / f"{module}.py").write_text(
        f"raise ModuleNotFoundError(\"No module named '{module}'\")\n"
    )
    python = wrapped_python(
        tmp_path, f"cd {tmp_path}\nexport PYTHONPATH={tmp_path}/lacking:$PYTHONPATH"
    )
    monkeypatch.setattr(engine.spark.sparkContext, "pythonExec", python)
    with pytest.raises(WorkerPythonError) as caught:
        engine.run(tasks.square, [1], label="x")
    message = str(caught.value)
    assert "\n" not in message
    assert f"set PYSPARK_PYTHON={sys.executable}" in message
    assert module in message


def test_a_worker_python_that_is_not_there_is_named(
    engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(engine.spark.sparkContext, "pythonExec", "/nowhere/bin/python3")
    with pytest.raises(WorkerPythonError, match="/nowhere/bin/python3"):
        engine.run(tasks.square, [1], label="x")


def test_another_release_on_the_workers_is_named(
    engine: SparkEngine, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("pyhudi.spark.job_submission.own_version", lambda: "99.0")
    with pytest.raises(WorkerPythonError, match=r"pyhudi 99\.0, has"):
        engine.run(tasks.square, [1], label="x")


def test_text_of_a_failure_that_is_no_error_of_ours_is_left_alone() -> None:
    assert translation("pyhudi-error:AAAA") is None
    packed = base64.b64encode(b'{"kind": "SystemExit", "what": "x"}').decode()
    assert translation(f"cannot cast 'pyhudi-error:{packed}' to int") is None


def test_another_version_of_python_is_named() -> None:
    text = "[PYTHON_VERSION_MISMATCH] Python in worker has different version: 3.9 than driver 3.11"
    assert isinstance(translation(text), WorkerPythonError)
    assert translation("some other failure") is None


def test_lost_workers_and_executors_are_named() -> None:
    lost = "Python worker exited unexpectedly (crashed)", "ExecutorLostFailure (executor 1 exited"
    for text in lost:
        assert isinstance(translation(f"Task 1 failed 4 times: {text}"), WorkerLostError)

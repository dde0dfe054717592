"""Progress of long work: quiet at first, then lines on standard error."""

from __future__ import annotations

import time

import pytest

from pyhudi.cli.progress import ProgressEngine


def slow(number: int) -> int:
    time.sleep(0.02)
    return number * 2


def test_short_work_prints_nothing(capsys: pytest.CaptureFixture[str]) -> None:
    with ProgressEngine() as engine:
        assert engine.run(slow, range(5), label="read") == [0, 2, 4, 6, 8]
    output = capsys.readouterr()
    assert output.out == output.err == ""


def test_long_work_prints_lines_with_rate_and_time_left(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressEngine(quiet_seconds=0.05) as engine:
        engine.run(slow, range(40), label="read")
    lines = capsys.readouterr().err.splitlines()
    assert lines
    assert all(line.startswith("read: ") and " of 40" in line for line in lines)
    assert any("/s, " in line and line.endswith(" s left") for line in lines)


def test_runs_inside_a_task_are_not_counted() -> None:
    with ProgressEngine() as engine:

        def outer(number: int) -> int:
            return sum(engine.run(slow, range(3), label="inner")) + number

        assert engine.run(outer, range(4), label="outer") == [6, 7, 8, 9]
        assert engine.line(time.monotonic()).startswith("outer: 4 of 4")


def test_stages_that_are_reported_are_printed_each_from_its_own_start(
    capsys: pytest.CaptureFixture[str],
) -> None:
    with ProgressEngine(quiet_seconds=0.001) as engine:
        for stage in ("keys", "buckets"):
            for done in range(3):
                time.sleep(0.01)
                engine.report(stage, done, 2)
    lines = capsys.readouterr().err.splitlines()
    assert [line.partition(",")[0] for line in lines if "2 of 2" in line] == [
        "keys: 2 of 2",
        "buckets: 2 of 2",
    ]
    assert "buckets: 0 of 2" in lines

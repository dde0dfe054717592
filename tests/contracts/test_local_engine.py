"""What an engine promises, asked of the one of this process."""

from __future__ import annotations

import os
import signal
import threading
import time

import pytest

from pyhudi.engine import LocalEngine


@pytest.mark.parametrize("threads", [1, 4])
def test_results_come_in_the_order_of_the_tasks(threads: int) -> None:
    def slow_first(n: int) -> int:
        time.sleep(0.002 * (8 - n))
        return n * n

    engine = LocalEngine(threads)
    assert engine.parallelism == threads
    assert engine.run(slow_first, range(8), label="x") == [n * n for n in range(8)]
    assert engine.run(slow_first, [], label="x") == []


@pytest.mark.parametrize("threads", [1, 4])
def test_the_first_error_ends_the_run(threads: int) -> None:
    began: list[int] = []

    def fail(n: int) -> int:
        began.append(n)
        if n == 2:
            raise KeyError(n)
        time.sleep(0.005)
        return n

    with pytest.raises(KeyError):
        LocalEngine(threads).run(fail, range(100), label="x")
    assert len(began) < 100


def test_tasks_run_side_by_side() -> None:
    gate = threading.Barrier(3, timeout=5)
    assert LocalEngine(3).run(lambda n: gate.wait() >= 0, range(3), label="x") == [True] * 3


def test_a_run_uses_the_threads_of_an_earlier_one() -> None:
    engine = LocalEngine(3)

    def mine(_: int) -> threading.Thread:
        gate.wait()
        return threading.current_thread()

    gate = threading.Barrier(3, timeout=5)
    first = set(engine.run(mine, range(3), label="x"))
    assert set(LocalEngine(3).run(mine, range(3), label="y")) == first


def test_a_task_may_start_a_run() -> None:
    engine = LocalEngine(2)

    def nested(n: int) -> int:
        return sum(engine.run(lambda m: m * n, range(4), label="inner"))

    assert engine.run(nested, range(4), label="outer") == [0, 6, 12, 18]


def test_no_task_runs_after_an_error() -> None:
    running: list[int] = []
    began = threading.Event()

    def slow(n: int) -> int:
        if n == 0:
            began.wait(5)
            raise KeyError(n)
        running.append(n)
        began.set()
        time.sleep(0.05)
        running.remove(n)
        return n

    with pytest.raises(KeyError):
        LocalEngine(2).run(slow, range(2), label="x")
    assert not running


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_process_has_threads_of_its_own() -> None:
    engine = LocalEngine(2)
    assert engine.run(abs, [-1, -2], label="x") == [1, 2]
    child = os.fork()
    if child == 0:
        os._exit(0 if engine.run(abs, [-3, -4], label="x") == [3, 4] else 1)
    until = time.monotonic() + 10
    ended, status = os.waitpid(child, os.WNOHANG)
    while not ended and time.monotonic() < until:
        time.sleep(0.01)
        ended, status = os.waitpid(child, os.WNOHANG)
    if not ended:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
    assert (ended, status) == (child, 0)

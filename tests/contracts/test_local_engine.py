"""What an engine promises, asked of the one of this process."""

from __future__ import annotations

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

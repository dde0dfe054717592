"""Engines: parallel execution of tasks.

A task is a top-level function of one picklable argument; an Engine runs many of them and returns
their results in order.  This module has the engine for threads, `pyhudi.spark` the one for Spark
executors.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Final, Protocol, TypeVar

_T = TypeVar("_T")
_R = TypeVar("_R")


class Engine(Protocol):
    """Runs tasks, possibly in other processes and possibly more than once each."""

    @property
    def parallelism(self) -> int:
        """Number of tasks that run concurrently."""
        ...

    @property
    def shares_memory(self) -> bool:
        """Whether tasks run in this process, so that tables need not be spilled to files."""
        ...

    def run(self, task: Callable[[_T], _R], items: Sequence[_T], *, label: str) -> list[_R]:
        """Results of `task` over `items`, in order.  The first error ends the run and is raised."""
        ...


class LocalEngine:
    """Threads of this process; Arrow and the native core release the GIL in long operations."""

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or max(1, min(16, os.cpu_count() or 1))

    @property
    def parallelism(self) -> int:
        return self._threads

    @property
    def shares_memory(self) -> bool:
        return True

    def run(self, task: Callable[[_T], _R], items: Sequence[_T], *, label: str) -> list[_R]:
        if len(items) <= 1 or self._threads == 1:
            return [task(item) for item in items]
        with _own_pool(self._threads) as pool:
            return _results(pool, task, items)


_IDLE_MAX: Final = 4
_idle: dict[int, list[ThreadPoolExecutor]] = {}
"""Pools that wait for the next run, by their number of threads.  A new thread has a heap of its own
in the allocators of Arrow and of C, whose pages the system clears first: for a write of a tenth
of a second that was a tenth of its time."""

if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_idle.clear)  # their threads are not in the child


@contextmanager
def _own_pool(threads: int) -> Iterator[ThreadPoolExecutor]:
    """A pool that no other run uses, so that runs within tasks of others cannot wait for them."""
    idle = _idle.setdefault(threads, [])
    try:
        pool = idle.pop()
    except IndexError:
        pool = ThreadPoolExecutor(threads, thread_name_prefix="pyhudi")
    try:
        yield pool
    finally:
        if len(idle) < _IDLE_MAX:
            idle.append(pool)
        else:
            pool.shutdown()


def _results(pool: ThreadPoolExecutor, task: Callable[[_T], _R], items: Iterable[_T]) -> list[_R]:
    """The results in order.  No task runs any more when this returns or raises."""
    futures = [pool.submit(task, item) for item in items]
    try:
        return [future.result() for future in futures]
    except BaseException:
        for future in futures:
            future.cancel()
        wait(futures)
        raise


def run_ahead(
    task: Callable[[_T], _R], items: Iterable[_T], *, ahead: int
) -> Generator[_R, None, None]:
    """Results of `task` in order, in threads of this process, as far `ahead` of the consumer; 0:
    in the thread of the consumer."""
    if not ahead:
        yield from map(task, items)
        return
    waiting: deque[Future[_R]] = deque()
    with _own_pool(ahead) as pool:
        try:
            for item in items:
                waiting.append(pool.submit(task, item))
                if len(waiting) > ahead:
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()
            wait(waiting)


LOCAL: Final = LocalEngine()
"""The engine of callers that pass none."""


def in_process(engine: Engine, *, is_small: bool) -> Engine:
    """Where to run tasks: in this process if they are small, as a job of Spark costs more."""
    return LOCAL if is_small and not engine.shares_memory else engine

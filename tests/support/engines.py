"""Engines for tests."""

from __future__ import annotations

import pickle
from collections.abc import Callable, Sequence
from functools import partial
from typing import TypeVar

from pyhudi.engine import LocalEngine

T = TypeVar("T")
R = TypeVar("R")


class FarEngine(LocalEngine):
    """As a cluster treats tasks: they and their results travel as bytes, rows are staged in
    files, and each task runs twice, of which the first result is lost.  labels: of the runs."""

    def __init__(self) -> None:
        super().__init__(2)
        self.labels: list[str] = []

    @property
    def shares_memory(self) -> bool:
        return False

    def run(self, task: Callable[[T], R], items: Sequence[T], *, label: str) -> list[R]:
        self.labels.append(label)
        results: list[R] = []
        for item in items:
            sent = pickle.dumps((task, item))
            for last in (False, True):
                there, given = pickle.loads(sent)
                came = pickle.dumps(there(given))
                if last:
                    results.append(pickle.loads(came))
        return results


class Pausing(LocalEngine):
    """An engine that does something else once, before or after the named step of a write."""

    def __init__(self, step: str, meanwhile: Callable[[], object], *, after: bool = False) -> None:
        super().__init__(1)
        self._step, self._meanwhile, self._after = step, meanwhile, after

    def run(self, task, items, *, label):  # type: ignore[no-untyped-def]
        pauses = label == self._step
        if pauses:
            self._step = ""
        if pauses and not self._after:
            self._meanwhile()
        results = super().run(task, items, label=label)
        if pauses and self._after:
            self._meanwhile()
        return results


class Remembering(LocalEngine):
    """An engine on which tasks can be run again after their write has ended."""

    def __init__(self, step: str) -> None:
        super().__init__(1)
        self._step = step
        self.late: list[Callable[[], object]] = []

    def run(self, task, items, *, label):  # type: ignore[no-untyped-def]
        if label == self._step:
            self.late += [partial(task, item) for item in items]
        return super().run(task, items, label=label)

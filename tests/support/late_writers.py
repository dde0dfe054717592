"""Writers that are stopped between their plan and their files, and complete later."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

from pyhudi.api.table import Table
from pyhudi.engine import LocalEngine
from pyhudi.errors import WriteConflictError
from pyhudi.options import parse_options
from pyhudi.storage.filesystem import FileSystem
from pyhudi.write.write_report import WriteReport

OPTIMISTIC = {"hoodie.write.concurrency.mode": "optimistic_concurrency_control"}


class DiedError(Exception):
    """The writer died."""


class _Held(LocalEngine):
    """An engine that waits before the files of a write."""

    def __init__(self) -> None:
        super().__init__(1)
        self.reached, self.may_go, self.dies = threading.Event(), threading.Event(), False

    def run(self, task, items, *, label):  # type: ignore[no-untyped-def]
        if label == "write" and not self.reached.is_set():
            self.reached.set()
            assert self.may_go.wait(120)
            if self.dies:
                raise DiedError
        return super().run(task, items, label=label)


class LateWrite:
    """A write that has begun; `complete` lets it go on and returns its report."""

    def __init__(
        self, fs: FileSystem, write: Callable[[Table], Any], options: dict[str, str] | None = None
    ) -> None:
        self._engine = _Held()
        parsed = parse_options({**OPTIMISTIC, **(options or {})})
        table = Table(fs, options=parsed, engine=self._engine)
        self._found: list[Any] = []
        self._thread = threading.Thread(target=self._run, args=(write, table), daemon=True)
        self._thread.start()
        while self._thread.is_alive() and not self._engine.reached.wait(0.01):
            pass

    def _run(self, write: Callable[[Table], Any], table: Table) -> None:
        try:
            self._found.append(write(table))
        except (DiedError, WriteConflictError) as error:
            self._found.append(error)

    @property
    def failure(self) -> Exception | None:
        """Why the write has ended without a commit."""
        return next((found for found in self._found if isinstance(found, Exception)), None)

    @property
    def is_held(self) -> bool:
        return self._thread.is_alive()

    def complete(self, *, dies: bool = False) -> WriteReport | None:
        """The report; None if the write died or lost a conflict."""
        self._engine.dies = dies
        self._engine.may_go.set()
        self._thread.join(120)
        (found,) = self._found
        return None if isinstance(found, Exception) else found

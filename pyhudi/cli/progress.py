"""Progress of long work on standard error: a bar on a terminal, lines elsewhere.

Nothing is printed for work of less than two seconds.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from typing import Any, Final, Self, TypeVar

import click
from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    ProgressColumn,
    SpinnerColumn,
    Task,
    TaskID,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from pyhudi.engine import LocalEngine

QUIET_SECONDS: Final = 2.0
_LINE_SECONDS: Final = 5.0

_T = TypeVar("_T")
_R = TypeVar("_R")


class _RateColumn(ProgressColumn):
    """Completed tasks per second."""

    def render(self, task: Task) -> Text:
        return Text("" if not task.speed else f"{task.speed:.1f}/s")


class ProgressEngine(LocalEngine):
    """Threads of this process that report their progress.

    A context manager: the report ends with the block.
    quiet_seconds: how long a command runs before anything is printed.
    """

    def __init__(self, *, quiet_seconds: float = QUIET_SECONDS) -> None:
        super().__init__()
        self._quiet_seconds = quiet_seconds
        self._console = Console(stderr=True, highlight=False)
        self._lock = threading.RLock()
        self._stages = 0
        self._label, self._done, self._total = "working", 0, 0
        self._began = self._last_line = time.monotonic()
        self._bar: Progress | None = None
        self._row = TaskID(0)
        self._timer: threading.Timer | None = None

    def __enter__(self) -> Self:
        self._began = self._last_line = time.monotonic()
        if self._console.is_terminal:
            self._timer = threading.Timer(self._quiet_seconds, self._start_bar)
            self._timer.daemon = True
            self._timer.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.pause()

    def pause(self) -> None:
        """Remove the bar; nothing is printed any more."""
        if self._timer:
            self._timer.cancel()
        with self._lock:
            if self._bar:
                self._bar.stop()
            self._bar = self._timer = None

    def run(self, task: Callable[[_T], _R], items: Sequence[_T], *, label: str) -> list[_R]:
        """As LocalEngine; a run inside a task is not reported."""
        with self._lock:
            self._stages += 1
            is_outer = self._stages == 1
        try:
            if not is_outer:
                return super().run(task, items, label=label)
            self.report(label, 0, len(items))
            return super().run(self._counted(task, label, len(items)), items, label=label)
        finally:
            with self._lock:
                self._stages -= 1

    def _counted(self, task: Callable[[_T], _R], label: str, total: int) -> Callable[[_T], _R]:
        def counted(item: _T) -> _R:
            result = task(item)
            with self._lock:
                self.report(label, self._done + 1, total)
            return result

        return counted

    def report(self, label: str, done: int, total: int) -> None:
        """State the progress: so many of so many tasks of a stage are done."""
        with self._lock:
            if label != self._label or done < self._done:
                self._label, self._stage_began = label, time.monotonic()
            self._done, self._total = done, total
            if self._bar:
                self._bar.update(self._row, description=label, completed=done, total=total)
            elif not self._console.is_terminal:
                self._print_line()

    _stage_began: float = 0.0

    def _print_line(self) -> None:
        now = time.monotonic()
        if now - self._began < self._quiet_seconds or now - self._last_line < min(
            _LINE_SECONDS, self._quiet_seconds
        ):
            return
        self._last_line = now
        click.echo(self.line(now), err=True)

    def line(self, now: float) -> str:
        """The progress as text: `read: 30 of 200, 12.5/s, 14 s left`."""
        text = f"{self._label}: {self._done} of {self._total}"
        seconds = now - self._stage_began
        if not self._done or seconds <= 0:
            return text
        rate = self._done / seconds
        return f"{text}, {rate:.1f}/s, {(self._total - self._done) / rate:.0f} s left"

    def _start_bar(self) -> None:
        columns: tuple[Any, ...] = (
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(),
            _RateColumn(), TimeRemainingColumn(),
        )  # fmt: skip
        with self._lock:
            if self._timer is None:
                return
            self._bar = Progress(*columns, console=self._console, transient=True)
            self._bar.start()
            self._row = self._bar.add_task(
                self._label, completed=self._done, total=self._total or None
            )

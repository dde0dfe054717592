"""Background services: a thread that periodically runs the services that are due on a table.

It takes the table's lock like any other writer and yields to the current owner.  A service that
meets a conflict is deferred to the next run.  The thread is a daemon: a process that ends does not
wait for it, and the next run of any process finishes interrupted work.
"""

from __future__ import annotations

import logging
import threading
from collections import deque
from collections.abc import Callable
from typing import Final, Self

from pyhudi.errors import PyhudiError
from pyhudi.health.service_scheduler import ServicesReport

_LOG = logging.getLogger("pyhudi")

_REPORTS_MAX: Final = 100


class BackgroundServices:
    """A running background thread; a context manager that stops it.

    reports: the newest reports of runs that did something or failed.  failure: the error that
    prevented the last run, None if it ran.  looks: the number of attempted runs.
    """

    def __init__(self, run: Callable[[], ServicesReport], *, every_seconds: float) -> None:
        self._run = run
        self._every_seconds = every_seconds
        self._stopping = threading.Event()
        self.looks = 0
        self.failure: PyhudiError | None = None
        self._reports: deque[ServicesReport] = deque(maxlen=_REPORTS_MAX)
        self._thread = threading.Thread(target=self._loop, name="pyhudi-services", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def reports(self) -> tuple[ServicesReport, ...]:
        return tuple(self._reports)

    def stop(self, *, wait_seconds: float | None = None) -> None:
        """Stop after the current run; wait for it (None: without limit)."""
        self._stopping.set()
        self._thread.join(wait_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            try:
                report = self._run()
                self.failure = None
            except PyhudiError as failed:
                self.failure = failed
                _LOG.warning("the services of a table could not run: %s", failed)
            else:
                if any(service.did or service.error for service in report.services):
                    self._reports.append(report)
                    _LOG.info("services: %s", report)
            self.looks += 1
            self._stopping.wait(self._every_seconds)

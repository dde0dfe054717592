"""Services beside a writer: a thread that looks at a table now and then and does what is due.

It takes the table's lock like any other writer and gives way to whoever has it.  A service that
meets a conflict is left for the next look.  The thread is a daemon: a process that ends does not
wait for it, and what it was at is finished by the next run, whoever's it is.
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

_KEPT: Final = 100


class BackgroundServices:
    """A running background mode; a context manager that ends it.

    reports: the newest of those in which something was done.  failure: what kept the last look
    from being had, None if it was had.
    """

    def __init__(self, run: Callable[[], ServicesReport], *, every_seconds: float) -> None:
        self._run = run
        self._every_seconds = every_seconds
        self._stopping = threading.Event()
        self.looks = 0
        self.failure: PyhudiError | None = None
        self._reports: deque[ServicesReport] = deque(maxlen=_KEPT)
        self._thread = threading.Thread(target=self._go, name="pyhudi-services", daemon=True)
        self._thread.start()

    @property
    def is_running(self) -> bool:
        return self._thread.is_alive()

    @property
    def reports(self) -> tuple[ServicesReport, ...]:
        return tuple(self._reports)

    def stop(self, *, wait_seconds: float | None = None) -> None:
        """End after the service that is under way; wait for it (None: however long)."""
        self._stopping.set()
        self._thread.join(wait_seconds)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _go(self) -> None:
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

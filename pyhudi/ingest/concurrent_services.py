"""Table services in a thread of a continuous ingest, while its batches are written.

```
batch committed -> wake() -> a round: each service that is due, one after the other
                             a failure: reported in the status, and a pause before the next round
```

The services take the table's lock only to plan and to publish, so that batches are committed
meanwhile.  A plan that a crash interrupted runs again in the first round of the next run.
"""

from __future__ import annotations

import logging
import threading
from collections.abc import Iterable, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field, replace
from types import MappingProxyType
from typing import Final, Protocol

from pyhudi.errors import LockError, OptionError, PyhudiError, WriteConflictError
from pyhudi.ingest.retries import Retries
from pyhudi.operations.service_runs import PendingServices, ServiceRun

_LOG = logging.getLogger("pyhudi.ingest")
_NO_RUNS: Final[Mapping[str, int]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class ConcurrentServices:
    """Which table services run concurrently with a continuous ingest, and their limits.

    The options of the table say which services run (`hoodie.clean.automatic`, ...).  compaction: of
    a merge-on-read table, whatever `hoodie.compact.inline` says.  clustering_commits: cluster after
    this many commits; None: as the options say.
    pending_compactions_max, pending_clusterings_max: plans on the timeline, of any process, with
    which the next batch waits.
    interval_seconds: least time from the end of a round to the start of the next.
    """

    compaction: bool = True
    clustering_commits: int | None = None
    pending_compactions_max: int = 5
    pending_clusterings_max: int = 5
    interval_seconds: float = 1.0

    def __post_init__(self) -> None:
        counts = (self.pending_compactions_max, self.pending_clusterings_max)
        if min(*counts, self.clustering_commits or 1) < 1 or self.interval_seconds < 0:
            raise OptionError(
                "limits of concurrent services must be at least 1, and the interval at least 0",
                pending_compactions_max=counts[0],
                pending_clusterings_max=counts[1],
                clustering_commits=self.clustering_commits,
                interval=self.interval_seconds,
            )


@dataclass(frozen=True, slots=True)
class ServicesStatus:
    """What the concurrent services of an ingest have done.

    runs: those that changed the table, by the name of the service.  failures: rounds with a failure
    since the last round without one.  error: the newest of these failures.  is_behind: so many
    plans are pending that the next batch waits.
    """

    runs: Mapping[str, int] = field(default_factory=lambda: _NO_RUNS)
    failures: int = 0
    error: str | None = None
    is_behind: bool = False

    def to_dict(self) -> dict[str, object]:
        return {
            "runs": dict(self.runs), "failures": self.failures, "error": self.error,
            "is_behind": self.is_behind,
        }  # fmt: skip


class _Services(Protocol):
    """As `Table.services`."""

    def run_enabled(
        self, *, compaction: bool, clustering_commits: int | None = None
    ) -> Iterable[ServiceRun]: ...

    def pending(self) -> PendingServices: ...


class ServedTable(Protocol):
    """A table whose services can run; services: None as long as it does not exist."""

    @property
    def services(self) -> _Services | None: ...


class ServiceRounds:
    """The thread of the services; a context manager, whose end waits for the service that runs.

    `wake()` after each commit; `status` is the newest.
    """

    def __init__(self, table: ServedTable, rules: ConcurrentServices, retries: Retries) -> None:
        self._table, self._rules, self._retries = table, rules, retries
        self.status = ServicesStatus()
        self._woken, self._stopping = threading.Event(), threading.Event()
        self._pool = ThreadPoolExecutor(1, thread_name_prefix="pyhudi-ingest-services")
        self._ended: Future[None] | None = None

    def wake(self) -> None:
        """Start a round now, or after the current one.  Raises the error that ended the thread,
        which is a defect and not a failure of a service."""
        if self._ended is not None and self._ended.done():
            self._ended.result()
        self._woken.set()

    def __enter__(self) -> ServiceRounds:
        self._woken.set()  # plans that a crashed run left
        self._ended = self._pool.submit(self._loop)
        return self

    def __exit__(self, kind: object, *error: object) -> None:
        self._stopping.set()
        self._woken.set()
        self._pool.shutdown()
        if kind is None and self._ended is not None:
            self._ended.result()

    def _loop(self) -> None:
        while not self._stopping.is_set():
            self._round()
            self._stopping.wait(self._pause())
            self._woken.wait(None if self._is_done else 0)

    @property
    def _is_done(self) -> bool:
        """Whether only a commit can make a service due."""
        return not (self.status.failures or self.status.is_behind)

    def _pause(self) -> float:
        failures = self.status.failures
        retry = self._retries.pause(failures) if failures else 0.0
        return max(retry, self._rules.interval_seconds)

    def _round(self) -> None:
        """Run what is due, until the run is to stop."""
        self._woken.clear()
        failed: str | None = None
        try:
            services = self._table.services
            if services is None:
                return
            self._measure(services)
            for ran in services.run_enabled(
                compaction=self._rules.compaction,
                clustering_commits=self._rules.clustering_commits,
            ):
                failed = self._note(ran) or failed
                self._measure(services)
                if self._stopping.is_set():
                    break
        except (PyhudiError, OSError) as error:
            failed = f"{type(error).__name__}: {error}"
        failures = self.status.failures + 1 if failed else 0
        self.status = replace(self.status, failures=failures, error=failed)

    def _note(self, ran: ServiceRun) -> str | None:
        """Count a run; the text of its failure, if it was none of those that other writers cause:
        such a service is due again in the next round."""
        if isinstance(ran.error, LockError | WriteConflictError):
            _LOG.info("%s waits for another writer: %s", ran.name, ran.error)
            return None
        if ran.error is not None:
            _LOG.warning("%s of the table failed and is tried again: %s", ran.name, ran.error)
            return f"{ran.name}: {ran.error}"
        _LOG.info("%s", "; ".join(ran.notes))
        if not ran.has_result:
            return None
        runs = {**self.status.runs, ran.name: self.status.runs.get(ran.name, 0) + 1}
        self.status = replace(self.status, runs=runs)
        return None

    def _measure(self, services: _Services) -> None:
        pending = services.pending()
        is_behind = (
            pending.compactions >= self._rules.pending_compactions_max
            or pending.clusterings >= self._rules.pending_clusterings_max
        )
        self.status = replace(self.status, is_behind=is_behind)

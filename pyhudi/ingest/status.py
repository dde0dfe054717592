"""What an ingest does now, and what it has done, for health checks and displays."""

from __future__ import annotations

import json
import os
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass, replace
from enum import Enum
from pathlib import Path
from typing import Any

from pyhudi.ingest.concurrent_services import ServicesStatus
from pyhudi.ingest.source import SourceLag
from pyhudi.write.write_report import WriteReport


class IngestState(Enum):
    """What an ingest does."""

    STARTING = "starting"
    WRITING = "writing"  # reads and writes a batch
    IDLE = "idle"  # the source has no new rows
    WAITING = "waiting"  # for table services, of which too many plans are pending
    RETRYING = "retrying"  # waits after an error that can pass
    STOPPED = "stopped"
    FAILED = "failed"


@dataclass(frozen=True)
class IngestStatus:
    """The state of one ingest.

    table, source: their names.  since: Unix time of the state.  checkpoint, lag: as of the last
    commit or poll.  last_commit: instant of the last batch; last_commit_at: its Unix time.
    rows: written since the start; rejected: bad rows.  rows_per_second, commit_seconds: of the last
    batch.  error: of the state retrying or failed; failures: attempts that failed since the last
    success.  services: those that run concurrently; None: they run after batches.
    """

    table: str
    source: str
    state: IngestState = IngestState.STARTING
    since: float = 0.0
    checkpoint: str | None = None
    lag: SourceLag | None = None
    last_commit: str | None = None
    last_commit_at: float | None = None
    batches: int = 0
    rows: int = 0
    rejected: int = 0
    rows_per_second: float = 0.0
    commit_seconds: float = 0.0
    error: str | None = None
    failures: int = 0
    services: ServicesStatus | None = None

    @property
    def is_healthy(self) -> bool:
        """False after an error, until a batch or a poll succeeds."""
        return self.state not in (IngestState.FAILED, IngestState.RETRYING)

    def to_dict(self) -> dict[str, Any]:
        """Plain values that JSON can represent, with `healthy`."""
        values = {**asdict(replace(self, services=None)), "state": self.state.value}
        values["healthy"] = self.is_healthy
        if self.services is not None:
            values["services"] = self.services.to_dict()
        if self.lag is not None:
            values["lag"] = {n: v for n, v in asdict(self.lag).items() if v is not None}
        return values


StatusReceiver = Callable[[IngestStatus], None]


def rows_of(report: WriteReport) -> int:
    """Rows of a batch that were written, deleted, or found to be old."""
    return report.inserted + report.updated + report.deleted + report.unchanged


def health_file(path: str | os.PathLike[str]) -> StatusReceiver:
    """A receiver that writes each status to a JSON file on the local disk, replacing it whole.

    The file has the newest status, and under `tables` that of each table.
    """
    target = Path(path)
    lock = threading.Lock()
    tables: dict[str, Any] = {}

    def receive(status: IngestStatus) -> None:
        with lock:
            tables[status.table] = status.to_dict()
            facts = {"tables": tables, "written_at": time.time(), "pid": os.getpid()}
            waiting = target.with_name(f".{target.name}.{os.getpid()}")
            waiting.write_text(json.dumps({**status.to_dict(), **facts}) + "\n", "utf-8")
            waiting.replace(target)

    return receive

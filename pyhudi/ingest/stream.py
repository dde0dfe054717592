"""The loop of an ingest: read a batch, write it with its checkpoint, continue."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final, Protocol, Self

import pyarrow as pa

from pyhudi.errors import OptionError, PyhudiError
from pyhudi.ingest.bad_rows import BadRowCheck, BadRowRules, BadRows, TableFit
from pyhudi.ingest.concurrent_services import ConcurrentServices, ServiceRounds
from pyhudi.ingest.retries import Retries, is_passing
from pyhudi.ingest.row_fit import check_parts
from pyhudi.ingest.source import (
    IngestedTable,
    ReadsChanges,
    RowSource,
    SourceBatch,
    SourceLag,
    SourceLimits,
    lag_of,
)
from pyhudi.ingest.status import IngestState, IngestStatus, StatusReceiver, rows_of
from pyhudi.observe.events import observed, plain_facts
from pyhudi.write.input.schema_check import SchemaRules
from pyhudi.write.input.source_checkpoint import SourcePosition
from pyhudi.write.write_report import WriteReport

_LOG: Final = logging.getLogger("pyhudi.ingest")
_IDLE_SECONDS: Final = 1.0
_LAG_SHARE: Final = 10
"""Least time between two queries of the lag, in durations of one."""
_LAG_SECONDS: Final = 10.0
"""How old the lag becomes while no batch is written, unless a query takes long."""
_STOP_SECONDS: Final = 0.2
"""How often `stop` is evaluated during a pause."""


class _IngestTable(Protocol):
    """A table of `pyhudi.open_table`, or one that the first batch creates."""

    @property
    def path(self) -> str: ...

    @property
    def config(self) -> Any: ...

    @property
    def services(self) -> Any: ...

    def without_inline_services(self) -> Self: ...

    def source_position(self) -> tuple[SourcePosition | None, pa.Schema]: ...

    def has_global_keys(self) -> bool: ...

    def stored_columns(self, columns: Sequence[str]) -> Iterator[pa.RecordBatch]: ...

    def schema_rules(self) -> SchemaRules: ...

    def row_test(self) -> Callable[[pa.Table], object]: ...

    def ingest(
        self,
        rows: Any,
        *,
        checkpoint: str | None,
        after: str | None,
        operation: str = "upsert",
        skip_existing: bool = False,
        reset_key: str | None = None,
        ignore_key: str | None = None,
    ) -> WriteReport: ...


Transform = Callable[[pa.RecordBatchReader], pa.RecordBatchReader]


@dataclass(frozen=True)
class Stream:
    """The rows of a source, written to a table exactly once.

    table: of `pyhudi.open_table`.  operation: `upsert`, `insert` or
    `bulk_insert`.  max_rows, max_bytes: of the source's data in a batch.  max_seconds: for reading
    it from Kafka, files and queues, without the write.  None: no limit.
    transform: changes the rows of each batch before they are written; several apply in order.
    bad_rows: of rows that cannot be decoded or do not fit the table: "fail", "skip" or an
    ErrorTable.  max_bad_rows, max_bad_share: of a batch, above which it fails nevertheless.
    skip_existing: rows whose key is in the table are not written; operation insert.
    checkpoint: where to begin instead of the table's checkpoint; takes effect once, until a run has
    another text.  ignore_checkpoint: any text; with a new one the source is read from its start.
    saves_checkpoint: False leaves the table's checkpoint, for one batch by `run_once`.

    Each batch is one commit, which also has the checkpoint that it reaches; a stream continues from
    the checkpoint of the newest commit.  So a stream that was killed writes neither less nor more,
    and a second stream that writes to the table at the same time fails with CheckpointMovedError.
    """

    source: RowSource
    table: _IngestTable
    operation: str = "upsert"
    max_rows: int | None = None
    max_bytes: int | None = 1 << 30
    transform: Transform | Sequence[Transform] | None = None
    bad_rows: BadRows = "fail"
    max_bad_rows: int | None = None
    max_bad_share: float | None = None
    skip_existing: bool = False
    checkpoint: str | None = None
    ignore_checkpoint: str | None = None
    saves_checkpoint: bool = True
    max_seconds: float | None = None

    def __post_init__(self) -> None:
        limits = (self.max_rows, self.max_bytes)
        if any(limit is not None and limit < 1 for limit in limits):
            raise OptionError(
                "the limits of a batch must be at least 1",
                max_rows=self.max_rows,
                max_bytes=self.max_bytes,
            )
        if self.max_seconds is not None and not self.max_seconds > 0:
            raise OptionError("the time of a batch must be above 0", max_seconds=self.max_seconds)
        _ = self._rules

    @cached_property
    def _rules(self) -> BadRowRules:
        return BadRowRules(self.bad_rows, self.max_bad_rows, self.max_bad_share)

    @cached_property
    def _transforms(self) -> tuple[Transform, ...]:
        if self.transform is None:
            return ()
        return (self.transform,) if callable(self.transform) else tuple(self.transform)

    def run_once(self) -> WriteReport | None:
        """Write the next batch; None if the source has no new rows.

        Raises the errors of the source and of a write, and BadRowsError; the checkpoint has not
        moved then.
        """
        return self._next()[0]

    def _next(self) -> tuple[WriteReport | None, str | None]:
        """The report of the next batch, and the checkpoint that the table has then."""
        position, schema = self.table.source_position()
        before = None if position is None else position.checkpoint
        start = self.checkpoint
        if position is not None:
            start = position.start(self.checkpoint, self.ignore_checkpoint)
        limits = SourceLimits(self.max_rows, self.max_bytes, self.max_seconds)
        batch = self._read(start, limits, schema)
        if batch is None:
            return None, before
        with observed("ingest", operation=self.operation, table=self.table.path) as facts:
            report = self._write(batch, before, start, schema)
            facts.update(plain_facts(report))
        if self.saves_checkpoint:  # else the next batch has the same rows again
            batch.committed()
        pa.default_memory_pool().release_unused()  # batches differ: a stream would grow for weeks
        return report, batch.checkpoint

    def _read(
        self, start: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        if not isinstance(self.source, ReadsChanges):
            return self.source.read(start, limits, schema)
        table = None if self._transforms else self._ingested()
        return self.source.read_changes(start, limits, schema, table)

    def _ingested(self) -> IngestedTable:
        config = self.table.config
        key, partition = config.record_key_fields, config.partition_fields
        identity = key if self.table.has_global_keys() else (*key, *partition)
        return IngestedTable(key, tuple(dict.fromkeys(identity)), self.table.stored_columns)

    def _write(
        self, batch: SourceBatch, before: str | None, start: str | None, schema: pa.Schema
    ) -> WriteReport:
        places = None if self._transforms else batch.places
        check = BadRowCheck(self._rules, self.table.path, start, places)
        rows = check.decoded(batch.rows, batch.rejected)
        rules = self.table.schema_rules()
        check_parts(batch.columns, batch.rows.schema, schema, rules)
        try:
            for transform in self._transforms:
                rows = transform(rows)
            config = self.table.config
            fit = TableFit(
                schema,
                config.record_key_fields,
                config.ordering_fields,
                config.partition_fields,
                rules,
                self.table.row_test,
            )
            report = self.table.ingest(
                check.fitted(rows, fit),
                checkpoint=batch.checkpoint if self.saves_checkpoint else None,
                after=before,
                operation=self.operation,
                skip_existing=self.skip_existing,
                reset_key=self.checkpoint,
                ignore_key=self.ignore_checkpoint,
            )
        finally:
            if check.failure is not None:
                raise check.failure
        return replace(report, rejected=check.count)

    def lag(self) -> SourceLag | None:
        """What the source has after the table's checkpoint; None if it cannot say."""
        position, _ = self.table.source_position()
        return lag_of(self.source, None if position is None else position.checkpoint)

    def available(self) -> Iterator[WriteReport]:
        """Write batches until the source has no new rows; yields the report of each."""
        self._check_saves()
        while (report := self.run_once()) is not None:
            yield report

    def _check_saves(self) -> None:
        """Raises OptionError if batches would be read again and again."""
        if not self.saves_checkpoint:
            raise OptionError(
                "an ingest that saves no checkpoint writes one batch",
                hint="use run_once(), or `pyhudi ingest once`",
            )

    def run(
        self,
        *,
        continuous: bool = False,
        interval_seconds: float = 0.0,
        stop: Callable[[], bool] = lambda: False,
        on_batch: Callable[[WriteReport], None] = lambda report: None,
        on_status: StatusReceiver | Sequence[StatusReceiver] = (),
        retries: Retries | None = None,
        services: ConcurrentServices | None = None,
    ) -> None:
        """Write batches until the source has no new rows.

        continuous: follow the source instead.  stop: ends the run when it is true, which is
        evaluated between batches and during pauses.
        interval_seconds: least time from the start of a batch to that of the next.
        on_status: called with each change of the state.  retries: of errors that can pass, such as
        an unreachable source or store, and conflicts with other writers; None: without limit if
        continuous, else none.
        services: of the table, in a thread while batches are written; continuous only.  A failure
        of a service is in the status and is retried.  None: after each batch, as the options of
        the table say.
        Raises OptionError for a negative interval, and the errors of `run_once`.
        """
        if interval_seconds < 0:
            raise OptionError("the interval must not be negative", interval=interval_seconds)
        if services is not None and not continuous:
            raise OptionError(
                "table services run concurrently with a continuous ingest only",
                hint="pass continuous=True, or leave services out",
            )
        self._check_saves()
        receivers = (on_status,) if callable(on_status) else tuple(on_status)
        rules = retries or (Retries() if continuous else Retries(0))
        if services is None:
            _Run(self, continuous, interval_seconds, stop, on_batch, receivers, rules).run()
            return
        writer = replace(self, table=self.table.without_inline_services())
        with ServiceRounds(self.table, services, rules) as rounds:
            _Run(
                writer, continuous, interval_seconds, stop, on_batch, receivers, rules, rounds
            ).run()


@dataclass
class _Run:
    """One call of `Stream.run`."""

    stream: Stream
    continuous: bool
    interval: float
    stop: Callable[[], bool]
    on_batch: Callable[[WriteReport], None]
    receivers: Sequence[StatusReceiver]
    retries: Retries
    rounds: ServiceRounds | None = None
    status: IngestStatus = field(init=False)
    next_lag: float = field(default=0.0, init=False)
    lag_at: tuple[str | None, float] = field(default=("", 0.0), init=False)

    def __post_init__(self) -> None:
        self.status = IngestStatus(self.stream.table.path, repr(self.stream.source))
        self._state(IngestState.STARTING)

    def run(self) -> None:
        """Raises the error that ends the run; the last status has it."""
        try:
            while not self.stop() and self._round():
                pass
        except BaseException as error:
            self._state(IngestState.FAILED, error=f"{type(error).__name__}: {error}")
            raise
        self._state(IngestState.STOPPED, error=None)

    def _round(self) -> bool:
        """One batch and the pause after it; whether to continue."""
        if self._waits_for_services():
            return True
        began = time.monotonic()
        report = self._batch()
        if report is None and not self.continuous:
            return False
        least = self.interval if report is not None else max(self.interval, _IDLE_SECONDS)
        self._wait(began + least)
        return True

    def _waits_for_services(self) -> bool:
        """Whether so many plans are pending that this round writes no batch."""
        if self.rounds is None or not self.rounds.status.is_behind:
            return False
        self._state(IngestState.WAITING)
        self._wait(time.monotonic() + _IDLE_SECONDS)
        return True

    def _batch(self) -> WriteReport | None:
        """The next batch, after as many attempts as the rules allow."""
        attempt = 0
        while True:
            attempt += 1
            began = time.monotonic()
            try:
                report, checkpoint = self.stream._next()
            except (PyhudiError, OSError) as error:
                if not is_passing(error) or not self.retries.allows(attempt) or self.stop():
                    raise
                self._state(IngestState.RETRYING, error=str(error), failures=attempt)
                pause = self.retries.pause(attempt)
                _LOG.warning(
                    "attempt %d failed and is repeated in %.1f s: %s", attempt, pause, error
                )
                self._wait(time.monotonic() + pause)
                if self.stop():
                    return None
                continue
            if report is None:
                self._idle(checkpoint)
            else:
                self._written(report, checkpoint, time.monotonic() - began)
            return report

    def _idle(self, checkpoint: str | None) -> None:
        services = None if self.rounds is None else self.rounds.status
        seen = (self.status.state, self.status.checkpoint, self.status.services)
        if seen != (IngestState.IDLE, checkpoint, services):
            lag = self._lag(checkpoint)
            self._state(IngestState.IDLE, checkpoint=checkpoint, lag=lag, error=None, failures=0)

    def _written(self, report: WriteReport, checkpoint: str | None, seconds: float) -> None:
        rows = rows_of(report)
        if self.rounds is not None:
            self.rounds.wake()
        self._state(
            IngestState.WRITING,
            checkpoint=checkpoint,
            lag=self._lag(checkpoint),
            last_commit=report.instant,
            last_commit_at=time.time(),
            batches=self.status.batches + 1,
            rows=self.status.rows + rows,
            rejected=self.status.rejected + report.rejected,
            rows_per_second=round(rows / max(seconds, 1e-9), 1),
            commit_seconds=round(sum(report.seconds.values()), 3),
            error=None,
            failures=0,
        )
        self.on_batch(report)

    def _lag(self, checkpoint: str | None) -> SourceLag | None:
        """Only for receivers of the status, because a source has to look for it; a source for which
        that takes long is queried less often."""
        if not self.receivers or time.monotonic() < self.next_lag:
            return self.status.lag
        return self._timed_lag(lambda: lag_of(self.stream.source, checkpoint), checkpoint)

    def _timed_lag(
        self, query: Callable[[], SourceLag | None], checkpoint: str | None
    ) -> SourceLag | None:
        """An unknown lag does not end the run."""
        began = time.monotonic()
        try:
            return query()
        except (PyhudiError, OSError):
            return None
        finally:
            now = time.monotonic()
            self.next_lag = now + _LAG_SHARE * (now - began)
            self.lag_at = (checkpoint, now)

    def _refresh_lag(self, left: float) -> None:
        """During a pause: the lag of another checkpoint, or an old one, is asked for again.  left:
        seconds of the pause; a source that fails is asked in long ones only."""
        now, status = time.monotonic(), self.status
        checkpoint, at = self.lag_at
        is_old = checkpoint != status.checkpoint or now >= at + _LAG_SECONDS
        if not self.receivers or not is_old or now < self.next_lag:
            return
        if status.state is IngestState.RETRYING and left < _LAG_SECONDS:
            return
        lag = self._timed_lag(self.stream.lag, status.checkpoint)
        if lag != status.lag:
            self._state(status.state, lag=lag)

    def _state(self, state: IngestState, **facts: Any) -> None:
        if state is not self.status.state or not self.status.since:
            facts["since"] = time.time()
        if self.rounds is not None:
            facts["services"] = self.rounds.status
        self.status = replace(self.status, state=state, **facts)
        for receiver in self.receivers:
            receiver(self.status)

    def _wait(self, until: float) -> None:
        """Sleep until a time of the monotonic clock, or until the run is to stop."""
        while (left := until - time.monotonic()) > 0 and not self.stop():
            self._refresh_lag(left)
            time.sleep(min(left, _STOP_SECONDS))

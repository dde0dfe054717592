"""The loop of an ingest: read a batch, write it with its checkpoint, continue."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Final, Protocol

import pyarrow as pa

from pyhudi.errors import OptionError
from pyhudi.ingest.source import RowSource, SourceLimits
from pyhudi.records import without_meta
from pyhudi.write.write_report import WriteReport

_IDLE_SECONDS: Final = 1.0


class _IngestTable(Protocol):
    """A table of `pyhudi.open_table`."""

    def checkpoint(self) -> str | None: ...

    @property
    def schema(self) -> pa.Schema: ...

    def ingest(
        self, rows: pa.RecordBatchReader, *, checkpoint: str, after: str | None, operation: str
    ) -> WriteReport: ...


Transform = Callable[[pa.RecordBatchReader], pa.RecordBatchReader]


@dataclass(frozen=True)
class Stream:
    """The rows of a source, written to a table exactly once.

    table: of `pyhudi.open_table`.  operation: `upsert`, `insert` or
    `bulk_insert`.  max_rows, max_bytes: of the source's data in a batch; None: no limit.
    transform: changes the rows of each batch before they are written.

    Each batch is one commit, which also has the checkpoint that it reaches; a stream continues from
    the checkpoint of the newest commit.  So a stream that was killed writes neither less nor more,
    and a second stream that writes to the table at the same time fails with WriteConflictError.
    """

    source: RowSource
    table: _IngestTable
    operation: str = "upsert"
    max_rows: int | None = None
    max_bytes: int | None = 1 << 30
    transform: Transform | None = None

    def run_once(self) -> WriteReport | None:
        """Write the next batch; None if the source has no new rows.

        Raises the errors of the source and of a write; the checkpoint has not moved then.
        """
        position = self.table.checkpoint()
        limits = SourceLimits(self.max_rows, self.max_bytes)
        batch = self.source.read(position, limits, without_meta(self.table.schema))
        if batch is None:
            return None
        rows = batch.rows if self.transform is None else self.transform(batch.rows)
        report = self.table.ingest(
            rows, checkpoint=batch.checkpoint, after=position, operation=self.operation
        )
        batch.committed()
        return report

    def available(self) -> Iterator[WriteReport]:
        """Write batches until the source has no new rows; yields the report of each."""
        while (report := self.run_once()) is not None:
            yield report

    def run(
        self,
        *,
        continuous: bool = False,
        interval_seconds: float = 0.0,
        stop: Callable[[], bool] = lambda: False,
        on_batch: Callable[[WriteReport], None] = lambda report: None,
    ) -> None:
        """Write batches until the source has no new rows.

        continuous: follow the source instead.  stop: ends the run when it is true, which is
        evaluated between batches.
        interval_seconds: least time from the start of a batch to that of the next.
        Raises OptionError for a negative interval, and the errors of `run_once`.
        """
        if interval_seconds < 0:
            raise OptionError("the interval must not be negative", interval=interval_seconds)
        while not stop():
            began = time.monotonic()
            report = self.run_once()
            if report is not None:
                on_batch(report)
            elif not continuous:
                return
            least = interval_seconds if report is not None else max(interval_seconds, _IDLE_SECONDS)
            time.sleep(max(0.0, began + least - time.monotonic()))

"""What a source of rows is to an ingest."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

import pyarrow as pa

REJECTED: Final = pa.schema(
    [
        pa.field("raw", pa.binary()),
        pa.field("reason", pa.string()),
        pa.field("position", pa.string()),
    ]
)
"""Rows that a source cannot decode: their bytes, why, and where the source has them, such as
`trips,0:17` or `landing/a.jsonl:12`."""


def rejected_batch(
    raws: Sequence[bytes], reasons: Sequence[str], positions: Sequence[str]
) -> pa.RecordBatch:
    """Rows of REJECTED."""
    types = (field.type for field in REJECTED)
    columns = (raws, reasons, positions)
    arrays = [pa.array(values, type=kind) for values, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=REJECTED)


@dataclass(frozen=True, slots=True)
class SourceLimits:
    """The size of one batch.  A batch has at least one unit of the source, however large.

    bytes: of the source's data.  seconds: for reading a batch, without the write; the batch ends at
    the unit in progress.  Sources that read a batch by one request have no limit of time.
    None: no limit.
    """

    rows: int | None = None
    bytes: int | None = 1 << 30
    seconds: float | None = None

    def timer(self) -> Callable[[], bool]:
        """Start the time of a batch; the result says whether it has passed."""
        if self.seconds is None:
            return lambda: False
        end = time.monotonic() + self.seconds
        return lambda: time.monotonic() >= end


class RejectedRows:
    """Collects the rows of a batch that cannot be decoded.

    A source adds rows while its batch is read; the stream takes them after each chunk and decides
    whether the batch fails.
    """

    def __init__(self) -> None:
        self._waiting: list[pa.RecordBatch] = []

    def add(self, rows: pa.RecordBatch) -> None:
        """rows: columns of REJECTED, in the order of the source."""
        if rows.num_rows:
            self._waiting.append(rows)

    def take(self) -> pa.Table:
        """The rows since the last call; columns of REJECTED."""
        waiting, self._waiting = self._waiting, []
        return pa.Table.from_batches(waiting, REJECTED)


class SourceSplit(Protocol):
    """A part of a batch that one task reads.  It can be pickled and read more than once."""

    def read(self, rejected: RejectedRows) -> Iterator[pa.RecordBatch]:
        """The rows of this part; all parts of a batch give the same columns."""
        ...


def _nothing() -> None:
    pass


@dataclass(frozen=True, slots=True)
class SourceBatch:
    """Rows that follow a checkpoint.

    rows: read once, in the order of the source.  checkpoint: the position after them.
    rejected: collects rows that cannot be decoded while `rows` is read.
    committed: called once the commit is complete, for sources that remove or acknowledge what
    was read; a crash may leave it out.
    splits: the same rows as parts that tasks of Spark read at once; empty if the source has one
    reader only.
    """

    rows: pa.RecordBatchReader
    checkpoint: str
    rejected: RejectedRows = field(default_factory=RejectedRows)
    committed: Callable[[], None] = _nothing
    splits: Sequence[SourceSplit] = ()


class RowSource(Protocol):
    """Rows in an order that does not change, and positions in it as text."""

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """The rows after a checkpoint; None if there are none now.

        checkpoint: as an earlier batch stated it, or as Apache Hudi's streamer stored it; None
        reads from the beginning.  The same checkpoint gives the same rows again, or more.
        schema: the user columns of the table, which type values of formats without types; no
        columns if the table is new.
        Raises UserError for a checkpoint that is not one of this source.
        """
        ...


@dataclass(frozen=True, slots=True)
class SourceLag:
    """What a source has after a checkpoint; None where it cannot say.

    seconds: age of the oldest row that has not been read.
    """

    rows: int | None = None
    bytes: int | None = None
    files: int | None = None
    seconds: float | None = None


@runtime_checkable
class ReportsLag(Protocol):
    """A source that can say how much is left to read; optional."""

    def lag(self, checkpoint: str | None) -> SourceLag:
        """What follows a checkpoint; reads no rows.  checkpoint: as for `read`."""
        ...


@runtime_checkable
class PlansSplits(Protocol):
    """A source that can divide a batch without reading it; optional."""

    def plan(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """A batch whose rows are in its splits alone; `rows` has their columns and is empty.

        checkpoint, limits: as for `read`.  schema: of the table, whose columns the splits give.
        Reading a split raises SchemaError for a row with other columns.
        """
        ...


def lag_of(source: object, checkpoint: str | None) -> SourceLag | None:
    """The lag of a source; None if it cannot say.  Raises the errors of the source."""
    if not isinstance(source, ReportsLag):
        return None
    return source.lag(checkpoint)

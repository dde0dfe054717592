"""What a source of rows is to an ingest."""

from __future__ import annotations

import json
import time
from collections import deque
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final, Protocol, runtime_checkable

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import PyhudiError, UserError

REJECTED: Final = pa.schema(
    [
        pa.field("raw", pa.binary()),
        pa.field("reason", pa.string()),
        pa.field("position", pa.string()),
    ]
)
"""Rows that a source cannot decode: their bytes, why, and where the source has them, such as
`trips,0:17` or `landing/a.jsonl:12`."""

_Names = Callable[[Sequence[int]], list[str]]


def rejected_batch(
    raws: Sequence[bytes | None], reasons: Sequence[str], positions: Sequence[str]
) -> pa.RecordBatch:
    """Rows of REJECTED."""
    types = (field.type for field in REJECTED)
    columns = (raws, reasons, positions)
    arrays = [pa.array(values, type=kind) for values, kind in zip(columns, types, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=REJECTED)


def texts_of_rows(rows: pa.Table) -> list[bytes]:
    """Rows as JSON; times that Python does not have as numbers."""
    try:
        found = rows.to_pylist()
    except (ValueError, OverflowError):
        found = pa.Table.from_arrays(
            [_plain_times(column) for column in rows.columns], rows.column_names
        ).to_pylist()
    texts = (json.dumps(row, default=str) for row in found)
    return [text.encode("utf-8", "replace") for text in texts]


def _plain_times(column: pa.ChunkedArray) -> pa.ChunkedArray:
    kind = column.type
    if pt.is_timestamp(kind) or pt.is_time64(kind) or pt.is_duration(kind) or pt.is_date64(kind):
        return column.cast(pa.int64())
    if pt.is_date32(kind) or pt.is_time32(kind):
        return column.cast(pa.int32())
    if not pt.is_nested(kind):
        return column
    return pa.chunked_array([pa.array([str(kind)] * len(column), pa.string())])


def failing_places(
    values: pa.Array, convert: Callable[[pa.Array], object], first: int = 0
) -> Iterator[int]:
    """Places of values that `convert` raises an ArrowException or UserError for, found by
    halving; one call where all can be converted."""
    if not len(values):
        return
    try:
        convert(values)
    except (pa.ArrowException, UserError):
        if len(values) == 1:
            yield first
            return
        half = len(values) // 2
        yield from failing_places(values.slice(0, half), convert, first)
        yield from failing_places(values.slice(half), convert, first + half)


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
        self.error: PyhudiError | None = None

    def add(self, rows: pa.RecordBatch, error: PyhudiError | None = None) -> None:
        """rows: columns of REJECTED, in the order of the source.  error: raised in place of a
        BadRowsError where no bad rows are allowed."""
        if rows.num_rows:
            self._waiting.append(rows)
            self.error = self.error or error

    def take(self) -> pa.Table:
        """The rows since the last call; columns of REJECTED."""
        waiting, self._waiting = self._waiting, []
        return pa.Table.from_batches(waiting, REJECTED)


class RowPlaces:
    """Where the source has each row of a batch, as `position` of REJECTED; optional.

    A source adds the places of rows before it gives them, all or none of a batch; the stream asks
    for those of rows that do not fit the table.  The same row has the same place in every batch.
    """

    def __init__(self) -> None:
        self._parts: deque[tuple[int, _Names]] = deque()
        self._first = self._after = 0

    def add(self, count: int, names: _Names) -> None:
        """names: the places of some of the next `count` rows, by their numbers from 0."""
        self._parts.append((count, names))
        self._after += count

    def of(self, rows: Sequence[int]) -> list[str] | None:
        """Of rows of the batch, by their ascending numbers from 0; rows before them are forgotten.
        None if the source has not stated them."""
        if not rows or rows[-1] >= self._after:
            return [] if not rows else None
        found: list[str] = []
        for count, names in list(self._parts):
            inside = [n - self._first for n in rows if self._first <= n < self._first + count]
            found += names(inside) if inside else []
            if self._first + count > rows[-1]:
                break
            self._first += count
            self._parts.popleft()
        return found if len(found) == len(rows) else None


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
    rejected: collects rows that cannot be decoded while `rows` is read.  places: where the source
    has the others, if it can say.
    committed: called once the commit is complete, for sources that remove or acknowledge what
    was read; a crash may leave it out.
    splits: the same rows as parts that tasks of Spark read at once; empty if the source has one
    reader only.
    columns: those of parts that state their columns, such as Parquet files, and the name of a part
    with them.
    """

    rows: pa.RecordBatchReader
    checkpoint: str
    rejected: RejectedRows = field(default_factory=RejectedRows)
    committed: Callable[[], None] = _nothing
    splits: Sequence[SourceSplit] = ()
    places: RowPlaces = field(default_factory=RowPlaces)
    columns: Mapping[pa.Schema, str] = field(default_factory=dict)


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
class IngestedTable:
    """What a source of changes has to know of the table that its rows are written to.

    record_key: its columns.  identity: the columns that tell the rows of the table apart: the
    record key, with an index that is not global also the columns of the partition path.
    stored: the present rows with these columns.
    """

    record_key: Sequence[str]
    identity: Sequence[str]
    stored: Callable[[Sequence[str]], Iterator[pa.RecordBatch]]


@runtime_checkable
class ReadsChanges(Protocol):
    """A source of updates and deletes, which needs to know what identifies a row; optional."""

    def read_changes(
        self,
        checkpoint: str | None,
        limits: SourceLimits,
        schema: pa.Schema,
        table: IngestedTable | None,
    ) -> SourceBatch | None:
        """As `read`.  table: None if the rows are transformed before they are written."""
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

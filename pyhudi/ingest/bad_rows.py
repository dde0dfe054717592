"""Rows that cannot be decoded or do not fit the table: fail, skip, or write to an error table.

A batch passes two checks while it is read: `decoded` takes the rows that the source could not
decode, and `fitted` the rows whose values have no place in the table.  Both raise in the middle of
the read, so nothing has been written then.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from hashlib import blake2b
from itertools import chain
from itertools import count as count_up
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.types as pt

from pyhudi.api.table import Table, create_table, open_table
from pyhudi.arrays import Mask
from pyhudi.errors import (
    BadRowsError,
    LockError,
    OptionError,
    PyhudiError,
    TableNotFoundError,
    UserError,
    WriteConflictError,
)
from pyhudi.ingest.retries import Retries
from pyhudi.ingest.row_fit import ColumnsFit, columns_fit, rows_with, selectable, shaped
from pyhudi.ingest.source import (
    REJECTED,
    RejectedRows,
    RowPlaces,
    failing_places,
    texts_of_rows,
)
from pyhudi.records import IS_DELETED
from pyhudi.write.input.schema_check import SchemaRules

_SHOWN: Final = 5
"""Bad rows that an error names."""
ERROR_ROWS: Final = REJECTED.append(pa.field("target", pa.string())).append(
    pa.field("rejected_at", pa.timestamp("us", "UTC"))
)
"""Columns of an error table.  target: the table that the rows were for."""

_SHARED: Final = Retries(20, first_seconds=0.05, max_seconds=2.0)
"""Attempts of a write to an error table, to which other ingests may write."""


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """A table that collects bad rows; it is created with the first of them.

    Its columns are raw (the bytes of the row; JSON for rows that were decoded), reason, position,
    target and rejected_at.  A bad row is stored once, also if it is read again after a crash or a
    reset in a batch of another size: target and position identify it.  The bad rows of a batch are
    committed before its good ones.  Several ingests may share a table.
    """

    path: str
    storage_options: Mapping[str, Any] | None = None

    def write(self, rejected: pa.Table, target: str) -> None:
        """rejected: columns of REJECTED.  target: URL of the table that the rows were for."""
        count = rejected.num_rows
        now = pa.scalar(int(time.time() * 1e6), pa.timestamp("us", "UTC"))
        rows = rejected.append_column(ERROR_ROWS.field("target"), pa.repeat(target, count))
        rows = rows.append_column(ERROR_ROWS.field("rejected_at"), pa.repeat(now, count))
        for attempt in count_up(1):
            try:
                self._opened().upsert(rows)
                return
            except (WriteConflictError, LockError):  # of an ingest that shares the table
                if not _SHARED.allows(attempt):
                    raise
                time.sleep(_SHARED.pause(attempt))

    def _opened(self) -> Table:
        """The table, which is created unless another ingest is first."""
        try:
            return open_table(self.path, storage_options=self.storage_options)
        except TableNotFoundError:
            pass
        try:
            return create_table(
                self.path,
                ERROR_ROWS,
                record_key=["target", "position"],
                storage_options=self.storage_options,
                other_files=True,
            )
        except UserError:
            return open_table(self.path, storage_options=self.storage_options)


BadRows = Literal["fail", "skip"] | ErrorTable


@dataclass(frozen=True, slots=True)
class BadRowRules:
    """What happens to bad rows.

    rows_max, share_max: bad rows of a batch, and their share of its rows, above which the batch
    fails; None: no limit.
    """

    bad_rows: BadRows = "fail"
    rows_max: int | None = None
    share_max: float | None = None

    def __post_init__(self) -> None:
        if not isinstance(self.bad_rows, ErrorTable) and self.bad_rows not in ("fail", "skip"):
            raise OptionError(
                "unknown treatment of bad rows",
                bad_rows=self.bad_rows,
                hint='use "fail", "skip" or ErrorTable(path)',
            )
        if (self.rows_max or 0) < 0 or not 0 <= (self.share_max or 0) <= 1:
            raise OptionError(
                "limits of bad rows are a count and a share from 0 to 1",
                max_bad_rows=self.rows_max,
                max_bad_share=self.share_max,
            )


RowTest = Callable[[pa.Table], object]
"""Raises UserError for rows that cannot be written, such as those with an unsafe partition path."""


def _no_test(rows: pa.Table) -> None:
    pass


@dataclass(frozen=True, slots=True)
class TableFit:
    """What rows must fit: the table's user columns, those that must not be null, and the changes
    of the schema that a write may make.  A new table has no columns yet.

    row_test: called when the first rows are read, for the test of rows with the table's types.
    """

    schema: pa.Schema
    record_key: Sequence[str] = ()
    ordering: Sequence[str] = ()
    partition: Sequence[str] = ()
    rules: SchemaRules = field(default_factory=SchemaRules)
    row_test: Callable[[], RowTest] = field(default=lambda: _no_test)


@dataclass
class BadRowCheck:
    """The checks of one batch.  target: URL of the table.  after: the checkpoint that the batch
    follows.  places: of its rows, for positions of rows that do not fit; None if they were
    transformed.

    count: bad rows so far.  failure: the error that ended the read; a library that reads the rows
    may wrap it.
    """

    rules: BadRowRules
    target: str
    after: str | None
    places: RowPlaces | None = None
    count: int = 0
    failure: BaseException | None = None
    _good: int = field(default=0, init=False)
    _rejected: list[pa.Table] = field(default_factory=list, init=False)
    _equal: Counter[str] = field(default_factory=Counter, init=False)

    def decoded(self, rows: pa.RecordBatchReader, rejected: RejectedRows) -> pa.RecordBatchReader:
        """The rows of a source, which adds those that it cannot decode to `rejected`."""

        def checked() -> Iterator[pa.RecordBatch]:
            for batch in self._read(rows):
                self._take(rejected.take(), rejected.error)
                yield batch
            self._take(rejected.take(), rejected.error)

        return pa.RecordBatchReader.from_batches(rows.schema, checked())

    def _read(self, rows: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        try:
            yield from rows
        except (PyhudiError, OSError) as error:
            self.failure = error
            raise

    def fitted(self, rows: pa.RecordBatchReader, fit: TableFit) -> pa.RecordBatchReader:
        """Rows that have a place in the table; the last check of a batch."""
        rows = _with_needed_columns(selectable(rows), fit)
        columns = columns_fit(rows.schema, fit.schema, fit.rules)

        def checked() -> Iterator[pa.RecordBatch]:
            number, test = 0, fit.row_test()
            for batch in rows:
                good = self._fitting(batch, columns, fit, test, number)
                number += batch.num_rows
                self._good += good.num_rows
                yield from good.to_batches()
            self._finish()

        return pa.RecordBatchReader.from_batches(columns.schema, checked())

    def _fitting(
        self, batch: pa.RecordBatch, columns: ColumnsFit, fit: TableFit, test: RowTest, first: int
    ) -> pa.Table:
        """The rows that fit; the others are taken.  first: rows of the batch before these."""
        rows = pa.Table.from_batches([batch])
        reasons: dict[int, str] = {}

        def add(places: Iterable[int], reason: str) -> None:
            for place in places:
                reasons.setdefault(int(place), reason)

        for refused in columns.refused:
            mask = rows_with(rows, refused.steps)
            add(np.flatnonzero(mask), f"column {'.'.join(refused.steps)}: {refused.reason}")
        for mask, reason in chain(_without_key(batch, fit), _without_order(batch, fit)):
            add(np.flatnonzero(mask), reason)
        for column in columns.schema:
            values = rows.column(column.name)
            bad = failing_places(values, partial(shaped, target=column.type, name=column.name))
            add(bad, f"column {column.name}: not a value of type {column.type}")
        retained = _without(rows, reasons)
        good = columns.shaped(retained)
        where = np.delete(np.arange(rows.num_rows), sorted(reasons))
        late = list(failing_places(good, test))
        for place in late:
            add([where[place]], _refusal(test, good.slice(place, 1)))
        if not reasons:
            return good
        self._report(rows, reasons, first)
        return _without(good, late)

    def _report(self, rows: pa.Table, reasons: Mapping[int, str], first: int) -> None:
        where = sorted(reasons)
        texts = texts_of_rows(rows.take(where))
        positions = self._positions([first + row for row in where], texts)
        values = (texts, [reasons[row] for row in where], positions)
        arrays = [pa.array(v, f.type) for v, f in zip(values, REJECTED, strict=True)]
        self._take(pa.Table.from_arrays(arrays, schema=REJECTED))

    def _positions(self, rows: Sequence[int], texts: Sequence[bytes]) -> list[str]:
        """Of bad rows: as the source states them.  Otherwise they do not depend on the size of the
        batch either where they identify rows: they are made of the content then."""
        places = None if self.places is None else self.places.of(rows)
        if places is not None:
            return places
        if not isinstance(self.rules.bad_rows, ErrorTable):
            return [f"{self.after or 'start'}+{row + 1}" for row in rows]
        found = []
        for text in texts:
            name = blake2b(text, digest_size=16).hexdigest()
            self._equal[name] += 1
            found.append(f"content:{name}+{self._equal[name]}")
        return found

    def _take(self, rejected: pa.Table, error: PyhudiError | None = None) -> None:
        """Add bad rows.  Raises BadRowsError, or the error of the source, if the rules allow no
        more."""
        if not rejected.num_rows:
            return
        self.count += rejected.num_rows
        if isinstance(self.rules.bad_rows, ErrorTable) or len(self._rejected) < _SHOWN:
            self._rejected.append(rejected)
        limit = 0 if self.rules.bad_rows == "fail" else self.rules.rows_max
        if limit is not None and self.count > limit:
            if error is not None and self.rules.bad_rows == "fail":
                self.failure = error
                raise error
            self._fail("rows of the source cannot be decoded or do not fit the table")

    def _finish(self) -> None:
        """The end of the batch, before anything is written."""
        total = self.count + self._good
        if self.rules.share_max is not None and self.count > self.rules.share_max * total:
            self._fail("too large a share of the batch cannot be decoded or does not fit the table")
        if isinstance(self.rules.bad_rows, ErrorTable) and self._rejected:
            self.rules.bad_rows.write(pa.concat_tables(self._rejected), self.target)

    def _fail(self, what: str) -> None:
        shown = pa.concat_tables(self._rejected).slice(0, _SHOWN).to_pylist()
        failure = BadRowsError(
            what,
            table=self.target,
            bad_rows=self.count,
            good_rows=self._good,
            positions=", ".join(row["position"] for row in shown),
            reason=shown[0]["reason"],
            hint='correct the source, or ingest with bad_rows="skip" or an ErrorTable',
        )
        self.failure = failure
        raise failure


def _without(rows: pa.Table, places: Iterable[int]) -> pa.Table:
    left_out = list(places)
    if not left_out:
        return rows
    good = np.ones(rows.num_rows, np.bool_)
    good[left_out] = False
    return rows.filter(pa.array(good, pa.bool_()))


def _refusal(test: RowTest, row: pa.Table) -> str:
    """Why a test refuses a row."""
    try:
        test(row)
    except (pa.ArrowException, UserError) as error:
        return str(error)
    return "the row cannot be written"


def _with_needed_columns(rows: pa.RecordBatchReader, fit: TableFit) -> pa.RecordBatchReader:
    """With null columns of the record key if the rows have none of them, such as JSON messages
    without any field; and with those that a new table is created with.

    A column that the first batch of a new table has no value for is text, an ordering a number.
    """
    names = set(rows.schema.names)
    needed: list[pa.Field] = []
    if not len(fit.schema):
        kinds = dict.fromkeys((*fit.record_key, *fit.partition), pa.string())
        kinds.update(dict.fromkeys(fit.ordering, pa.int64()))
        needed = [pa.field(n, kind) for n, kind in kinds.items() if n not in names and "." not in n]
        empty = [f.name for f in rows.schema if f.name in kinds and pt.is_null(f.type)]
        if empty:
            rows = _retyped(rows, {name: kinds[name] for name in empty})
    else:
        keys = [column for column in fit.schema if column.name in fit.record_key]
        is_nested = not keys or len(keys) < len(fit.record_key)
        if not is_nested and not any(column.name in names for column in keys):
            needed = [column.with_nullable(True) for column in keys]
    if not needed:
        return rows
    schema = pa.schema([*rows.schema, *needed])

    def completed() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            nulls = [pa.nulls(batch.num_rows, column.type) for column in needed]
            yield pa.RecordBatch.from_arrays([*batch.columns, *nulls], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, completed())


def _retyped(rows: pa.RecordBatchReader, kinds: Mapping[str, pa.DataType]) -> pa.RecordBatchReader:
    """Columns of the type null with other types."""
    schema = pa.schema([f.with_type(kinds.get(f.name, f.type)) for f in rows.schema])
    return pa.RecordBatchReader.from_batches(schema, (batch.cast(schema) for batch in rows))


def _without_key(batch: pa.RecordBatch, fit: TableFit) -> Iterator[tuple[Mask, str]]:
    """The mask of rows whose key has only null and empty fields, if all fields are columns."""
    if not fit.record_key or not set(fit.record_key) <= set(batch.schema.names):
        return
    blank = np.ones(batch.num_rows, np.bool_)
    for name in fit.record_key:
        blank &= _is_blank(batch.column(name))
    yield blank, f"column {', '.join(fit.record_key)}: the record key is null or empty"


def _is_blank(column: pa.Array) -> Mask:
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    blank = pc.is_null(column)
    if pa.types.is_string(column.type) or pa.types.is_large_string(column.type):
        blank = pc.or_(blank, pc.fill_null(pc.equal(column, ""), False))
    mask: Mask = blank.to_numpy(zero_copy_only=False)
    return mask


def _without_order(batch: pa.RecordBatch, fit: TableFit) -> Iterator[tuple[Mask, str]]:
    """The mask of rows with a null in an ordering column, unless they are deletes."""
    for name in fit.ordering:
        if name not in batch.schema.names or not batch.column(name).null_count:
            continue
        mask = pc.is_null(batch.column(name)).to_numpy(zero_copy_only=False)
        if IS_DELETED in batch.schema.names:
            deleted = pc.fill_null(batch.column(IS_DELETED), False)
            mask = mask & ~deleted.to_numpy(zero_copy_only=False)
        yield mask, f"column {name}: the ordering is null"

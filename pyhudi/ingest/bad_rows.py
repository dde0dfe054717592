"""Rows that cannot be decoded or do not fit the table: fail, skip, or write to an error table.

A batch passes two checks while it is read: `decoded` takes the rows that the source could not
decode, and `fitted` the rows whose values have no place in the table.  Both raise in the middle of
the read, so nothing has been written then.
"""

from __future__ import annotations

import json
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import chain
from typing import Any, Final, Literal

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.api.table import create_table, open_table
from pyhudi.arrays import Mask
from pyhudi.errors import BadRowsError, OptionError, SchemaError, TableNotFoundError
from pyhudi.ingest.source import REJECTED, RejectedRows
from pyhudi.records import IS_DELETED
from pyhudi.write.input.schema_check import fit_schema

_SHOWN: Final = 5
"""Bad rows that an error names."""
ERROR_ROWS: Final = REJECTED.append(pa.field("target", pa.string())).append(
    pa.field("rejected_at", pa.timestamp("us", "UTC"))
)
"""Columns of an error table.  target: the table that the rows were for."""


@dataclass(frozen=True, slots=True)
class ErrorTable:
    """A table that collects bad rows; it is created with the first of them.

    Its columns are raw (the bytes of the row; JSON for rows that were decoded), reason, position,
    target and rejected_at.  A batch that is read again after a crash replaces its bad rows, which
    target and position identify.  The bad rows of a batch are committed before its good ones.
    """

    path: str
    storage_options: Mapping[str, Any] | None = None

    def write(self, rejected: pa.Table, target: str) -> None:
        """rejected: columns of REJECTED.  target: URL of the table that the rows were for."""
        count = rejected.num_rows
        now = pa.scalar(int(time.time() * 1e6), pa.timestamp("us", "UTC"))
        rows = rejected.append_column(ERROR_ROWS.field("target"), pa.repeat(target, count))
        rows = rows.append_column(ERROR_ROWS.field("rejected_at"), pa.repeat(now, count))
        try:
            table = open_table(self.path, storage_options=self.storage_options)
        except TableNotFoundError:
            table = create_table(
                self.path, ERROR_ROWS, record_key=["target", "position"],
                storage_options=self.storage_options,
            )  # fmt: skip
        table.upsert(rows)


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
                "unknown treatment of bad rows", bad_rows=self.bad_rows,
                hint='use "fail", "skip" or ErrorTable(path)',
            )  # fmt: skip
        if (self.rows_max or 0) < 0 or not 0 <= (self.share_max or 0) <= 1:
            raise OptionError(
                "limits of bad rows are a count and a share from 0 to 1",
                max_bad_rows=self.rows_max, max_bad_share=self.share_max,
            )  # fmt: skip


@dataclass(frozen=True, slots=True)
class TableFit:
    """What rows must fit: the table's user columns, and those that must not be null."""

    schema: pa.Schema
    record_key: Sequence[str] = ()
    ordering: Sequence[str] = ()


@dataclass
class BadRowCheck:
    """The checks of one batch.  target: URL of the table.  after: the checkpoint that the batch
    follows, for positions of rows that do not fit.

    count: bad rows so far.  failure: the error that ended the read; a library that reads the rows
    may wrap it.
    """

    rules: BadRowRules
    target: str
    after: str | None
    count: int = 0
    failure: BadRowsError | None = None
    _good: int = field(default=0, init=False)
    _rejected: list[pa.Table] = field(default_factory=list, init=False)

    def decoded(self, rows: pa.RecordBatchReader, rejected: RejectedRows) -> pa.RecordBatchReader:
        """The rows of a source, which adds those that it cannot decode to `rejected`."""

        def checked() -> Iterator[pa.RecordBatch]:
            for batch in rows:
                self._take(rejected.take())
                yield batch
            self._take(rejected.take())

        return pa.RecordBatchReader.from_batches(rows.schema, checked())

    def fitted(self, rows: pa.RecordBatchReader, fit: TableFit) -> pa.RecordBatchReader:
        """Rows that have a place in the table; the last check of a batch."""
        rows = _with_key_columns(rows, fit)
        casts = _casts(rows.schema, fit.schema)
        schema = rows.schema
        for name, kind in casts.items():
            position = schema.get_field_index(name)
            schema = schema.set(position, schema.field(position).with_type(kind))

        def checked() -> Iterator[pa.RecordBatch]:
            number = 0
            for batch in rows:
                good = self._fitting(batch, casts, fit, number)
                number += batch.num_rows
                self._good += good.num_rows
                yield good.cast(schema) if casts else good
            self._finish()

        return pa.RecordBatchReader.from_batches(schema, checked())

    def _fitting(
        self, batch: pa.RecordBatch, casts: Mapping[str, pa.DataType], fit: TableFit, first: int
    ) -> pa.RecordBatch:
        """The rows that fit; the others are taken.  first: rows of the batch before these."""
        reasons: dict[int, str] = {}
        for mask, reason in chain(_without_key(batch, fit), _without_order(batch, fit)):
            reasons |= {int(row): reason for row in np.flatnonzero(mask) if int(row) not in reasons}
        for name, kind in casts.items():
            column = batch.column(name)
            for row in _misfits(column, kind):
                reasons.setdefault(row, f"column {name}: not a value of type {kind}")
        if not reasons:
            return batch
        where = sorted(reasons)
        texts = [json.dumps(row, default=str) for row in batch.take(where).to_pylist()]
        positions = [f"{self.after or 'start'}+{first + row + 1}" for row in where]
        values = ([text.encode() for text in texts], [reasons[row] for row in where], positions)
        arrays = [pa.array(v, f.type) for v, f in zip(values, REJECTED, strict=True)]
        self._take(pa.Table.from_arrays(arrays, schema=REJECTED))
        good = np.ones(batch.num_rows, np.bool_)
        good[where] = False
        return batch.filter(pa.array(good, pa.bool_()))

    def _take(self, rejected: pa.Table) -> None:
        """Add bad rows.  Raises BadRowsError if the rules allow no more."""
        if not rejected.num_rows:
            return
        self.count += rejected.num_rows
        if isinstance(self.rules.bad_rows, ErrorTable) or len(self._rejected) < _SHOWN:
            self._rejected.append(rejected)
        limit = 0 if self.rules.bad_rows == "fail" else self.rules.rows_max
        if limit is not None and self.count > limit:
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
        self.failure = BadRowsError(
            what, table=self.target, bad_rows=self.count, good_rows=self._good,
            positions=", ".join(row["position"] for row in shown), reason=shown[0]["reason"],
            hint='correct the source, or ingest with bad_rows="skip" or an ErrorTable',
        )  # fmt: skip
        raise self.failure


def _casts(rows: pa.Schema, table: pa.Schema) -> dict[str, pa.DataType]:
    """Columns whose type a write does not accept, and the table's type of each."""
    found: dict[str, pa.DataType] = {}
    for column in rows:
        if column.name not in table.names:
            continue
        stored = table.field(column.name)
        try:
            fit_schema(pa.schema([column]), pa.schema([stored]))
        except SchemaError:
            found[column.name] = stored.type
    return found


def _with_key_columns(rows: pa.RecordBatchReader, fit: TableFit) -> pa.RecordBatchReader:
    """With null columns of the record key if the rows have none of them, such as JSON messages
    without any field."""
    keys = [column for column in fit.schema if column.name in fit.record_key]
    if not keys or len(keys) < len(fit.record_key):  # a key of nested fields
        return rows
    if any(column.name in rows.schema.names for column in keys):
        return rows
    schema = pa.schema([*rows.schema, *(column.with_nullable(True) for column in keys)])

    def completed() -> Iterator[pa.RecordBatch]:
        for batch in rows:
            nulls = [pa.nulls(batch.num_rows, column.type) for column in keys]
            yield pa.RecordBatch.from_arrays([*batch.columns, *nulls], schema=schema)

    return pa.RecordBatchReader.from_batches(schema, completed())


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


def _misfits(column: pa.Array, kind: pa.DataType, first: int = 0) -> Iterator[int]:
    """Rows whose value cannot be cast, found by halving; no cost where all can."""
    if _can_cast(column, kind):
        return
    if len(column) == 1:
        yield first
        return
    half = len(column) // 2
    yield from _misfits(column.slice(0, half), kind, first)
    yield from _misfits(column.slice(half), kind, first + half)


def _can_cast(column: pa.Array, kind: pa.DataType) -> bool:
    try:
        pc.cast(column, kind)
    except (pa.ArrowInvalid, pa.ArrowTypeError, pa.ArrowNotImplementedError):
        return False
    return True

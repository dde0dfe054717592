"""The incremental column of a query: its values as checkpoints, in the order of the database.

All comparisons are made by the database, as collations, decimals and times have other orders in
Python.  A value of PostgreSQL is a text in checkpoints and parameters, and is cast to its type by
the database: drivers return numeric as text, and times with other zones.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final, Protocol

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import OptionError, StorageError, UserError
from pyhudi.ingest.databases.connections import Database
from pyhudi.ingest.databases.postgres_rows import column_types, postgres_batches, quoted, text_of

Overlap = float | timedelta

_INTEGERS: Final = frozenset({20, 21, 23, 26})
_NUMBERS: Final = frozenset({700, 701, 1700})
_TIMES: Final = frozenset({1082, 1114, 1184})
_ORDER_OF_TYPE: Final = """
SELECT format_type(t.oid, -1) AS name, t.typtype = 'e' OR t.typtype = 'b' AND EXISTS (
  SELECT 1 FROM pg_opclass c JOIN pg_am a ON a.oid = c.opcmethod
  WHERE a.amname = 'btree' AND c.opcdefault AND (c.opcintype = t.oid OR c.opcintype IN (
    SELECT casttarget FROM pg_cast
    WHERE castsource = t.oid AND castmethod = 'b' AND castcontext = 'i'))) AS is_ordered
FROM pg_type t WHERE t.oid = """


class IncrementalColumn(Protocol):
    """Text of SQL, and values of its parameters."""

    @property
    def name(self) -> str:
        """Quoted."""
        ...

    @property
    def source(self) -> str:
        """What follows FROM: the rows of the query that can be read."""
        ...

    def parameter(self, number: int) -> str:
        """The expression of a parameter with a value of the column."""
        ...

    def value(self, checkpoint: str) -> Any:
        """Raises UserError for a checkpoint that is not a value of the column."""
        ...

    def newest(self, rows: str, values: Sequence[Any]) -> Any | None:
        """The greatest value of a SELECT of the column."""
        ...

    def before(self, number: int, value: Any, overlap: Overlap) -> tuple[str, Any]:
        """The expression and the value of a parameter that is so much before a value."""
        ...

    def checkpoint(self, value: Any) -> str: ...


def incremental_column(
    database: Database, query: str, column: str, overlap: Overlap | None, *, is_postgres: bool
) -> IncrementalColumn:
    """Raises UserError for a column of PostgreSQL that is absent or whose type has no order, and
    OptionError for an overlap that its values cannot have."""
    make = _of_postgres if is_postgres else _of_any
    return make(database, query, column, overlap)


@dataclass(frozen=True, slots=True)
class _PostgresColumn:
    """type: its name in SQL.  kind: its id."""

    database: Database
    column: str
    source: str
    type: str
    kind: int

    @property
    def name(self) -> str:
        return quoted(self.column)

    def parameter(self, number: int) -> str:
        return f"CAST(CAST({self.database.parameter(number)} AS text) AS {self.type})"

    def value(self, checkpoint: str) -> str:
        text = f"SELECT {self.parameter(1)} IS NULL AS is_null"
        try:
            for _ in postgres_batches(self.database, text, [checkpoint]):
                pass
        except StorageError as error:
            if error.retryable:
                raise
            raise not_a_checkpoint(checkpoint, self.type) from error
        return checkpoint

    def newest(self, rows: str, values: Sequence[Any]) -> str | None:
        greatest = f"SELECT {self.name} FROM ({rows}) AS pyhudi_part"
        greatest += f" ORDER BY {self.name} DESC LIMIT 1"
        text = f"SELECT {text_of('pyhudi_newest', self.column)} AS value"
        text += f" FROM ({greatest}) AS pyhudi_newest"
        found = pa.Table.from_batches(postgres_batches(self.database, text, values))
        value: str | None = found.column(0)[0].as_py() if found.num_rows else None
        return value

    def before(self, number: int, value: str, overlap: Overlap) -> tuple[str, str]:
        kind = "bigint" if self.kind in _INTEGERS else self.type
        if isinstance(overlap, timedelta):
            seconds = Decimal(overlap // timedelta(microseconds=1)).scaleb(-6)
            difference = f"CAST('{seconds} seconds' AS interval)"
        elif isinstance(overlap, int):
            difference = str(overlap)
        else:
            difference = f"CAST('{Decimal(str(overlap))}' AS numeric)"
        return f"(CAST({self.parameter(number)} AS {kind}) - {difference})", value

    def checkpoint(self, value: str) -> str:
        return value


def _of_postgres(
    database: Database, query: str, column: str, overlap: Overlap | None
) -> _PostgresColumn:
    types = column_types(database, query, ())
    if column not in types:
        raise UserError(
            "the query has no such column",
            column=column,
            columns=", ".join(types),
            database=database.url,
        )
    kind = types[column].kind
    found = pa.Table.from_batches(database.query(f"{_ORDER_OF_TYPE}{kind}", ()))
    name, is_ordered = found.to_pylist()[0].values()
    if not is_ordered:
        raise UserError(
            "the type of the incremental column has no order",
            column=column,
            type=name,
            database=database.url,
            hint="choose a column of numbers, times or text",
        )
    suited = _TIMES if isinstance(overlap, timedelta) else _INTEGERS | _NUMBERS
    if overlap is not None and kind not in suited:
        raise _no_overlap(column, overlap, name)
    name_of, source = quoted(column), f"({query}) AS pyhudi_rows"
    if kind in _TIMES:
        source = f"(SELECT * FROM {source} WHERE isfinite({name_of})) AS pyhudi_rows"
    elif kind in _NUMBERS:
        infinite = "('NaN', 'Infinity', '-Infinity')"
        source = f"(SELECT * FROM {source} WHERE concat({name_of}) NOT IN {infinite})"
        source += " AS pyhudi_rows"
    return _PostgresColumn(database, column, source, name, kind)


@dataclass(frozen=True, slots=True)
class _AnyColumn:
    """kind: the type of its values; null if it has none."""

    database: Database
    column: str
    source: str
    kind: pa.DataType

    @property
    def name(self) -> str:
        return quoted(self.column)

    def parameter(self, number: int) -> str:
        return self.database.parameter(number)

    def value(self, checkpoint: str) -> Any:
        return _parsed(checkpoint, self.kind)

    def newest(self, rows: str, values: Sequence[Any]) -> Any | None:
        return _greatest(self.database, self.name, f"({rows}) AS pyhudi_part", values).as_py()

    def before(self, number: int, value: Any, overlap: Overlap) -> tuple[str, Any]:
        is_decimal = isinstance(value, Decimal) and isinstance(overlap, float)
        with suppress(TypeError):
            return self.parameter(number), value - (
                Decimal(str(overlap)) if is_decimal else overlap
            )
        raise _no_overlap(self.column, overlap, str(self.kind))

    def checkpoint(self, value: Any) -> str:
        return value.isoformat() if isinstance(value, date) else str(value)


def _of_any(database: Database, query: str, column: str, overlap: Overlap | None) -> _AnyColumn:
    source = f"({query}) AS pyhudi_rows"
    greatest = _greatest(database, quoted(column), source, ())
    kind = greatest.type if greatest.is_valid else pa.null()
    found = _AnyColumn(database, column, source, kind)
    if overlap is not None and greatest.is_valid:
        found.before(1, greatest.as_py(), overlap)
    return found


def _greatest(database: Database, name: str, source: str, values: Sequence[Any]) -> pa.Scalar:
    text = f"SELECT max({name}) FROM {source}"
    return pa.Table.from_batches(database.query(text, values)).column(0)[0]


def _parsed(checkpoint: str, kind: pa.DataType) -> Any:
    """A database such as SQLite returns 10 of a decimal column as a whole number."""
    try:
        if pt.is_integer(kind):
            return int(checkpoint) if checkpoint.lstrip("-").isdecimal() else float(checkpoint)
        if pt.is_floating(kind):
            return float(checkpoint)
        if pt.is_decimal(kind):
            return Decimal(checkpoint)
        if pt.is_timestamp(kind):
            return datetime.fromisoformat(checkpoint)
        if pt.is_date(kind):
            return date.fromisoformat(checkpoint)
    except (ValueError, InvalidOperation):
        raise not_a_checkpoint(checkpoint, str(kind)) from None
    return checkpoint


def not_a_checkpoint(checkpoint: str, expected: str) -> UserError:
    return UserError(
        "the table's checkpoint is not one of this query",
        checkpoint=checkpoint,
        expected=expected,
        hint="the newest commit was written from another source or column",
    )


def _no_overlap(column: str, overlap: Overlap, kind: str) -> OptionError:
    return OptionError(
        "the values of the incremental column have no such overlap",
        column=column,
        type=kind,
        overlap=str(overlap),
        hint="a number for numbers, a timedelta for dates and timestamps",
    )

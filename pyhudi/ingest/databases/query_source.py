"""A query of a database as a source.

The checkpoint is the largest value of the incremental column that was read, as text, as Apache
Hudi's JDBC source stores it; of a query without such a column it is the time of the last read.
Source: JdbcSource of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import pyarrow as pa
import pyarrow.types as pt

from pyhudi.errors import OptionError, UserError
from pyhudi.ingest.databases.connections import Database, database
from pyhudi.ingest.databases.typed_columns import cast_batch, table_field
from pyhudi.ingest.source import SourceBatch, SourceLimits

_SAMPLE_ROWS: Final = 1000


class QuerySource:
    """The rows of a query.

    url: of the database: `sqlite:///file.db`, `postgresql://user@host/database`, or any URL of
    SQLAlchemy.  query: SQL text of a SELECT; a name of a table is enough.
    incremental: a column of the result whose values only increase, such as an update time or a
    number; rows that follow the checkpoint are read.  Rows in which it is null are never read.
    overlap: also read rows up to this much before the checkpoint, once there are newer ones: a
    number or a `timedelta`.  Such rows are read twice, so the write must be an upsert.
    refresh_seconds: a query without `incremental` is read as a whole, and again after this time.
    driver: `adbc` or `sqlalchemy`; by default ADBC for PostgreSQL and SQLite if it is installed.
    """

    def __init__(
        self,
        url: str,
        query: str,
        *,
        incremental: str | None = None,
        overlap: float | timedelta | None = None,
        refresh_seconds: float = 3600.0,
        driver: str | None = None,
    ) -> None:
        if overlap is not None and incremental is None:
            raise OptionError("overlap needs incremental=COLUMN", overlap=overlap)
        if not query.strip():
            raise OptionError("the query of a query source is empty")
        self._database: Database = database(url, driver)
        text = query.strip().rstrip(";")
        self._query = text if any(c.isspace() for c in text) else f"SELECT * FROM {text}"
        self._incremental, self._overlap = incremental, overlap
        self._refresh_seconds = refresh_seconds

    def __repr__(self) -> str:
        return f"QuerySource({self._database.url!r})"

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """limits: rows with the value of the last one belong to the batch, so it may have more;
        the size of a row is that of the average of a sample.

        Raises UserError for a checkpoint that is not a value of the column, SchemaError for values
        that do not fit the table, StorageError for errors of the database.
        """
        if self._incremental is None:
            return self._whole(checkpoint, schema)
        return self._after(self._incremental, checkpoint, limits, schema)

    def _whole(self, checkpoint: str | None, schema: pa.Schema) -> SourceBatch | None:
        now = datetime.now(UTC)
        if checkpoint is not None:
            try:
                age = now - datetime.fromisoformat(checkpoint)
            except (ValueError, TypeError):
                raise _not_a_checkpoint(checkpoint, "the time of a read") from None
            if age.total_seconds() < self._refresh_seconds:
                return None
        return SourceBatch(self._rows(self._query, [], schema), now.isoformat())

    def _after(
        self, column: str, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        name = '"' + column.replace('"', '""') + '"'
        source = f"({self._query}) AS pyhudi_rows"
        newest = self._value(f"SELECT max({name}) FROM {source}", [])
        if not newest.is_valid:
            return None
        after = None if checkpoint is None else _parsed(checkpoint, newest.type)
        if after is not None and newest.as_py() <= after:
            return None
        first, last = self._database.parameter(1), self._database.parameter(2)
        where, values = ("", []) if after is None else (f" WHERE {name} > {first}", [after])
        limit = self._row_limit(f"SELECT * FROM {source}{where} ORDER BY {name}", values, limits)
        if limit is not None:
            part = f"SELECT {name} FROM {source}{where or f' WHERE {name} IS NOT NULL'}"
            part += f" ORDER BY {name} LIMIT {limit}"
            newest = self._value(f"SELECT max({name}) FROM ({part}) AS pyhudi_part", values)
        end = newest.as_py()
        if after is None:
            text, values = f"SELECT * FROM {source} WHERE {name} <= {first}", [end]
        else:
            text = f"SELECT * FROM {source} WHERE {name} > {first} AND {name} <= {last}"
            values = [after if self._overlap is None else after - self._overlap, end]
        rows = self._rows(f"{text} ORDER BY {name}", values, schema)
        return SourceBatch(rows, _text(end))

    def _row_limit(self, text: str, values: Sequence[Any], limits: SourceLimits) -> int | None:
        """The number of rows in a batch; reads a sample if there is a limit of bytes."""
        if limits.bytes is None:
            return limits.rows
        sample = pa.Table.from_batches(self._database.query(f"{text} LIMIT {_SAMPLE_ROWS}", values))
        if sample.num_rows < _SAMPLE_ROWS and sample.nbytes <= limits.bytes:
            return limits.rows  # that is everything
        width = max(1.0, sample.nbytes / max(1, sample.num_rows))
        allowed = max(1, int(limits.bytes / width))
        return allowed if limits.rows is None else min(allowed, limits.rows)

    def _value(self, text: str, values: Sequence[Any]) -> pa.Scalar:
        found = pa.Table.from_batches(self._database.query(text, values))
        return found.column(0)[0]

    def _rows(self, text: str, values: Sequence[Any], known: pa.Schema) -> pa.RecordBatchReader:
        """The rows, read while they are consumed.  known: types of the table."""
        batches = self._database.query(text, values)
        first = next(batches)
        schema = pa.schema([table_field(field, known) for field in first.schema])

        def typed() -> Iterator[pa.RecordBatch]:
            yield cast_batch(first, schema)
            for batch in batches:
                yield cast_batch(batch, schema)

        return pa.RecordBatchReader.from_batches(schema, typed())


def _parsed(checkpoint: str, kind: pa.DataType) -> Any:
    """A checkpoint as a value of the incremental column."""
    try:
        if pt.is_integer(kind):
            return int(checkpoint)
        if pt.is_floating(kind):
            return float(checkpoint)
        if pt.is_decimal(kind):
            return Decimal(checkpoint)
        if pt.is_timestamp(kind):
            return datetime.fromisoformat(checkpoint)
        if pt.is_date(kind):
            return date.fromisoformat(checkpoint)
    except (ValueError, InvalidOperation):
        raise _not_a_checkpoint(checkpoint, str(kind)) from None
    return checkpoint


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, date) else str(value)


def _not_a_checkpoint(checkpoint: str, expected: str) -> UserError:
    return UserError(
        "the table's checkpoint is not one of this query", checkpoint=checkpoint,
        expected=expected, hint="the newest commit was written from another source or column",
    )  # fmt: skip

"""A query of a database as a source.

The checkpoint is the largest value of the incremental column that was read, as text, as Apache
Hudi's JDBC source stores it; of a query without such a column it is the time of the last read.
Source: JdbcSource of Apache Hudi.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from datetime import UTC, datetime
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import OptionError
from pyhudi.ingest.databases.connections import Database, database
from pyhudi.ingest.databases.incremental_column import (
    Overlap,
    incremental_column,
    not_a_checkpoint,
)
from pyhudi.ingest.databases.postgres_rows import postgres_batches, postgres_rows
from pyhudi.ingest.databases.typed_columns import cast_batch, table_field
from pyhudi.ingest.source import RejectedRows, SourceBatch, SourceLimits

_SAMPLE_ROWS: Final = 1000


class QuerySource:
    """The rows of a query.

    url: of the database: `sqlite:///file.db`, `postgresql://user@host/database`, or any URL of
    SQLAlchemy.  query: SQL text of a SELECT; a name of a table is enough.
    incremental: a column of the result whose values only increase, such as an update time or a
    number; rows that follow the checkpoint in the order of the database are read.  Rows in which
    it is null, an infinite time, or in PostgreSQL NaN or an infinite number, are never read.
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
        overlap: Overlap | None = None,
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
        self._is_postgres = url.partition(":")[0].partition("+")[0] in ("postgres", "postgresql")
        self._incremental, self._overlap = incremental, overlap
        self._refresh_seconds = refresh_seconds

    def __repr__(self) -> str:
        return f"QuerySource({self._database.url!r})"

    def read(
        self, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        """limits: rows with the value of the last one belong to the batch, so it may have more;
        the size of a row is that of the average of a sample.

        Raises UserError for a checkpoint that is not a value of the column and for a column of
        PostgreSQL without an order, OptionError for an overlap that the column cannot have,
        SchemaError for values that do not fit the table, StorageError for errors of the database.
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
                raise not_a_checkpoint(checkpoint, "the time of a read") from None
            if age.total_seconds() < self._refresh_seconds:
                return None
        rejected = RejectedRows()
        rows = self._rows(self._query, [], schema, rejected)
        return SourceBatch(rows, now.isoformat(), rejected)

    def _after(
        self, name: str, checkpoint: str | None, limits: SourceLimits, schema: pa.Schema
    ) -> SourceBatch | None:
        column = incremental_column(
            self._database, self._query, name, self._overlap, is_postgres=self._is_postgres
        )
        key, source = column.name, column.source
        after = None if checkpoint is None else column.value(checkpoint)
        values = [] if after is None else [after]
        where = f"{key} IS NOT NULL" if after is None else f"{key} > {column.parameter(1)}"
        end = column.newest(f"SELECT {key} FROM {source} WHERE {where}", values)
        if end is None:
            return None
        unread = f"FROM {source} WHERE {where} ORDER BY {key}"
        limit = self._row_limit(f"SELECT * {unread}", values, limits)
        if limit is not None:
            end = column.newest(f"SELECT {key} {unread} LIMIT {limit}", values)
        if after is not None and self._overlap is not None:
            start, values[0] = column.before(1, after, self._overlap)
            where = f"{key} > {start}"
        where += f" AND {key} <= {column.parameter(len(values) + 1)}"
        text = f"SELECT * FROM {source} WHERE {where} ORDER BY {key}"
        rejected = RejectedRows()
        rows = self._rows(text, [*values, end], schema, rejected)
        return SourceBatch(rows, column.checkpoint(end), rejected)

    def _row_limit(self, text: str, values: Sequence[Any], limits: SourceLimits) -> int | None:
        """The number of rows in a batch; reads a sample if there is a limit of bytes."""
        if limits.bytes is None:
            return limits.rows
        sample = pa.Table.from_batches(self._batches(f"{text} LIMIT {_SAMPLE_ROWS}", values))
        if sample.num_rows < _SAMPLE_ROWS and sample.nbytes <= limits.bytes:
            return limits.rows  # that is everything
        width = max(1.0, sample.nbytes / max(1, sample.num_rows))
        allowed = max(1, int(limits.bytes / width))
        return allowed if limits.rows is None else min(allowed, limits.rows)

    def _batches(self, text: str, values: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        if self._is_postgres:
            return postgres_batches(self._database, text, values)
        return self._database.query(text, values)

    def _rows(
        self, text: str, values: Sequence[Any], known: pa.Schema, rejected: RejectedRows
    ) -> pa.RecordBatchReader:
        """The rows, read while they are consumed.  known: types of the table."""
        if self._is_postgres:
            return postgres_rows(self._database, text, values, known, rejected)
        batches = self._database.query(text, values)
        first = next(batches)
        is_typed = self._database.is_typed
        schema = pa.schema([table_field(f, known, is_typed=is_typed) for f in first.schema])

        def typed() -> Iterator[pa.RecordBatch]:
            try:
                yield cast_batch(first, schema)
                for batch in batches:
                    yield cast_batch(batch, schema)
            finally:
                batches.close()  # after an error too: the connection

        return pa.RecordBatchReader.from_batches(schema, typed())

"""SQL over streams of record batches, by DuckDB, without access to anything else."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any, Final

import pyarrow as pa

from pyhudi.errors import UserError
from pyhudi.libraries import load_library

_ROWS: Final = 65_536
"""Rows of a batch that DuckDB returns."""
_CLOSED: Final = (
    "SET TimeZone = 'UTC'",
    "SET python_enable_replacements = false",
    "SET enable_external_access = false",
    "SET lock_configuration = true",
)


def query_batches(query: str, rows: Mapping[str, pa.RecordBatchReader]) -> pa.RecordBatchReader:
    """The result of one query over named streams, each read at most once.

    The query reaches neither files, other tables, variables of the program nor the network, and
    cannot load extensions.  Rows stream through it, unless it sorts or aggregates.
    Raises UserError if DuckDB is not installed, and for a query that it rejects.
    """
    connection = _closed_connection()
    for name, reader in rows.items():
        connection.register(name, reader)
    result = _run(connection, query)

    def batches() -> Iterator[pa.RecordBatch]:
        yield from result
        connection.close()

    return pa.RecordBatchReader.from_batches(result.schema, batches())


def _closed_connection() -> Any:
    duckdb = load_library("duckdb", extra="duckdb", needed_for="SQL over batches")
    connection = duckdb.connect(":memory:")
    for setting in _CLOSED:
        connection.execute(setting)
    return connection


def _run(connection: Any, query: str) -> pa.RecordBatchReader:
    import duckdb

    try:
        found = connection.sql(query)
    except duckdb.Error as error:
        reason = str(error).partition("\n")[0]
        raise UserError("the query failed", query=query, reason=reason) from error
    if found is None:
        raise UserError("the query has no result", query=query, hint="use one SELECT")
    # the name of the method differs by release of DuckDB
    method = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
    reader: pa.RecordBatchReader = method(_ROWS)
    return reader

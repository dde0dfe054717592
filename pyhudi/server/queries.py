"""Queries of clients, run by a DuckDB that reaches nothing but the served tables.

A query is one SELECT statement.  DuckDB has no access to files, networks, extensions and Python
variables, and its configuration is locked.  pyhudi reads the rows, with the columns and filters
of the query; each query sees the newest snapshots.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import pyhudi.duckdb
from pyhudi.api.table import Table
from pyhudi.engines.table_calls import find_calls, with_views
from pyhudi.errors import PyhudiError, UserError

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

_WATCH_SECONDS: Final = 0.1
_LOCKED: Final[dict[str, Any]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}


@dataclass(frozen=True, slots=True)
class QueryLimits:
    """What one query may use.  result_bytes: of its Arrow batches; memory: of all queries, as
    DuckDB writes sizes.  Raises UserError for values that are not positive."""

    seconds: float = 60.0
    result_rows: int = 10_000_000
    result_bytes: int = 1 << 30
    queries: int = 8
    memory: str = "2GB"

    def __post_init__(self) -> None:
        for name in ("seconds", "result_rows", "result_bytes", "queries"):
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise UserError("a limit must be positive", limit=name, value=value)


class Queries:
    """Runs queries on tables, which have names."""

    def __init__(self, tables: Mapping[str, Table], limits: QueryLimits) -> None:
        import duckdb

        self.tables = {name.lower(): table for name, table in tables.items()}
        self.limits = limits
        self._free = threading.BoundedSemaphore(limits.queries)
        config = {**_LOCKED, "memory_limit": limits.memory, "lock_configuration": True}
        try:
            self._database = duckdb.connect(config=config)
        except duckdb.Error as refused:
            raise UserError("the query engine cannot start", reason=str(refused)) from refused

    def close(self) -> None:
        """End the engine."""
        self._database.close()

    def schema(self, query: str, parameters: Sequence[Any] | None = None) -> pa.Schema:
        """The columns of a query's result.  Raises UserError for a query that is not allowed."""
        with self._running(query) as con, _reported():
            return self._relation(con, query, parameters).limit(0).to_arrow_table().schema

    def parameter_count(self, query: str) -> int:
        """The number of parameters of a query.  Raises as `schema` does."""
        with self._running(query), _reported():
            return len(_statement(query).named_parameters)

    def batches(
        self,
        query: str,
        parameters: Sequence[Any] | None = None,
        *,
        is_cancelled: Callable[[], bool] = lambda: False,
    ) -> Iterator[pa.RecordBatch]:
        """The rows of a query.

        is_cancelled: ends the query when it returns True; called until the iterator is closed.
        Raises UserError then and at the limits, and as `schema` does.
        """
        rows = size = 0
        with self._running(query) as con, _reported(), self._watched(con, is_cancelled):
            reader = self._relation(con, query, parameters).to_arrow_reader()
            for batch in reader:
                rows, size = rows + batch.num_rows, size + batch.nbytes
                if rows > self.limits.result_rows or size > self.limits.result_bytes:
                    raise UserError(
                        "the result is larger than the server allows",
                        rows=self.limits.result_rows, bytes=self.limits.result_bytes,
                        hint="select fewer rows or columns",
                    )  # fmt: skip
                yield batch

    def _relation(
        self, con: DuckDBPyConnection, query: str, parameters: Sequence[Any] | None
    ) -> DuckDBPyRelation:
        return pyhudi.duckdb.sql(con, query, parameters=parameters, tables=_Named(self.tables))

    @contextmanager
    def _running(self, query: str) -> Iterator[DuckDBPyConnection]:
        """A connection that has the tables which the query may name.  One of a bounded number."""
        if not self._free.acquire(timeout=self.limits.seconds):
            raise UserError("the server runs too many queries", hint="try again later")
        try:
            with closing(self._database.cursor()) as con:
                calls = find_calls(query)
                for call in calls:
                    self._check_name(call.table)
                with _reported():
                    _statement(_without_calls(query))
                text = query.lower()
                for name, table in self.tables.items():
                    if name in text:
                        con.register(name, table.to_pyarrow_dataset())
                yield con
        finally:
            self._free.release()

    def _check_name(self, name: str) -> None:
        if name.lower() not in self.tables:
            raise UserError("the server has no such table", table=name[:200])

    @contextmanager
    def _watched(self, con: DuckDBPyConnection, is_cancelled: Callable[[], bool]) -> Iterator[None]:
        """Interrupts the query when it is cancelled, and at the limit of its time."""
        import duckdb

        ended, deadline = threading.Event(), time.monotonic() + self.limits.seconds

        def watch() -> None:
            while not ended.wait(_WATCH_SECONDS):
                if is_cancelled() or time.monotonic() > deadline:
                    con.interrupt()  # again if no part of the query ran at this moment

        watcher = threading.Thread(target=watch, name="pyhudi-query-watch", daemon=True)
        watcher.start()
        try:
            yield
        except duckdb.InterruptException as stopped:
            if time.monotonic() > deadline:
                raise UserError("the query took longer than the server allows") from stopped
            raise UserError("the client cancelled the query") from stopped
        finally:
            ended.set()
            watcher.join()


class _Named(dict[str, Table]):
    """Tables by name, in any case of letters."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


def _without_calls(query: str) -> str:
    """The query with names in place of the calls of table functions, to be parsed."""
    return with_views(query, lambda call: call.function)


def _statement(query: str) -> Any:
    """The only statement of a query, a SELECT.  Raises UserError for anything else."""
    import duckdb

    found = duckdb.extract_statements(query)
    if len(found) != 1 or found[0].type != duckdb.StatementType.SELECT:
        raise UserError("not a single SELECT statement", hint="the server is read only")
    return found[0]


@contextmanager
def _reported() -> Iterator[None]:
    """Errors of DuckDB as UserError."""
    import duckdb

    try:
        yield
    except duckdb.Error as refused:
        cause = refused.__cause__ or refused.__context__
        if isinstance(cause, PyhudiError):
            raise cause from refused
        raise UserError("the query failed", reason=str(refused)[:2000]) from refused

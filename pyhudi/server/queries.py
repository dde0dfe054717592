"""Queries of clients, run by a DuckDB that reaches nothing but the served tables.

A query is one SELECT statement.  DuckDB has no access to files, networks, extensions and Python
variables, and its configuration is locked.  pyhudi reads the rows, with the columns and filters
of the query; each query sees the newest snapshots.  `query_process` runs this module in processes
whose memory and time are limited; `query_pool` starts and ends them.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

import pyhudi.duckdb
from pyhudi.api.table import Table
from pyhudi.engines.table_calls import find_calls, with_views
from pyhudi.errors import PyhudiError, UserError
from pyhudi.libraries import load_library

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection, DuckDBPyRelation

BATCH_BYTES: Final = 4 << 20
"""Larger batches of a result are divided."""

_BATCH_ROWS: Final = 8192
ROW_BYTES_MAX: Final = 64 << 20
_UNITS: Final = {
    "KB": 10**3,
    "MB": 10**6,
    "GB": 10**9,
    "KIB": 1 << 10,
    "MIB": 1 << 20,
    "GIB": 1 << 30,
}
_LOCKED: Final[dict[str, Any]] = {
    "enable_external_access": False,
    "autoinstall_known_extensions": False,
    "autoload_known_extensions": False,
    "allow_community_extensions": False,
    "allow_persistent_secrets": False,
    "python_enable_replacements": False,
    "temp_directory": "",
}


class Limits:
    """What one statement may use: positive numbers, and memory as text."""

    __slots__ = ()
    seconds: float
    memory: str

    def __post_init__(self) -> None:
        for field in fields(self):  # type: ignore[arg-type]  # each subclass is a dataclass
            name = "memory_bytes" if field.name == "memory" else field.name
            value = getattr(self, name)
            if not 0 < value < float("inf"):
                raise UserError("a limit must be positive", limit=name, value=value)

    @property
    def memory_bytes(self) -> int:
        """`memory` in bytes.  Raises UserError for another form."""
        found = re.fullmatch(r"([0-9]{1,15})\s*([KMG]i?B)", self.memory, re.IGNORECASE)
        if found is None:
            raise UserError(
                "invalid size of memory", memory=self.memory, hint="such as 512MB or 2GiB"
            )
        return int(found[1]) * _UNITS[found[2].upper()]

    @property
    def engine_memory(self) -> str:
        """`memory` as DuckDB reads it."""
        return f"{self.memory_bytes // 1000}KB"


@dataclass(frozen=True, slots=True)
class QueryLimits(Limits):
    """What one query may use, and how many run at a time.

    seconds: from its start until the client has read its rows.  result_bytes: of its Arrow batches.
    memory: such as "1GB" or "512MiB": of DuckDB; a quarter and 256 MiB more are for the rows that
    pyhudi reads.  The server needs up to `queries` times that.  Raises UserError for values that
    are not positive.
    """

    seconds: float = 60.0
    result_rows: int = 10_000_000
    result_bytes: int = 1 << 30
    queries: int = 8
    memory: str = "1GB"


class Queries:
    """Runs queries on tables, which have names, one at a time in this process."""

    def __init__(self, tables: Mapping[str, Table], limits: QueryLimits) -> None:
        duckdb = load_library("duckdb", extra="server", needed_for="the Flight SQL server")
        self.tables = {name.lower(): table for name, table in tables.items()}
        self.limits = limits
        config = {
            **_LOCKED, "memory_limit": limits.engine_memory, "lock_configuration": True
        }  # fmt: skip
        try:
            self._database = duckdb.connect(config=config)
        except duckdb.Error as refused:
            raise UserError("the query engine cannot start", reason=str(refused)) from refused

    def close(self) -> None:
        """End the engine."""
        self._database.close()

    def schema(self, query: str, parameters: Sequence[Any] | None = None) -> pa.Schema:
        """The columns of a query's result.  Raises UserError for a query that is not allowed."""
        with self._running(query) as con:
            return self._relation(con, query, parameters).limit(0).to_arrow_table().schema

    def parameter_count(self, query: str) -> int:
        """The number of parameters of a query.  Raises as `schema` does."""
        with self._running(query):
            return len(_statement(query).named_parameters)

    @contextmanager
    def batches(
        self, query: str, parameters: Sequence[Any] | None = None
    ) -> Iterator[tuple[pa.Schema, Iterator[pa.RecordBatch]]]:
        """The columns and rows of a query, in batches of about `BATCH_BYTES` or of one row.

        The columns are returned before the query runs.  Raises UserError as `schema` does, and
        while the rows are read: beyond the limits of rows, bytes and memory, and for a row above
        `ROW_BYTES_MAX`.
        """
        with self._running(query) as con:
            relation = self._relation(con, query, parameters)
            yield relation.limit(0).to_arrow_table().schema, self._limited(relation)

    def _limited(self, relation: DuckDBPyRelation) -> Iterator[pa.RecordBatch]:
        found = bounded(
            relation.to_arrow_reader(batch_size=_BATCH_ROWS),
            self.limits.result_rows,
            self.limits.result_bytes,
            UserError(
                "the result is larger than the server allows",
                rows=self.limits.result_rows,
                bytes=self.limits.result_bytes,
                hint="select fewer rows or columns",
            ),
        )
        for batch in found:
            yield from _divided(batch)

    def _relation(
        self, con: DuckDBPyConnection, query: str, parameters: Sequence[Any] | None
    ) -> DuckDBPyRelation:
        return pyhudi.duckdb.sql(con, query, parameters=parameters, tables=_Named(self.tables))

    @contextmanager
    def _running(self, query: str) -> Iterator[DuckDBPyConnection]:
        """A connection that has the tables which the query may name."""
        with closing(self._database.cursor()) as con, reported():
            for call in find_calls(query):
                self._check_name(call.table)
            _statement(_without_calls(query))
            text = query.lower()
            for name, table in self.tables.items():
                if name in text:
                    con.register(name, table.to_pyarrow_dataset())
            yield con

    def _check_name(self, name: str) -> None:
        if name.lower() not in self.tables:
            raise UserError("the server has no such table", table=name[:200])


class _Named(dict[str, Table]):
    """Tables by name, in any case of letters."""

    def get(self, name: str, default: Any = None) -> Any:
        return super().get(name.lower(), default)


def _divided(batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
    """A batch in halves, until each is small or of one row."""
    if batch.nbytes <= BATCH_BYTES or (batch.num_rows == 1 and batch.nbytes <= ROW_BYTES_MAX):
        yield batch
    elif batch.num_rows == 1:
        raise UserError("a row is larger than the server allows", bytes=ROW_BYTES_MAX)
    else:
        half = batch.num_rows // 2
        yield from _divided(batch.slice(0, half))
        yield from _divided(batch.slice(half))


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


def bounded(
    batches: Iterable[pa.RecordBatch], rows: int, size: int, beyond: UserError
) -> Iterator[pa.RecordBatch]:
    """The batches.  Raises `beyond` before the one that exceeds the number of rows or bytes."""
    for batch in batches:
        rows, size = rows - batch.num_rows, size - batch.nbytes
        if rows < 0 or size < 0:
            raise beyond
        yield batch


@contextmanager
def reported() -> Iterator[None]:
    """Errors of DuckDB and of Arrow as UserError, and the memory's end as UserError."""
    import duckdb

    try:
        yield
    except (MemoryError, duckdb.OutOfMemoryException) as full:
        raise _out_of_memory() from full
    except RecursionError as deep:
        raise UserError("the query is nested too deeply") from deep
    except (duckdb.Error, pa.ArrowException, OSError) as refused:
        for error in (refused, refused.__cause__, refused.__context__):
            if isinstance(error, PyhudiError):
                raise error from None
        if "Out of Memory Error" in str(refused):  # Arrow's reader of DuckDB's rows states it so
            raise _out_of_memory() from refused
        raise UserError("the query failed", reason=str(refused)[:2000]) from refused


def _out_of_memory() -> UserError:
    return UserError("the query needs more memory than the server allows")

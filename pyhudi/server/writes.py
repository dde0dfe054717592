"""Writes of clients: INSERT, UPDATE, DELETE and MERGE by the planner of `pyhudi.sql`.

A statement names served tables and nothing else: no path, no file, no function of files; DuckDB,
which runs its queries, has no access to files either: pyhudi reads all rows.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Final, NoReturn, TypeGuard

import pyarrow as pa
from sqlglot import exp

from pyhudi.api.table import Table
from pyhudi.errors import UserError
from pyhudi.server.queries import Limits, bounded, reported
from pyhudi.sql.duckdb_engine import DuckDbEngine
from pyhudi.sql.names import Names
from pyhudi.sql.parse import Parsed, parse
from pyhudi.sql.planner import Planner
from pyhudi.sql.relations import Bound
from pyhudi.sql.session import by_name
from pyhudi.sql.statements import Insert, Name, Tree, Write

_PARAMETERS: Final = "__pyhudi_parameters"
"""The name of the rows of parameters in a statement."""


@dataclass(frozen=True, slots=True)
class WriteLimits(Limits):
    """What one write may use, and how many run at a time.

    seconds: from its start to its commit and the services that are due then.  rows, bytes: that a
    statement writes, before their keys are compared.  statement_chars: of its text.  memory: as
    of `QueryLimits`.  Raises UserError for values that are not positive.
    """

    seconds: float = 300.0
    rows: int = 10_000_000
    bytes: int = 1 << 30
    statement_chars: int = 100_000
    writes: int = 2
    memory: str = "2GB"


class Writes:
    """Runs writes to tables, which have names, one at a time in this process.

    writable: names of the tables that statements write to; they read all.
    """

    def __init__(
        self, tables: Mapping[str, Table], limits: WriteLimits, writable: frozenset[str]
    ) -> None:
        self.tables = {name.lower(): table for name, table in tables.items()}
        self.limits = limits
        self._writable = writable

    def parameter_count(self, text: str) -> int:
        """The number of parameters of a statement.  Raises UserError for what is no write."""
        return len(self._parsed(text)[0].parameters)

    def run(
        self, text: str, parameters: pa.Table | None, metadata: Mapping[str, str]
    ) -> Iterator[dict[str, Any]]:
        """Run a statement; facts about it: its target before it runs, its result afterwards.

        parameters: a row of values, or for INSERT ... VALUES several rows, which are one commit.
        metadata: options that the commit repeats.  Raises UserError for a statement that is not a
        write or that names another table, and at the limits; else as the methods of `Table` do.
        """
        with reported():
            parsed, write = self._parsed(text)
            yield {"table": str(write.target), "statement": _kind(write)}
            tables: dict[str, Any] = {
                name: table.with_options({**table._options.write.commit_metadata, **metadata})
                for name, table in self.tables.items()
            }
            values: Sequence[Any] | None = None
            if parameters is not None and parameters.num_rows > 1:
                tables[_PARAMETERS] = _rows_of(parameters, parsed)
                write = _of_rows(write)
            elif parameters is not None and parameters.num_rows == 1:
                values = [column[0].as_py() for column in parameters.columns]
            given = {} if _PARAMETERS in tables else by_name(parsed, values)
            settings = {"memory_limit": self.limits.engine_memory, "temp_directory": ""}
            engine = _BoundedEngine(settings=settings, reader="arrow", limits=self.limits)
            report = Planner(engine, _ServedNames(_closed, tables)).run(write, given)
        yield {
            "operation": report.operation,
            "instant": report.instant,
            "inserted": report.inserted,
            "updated": report.updated,
            "deleted": report.deleted,
        }

    def _parsed(self, text: str) -> tuple[Parsed, Write]:
        """A write to a table that is writable."""
        parsed = parse(text)
        write = parsed.statement
        if not isinstance(write, Write):
            raise UserError(
                "the server runs no such statement",
                hint="INSERT, UPDATE, DELETE and MERGE; run others by pyhudi.sql at its tables",
            )
        if parsed.parameters and not parsed.are_positional:
            raise UserError("parameters have names", hint="write them as ?")
        name = str(write.target)
        if name.lower() not in self.tables:
            _closed(name)
        if name.lower() not in self._writable:
            raise UserError(
                "the table is read only here",
                table=name[:200],
                writable=", ".join(sorted(self._writable)),
            )
        return parsed, write


@dataclass(frozen=True)
class _BoundedEngine(DuckDbEngine):
    """Counts the rows that a statement writes."""

    limits: WriteLimits = WriteLimits()

    def rows(self, query: Bound, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
        found = super().rows(query, schema)
        return pa.RecordBatchReader.from_batches(found.schema, self._counted(found))

    def _counted(self, batches: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        beyond = UserError(
            "the statement writes more than the server allows",
            rows=self.limits.rows,
            bytes=self.limits.bytes,
            hint="write fewer rows with a statement",
        )
        with batches:
            yield from bounded(batches, self.limits.rows, self.limits.bytes, beyond)


class _ServedNames(Names):
    """The served tables; a path names none."""

    def find(self, name: Name) -> Any:
        if self.is_path(name) or self._given(name) is None:
            _closed(str(name))
        return super().find(name)


def _closed(name: str) -> NoReturn:
    raise UserError("the server has no such table", table=name[:200])


def _kind(write: Write) -> str:
    is_overwrite = isinstance(write, Insert) and write.overwrite
    return "INSERT OVERWRITE" if is_overwrite else type(write).__name__.upper()


def _rows_of(parameters: pa.Table, parsed: Parsed) -> pa.Table:
    """Rows of parameters with the names that the parameters have in the statement."""
    if parameters.num_columns != len(parsed.parameters):
        raise UserError(
            "the parameters do not match the statement",
            expected=len(parsed.parameters),
            given=parameters.num_columns,
        )
    return parameters.rename_columns([f"p{n + 1}" for n in range(parameters.num_columns)])


def _has_values(write: Write) -> TypeGuard[Insert]:
    return isinstance(write, Insert) and isinstance(write.query, exp.Values)


def _of_rows(write: Write) -> Write:
    """INSERT of one tuple of VALUES as one of a tuple for each row of parameters."""
    rows: list[Tree] = write.query.expressions if _has_values(write) else []
    if not isinstance(write, Insert) or len(rows) != 1:
        raise UserError(
            "several rows of parameters are supported for INSERT ... VALUES (?, ...) alone",
            hint="MERGE INTO t USING (VALUES ...) AS s ..., with one row of parameters",
        )

    def columns(node: Tree) -> Tree:
        is_parameter = isinstance(node, exp.Placeholder)
        return exp.column(node.name, table=_PARAMETERS) if is_parameter else node

    query = exp.select(*(one.transform(columns) for one in rows[0].expressions))
    return replace(write, query=query.from_(_PARAMETERS))

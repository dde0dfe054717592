"""Queries by DuckDB on this machine.

The queries of a statement share a connection, unless a later one reads more tables.  It reads the
files of its tables and nothing else: no other file, no network, no variable of the program.
"""

from __future__ import annotations

import os
import signal
import threading
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
from sqlglot import exp

from pyhudi.api.input_conversion import arrow_table
from pyhudi.api.table import Table, create_table, open_table
from pyhudi.arrays import check_finite, exact_cast
from pyhudi.duckdb import attach
from pyhudi.engines.snapshot_parts import is_native
from pyhudi.errors import PyhudiError, UserError
from pyhudi.libraries import load_library
from pyhudi.sql.duckdb_functions import for_duckdb, macros_of
from pyhudi.sql.grammar import rendered
from pyhudi.sql.relations import Bound, Changes, Given, Keyed, Relation, Snapshot

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

_ROWS: Final = 65_536
"""Rows of a batch that DuckDB returns."""
_DIALECT: Final = "duckdb"
_open: Final[weakref.WeakSet[Any]] = weakref.WeakSet()
"""Connections of statements."""
_AGAIN_SECONDS: Final = 0.05
"""Time between two interrupts of the queries that Ctrl-C ends."""


@dataclass(frozen=True, slots=True)
class DuckDbEngine:
    """DuckDB as the engine of queries.  options, storage_options: of tables that are opened.

    settings: of DuckDB.  reader: as for `pyhudi.duckdb.attach`.
    """

    options: Mapping[str, Any] | None = None
    storage_options: Mapping[str, Any] | None = None
    settings: Mapping[str, Any] = field(default_factory=dict)
    reader: str = "auto"

    def open(self, path: str) -> Table:
        return open_table(path, options=self.options, storage_options=self.storage_options)

    def create(self, path: str, schema: pa.Schema, **definition: Any) -> Table:
        given = {**(self.options or {}), **definition.pop("options")}
        return create_table(
            path, schema, options=given, storage_options=self.storage_options, **definition
        )

    def result(self, query: Bound) -> pa.Table:
        """All rows, in memory."""
        with self._reading(query) as reader:
            return reader.read_all()

    def answer(self, rows: pa.Table) -> pa.Table:
        return rows

    collected = result

    def schema(self, query: Bound) -> pa.Schema:
        empty = exp.select("*").from_(exp.Subquery(this=query.tree.copy(), alias="q")).limit(0)
        with self._reading(replace(query, tree=empty)) as reader:
            return reader.schema

    def rows(self, query: Bound, schema: pa.Schema | None = None) -> pa.RecordBatchReader:
        """A stream, which is read once."""
        opened = self._reading(query)
        reader = opened.__enter__()

        def batches() -> Iterator[pa.RecordBatch]:
            try:
                for batch in reader:
                    yield batch if schema is None else _in_types(batch, schema)
            finally:
                opened.__exit__(None, None, None)

        return pa.RecordBatchReader.from_batches(schema or reader.schema, _typed_errors(batches()))

    def explained(self, query: Bound) -> str:
        with self._connected(query) as connection:
            found = _execute(connection, query, "explain ").fetchall()
        return "\n".join(str(row[-1]) for row in found)

    @contextmanager
    def _reading(self, query: Bound) -> Iterator[pa.RecordBatchReader]:
        with self._connected(query) as connection:
            reader = _opened(_execute(connection, query))
            yield pa.RecordBatchReader.from_batches(reader.schema, _typed_errors(reader))

    @contextmanager
    def _connected(self, query: Bound) -> Iterator[DuckDBPyConnection]:
        """A connection with the relations of a query: one that an earlier query of the statement
        has left idle, or a new one.  After an error, and while its rows are read, it is not
        reused."""
        needed = dict(query.relations)
        fits = (
            number
            for number, (known, _) in enumerate(query.idle)
            if known.keys() >= needed.keys() and all(known[n] is r for n, r in needed.items())
        )
        found = next(fits, None)
        known, connection = (
            (needed, self._connection(needed)) if found is None else query.idle.pop(found)
        )
        is_done = False
        try:
            yield connection
            is_done = True
        finally:
            if is_done:
                query.idle.append((known, connection))
            else:
                connection.close()

    def _connection(self, relations: Mapping[str, Relation]) -> DuckDBPyConnection:
        """A connection with a view for each relation, closed to everything else."""
        duckdb = load_library("duckdb", extra="duckdb", needed_for="SQL on one machine")
        connection: DuckDBPyConnection = duckdb.connect(":memory:", config=dict(self.settings))
        _open.add(connection)
        connection.execute("SET TimeZone = 'UTC'")
        connection.execute("SET python_enable_replacements = false")
        paths = []
        for name, relation in relations.items():
            paths += _create(connection, name, relation, self.reader)
        listed = ", ".join("'" + path.replace("'", "''") + "'" for path in paths)
        connection.execute(f"SET allowed_directories = [{listed}]")
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        return connection


@contextmanager
def ended_by_ctrl_c() -> Iterator[None]:
    """While the block runs in the main thread, Ctrl-C ends the queries that DuckDB computes: Python
    handles signals only when DuckDB returns, which may take hours.  Queries that begin meanwhile
    end too.  Raises KeyboardInterrupt, which DuckDB turns into errors of its own."""
    noticed, notices = os.pipe()
    os.set_blocking(notices, False)
    before = signal.set_wakeup_fd(notices, warn_on_full_buffer=False)
    is_ended, is_left = threading.Event(), threading.Event()

    def watch() -> None:
        while number := os.read(noticed, 1):
            if number[0] == signal.SIGINT:
                is_ended.set()
                while True:  # DuckDB forgets an interrupt when the next query begins
                    for connection in list(_open):
                        connection.interrupt()
                    if is_left.wait(_AGAIN_SECONDS):
                        break

    watcher = threading.Thread(target=watch, name="pyhudi-ctrl-c", daemon=True)
    watcher.start()
    failed: Exception | None = None
    try:
        yield
    except (RuntimeError, PyhudiError) as error:
        failed = error
    finally:
        is_left.set()
        signal.set_wakeup_fd(before)
        os.close(notices)
        watcher.join()
        os.close(noticed)
    if failed is not None:
        if is_ended.is_set():
            raise KeyboardInterrupt from failed
        raise failed


def _opened(found: Any) -> Any:
    """The reader of a result; sums of integers are of Spark's type, which is not a wider one."""
    import duckdb

    if "HUGEINT" in map(str, found.types):
        found = found.project(
            ", ".join(
                f"cast({name} as bigint) as {name}" if str(kind) == "HUGEINT" else name
                for name, kind in zip(map(_quoted, found.columns), found.types, strict=True)
            )
        )
    # the name of the method differs by release of DuckDB
    method = getattr(found, "to_arrow_reader", None) or found.fetch_arrow_reader
    try:
        return method(_ROWS)
    except duckdb.Error as error:  # DuckDB computes constants while it opens the result
        raise _failed(error) from error


def _quoted(name: str) -> str:
    return '"' + name.replace('"', '""') + '"'


def _failed(error: BaseException) -> UserError:
    return UserError("the query failed", reason=str(error).partition("\n")[0])


def _typed_errors(batches: Any) -> Iterator[pa.RecordBatch]:
    """The batches; errors of DuckDB while they are computed are UserErrors."""
    import duckdb

    try:
        yield from batches
    except (duckdb.Error, pa.ArrowInvalid, OSError) as error:
        if isinstance(error, OSError) and error.errno is not None:
            raise  # of a file; errors of DuckDB that pass through Arrow have no number
        raise _failed(error) from error


def _execute(connection: Any, query: Bound, before: str = "") -> Any:
    import duckdb

    text = rendered(for_duckdb(query.tree), _DIALECT)
    for macro in macros_of(text):
        connection.execute(macro)
    try:
        return connection.sql(f"{before}{text}", params=query.used())
    except duckdb.Error as error:
        raise UserError(
            "DuckDB rejected the query", reason=str(error).partition("\n")[0], query=text[:300]
        ) from error


def _create(connection: Any, name: str, relation: Relation, reader: str) -> list[str]:
    """Create the view of a relation; the folders that DuckDB reads for it."""
    match relation:
        case Snapshot(table, as_of, with_meta):
            attach(connection, table, name, as_of=as_of, with_meta=with_meta, reader=reader)
            return [f"{table.path.rstrip('/')}/"] if is_native(reader) else []
        case Changes(table, since, until, cdc):
            found: Any = (
                table.capture(since, until)
                if cdc
                else table.changes(since, until).to_pyarrow_dataset()
            )
            connection.register(name, found)
        case Keyed(table, keys):
            connection.register(name, table.fetch(keys))
        case Given(rows):
            connection.register(name, arrow_table(rows))
    return []


def _in_types(batch: pa.RecordBatch, schema: pa.Schema) -> pa.RecordBatch:
    """A batch in the types of a schema, by position.  Raises UserError for values that do not
    fit: nothing is cut, and only floating-point numbers are rounded, as in `exact_cast`."""
    columns = []
    for column, field_ in zip(batch.columns, schema, strict=True):
        if column.type != field_.type:
            if column.null_count == len(column):
                column = pa.nulls(len(column), field_.type)
            else:
                column = _cast(column, field_)
        columns.append(column)
    return pa.record_batch(columns, schema=schema)


def _cast(column: pa.Array, to: pa.Field) -> pa.Array:
    try:
        if {_is_counted(column.type), _is_counted(to.type)} == {True, False}:
            # Arrow takes them as days or microseconds
            raise pa.ArrowInvalid("numbers are no times")
        found = exact_cast(column, to.type)
        if pa.types.is_floating(found.type) and pa.types.is_floating(column.type):
            check_finite(column, found)
        return found
    except pa.ArrowException as error:
        raise UserError(
            "a value does not fit the column",
            column=to.name,
            type=str(to.type),
            given=str(column.type),
            reason=str(error),
        ) from None


def _is_counted(of: pa.DataType) -> bool | None:
    """Whether values are numbers; False: dates and times, None: others."""
    if pa.types.is_temporal(of):
        return False
    is_number = pa.types.is_integer(of) or pa.types.is_floating(of) or pa.types.is_decimal(of)
    return True if is_number else None

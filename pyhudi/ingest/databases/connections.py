"""Connections to databases by URL: ADBC, which returns Arrow, or SQLAlchemy.

sqlite:///file.db, postgresql://user@host/database     ADBC, if its driver is installed
any other URL                                          SQLAlchemy
"""

from __future__ import annotations

import re
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Protocol

import pyarrow as pa

from pyhudi.errors import OptionError, SchemaError, StorageError

_ADBC: Final = {"sqlite": "adbc_driver_sqlite", "postgresql": "adbc_driver_postgresql"}
_ROWS: Final = 16_384
_PASSING_CLASSES: Final = frozenset({"08", "40", "53", "57", "58"})
"""Of SQLSTATE: connection, rolled back, resources, intervention of an operator, system."""
_PASSING_STATES: Final = frozenset({"55006", "55P03"})
"""An object that is in use, such as an active slot, and a lock that is not available."""
_PASSING_NUMBERS: Final = frozenset({1040, 1205, 1213, 2002, 2003, 2006, 2013})
"""Errors of MySQL: too many connections, lock wait, deadlock, connection."""
_FOR_A_PERSON: Final = re.compile(
    r"authentication failed|does not exist|pg_hba|not permitted|permission denied"
    r"|invalid (connection|port|URI)",
    re.IGNORECASE,
)
_OF_CONNECTIONS: Final = re.compile(
    r"connect|server closed|SSL SYSCALL|timeout|timed out|database (table )?is locked|starting up"
    r"|shutting down|recovery mode|translate host name",
    re.IGNORECASE,
)
"""Errors without a code."""


Batches = Generator[pa.RecordBatch, None, None]
Query = Callable[[str, Sequence[Any]], Batches]
"""Runs a query with bind parameters; at least one batch, which may be empty."""


class Database(Protocol):
    """Runs queries.  Its connection is opened for each query, and closed after the last row."""

    @property
    def url(self) -> str:
        """Without the password."""
        ...

    @property
    def is_typed(self) -> bool:
        """Whether columns have types; else those of a batch are inferred from its values."""
        ...

    def parameter(self, number: int) -> str:
        """The text of a bind parameter in a query; number: from 1."""
        ...

    def query(self, text: str, values: Sequence[Any]) -> Batches:
        """The rows; at least one batch, which may be empty.  Raises StorageError, which is
        retryable unless a person must act, and SchemaError for values of several types in a
        column, which SQLite may have."""
        ...

    def session(self) -> AbstractContextManager[Query]:
        """One connection for several queries, each of which ends before the next begins."""
        ...


def database(url: str, driver: str | None = None) -> Database:
    """driver: `adbc` or `sqlalchemy`; None: ADBC if its driver for the URL is installed.

    Raises OptionError for a URL without a scheme, and for a driver that is not installed.
    """
    scheme, separator, _ = url.partition(":")
    name = {"postgres": "postgresql"}.get(scheme, scheme)
    if not separator or driver not in (None, "adbc", "sqlalchemy"):
        raise OptionError(
            "not the URL of a database, or an unknown driver",
            url=_public(url),
            driver=driver,
            hint="pass a URL such as postgresql://user@host/database; driver: adbc or sqlalchemy",
        )
    module = _ADBC.get(name)
    if driver is None:
        driver = "adbc" if module is not None and find_spec(module) else "sqlalchemy"
    if driver == "adbc":
        if module is None or find_spec(module) is None:
            raise OptionError(
                "the ADBC driver of this database is not installed",
                url=_public(url),
                hint=f"pip install {module or 'sqlalchemy'}".replace("_", "-"),
            )
        return _AdbcDatabase(url, name, module)
    if find_spec("sqlalchemy") is None:
        raise OptionError("SQLAlchemy is not installed", hint="pip install 'pyhudi[databases]'")
    return _SqlAlchemyDatabase(url)


@dataclass(frozen=True, slots=True)
class _AdbcDatabase:
    address: str
    kind: str
    module: str

    @property
    def url(self) -> str:
        return _public(self.address)

    @property
    def is_typed(self) -> bool:
        return True

    def parameter(self, number: int) -> str:
        return f"${number}" if self.kind == "postgresql" else "?"

    def query(self, text: str, values: Sequence[Any]) -> Batches:
        with self.session() as query:
            yield from query(text, values)

    @contextmanager
    def session(self) -> Iterator[Query]:
        place = self.address
        if self.kind == "sqlite":
            place = place.removeprefix("sqlite:///")
        driver: Any = import_module(f"{self.module}.dbapi")
        with _typed(driver.Error, self.url):
            connection = driver.connect(place)
        with _typed(driver.Error, self.url), closing(connection):

            def query(text: str, values: Sequence[Any]) -> Batches:
                with _typed(driver.Error, self.url), closing(connection.cursor()) as cursor:
                    cursor.execute(text, tuple(values) or None)
                    reader = cursor.fetch_record_batch()
                    none = [pa.nulls(0, field.type) for field in reader.schema]
                    yield pa.RecordBatch.from_arrays(none, schema=reader.schema)
                    yield from self._read(reader)

            yield query

    def _read(self, reader: pa.RecordBatchReader) -> Iterator[pa.RecordBatch]:
        """The batches; the driver reports errors of their values by errors of Arrow."""
        try:
            yield from reader
        except (OSError, pa.ArrowException) as error:
            if "mismatch" in str(error):
                raise _mixed(str(error)) from error
            raise StorageError(
                "the database did not return all rows",
                database=self.url,
                reason=str(error),
                retryable=_passes(error),
            ) from error


@dataclass(frozen=True, slots=True)
class _SqlAlchemyDatabase:
    address: str

    @property
    def url(self) -> str:
        return _public(self.address)

    @property
    def is_typed(self) -> bool:
        return False

    def parameter(self, number: int) -> str:
        return f":p{number}"

    def query(self, text: str, values: Sequence[Any]) -> Batches:
        """Types are inferred from each 16,384 rows; a column of nulls is text."""
        with self.session() as query:
            yield from query(text, values)

    @contextmanager
    def session(self) -> Iterator[Query]:
        import sqlalchemy

        errors = sqlalchemy.exc.SQLAlchemyError
        with _typed(errors, self.url):
            engine = sqlalchemy.create_engine(self.address, poolclass=sqlalchemy.NullPool)
            connection = engine.connect().execution_options(stream_results=True)
        with _typed(errors, self.url), closing(connection):

            def query(text: str, values: Sequence[Any]) -> Batches:
                with _typed(errors, self.url):
                    yield from self._rows(connection, text, values)

            yield query

    def _rows(self, connection: Any, text: str, values: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        import sqlalchemy

        named = {f"p{number}": value for number, value in enumerate(values, 1)}
        with closing(connection.execute(sqlalchemy.text(text), named)) as result:
            names, rows = list(result.keys()), result.fetchmany(_ROWS)
            yield _columns(names, list(zip(*rows, strict=True)) or [()] * len(names))
            while rows := result.fetchmany(_ROWS):
                yield _columns(names, list(zip(*rows, strict=True)))


def _columns(names: Sequence[str], columns: Sequence[Sequence[Any]]) -> pa.RecordBatch:
    arrays = []
    for name, column in zip(names, columns, strict=True):
        try:
            found = pa.array(column)
        except pa.ArrowException as error:
            raise _mixed(str(error), column=name) from error
        arrays.append(found.cast(pa.string()) if pa.types.is_null(found.type) else found)
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _mixed(reason: str, **where: str) -> SchemaError:
    return SchemaError(
        "a column of the query has values of several types",
        **where,
        reason=reason,
        hint="cast the column in the query",
    )


@contextmanager
def _typed(errors: type[Exception], url: str) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise StorageError(
            "the database did not answer a query",
            database=url,
            reason=str(error).strip(),
            retryable=_passes(error),
        ) from error


def _passes(error: BaseException) -> bool:
    """Whether a query can succeed later without a change by a person."""
    cause = getattr(error, "orig", None) or error  # SQLAlchemy wraps the error of the driver
    if getattr(error, "connection_invalidated", False):
        return True
    state = getattr(cause, "sqlstate", None) or getattr(cause, "pgcode", None)
    if state:
        return state in _PASSING_STATES or state[:2] in _PASSING_CLASSES
    number = next(iter(cause.args), None)
    if isinstance(number, int):
        return number in _PASSING_NUMBERS
    text = str(cause)
    if _FOR_A_PERSON.search(text):
        return False
    return _OF_CONNECTIONS.search(text) is not None


def _public(url: str) -> str:
    """A URL without the password."""
    before, separator, after = url.rpartition("@")
    scheme, slashes, login = before.partition("://")
    user, colon, _ = login.partition(":")
    return f"{scheme}{slashes}{user}@{after}" if separator and colon else url

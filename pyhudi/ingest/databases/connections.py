"""Connections to databases by URL: ADBC, which returns Arrow, or SQLAlchemy.

sqlite:///file.db, postgresql://user@host/database     ADBC, if its driver is installed
any other URL                                          SQLAlchemy
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from importlib import import_module
from importlib.util import find_spec
from typing import Any, Final, Protocol

import pyarrow as pa

from pyhudi.errors import OptionError, StorageError

_ADBC: Final = {"sqlite": "adbc_driver_sqlite", "postgresql": "adbc_driver_postgresql"}
_ROWS: Final = 16_384


class Database(Protocol):
    """Runs queries.  Its connection is opened for each query, and closed after the last row."""

    @property
    def url(self) -> str:
        """Without the password."""
        ...

    def parameter(self, number: int) -> str:
        """The text of a bind parameter in a query; number: from 1."""
        ...

    def query(self, text: str, values: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """The rows; at least one batch, which may be empty.  Raises StorageError."""
        ...


def database(url: str, driver: str | None = None) -> Database:
    """driver: `adbc` or `sqlalchemy`; None: ADBC if its driver for the URL is installed.

    Raises OptionError for a URL without a scheme, and for a driver that is not installed.
    """
    scheme, separator, _ = url.partition(":")
    name = {"postgres": "postgresql"}.get(scheme, scheme)
    if not separator or driver not in (None, "adbc", "sqlalchemy"):
        raise OptionError(
            "not the URL of a database, or an unknown driver", url=_public(url), driver=driver,
            hint="pass a URL such as postgresql://user@host/database; driver: adbc or sqlalchemy",
        )  # fmt: skip
    module = _ADBC.get(name)
    if driver is None:
        driver = "adbc" if module is not None and find_spec(module) else "sqlalchemy"
    if driver == "adbc":
        if module is None or find_spec(module) is None:
            raise OptionError(
                "the ADBC driver of this database is not installed", url=_public(url),
                hint=f"pip install {module or 'sqlalchemy'}".replace("_", "-"),
            )  # fmt: skip
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

    def parameter(self, number: int) -> str:
        return f"${number}" if self.kind == "postgresql" else "?"

    def query(self, text: str, values: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        place = self.address
        if self.kind == "sqlite":
            place = place.removeprefix("sqlite:///")
        driver: Any = import_module(f"{self.module}.dbapi")
        with (
            _typed(driver.Error, self.url),
            closing(driver.connect(place)) as connection,
            closing(connection.cursor()) as cursor,
        ):
            cursor.execute(text, tuple(values) or None)
            reader = cursor.fetch_record_batch()
            yield pa.RecordBatch.from_pylist([], schema=reader.schema)
            yield from reader


@dataclass(frozen=True, slots=True)
class _SqlAlchemyDatabase:
    address: str

    @property
    def url(self) -> str:
        return _public(self.address)

    def parameter(self, number: int) -> str:
        return f":p{number}"

    def query(self, text: str, values: Sequence[Any]) -> Iterator[pa.RecordBatch]:
        """Types are those of the first 16,384 rows; a column of nulls there is text."""
        import sqlalchemy

        named = {f"p{number}": value for number, value in enumerate(values, 1)}
        with _typed(sqlalchemy.exc.SQLAlchemyError, self.url):
            engine = sqlalchemy.create_engine(self.address, poolclass=sqlalchemy.NullPool)
            with engine.connect().execution_options(stream_results=True) as connection:
                result = connection.execute(sqlalchemy.text(text), named)
                names, schema = list(result.keys()), None
                while rows := result.fetchmany(_ROWS):
                    columns = [list(column) for column in zip(*rows, strict=True)]
                    batch = _columns(names, columns, schema)
                    schema = batch.schema
                    yield batch
                if schema is None:
                    yield _columns(names, [[] for _ in names], None)


def _columns(
    names: Sequence[str], columns: Sequence[list[Any]], schema: pa.Schema | None
) -> pa.RecordBatch:
    if schema is not None:
        arrays = [pa.array(c, field.type) for c, field in zip(columns, schema, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=schema)
    arrays = [pa.array(column) for column in columns]
    arrays = [a.cast(pa.string()) if pa.types.is_null(a.type) else a for a in arrays]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


@contextmanager
def _typed(errors: type[Exception], url: str) -> Iterator[None]:
    try:
        yield
    except errors as error:
        raise StorageError(
            "the database did not answer a query", database=url, reason=str(error).strip()
        ) from error


def _public(url: str) -> str:
    """A URL without the password."""
    before, separator, after = url.rpartition("@")
    scheme, slashes, login = before.partition("://")
    user, colon, _ = login.partition(":")
    return f"{scheme}{slashes}{user}@{after}" if separator and colon else url

"""`pyhudi.spark.sql`: the statements of `pyhudi.sql`, with Spark as the engine of queries."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark import __version__ as spark_version
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from sqlglot import exp

from pyhudi.api.input_conversion import arrow_table
from pyhudi.errors import TableNotFoundError, UserError
from pyhudi.spark.frames import collected, is_connect, is_frame, quoted
from pyhudi.spark.session_names import in_session
from pyhudi.spark.table import SparkTable, create_table, open_table
from pyhudi.spark.types import to_arrow, to_spark
from pyhudi.sql.grammar import rendered
from pyhudi.sql.names import Named, Names
from pyhudi.sql.planner import Planner
from pyhudi.sql.relations import Bound, Changes, Given, Keyed, Relation, Snapshot
from pyhudi.sql.session import Connection, Parameters, run
from pyhudi.sql.statements import Name
from pyhudi.storage.url_resolver import path_text

_DIALECT: Final = "spark"
_RELATION: Final = re.compile(r"\b__pyhudi_[0-9a-f]+_\d+\b")
"""A name of `Binder.add`."""
_VALUES: Final = re.compile(
    r"\[((?:CAST|ARITHMETIC|DIVIDE|NUMERIC|INVALID_ARRAY|REMAINDER|SCALAR_SUBQUERY)_\w+)"
    r"[\w.]*\] ([^\n]*)"
)
"""Errors of Spark about values: their class, and the first line of their text."""


def sql(
    spark: SparkSession,
    text: str,
    *,
    tables: Mapping[str, Named] | None = None,
    parameters: Parameters = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Any:
    """Run one SQL statement: rows of a query as a DataFrame, or the `WriteReport` of a write.

    tables: name -> table, path, or rows (a DataFrame, pyarrow, ...); hudi.`path` is the table at a
    path.  Other names are those of the session: a fresh view (`register_views`), and a table of
    Spark's catalog whose provider is hudi, is the table; all others are read only.
    parameters, options and errors as for `pyhudi.sql`.  Queries and expressions are evaluated by
    Spark.
    """
    planner = planner_of(spark, tables, None, options, storage_options)
    with value_errors():
        return run(text, planner, parameters)


def connect(
    spark: SparkSession,
    folder: str | os.PathLike[str],
    *,
    tables: Mapping[str, Named] | None = None,
    options: Mapping[str, Any] | None = None,
    storage_options: Mapping[str, Any] | None = None,
) -> Connection:
    """SQL over the tables in a folder by Spark, as `pyhudi.connect` has it on one machine:
    CREATE TABLE makes a table in the folder.  tables, options: as for `sql`."""
    place = path_text(folder)
    return _SparkConnection(planner_of(spark, tables, place, options, storage_options))


class _SparkConnection(Connection):
    """SQL over a folder of tables by Spark."""

    def sql(self, text: str, *, parameters: Parameters = None) -> Any:
        """Run one statement; see `pyhudi.spark.sql`."""
        with value_errors():
            return super().sql(text, parameters=parameters)


def planner_of(
    spark: SparkSession,
    tables: Mapping[str, Named] | None,
    folder: str | None,
    options: Mapping[str, Any] | None,
    storage_options: Mapping[str, Any] | None,
    *,
    session_first: bool = False,
) -> Planner:
    """What runs statements by Spark.  session_first: as for `SessionNames`."""
    return Planner.of(
        lambda given: SparkQueries(spark, given, storage_options),
        lambda engine: SessionNames(
            engine.open, tables or {}, folder, storage_options, spark, session_first
        ),
        options,
    )


@dataclass(frozen=True, slots=True)
class SessionNames(Names):
    """Names of a call, then those of the session's views and tables.

    session_first: before paths and the folder, too: what Spark itself finds stays what it is.
    """

    spark: SparkSession | None = None
    session_first: bool = False

    def find(self, name: Name) -> Named:
        try:
            return Names.find(self, name)
        except TableNotFoundError:
            found = None if self.session_first else self._of_session(name)
            if found is None:
                raise
            return self.open(found).frozen() if isinstance(found, str) else found

    def _given(self, name: Name) -> Named | None:
        found = self._of_session(name) if self.session_first else None
        return Names._given(self, name) if found is None else found

    def _of_session(self, name: Name) -> Named | None:
        found = None if self.spark is None else in_session(self.spark, name)
        return None if found is None else found.path or found.table or found.frame()


@dataclass(frozen=True, slots=True)
class SparkQueries:
    """Spark as the engine of queries.  options, storage_options: of tables that are opened."""

    spark: SparkSession
    options: Mapping[str, Any] | None = None
    storage_options: Mapping[str, Any] | None = None

    def open(self, path: str) -> SparkTable:
        return open_table(
            self.spark, path, options=self.options, storage_options=self.storage_options
        )

    def create(self, path: str, schema: pa.Schema, **definition: Any) -> SparkTable:
        given = {**(self.options or {}), **definition.pop("options")}
        return create_table(
            self.spark,
            path,
            schema,
            options=given,
            storage_options=self.storage_options,
            **definition,
        )

    def result(self, query: Bound) -> DataFrame:
        return self._frame(query)

    def answer(self, rows: pa.Table) -> DataFrame:
        found = rows.to_pylist(maps_as_pydicts="strict")
        return self.spark.createDataFrame(found, to_spark(rows.schema))

    def schema(self, query: Bound) -> pa.Schema:
        return to_arrow(self._frame(query).schema)

    def rows(self, query: Bound, schema: pa.Schema | None = None) -> DataFrame:
        """A frame, in the types of the schema by Spark's casts."""
        frame = self._frame(query)
        if schema is None:
            return frame
        named = frame.toDF(*schema.names)
        columns = [
            named[quoted(field.name)].cast(field.dataType).alias(field.name)
            for field in to_spark(schema).fields
        ]
        with _typed_errors(rendered(query.tree, _DIALECT)):
            return named.select(*columns)

    def collected(self, query: Bound) -> pa.Table:
        return collected(self._frame(query))

    def explained(self, query: Bound) -> str:
        found = self._frame(query, before="EXPLAIN ").collect()
        return "\n".join(str(row[0]) for row in found)

    def _frame(self, query: Bound, before: str = "") -> DataFrame:
        text = rendered(query.tree, _DIALECT)
        named = {node.name for node in query.tree.find_all(exp.Table)}
        names = [name for name in query.relations if name in named]
        if is_connect(self.spark):
            return self._frame_of_plan(query, f"{before}{text}", names)
        with self._views(query, names), _typed_errors(text):
            return self.spark.sql(f"{before}{text}", args=query.used())

    def _frame_of_plan(self, query: Bound, text: str, names: Sequence[str]) -> DataFrame:
        """A frame whose plan holds the relations: Spark Connect analyses it again when it is read,
        when views would be gone."""
        if spark_version.startswith("3."):
            raise UserError(
                "SQL over Spark Connect needs PySpark 4",
                installed=spark_version,
                hint="upgrade PySpark, or use a classic session",
            )
        plain = text.replace("{", "{{").replace("}", "}}")
        places = _RELATION.sub(lambda found: "{" + found[0] + "}", plain)
        frames = {name: self._rows_of(query.relations[name]) for name in names}
        with _typed_errors(text):
            frame: DataFrame = self.spark.sql(places, args=query.used() or None, **frames)
            frame.schema  # noqa: B018 - analyses the plan
            return frame

    @contextmanager
    def _views(self, query: Bound, names: Sequence[str]) -> Iterator[None]:
        """Views of the relations that a query names, while it is analysed."""
        for name in names:
            self._rows_of(query.relations[name]).createOrReplaceTempView(name)
        try:
            yield
        finally:
            for name in names:
                self.spark.catalog.dropTempView(name)

    def _rows_of(self, relation: Relation) -> Any:
        found: Any
        match relation:
            case Snapshot(table, as_of, with_meta):
                found = table.scan(as_of=as_of, with_meta=with_meta)
            case Changes(table, since, until, cdc):
                method: Callable[..., Any] = table.capture if cdc else table.changes
                found = method(since, until)
            case Keyed(table, keys):
                found = table.fetch(keys)
            case Given(rows):
                found = rows
        return found if is_frame(found) else self.answer(arrow_table(found))


@contextmanager
def _typed_errors(text: str) -> Iterator[None]:
    try:
        yield
    except PySparkException as error:
        reason = str(error).strip().partition("\n")[0]
        raise UserError("Spark rejected the query", reason=reason, query=text[:300]) from error


@contextmanager
def value_errors() -> Iterator[None]:
    """Errors about values, which Spark finds while the rows are written, are UserErrors."""
    try:
        yield
    except (PySparkException, Py4JError, pa.ArrowInvalid) as error:
        found = _VALUES.search(str(error))
        if found is None:
            raise
        raise UserError("Spark cannot compute a value", error=found[1], reason=found[2]) from error

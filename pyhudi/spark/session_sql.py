"""`spark.sql` of an enabled session: statements about tables of Hudi run as by `pyhudi.spark.sql`.

A statement is routed by the tables that it names, which are looked up in the session first.  All
that Spark runs itself, and all text that is not parsed here, goes to Spark unchanged.
"""

from __future__ import annotations

import functools
import itertools
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from py4j.protocol import Py4JError
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.types import StructType
from sqlglot import TokenType, exp

from pyhudi.errors import UserError
from pyhudi.spark.session_names import InSession, in_session
from pyhudi.spark.sql_statements import planner_of, value_errors
from pyhudi.sql.grammar import tokens_of
from pyhudi.sql.names import Names
from pyhudi.sql.parse import parse
from pyhudi.sql.procedures import PROCEDURES
from pyhudi.sql.relations import is_table_function, tables_in
from pyhudi.sql.session import run
from pyhudi.sql.statements import (
    Call,
    CreateTable,
    Describe,
    DropTable,
    Explain,
    Name,
    Query,
    RenameTable,
    ShowTables,
    Statement,
    Topic,
)
from pyhudi.write.write_report import WriteReport

_NAMED: Final = "spark.pyhudi.sql"
_LOCK: Final = threading.Lock()
_OF_VIEWS: Final = (Topic.COLUMNS, Topic.EXTENDED, Topic.PROPERTIES)
"""What Spark shows of a view."""
_COUNTS: Final = ("inserted", "updated", "deleted", "unchanged")
_originals: dict[type, Callable[..., DataFrame]] = {}
_numbers = itertools.count()
_inside = threading.local()


@dataclass(frozen=True, slots=True)
class Settings:
    """Of an enabled session.  folder: of tables that CREATE TABLE makes, or None."""

    folder: str | None
    options: Mapping[str, Any] | None
    storage_options: Mapping[str, Any] | None


_settings: dict[str, Settings] = {}
"""By number, which the property of the session names: sessions that Spark clones have it too."""


def enable_sql(spark: SparkSession, settings: Settings) -> None:
    """Route `spark.sql` of a session."""
    owner = type(spark)
    with _LOCK:
        if owner not in _originals:
            original: Any = owner.sql
            _originals[owner] = original
            owner.sql = _routed(original)  # type: ignore[method-assign]
        number = str(next(_numbers))
        _settings[number] = settings
    spark.conf.set(_NAMED, number)


def disable_sql(spark: SparkSession) -> None:
    """Undo `enable_sql`."""
    spark.conf.unset(_NAMED)


def _routed(original: Callable[..., DataFrame]) -> Callable[..., DataFrame]:
    @functools.wraps(original)
    def sql(self: SparkSession, sqlQuery: str, args: Any = None, **named: Any) -> DataFrame:
        number = None if getattr(_inside, "now", False) else self.conf.get(_NAMED, None)
        settings = None if number is None else _settings.get(number)
        if settings is None or named or not isinstance(sqlQuery, str):
            return original(self, sqlQuery, args, **named)
        return _run(self, settings, sqlQuery, args, original)

    return sql


def _run(
    spark: SparkSession,
    settings: Settings,
    text: str,
    args: Any,
    original: Callable[..., DataFrame],
) -> DataFrame:
    planner = planner_of(
        spark,
        None,
        settings.folder,
        settings.options,
        settings.storage_options,
        session_first=True,
    )
    router = _Router(spark, planner.names)
    try:
        statement = parse(text).statement
    except UserError as refused:
        try:
            return original(spark, text, args)
        except (PySparkException, Py4JError) as error:
            if router.is_about_hudi(text):
                raise refused from error
            raise
    if not router.is_ours(statement):
        return original(spark, text, args)
    with _by_us(), value_errors():
        return _as_frame(planner.engine, run(text, planner, args))


@contextmanager
def _by_us() -> Iterator[None]:
    """Statements of the planner in this thread are Spark's."""
    _inside.now = True
    try:
        yield
    finally:
        _inside.now = False


def _as_frame(engine: Any, found: Any) -> DataFrame:
    """The result of a statement: rows, the counts of a write, or an empty frame."""
    if isinstance(found, DataFrame):
        return found
    if isinstance(found, WriteReport):
        counts = {name: [getattr(found, name)] for name in _COUNTS}
        instant = pa.array([found.instant], pa.string())
        found = engine.answer(
            pa.table({"operation": [found.operation], "instant": instant, **counts})
        )
    else:
        found = engine.spark.createDataFrame([], StructType([]))
    frame: DataFrame = found
    return frame


class _Router:
    """Decides who runs a statement."""

    def __init__(self, spark: SparkSession, names: Names) -> None:
        self._spark = spark
        self._names = names
        self._found: dict[str, InSession | None] = {}

    def is_ours(self, statement: Statement) -> bool:
        """Whether Spark would not run the statement."""
        match statement:
            case Query(tree) | Explain(Query(tree)):
                named = list(tables_in(tree))
                if any(is_table_function(node) for node in named):
                    return True
                return any(map(self._is_read_by_us, named))
            case Call(procedure):
                return procedure.lower() in PROCEDURES
            case ShowTables():
                return False
            case Describe(topic, target):
                is_view = self._is_view(target)
                return self._is_hudi(target) and not (is_view and topic in _OF_VIEWS)
            case CreateTable(target):
                return statement.has_format or self._is_path(target)
            case DropTable(target) | RenameTable(target):
                return self._in_session(target) is None and self._is_hudi(target)
            case Explain(inner):
                return self.is_ours(inner)
            case _:
                return self._is_hudi(statement.target)

    def is_about_hudi(self, text: str) -> bool:
        """Whether any name in a text that could not be parsed is that of a table of Hudi."""
        try:
            tokens = tokens_of(text)
        except UserError:
            return False
        parts: list[str] = []
        after_dot = False
        for token in tokens:
            is_name = token.token_type in (TokenType.VAR, TokenType.IDENTIFIER)
            if is_name and after_dot:
                parts.append(token.text)
            elif token.token_type is not TokenType.DOT:
                if parts and self._is_hudi(Name(tuple(parts), parts[-1])):
                    return True
                parts = [token.text] if is_name else []
            after_dot = token.token_type is TokenType.DOT
        return bool(parts) and self._is_hudi(Name(tuple(parts), parts[-1]))

    def _is_read_by_us(self, node: Any) -> bool:
        if not isinstance(node.this, exp.Identifier):
            return False
        parts = tuple(part.name for part in node.parts)
        name = Name(parts, parts[-1])
        return self._is_hudi(name) and (bool(node.args.get("version")) or not self._is_view(name))

    def _in_session(self, name: Name) -> InSession | None:
        text = str(name)
        if text not in self._found:
            self._found[text] = in_session(self._spark, name)
        return self._found[text]

    def _is_hudi(self, name: Name) -> bool:
        """Whether a name is that of a table of Hudi; what the session has comes first."""
        found = self._in_session(name)
        if found is not None:
            return found.is_hudi
        return self._is_path(name) or self._names.folder_of(name) is not None

    def _is_view(self, name: Name) -> bool:
        """Whether Spark reads the name itself."""
        found = self._in_session(name)
        return found is not None and found.path is None

    def _is_path(self, name: Name) -> bool:
        return self._names.is_path(name) and self._in_session(name) is None

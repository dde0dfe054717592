"""Filters as callers write them, parsed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, overload

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UserError
from pyhudi.read.arrow_filter import arrow_predicate
from pyhudi.read.predicate import Predicate, columns_of
from pyhudi.read.sql.sql_filter import Filter, sql_tree

_SQL_TEXT: Final = """SQL text, such as where="fare > 10 and city = 'sf'\""""
_INSTEAD: Final = {
    "polars": f"filter the lazy frame of pyhudi.polars.scan(table), or write {_SQL_TEXT}",
    "duckdb": f"pass str(expression), or write {_SQL_TEXT}",
    "pandas": f"select rows of to_pandas() by it, or write {_SQL_TEXT}",
    "pyspark": "pass it to scan of a table of pyhudi.spark.open_table(spark, path), or write "
    + _SQL_TEXT,
}
"""What to write instead of a condition of another library."""


@overload
def as_predicate(
    where: Filter | Predicate, schema: pa.Schema, scopes: Sequence[str] = ()
) -> Predicate: ...
@overload
def as_predicate(
    where: Filter | Predicate | None, schema: pa.Schema, scopes: Sequence[str] = ()
) -> Predicate | None: ...
def as_predicate(
    where: Filter | Predicate | None, schema: pa.Schema, scopes: Sequence[str] = ()
) -> Predicate | None:
    """A filter of a table with these columns.

    scopes: as for `sql_tree`.  Raises UserError as `sql_tree` does, for an expression that does
    not match the columns, and for one of another library, with what to write instead.
    """
    match where:
        case None | Predicate():
            return where
        case str():
            tree = sql_tree(where, schema, scopes)
            return Predicate(tree, columns_of(tree, schema) or tuple(schema.names))
        case pc.Expression():
            return arrow_predicate(where, schema)
    kind = type(where)
    library = kind.__module__.partition(".")[0].lstrip("_")
    raise UserError(
        "where takes SQL text or a pyarrow.compute.Expression",
        given=kind.__name__ if library == "builtins" else f"{kind.__name__} of {library}",
        hint=_INSTEAD.get(library, f"write {_SQL_TEXT}"),
    )


__all__ = ["as_predicate"]

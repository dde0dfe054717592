"""Filters as callers write them, parsed once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import overload

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UserError
from pyhudi.read.arrow_filter import arrow_predicate
from pyhudi.read.predicate import Predicate, columns_of
from pyhudi.read.sql.sql_filter import Filter, sql_tree


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

    scopes: as for `sql_tree`.  Raises UserError as `sql_tree` does, and for an expression that does
    not match the columns.
    """
    match where:
        case None | Predicate():
            return where
        case str():
            tree = sql_tree(where, schema, scopes)
            return Predicate(tree, columns_of(tree, schema) or tuple(schema.names))
        case pc.Expression():
            return arrow_predicate(where, schema)
    raise UserError(
        "where takes SQL text or a pyarrow.compute.Expression", given=type(where).__name__
    )


__all__ = ["as_predicate"]

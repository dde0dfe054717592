"""Trees of sqlglot that statements are planned with."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
from sqlglot import exp

from pyhudi.errors import UserError
from pyhudi.near_names import columns_hint
from pyhudi.sql.statements import Name, Tree


def column_named(name: str, schema: pa.Schema) -> str:
    """A column of a table, regardless of case.  Raises UserError."""
    found = alike(name, schema.names)
    if found is None:
        raise UserError(
            "the table has no such column", column=name, hint=columns_hint([name], schema.names)
        )
    return found


def alike(name: str, names: Sequence[str]) -> str | None:
    """The one of the names that is equal, else the only one that differs in case alone."""
    found = [n for n in names if n == name] or [n for n in names if n.lower() == name.lower()]
    return found[0] if len(found) == 1 else None


def column_of(qualifier: str, name: str) -> Tree:
    """A column of a table or subquery."""
    return exp.column(
        exp.to_identifier(name, quoted=True), table=exp.to_identifier(qualifier, quoted=True)
    )


def own_column(of: Name, name: str) -> Tree:
    """A column of the table that a statement writes to."""
    return column_of(of.alias, name)


def as_column(value: Tree, name: str) -> Tree:
    """A value as a column of a query."""
    return exp.alias_(value.copy(), name, quoted=True)


def as_select(query: Tree) -> Tree:
    """A query as SELECT, which VALUES alone is not."""
    if not isinstance(query, exp.Values):
        return query
    named = query.copy()
    if not named.args.get("alias"):
        named.set("alias", exp.TableAlias(this=exp.to_identifier("v")))
    return exp.select("*").from_(named)


def table_of(name: Name) -> Tree:
    """A table of a query."""
    parts = [exp.to_identifier(part, quoted=True) for part in name.parts]
    places = dict(zip(("this", "db", "catalog"), reversed(parts), strict=False))
    alias = exp.TableAlias(this=exp.to_identifier(name.alias, quoted=True))
    return exp.Table(**places, alias=alias)


def conjuncts(tree: Tree) -> Iterator[Tree]:
    """The parts of a condition that `and` connects."""
    waiting = [tree]
    while waiting:
        one = waiting.pop()
        if isinstance(one, exp.And):
            waiting += [one.expression, one.this]
        elif isinstance(one, exp.Paren):
            waiting.append(one.this)
        else:
            yield one

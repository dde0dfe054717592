"""The clauses of a conditional merge, and their conversion to Arrow expressions.

Expressions are evaluated on rows of two structs, `source` and `target`; insert clauses have only
`source`.  A clause gets the rows that the clauses before it have left.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import UserError
from pyhudi.formats.nested_fields import type_at
from pyhudi.read.sql.sql_filter import Filter, as_filter, as_value
from pyhudi.records import IS_DELETED
from pyhudi.table.properties import TableConfig
from pyhudi.write.input.batch import Rows
from pyhudi.write.input.schema_check import plain_schema
from pyhudi.write.updated_rows import check_assignments

SOURCE: Final = "source"
TARGET: Final = "target"


class ClauseKind(Enum):
    """What a clause does with a row; the value is its name in errors."""

    UPDATE = "when_matched_update"
    DELETE = "when_matched_delete"
    INSERT = "when_not_matched_insert"


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause.  where: None applies to every row.  values: of columns; None or absent columns
    of an insert come from the source, absent columns of an update stay."""

    kind: ClauseKind
    where: Filter | None = None
    values: Mapping[str, Any] | None = None


@dataclass(frozen=True, slots=True)
class ConditionalMerge:
    """The source rows of a merge, and its clauses in order."""

    source: Rows
    clauses: tuple[Clause, ...]


@dataclass(frozen=True, slots=True)
class CompiledClause:
    """A clause as Arrow expressions.  values: of each column of the written row."""

    kind: ClauseKind
    where: pc.Expression | None
    values: Mapping[str, pc.Expression]


def source_schema(source: pa.Schema, table: pa.Schema, config: TableConfig) -> pa.Schema:
    """The columns of the source, those of the table in the table's types.

    Raises UserError if columns are missing that keys or partitions derive from.
    """
    fields = dict.fromkeys((*config.record_key_fields, *config.partition_fields))
    if not config.record_key_fields:
        raise UserError("a merge needs a table with record key columns", table=config.name)
    missing = [name for name in fields if type_at(source, name) is None]
    if missing:
        raise UserError(
            "the rows to merge lack columns of the record key or the partition",
            columns=", ".join(missing),
            hint="a merge matches rows by the table's record keys",
        )
    known = set(table.names)
    return pa.schema([table.field(f.name) if f.name in known else f for f in plain_schema(source)])


def compiled(
    clauses: Sequence[Clause], source: pa.Schema, table: pa.Schema, config: TableConfig
) -> tuple[CompiledClause, ...]:
    """The clauses as expressions.

    source: as of `source_schema`; table: the table's user columns.  Raises UserError for unknown
    columns, values that do not fit, and clauses that can never apply.
    """
    _check_order(clauses)
    one_side = pa.schema({SOURCE: pa.struct(list(source))})
    both_sides = one_side.append(pa.field(TARGET, pa.struct(list(table))))
    found = []
    for clause in clauses:
        sides = one_side if clause.kind is ClauseKind.INSERT else both_sides
        _check_expression(clause)
        where = None if clause.where is None else as_filter(clause.where, sides, sides.names)
        if clause.values is not None:
            check_assignments(clause.values, table, config)
        values = {field.name: _column(clause, field, source, sides) for field in table}
        if clause.kind is ClauseKind.DELETE:
            values[IS_DELETED] = pc.scalar(True)
        else:
            values.setdefault(IS_DELETED, pc.scalar(False))
        found.append(CompiledClause(clause.kind, where, values))
    return tuple(found)


def _check_order(clauses: Sequence[Clause]) -> None:
    """Raise UserError if there is no clause, or one that an earlier one leaves no rows for."""
    if not clauses:
        raise UserError(
            "the merge has no clause",
            hint="such as table.merge(rows).when_matched_update().when_not_matched_insert()",
        )
    for matched in (True, False):
        some = [c for c in clauses if (c.kind is not ClauseKind.INSERT) == matched]
        for clause, later in pairwise(some):
            if clause.where is None:
                raise UserError(
                    "a clause of the merge can never apply",
                    clause=later.kind.value,
                    after=clause.kind.value,
                    hint="give the earlier clause a where=, or put it last",
                )


def _check_expression(clause: Clause) -> None:
    if clause.where is not None and not isinstance(clause.where, str | pc.Expression):
        raise UserError(
            "where= of a merge must be SQL text or an Arrow expression",
            clause=clause.kind.value,
            type=type(clause.where).__name__,
            hint="such as where=\"source.op = 'D'\"",
        )


def _column(clause: Clause, field: pa.Field, source: pa.Schema, sides: pa.Schema) -> pc.Expression:
    """The value of a column of the row that an update or insert clause writes."""
    values = clause.values or {}
    if field.name in values:
        return as_value(values[field.name], sides, field.type, sides.names)
    takes_source = {
        ClauseKind.INSERT: True,
        ClauseKind.UPDATE: clause.values is None,
        ClauseKind.DELETE: False,
    }[clause.kind]
    if takes_source and field.name in source.names:
        return pc.field(SOURCE, field.name)
    if clause.kind is ClauseKind.INSERT:
        return pc.scalar(pa.scalar(None, field.type))
    return pc.field(TARGET, field.name)

"""The clauses of a conditional merge, and their conversion to Arrow expressions.

Expressions are evaluated on rows of two structs, `source` and `target`; insert clauses have only
`source`, clauses for records that no source row matches only `target`.  A clause gets the rows that
the clauses of its kind of pair before it have left.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from enum import Enum
from itertools import pairwise
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from pyhudi.errors import SchemaError, UserError
from pyhudi.formats.nested_fields import check_same_fields, root_of, type_at
from pyhudi.read.arrow_filter import fewest_columns
from pyhudi.read.predicate import Or, Predicate, columns_of, inside, is_analyzed
from pyhudi.read.sql.sql_filter import Filter, as_filter, as_value, sql_tree
from pyhudi.read.table_snapshot import TableState
from pyhudi.records import IS_DELETED
from pyhudi.table.properties import KeyGeneratorKind, TableConfig
from pyhudi.write.input.batch import Rows
from pyhudi.write.input.schema_check import plain_schema
from pyhudi.write.updated_rows import check_assignments, projected

SOURCE: Final = "source"
TARGET: Final = "target"
EXISTS: Final = "a row that ON does not match has the key of a stored record"
"""The error of a row to insert whose key is stored."""


class Pair(Enum):
    """The rows that a clause applies to."""

    MATCHED = (SOURCE, TARGET)
    NOT_MATCHED = (SOURCE,)
    NOT_MATCHED_BY_SOURCE = (TARGET,)

    def __str__(self) -> str:
        """As in SQL."""
        return f"WHEN {self.name.replace('_', ' ')}"


class ClauseKind(Enum):
    """What a clause does with a row; the value is its name in errors."""

    UPDATE = "when_matched_update"
    DELETE = "when_matched_delete"
    REFUSE = "when_matched_refuse"
    INSERT = "when_not_matched_insert"
    UPDATE_REST = "when_not_matched_by_source_update"
    DELETE_REST = "when_not_matched_by_source_delete"

    @property
    def pair(self) -> Pair:
        if self is ClauseKind.INSERT:
            return Pair.NOT_MATCHED
        rest = self in (ClauseKind.UPDATE_REST, ClauseKind.DELETE_REST)
        return Pair.NOT_MATCHED_BY_SOURCE if rest else Pair.MATCHED

    @property
    def deletes(self) -> bool:
        return self in (ClauseKind.DELETE, ClauseKind.DELETE_REST)


@dataclass(frozen=True, slots=True)
class Clause:
    """One clause.  where: None applies to every row.  values: of columns; None or absent columns
    of an insert come from the source, absent columns of an update stay.  reason: of the UserError
    that a row of a REFUSE clause raises."""

    kind: ClauseKind
    where: Filter | None = None
    values: Mapping[str, Any] | None = None
    reason: str | None = None


@dataclass(frozen=True, slots=True)
class FoundRows:
    """Source rows that a query finds in the state on which the merge is planned.

    schema: of these rows.
    """

    schema: pa.Schema
    find: Callable[[TableState], Rows]


@dataclass(frozen=True, slots=True)
class ConditionalMerge:
    """The source rows of a merge, and its clauses in order.

    on: what a source row and the record of its key meet if they match.  If they do not, the record
    is one that no source row matches, and the row must not be inserted: its key is stored.
    """

    source: Rows | FoundRows
    clauses: tuple[Clause, ...]
    on: Filter | None = None

    def rows(self, state: TableState) -> Rows:
        """The source rows."""
        return self.source.find(state) if isinstance(self.source, FoundRows) else self.source


@dataclass(frozen=True, slots=True)
class CompiledClause:
    """A clause as Arrow expressions.  values: of each column of the written row."""

    kind: ClauseKind
    where: pc.Expression | None
    values: Mapping[str, pc.Expression]
    reason: str | None = None


def source_schema(
    source: pa.Schema, table: pa.Schema, config: TableConfig, *, fills_missing: bool
) -> pa.Schema:
    """The columns of the source, those of the table in the table's types.

    A column whose structs have other fields than the table's has its own type, which no clause can
    take as a whole.  fills_missing: whether fields that the source lacks are null.
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

    def typed(field: pa.Field) -> pa.Field:
        if field.name not in table.names:
            return field
        known = table.field(field.name)
        try:
            check_same_fields(field.type, known.type, field.name, fills_missing=fills_missing)
        except SchemaError:
            return field
        return known

    return pa.schema([typed(field) for field in plain_schema(source)])


def compiled(
    clauses: Sequence[Clause], source: pa.Schema, table: pa.Schema, config: TableConfig
) -> tuple[CompiledClause, ...]:
    """The clauses as expressions.

    source: as of `source_schema`; table: the table's user columns.  Raises UserError for unknown
    columns, values that do not fit, and clauses that can never apply; SchemaError for a column
    taken from the source whose structs have other fields than the table's.
    """
    _check_order(clauses)
    places = set(map(root_of, (*config.record_key_fields, *config.partition_fields)))
    places.update(map(root_of, config.ordering_fields))
    structs = {SOURCE: pa.struct(list(source)), TARGET: pa.struct(list(table))}
    equal = [name for name in config.record_key_fields if name in source.names]
    if config.key_generator is KeyGeneratorKind.USER_PROVIDED:
        equal = []  # other values may have the same key
    found = []
    for clause in clauses:
        sides = pa.schema({name: structs[name] for name in clause.kind.pair.value})
        _check_expression(clause)
        where = None if clause.where is None else as_filter(clause.where, sides, sides.names)
        if clause.values is not None:
            check_assignments(clause.values, table, config)
        values = {field.name: _column(clause, field, source, sides) for field in table}
        if clause.kind in (ClauseKind.UPDATE, ClauseKind.DELETE):
            values |= {name: pc.field(SOURCE, name) for name in equal}
        if clause.kind.deletes:
            values |= {f.name: _null(f) for f in table if f.nullable and f.name not in places}
            values[IS_DELETED] = pc.scalar(True)
        else:
            values.setdefault(IS_DELETED, pc.scalar(False))
        found.append(CompiledClause(clause.kind, where, values, clause.reason))
    return tuple(found)


def compiled_on(on: Filter | None, source: pa.Schema, table: pa.Schema) -> pc.Expression | None:
    """The condition of matches as an expression.  Schemas, errors: as for `compiled`."""
    if on is None:
        return None
    sides = pa.schema({SOURCE: pa.struct(list(source)), TARGET: pa.struct(list(table))})
    return as_filter(on, sides, sides.names)


def rest_filter(clauses: Sequence[Clause], table: pa.Schema) -> Predicate | None:
    """What each record meets that a clause for records without a source row applies to; None if
    that cannot be stated as one filter of the table."""
    sides = pa.schema({TARGET: pa.struct(list(table))})
    found = []
    for clause in clauses:
        if clause.kind.pair is Pair.NOT_MATCHED_BY_SOURCE:
            if not isinstance(clause.where, str):
                return None
            found.append(inside(sql_tree(clause.where, sides, sides.names), TARGET))
    tree = Or(tuple(found))
    return Predicate(tree, columns_of(tree, table)) if found and is_analyzed(tree) else None


def _check_order(clauses: Sequence[Clause]) -> None:
    """Raise UserError if there is no clause, or one that an earlier one leaves no rows for."""
    if not clauses:
        raise UserError(
            "the merge has no clause",
            hint="such as table.merge(rows).when_matched_update().when_not_matched_insert()",
        )
    for pair in Pair:
        some = [clause for clause in clauses if clause.kind.pair is pair]
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
        return as_value(values[field.name], sides, field.type, sides.names, column=field.name)
    takes_source = clause.kind is ClauseKind.INSERT or (
        clause.kind is ClauseKind.UPDATE and clause.values is None
    )
    if takes_source and field.name in source.names:
        check_same_fields(source.field(field.name).type, field.type, field.name)
        return pc.field(SOURCE, field.name)
    if clause.kind is ClauseKind.INSERT:
        return _null(field)
    return pc.field(TARGET, field.name)


def _null(field: pa.Field) -> pc.Expression:
    return pc.scalar(pa.scalar(None, field.type))


def stored_columns(
    clauses: Sequence[CompiledClause],
    source: pa.Schema,
    table: pa.Schema,
    on: pc.Expression | None = None,
) -> tuple[str, ...]:
    """The columns of stored records that the clauses and the condition of matches use."""
    taken: set[str] = set()
    others: list[pc.Expression] = [] if on is None else [on]
    for clause in clauses:
        if clause.kind is ClauseKind.INSERT:
            continue
        written = {} if clause.kind is ClauseKind.REFUSE else clause.values
        for name, value in (*written.items(), ("", clause.where)):
            if value is None:
                continue
            if name and value.equals(pc.field(TARGET, name)):
                taken.add(name)
            elif not name or not value.equals(pc.field(SOURCE, name)):
                others.append(value)
    unused = [pa.field(f" {number}", pa.struct([])) for number in range(len(table))]

    def binds(names: Sequence[str], before: Sequence[pa.Field] = ()) -> bool:
        target = pa.struct([*before, *map(table.field, names)])
        rows = pa.schema({SOURCE: pa.struct(list(source)), TARGET: target}).empty_table()
        try:
            projected(rows, {str(number): value for number, value in enumerate(others)})
        except UserError:
            return False
        return True

    if others and not binds(table.names, unused):  # an expression names a column by its position
        return tuple(table.names)
    taken.update(fewest_columns(binds, table.names) if others else ())
    return tuple(name for name in table.names if name in taken)

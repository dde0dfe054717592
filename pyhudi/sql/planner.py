"""From statements to queries of the engine and verbs of tables."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import pyarrow as pa
from sqlglot import exp

from pyhudi.api.found_rows import PLACE, Find, delete_found, overwrite_partitions, upsert_found
from pyhudi.errors import UserError
from pyhudi.records import without_meta
from pyhudi.sql.ddl import define, path_of
from pyhudi.sql.descriptions import describe, listed
from pyhudi.sql.engine import QueryEngine
from pyhudi.sql.grammar import condition
from pyhudi.sql.merge import plan as plan_merge
from pyhudi.sql.names import Names
from pyhudi.sql.procedures import FILTER, PATH, TABLE, as_table, bind
from pyhudi.sql.relations import Binder, Bound, name_in
from pyhudi.sql.statements import (
    Call,
    Delete,
    Describe,
    Explain,
    Insert,
    Merge,
    Name,
    Query,
    ShowTables,
    Statement,
    Tree,
    Update,
    Write,
)
from pyhudi.sql.trees import as_column, as_select, column_named, own_column, table_of
from pyhudi.write.updated_rows import check_assignments

INSERT_OPERATION: Final = "hoodie.spark.sql.insert.into.operation"
_OPERATIONS: Final = ("insert", "upsert", "bulk_insert")


@dataclass(frozen=True, slots=True)
class Planner:
    """Runs statements.  insert_operation: that of INSERT INTO; None: upsert for a table with an
    ordering field, else insert."""

    engine: QueryEngine
    names: Names
    insert_operation: str | None = None

    @classmethod
    def of(
        cls,
        engine: Callable[[Mapping[str, Any] | None], QueryEngine],
        names: Callable[[QueryEngine], Names],
        options: Mapping[str, Any] | None,
    ) -> Planner:
        """The planner of a call.  engine: made with the options of tables.  names: opened by the
        engine.  options: of the call, with those of statements."""
        given = dict(options or {})
        operation = given.pop(INSERT_OPERATION, None)
        made = engine(given or None)
        return cls(made, names(made), operation)

    def run(self, statement: Statement, parameters: Mapping[str, Any]) -> Any:
        """The rows of a query, or the report of a write."""
        binder = Binder(self.names, parameters)
        try:
            return self._run(statement, binder)
        finally:
            for _, left in binder.idle:
                left.close()

    def _run(self, statement: Statement, binder: Binder) -> Any:
        match statement:
            case Query(tree):
                return self.engine.result(binder.bound(tree))
            case Explain(Query(tree)):
                return self._as_rows(self.engine.explained(binder.bound(tree)))
            case Explain(inner):
                return self._as_rows(str(self._write(inner, binder, dry_run=True)))  # type: ignore[arg-type]
            case Call():
                return self._call(statement, binder)
            case Describe(topic, target, key):
                return self.engine.answer(describe(topic, binder.table(target), key))
            case ShowTables():
                known = {*self.names.tables, *self.names.children()}
                return self.engine.answer(listed(sorted(known)))
            case Insert() | Update() | Delete() | Merge():
                return self._write(statement, binder, dry_run=False)
            case _:
                return define(statement, binder, self.engine)

    def _call(self, statement: Call, binder: Binder) -> Any:
        positional = list(map(binder.argument, statement.positional))
        named = {name: binder.argument(one) for name, one in statement.named.items()}
        procedure, values = bind(statement.procedure, positional, named)
        table = None
        if values[TABLE.name] is not None:
            table = binder.table(name_in(values[TABLE.name]))
        elif procedure.has_path and values[PATH.name] is not None:
            table = binder.table(name_in(values[PATH.name], is_path=True))
        found = procedure.run(table, values)  # type: ignore[arg-type]  # only help has none
        limit = values.get("limit")
        if not values[FILTER.name]:
            return self.engine.answer(as_table(procedure, found, limit))
        rows = Names(self.names.open, {"result": as_table(procedure, found, None)})
        query = exp.select("*").from_("result").where(condition(values[FILTER.name]))
        return self.engine.result(
            Binder(rows, {}, idle=binder.idle).bound(query if limit is None else query.limit(limit))
        )

    def _as_rows(self, plan: str) -> Any:
        return self.engine.answer(pa.table({"plan": plan.splitlines()}))

    def _write(self, statement: Write, binder: Binder, *, dry_run: bool) -> Any:
        binder.table(statement.target).key_rule()  # its errors are raised before anything begins
        match statement:
            case Insert():
                return self._insert(statement, binder, dry_run=dry_run)
            case Update():
                return self._update(statement, binder, dry_run=dry_run)
            case Delete():
                return self._delete(statement, binder, dry_run=dry_run)
            case Merge():
                return plan_merge(statement, binder, self.engine).run(self.engine, dry_run=dry_run)

    def _update(self, statement: Update, binder: Binder, *, dry_run: bool) -> Any:
        """One query of the new rows, which are upserted."""
        table = binder.table(statement.target)
        schema = without_meta(table.schema)
        values = {
            column_named(name, schema): value for name, value in statement.assignments.items()
        }
        check_assignments(values, schema, table.config)
        columns = [
            as_column(values.get(name, own_column(statement.target, name)), name)
            for name in schema.names
        ]
        query = binder.bound(_from_target(columns, statement.target, statement.where))
        return upsert_found(table, self._finds(query, schema), dry_run=dry_run)

    def _delete(self, statement: Delete, binder: Binder, *, dry_run: bool) -> Any:
        """One query of keys and partitions."""
        table = binder.table(statement.target)
        columns = [own_column(statement.target, name) for name in PLACE]
        query = binder.bound(_from_target(columns, statement.target, statement.where))
        places = pa.schema([(name, pa.string()) for name in PLACE])
        return delete_found(table, self._finds(query, places), dry_run=dry_run)

    def _finds(self, query: Bound, schema: pa.Schema) -> Find:
        self.engine.schema(query)  # its errors are raised before the write begins
        return lambda table: self.engine.rows(query.at(table), schema)

    def _insert(self, statement: Insert, binder: Binder, *, dry_run: bool) -> Any:
        table = binder.table(statement.target)
        schema = without_meta(table.schema)
        query = self._inserted(statement, binder, schema)
        is_dynamic = statement.partition is None or None in statement.partition.values()
        rows = self.engine.rows(query, schema)
        if not statement.overwrite:
            operation = self.insert_operation or (
                "upsert" if table.config.ordering_fields else "insert"
            )
            if operation not in _OPERATIONS:
                raise UserError(
                    "unknown operation of INSERT INTO",
                    operation=operation,
                    hint=f"{INSERT_OPERATION} is one of {', '.join(_OPERATIONS)}",
                )
            return getattr(table, operation)(rows, dry_run=dry_run)
        if not is_dynamic:
            path = path_of(table, statement.partition or {}, binder, self.engine)
            return overwrite_partitions(table, rows, (path,), dry_run=dry_run)
        if table.config.partition_fields and statement.partition is not None:
            return table.insert_overwrite(rows, dry_run=dry_run)
        return table.insert_overwrite_table(rows, dry_run=dry_run)

    def _inserted(self, statement: Insert, binder: Binder, schema: pa.Schema) -> Bound:
        """The query of an INSERT with all columns of the table, in its order."""
        inner = as_select(statement.query)
        given = self.engine.schema(binder.bound(inner)).names
        static = {
            column_named(name, schema): value
            for name, value in (statement.partition or {}).items()
            if value is not None
        }
        _check_partition(statement, binder.table(statement.target).config.partition_fields)
        targets = _insert_columns(statement, schema, static, given)
        if len(targets) != len(given):
            raise UserError(
                "the query has another number of columns than the table",
                table=str(statement.target),
                columns=", ".join(targets),
                given=", ".join(given),
                hint="name the columns: INSERT INTO t (id, fare) ...",
            )
        names = [f"c{number}" for number in range(len(given))]
        places = dict(zip(targets, names, strict=True))
        columns = []
        for name in schema.names:
            value = static.get(name, exp.null())
            if name in places:
                value = exp.column(places[name], table="q")
            columns.append(as_column(value, name))
        alias = exp.TableAlias(
            this=exp.to_identifier("q"), columns=list(map(exp.to_identifier, names))
        )
        source = exp.Subquery(this=inner, alias=alias)
        return binder.bound(exp.select(*columns).from_(source))


def _check_partition(statement: Insert, fields: Sequence[str]) -> None:
    """Raise UserError if PARTITION (...) of an INSERT names another column of the table."""
    known = {field.lower() for field in fields}
    for name in statement.partition or {}:
        if name.lower() not in known:
            raise UserError(
                "the column is no partition column",
                table=str(statement.target),
                column=name,
                partition_columns=", ".join(fields) or None,
                hint="select it by the query",
            )


def _insert_columns(
    statement: Insert, schema: pa.Schema, static: Mapping[str, Tree], given: Sequence[str]
) -> list[str]:
    """The column of the table that each column of the query is for."""
    if statement.columns is not None:
        return _distinct([column_named(name, schema) for name in statement.columns], statement)
    if statement.by_name:
        return _distinct([column_named(name, schema) for name in given], statement)
    dynamic = [
        column_named(name, schema)
        for name, value in (statement.partition or {}).items()
        if value is None
    ]
    last = {*static, *dynamic}
    return [name for name in schema.names if name not in last] + dynamic


def _distinct(names: list[str], statement: Insert) -> list[str]:
    if len(set(names)) < len(names):
        raise UserError(
            "a column is named twice", table=str(statement.target), columns=", ".join(names)
        )
    return names


def _from_target(columns: Sequence[Tree], target: Name, where: Tree | None) -> Tree:
    found = exp.select(*columns).from_(table_of(target))
    return found if where is None else found.where(where.copy())

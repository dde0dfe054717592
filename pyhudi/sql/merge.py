"""MERGE INTO: the source query and the clauses of a merge of `pyhudi.api`.

    by key    ON equates the record key with values of the source.  The query computes these, and
              what the clauses need of the source; the table's index finds the stored records.
    by join   anything else.  The query joins the source with the table, states which clause each
              pair of rows goes to, and computes its values.

Values of the source are computed by the engine as columns named COMPUTED and a number.  By key, the
rest of an expression is evaluated by the merge, where it may use the stored record; what that does
not support is merged by join.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from sqlglot import exp

from pyhudi.api.found_rows import check_merge, merge_found
from pyhudi.api.table import Table
from pyhudi.errors import UserError
from pyhudi.read.sql.sql_literals import states_zone
from pyhudi.records import without_meta
from pyhudi.sql.engine import QueryEngine
from pyhudi.sql.relations import Binder, Bound
from pyhudi.sql.statements import Act, Merge, MergeClause, Tree
from pyhudi.sql.trees import (
    alike,
    as_column,
    column_named,
    column_of,
    conjuncts,
    own_column,
    table_of,
)
from pyhudi.write.merge_clauses import EXISTS, SOURCE, TARGET, Clause, ClauseKind, Pair
from pyhudi.write.updated_rows import check_assignments
from pyhudi.write.write_report import WriteReport

COMPUTED: Final = "__pyhudi_v"
_OP: Final = "__pyhudi_op"
_IN_TARGET, _IN_SOURCE = "__pyhudi_t", "__pyhudi_s"
_NO_CLAUSE: Final = -1
"""The number of no clause."""
_SHOWN: Final = 5
"""Keys of ambiguous rows that an error shows."""
_KINDS: Final = {
    (Pair.MATCHED, Act.UPDATE): ClauseKind.UPDATE,
    (Pair.MATCHED, Act.DELETE): ClauseKind.DELETE,
    (Pair.NOT_MATCHED, Act.INSERT): ClauseKind.INSERT,
    (Pair.NOT_MATCHED_BY_SOURCE, Act.UPDATE): ClauseKind.UPDATE_REST,
    (Pair.NOT_MATCHED_BY_SOURCE, Act.DELETE): ClauseKind.DELETE_REST,
}


@dataclass(frozen=True, slots=True)
class Plan:
    """What a MERGE runs.  way: how stored records are found, for EXPLAIN.  is_cast: the query has
    other types than the schema.  on: what pairs of the same key meet if they match."""

    table: Table
    query: Bound
    schema: pa.Schema
    clauses: tuple[Clause, ...]
    duplicates: Bound | None
    way: str
    is_cast: bool = False
    on: Any = None

    def run(self, engine: QueryEngine, *, dry_run: bool) -> WriteReport:
        """Run the merge.  Raises UserError that shows source rows of the same record."""

        def find(table: Table) -> Any:
            if self.duplicates is not None:
                _check_unique(engine.collected(self.duplicates.at(table)))
            return engine.rows(self.query.at(table), self.schema if self.is_cast else None)

        report = merge_found(self.table, self.schema, find, self.clauses, self.on, dry_run=dry_run)
        notes = tuple(note for note in report.notes if COMPUTED not in note and _OP not in note)
        return replace(report, notes=(*notes, self.way) if dry_run else notes)


def _with_doubles(found: pa.Schema, stored: pa.Schema) -> pa.Schema:
    """The columns of a source; decimals, as literals like 25.0 are, have the type of the table's
    column of that name if it is a floating point one, as in INSERT."""
    types = dict(zip(stored.names, stored.types, strict=True))
    fields = []
    for one in found:
        known = types.get(one.name, one.type)
        fits = pa.types.is_decimal(one.type) and pa.types.is_floating(known)
        fields.append(one.with_type(known) if fits else one)
    return pa.schema(fields)


def _check_unique(found: pa.Table) -> None:
    if found.num_rows:
        shown = [tuple(row.values())[:-1] for row in found.to_pylist()]
        raise UserError(
            "several rows of the source match one record, or insert one",
            keys=repr(shown)[:300],
            hint="aggregate the source, or create the table with an ordering field that it has",
        )


def plan(statement: Merge, binder: Binder, engine: QueryEngine) -> Plan:
    """The plan of a MERGE.  Raises UserError for clauses that cannot be, before anything runs."""
    table = binder.table(statement.target)
    schema, config = without_meta(table.schema), table.config
    fields = dict.fromkeys((*config.record_key_fields, *config.partition_fields))
    missing = [name for name in fields if name not in schema.names]
    if missing or not config.record_key_fields:
        raise UserError(
            "MERGE needs a table whose record key and partition are columns",
            table=table.path,
            columns=", ".join(missing) or None,
        )
    if statement.target.alias.lower() == statement.source_alias.lower():
        raise UserError(
            "target and source of MERGE have the same name",
            name=statement.source_alias,
            hint="write MERGE INTO t AS target USING ... AS source",
        )
    source = exp.select("*").from_(statement.source.copy())
    columns = engine.schema(binder.bound(source)).names
    merge = _Merge(statement, table, schema, tuple(columns), binder, engine)
    merge.check()
    reason = "no index for a table without commits"
    try:
        return merge.by_key()
    except _NotByKeyError as error:
        reason = str(error)
    return merge.by_join(reason)


class _NotByKeyError(Exception):
    """The merge cannot find its records by their keys; the text says why."""


@dataclass(slots=True)
class _Computed:
    """Columns that the engine computes: tree by name."""

    trees: dict[str, Tree] = field(default_factory=dict)

    def add(self, tree: Tree) -> str:
        for name, known in self.trees.items():
            if known == tree:
                return name
        name = f"{COMPUTED}{len(self.trees)}"
        self.trees[name] = tree.copy()
        return name

    def columns(self) -> list[Tree]:
        return [as_column(tree, name) for name, tree in self.trees.items()]


@dataclass(slots=True)
class _Merge:
    """One MERGE whose names are known.  columns: of the source."""

    statement: Merge
    table: Table
    schema: pa.Schema
    columns: tuple[str, ...]
    binder: Binder
    engine: QueryEngine
    on: Tree = None
    clauses: list[MergeClause] = field(default_factory=list)

    def check(self) -> None:
        """Resolve the columns of all expressions.  Raises UserError for unknown and ambiguous
        columns, and clauses that cannot be."""
        self.on = self._qualified(self.statement.on, Pair.MATCHED)
        for clause in self.statement.clauses:
            values = clause.assignments
            if values is not None:
                values = {
                    column_named(name, self.schema): self._qualified(value, clause.pair)
                    for name, value in values.items()
                }
                if clause.act is Act.UPDATE:
                    values = self._changed(values)
            condition = clause.condition
            if condition is not None:
                condition = self._qualified(condition, clause.pair)
            same = [known for known in self.clauses if known.pair is clause.pair]
            if same and same[-1].condition is None:
                raise UserError(
                    "a clause of the merge can never apply",
                    clause=f"{clause.pair} {clause.act.value}",
                    hint="give the earlier clause a condition, or put it last",
                )
            self.clauses.append(replace(clause, condition=condition, assignments=values))

    def _changed(self, values: dict[str, Tree]) -> dict[str, Tree]:
        """The assignments but those of columns that ON equates with the same value."""
        equal = [pair for part in conjuncts(self.on) if (pair := self._equated(part))]
        changed = {
            name: value
            for name, value in values.items()
            if not any(name == known and _same(value, tree) for known, tree in equal)
        }
        if changed or not values:
            check_assignments(changed, self.schema, self.table.config)
        return changed

    def _qualified(self, tree: Tree, pair: Pair) -> Tree:
        """A tree whose columns, outside of its subqueries, name their side."""
        holder = exp.Paren(this=tree.copy())
        for column in list(holder.find_all(exp.Column)):
            if isinstance(column.this, exp.Star) or _is_nested(column, holder):
                continue
            parts = [part.name for part in column.parts]
            if len(parts) > 1 and self._alias(parts[0]) is not None:
                continue
            alias = self._owner(parts[0], pair, column)
            qualified = exp.column(
                *(exp.to_identifier(part, quoted=True) for part in reversed([alias, *parts]))
            )
            column.replace(qualified)
        return holder.this

    def _alias(self, name: str) -> str | None:
        """The side that a qualifier names."""
        known = {
            self.statement.target.alias.lower(): TARGET,
            self.statement.source_alias.lower(): SOURCE,
        }
        return known.get(name.lower())

    def _owner(self, name: str, pair: Pair, column: Tree) -> str:
        sides = {
            self.statement.source_alias: (self.columns, Pair.NOT_MATCHED_BY_SOURCE),
            self.statement.target.alias: (self.schema.names, Pair.NOT_MATCHED),
        }
        found = [
            alias
            for alias, (names, hidden) in sides.items()
            if pair is not hidden and name.lower() in {one.lower() for one in names}
        ]
        if len(found) == 1:
            return found[0]
        facts = {"column": column.sql(), "clause": pair}
        if found:
            hint = " or ".join(f"{alias}.{name}" for alias in found)
            raise UserError("the name is that of two columns", **facts, hint=f"write {hint}")
        listed = "; ".join(f"{alias} has {', '.join(names)}" for alias, (names, _) in sides.items())
        raise UserError("MERGE names an unknown column", **facts, hint=listed)

    def _sides(self, tree: Tree) -> set[str]:
        """The sides that a tree uses; a name without qualifier in a subquery may be a stored
        column."""
        found = set()
        stored = {name.lower() for name in self.schema.names}
        for column in tree.find_all(exp.Column):
            parts = [part.name for part in column.parts]
            side = self._alias(parts[0]) if len(parts) > 1 else None
            if side is not None:
                found.add(side)
            elif parts[0].lower() in stored:
                found.add(TARGET)
        return found

    def _source_column(self, name: str) -> Tree | None:
        """The column of the source with a name."""
        found = alike(name, self.columns)
        return None if found is None else column_of(self.statement.source_alias, found)

    def _of(self, pair: Pair) -> list[MergeClause]:
        return [clause for clause in self.clauses if clause.pair is pair]

    @property
    def _has_stars(self) -> bool:
        return any(c.assignments is None and c.act is not Act.DELETE for c in self.clauses)

    def _ordering(self) -> tuple[str, ...]:
        """The ordering fields, if the source has all: then they decide between its rows."""
        fields = self.table.config.ordering_fields
        has_all = all(name in self.schema.names and self._source_column(name) for name in fields)
        return fields if has_all else ()

    # -- by key --------------------------------------------------------------------------------

    def by_key(self) -> Plan:
        """Raises _NotByKeyError."""
        keys, extra = self._keys()
        fixed = {**keys, **self._partitions(keys, extra)}
        for clause in self._of(Pair.NOT_MATCHED):
            self._check_inserted(clause, fixed)
        computed = _Computed()
        on = self._filter(exp.and_(*extra) if extra else None, Pair.MATCHED, computed)
        clauses = self._key_clauses(fixed, computed)
        own = dict(fixed)
        for name in (*self._ordering(), *(self.schema.names if self._has_stars else ())):
            column = self._source_column(name)
            if column is not None:
                own.setdefault(name, column)
        columns = [*(as_column(tree, name) for name, tree in own.items()), *computed.columns()]
        tree = exp.select(*columns).from_(self.statement.source.copy())
        if not self._of(Pair.NOT_MATCHED):
            for key in keys.values():
                tree = tree.where(_is_known(key))
        query = self.binder.bound(tree)
        given = self.engine.schema(query)
        found = _with_doubles(given, self.schema)
        try:
            check_merge(self.table, found, clauses, self.schema, on)
        except UserError as error:
            raise _NotByKeyError(error.what) from None
        rest = " and all other records" * bool(self._of(Pair.NOT_MATCHED_BY_SOURCE))
        way = f"records are found by their keys{rest}: ON equates {', '.join(keys)}"
        is_cast = found != given
        unique = None if self._ordering() else self._duplicates(tree)
        return Plan(self.table, query, found, clauses, unique, way, is_cast, on)

    def _keys(self) -> tuple[dict[str, Tree], list[Tree]]:
        """(the source's value of each key and partition column that ON equates, other parts)."""
        config = self.table.config
        keys: dict[str, Tree] = {}
        extra: list[Tree] = []
        for part in conjuncts(self.on):
            equated = self._equated(part)
            if equated is None or equated[0] in keys:
                extra.append(part)
                continue
            name, value = equated
            if name in config.record_key_fields:
                keys[name] = value
            else:
                extra.append(part)
        missing = [name for name in config.record_key_fields if name not in keys]
        if missing:
            raise _NotByKeyError(f"ON does not equate the record key: {', '.join(missing)}")
        return keys, extra

    def _equated(self, part: Tree) -> tuple[str, Tree] | None:
        """The column of the table and the value of the source that a condition equates."""
        if not isinstance(part, exp.EQ):
            return None
        for one, other in ((part.this, part.expression), (part.expression, part.this)):
            names = [p.name for p in one.parts] if isinstance(one, exp.Column) else []
            is_target = len(names) == 2 and self._alias(names[0]) == TARGET
            if is_target and self._sides(other) == {SOURCE}:
                return column_named(names[1], self.schema), other
        return None

    def _partitions(self, keys: Mapping[str, Tree], extra: list[Tree]) -> dict[str, Tree]:
        """The source's value of each partition column.  A condition that equates one is dropped
        from extra where the index finds records within partitions."""
        is_global = self.table.has_global_keys()
        inserts = self._of(Pair.NOT_MATCHED)
        found: dict[str, Tree] = {}
        for name in self.table.config.partition_fields:
            if name in keys:
                continue
            equal = [part for part in extra if (self._equated(part) or ("",))[0] == name]
            value = self._equated(equal[0])[1] if equal else self._source_column(name)  # type: ignore[index]
            if value is None and inserts and inserts[0].assignments is not None:
                value = inserts[0].assignments.get(name)
            if value is None and is_global and not inserts:
                value = exp.null()  # where the record is, the index knows
            if value is None:
                raise _NotByKeyError(f"the source has no value of the partition column {name}")
            if equal and not is_global:
                extra.remove(equal[0])
            found[name] = value
        return found

    def _check_inserted(self, clause: MergeClause, fixed: Mapping[str, Tree]) -> None:
        for name, tree in fixed.items():
            values = clause.assignments
            value = self._source_column(name) if values is None else values.get(name)
            if value is None or not _same(value, tree):
                raise _NotByKeyError(f"a row is inserted with another {name} than ON equates")

    def _key_clauses(self, fixed: Mapping[str, Tree], computed: _Computed) -> tuple[Clause, ...]:
        found = []
        for clause in self.clauses:
            values = None
            if clause.assignments is not None:
                given = clause.assignments
                if clause.act is Act.INSERT:
                    names = [name for name in self.schema.names if name not in fixed]
                    given = {name: given.get(name, exp.null()) for name in names}
                values = {n: self._value(v, clause.pair, computed) for n, v in given.items()}
            elif clause.act is Act.INSERT:
                values = {n: None for n in self.schema.names if self._source_column(n) is None}
            if clause.act is Act.INSERT and not values:
                values = None
            kind = _KINDS[clause.pair, clause.act]
            where = self._filter(clause.condition, clause.pair, computed)
            found.append(Clause(kind, where, values))
        return tuple(found)

    def _value(self, tree: Tree, pair: Pair, computed: _Computed) -> Any:
        """A value of a clause: a column that the engine computes, or SQL text of the merge."""
        if isinstance(tree, exp.Null):
            return None
        if TARGET not in self._sides(tree) and pair is not Pair.NOT_MATCHED_BY_SOURCE:
            return pc.field(SOURCE, computed.add(tree))
        return self._text(tree, pair, computed)

    def _filter(self, tree: Tree | None, pair: Pair, computed: _Computed) -> Any:
        return None if tree is None else self._value(tree, pair, computed)

    def _text(self, tree: Tree, pair: Pair, computed: _Computed) -> str:
        """A tree as SQL text over `source` and `target`, in which the engine computes what uses
        the source only."""
        holder = exp.Paren(this=tree.copy())
        self._compute(holder.this, pair, computed)
        return str(holder.this.sql())

    def _compute(self, node: Tree, pair: Pair, computed: _Computed) -> None:
        sides = self._sides(node)
        if isinstance(node, exp.Column):
            side = TARGET if TARGET in sides else SOURCE
            names = [part.name for part in node.parts][1:]
            if side == SOURCE:
                node.replace(column_of(SOURCE, computed.add(node)))
            else:
                parts = (exp.to_identifier(n, quoted=True) for n in reversed([TARGET, *names]))
                node.replace(exp.column(*parts))
            return
        if isinstance(node, exp.Literal) and node.is_string and _is_zoned(node.name):
            raise _NotByKeyError("a text has a zone, which a column without one may not take")
        is_open = isinstance(node, exp.Query | exp.Subquery | exp.Exists | exp.Placeholder)
        if TARGET not in sides and (is_open or SOURCE in sides):
            if pair is Pair.NOT_MATCHED_BY_SOURCE:
                raise _NotByKeyError("a clause for other records uses a parameter or a subquery")
            node.replace(column_of(SOURCE, computed.add(node)))
            return
        if is_open:
            raise _NotByKeyError("a subquery uses the stored record")
        for child in list(node.iter_expressions()):
            self._compute(child, pair, computed)

    # -- by join -------------------------------------------------------------------------------

    def by_join(self, reason: str) -> Plan:
        """reason: why it is not by key."""
        config = self.table.config
        fixed = tuple(dict.fromkeys((*config.record_key_fields, *config.partition_fields)))
        op = self._op()
        computed = _Computed()
        clauses = []
        for number, clause in enumerate(self.clauses):
            values = None
            if clause.act is not Act.DELETE:
                given = self._joined_values(clause, fixed)
                values = {
                    name: None
                    if isinstance(value, exp.Null)
                    else pc.field(SOURCE, computed.add(_if(_is(op, number), value)))
                    for name, value in given.items()
                }
                if not values and clause.act is Act.UPDATE:
                    continue
            kind = ClauseKind[clause.act.name]
            clauses.append(Clause(kind, pc.field(SOURCE, _OP) == number, values or None))
        if not clauses:  # all are updates of no column
            clauses.append(Clause(ClauseKind.UPDATE, pc.scalar(False)))
        inserts = [n for n, c in enumerate(self.clauses) if c.act is Act.INSERT]
        if inserts:
            stored = pc.field(SOURCE, _OP).isin(pa.array(inserts, pa.int64()))
            clauses.append(Clause(ClauseKind.REFUSE, stored, None, EXISTS))
        tree = self._joined(op, fixed, computed)
        query = self.binder.bound(tree)
        given = self.engine.schema(query)
        found = _with_doubles(given, self.schema)
        check_merge(self.table, found, tuple(clauses), self.schema)
        way = f"records are found by a join with all rows of the table: {reason}"
        is_cast, order = found != given, tuple(clauses)
        return Plan(self.table, query, found, order, self._duplicates(tree), way, is_cast)

    def _op(self) -> Tree:
        """The number of the clause that a pair goes to, or null.

        Where an ordering field decides between joined rows, all source rows of a record take
        part, also those that no clause applies to.
        """
        target = _present(self.statement.target.alias, _IN_TARGET)
        source = _present(self.statement.source_alias, _IN_SOURCE)
        pairs = {
            Pair.MATCHED: (target, source),
            Pair.NOT_MATCHED: (exp.not_(target), source),
            Pair.NOT_MATCHED_BY_SOURCE: (target, exp.not_(source)),
        }
        found = exp.Case()
        for number, clause in enumerate(self.clauses):
            condition = exp.and_(
                *pairs[clause.pair], *([clause.condition] if clause.condition else [])
            )
            found = found.when(condition, exp.cast(exp.Literal.number(number), "bigint"))
        if self._folds:
            no_clause = exp.cast(exp.Literal.number(_NO_CLAUSE), "bigint")
            found = found.when(exp.and_(target, source), no_clause)
        return found

    @property
    def _folds(self) -> bool:
        """Whether an ordering field decides between joined rows: ON does not equate the key."""
        return bool(self._ordering()) and not self._own_places()

    def _own_places(self) -> dict[str, Tree]:
        """The source's value of each key and partition column, if ON equates the record key."""
        config = self.table.config
        equal = dict(pair for part in conjuncts(self.on) if (pair := self._equated(part)))
        if not equal.keys() >= set(config.record_key_fields):
            return {}
        for name in config.partition_fields:
            equal.setdefault(name, self._source_column(name) or exp.null())
        return equal

    def _joined_values(self, clause: MergeClause, fixed: Sequence[str]) -> dict[str, Tree]:
        given: dict[str, Tree] = {}
        for name in self.schema.names:
            if name in fixed:
                continue
            value = self._source_column(name)
            if clause.assignments is not None:
                value = clause.assignments.get(name)
            if value is not None:
                given[name] = value
            elif clause.act is Act.INSERT:
                given[name] = exp.null()
        return given

    def _joined(self, op: Tree, fixed: Sequence[str], computed: _Computed) -> Tree:
        columns = [as_column(self._fixed_value(name, op), name) for name in fixed]
        source = self.statement.source_alias
        for name in self._ordering():
            if name in fixed:
                continue
            value = _if(_present(source, _IN_SOURCE), self._source_column(name))
            value.set("default", own_column(self.statement.target, name))
            columns.append(as_column(value, name))
        columns += [as_column(op, _OP), *computed.columns()]
        target = _marked(table_of(self.statement.target), _IN_TARGET, self.statement.target.alias)
        rows = _marked(self.statement.source.copy(), _IN_SOURCE, source, self._newest())
        whens = {clause.pair for clause in self.clauses}
        outer = {
            (True, True): "full", (True, False): "right", (False, True): "left",
            (False, False): "inner",
        }[Pair.NOT_MATCHED in whens, Pair.NOT_MATCHED_BY_SOURCE in whens]  # fmt: skip
        joined = exp.select(*columns).from_(target).join(rows, on=self.on.copy(), join_type=outer)
        inner = exp.Subquery(this=joined, alias=exp.TableAlias(this=exp.to_identifier("q")))
        return exp.select("*").from_(inner).where(_present("q", _OP))

    def _fixed_value(self, name: str, op: Tree) -> Tree:
        """A key or partition column: that of the stored record, or of the row to insert."""
        found = exp.Case()
        stored = own_column(self.statement.target, name)
        for number, clause in enumerate(self.clauses):
            if clause.act is not Act.INSERT:
                continue
            values = clause.assignments
            value = self._source_column(name) if values is None else values.get(name)
            found = found.when(_is(op, number), (value or exp.null()).copy())
        return found.else_(stored) if found.args.get("ifs") else stored

    def _places(self) -> tuple[str, ...]:
        """The columns that identify a record."""
        config = self.table.config
        more = () if self.table.has_global_keys() else config.partition_fields
        return tuple(dict.fromkeys((*config.record_key_fields, *more)))

    def _newest(self) -> Tree | None:
        """Whether a row of the source is one that the clauses see: of those with one key, the one
        with the greatest ordering value.  Equals remain, and are refused.  None: all are seen, as
        ON does not equate the key or there is no ordering field."""
        own, ordering = self._own_places(), self._ordering()
        if not own or not ordering:
            return None
        order = [
            exp.Ordered(this=self._source_column(name), desc=True, nulls_first=False)
            for name in ordering
        ]
        rank = exp.Window(
            this=exp.Rank(),
            partition_by=[own[name].copy() for name in self._places()],
            order=exp.Order(expressions=order),
        )
        return _is(rank, 1)

    def _duplicates(self, tree: Tree) -> Bound | None:
        """A query of the keys that several rows have.  Where an ordering field decides between
        joined rows, of those that a row to insert shares with others; None without such rows."""
        several: Tree = exp.GT(this=exp.Count(this=exp.Star()), expression=exp.Literal.number(1))
        if self._folds:
            inserts = [n for n, c in enumerate(self.clauses) if c.act is Act.INSERT]
            if not inserts:
                return None
            numbers = [exp.Literal.number(n) for n in inserts]
            inserted = exp.In(this=column_of("q", _OP), expressions=numbers)
            some = [
                exp.EQ(
                    this=exp.Max(this=_if(which, exp.Literal.number(1))),
                    expression=exp.Literal.number(1),
                )
                for which in (inserted, exp.not_(exp.Paren(this=inserted.copy())))
            ]
            several = exp.and_(*some)
        keys = [column_of("q", name) for name in self._places()]
        inner = exp.Subquery(this=tree.copy(), alias=exp.TableAlias(this=exp.to_identifier("q")))
        count = exp.Count(this=exp.Star())
        found = (
            exp.select(*(key.copy() for key in keys), as_column(count, "n"))
            .from_(inner)
            .group_by(*(key.copy() for key in keys))
            .having(several)
            .limit(_SHOWN)
        )
        return self.binder.bound(found)


def _is_nested(node: Tree, within: Tree) -> bool:
    """Whether a node is in a subquery of a tree."""
    return any(isinstance(parent, exp.Query) for parent in _parents(node, within))


def _parents(node: Tree, within: Tree) -> Iterator[Tree]:
    while node.parent is not None and node.parent is not within:
        node = node.parent
        yield node


def _is_zoned(text: str) -> bool:
    """Whether a text is a time with a zone: filters convert it to UTC, the engine drops the zone
    where it compares it with a column without one."""
    try:
        return states_zone(text)
    except ValueError:
        return False


def _same(one: Tree, other: Tree) -> bool:
    """Whether two expressions are equal but for the case and quotes of names."""
    return _plain(one) == _plain(other)


def _plain(tree: Tree) -> str:
    return str(tree.sql(identify=True)).lower() if isinstance(tree, exp.Column) else str(tree.sql())


def _present(alias: str, name: str) -> Tree:
    return _is_known(column_of(alias, name))


def _is_known(value: Tree) -> Tree:
    return exp.Not(this=exp.Is(this=value.copy(), expression=exp.null()))


def _is(op: Tree, number: int) -> Tree:
    return exp.EQ(this=exp.Paren(this=op.copy()), expression=exp.Literal.number(number))


def _if(condition: Tree, value: Tree) -> Tree:
    return exp.Case().when(condition, value.copy())


def _marked(rows: Tree, mark: str, alias: str, where: Tree | None = None) -> Tree:
    """The rows for which a condition is true, with a column that is true."""
    marked = exp.select("*", as_column(where or exp.true(), mark)).from_(rows)
    if where is None:
        return _aliased(marked, alias)
    return _aliased(
        exp.select("*").from_(_aliased(marked, alias)).where(column_of(alias, mark)), alias
    )


def _aliased(query: Tree, alias: str) -> Tree:
    return exp.Subquery(
        this=query, alias=exp.TableAlias(this=exp.to_identifier(alias, quoted=True))
    )


__all__ = ["Plan", "plan"]

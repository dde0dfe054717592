"""References of a query to tables, replaced by names of views.

A table that a statement names several times is one snapshot, pinned when its first name is found.
What a query may read is closed: tables, rows that the call gives, subqueries, and the table
functions listed here; no file and no other function.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from sqlglot import exp

from pyhudi.api.table import Table
from pyhudi.errors import UserError
from pyhudi.metadata.all_records import all_records
from pyhudi.near_names import near_names
from pyhudi.records import META_COLUMNS
from pyhudi.sql.grammar import closed, refuse
from pyhudi.sql.names import Names
from pyhudi.sql.procedure_rows import metadata_of
from pyhudi.sql.statements import Name, Tree


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The rows of a table as of a time.  table: frozen."""

    table: Table
    as_of: str | None = None
    with_meta: bool = False


@dataclass(frozen=True, slots=True)
class Changes:
    """Rows written in a range of positions.  cdc: every change, instead of the latest state."""

    table: Table
    since: str
    until: str | None
    cdc: bool


@dataclass(frozen=True, slots=True)
class Keyed:
    """The rows with these keys, by the table's index."""

    table: Table
    keys: Any


@dataclass(frozen=True, slots=True)
class Given:
    """Rows that the call gives."""

    rows: Any


Relation: TypeAlias = Snapshot | Changes | Keyed | Given


@dataclass(frozen=True, slots=True)
class Bound:
    """A query whose tables are names of relations.  parameters: by the names in the tree.

    idle: what an engine keeps from one query of the statement to the next, with its relations.
    """

    tree: Tree
    relations: Mapping[str, Relation]
    parameters: Mapping[str, Any]
    idle: list[tuple[Mapping[str, Relation], Any]] = field(default_factory=list)

    def used(self) -> dict[str, Any]:
        """The parameters that occur in the tree."""
        names = {node.name for node in self.tree.find_all(exp.Placeholder)}
        return {name: value for name, value in self.parameters.items() if name in names}

    def at(self, table: Table) -> Bound:
        """The same query, in which the newest snapshot of a table is another one.

        A relation stays as it is where the timeline has not changed: it has the same rows.
        """

        def moved(relation: Relation) -> Relation:
            if isinstance(relation, Given) or relation.table.path != table.path:
                return relation
            if relation.table.timeline == table.timeline:
                return relation
            return replace(relation, table=table)

        found = {name: moved(relation) for name, relation in self.relations.items()}
        return replace(self, relations=found)


_PLAIN_FUNCTIONS: Final = (
    "Explode",
    "ExplodeOuter",
    "Posexplode",
    "Unnest",
    "GenerateSeries",
    "Stack",
    "Inline",
)
_TABLE_ARGUMENTS: Final = frozenset(
    {"this", "db", "catalog", "alias", "version", "joins", "laterals", "pivots", "sample"}
)


@dataclass(slots=True)
class Binder:
    """Binds the trees of one statement.  token: a part of the names of its relations, which
    makes them those of no other statement of a session."""

    names: Names
    parameters: Mapping[str, Any]
    relations: dict[str, Relation] = field(default_factory=dict)
    token: str = field(default_factory=lambda: secrets.token_hex(4))
    idle: list[tuple[Mapping[str, Relation], Any]] = field(default_factory=list)
    _found: dict[str, Any] = field(default_factory=dict)

    def table(self, name: Name) -> Table:
        """The table that a statement writes to, frozen.  Raises UserError for rows."""
        found = self._named(name)
        if not isinstance(found, Table):
            raise UserError(
                "the name is that of rows, which cannot be written to",
                table=str(name),
                hint="pass the path of a table",
            )
        return found

    def bound(self, tree: Tree) -> Bound:
        """A query over relations; the given tree stays as it is."""
        holder = exp.Paren(this=tree.copy())
        meta = _names_meta(holder)
        for node in list(holder.find_all(exp.Table)):
            if not _is_common(node):
                node.replace(self._bound_table(node, with_meta=meta))
        _check_sources(holder)
        return Bound(holder.this, self.relations, self.parameters, self.idle)

    def add(self, relation: Relation) -> str:
        """The name of a relation."""
        for name, known in self.relations.items():
            if _is_same(known, relation):
                return name
        name = f"__pyhudi_{self.token}_{len(self.relations)}"
        self.relations[name] = relation
        return name

    def _named(self, name: Name) -> Any:
        text = str(name)
        if text not in self._found:
            found = self.names.find(name)
            if isinstance(found, Table):  # two names of one table see one snapshot
                same = (o for o in self._found.values() if isinstance(o, Table))
                found = next((one for one in same if one.path == found.path), found)
            self._found[text] = found
        return self._found[text]

    def _bound_table(self, node: Tree, *, with_meta: bool) -> Tree:
        function = node.this
        if not isinstance(function, exp.Identifier):
            relation = self._function(node, function)
            if relation is None:
                return node
            alias = str(function.name)
        else:
            closed(node, _TABLE_ARGUMENTS)
            parts = tuple(part.name for part in node.parts)
            found = self._named(Name(parts, parts[-1]))
            alias = parts[-1]
            relation = self._relation(node, found, with_meta=with_meta)
        new = exp.to_table(self.add(relation))
        for argument in ("alias", "joins", "laterals", "pivots", "sample"):
            if node.args.get(argument):
                new.set(argument, node.args[argument])
        if not node.args.get("alias"):
            new.set("alias", exp.TableAlias(this=exp.to_identifier(alias, quoted=True)))
        return new

    def _relation(self, node: Tree, found: Any, *, with_meta: bool) -> Relation:
        version = node.args.get("version")
        if isinstance(found, Table):
            return Snapshot(found, None if version is None else self._time(version), with_meta)
        if version is not None:
            refuse(node, "rows of the call have no versions")
        return Given(found)

    def _time(self, version: Tree) -> str:
        if str(version.args.get("kind")).upper() != "AS OF":
            refuse(version, "only AS OF is supported here")
        return str(self.constant(version.expression, version))

    def argument(self, node: Tree) -> Any:
        """The value of an argument of CALL: a literal, null or a parameter."""
        return None if isinstance(node, exp.Null) else self.constant(node, node)

    def constant(self, node: Tree, within: Tree) -> Any:
        """The value of a literal or parameter."""
        if isinstance(node, exp.Placeholder):
            return self.parameters[node.name]
        if isinstance(node, exp.Array):
            return [self.constant(one, within) for one in node.expressions]
        if isinstance(node, exp.Cast) and isinstance(node.this, exp.Literal):
            node = node.this  # timestamp '...'
        if isinstance(node, exp.Literal | exp.Boolean | exp.Neg):
            is_decimal = isinstance(node, exp.Literal) and not (node.is_string or node.is_int)
            return node.name if is_decimal else node.to_py()
        return refuse(within, "a constant or a parameter is expected here")

    def _function(self, node: Tree, call: Tree) -> Relation | None:
        """The relation of a table function of ours; None for one of the engine."""
        if type(call).__name__ in _PLAIN_FUNCTIONS or (
            isinstance(call, exp.Anonymous) and call.name.lower() == "range"
        ):
            return None
        name = call.name.lower() if isinstance(call, exp.Anonymous) else ""
        make = _FUNCTIONS.get(name)
        if make is None:
            near = near_names(call.name if name else call.key, _FUNCTIONS)
            refuse(
                node,
                "the table function is not supported",
                hint=f"did you mean {near[0]}?" if near else f"known: {', '.join(_FUNCTIONS)}",
            )
        given = [self.constant(one, node) for one in call.expressions]
        table = self.table(name_in(str(given[0]))) if given else None
        if table is None:
            refuse(node, "the table function needs a table")
        return make(table, given[1:], node)


def _is_same(one: Relation, other: Relation) -> bool:
    """Whether two relations have the same rows; rows and keys that a call gives are not compared
    by their values."""
    if isinstance(one, Given) and isinstance(other, Given):
        return one.rows is other.rows
    return one is other or (not isinstance(one, Given | Keyed) and one == other)


def name_in(text: str, *, is_path: bool = False) -> Name:
    """The name in an argument: a name, or a path."""
    if is_path or "/" in text:
        return Name(("hudi", text), text)
    parts = tuple(text.split("."))
    return Name(parts, parts[-1])


def _changes(table: Table, given: list[Any], node: Tree) -> Relation:
    """hudi_table_changes(table, 'latest_state' | 'cdc', begin [, end])"""
    kinds = ("latest_state", "cdc")
    if not 2 <= len(given) <= 3 or given[0] not in kinds:
        refuse(node, hint="hudi_table_changes(table, 'latest_state' or 'cdc', begin[, end])")
    since = "000" if str(given[1]).lower() == "earliest" else str(given[1])
    return Changes(table, since, str(given[2]) if len(given) > 2 else None, given[0] == "cdc")


def _lookup(table: Table, given: list[Any], node: Tree) -> Relation:
    """pyhudi_lookup(table, key or array of keys)"""
    if len(given) != 1:
        refuse(node, hint="pyhudi_lookup(table, array('k1', 'k2'))")
    return Keyed(table, given[0])


def _timeline(table: Table, given: list[Any], node: Tree) -> Relation:
    """hudi_query_timeline(table [, archived])"""
    import pyarrow as pa

    if len(given) > 1:
        refuse(node, hint="hudi_query_timeline(table, 'true')")
    archived = bool(given) and str(given[0]).lower() == "true"
    found = [(i, False) for i in table.timeline]
    if archived:
        found = [*((i, True) for i in table.archived_timeline), *found]
    kinds = pa.schema(
        [("timestamp", pa.string()), ("action", pa.string()), ("state", pa.string()),
         ("completion_time", pa.string()), ("archived", pa.bool_())]
    )  # fmt: skip
    rows = [
        {"timestamp": str(i.time), "action": i.action.value, "state": i.state.name,
         "completion_time": getattr(i, "completed_at", None), "archived": is_archived}
        for i, is_archived in found
    ]  # fmt: skip
    return Given(pa.Table.from_pylist(rows, kinds))


def _metadata(table: Table, given: list[Any], node: Tree) -> Relation:
    """hudi_metadata(table)"""
    if given:
        refuse(node, hint="hudi_metadata(table)")
    return Given(all_records(metadata_of(table)))


_FUNCTIONS: Final[Mapping[str, Callable[[Table, list[Any], Tree], Relation]]] = {
    "hudi_table_changes": _changes,
    "hudi_query_timeline": _timeline,
    "hudi_metadata": _metadata,
    "pyhudi_lookup": _lookup,
}


def tables_in(tree: Tree) -> list[Tree]:
    """The tables and table functions that a query reads, without its common table expressions."""
    holder = exp.Paren(this=tree.copy())
    return [node for node in holder.find_all(exp.Table) if not _is_common(node)]


def is_table_function(node: Tree) -> bool:
    """Whether a table of a query is one of the functions that are listed here."""
    return isinstance(node.this, exp.Anonymous) and node.this.name.lower() in _FUNCTIONS


def _names_meta(tree: Tree) -> bool:
    """Whether a query names a meta column: `*` alone leaves these out."""
    return any(column.name.lower() in META_COLUMNS for column in tree.find_all(exp.Column))


def _is_common(node: Tree) -> bool:
    """Whether a table is the name of a common table expression that is visible there."""
    if len(node.parts) != 1 or not isinstance(node.this, exp.Identifier):
        return False
    return node.name.lower() in _visible(node)


def _visible(node: Tree) -> Iterator[str]:
    child, parent = node, node.parent
    while parent is not None:
        if isinstance(parent, exp.With):
            for common in parent.expressions:
                if common is child and not parent.args.get("recursive"):
                    break
                yield common.alias.lower()
        else:
            for scope in parent.args.values():
                if isinstance(scope, exp.With) and scope is not child:
                    yield from (common.alias.lower() for common in scope.expressions)
        child, parent = parent, parent.parent


def _check_sources(tree: Tree) -> None:
    """Raise UserError for what a query may not contain."""
    for kind in (
        exp.Into,
        exp.Lock,
        exp.Insert,
        exp.Update,
        exp.Delete,
        exp.Merge,
        exp.Command,
        exp.ReadCSV,
    ):
        found = tree.find(kind)
        if found is not None:
            refuse(found)
